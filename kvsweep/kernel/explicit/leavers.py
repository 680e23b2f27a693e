"""Whose windows leave a block in which step while requests only decode, by phase (rule R12.2).

A table whose window leaves a block at a step leaves the next one a block of tokens later, so all
tables of one phase, the step modulo the block size, are a list: in order of the running requests,
then of groups. A long window may leave none yet.

Whose blocks have keys that nobody else has leaves them by count: `gone` and `step` of its table
stay as they were, until `advance` tells what it has left since. A victim needs to know which of
these are still free (left_behind.py): it is behind so many in a note as have lower numbers and
left a block in that step too. Who has ended in between still counts, as long as a note that tells
of it is in use.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..blocks.sizes import full_blocks, tokens_beyond
from .kept import leaves_by_count, tail_of
from .left_behind import cut_out, is_in_use, is_noted, note_of
from .slots import FAR, groups_of, slot_of, window_of


@leaf
def _list_of(ws, lane, inst, edge):
    """Return the list in which a table is."""
    return ws.leavers[inst["phase_lo"] + tokens_beyond(lane, edge["step"])]


@leaf
def advance(lane, leavers, edge):
    """Note what a table has left by count."""
    last = min(leavers["visited"], edge["until"] - 1)
    if last >= edge["step"]:
        left = full_blocks(lane, last - edge["step"]) + 1
        edge["gone"] += left
        edge["step"] += left * lane["block_size"]


@leaf
def advance_all(ws, lane, leavers):
    """Note what all tables of a list have left by count."""
    table = np.int64(leavers["first"])
    while table != NONE:
        advance(lane, leavers, ws.edges[table])
        table = np.int64(ws.edges[table]["next"])


@leaf
def find_own(lane, state, edge, window):
    """Note from which step on nobody else has the keys of what a table leaves, if it is so.

    And from which on it leaves blocks without keys, if the window keeps but some in the cache.
    """
    private = np.int64(state["private"])
    if lane["sparse"]:
        private, bare = leaves_by_count(lane, state, tail_of(lane, window))
        if bare < FAR:
            edge["bare"] = edge["step"] + max(bare - edge["gone"], 0) * lane["block_size"]
    if edge["gone"] >= private or not lane["prefix_caching"]:
        edge["own"] = min(edge["own"], edge["step"])


@leaf
def _set_edge(inp, lane, state, edge, group):
    """Note when a window leaves blocks of a request whose state is up to date.

    Asynchronously it leaves none with the step in which the last token is on its way.
    """
    end = (edge["gone"] + 1) * lane["block_size"] + window_of(inp, lane, group) - 1
    edge["step"] = state["since"] + end - (state["computed"] - state["flight"])
    edge["until"] = NEVER
    if lane["async_scheduling"]:
        edge["until"] = state["since"] + state["limit"] - 1 - state["known"]
    edge["own"] = NEVER
    edge["bare"] = NEVER
    find_own(lane, state, edge, window_of(inp, lane, group))


@leaf
def expect(leavers, edge, step):
    """Count a table if it leaves a block by count in `step`, the next visit; else look at it."""
    edge["counts"] = 0
    if edge["bare"] <= step:
        edge["counts"] = 2
        leavers["bare"] += 1
    elif edge["own"] <= step:
        edge["counts"] = 1
        leavers["count"] += 1
        leavers["look_at"] = min(leavers["look_at"], edge["bare"])
    else:
        leavers["look_at"] = min(leavers["look_at"], edge["step"])
    leavers["look_at"] = min(leavers["look_at"], edge["until"])


@leaf
def _append(ws, leavers, table):
    """Put a table at the end of a list."""
    edge = ws.edges[table]
    edge["next"] = NONE
    edge["before"] = leavers["last"]
    edge["number"] = leavers["joined"]
    leavers["joined"] += 1
    if leavers["last"] == NONE:
        leavers["first"] = table
    else:
        ws.edges[leavers["last"]]["next"] = table
    leavers["last"] = table


@leaf
def enlist(inp, ws, lane, inst, state, s):
    """Put the tables of a request with a window at the end of their lists."""
    if lane["windows"] and state["release_at"] < FAR:
        for group in range(groups_of(lane)):
            if window_of(inp, lane, group) > 0:
                table = s * groups_of(lane) + group
                edge = ws.edges[table]
                _set_edge(inp, lane, state, edge, group)
                leavers = _list_of(ws, lane, inst, edge)
                if leavers["visited"] >= edge["step"]:  # the others were asked in this step
                    advance_all(ws, lane, leavers)
                    leavers["visited"] = edge["step"] - 1
                    leavers["look_at"] = 0
                _append(ws, leavers, table)
                expect(leavers, edge, inst["step"] + lane["block_size"] - 1)


@leaf
def _count_before(ws, table, number, note):
    """Return how many tables from one on left a block as a note tells, before that of `number`."""
    count = np.int64(0)
    while table != NONE:
        edge = ws.edges[table]
        left = edge["own"] <= note["step"] < min(edge["until"], edge["bare"])
        count += left and note["first"] <= edge["number"] < number
        table = np.int64(edge["next"])
    return count


@leaf
def _find_own(ws, lane, inst, engine, leavers, table):
    """Make what a table has left by count stretches of its request, as far as it is still free."""
    s, group = table // groups_of(lane), table % groups_of(lane)
    edge = ws.edges[table]
    block = np.int64(edge["gone"]) - 1
    step = np.int64(edge["step"]) - lane["block_size"]
    if step >= edge["bare"]:
        bare = full_blocks(lane, step - edge["bare"]) + 1
        block -= bare
        step -= bare * lane["block_size"]
    place = np.int64(leavers["latest"])
    while is_noted(lane, engine, place) and step >= edge["own"]:
        note = note_of(ws, lane, inst, engine, place)
        if note["step"] > step or (note["step"] == step and note["first"] > edge["number"]):
            place = np.int64(note["before"])
        else:
            if note["step"] == step:
                ahead = _count_before(ws, leavers["first"], edge["number"], note)
                ahead += _count_before(ws, leavers["ended"], edge["number"], note)
                found = cut_out(ws, lane, inst, engine, place, ahead, s, group, block)
                if found == NONE:
                    return  # what it left before was evicted before
                ws.tables[slot_of(ws.states[s], group, block)] = found
            step -= lane["block_size"]
            block -= 1


@leaf
def find_all(ws, lane, inst, engine, leavers):
    """Make what is still free of what a list left by count stretches of those who left it.

    Its notes, now in pieces, are not asked any more, so nobody who has ended is remembered.
    """
    advance_all(ws, lane, leavers)
    if is_in_use(ws, lane, inst, engine, leavers["latest"]):
        table = np.int64(leavers["first"])
        while table != NONE:
            _find_own(ws, lane, inst, engine, leavers, table)
            table = np.int64(ws.edges[table]["next"])
    leavers["latest"] = NONE
    leavers["ended"] = NONE


@leaf
def find_left(ws, lane, inst, engine):
    """Do so for all lists."""
    if lane["windows"] and lane["drafts"] == 0:
        for place in range(inst["phase_lo"], inst["phase_lo"] + lane["block_size"]):
            find_all(ws, lane, inst, engine, ws.leavers[place])


@leaf
def _take_out(ws, leavers, table):
    """Take a table out of a list."""
    edge = ws.edges[table]
    leavers["count"] -= edge["counts"] == 1
    leavers["bare"] -= edge["counts"] == 2
    if edge["before"] == NONE:
        leavers["first"] = edge["next"]
    else:
        ws.edges[edge["before"]]["next"] = edge["next"]
    if edge["next"] == NONE:
        leavers["last"] = edge["before"]
    else:
        ws.edges[edge["next"]]["before"] = edge["before"]


@leaf
def _remember(ws, lane, inst, engine, leavers, table):
    """Remember who has ended, and no longer those of whose notes none is in use."""
    first = np.int64(leavers["ended"])
    while first != NONE and not is_in_use(ws, lane, inst, engine, ws.edges[first]["latest"]):
        first = np.int64(ws.edges[first]["next"])
    edge = ws.edges[table]
    edge["until"] = min(edge["until"], leavers["visited"] + 1)
    edge["latest"] = leavers["latest"]
    edge["next"] = NONE
    if first == NONE:
        first = table
    else:
        ws.edges[leavers["ended_last"]]["next"] = table
    leavers["ended"] = first
    leavers["ended_last"] = table


@leaf
def discharge(inp, ws, lane, inst, engine, state, s, preempted):
    """Take the tables of a request out of their lists, as it has ended or is preempted."""
    if lane["windows"] and state["release_at"] < FAR:
        for group in range(groups_of(lane)):
            if window_of(inp, lane, group) > 0:
                table = s * groups_of(lane) + group
                leavers = _list_of(ws, lane, inst, ws.edges[table])
                advance(lane, leavers, ws.edges[table])
                if preempted:  # it may be in a list again, and is not to be remembered
                    find_all(ws, lane, inst, engine, leavers)
                _take_out(ws, leavers, table)
                if is_in_use(ws, lane, inst, engine, leavers["latest"]):
                    _remember(ws, lane, inst, engine, leavers, table)


@leaf
def forget_phases(ws, lane, inst):
    """Forget who takes and who leaves blocks at which phase."""
    for place in range(inst["phase_lo"], inst["phase_lo"] + lane["block_size"]):
        ws.phases[place] = 0
        if lane["windows"]:
            ws.leavers[place] = ws.blank_leavers[0]
