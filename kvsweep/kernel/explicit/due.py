"""When the requests of a run of decode steps need attention, and what they are given then."""

import numpy as np

from ..._jit import leaf
from ...records import NONE, Event
from ..time.calendar import leave_running
from .log import note
from .settling import finish
from .tables import allocate, cache_known


@leaf
def catch_up(state, step):
    """Bring a request up to date: each step since it was has given it a token."""
    steps = step - state["since"]
    state["computed"] += steps
    state["known"] += steps
    state["sure"] += steps
    state["since"] = step


@leaf
def _makes_arrival(lane, request):
    """Return whether another request arrives once this one has its last token."""
    return lane["concurrency"] > 0 or request["follower"] != NONE


@leaf
def _last_step(lane, request, state):
    """Return in how many steps a request has its last token, or is told to have it soon.

    A schedule tells of it; asynchronously that is one step before.
    """
    steps = np.int64(state["limit"]) - 1 - state["known"]
    if lane["async_scheduling"] and _makes_arrival(lane, request):
        steps -= 1
    return steps


@leaf
def next_due(lane, request, state, step):
    """Return the next step at which a request, up to date at `step`, needs attention."""
    computed = np.int64(state["computed"])
    steps = np.int64(state["room"]) - computed
    steps = min(steps, state["release_at"] - computed + state["flight"])
    if state["published"] < state["private"]:
        steps = min(steps, state["publish_at"] - min(computed + 1, np.int64(state["known"])))
    steps = min(steps, _last_step(lane, request, state))
    return step + max(steps, 0)


@leaf
def serve_due(inp, ws, lane, inst, tally, engine, first, last):
    """Give those who are due their blocks; return how many have their last token, NONE: stop.

    What was given stays given: the step that is scheduled instead begins with the same.
    """
    ending = np.int64(0)
    for position in range(first, last + 1):
        place = inst["run_lo"] + position
        if ws.due[place] == inst["step"]:
            r = ws.running[place]
            s = engine["state_lo"] + r
            state = ws.states[s]
            catch_up(state, inst["step"])
            request = inp.requests[lane["request_lo"] + r]
            ends = state["known"] + 1 >= state["limit"]
            if _makes_arrival(lane, request) and _last_step(lane, request, state) <= 0:
                return NONE
            if not (ends and lane["async_scheduling"]):
                measured = r >= lane["warmup"]
                if not allocate(inp, ws, lane, inst, tally, engine, request, state, s, 1, measured):
                    return NONE
            ending += ends
            if not ends:
                ws.due[place] = next_due(lane, request, state, inst["step"])
    return ending


@leaf
def end_some(inp, ws, out, lane, inst, tally, index, engine, first, last, step):
    """Finish those who have their last token with the batch of `step`."""
    position = first
    while position <= last:
        place = inst["run_lo"] + position
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        if ws.due[place] == inst["step"] and state["known"] + 1 >= state["limit"]:
            engine["context"] -= state["computed"]
            engine["measured"] -= r >= lane["warmup"]
            state["computed"] += 1 - lane["async_scheduling"]
            state["known"] += 1
            state["flight"] = 0
            state["placeholders"] = 0
            state["done"] = 1
            state["last_token"] = inst["clock"]
            note(out, lane, tally, index, step, Event.FINISH, r, NONE)
            leave_running(ws, inst, position)
            request = inp.requests[lane["request_lo"] + r]
            s, known = engine["state_lo"] + r, np.int64(state["computed"])
            cache_known(inp, ws, lane, inst, request, state, s, known)
            finish(inp, ws, lane, inst, tally, engine, r, inst["clock"])
            last -= 1
        else:
            position += 1
