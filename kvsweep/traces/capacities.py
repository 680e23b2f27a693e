"""Hits at some capacities as columns, with the memory that they take of a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCKS
from kvsweep.records import NONE
from kvsweep.sizing.asking import answer
from kvsweep.sizing.question import Question
from kvsweep.traces.hits import Hits
from kvsweep.workload.requests import Requests

GIB = 2**30
SHARES = (0.5, 0.9, 0.95, 0.99, 1.0)


@dataclass(frozen=True)
class Memory:
    """What a block takes of the memory of each GPU.

    Attributes
    ----------
    model : str
        Name of the model.
    gib : float
        GiB of a block.
    """

    model: str
    gib: float


def memory_of(model: str, block_size: int, **served: Any) -> Memory:
    """Return what a block of a model takes.

    Parameters
    ----------
    model, block_size : str, int
        A known model or its config.json; tokens of a block.
    **served
        tp, pp and dtype of `kvsweep.sizing.question.Question`.

    Raises
    ------
    InputError
        If the model is not known, or its blocks are not those of a trace: of other tokens, of
        several kinds of layers, or of a window, which keeps and hits others than a prompt's.
    """
    found = answer(Question(model=model, block_size=block_size, blocks=MAX_BLOCKS, **served))
    assert found.layout is not None  # there is a model
    if len(found.layout.groups) > 1:
        raise InputError(
            f"--model: {model} has several kinds of layers, whose blocks are kept apart: its hits "
            "do not follow from the number of blocks alone"
        )
    if not found.layout.plain:
        raise InputError(
            f"--model: {model} has a sliding window in all layers, which keeps other blocks of a "
            "prompt than full attention: its hits do not follow from these"
        )
    if found.block_size != block_size:
        raise InputError(f"--model: blocks of {model} have {found.block_size} tokens here")
    return Memory(model, max(found.layout.block_bytes) / GIB)


def columns(hits: Hits, blocks: Sequence[int], memory: Memory | None) -> dict[str, list[Any]]:
    """Return columns over numbers of blocks: tokens, gib, lru_hit_rate, best_hit_rate."""
    total = hits.prompt_tokens
    found: dict[str, list[Any]] = {
        "blocks": list(blocks),
        "tokens": [count * hits.block_size for count in blocks],
    }
    if memory is not None:
        found["gib"] = [count * memory.gib for count in blocks]
    found["lru_hit_rate"] = [hits.lru(count) / total for count in blocks]
    found["best_hit_rate"] = [hits.optimum(count) / total for count in blocks]
    return found


def summary(hits: Hits, memory: Memory | None, requests: Requests) -> dict[str, Any]:
    """Return what holds of all capacities: the ceiling, and the blocks for shares of it."""
    shares = []
    for share in SHARES if hits.ceiling else ():
        blocks = hits.blocks_for(share)
        row = {"share": share, "blocks": blocks, "hit_rate": hits.lru(blocks) / hits.prompt_tokens}
        shares.append(row | ({"gib": blocks * memory.gib} if memory else {}))
    return {
        "block_size": hits.block_size,
        "prompt_tokens": hits.prompt_tokens,
        "ceiling": hits.ceiling / hits.prompt_tokens,
        "smallest_blocks": hits.smallest,
        "largest_blocks": hits.largest,
        "shares_of_ceiling": shares,
        "blocks_made_again": hits.remade,
        "waiting_for_answers": int((requests.after != NONE).sum()),
        "model": memory.model if memory else None,
        "gib_per_block": memory.gib if memory else None,
    }
