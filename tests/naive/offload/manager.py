"""The chunks on the CPU: which are there, which are being written or read, what makes room."""

from dataclasses import dataclass, field

from .arc import Arc
from .lru import Lru

BEING_WRITTEN = -1


@dataclass(eq=False)
class Owner:
    """What the manager remembers of a request.

    Attributes
    ----------
    position : dict
        Chunk key -> end token of the chunk in this request.
    seen : list
        Keys that it offered or reused, in order of first sight.
    inserted, reused, missed : set
        Keys that it brought; that it found here though somebody else brought them; that were not
        here when it offered them.
    rank : int or None
        Its rank in the LRU order.
    """

    position: dict = field(default_factory=dict)
    seen: list = field(default_factory=list)
    inserted: set = field(default_factory=set)
    reused: set = field(default_factory=set)
    missed: set = field(default_factory=set)
    rank: int | None = None

    def place(self, key):
        """Return what the chunks of a request stand in order by."""
        return (self.position[key],)


class Manager:
    """vLLM's CPUOffloadingManager.

    Attributes
    ----------
    chunks : dict
        Key -> readers (loads under way), or `BEING_WRITTEN`.
    evictions : int
        Chunks that made room.
    """

    def __init__(self, capacity, eviction):
        self.capacity = capacity
        self.policy = {"lru": Lru, "arc": Arc}[eviction](capacity)
        self.chunks = {}
        self.evictions = 0

    def store(self, keys, owner):
        """Make room for what is not here of `keys`; return these keys, None if refused."""
        new = [key for key in keys if key not in self.chunks]
        ready = [key for key in keys if self.chunks.get(key, BEING_WRITTEN) >= 0]
        missed = [key for key in new if key not in owner.missed]
        self.policy.miss(missed)
        owner.missed.update(missed)
        noted = {*new, *ready}
        self.record([key for key in keys if key in noted], ready, owner)
        if new and not self._make_room(len(new), set(keys)):
            return None
        for key in new:
            self.chunks[key] = BEING_WRITTEN
            self.policy.insert(key, owner)
        owner.inserted.update(new)
        return new

    def _make_room(self, count, protected):
        excess = count - (self.capacity - len(self.chunks))
        if excess <= 0:
            return True
        if excess > sum(readers == 0 for readers in self.chunks.values()):
            return False
        victims = self.policy.evict(excess, protected, self.chunks)
        if victims is None:
            return False
        for key in victims:
            del self.chunks[key]
        self.evictions += len(victims)
        return True

    def record(self, keys, reused, owner):
        """Note what a request has offered or reused, each key once."""
        seen = set(owner.seen)
        fresh = [key for key in keys if key not in seen]
        owner.seen.extend(fresh)
        if fresh:
            self.policy.access(fresh, owner, self.chunks)
        owner.reused.update(key for key in reused if key not in owner.inserted)

    def read(self, keys, owner):
        """Pin chunks that are loaded from now on."""
        for key in keys:
            self.chunks[key] += 1
        self.record(keys, keys, owner)

    def written(self, keys):
        """Let chunks be read whose copy is complete."""
        for key in keys:
            self.chunks[key] = 0

    def was_read(self, keys):
        """Unpin chunks whose load is complete."""
        for key in keys:
            self.chunks[key] -= 1

    def finish(self, owner):
        """Settle the recency of what a finished request has seen."""
        self.policy.finish(owner, sorted(owner.seen, key=owner.place), self.chunks)
