"""Proof that an instance will never do anything useful again.

Without further arrivals an instance is a deterministic function of its state, and nothing in it
depends on the absolute time. So if a state comes back with no useful step in between (no request
got further than it had ever been), the same steps repeat for ever and no request ever completes.
That is the only thing that is called a livelock.
"""

from collections.abc import Hashable

from kvsweep.replica.block_store import Block
from kvsweep.replica.instance import Instance
from kvsweep.replica.tiered import TieredStore


class CycleDetector:
    """Watches the steps of one instance for a state that comes back (Brent's algorithm)."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._reset()

    def _reset(self) -> None:
        self._idle_steps = 0
        self._saved_at = 1
        self._outline: Hashable = None
        self._state: Hashable = None

    def observe(self) -> bool:
        """Look at the state after a step; return whether it proves a livelock.

        Must be called after every step once no arrival is on its way to the instance.
        """
        instance = self._instance
        if not instance.step_times or instance.counters.last_useful > instance.clock:
            self._reset()
            return False
        self._idle_steps += 1
        outline = _outline(instance)
        if outline == self._outline and _state(instance) == self._state:
            return True
        if self._idle_steps == self._saved_at:
            self._saved_at *= 2
            self._outline, self._state = outline, _state(instance)
        return False


def _outline(instance: Instance) -> Hashable:
    """Return the cheap part of the state: equal states have equal outlines."""
    batcher = instance.batcher
    return (
        tuple((r.index, r.progress, r.granted) for r in batcher.running),
        len(batcher.waiting),
        instance.store.used,
        tuple(time - instance.clock for time in instance.step_times),
    )


def _state(instance: Instance) -> Hashable:
    """Return all of the state that what happens next depends on."""
    batcher, store = instance.batcher, instance.store
    tiered = isinstance(store, TieredStore)
    labels: dict[int, int] = {}
    tables = []
    for index in sorted(store.tables):
        for block in store.tables[index]:
            # Only the order of reloads depends on block ids; otherwise blocks are told apart by
            # where they stand.
            labels.setdefault(block.id, block.id if tiered else len(labels))
        tables.append((index, tuple(labels[block.id] for block in store.tables[index])))
    # A block in use without a table is leaked: it matters as long as its key can be found.
    leaked = [b for b in store.by_key.values() if b.id not in labels and b.id not in store.free]
    return (
        _outline(instance),
        instance.step_registered,
        tuple((r.index, r.computed) for r in batcher.running),
        tuple((r.index, r.computed, r.granted) for r in batcher.waiting),
        tuple(tables),
        tuple(_content(store.blocks[i], instance, labels) for i in labels),
        tuple(_content(b, instance, {b.id: b.id} if tiered else {}) for b in store.free.values()),
        frozenset(_content(b, instance, {}) for b in leaked),
        _cpu_tier(store) if isinstance(store, TieredStore) else None,
    )


def _content(block: Block, instance: Instance, labels: dict[int, int]) -> Hashable:
    """Return a block's users, key, whether the key finds it, and its tokens."""
    found = block.key is not None and instance.store.by_key.get(block.key) is block
    tokens = tuple((request.index, start, stop) for request, start, stop in block.pieces)
    return labels.get(block.id), block.users, block.key, found, tokens


def _cpu_tier(store: TieredStore) -> Hashable:
    """Return what the CPU tier holds."""
    entries = (
        (origin, entry.key, tuple((r.index, start, stop) for r, start, stop in entry.pieces))
        for origin, entry in sorted(store.entries.items())
    )
    return store.cpu_used, store.pending_latency, tuple(entries)
