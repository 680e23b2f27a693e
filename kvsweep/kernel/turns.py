"""Whose turn it is: which instances are advanced before a request is routed, and until when.

In a closed loop, and where prefill and decode are apart, instances go on in the order of time.
"""

import numpy as np

from .._jit import leaf
from ..records import NEVER, NONE
from .explicit import by_itself
from .offload import engine as offload
from .time.arrivals import next_event


@leaf
def next_turn(ws, lane, index):
    """Return the turn of an instance: twice the time of what it does next, us, plus its kind.

    So the lowest comes first, at one time outputs (`by_itself.OUTPUTS`). NEVER if that is nothing.
    """
    time = NEVER
    kind = 0
    if lane["connects"]:
        time = offload.next_time(ws, lane, ws.instances[index])
    if lane["unconnected"]:
        time = next_event(ws, ws.instances[index])
    if lane["explicit"]:
        time, kind = by_itself.next_time(ws, ws.own[index], ws.instances[index])
    return 2 * time + kind if time < NEVER else NEVER


@leaf
def _time_of(turn):
    """Return the time of a turn, us."""
    return turn >> 1 if turn < NEVER else NEVER


@leaf
def _earliest(ws, lane):
    """Return the instance that does something next, when, and when the first other one does; us.

    Turns are kept, as few change from one step to the next: whatever changes that of another
    instance lets it be NONE, and it is found anew here (a closed loop of 256 instances took four
    times as long with all of them found anew).
    """
    index, first, second = 0, NEVER, NEVER
    for candidate in range(lane["instances"]):
        turn = ws.turns[candidate]
        if turn == NONE:
            turn = next_turn(ws, lane, candidate)
            ws.turns[candidate] = turn
        if turn < first:
            second = first
            first = turn
            index = candidate
        else:
            second = min(second, turn)
    return index, _time_of(first), _time_of(second)


@leaf
def _first_woken(ws, lane, second):
    """Return when a starved prefill may hand over that another instance lets begin at `second`.

    A transfer takes some time; but beside states there may be nothing to pull (R14.13).
    """
    told = lane["pull_base"] * (lane["states"] == 0)
    return second + told + np.int64(ws.own[0]["beta0"]) + lane["handoff"]


@leaf
def _first_handed(ws, lane, second):
    """Return when a prompt may be handed over next; another instance does something at `second`."""
    handed = NEVER
    starved = False
    for index in range(lane["routed"]):
        inst = ws.instances[index]
        outputs = by_itself.first_outputs(ws, ws.own[index], inst, _time_of(ws.turns[index]))
        handed = min(handed, outputs + lane["handoff"])
        starved = starved or by_itself.is_starved(ws, inst)
    return min(handed, _first_woken(ws, lane, second)) if starved else handed


@leaf
def routes_unseen(lane):
    """Return whether no request is routed by what becomes of others: all can be at once."""
    return lane["follow_ups"] == 0 and lane["reads_state"] == 0 and lane["threshold"] < 0


@leaf
def next_to_advance(ws, lane, r, now):
    """Return which instances to advance before request `r` is routed at `now`.

    In a closed loop one at a time, and none once nothing happens before `now`. Else all, but only
    for routers that look, and at the end.

    Returns
    -------
    first, end, until, second : int
        From which instance on; behind the last; until when; when another one does something.
    """
    if not lane["closed_loop"]:
        return 0, lane["instances"] if lane["reads_state"] or r == NONE else 0, now, now
    if lane["disaggregated"] and r != NONE and routes_unseen(lane):
        return 0, 0, now, now
    index, first, second = _earliest(ws, lane)
    if first < now:
        until = second
        if lane["disaggregated"] and index >= lane["routed"] and by_itself.runs_ahead(lane):
            until = _first_handed(ws, lane, second)
        return index, index + 1, min(now, max(until, first + 1)), second
    return 0, 0, now, now
