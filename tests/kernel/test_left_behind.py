"""Blocks that windows leave in runs of decodes, against a list of what is free, oldest first."""

import random

import explicit_traces
import numpy as np
import pytest
import twin

from kvsweep._jit import kernel
from kvsweep.kernel.explicit.block_records import STRETCH, take
from kvsweep.kernel.explicit.left_behind import FIRST, leave_own, split_left
from kvsweep.records import BLOCK, EDGE, ENGINE, INSTANCE, LANE, LEFT, LRU, NONE
from kvsweep.simulate.workspace import EMPTY, allocate_workspace

BLOCKS, TABLES = 6, 3


@kernel
def _leave(ws, table, alone):
    return leave_own(ws, ws.own[0], ws.instances[0], ws.engines[0], table, alone)


@kernel
def _take(ws, count):
    take(ws, ws.instances[0], count)


@kernel
def _split(ws, slot, place, key):
    return split_left(ws, ws.instances[0], slot, place, key)


class Model:
    """A pool of blocks that are in use, and the slots and keys of those that are free again."""

    def __init__(self):
        self.ws = allocate_workspace(EMPTY, 1)._replace(
            blocks=np.zeros(BLOCKS, BLOCK),
            lru=np.full(BLOCKS, NONE, LRU),
            left=np.zeros(BLOCKS, LEFT),
            edges=np.zeros(TABLES, EDGE),
            tables=np.zeros(1000, np.int32),
            prefix=np.full(1000, NONE, np.int32),
            own=np.zeros(1, LANE),
            instances=np.zeros(1, INSTANCE),
            engines=np.zeros(1, ENGINE),
        )
        self.inst = self.ws.instances[0]
        for field in ("lru_head", "lru_tail", "spare"):
            self.inst[field] = NONE
        self.ws.own["gpu_blocks"] = BLOCKS
        edges = self.ws.edges
        edges["slot"] = 300 * np.arange(TABLES)
        edges["next"] = [*range(1, TABLES), NONE]
        edges["own"], edges["until"] = True, 1
        self.places, self.free, self.keys = {}, [], 0

    def leave(self, alone, due):
        """Let the windows of the tables that are `due` leave a block each; `alone` the first's."""
        self.ws.edges["step"] = ~np.array(due) * 9
        slots = [int(slot) for slot in self.ws.edges["slot"][: 1 if alone else TABLES]]
        table = 0
        while table != NONE and (table == 0 or not alone):
            ready = due[table]
            table = _leave(self.ws, table, alone) if ready else int(self.ws.edges[table]["next"])
        for slot, ready in zip(slots, due, strict=False):
            if ready:
                self.places[slot] = FIRST - int(self.ws.tables[slot])
                self.free.append(("slot", slot))

    def take(self, count):
        _take(self.ws, count)
        del self.free[:count]

    def split(self, slot):
        """A victim's block gets a key, if it is still there: whoever is asked for is told so."""
        key = self.keys = self.keys + 1
        found = _split(self.ws, slot, self.places[slot], key)
        here = ("slot", slot) in self.free
        assert (found != NONE) == here
        if here:
            self.free[self.free.index(("slot", slot))] = ("key", key)

    def found(self):
        """Return what is free, as the kernel has it."""
        rows = []
        node = int(self.inst["lru_head"])
        while node != NONE:
            record = self.ws.blocks[node]
            if record["key"] == STRETCH:
                for place in range(record["duplicate_prev"], record["duplicate_next"]):
                    assert self.ws.left[place]["record"] == node
                    rows.append(("slot", int(self.ws.left[place]["slot"])))
            else:
                rows.append(("key", int(record["key"])))
            node = int(self.ws.lru[node]["next"])
        return rows


@pytest.mark.parametrize("seed", range(20))
def test_what_windows_leave_is_evicted_in_that_order_and_found_by_victims(seed):
    rng = random.Random(seed)
    model = Model()
    for _ in range(60):
        do = rng.choice(("leave", "leave", "take", "split"))
        # A block with a key stays, so that no more are left than the kernel could have taken.
        if do == "leave" and len(model.free) <= BLOCKS - TABLES:
            model.leave(rng.random() < 0.3, [rng.random() < 0.7 for _ in range(TABLES)])
        elif do == "take" and model.free:
            model.take(rng.randint(1, len(model.free)))
        elif do == "split" and model.places:
            model.split(rng.choice(list(model.places)))
        assert model.found() == model.free
        counts = {name: int(model.inst[name]) for name in ("free", "evictable", "keyed")}
        assert set(counts.values()) == {len(model.free)}


# 54: cut in two; 72: at both ends; 670: the victim hits what its window had left.
@pytest.mark.parametrize("seed", [54, 72, 670])
def test_kernel_equals_twin_where_victims_have_left_blocks(seed):
    assert list(twin.differences(explicit_traces.leave_together(seed))) == []
