"""Options of ``kvsweep measure gpu``: how large batches get, and what is added to the times."""

from __future__ import annotations

from typing import Any

import click

from kvsweep.cli.base import Range
from kvsweep.limits import MAX_ADDED_US, MAX_GB_PER_S, MIN_GB_PER_S

positive = click.IntRange(min=1)
microseconds = Range(min=0, max=MAX_ADDED_US)


def range_options(command: Any) -> Any:
    """Add the options that say how large batches get."""
    for name, what in (
        ("--pool-tokens", "Tokens of the KV cache [what the GPU has room for; 16384]."),
        ("--max-model-len", "Tokens of a request [the model's, at most 32768; 2048]."),
        ("--max-num-seqs", "Requests of a step [vLLM's default on this GPU; 32]."),
        ("--max-num-batched-tokens", "Tokens of a step [vLLM's default on this GPU; 512]."),
    ):
        command = click.option(name, type=positive, metavar="N", help=what)(command)
    return command


ADDED = {
    "allreduce_token_us": "--allreduce-gb-s",
    "allreduce_step_us": "--allreduce-us",
    "host_overhead_us": "--host-overhead-us",
}
"""The option of each term of a preset that is not measured."""


def added_options(command: Any) -> Any:
    """Add the options of terms that are not measured."""
    speed = Range(MIN_GB_PER_S, MAX_GB_PER_S)
    about = (
        (speed, "Bandwidth of an all-reduce of --tp GPUs [0.75 of links]."),
        (microseconds, "Latency of an all-reduce [10]."),
        (microseconds, "What the host takes a step [500]."),
    )
    for name, (kind, what) in zip(ADDED.values(), about, strict=True):
        command = click.option(name, type=kind, metavar="X", help=what)(command)
    return command
