"""Admissions: who holds blocks, then who waits (rules R5.2, R12.5 and R13.3)."""

import numpy as np

from ..._jit import leaf, part
from ...records import DECODE, NONE, PREFILL, Event
from ..blocks.sizes import blocks_for
from ..moving.connector import note_admitted
from ..moving.loading import ask, load
from ..moving.search import LATER
from ..scheduling import waiting
from ..scheduling.admit import deadline, give_up
from ..scheduling.holders import LOADED, leave
from ..tally import log_event
from .aligning import is_fresh
from .capacity import room_for
from .deciding import call_off
from .first_chunk import tokens_at
from .handoff import count_query, look_up, pull, pull_beside_states
from .longest import with_places
from .lookup import find_hits, touch_hits, watch_hits
from .planning import ask_for_accepted
from .refusing import refuse
from .slots import window_of
from .stages import has_share, put_back, set_aside
from .states import keeps_states
from .tables import cache_known, grow_all, release_all
from .transfers import forgo
from .walking import schedule


@leaf
def _may_go_on(lane, inst, engine):
    """Return whether the step has budget, room in its input, a seat and a share for one more."""
    budget = inst["budget"] > 0 and engine["input"] > lane["slot"]
    if lane["fair_share"]:
        budget = budget and has_share(engine)
    return budget and inst["running"] < lane["max_num_seqs"]


@leaf
def _run(inp, ws, out, lane, inst, tally, index, engine, r, computed, tokens, padded):
    """Append a request that has its blocks to the running list; schedule `tokens` of it."""
    progress = ws.progress[r]
    s = engine["state_lo"] + r
    state = ws.states[s]
    state["computed"] = computed
    progress["found"] = computed
    if progress["scheduled"] == NONE:
        progress["scheduled"] = inst["clock"]
        progress["cached_tokens"] = computed
    log_event(out, lane, inst, tally, index, Event.ADMIT, r, computed)
    ws.running[inst["run_lo"] + inst["running"]] = r
    inst["running"] += 1
    state["runs"] = 1
    state["prefilling"] = 1
    if lane["moves"]:
        note_admitted(ws, lane, state, s)
    drafts = lane["drafts"] if padded else np.int64(0)
    state["drafts"] = 0
    schedule(ws, lane, inst, tally, engine, state, s, tokens, drafts, padded)
    if lane["drafts"] > 0:
        ask_for_accepted(inp, lane, r, state)


@leaf
def _give_blocks(inp, ws, lane, inst, tally, r, state, s, computed, tokens):
    """Let an admitted request have the blocks of this step; cache those that it fills."""
    request = inp.requests[lane["request_lo"] + r]
    blocks = blocks_for(lane, with_places(lane, computed + tokens))
    grow_all(ws, lane, inst, tally, state, s, blocks, computed + tokens, r >= lane["warmup"])
    cache_known(inp, ws, lane, inst, request, state, s, computed + tokens)


@part
def _admit_holder(inp, ws, out, lane, inst, tally, index, engine, position, alone):
    """Admit the request at `position` of the holders, if it has its load and there is room.

    Returns
    -------
    goes_on, left : bool
        Whether the next is tried; whether this one left the list.
    """
    r = ws.hold[inst["hold_lo"] + position]
    if ws.progress[r]["loading"] != LOADED:
        return True, False
    s = engine["state_lo"] + r
    state = ws.states[s]
    request = inp.requests[lane["request_lo"] + r]
    if lane["lease"] and ws.handoffs[r]["failed"] and state["computed"] == 0:
        return _admit_anew(inp, ws, out, lane, inst, tally, index, engine, position, alone)
    cache_known(inp, ws, lane, inst, request, state, s, np.int64(state["computed"]))
    computed = min(np.int64(state["computed"]), np.int64(state["known"]) - 1)
    state["computed"] = computed
    tokens, padded = tokens_at(ws, lane, inst, engine, state, s, computed, alone)
    if tokens == 0:
        return False, False
    had = np.int64(state["blocks"])
    if room_for(inp, ws, lane, inst, state, s, computed, computed + tokens, had, 0) < 0:
        inst["shortages"] += 1
        return False, False
    if computed == 0:  # of a prompt of one token; then vLLM looks it up and counts it once more
        count_query(lane, tally, state, 0, 0, r >= lane["warmup"])
    leave(ws, inst, position)
    _give_blocks(inp, ws, lane, inst, tally, r, state, s, computed, tokens)
    _run(inp, ws, out, lane, inst, tally, index, engine, r, computed, tokens, padded)
    return True, True


@leaf
def _admit_anew(inp, ws, out, lane, inst, tally, index, engine, position, alone):
    """Admit a holder nothing of which is computed as its pull failed; returns as `_admit_holder`.

    It gives its blocks back first, and looks for what may be cached by now (R14.10).
    """
    r = ws.hold[inst["hold_lo"] + position]
    s = engine["state_lo"] + r
    state = ws.states[s]
    if state["blocks"] > 0:
        release_all(inp, ws, lane, inst, state, s)
    request = inp.requests[lane["request_lo"] + r]
    hits, unused, used = find_hits(inp, ws, lane, inst, request, state, s)
    admitted = _admit_head(
        inp, ws, out, lane, inst, tally, index, engine, r, hits, unused, used, alone, position
    )
    return admitted, admitted


