"""Whose windows leave a block in which step of a run of decodes, by phase (rule R12.2).

A table whose window leaves a block at a step leaves the next one a block of tokens later, so all
tables of one phase, the step modulo the block size, are a list: in order of the running requests,
then of groups. A long window may leave none yet.
"""

import numpy as np

from ..._jit import leaf
from ...limits import MAX_GROUPS
from ...records import NONE
from ..blocks.sizes import tokens_beyond
from .tables import FAR, groups_of, window_of

_ROOM = np.int64(MAX_GROUPS)
"""A table is packed as its state times this, and its group."""


@leaf
def _list_of(inp, ws, lane, inst, state, s, group):
    """Return the place of the list in which a table is, its state being up to date."""
    window = window_of(inp, lane, group)
    end = (ws.gone[s * groups_of(lane) + group] + 1) * lane["block_size"] + window - 1
    step = state["since"] + end - (state["computed"] - state["flight"])
    return inst["phase_lo"] + tokens_beyond(lane, step)


@leaf
def _tail(lane, place):
    """Return where the last table of the list at `place` is noted."""
    return lane["instances"] * lane["block_size"] + place


@leaf
def enlist(inp, ws, lane, inst, state, s):
    """Put the tables of a request with a window at the end of their lists."""
    if state["release_at"] < FAR:
        for group in range(groups_of(lane)):
            if window_of(inp, lane, group) > 0:
                place = _list_of(inp, ws, lane, inst, state, s, group)
                table = s * _ROOM + group
                if ws.leavers[place] == NONE:
                    ws.leavers[place] = table
                else:
                    last = ws.leavers[_tail(lane, place)]
                    ws.next_leaver[(last // _ROOM) * groups_of(lane) + last % _ROOM] = table
                ws.leavers[_tail(lane, place)] = table
                ws.next_leaver[s * groups_of(lane) + group] = NONE


@leaf
def _take_out(ws, lane, place, table):
    """Take a table out of the list at `place`."""
    before = np.int64(NONE)
    at = np.int64(ws.leavers[place])
    while at != table:
        before = at
        at = np.int64(ws.next_leaver[(at // _ROOM) * groups_of(lane) + at % _ROOM])
    after = ws.next_leaver[(at // _ROOM) * groups_of(lane) + at % _ROOM]
    if before == NONE:
        ws.leavers[place] = after
    else:
        ws.next_leaver[(before // _ROOM) * groups_of(lane) + before % _ROOM] = after
    if after == NONE:
        ws.leavers[_tail(lane, place)] = before


@leaf
def discharge(inp, ws, lane, inst, state, s):
    """Take the tables of a request out of their lists, its state being up to date."""
    if state["release_at"] < FAR:
        for group in range(groups_of(lane)):
            if window_of(inp, lane, group) > 0:
                place = _list_of(inp, ws, lane, inst, state, s, group)
                _take_out(ws, lane, place, s * _ROOM + group)


@leaf
def forget_phases(ws, lane, inst):
    """Forget who takes and who leaves blocks at which phase."""
    for place in range(inst["phase_lo"], inst["phase_lo"] + lane["block_size"]):
        ws.phases[place] = 0
        ws.leavers[place] = NONE
