"""Whose windows leave a block in which step of a run of decodes, by phase (rule R12.2).

A table whose window leaves a block at a step leaves the next one a block of tokens later, so all
tables of one phase, the step modulo the block size, are a list: in order of the running requests,
then of groups. A long window may leave none yet.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..blocks.sizes import tokens_beyond
from .tables import FAR, groups_of, slot_of, window_of


@leaf
def _list_of(lane, inst, edge):
    """Return the place of the list in which a table is."""
    return inst["phase_lo"] + tokens_beyond(lane, edge["step"])


@leaf
def _tail(lane, place):
    """Return where the last table of the list at `place` is noted."""
    return lane["instances"] * lane["block_size"] + place


@leaf
def point_edge(ws, lane, state, s, group):
    """Note which block of a table leaves its window next, and whether anybody else has its key."""
    edge = ws.edges[s * groups_of(lane) + group]
    edge["slot"] = slot_of(state, group, edge["gone"])
    edge["own"] = lane["prefix_caching"] and edge["gone"] >= state["private"]


@leaf
def _set_edge(inp, ws, lane, state, s, group):
    """Note when a window leaves blocks of a request whose state is up to date.

    Asynchronously it leaves none with the step in which the last token is on its way.
    """
    edge = ws.edges[s * groups_of(lane) + group]
    end = (edge["gone"] + 1) * lane["block_size"] + window_of(inp, lane, group) - 1
    edge["step"] = state["since"] + end - (state["computed"] - state["flight"])
    edge["until"] = NEVER
    if lane["async_scheduling"]:
        edge["until"] = state["since"] + state["limit"] - 1 - state["known"]
    point_edge(ws, lane, state, s, group)


@leaf
def enlist(inp, ws, lane, inst, state, s):
    """Put the tables of a request with a window at the end of their lists."""
    if lane["windows"] and state["release_at"] < FAR:
        for group in range(groups_of(lane)):
            if window_of(inp, lane, group) > 0:
                _set_edge(inp, ws, lane, state, s, group)
                table = s * groups_of(lane) + group
                place = _list_of(lane, inst, ws.edges[table])
                if ws.leavers[place] == NONE:
                    ws.leavers[place] = table
                else:
                    ws.edges[ws.leavers[_tail(lane, place)]]["next"] = table
                ws.leavers[_tail(lane, place)] = table
                ws.edges[table]["next"] = NONE


@leaf
def _take_out(ws, lane, place, table):
    """Take a table out of the list at `place`."""
    before = np.int64(NONE)
    at = np.int64(ws.leavers[place])
    while at != table:
        before = at
        at = np.int64(ws.edges[at]["next"])
    after = np.int64(ws.edges[at]["next"])
    if before == NONE:
        ws.leavers[place] = after
    else:
        ws.edges[before]["next"] = after
    if after == NONE:
        ws.leavers[_tail(lane, place)] = before


@leaf
def discharge(inp, ws, lane, inst, state, s):
    """Take the tables of a request out of their lists."""
    if lane["windows"] and state["release_at"] < FAR:
        for group in range(groups_of(lane)):
            if window_of(inp, lane, group) > 0:
                table = s * groups_of(lane) + group
                _take_out(ws, lane, _list_of(lane, inst, ws.edges[table]), table)


@leaf
def forget_phases(ws, lane, inst):
    """Forget who takes and who leaves blocks at which phase."""
    for place in range(inst["phase_lo"], inst["phase_lo"] + lane["block_size"]):
        ws.phases[place] = 0
        ws.leavers[place] = NONE
