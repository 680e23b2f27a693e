"""What a batch samples, in its order, when it has ended (rules R5.4, R10.5 and R13.4)."""

import numpy as np

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NONE, PREFILL, Event
from ..moving.connector import note_finish
from ..routing.answers import note_answer
from ..scheduling import waiting
from ..tally import add_gap
from .batches import class_of, entry_at
from .handoff import hand_over
from .leases import await_no_more
from .log import note
from .states import leave_states
from .tables import cache_known, release_all, release_at_once, release_left
from .transfers import loads


@leaf
def _accept(ws, out, lane, tally, index, engine, entry, step, r):
    """Count a verification, and log it."""
    engine["drafts"] += entry["drafts"]
    engine["accepted"] += entry["accepted"]
    value = np.int64(entry["drafts"]) * 1000 + entry["accepted"]
    note(out, lane, tally, index, step, Event.VERIFY, r, value)


@leaf
def _reject(state, entry):
    """Take back what was computed for drafts that were rejected."""
    rejected = entry["drafts"] - entry["accepted"]
    state["computed"] -= rejected
    if state["placeholders"] > 0:
        state["placeholders"] -= rejected


@leaf
def _append(state, count, stale):
    """Let a request know `count` more tokens, at most to its limit; return how many."""
    taken = min(count, np.int64(state["limit"]) - state["known"])
    state["known"] += taken
    state["done"] = state["known"] == state["limit"]
    if not stale:
        state["computed"] -= count - taken
        if state["placeholders"] > 0:
            state["placeholders"] -= count
    return taken


@leaf
def _note_latency(ws, tally, engine, progress, state, taken, now, measured):
    """Note when `taken` tokens were sampled: the first of them, and those that came with it.

    Most have the step before as the last one, in a pipeline that in which the first of them got its
    latest: these are counted, and noted together.
    """
    if progress["first_token"] == NONE:
        progress["first_token"] = now
    elif measured:
        if state["last_token"] == engine["last_end"]:
            engine["even"] += 1
        else:
            add_gap(ws, tally, now - state["last_token"], 1)
    engine["at_once"] += (taken - 1) * measured
    state["last_token"] = now


@leaf
def _note_latencies(ws, tally, engine, now):
    """Note what tokens of a batch have in common, and begin anew."""
    if engine["even"] > 0:
        add_gap(ws, tally, now - engine["last_end"], engine["even"])
    if engine["at_once"] > 0:
        add_gap(ws, tally, 0, engine["at_once"])
    engine["even"] = 0
    engine["at_once"] = 0
    engine["last_end"] = now


@leaf
def _leave(inp, ws, lane, inst, engine, r, state, s):
    """Give back what a request does not look at any more: a connector is told of what it does."""
    if lane["windows"]:
        request = inp.requests[lane["request_lo"] + r]
        release_left(inp, ws, lane, inst, engine, request, state, s)
    if lane["states"]:
        leave_states(ws, lane, inst, engine, state, s, state["computed"] - state["flight"])


@leaf
def finish(inp, ws, lane, inst, tally, engine, r, now):
    """End a request at this instance: it has all its tokens."""
    s = engine["state_lo"] + r
    state = ws.states[s]
    engine["finished"] = 1
    inst["end"] = now
    if not state["runs"]:
        waiting.stop_waiting(inp, ws, lane, inst, r)
    inst["load"] -= 1
    inst["completed"] += r >= lane["warmup"]
    if lane["moves"]:
        note_finish(inp, ws, lane, inst, r, state, s)
    if lane["disaggregated"] or lane["moves"]:
        _leave(inp, ws, lane, inst, engine, r, state, s)
    if lane["role"] == PREFILL:
        hand_over(ws, lane, inst, engine, r)
        return
    progress = ws.progress[r]
    progress["finish"] = now
    progress["status"] = RequestStatus.COMPLETED
    if lane["lease"]:
        await_no_more(ws, engine, r)
    if lane["drafts"] > 0 and loads(lane) and state["flight"] > 0:
        _owe(ws, engine, r)
    else:
        release_all(inp, ws, lane, inst, state, s)


