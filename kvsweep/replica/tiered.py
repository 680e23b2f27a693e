"""The reference's CPU tier: freed blocks are offloaded, and reloaded when an allocation fails."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvsweep.replica.block_store import Block, BlockStore
from kvsweep.replica.keys import Keys, Piece
from kvsweep.replica.request import Request
from kvsweep.replica.switches import Switches

THRASHING_WINDOW_US = 1000
"""A block reloaded sooner than this after its offload counts as thrashing (the reference's)."""


@dataclass(slots=True)
class _Entry:
    """An offloaded block: its key and tokens, and when it was offloaded."""

    key: int
    filled: int
    pieces: list[Piece]
    offloaded_us: int


class TieredStore(BlockStore):
    """A block store with a CPU tier of ``capacity`` blocks behind it.

    Attributes
    ----------
    entries : dict of _Entry
        What the CPU holds, under the id of the GPU block that it came from.
    cpu_used : int
        Slots counted as taken. An entry that replaces another of the same block id counts again
        and is never given back, so the tier fills up with nothing (D12).
    reload_latency : int
        Transfer time charged so far, microseconds.
    """

    def __init__(
        self,
        blocks: int,
        block_size: int,
        switches: Switches,
        keys: Keys,
        *,
        capacity: int,
        threshold: float,
        bandwidth: float,
        base_latency_us: int,
    ) -> None:
        super().__init__(blocks, block_size, switches, keys)
        self.capacity = capacity
        self.threshold = threshold
        # Documented as blocks per microsecond, but the cost divides the tokens of a block (D8).
        amount = 1 if switches.transfer_per_block else block_size
        self.transfer_us = base_latency_us + math.ceil(amount / bandwidth)
        self.entries: dict[int, _Entry] = {}
        self.cpu_used = 0
        self.offloads = 0
        self.cpu_hits = 0
        self.cpu_misses = 0
        self.thrashed = 0
        self.reload_latency = 0
        self._pending_latency = 0

    @property
    def found(self) -> int:
        """Blocks that count as hits; a reload does, whether or not anybody uses the block."""
        return self.hits + self.cpu_hits

    @property
    def looked_at(self) -> int:
        """Blocks that count in the hit rate, and the failed tries to reload anything."""
        return self.hits + self.cpu_hits + self.misses + self.cpu_misses

    @property
    def thrashing_rate(self) -> float:
        """Reloads within a millisecond of the offload, per offload."""
        return self.thrashed / self.offloads if self.offloads else 0.0

    @property
    def pending_latency(self) -> int:
        """Transfer time not yet charged to a step, microseconds.

        It is filled and cleared within one step, so a router can never see it (D9).
        """
        return self._pending_latency

    def take_pending_latency(self) -> int:
        """Return the transfer time to charge to the current step, and clear it."""
        pending, self._pending_latency = self._pending_latency, 0
        return pending

    def allocate(
        self, request: Request, start: int, stop: int, cached: Sequence[Block] = ()
    ) -> bool:
        """Allocate on the GPU; on failure reload all that fits from the CPU and try once more.

        The second try starts behind the prefix that is cached then. The chunk's end stays, so a
        chunk cut by the token budget can end before it starts, where the reference crashes (D7);
        and the caller charges the step for the tokens of the first try.
        """
        if super().allocate(request, start, stop, cached):
            return True
        if not self._reload():
            self.cpu_misses += 1
            return False
        found = self.cached_prefix(request)
        behind = len(found) * self.block_size
        if self.switches.retry_within_chunk:
            behind = min(behind, stop)
        if behind > start:
            return super().allocate(request, behind, stop, found)
        return super().allocate(request, start, stop, cached)

    def release(self, request: Request) -> None:
        """Drop a request's table, then offload free blocks while the GPU is above the threshold."""
        super().release(request)
        while self.utilization > self.threshold and self.cpu_used < self.capacity:
            block = next((b for b in self.free.values() if b.key is not None), None)
            if block is None:
                return
            self._offload(block)

    def _offload(self, block: Block) -> None:
        """Move a free block's content to the CPU; the block goes to the tail of the free list."""
        assert block.key is not None
        if not (self.switches.cpu_slots_exact and block.id in self.entries):
            self.cpu_used += 1
        self.entries[block.id] = _Entry(block.key, block.filled, block.pieces, self.clock)
        self.offloads += 1
        self._forget_key(block)
        block.clear()
        self.free.move_to_end(block.id)

    def _reload(self) -> bool:
        """Copy back, in order of block id, what is not on the GPU; False if there was nothing."""
        reloaded = False
        for origin in sorted(self.entries):
            entry = self.entries[origin]
            if entry.key in self.by_key:
                continue
            if not self.free:
                break
            _, block = self.free.popitem(last=False)
            self._forget_key(block)
            block.clear()
            block.filled, block.pieces = entry.filled, entry.pieces
            self._set_key(block, entry.key)
            self.free[block.id] = block
            self._count_reload(self.entries.pop(origin))
            reloaded = True
        return reloaded

    def _count_reload(self, entry: _Entry) -> None:
        """Charge one transfer, and count it as a hit."""
        self._pending_latency += self.transfer_us
        self.reload_latency += self.transfer_us
        if self.clock - entry.offloaded_us < THRASHING_WINDOW_US:
            self.thrashed += 1
        self.cpu_used -= 1
        self.cpu_hits += 1
