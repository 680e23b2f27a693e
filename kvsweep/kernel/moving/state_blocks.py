"""Recurrent states as blocks with identities (`explicit.states` has the rules), for a CPU tier.

A state that is cached is handed over to the tier by its block, in the schedule that follows: its
request may have left it by then, and somebody may have taken the block.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.prefix_table import add_key
from ..explicit.slots import groups_of, slot_of
from ..offload.pins import note_hit
from .identities import release, take_one
from .manager import HANDED


@leaf
def take_state(ws, lane, inst, slot):
    """Let a slot have a state that nobody has."""
    ws.tables[slot] = take_one(ws, lane, inst)


@leaf
def release_between(ws, lane, inst, state, number, first, end):
    """Free the states in slots `first` to ``end - 1``, the last one first; return how many."""
    group = groups_of(lane) + number
    count = np.int64(0)
    release(ws, inst, state, group, first, end)
    for block in range(first, end):
        slot = slot_of(state, group, block)
        count += ws.tables[slot] != NONE
        ws.tables[slot] = NONE
    return count


@leaf
def cache_state(ws, lane, inst, state, s, number, block, found, key):
    """Let the state at the end of a block, in block `found`, be found; hand it over to the tier."""
    slot = slot_of(state, groups_of(lane) + number, block)
    add_key(ws, inst, found, key)
    ws.slots[slot]["block"] = found
    ws.slots[slot]["flags"] |= HANDED
    own = ws.recurrent[s]
    if own["handed_end"] == 0:
        own["handed"] = block
    if not own["hands"]:
        _enqueue(ws, ws.offload[inst["number"]], s)
    own["handed_end"] = max(np.int64(own["handed_end"]), block + 1)


@leaf
def _enqueue(ws, off, s):
    """Let a request be the last of those who hand states over."""
    ws.recurrent[s]["hands"] = 1
    ws.recurrent[s]["next_handing"] = NONE
    if off["handing"] == NONE:
        off["handing"] = s
    else:
        ws.recurrent[off["last_handing"]]["next_handing"] = s
    off["last_handing"] = s


@leaf
def keep_back(ws, lane, state, s):
    """Let a request hand nothing over of what it has not yet: its blocks may be another's."""
    own = ws.recurrent[s]
    for number in range(lane["states"]):
        for block in range(own["handed"], own["handed_end"]):
            ws.slots[slot_of(state, groups_of(lane) + number, block)]["flags"] &= 255 - HANDED
    own["handed"] = 0
    own["handed_end"] = 0


@leaf
def tell_states(ws, lane, inst, state, s):
    """Tell the connector of the states that a request has got, or moved, in this step."""
    own = ws.recurrent[s]
    for number in range(lane["states"]):
        for block in range(max(own["told"], own["alive"]), own["length"]):
            found = np.int64(ws.tables[slot_of(state, groups_of(lane) + number, block)])
            if found != NONE:
                note_hit(ws, inst, found)
    own["told"] = own["length"]
