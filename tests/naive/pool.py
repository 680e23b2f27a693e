"""The block pool: reference counts, the free list in eviction order, the prefix cache map."""

from collections import OrderedDict


class BlockPool:
    """Blocks 1..usable (block 0 is vLLM's null block).

    Attributes
    ----------
    free : OrderedDict of block
        Blocks nobody refers to, first those without a key, then the others in the order of their
        release. Those are cached, and candidates for eviction.
    ref : list
        Per block, how many tables hold it.
    key : list
        Per block, its key in the cache map, or None.
    hits : list
        Per block, how often it was found since it has its key.
    ever_published : set
        Keys that a block carried at any time.
    cached : dict
        Key -> blocks carrying it, oldest first. Equal content may sit in several blocks.
    """

    def __init__(self, usable, eviction="lru"):
        self.usable = usable
        self.eviction = eviction
        self.free = OrderedDict.fromkeys(range(1, usable + 1))
        self.ref = [0] * (usable + 1)
        self.key = [None] * (usable + 1)
        self.hits = [0] * (usable + 1)
        self.cached = {}
        self.ever_published = set()
        self.hashed = 0
        self.evictions = 0
        self.taken = 0

    @property
    def used(self):
        return self.usable - len(self.free)

    def take(self, n):
        """Hand out `n` free blocks, each the next of all; those that carry a key are evicted."""
        blocks = []
        for _ in range(n):
            block = self._next()
            blocks.append(block)
            del self.free[block]
            if self.key[block] is not None:
                self.evict(block)
            self.ref[block] = 1
        self.taken += n
        return blocks

    def _next(self):
        """Return the free block that is handed out next: one without a key, else by the policy."""
        if self.eviction == "lru":
            return next(iter(self.free))  # as they are in the order of release
        return min(self.free, key=self._rank)

    def _rank(self, block):
        """Return what the free blocks are handed out by: the smallest first, equals as released."""
        if self.key[block] is None:
            return -1
        if self.eviction == "lru":
            return 0
        if self.eviction == "lfu":
            return self.hits[block]
        raise ValueError(f"cache.eviction: {self.eviction!r}")

    def blank_cached(self):
        """Take the keys of the cached free blocks, which become blank; return them in order."""
        keys = []
        cached = [block for block in self.free if self.key[block] is not None]
        for block in sorted(cached, key=self._rank):
            keys.append(self.key[block])
            self.forget(block)
            self.free.move_to_end(block, last=False)
        return keys

    def evict(self, block):
        """Let a block be found no more, and count it."""
        self.forget(block)
        self.evictions += 1

    def forget(self, block):
        """Let a block be found no more."""
        same = self.cached[self.key[block]]
        del same[block]
        if not same:
            del self.cached[self.key[block]]
        self.key[block] = None
        self.hashed -= 1

    def touch(self, blocks):
        """Refer to cached blocks once more; a free one leaves the free list."""
        for block in blocks:
            self.hits[block] += 1
            if self.ref[block] == 0:
                del self.free[block]
            self.ref[block] += 1

    def release(self, table):
        """Drop a table's references, last block first.

        Of the blocks nobody refers to any more, those without a key go to the head of the free
        list and those with one to its tail, both in the order of the walk.
        """
        unhashed, hashed = [], []
        for block in reversed(table):
            self.ref[block] -= 1
            if self.ref[block] == 0:
                (unhashed if self.key[block] is None else hashed).append(block)
        for block in reversed(unhashed):
            self.free[block] = None
            self.free.move_to_end(block, last=False)
        for block in hashed:
            self.free[block] = None

    def publish(self, block, key):
        """Make a block findable by its key; duplicates are kept."""
        self.key[block] = key
        self.hits[block] = 0
        self.ever_published.add(key)
        self.cached.setdefault(key, {})[block] = None
        self.hashed += 1

    def lookup(self, key):
        """Return the oldest block with this key, or None."""
        same = self.cached.get(key)
        return next(iter(same)) if same else None