@leaf
def _refuses(inp, ws, lane, inst, engine, r, state, room, hits):
    """Return whether the head must wait, for blocks or for a state; note what wakes it."""
    if keeps_states(lane):
        inst["shortages"] += room < 0
        return room < 0 or is_fresh(inp, ws, lane, inst, engine, r, hits)
    if room < 0:
        plain = lane["more_groups"] == 0 and window_of(inp, lane, 0) == 0
        watches = hits > 0 and not (plain and lane["reserve_full_prompt"] != 0)
        refuse(inp, ws, lane, inst, engine, r, -room, hits, watches)
        if watches:
            watch_hits(inp, ws, lane, inst, state, engine["state_lo"] + r, hits)
    return room < 0


@part
def _admit_head(
    inp, ws, out, lane, inst, tally, index, engine, r, hits, unused, used, alone, position
):
    """Admit a request that has no blocks and loads nothing; return whether it could be.

    It is the head of the waiting list, or at `position` of the holders if that is not NONE.
    """
    s = engine["state_lo"] + r
    state = ws.states[s]
    computed = hits * lane["block_size"]
    tokens, padded = tokens_at(ws, lane, inst, engine, state, s, computed, alone)
    if tokens == 0:
        return False
    room = room_for(inp, ws, lane, inst, state, s, computed, computed + tokens, hits, unused)
    if _refuses(inp, ws, lane, inst, engine, r, state, room, hits):
        return False
    blocks = unused + used
    count_query(lane, tally, state, hits, blocks, r >= lane["warmup"])
    if position == NONE:
        waiting.leave_waiting(inp, ws, lane, inst)
    else:
        leave(ws, inst, position)
    touch_hits(inp, ws, lane, inst, r, state, s, hits, computed)
    _give_blocks(inp, ws, lane, inst, tally, r, state, s, computed, tokens)
    _run(inp, ws, out, lane, inst, tally, index, engine, r, computed, tokens, padded)
    state["ends_prefill"] *= position != NONE  # else this schedule has begun it, too
    return True


@leaf
def _passes(inp, ws, lane, inst, engine, r):
    """Return whether the head is passed: its client gives up, or tokens of it are on their way."""
    if inst["clock"] > deadline(inp, ws, lane, inst):
        give_up(inp, ws, lane, inst, r)
        if lane["role"] == PREFILL:
            call_off(ws, r)
        inst["gave_up"] = 1
        return True
    stale = lane["stages"] != 0 and ws.states[engine["state_lo"] + r]["stale"] > 0
    if stale:
        set_aside(inp, ws, lane, inst, engine, r)
    return stale


@part
def _try_head(inp, ws, out, lane, inst, tally, index, engine, alone):
    """Try the head of the waiting list; return whether the next one is tried too."""
    r = waiting.first_waiting(ws, lane, inst)
    if _passes(inp, ws, lane, inst, engine, r):
        return True
    apart = lane["role"] == DECODE and not ws.handoffs[r]["loading"]
    s = engine["state_lo"] + r
    state = ws.states[s]
    request = inp.requests[lane["request_lo"] + r]
    hits, unused, used, begun = look_up(inp, ws, lane, inst, request, state, s, apart)
    if lane["moves"]:
        tokens = ask(inp, ws, out, lane, inst, tally, index, engine, r, hits)
        if tokens == LATER:
            return True
        if tokens > 0 and not apart:  # who pulls is asked before
            return load(inp, ws, out, lane, inst, tally, index, engine, r, hits, tokens)
    if lane["states"] and begun != NONE:
        return pull_beside_states(inp, ws, out, lane, inst, tally, index, engine, r, hits, begun)
    if apart and not lane["states"]:
        return pull(inp, ws, out, lane, inst, tally, index, engine, r, hits, unused, used)
    admitted = _admit_head(
        inp, ws, out, lane, inst, tally, index, engine, r, hits, unused, used, alone, NONE
    )
    if lane["states"] and apart and admitted:
        forgo(ws, out, lane, inst, tally, index, engine, r)
    return admitted


@leaf
def admit(inp, ws, out, lane, inst, tally, index, engine, alone):
    """Admit from the holders, then from the head of the waiting list, until one has to wait."""
    position = np.int64(0)
    goes_on = True
    while goes_on and position < inst["held"] and _may_go_on(lane, inst, engine):
        goes_on, left = _admit_holder(
            inp, ws, out, lane, inst, tally, index, engine, position, alone
        )
        position += not left
    goes_on = goes_on and position == inst["held"]
    while goes_on and inst["waiting"] > 0 and _may_go_on(lane, inst, engine):
        goes_on = _try_head(inp, ws, out, lane, inst, tally, index, engine, alone)
    if lane["stages"] or lane["moves"]:
        put_back(inp, ws, lane, inst, engine)
