"""What windows leave in a step in which requests only decode (rule R12.2): by count, or in turn.

A list of leavers.py is *looked at*, table by table, where one begins or ends to leave blocks, or
leaves one that others may find; otherwise as many leave one as at its last visit.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from .due import catch_up
from .leavers import advance_all, expect, find_own
from .left_behind import leave_bare, leave_some
from .slots import groups_of, window_of
from .tables import leave_one


@leaf
def _leave_one(inp, ws, lane, inst, tally, engine, table):
    """Give back the next block of a table, which others may find or has no key."""
    s, group = table // groups_of(lane), table % groups_of(lane)
    r = s - engine["state_lo"]
    catch_up(inp, ws, lane, inst, tally, engine, r)
    request = inp.requests[lane["request_lo"] + r]
    leave_one(inp, ws, lane, inst, engine, request, ws.states[s], s, group)
    edge = ws.edges[table]
    edge["step"] += lane["block_size"]
    find_own(lane, ws.states[s], edge, window_of(inp, lane, group))


@leaf
def _is_due(inst, edge):
    """Return whether the window of a table leaves a block in this step."""
    return edge["step"] <= inst["step"] < edge["until"]


@leaf
def leave_in_turn(inp, ws, lane, inst, tally, engine, table):
    """Give back what the window of a table leaves in this step, if anything; return the next."""
    if _is_due(inst, ws.edges[table]):
        _leave_one(inp, ws, lane, inst, tally, engine, table)
    return np.int64(ws.edges[table]["next"])


@leaf
def begin_turns(ws, lane, inst, phase):
    """Return the first table whose window may leave a block in this step, if they go in turn."""
    if not lane["windows"]:
        return np.int64(NONE)
    leavers = ws.leavers[phase]
    advance_all(ws, lane, leavers)
    return np.int64(leavers["first"])


@leaf
def end_turns(ws, lane, inst, phase):
    """Note that all tables have had their turn in this step."""
    if lane["windows"]:
        ws.leavers[phase]["visited"] = inst["step"]


@leaf
def _look_ahead(ws, lane, inst, leavers):
    """Count who will leave a block at the next visit, and find when to look again."""
    leavers["count"] = 0
    leavers["bare"] = 0
    leavers["look_at"] = NEVER
    table = np.int64(leavers["first"])
    while table != NONE:
        edge = ws.edges[table]
        expect(leavers, edge, inst["step"] + lane["block_size"])
        table = np.int64(edge["next"])


@leaf
def _leave_each(inp, ws, lane, inst, tally, engine, leavers):
    """Look at each table of a list for what its window leaves in this step."""
    some, first = np.int64(0), np.int64(0)
    table = np.int64(leavers["first"])
    while table != NONE:
        edge = ws.edges[table]
        if _is_due(inst, edge) and edge["bare"] <= inst["step"]:
            leave_bare(inst, engine, 1)
        elif _is_due(inst, edge) and edge["own"] <= inst["step"]:
            if some == 0:
                first = np.int64(edge["number"])
            some += 1
        elif _is_due(inst, edge):
            if some > 0:
                leave_some(ws, lane, inst, engine, leavers, some, first)
                some = np.int64(0)
            _leave_one(inp, ws, lane, inst, tally, engine, table)
        table = np.int64(edge["next"])
    if some > 0:
        leave_some(ws, lane, inst, engine, leavers, some, first)
    _look_ahead(ws, lane, inst, leavers)


@leaf
def _leave(inp, ws, lane, inst, tally, engine, leavers):
    """Give back the blocks that a list leaves in this step, whose phase it is."""
    if inst["step"] >= leavers["look_at"]:
        _leave_each(inp, ws, lane, inst, tally, engine, leavers)
    else:
        if leavers["bare"] > 0:
            leave_bare(inst, engine, leavers["bare"])
        if leavers["count"] > 0:
            leave_some(ws, lane, inst, engine, leavers, leavers["count"], np.int64(0))
    leavers["visited"] = inst["step"]


@leaf
def leave_windows(inp, ws, lane, inst, tally, engine, phase):
    """Give back the blocks that windows leave in this step, at `phase`; once."""
    if lane["windows"]:
        leavers = ws.leavers[phase]
        if leavers["first"] != NONE and leavers["visited"] < inst["step"]:
            _leave(inp, ws, lane, inst, tally, engine, leavers)
