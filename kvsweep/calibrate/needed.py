"""What a measured trace must say of its server: settings for which no guess is safe."""

from __future__ import annotations

from pathlib import Path

from kvsweep.config import Scenario
from kvsweep.errors import InputError

_REMEDIES = {
    ("cache", "gpu_blocks"): (
        "the server's KV blocks without vLLM's null block, which `kvsweep blocks --log FILE` tells "
        "of vLLM's start-up log or a scrape of its /metrics"
    ),
    ("engine", "max_num_seqs"): (
        "the server's --max-num-seqs, which vLLM's start-up log prints with its engine arguments"
    ),
}

_ASSUMED = {
    ("engine", "max_num_batched_tokens"): "--max-num-batched-tokens",
    ("cache", "block_size"): "--block-size",
    ("engine", "async_scheduling"): "--async-scheduling, which vLLM has on since 0.14",
}


def check_told(scenario: Scenario, path: Path) -> None:
    """Refuse a trace that leaves a setting to a default which the server need not have had.

    Raises
    ------
    InputError
        That names the key, where to find its value, and how to give it.
    """
    for (section, key), remedy in _REMEDIES.items():
        if not _told(scenario, section, key):
            raise InputError(
                f"{path}: {section}.{key}: missing, and times depend on it: {remedy}; give it in "
                f"the trace's scenario or by --set {section}.{key}=N"
            )


def assumed(scenario: Scenario) -> tuple[str, ...]:
    """Name the settings that the trace does not tell, and what is taken instead."""
    return tuple(
        f"{section}.{key}: not in the trace, {_value(scenario, section, key)} assumed "
        f"(the server's {option})"
        for (section, key), option in _ASSUMED.items()
        if not _told(scenario, section, key)
    )


def _value(scenario: Scenario, section: str, key: str) -> str:
    """Return a setting as a file would have it, with commas."""
    value = getattr(getattr(scenario, section), key)
    return str(value).lower() if isinstance(value, bool) else f"{value:,}"


def _told(scenario: Scenario, section: str, key: str) -> bool:
    return key in getattr(scenario, section).model_fields_set
