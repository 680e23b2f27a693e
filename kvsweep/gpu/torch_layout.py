"""Where the tokens of a batch are in a paged KV cache, as tensors that attention kernels take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from kvsweep.gpu.batches import Batch
from kvsweep.sizing.defaults import BLOCK_SIZE
from kvsweep.sizing.layers import cdiv


@dataclass(frozen=True)
class Layout:
    """The sequences of a batch: the chunk's prompt first, then the decoding requests.

    Attributes
    ----------
    batch : Batch
        What it is the layout of.
    positions, slots : tensor of shape (tokens,), int64
        Of each new token: its place in its sequence, and in the cache.
    tables : tensor of shape (sequences, most blocks), int32
        Blocks of each sequence.
    starts_q, starts_k : tensor of shape (sequences + 1,), int32
        Where new tokens, and all tokens, of each sequence begin.
    used : tensor of shape (sequences,), int32
        Tokens of each sequence.
    most_q, most_k : int
        Of new tokens, and of all tokens.
    prompt, requests : tensor, int64
        Slots of the prompt's tokens, shape (tokens,), and of the decoding requests', shape
        (requests, tokens).
    """

    batch: Batch
    positions: Any
    slots: Any
    tables: Any
    starts_q: Any
    starts_k: Any
    used: Any
    most_q: int
    most_k: int
    prompt: Any
    requests: Any


def blocks_needed(batches: Iterable[Batch]) -> int:
    """Return the blocks that hold any of the batches."""
    return max(sum(cdiv(used, BLOCK_SIZE) for _, used in _lengths(batch)) for batch in batches)


def _lengths(batch: Batch) -> list[tuple[int, int]]:
    """Return new and all tokens of each sequence."""
    prompt = [(batch.prefill, batch.prefill + batch.prefill_context)] if batch.prefill else []
    return prompt + [(1, batch.decode_context + 1)] * batch.decode


def lay_out(batch: Batch, device: Any, *, scattered: bool, seed: int = 0) -> Layout:
    """Give a batch its blocks.

    Parameters
    ----------
    batch : Batch
        What is computed.
    device : torch.device
        Where the cache is.
    scattered : bool
        Whether blocks are in a random order, as in a server that has run for a while; else each
        sequence follows the one before it without a gap.
    seed : int
        Of the order.
    """
    lengths = _lengths(batch)
    new, used = (torch.tensor(column) for column in zip(*lengths, strict=True))
    starts_q, starts_k = (
        torch.cat((torch.zeros(1, dtype=torch.int64), column.cumsum(0))) for column in (new, used)
    )
    counts = (used + BLOCK_SIZE - 1) // BLOCK_SIZE
    tables = torch.zeros(len(lengths), int(counts.max()), dtype=torch.int64)
    generator = torch.Generator().manual_seed(seed)
    free = torch.randperm(int(counts.sum()), generator=generator)
    taken = (counts.cumsum(0) - counts).tolist()
    for row, (first, count) in enumerate(zip(taken, counts.tolist(), strict=True)):
        tables[row, :count] = free[first : first + count]

    def slots_of(row: int, begin: int, end: int) -> Any:
        places = torch.arange(begin, end)
        if not scattered:
            return starts_k[row] + places
        return tables[row, places // BLOCK_SIZE] * BLOCK_SIZE + places % BLOCK_SIZE

    rows = [slots_of(row, 0, int(length)) for row, length in enumerate(used.tolist())]
    decoding = rows[len(rows) - batch.decode :]
    pairs = list(zip(rows, lengths, strict=True))
    as_ints = {"device": device, "dtype": torch.int32}
    return Layout(
        batch,
        torch.cat([torch.arange(u - n, u) for n, u in lengths]).to(device),
        torch.cat([slots[u - n :] for slots, (n, u) in pairs]).to(device),
        tables.to(**as_ints),
        starts_q.to(**as_ints),
        starts_k.to(**as_ints),
        used.to(**as_ints),
        int(new.max()),
        int(used.max()),
        rows[0].to(device) if batch.prefill else None,
        torch.stack(decoding).to(device) if batch.decode else None,
    )
