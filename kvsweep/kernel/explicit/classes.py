"""Who is counted in a pipeline, by class: a request decodes in each schedule as many further on.

Schedules are numbered, empty ones too, and as many as there are stages later the token of a decode
is back. So a request keeps its *class*, the number of a schedule that it is in modulo the stages,
and between two schedules of its class all that changes is that it has one more token. Leading
running requests are counted as in counted.py; what is a step there is here the number of a
schedule, which `inst["step"]` is meanwhile: `since` of a state, when it is due, and phases. Who is
counted may have a batch on its way, in which it has no entry.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..memory import depth
from ..scheduling.preempt import victim_is_last
from ..time.arrivals import makes_arrival, tell_end
from ..time.calendar import IDLE, find_due
from .batches import class_of, entry_at, flies_with, place_of
from .block_records import take
from .due import catch_up, phase_of, this_phase
from .endings import end_some
from .out_of_classes import stand_down
from .slots import groups_of
from .tables import cache_known


@leaf
def may_count(lane):
    """Return whether a lane may have classes: each of its decodes takes one token and a block."""
    plain = lane["stages"] > 0 and lane["drafts"] == 0
    plain = plain and lane["windows"] == 0 and lane["states"] == 0
    plain = plain and not lane["reach"]
    # As in a run of decodes (may_run.py): a record too many.
    plain = plain and not (lane["block_size"] == 1 and lane["prefix_caching"])
    return plain and victim_is_last(lane)


@leaf
def _last_turn(lane, state):
    """Return the schedule after which a request gets its last token."""
    due = np.int64(state["since"]) + (state["limit"] - 1 - state["known"]) * lane["stages"]
    if not lane["async_scheduling"]:
        due += lane["stages"] - 1
    return due


@leaf
def _next_turn(lane, request, state, number):
    """Return when a request is due: with that schedule, or as one fills what others look up.

    Or as schedule `number` or a later one tells of its end.
    """
    due = _last_turn(lane, state)
    told = np.int64(state["since"]) + lane["stages"] * (
        state["limit"] - 1 - state["known"] - lane["async_scheduling"]
    )
    if makes_arrival(lane, request) and told >= number:
        due = min(due, told)
    if state["published"] < state["private"]:
        filled = min(np.int64(state["computed"]) + 1, np.int64(state["known"]))
        steps = max(state["publish_at"] - filled, 0)
        due = min(due, state["since"] + steps * lane["stages"])
    return due


@leaf
def _schedule_of(lane, state, number):
    """Return the schedule that the state of a request may be of if it is counted, NONE: of none.

    It decodes: with schedule `number`, or with its batch on its way it did with one before.
    """
    found = np.int64(NONE)
    flies = state["flight"] == 1 and state["computed"] == state["known"]
    flies = flies and state["eligible"] >= number + (lane["async_scheduling"] == 0)
    if lane["async_scheduling"]:
        if flies and state["placeholders"] == 1:
            found = np.int64(state["eligible"])
    elif flies:
        found = np.int64(state["eligible"]) - lane["stages"]
    elif state["flight"] == 0 and state["eligible"] == number:
        found = np.int64(number if state["known"] - state["computed"] == 1 else NONE)
    if state["prefilling"] or state["room"] - state["computed"] >= lane["block_size"]:
        found = np.int64(NONE)
    return found


@leaf
def _drop_entry(ws, lane, engine, place, s):
    """Let a batch on its way have no entry of a request, if that is its first; return whether."""
    if place == NONE:
        return False
    batch = ws.batches[engine["batch_lo"] + place]
    entry = ws.entries[entry_at(lane, engine, place, batch["skipped"])]
    if batch["skipped"] == batch["size"] or entry["state"] != s:
        return False
    batch["skipped"] += 1
    batch["plain"] += 1
    return True


@leaf
def _may_join(ws, lane, engine, state, s, number):
    """Return whether a request is counted from now on; then its state is of `since`."""
    since = _schedule_of(lane, state, number)
    if since == NONE or state["last_token"] == NONE:
        return False
    state["since"] = since
    alike = state["last_token"] == class_of(ws, lane, engine, since)["last_end"]
    if not alike or _last_turn(lane, state) >= IDLE:
        return False
    if state["flight"] == 0:
        return True
    place = place_of(lane, engine, number, flies_with(lane, state))
    return _drop_entry(ws, lane, engine, place, s)


@leaf
def join_classes(inp, ws, lane, inst, engine, number):
    """Count those who decode from now on, behind those who are counted; `number` comes next."""
    goes_on = engine["queued"] == depth(lane) - 1
    while goes_on and engine["counted"] < inst["running"]:
        place = inst["run_lo"] + engine["counted"]
        r = ws.running[place]
        s = engine["state_lo"] + r
        state = ws.states[s]
        goes_on = _may_join(ws, lane, engine, state, s, number)
        if goes_on:
            if not lane["async_scheduling"]:
                state["computed"] -= state["flight"]
                state["sure"] -= state["flight"]
                state["flight"] = 0
            engine["counted"] += 1
            its = class_of(ws, lane, engine, state["since"])
            its["count"] += 1
            its["context"] += state["computed"]
            its["measured"] += r >= lane["warmup"]
            request = inp.requests[lane["request_lo"] + r]
            ws.due[place] = _next_turn(lane, request, state, number)
            ws.phases[phase_of(lane, inst, state)] += 1


@leaf
def _cache_due(inp, ws, lane, inst, tally, engine, first, last):
    """Cache the blocks that are due as others look them up."""
    for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
        if ws.due[place] == inst["step"]:
            r = ws.running[place]
            catch_up(inp, ws, lane, inst, tally, engine, r)
            s = engine["state_lo"] + r
            state = ws.states[s]
            if _last_turn(lane, state) > inst["step"]:
                request = inp.requests[lane["request_lo"] + r]
                tokens = np.int64(state["computed"]) + 1
                cache_known(inp, ws, lane, inst, request, state, s, tokens)
                ws.due[place] = _next_turn(lane, request, state, np.int64(inst["step"]))


@leaf
def _ending(inp, ws, lane, inst, tally, engine, first, last):
    """Find who of this class has its last token on its way, so that the schedule has it not.

    Returns
    -------
    count, context, measured : int
        How many they are, their computed tokens, those of them who are measured.
    spared : int
        How many of them would take a block in it.
    """
    count, context = np.int64(0), np.int64(0)
    measured, spared = np.int64(0), np.int64(0)
    if lane["async_scheduling"]:
        for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
            if ws.due[place] == inst["step"]:
                r = ws.running[place]
                catch_up(inp, ws, lane, inst, tally, engine, r)
                state = ws.states[engine["state_lo"] + r]
                if state["known"] + 1 >= state["limit"]:
                    count += 1
                    context += state["computed"]
                    measured += r >= lane["warmup"]
                    spared += state["computed"] == state["room"]
    return count, context, measured, spared


@leaf
def _schedule(inp, ws, lane, inst, tally, engine):
    """Schedule the class whose turn it is; or count nobody any more."""
    first, last, _ = find_due(ws, inst)
    count, context, measured, spared = _ending(inp, ws, lane, inst, tally, engine, first, last)
    taken = (ws.phases[this_phase(lane, inst)] - spared) * groups_of(lane)
    its = class_of(ws, lane, engine, inst["step"])
    fits = taken <= inst["free"]
    if lane["fair_share"]:
        fits = fits and its["count"] - count <= engine["share"]
    if not fits:
        stand_down(inp, ws, lane, inst, tally, engine)
        return
    take(ws, inst, taken)
    _cache_due(inp, ws, lane, inst, tally, engine, first, last)
    engine["plain"] = its["count"] - count
    inst["decode_tokens"] += engine["plain"]
    inst["decode_context"] += its["context"] - context
    inst["budget"] -= engine["plain"]
    engine["input"] -= engine["plain"]
    tally["computed_tokens"] += its["measured"] - measured


@leaf
def schedule_class(inp, ws, lane, inst, tally, engine):
    """Schedule those who are counted, without entries, as far as it is their turn."""
    engine["plain"] = 0
    if may_count(lane):
        join_classes(inp, ws, lane, inst, engine, engine["schedules"])
        if engine["counted"] > 0:
            step = np.int64(inst["step"])
            inst["step"] = engine["schedules"]
            _schedule(inp, ws, lane, inst, tally, engine)
            inst["step"] = step


@leaf
def announce_class(inp, ws, lane, inst, tally, engine, end):
    """Tell of those counted who will have all their tokens with this batch, at its `end`."""
    number = np.int64(engine["schedules"])
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        if ws.due[place] == number:
            r = ws.running[place]
            state = ws.states[engine["state_lo"] + r]
            left = state["limit"] - state["known"] - lane["async_scheduling"]
            if left == 1 and _last_turn(lane, state) > number:
                tell_end(inp, ws, lane, inst, tally, r, end + int(lane["alpha2"]))
                request = inp.requests[lane["request_lo"] + r]
                ws.due[place] = _next_turn(lane, request, state, number + 1)


@leaf
def process_class(inp, ws, out, lane, inst, tally, index, engine):
    """Give each who is counted its token of the batch that has just ended."""
    if engine["counted"] > 0:
        batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
        its = class_of(ws, lane, engine, engine["schedules"] - engine["queued"] + 1)
        engine["even"] += its["measured"]
        step = np.int64(inst["step"])
        inst["step"] = engine["schedules"]
        first, last, _ = find_due(ws, inst)
        end_some(inp, ws, out, lane, inst, tally, index, engine, first, last, batch["step"])
        inst["step"] = step
        its["context"] += its["count"]
