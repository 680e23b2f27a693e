"""The CPU tier of one engine: blocks that left the GPU, or copies of those on it.

Two ways in. ``watermark``: when a request has given its blocks back and more than
`offload_threshold` of the blocks are still in use, every cached block that nobody uses moves to
the CPU, the least recently used first; on the GPU it is blank then. ``write-through``: each full
block is copied when it is published, so the GPU keeps it too.

One way out: an admission looks its prefix up on the GPU, and where that ends goes on here. What it
finds is loaded into blocks that it takes for it, and published there. A moved block leaves the
CPU; a copy stays, and all copies of the request's cached prefix count as used, the first block as
used last. Each admission that loads costs one transfer: a fixed latency and the tokens over the
bandwidth, added to its step, or going on beside the computation (`transfer_overlap`).

When the tier is full the least recently used block makes room.
"""

from collections import OrderedDict
from math import ceil


class CpuTier:
    """Keys of the blocks on the CPU, the least recently used first, and when each came.

    Attributes
    ----------
    offloads, reloads : int
        Blocks copied to the CPU, and back.
    thrashed : int
        Blocks that came back within ``thrashing_window_us``.
    """

    def __init__(self, cache):
        self.cache = cache
        if cache.cpu_blocks > 0 and not (self.moves or self.copies or cache.connects):
            raise ValueError(f"cache.offload: {cache.offload!r} has no way into the tier")
        self.came_us = OrderedDict()
        self.offloads = 0
        self.reloads = 0
        self.thrashed = 0

    @property
    def moves(self):
        return self.cache.cpu_blocks > 0 and self.cache.offload == "watermark"

    @property
    def copies(self):
        return self.cache.cpu_blocks > 0 and self.cache.offload == "write-through"

    def find(self, keys):
        """Return how many of the leading `keys` are here."""
        count = 0
        while count < len(keys) and keys[count] in self.came_us:
            count += 1
        return count

    def store(self, key, now):
        """Copy a block to the CPU; if it is there already it counts as used."""
        if key in self.came_us:
            self.came_us.move_to_end(key)
            return
        if len(self.came_us) == self.cache.cpu_blocks:
            self.came_us.popitem(last=False)
        self.came_us[key] = now
        self.offloads += 1

    def load(self, keys, now):
        """Copy blocks to the GPU; return how long the transfer takes."""
        for key in keys:
            self.thrashed += now - self.came_us[key] < self.cache.thrashing_window_us
            if self.moves:
                del self.came_us[key]
        self.reloads += len(keys)
        tokens = len(keys) * self.cache.block_size
        return self.cache.transfer_base_latency_us + ceil(tokens / self.cache.transfer_bandwidth)

    def touch(self, keys):
        """Count the copies of a cached prefix as used."""
        for key in reversed(keys):
            if key in self.came_us:
                self.came_us.move_to_end(key)

    def relieve(self, pool, now):
        """Move the cached free blocks of a crowded pool here."""
        if self.moves and pool.used / pool.usable > self.cache.offload_threshold:
            for key in pool.blank_cached():
                self.store(key, now)
