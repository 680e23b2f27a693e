"""Eviction of the chunks that were used the longest ago; within a request its end goes first."""


class Lru:
    """A rank for each chunk; the smallest goes first.

    A chunk's rank is that of the last request that offered or reused it, then its position. The
    request has its rank from the first time that it needs one, so that this is provisional; when
    the request finishes, its chunks rank as used just now, the first one last.
    """

    def __init__(self, capacity):
        self.rank = {}
        self.count = 0

    def _next(self):
        self.count += 1
        return self.count

    def _rank_of(self, owner):
        if owner.rank is None:
            owner.rank = self._next()
        return owner.rank

    def miss(self, keys):
        """Nothing is remembered of what is not here."""

    def access(self, keys, owner, chunks):
        """Rank what a request offered or reused for the first time."""
        rank = self._rank_of(owner)
        for key in keys:
            if key in chunks:
                self.rank[key] = max(self.rank[key], self._within(rank, owner, key))

    def insert(self, key, owner):
        self.rank[key] = self._within(self._rank_of(owner), owner, key)

    def _within(self, rank, owner, key):
        position, *group = owner.place(key)
        return rank, -position, *group

    def finish(self, owner, keys, chunks):
        for key in reversed(keys):
            if key in chunks:
                self.rank[key] = (self._next(), 0)

    def evict(self, count, protected, chunks):
        """Return `count` idle chunks, which make room, or None if there are not so many."""
        idle = [key for key, readers in chunks.items() if readers == 0 and key not in protected]
        if len(idle) < count:
            return None
        victims = sorted(idle, key=self.rank.get)[:count]
        for key in victims:
            del self.rank[key]
        return victims
