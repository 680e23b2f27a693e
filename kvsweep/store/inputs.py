"""The files that a sweep names, by their content: a store is not continued with others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from kvsweep.config.pools import pools_of
from kvsweep.config.preset import load_preset
from kvsweep.workload.trace_sums import trace_sums

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.grid import Plan

TRACES = "traces"
"""The SHA-256 of each trace, by its name; of a sweep without any there is no such attribute."""
FILES = "files"
"""Likewise of what is in each preset and config.json that is no part of kvsweep."""

# Keys of a preset that say where it comes from.
_WORDS = {"model", "hardware", "source", "fit"}


def input_sums(plan: Plan, folder: Path) -> dict[str, dict[str, str]]:
    """Return the sums of what a sweep reads, by the attribute of a store that they make.

    Parameters
    ----------
    plan : Plan
        Its cells.
    folder : Path
        What names are relative to.

    Raises
    ------
    InputError
        If a trace cannot be read.
    """
    return sums_of_cells(plan.variants, plan.policies, plan.seeds, folder)


def sums_of_cells(
    variants: Sequence[Scenario],
    policies: Sequence[str | None],
    seeds: Sequence[int],
    folder: Path,
) -> dict[str, dict[str, str]]:
    """Return the sums of what some cells read, as `input_sums` does of all."""
    found = {
        TRACES: trace_sums(variants, policies, seeds, folder),
        FILES: _file_sums(variants, folder),
    }
    return {name: sums for name, sums in found.items() if sums}


def _file_sums(variants: Iterable[Scenario], folder: Path) -> dict[str, str]:
    """Return a SHA-256 of what matters in each file that scenarios name."""
    presets: set[str] = set()
    configs: set[str] = set()
    for variant in variants:
        presets.update(_presets(variant))
        if variant.model is not None and variant.model.config is not None:
            configs.add(variant.model.config)
    contents = {
        name: load_preset(name, folder).model_dump_json(exclude=_WORDS, exclude_defaults=True)
        for name in presets
        if name.endswith(".toml")
    }
    for name in configs:
        contents[name] = _config(folder / name)
    return {name: hashlib.sha256(contents[name].encode()).hexdigest() for name in sorted(contents)}


def _presets(variant: Scenario) -> Iterator[str]:
    """Yield the presets of a scenario and of its pools."""
    if variant.latency.model is not None:
        yield variant.latency.model
    for _, pool in pools_of(variant.cluster):
        if pool.latency is not None and pool.latency.model is not None:
            yield pool.latency.model


def _config(path: Path) -> str:
    from kvsweep.sizing.shapes import load_config

    return json.dumps(load_config(str(path))[0], sort_keys=True)
