"""What traces (`kvsweep-trace/1`) ask of an engine that is started once for all of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from record_vllm.requests import Request, read_requests
from record_vllm.scenario import Scenario, read_scenario
from record_vllm.traces import Document, load

from kvsweep.errors import InputError

STATES = "states"
_ANY_LATENCY = {"alpha": [0, 0, 0], "beta": [1, 0, 0]}


class Asked(NamedTuple):
    """A trace: its file, all of it, and what the recorder reads of it."""

    path: Path
    document: Document
    scenario: Scenario
    requests: list[Request]


def read_traces(paths: tuple[Path, ...]) -> list[Asked]:
    """Read traces that one engine can run, which differ in blocks and requests alone.

    Raises
    ------
    InputError
        If one is malformed, asks for what random weights on one GPU do not have, or for another
        engine than the first.
    """
    names = [path.name for path in paths]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{twice}: two traces have this name, by which they are written")
    asked = [_read(path) for path in paths]
    first = asked[0]
    for each in asked[1:]:
        if replace(each.scenario, gpu_blocks=0) != replace(first.scenario, gpu_blocks=0):
            raise InputError(f"{each.path}: scenario: asks for another engine than {first.path}")
    return asked


def _read(path: Path) -> Asked:
    document = load(path)
    scenario = document.get("scenario")
    if isinstance(scenario, dict):  # how long steps take is what is measured
        scenario = {**scenario, "latency": _ANY_LATENCY}
    found = read_scenario(scenario, str(path))
    if found.disaggregation is not None:
        raise InputError(f"{path}: scenario.cluster.prefill_instances: not on one GPU")
    return Asked(path, document, found, read_requests(document, str(path)))


def settings(scenario: Scenario) -> dict[str, Any]:
    """Return what of vLLM's `EngineArgs` a scenario says."""
    return {
        "max_num_seqs": scenario.max_num_seqs,
        "max_num_batched_tokens": scenario.max_num_batched_tokens,
        "long_prefill_token_threshold": scenario.long_prefill_token_threshold,
        "enable_chunked_prefill": scenario.enable_chunked_prefill,
        "enable_prefix_caching": scenario.enable_prefix_caching,
        "scheduling_policy": scenario.scheduler,
        "scheduler_reserve_full_isl": scenario.reserve_full_prompt,
        "watermark": scenario.watermark,
        "async_scheduling": scenario.async_scheduling,
        "block_size": scenario.block_size,
    }


def drafting(
    scenario: Scenario, drafts: Path | None, acceptance: tuple[float, ...]
) -> dict[str, Any]:
    """Return what drafts add to `settings`: vLLM accepts them by chance, as random weights cannot.

    Raises
    ------
    InputError
        If the scenario has drafts and either of the other two is missing, or the other way round.
    """
    speculative = scenario.speculative
    if speculative is None:
        if drafts or acceptance:
            raise InputError("--drafts, --acceptance: the traces have no engine.speculative")
        return {}
    if drafts is None or not (drafts / "config.json").is_file():
        raise InputError("--drafts: expected a folder with the config.json of what drafts")
    if len(acceptance) != speculative.tokens:
        raise InputError(f"--acceptance: expected {speculative.tokens} shares, one a draft")
    return {
        "speculative_config": {
            "model": str(drafts),
            "method": {"draft": "draft_model"}.get(speculative.method, speculative.method),
            "num_speculative_tokens": speculative.tokens,
            "rejection_sample_method": "synthetic",
            "synthetic_acceptance_rates": list(acceptance),
        }
    }


def check_groups(each: Asked, windows: Sequence[int | str | None]) -> None:
    """Refuse groups of layers that are not those of the model, in whatever order.

    Raises
    ------
    InputError
        If they differ.
    """
    asked = Counter(
        STATES if group.kind == "state" else group.window for group in each.scenario.groups
    )
    if asked != Counter(windows):
        told = ", ".join(_group(window) for window in windows)
        raise InputError(f"{each.path}: scenario.cache.groups: this model's are {told}")


def _group(window: int | str | None) -> str:
    if window is None:
        return "full"
    return window if isinstance(window, str) else f"window {window}"


def prompt_ids(request: Request, vocabulary: int) -> list[int]:
    """Return the tokens of a prompt: the same for the same content, and all of the vocabulary."""
    return list(
        chain.from_iterable(
            random.Random(f"segment {segment}").choices(range(vocabulary), k=tokens)
            for segment, tokens in request.prompt
        )
    )
