"""A request list as the compiled passes over it take it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.traces.free_blocks import count_in_pool
from kvsweep.traces.stack import NOTHING, count_optimum, find_next_uses
from kvsweep.workload.blocks import (
    BlockKeys,
    Extents,
    find_extents,
    resolve_blocks,
    whole_requests,
)
from kvsweep.workload.requests import Requests

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Listed:
    """Blocks of a request list, and which of them are the same.

    Attributes
    ----------
    keys : BlockKeys
        Content of each full block.
    extents : Extents
        The same in links: stretches that every request has all or nothing of.
    sizes, worth : int64 (links,)
        Blocks of each link; how many of them a request takes from the cache if they are there.
    follows : int64 (links,)
        The next link with the same extent, if something of it is taken from the cache; or -1.
    most : int64 (n,)
        Blocks that each request may take from the cache.
    needs : int64 (n,)
        Blocks that it holds in the end.
    partial : bool (n,)
        Whether the last of those does not become full.
    """

    keys: BlockKeys
    extents: Extents
    sizes: Ints
    worth: Ints
    follows: Ints
    most: Ints
    needs: Ints
    partial: NDArray[np.bool_]

    def request_of_link(self) -> Ints:
        """Return the request that each link belongs to, int64 (links,)."""
        return np.repeat(np.arange(len(self.most)), np.diff(self.extents.offsets))

    def last_use(self) -> Ints:
        """Return the link before each that has the same extent, or -1, int64 (links,)."""
        numbers = self.extents.numbers
        order = np.argsort(numbers, kind="stable")
        same = numbers[order][1:] == numbers[order][:-1]
        before = np.full(len(numbers), NOTHING)
        before[order[1:][same]] = order[:-1][same]
        return before

    def in_pool(self, blocks: int) -> int:
        """Return the blocks found by a cache of so many, content in several blocks and all."""
        after = np.arange(1, blocks + 2)
        after[-1] = 0
        before = np.arange(-1, blocks)
        before[0] = blocks
        key, newer, older = np.full((3, blocks), NOTHING)
        oldest, newest = np.full((2, self.keys.n_keys), NOTHING)
        offsets, keys = self.keys.offsets, self.keys.keys
        table = np.empty(blocks, np.int64)
        pool = (after, before, key, newer, older, oldest, newest)
        return int(count_in_pool(offsets, keys, self.most, self.partial, *pool, table))

    def at_best(self, blocks: int) -> int:
        """Return the most blocks that a cache of so many can find."""
        links = len(self.sizes)
        bounds, kept, heap = (
            self.extents.offsets,
            np.zeros(links, np.int64),
            np.empty(links, np.int64),
        )
        return int(count_optimum(bounds, self.worth, self.follows, self.needs, blocks, kept, heap))


def list_blocks(requests: Requests, block_size: int) -> Listed:
    """Find the blocks of a request list.

    Raises
    ------
    InputError
        If there are too many to tell apart.
    """
    keys = resolve_blocks(requests, block_size)
    if keys.reusable.any():
        extents = find_extents(keys.offsets[:-1], keys.offsets[1:], keys.keys)
    else:
        extents = whole_requests(keys.offsets)
    stored = requests.prompt_tokens + requests.output_tokens - 1
    # The last token of a prompt is computed in any case.
    most = (requests.prompt_tokens - 1) // block_size
    per_link = np.repeat(most, np.diff(extents.offsets))
    worth = np.clip(np.minimum(extents.end, per_link) - extents.first, 0, None)
    follows = np.full(len(extents.numbers), NOTHING)
    coming = np.full(extents.count, NOTHING)
    find_next_uses(extents.offsets, extents.numbers, worth, coming, follows)
    return Listed(
        keys=keys,
        extents=extents,
        sizes=extents.end - extents.first,
        worth=worth,
        follows=follows,
        most=most,
        needs=-(-stored // block_size),
        partial=stored % block_size > 0,
    )
