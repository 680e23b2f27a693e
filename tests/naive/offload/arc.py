"""Adaptive replacement: what was used once against what was used again, by what is missed."""

from collections import OrderedDict


class Arc:
    """Two lists of chunks and the ghosts of those evicted from each, the oldest first.

    Attributes
    ----------
    target : float
        Chunks that the list of those used once may have before it gives way; each missed ghost
        moves it towards the list that it was evicted from.
    """

    def __init__(self, capacity):
        self.capacity = capacity
        self.target = 0.0
        self.once, self.again = OrderedDict(), OrderedDict()
        self.once_ghosts, self.again_ghosts = OrderedDict(), OrderedDict()

    def miss(self, keys):
        """Adapt to what is not here any more."""
        once, again = self.once_ghosts, self.again_ghosts
        for key in reversed(keys):
            if key in once:
                self.target = min(self.target + max(1, len(again) / len(once)), self.capacity)
                once.move_to_end(key)
            elif key in again:
                self.target = max(self.target - max(1, len(once) / len(again)), 0)
                again.move_to_end(key)

    def access(self, keys, owner, chunks):
        """Nothing: what a request used counts when it finishes."""

    def insert(self, key, owner):
        self.once[key] = None
        self.once_ghosts.pop(key, None)
        self.again_ghosts.pop(key, None)

    def finish(self, owner, keys, chunks):
        for key in reversed(keys):
            home = self.once if key in self.once else self.again
            if key not in home:
                continue
            if key in owner.inserted and key not in owner.reused:
                home.move_to_end(key)
            elif key in owner.reused:
                del home[key]
                self.again[key] = None

    def evict(self, count, protected, chunks):
        """Return `count` idle chunks, which make room and leave ghosts, or None.

        The two lists are each gone through once: who was passed over is not asked again.
        """

        def idle(keys):
            return (key for key in list(keys) if chunks[key] == 0 and key not in protected)

        once, again = idle(self.once), idle(self.again)
        size = len(self.once)
        victims = []
        for _ in range(count):
            key = next(once, None) if size >= int(self.target) else None
            first = key is not None
            if key is None:
                key = next(again, None)
            if key is None:
                key = next(once, None)
                first = True
            if key is None:
                return None
            size -= first
            victims.append((key, first))
        for key, first in victims:
            home, ghosts = (
                (self.once, self.once_ghosts) if first else (self.again, self.again_ghosts)
            )
            del home[key]
            ghosts[key] = None
        for ghosts in (self.once_ghosts, self.again_ghosts):
            while len(ghosts) > self.capacity:
                ghosts.popitem(last=False)
        return [key for key, _ in victims]