@leaf
def _owe(ws, engine, r):
    """Let a request that is done keep its blocks until the next batch, which writes to them."""
    ws.progress[r]["next"] = NONE
    if engine["owed_first"] == NONE:
        engine["owed_first"] = r
    else:
        ws.progress[engine["owed_last"]]["next"] = r
    engine["owed_last"] = r


@leaf
def release_owed(inp, ws, lane, inst, engine):
    """Free the blocks of those who were done before the batch that has ended (R14.11)."""
    r = engine["owed_first"]
    while r != NONE:
        s = engine["state_lo"] + r
        release_at_once(inp, ws, lane, inst, ws.states[s], s)
        r = ws.progress[r]["next"]
    engine["owed_first"] = NONE


@leaf
def _sample(inp, ws, out, lane, inst, tally, index, engine, r, state, entry, stale, step):
    """Append the tokens that an entry returns; return whether the request is finished."""
    now = inst["clock"]
    if entry["drafts"] > 0 and not stale:
        _reject(state, entry)
    optimistic = state["placeholders"] > 0 or lane["drafts"] > 0
    taken = _append(state, 1 + np.int64(entry["accepted"]), stale)
    request = inp.requests[lane["request_lo"] + r]
    if optimistic and state["runs"] and not stale:
        settled = np.int64(state["computed"]) - state["flight"]
        cache_known(inp, ws, lane, inst, request, state, engine["state_lo"] + r, settled)
    if lane["role"] != PREFILL:
        measured = r >= lane["warmup"]
        if ws.progress[r]["first_token"] == NONE:
            note_answer(ws, lane, r)
        _note_latency(ws, tally, engine, ws.progress[r], state, taken, now, measured)
    if state["done"]:
        note(out, lane, tally, index, step, Event.FINISH, r, NONE)
        finish(inp, ws, lane, inst, tally, engine, r, now)
    return state["done"]


@leaf
def _process(inp, ws, out, lane, inst, tally, index, engine, place, step):
    """Process one entry of a batch; return whether its request is finished."""
    entry = ws.entries[place]
    s = np.int64(entry["state"])
    r = s - engine["state_lo"]
    state = ws.states[s]
    finished = False
    if entry["samples"] and entry["drafts"] > 0:
        _accept(ws, out, lane, tally, index, engine, entry, step, r)
    state["flight"] -= entry["tokens"]
    stale = state["stale"] > 0
    if stale:
        state["stale"] -= entry["tokens"]
    if not state["done"] and not (stale and lane["role"] == PREFILL):
        if entry["samples"]:
            finished = _sample(
                inp, ws, out, lane, inst, tally, index, engine, r, state, entry, stale, step
            )
        if lane["drafts"] > 0 and not lane["async_scheduling"]:
            state["drafts"] = 0 if state["split"] else lane["drafts"]
    return finished


@leaf
def _drop_done(ws, inst, engine):
    """Take the requests that are done out of the running list, behind those who are counted."""
    kept = inst["run_lo"] + engine["counted"]
    for place in range(kept, inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if not ws.states[engine["state_lo"] + r]["done"]:
            ws.running[kept] = r
            kept += 1
    inst["running"] = kept - inst["run_lo"]


@leaf
def process_outputs(inp, ws, out, lane, inst, tally, index, engine):
    """Process the entries of the oldest batch at the clock."""
    batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
    first = entry_at(lane, engine, engine["oldest"], 0)
    finished = False
    if lane["stages"]:
        its = class_of(ws, lane, engine, engine["schedules"] - engine["queued"] + 1)
        engine["last_end"] = its["last_end"]
    for place in range(first + batch["skipped"], first + batch["size"]):
        ended = _process(inp, ws, out, lane, inst, tally, index, engine, place, batch["step"])
        finished = finished or ended
    if batch["size"] + batch["plain"] > 0:
        _note_latencies(ws, tally, engine, inst["clock"])
        if lane["stages"]:
            its["last_end"] = inst["clock"]
    if finished:
        _drop_done(ws, inst, engine)
