"""The running requests of a step, one after the other (rules R5.1 and R13.2)."""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE, Event
from ..moving.connector import note_preempted
from ..scheduling import waiting
from ..scheduling.preempt import find_victim, victim_is_last
from ..scheduling.running import chunk_of
from ..tally import log_event
from ..time.windows import inside
from .aligning import aligned
from .batches import entry_at, entry_of, scheduled_batch
from .longest import left_to_longest
from .own_again import release_victim
from .stages import has_share
from .tables import allocate
from .transfers import loads


@leaf
def _charge(lane, inst, state, tokens, sign):
    """Charge the tokens of a request to the step, or give them back (`sign` -1); rule R7.3.

    The context of a decode counts once: its drafts read no more of the cache (R13.2).
    """
    computed = np.int64(state["computed"])
    known = np.int64(state["known"]) + state["placeholders"]
    if known > state["prompt"] and known - computed == 1:
        inst["decode_tokens"] += sign * tokens
        inst["decode_context"] += sign * computed
        inst["decode_inside"] += sign * inside(lane, computed, 1)
    else:
        context = tokens * computed + tokens * (tokens - 1) // 2
        inst["prefill_tokens"] += sign * tokens
        inst["prefill_context"] += sign * context
        inst["prefill_inside"] += sign * inside(lane, computed, tokens)


@leaf
def _count(ws, lane, tally, engine, state, s, tokens, sign):
    """Count computed tokens, drafts too, and those computed again (rule R6.4); or take back."""
    r = s - engine["state_lo"]
    again = min(np.int64(state["computed"]) + tokens, np.int64(state["frontier"]))
    again = sign * max(again - state["computed"], 0)
    if again != 0:
        ws.progress[r]["recomputed"] += again
    if r >= lane["warmup"]:
        tally["computed_tokens"] += sign * tokens
        tally["recomputed_tokens"] += again


@leaf
def schedule(ws, lane, inst, tally, engine, state, s, tokens, drafts, padded):
    """Compute `tokens` of a request in this step, the last `drafts` of them guesses."""
    _charge(lane, inst, state, tokens, 1)
    _count(ws, lane, tally, engine, state, s, tokens, 1)
    inst["budget"] -= tokens
    engine["input"] -= tokens + lane["slot"]
    known = state["known"] + state["placeholders"]
    state["computed"] += tokens
    state["flight"] += tokens
    split = state["computed"] < known
    state["split"] = split
    entry = ws.entries[entry_at(lane, engine, scheduled_batch(lane, engine), engine["size"])]
    entry["state"] = s
    entry["tokens"] = tokens
    entry["drafts"] = drafts
    entry["accepted"] = 0
    entry["samples"] = not split
    entry["padded"] = padded
    state["entry"] = engine["size"]
    engine["size"] += 1
    state["ends_prefill"] = state["prefilling"] != 0 and not split
    if not split:
        state["prefilling"] = 0
        if lane["async_scheduling"]:
            state["placeholders"] += 1 + drafts
            state["drafts"] = lane["drafts"]


@leaf
def _unschedule(ws, lane, inst, tally, engine, state, s, place):
    """Give back to the step what it has scheduled of a request: its entry at `place`."""
    entry = ws.entries[place]
    tokens = np.int64(entry["tokens"])
    if entry["samples"] and lane["async_scheduling"]:
        state["placeholders"] -= 1 + entry["drafts"]
    state["computed"] -= tokens
    state["flight"] -= tokens
    _charge(lane, inst, state, tokens, -1)
    _count(ws, lane, tally, engine, state, s, tokens, -1)
    inst["budget"] += tokens
    engine["input"] += tokens + lane["slot"]
    entry["state"] = NONE
    engine["taken_back"] += 1


@leaf
def is_fenced(ws, lane, engine, s):
    """Return whether a victim must keep its blocks: the step on its way writes to them (R11.6)."""
    fenced = False
    if loads(lane) and lane["async_scheduling"]:
        state = ws.states[s]
        flight = np.int64(state["flight"])
        entry = entry_of(ws, lane, engine, state, s)
        if entry != NONE:
            flight -= ws.entries[entry]["tokens"]
        fenced = bool(flight > 0)
    return fenced


@leaf
def _leave_running(ws, inst, position):
    """Take the request at `position` out of the running list."""
    inst["running"] -= 1
    for place in range(inst["run_lo"] + position, inst["run_lo"] + inst["running"]):
        ws.running[place] = ws.running[place + 1]


