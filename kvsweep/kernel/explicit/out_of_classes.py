"""In a pipeline nobody is counted any more, as blocks lack: each gets its entries again."""

import numpy as np

from ..._jit import leaf
from ..time.calendar import IDLE
from .batches import class_of, decode_one, entry_at, flies_with, in_ring, place_of
from .due import catch_up, fit, phases_of
from .tables import cache_known


@leaf
def _make_places(ws, lane, engine):
    """Let each batch on its way have places for entries of those who have none in it."""
    for turn in range(engine["queued"]):
        number = in_ring(lane, engine["oldest"] + turn)
        batch = ws.batches[engine["batch_lo"] + number]
        first = entry_at(lane, engine, number, 0)
        further = batch["plain"] - batch["skipped"]
        if further > 0:
            for place in range(first + batch["size"] - 1, first + batch["skipped"] - 1, -1):
                ws.entries[place + further] = ws.entries[place]
        batch["size"] += further
        batch["skipped"] = 0  # places that are filled


@leaf
def _give_entry(ws, lane, engine, number, made_by, s):
    """Give a request its entry in the batch of a schedule, behind those given before."""
    place = place_of(lane, engine, number, made_by)
    batch = ws.batches[engine["batch_lo"] + place]
    decode_one(ws, entry_at(lane, engine, place, batch["skipped"]), s)
    batch["skipped"] += 1
    batch["plain"] -= 1


@leaf
def _bring_up(inp, ws, lane, inst, tally, engine, r, number):
    """Bring a request up to date, as schedule `number` needs it that looks at each."""
    s = engine["state_lo"] + r
    state = ws.states[s]
    catch_up(inp, ws, lane, inst, tally, engine, r)
    state["last_token"] = class_of(ws, lane, engine, state["since"])["last_end"]
    state["eligible"] = state["since"]
    if lane["async_scheduling"] or state["since"] < number:
        _give_entry(ws, lane, engine, number, flies_with(lane, state), s)
    if not lane["async_scheduling"] and state["since"] < number:
        state["computed"] += 1
        state["sure"] += 1
        state["flight"] = 1
        state["eligible"] += lane["stages"]
        fit(lane, tally, state, state["computed"], r >= lane["warmup"])
    request = inp.requests[lane["request_lo"] + r]
    cached = np.int64(state["computed"]) - lane["async_scheduling"]
    cache_known(inp, ws, lane, inst, request, state, s, cached)


@leaf
def stand_down(inp, ws, lane, inst, tally, engine):
    """Bring all who are counted up to date, and count nobody."""
    number = np.int64(inst["step"])
    if lane["async_scheduling"]:  # the state in which each is when its token is back
        inst["step"] += lane["stages"] - 1
    _make_places(ws, lane, engine)
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        _bring_up(inp, ws, lane, inst, tally, engine, ws.running[place], number)
        ws.due[place] = IDLE
    for turn in range(lane["stages"]):
        its = class_of(ws, lane, engine, turn)
        its["count"] = 0
        its["context"] = 0
        its["measured"] = 0
        ws.batches[engine["batch_lo"] + in_ring(lane, engine["oldest"] + turn)]["skipped"] = 0
    for phase in range(phases_of(lane)):
        ws.phases[inst["phase_lo"] + phase] = 0
    engine["counted"] = 0
