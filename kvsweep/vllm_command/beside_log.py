"""What a server's own log tells beside its command, and where the two contradict each other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kvsweep.sizing import asking
from kvsweep.sizing.dtypes import BYTES, cache_dtype
from kvsweep.sizing.question import Question as OfBlocks
from kvsweep.sizing.server_log import ServerLog, read_server
from kvsweep.vllm_command.checks import kept_dtype, said_of_the_command
from kvsweep.vllm_command.release import is_other, other_release
from kvsweep.vllm_command.values import Values
from kvsweep.vllm_command.words import Command


def told_by_log(
    path: Path | None, chosen: str | None, command: Command
) -> tuple[dict[str, Any], list[str]]:
    """Return what a log tells for `Known`, and what there is to say of it.

    Parameters
    ----------
    path : Path or None
        The log; None: there is none.
    chosen : str or None
        The model that is given beside the command.
    command : Command
        The command.
    """
    of_image = other_release(command.release)
    if path is None:
        return {}, [of_image] if of_image else []
    log, values = read_server(path), Values(command)
    tp, pp = values.whole("tensor-parallel-size"), values.whole("pipeline-parallel-size")
    model = chosen or command.model
    asked = OfBlocks(
        model=model,
        log=path,
        tp=tp,
        pp=pp,
        dtype=None if model is None else kept_dtype(values, model),
        block_size=values.whole("block-size"),
    )
    with said_of_the_command(command.where, model or ""):
        told = asking.answer(asked)
    tokens = log.settings.get("max_num_batched_tokens")
    found = {
        "blocks": told.blocks,
        "block_size": log.block_size,
        "tokens": tokens,
        "synchronous": log.settings.get("async_scheduling") is False,
        "gdn_prefill": log.settings.get("gdn_prefill"),
    }
    of_image = of_image if log.version is None else None  # the log knows better
    here: dict[str, Any] = {"tp": tp or 1, "pp": pp or 1}
    here["prefix_caching"] = values.switch("enable-prefix-caching") is not False
    if told.served is not None:
        shape = told.served.model
        here["dtype"] = cache_dtype(asked.dtype or "auto", shape.dtype, shape.kept_dtype)
    return found, [*filter(None, [of_image]), *_of_log(log, here), *told.warnings]


_SAID = {
    "tp": "--tensor-parallel-size {}",
    "pp": "--pipeline-parallel-size {}",
    "dtype": "keys and values in {}",
    "prefix_caching": "prefix caching {}",
}
"""What logs and commands both say, as messages have it."""


def _of_log(log: ServerLog, here: dict[str, Any]) -> Iterator[str]:
    """Say where a log is of another release, or contradicts the command."""
    if log.version is not None and is_other(log.version):
        other = "docs/vllm-releases.md has what it does otherwise"
        yield f"the log is of vLLM {log.version}: {other}"
    for key, said in _SAID.items():
        there = log.settings.get(key)
        if there is None or key not in here or _alike(there, here[key]):
            continue
        if isinstance(there, bool):
            there, mine = ("on", "off") if there else ("off", "on")
        else:
            mine = here[key]
        yield f"the log has {said.format(there)}, the command {mine}"


def _alike(there: Any, here: Any) -> bool:
    """Return whether values are the same, also as names of data types of as many bytes."""
    return bool(BYTES.get(there, there) == BYTES.get(here, here))
