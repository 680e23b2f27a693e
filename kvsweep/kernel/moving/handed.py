"""States that were cached since the last schedule: a tier stores those where its chunks end.

Each is a store of its own, and is offered once: if there is no room it is not stored (R11.11).
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE, Event
from ..explicit.slots import groups_of
from ..tally import log_event
from . import manager, storing
from .rings import chunk_of, slot_of_chunk
from .state_blocks import keep_back


@leaf
def _store(inp, ws, out, lane, inst, tally, index, off, r, s, group, chunk):
    """Store the state at the end of a chunk, if it is not here and there is room."""
    request, state = inp.requests[lane["request_lo"] + r], ws.states[s]
    off["offers"] += 1
    new, _ = manager.note_offer(inp, ws, lane, inst, off, request, state, s, group, chunk)
    if new == 0:
        return
    slot = slot_of_chunk(lane, state, group, chunk)
    node = chunk_of(inp, ws, lane, inst, request, group, chunk)
    if not manager.make_room_for_one(ws, lane, inst, off, slot, node):
        off["refused"] += 1
        log_event(out, lane, inst, tally, index, Event.REFUSE, r, NONE)
        return
    manager.insert(ws, lane, inst, off, s, slot, node)
    job = storing.create(ws, off, r, chunk, chunk + 1)
    ws.slots[slot]["job"] = job
    ws.pins[ws.slots[slot]["block"]]["stores"] += 1
    storing.submit(ws, out, lane, inst, tally, index, off, r, s, job, np.int64(1))


@leaf
def _store_all(inp, ws, out, lane, inst, tally, index, off, engine, s):
    """Store what a request has handed over, group by group."""
    own, state = ws.recurrent[s], ws.states[s]
    limit = np.int64(state["prompt"]) if lane["prompt_only"] else np.int64(state["known"])
    first, end = own["handed"] // lane["factor"], limit // lane["chunk_tokens"]
    end = min(end, own["handed_end"] // lane["factor"])
    for number in range(lane["states"]):
        group = groups_of(lane) + number
        for chunk in range(first, end):
            slot = slot_of_chunk(lane, state, group, chunk)
            if ws.slots[slot]["flags"] & manager.HANDED:
                r = s - engine["state_lo"]
                _store(inp, ws, out, lane, inst, tally, index, off, r, s, group, chunk)


@leaf
def store_handed(inp, ws, out, lane, inst, tally, index, off, engine):
    """Store what all have handed over, and let them hand nothing over any more."""
    s = np.int64(off["handing"])
    while s != NONE:
        _store_all(inp, ws, out, lane, inst, tally, index, off, engine, s)
        keep_back(ws, lane, ws.states[s], s)
        ws.recurrent[s]["hands"] = 0
        s = np.int64(ws.recurrent[s]["next_handing"])
    off["handing"] = NONE
