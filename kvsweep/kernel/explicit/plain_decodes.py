"""Steps that admit beside running requests of which each decodes one token: without entries.

Synchronously such a step is processed before the next is scheduled, so all that there is to do for
these is one more token each, and maybe a block. Where all of them get their blocks nobody is
preempted. A log tells of each, so a lane with one does without.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE, PREFILL, Event
from ..time.arrivals import tell_end
from .log import note
from .settling import finish
from .tables import allocate


@leaf
def _is_plain(engine, state):
    """Return whether a request got a token in the last step, and wants one, never computed yet."""
    plain = state["known"] - state["computed"] == 1 and state["last_token"] == engine["last_end"]
    return plain and state["computed"] >= state["frontier"] and not state["prefilling"]


@leaf
def _are_plain(ws, lane, inst, engine):
    """Return whether all running requests are plain, and there is budget and room for all."""
    if lane["drafts"] > 0 or lane["async_scheduling"] or lane["log"] or lane["role"] == PREFILL:
        return False
    needed = np.int64(0)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        state = ws.states[engine["state_lo"] + ws.running[place]]
        if not _is_plain(engine, state):
            return False
        needed += state["computed"] == state["room"]
    fits = needed * lane["groups"] <= inst["free"]
    return fits and inst["running"] <= inst["budget"]


@leaf
def schedule_plain(inp, ws, lane, inst, tally, engine):
    """Schedule all running requests, if they are plain; return whether they are."""
    engine["plain"] = 0
    if inst["running"] == 0 or not _are_plain(ws, lane, inst, engine):
        return False
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        s = engine["state_lo"] + r
        state = ws.states[s]
        measured = r >= lane["warmup"]
        request = inp.requests[lane["request_lo"] + r]
        allocate(inp, ws, lane, inst, tally, engine, request, state, s, 1, measured)
        inst["decode_context"] += state["computed"]
        engine["even"] += measured
        state["computed"] += 1
    engine["plain"] = inst["running"]
    inst["decode_tokens"] += inst["running"]
    inst["budget"] -= inst["running"]
    engine["input"] -= inst["running"]
    tally["computed_tokens"] += engine["even"]
    return True


@leaf
def announce_plain(inp, ws, lane, inst, tally, engine, end):
    """Tell of the plain requests that will have all their tokens with this batch, at its `end`."""
    for place in range(inst["run_lo"], inst["run_lo"] + engine["plain"]):
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        state["sure"] += 1
        if state["sure"] >= state["limit"]:
            tell_end(inp, ws, lane, inst, tally, r, end + int(lane["alpha2"]))


@leaf
def process_plain(inp, ws, out, lane, inst, tally, index, engine, step):
    """Give each plain request the token of the batch; return whether one is finished."""
    finished = False
    for place in range(inst["run_lo"], inst["run_lo"] + engine["plain"]):
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        state["known"] += 1
        state["last_token"] = inst["clock"]
        if state["known"] == state["limit"]:
            state["done"] = 1
            finished = True
            note(out, lane, tally, index, step, Event.FINISH, r, NONE)
            finish(inp, ws, lane, inst, tally, engine, r, inst["clock"])
    engine["plain"] = 0
    return finished
