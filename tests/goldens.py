"""Recorded runs of the real systems, kept under ``tests/goldens`` (see its README)."""

import gzip
import json
from pathlib import Path

FOLDER = Path(__file__).parent / "goldens"


def vllm_cases(group="vllm"):
    """Return the names of the cases recorded from vLLM's scheduler, sorted."""
    return sorted(path.name.removesuffix(".json.gz") for path in (FOLDER / group).glob("*.gz"))


def load(name, group="vllm"):
    """Return a case as a dict in the trace format, with ``expected`` and ``about``."""
    with gzip.open(FOLDER / group / f"{name}.json.gz", "rt", encoding="utf-8") as file:
        return json.load(file)
