"""Prefix hits of a trace in a cache of any number of blocks, by least recent use and at best.

What the kernel gives for one instance where each request is alone: nothing is preempted, and what
runs at a time is one request.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kvsweep.errors import InputError
from kvsweep.traces.listed import Ints, Listed, list_blocks
from kvsweep.traces.stack import (
    NOTHING,
    count_by_capacity,
)
from kvsweep.workload.requests import Requests

NEAR = 1e-3
"""Share of the ceiling by which `Hits.blocks_for` may miss, as each count takes a pass."""


@dataclass(frozen=True)
class Hits:
    """Hits of a request list in a cache of any size.

    Attributes
    ----------
    block_size : int
        Tokens of a block.
    prompt_tokens : int
        Tokens of all prompts: what hits are shares of.
    smallest : int
        Blocks of the largest request: with fewer it is not served.
    largest : int
        Blocks from which on more find nothing more.
    curve : int64
        Blocks found under LRU, by capacity, if no content is in two blocks at a time. From its last
        entry on they stay.
    exact_below : int or None
        Capacity from which on some content is in two blocks at a time, as vLLM computes the last
        token of a prompt again and with it all of its block; None: it never is. See `lru`.
    remade : int
        Blocks that are computed again although the same content may be there.
    """

    block_size: int
    prompt_tokens: int
    smallest: int
    largest: int
    curve: Ints
    exact_below: int | None
    remade: int
    _list: Listed

    def lru(self, blocks: int) -> int:
        """Return the tokens found by a cache of so many blocks that evicts by least recent use.

        It is a look-up below `exact_below`; from there on the requests are gone through again.

        Raises
        ------
        InputError
            If the largest request does not fit.
        """
        self._check(blocks)
        if blocks >= self.largest:
            return self.ceiling
        if self.exact_below is None or blocks < self.exact_below:
            return int(self.curve[min(blocks, len(self.curve) - 1)]) * self.block_size
        return self._list.in_pool(blocks) * self.block_size

    def optimum(self, blocks: int) -> int:
        """Return the tokens that no policy of eviction exceeds (Belady's), as `lru`."""
        self._check(blocks)
        return self._list.at_best(blocks) * self.block_size

    @property
    def ceiling(self) -> int:
        """The tokens found by a cache without end."""
        return int(self.curve[-1]) * self.block_size

    @property
    def blocks(self) -> int:
        """Full blocks of all requests together."""
        return int(self._list.sizes.sum())

    @property
    def distinct(self) -> int:
        """Different contents among them."""
        return int(self._list.keys.n_keys)

    @property
    def reused(self) -> int:
        """Different contents that several requests have."""
        shared = self._list.extents.numbers < self._list.extents.shared
        numbers, first = np.unique(self._list.extents.numbers[shared], return_index=True)
        return int(self._list.sizes[shared][first].sum()) if len(numbers) else 0

    def reuse(self, arrival_us: Ints) -> tuple[Ints, Ints]:
        """Return the tokens that a cache without end finds, piece by piece, and their ages.

        Parameters
        ----------
        arrival_us : int64 (n,)
            Of the requests.

        Returns
        -------
        int64 (pieces,), int64 (pieces,)
            Tokens; microseconds since the arrival that used them last.
        """
        request = self._list.request_of_link()
        before = self._list.last_use()
        link = np.flatnonzero((before != NOTHING) & (self._list.worth > 0))
        age = arrival_us[request[link]] - arrival_us[request[before[link]]]
        return self._list.worth[link] * self.block_size, age

    def found_of_request(self) -> Ints:
        """Return the tokens that a cache without end finds of each request, int64 (n,)."""
        found = np.where(self._list.last_use() == NOTHING, 0, self._list.worth)
        total = np.zeros(len(found) + 1, np.int64)
        np.cumsum(found, out=total[1:])
        bounds = self._list.extents.offsets
        counts: Ints = (total[bounds[1:]] - total[bounds[:-1]]) * self.block_size
        return counts

    def points(self, count: int) -> list[int]:
        """Return up to `count` capacities at equal ratios, from `smallest` to `largest`."""
        low, high = np.log(float(self.smallest)), np.log(float(self.largest))
        found = np.unique(np.rint(np.exp(np.linspace(low, high, count))).astype(np.int64))
        return [int(blocks) for blocks in np.clip(found, self.smallest, self.largest)]

    def blocks_for(self, share: float) -> int:
        """Return the fewest blocks that find so large a share of the ceiling under LRU.

        By `curve`. From `exact_below` on `lru` may find less: where that is more than `NEAR`,
        as many blocks more as find it, while one fewer does not.
        """
        wanted = share * float(self.curve[-1])
        low = max(self.smallest, int(np.searchsorted(self.curve, wanted - 1e-9)))
        enough = (wanted - NEAR * float(self.curve[-1])) * self.block_size
        if self.exact_below is None or low < self.exact_below or self.lru(low) >= enough:
            return low
        # A block that is made again takes the place of one other.
        high = min(low + self.remade, self.largest)
        high = high if self.lru(high) >= enough else self.largest
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.lru(middle) >= enough else (middle, high)
        return high

    def _check(self, blocks: int) -> None:
        if blocks < self.smallest:
            raise InputError(
                f"--blocks {blocks:,}: the largest request takes {self.smallest:,} blocks of "
                f"{self.block_size} tokens: with fewer it is not served"
            )


def find_hits(requests: Requests, block_size: int) -> Hits:
    """Find the prefix hits of a request list for every number of blocks, in one pass.

    Parameters
    ----------
    requests : Requests
        In order of arrival; each is finished before the next one arrives.
    block_size : int
        Tokens of a block.

    Raises
    ------
    InputError
        If there are too many blocks to tell apart.
    """
    listed = list_blocks(requests, block_size)
    bounds, numbers = listed.extents.offsets, listed.extents.numbers
    links, blocks = len(numbers), int(listed.keys.n_keys)
    steps = np.zeros(blocks + 3, np.int64)
    remade = np.array([0, np.iinfo(np.int64).max])
    count_by_capacity(
        bounds,
        numbers,
        listed.sizes,
        listed.worth,
        listed.partial,
        np.zeros(links + 1, np.int32),
        np.zeros(listed.extents.count, np.int64),
        steps,
        remade,
    )
    needed = np.cumsum(steps)
    smallest = int(listed.needs.max())
    most = int(np.flatnonzero(needed).max(initial=0))
    return Hits(
        block_size=block_size,
        prompt_tokens=int(requests.prompt_tokens.sum()),
        smallest=smallest,
        # A block that is made again takes the place of another until it is evicted.
        largest=max(smallest, most + int(remade[0])),
        curve=np.cumsum(needed[: most + 1]),
        exact_below=int(remade[1]) if remade[0] else None,
        remade=int(remade[0]),
        _list=listed,
    )
