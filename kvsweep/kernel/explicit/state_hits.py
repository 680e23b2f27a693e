"""What the cache holds of a waiting request's states (rule R12.9)."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.prefix_table import find
from . import block_records
from .slots import groups_of, key_of
from .states import keeps_states, state_slot


@leaf
def find_state(inp, ws, lane, inst, request, state, hits):
    """Return how many of the first `hits` blocks end with a state that all groups have.

    It is noted in the tables of the request.
    """
    found = False
    while hits > 0 and not found:
        found = True
        for number in range(lane["states"]):
            key = key_of(inp, lane, request, groups_of(lane) + number, hits - 1)
            record = np.int64(find(ws, inst, key))
            found = found and record != NONE
            ws.tables[state_slot(lane, state, number, hits - 1)] = record
        hits -= not found
    return hits


@leaf
def count_hit(ws, lane, state, hits):
    """Return the states that were found behind `hits` blocks: without a user, and with one."""
    unused, used = np.int64(0), np.int64(0)
    if keeps_states(lane) and hits > 0:
        for number in range(lane["states"]):
            record = ws.tables[state_slot(lane, state, number, hits - 1)]
            users = ws.blocks[record]["ref_count"]
            unused += users == 0
            used += users > 0
    return unused, used


@leaf
def touch_state(ws, lane, inst, state, s, hits):
    """Let a request have the states that were found behind `hits` blocks."""
    if keeps_states(lane) and hits > 0:
        for number in range(lane["states"]):
            block_records.touch(ws, inst, ws.tables[state_slot(lane, state, number, hits - 1)])
        ws.recurrent[s]["length"] = hits
        ws.recurrent[s]["alive"] = hits - 1