@leaf
def _give_back(inp, ws, lane, inst, r, state, s):
    """Free the blocks of a victim."""
    request = inp.requests[lane["request_lo"] + r]
    release_victim(inp, ws, lane, inst, request, state, s)
    if lane["moves"]:
        note_preempted(ws, inst, s)


@leaf
def preempt(inp, ws, out, lane, inst, tally, index, engine, position):
    """Preempt the running request at `position` (rules R5.7 and R10.5)."""
    r = ws.running[inst["run_lo"] + position]
    s = engine["state_lo"] + r
    state = ws.states[s]
    entry = entry_of(ws, lane, engine, state, s)
    if entry != NONE:
        _unschedule(ws, lane, inst, tally, engine, state, s, entry)
    state["frontier"] = max(state["frontier"], min(state["computed"], state["known"]))
    state["preempted"] = 1
    _give_back(inp, ws, lane, inst, r, state, s)
    state["computed"] = 0
    state["drafts"] = 0
    state["placeholders"] = 0
    state["prefilling"] = 0
    state["runs"] = 0
    state["stale"] = state["flight"]
    ws.progress[r]["preemptions"] += 1
    _leave_running(ws, inst, position)
    inst["preempted"] += 1
    inst["victims"] += 1
    inst["shortages"] += 1
    waiting.wait_first(inp, ws, lane, inst, r)
    flies = np.int64(state["flight"] > 0)
    log_event(out, lane, inst, tally, index, Event.PREEMPT, r, flies)


@leaf
def _wanted(ws, lane, inst, engine, state, s, alone):
    """Return the tokens that a step would give a running request; 0: it is passed over."""
    waits = np.int64(state["placeholders"])
    if waits > 0 and state["computed"] + 2 - waits >= state["limit"]:
        return np.int64(0)  # its last token is on its way
    if lane["stages"] and lane["async_scheduling"] and engine["schedules"] < state["eligible"]:
        return np.int64(0)  # its latest token is not back at the first stage
    tokens = np.int64(state["known"]) + state["drafts"] + waits - state["computed"]
    room = min(inst["budget"], engine["input"] - lane["slot"])
    tokens = chunk_of(lane, tokens, room, alone, True)
    if lane["drafts"] > 0:
        tokens = left_to_longest(lane, state, tokens)
    if lane["states"]:
        tokens = aligned(ws, lane, state, s, tokens, np.int64(state["computed"]))
    return tokens


@part
def _make_room(inp, ws, out, lane, inst, tally, index, engine, r, tokens, position):
    """Give the running request at `position` its blocks; preempt others, or it, until it has them.

    Returns
    -------
    fits : bool
        Whether it has them.
    position : int
        Where it stands now, or who stood behind it.
    stops : bool
        Whether the walk ends here.
    """
    s = engine["state_lo"] + r
    state = ws.states[s]
    request = inp.requests[lane["request_lo"] + r]
    measured = r >= lane["warmup"]
    while not allocate(inp, ws, lane, inst, tally, engine, request, state, s, tokens, measured):
        victim = find_victim(inp, ws, lane, inst, position)
        if is_fenced(ws, lane, engine, engine["state_lo"] + ws.running[inst["run_lo"] + victim]):
            return False, position, True
        preempt(inp, ws, out, lane, inst, tally, index, engine, victim)
        if victim == position:
            return False, position, victim_is_last(lane)
        position -= victim < position
    return True, position, False


@part
def schedule_running(inp, ws, out, lane, inst, tally, index, engine, alone):
    """Serve the running requests while the budget lasts, but those who are counted."""
    position = np.int64(engine["counted"])
    while position < inst["running"] and inst["budget"] > 0 and engine["input"] > lane["slot"]:
        if lane["fair_share"] and not has_share(engine):
            break
        r = ws.running[inst["run_lo"] + position]
        s = engine["state_lo"] + r
        state = ws.states[s]
        tokens = _wanted(ws, lane, inst, engine, state, s, alone)
        if tokens == 0:
            position += 1
            continue
        fits, position, stops = _make_room(
            inp, ws, out, lane, inst, tally, index, engine, r, tokens, position
        )
        if stops:
            break
        if fits:
            engine["splits"] |= state["split"]
            known = np.int64(state["known"]) + state["placeholders"]
            guesses = tokens + state["computed"] - known
            drafts = max(min(np.int64(state["drafts"]), guesses), 0)
            state["drafts"] = 0
            schedule(ws, lane, inst, tally, engine, state, s, tokens, drafts, 0)
            position += 1
