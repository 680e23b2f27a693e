"""The walk over the running list, literally as vLLM does it (rule R5.1).

Needed only in steps that run short of budget, or of blocks where the victim may stand anywhere; all
others are counted (by_counts.py).
"""

from ..._jit import leaf, part
from ...records import LEAVING, NONE, Event
from ..blocks import pool, unsettled
from ..blocks.sizes import blocks_for, tokens_beyond
from ..offload import counted_stores
from ..offload.pins import note_taken
from ..tally import log_event
from ..time.calendar import nearest_due
from ..time.decoding import (
    computed_tokens,
    decoded_tokens,
    fills_block,
    miss_step,
    settled_tokens,
)
from ..time.windows import inside
from .caching import cache_decode, cache_decodes
from .fills import copy_fill
from .preempt import find_victim, is_fenced, preempt, victim_is_last
from .running import charge_decodes, prefill_chunk, schedule_chunk


@leaf
def _skip_step(ws, lane, inst, progress, position):
    """Let a decoding request that got no budget miss this step."""
    miss_step(ws, lane, inst, progress)
    if lane["connects"]:
        ws.offers[ws.running[inst["run_lo"] + position]]["due"] = 0
        counted_stores.note_odd(ws, lane, inst, inst["step"] + 2)
    ws.due[inst["run_lo"] + position] += 1
    if progress["last_token"] == NONE:
        progress["last_token"] = inst["clock"] + inst["device"]
        inst["skipped"] += 1


@leaf
def _tokens_wanted(lane, inst, request, progress):
    """Return the computed tokens of a running request and the tokens it gets in this step."""
    tokens = 1
    if not progress["decoding"]:
        tokens = prefill_chunk(lane, inst, request, progress, inst["budget"])
    return computed_tokens(progress, inst["step"]), tokens


@leaf
def _has_filled(ws, lane, inst, request, progress, position):
    """Return whether a decoding request may cache a block when this step schedules it."""
    step = inst["step"]
    if not lane["async_scheduling"]:
        return fills_block(lane, progress, step)
    settled = settled_tokens(lane, request, progress, step + 1, step - 1)
    return tokens_beyond(lane, settled) == 0 or ws.due[inst["run_lo"] + position] == step


@leaf
def _schedule_tokens(inp, ws, out, lane, inst, tally, index, position, tokens):
    """Schedule `tokens` of the running request at `position`; it has its blocks already."""
    r = ws.running[inst["run_lo"] + position]
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    if progress["decoding"]:
        computed = decoded_tokens(progress, inst["step"])
        charge_decodes(inst, tokens, computed, inside(lane, computed, 1))
        tells = request["shared"] and lane["prefix_caching"]
        if lane["copies_each_step"] and fills_block(lane, progress, inst["step"]):
            copy_fill(inp, ws, lane, inst, request, progress, inst["step"], inst["clock"])
        if tells and _has_filled(ws, lane, inst, request, progress, position):
            cache_decode(inp, ws, lane, inst, request, progress, position)
    else:
        log_event(out, lane, inst, tally, index, Event.CHUNK, r, tokens)
        schedule_chunk(inp, ws, lane, inst, request, progress, position, tokens)


@leaf
def _skip_rest(ws, out, lane, inst, tally, index):
    """Let the running requests beyond the scheduled ones wait: the budget is used up."""
    for position in range(inst["scheduled"], inst["running"]):
        r = ws.running[inst["run_lo"] + position]
        ws.progress[r]["missed"] = inst["step"]
        if ws.progress[r]["decoding"] == 1:
            _skip_step(ws, lane, inst, ws.progress[r], position)
            log_event(out, lane, inst, tally, index, Event.SKIP, r, NONE)
    inst["next_due"] = nearest_due(ws, inst)


@leaf
def _preempt_for(inp, ws, out, lane, inst, tally, index, position, need):
    """Preempt while the request at `position` lacks some of `need` blocks.

    Returns
    -------
    position : int
        Where it is, as some of those before it may be gone.
    kept, fenced : bool
        Whether it was not preempted itself; whether the next victim may not be (rule R11.6).
    """
    kept = True
    fenced = False
    while need > inst["free"] and kept and not fenced:
        victim = find_victim(inp, ws, lane, inst, position)
        fenced = is_fenced(ws, lane, inst, victim)
        if not fenced:
            kept = victim != position
            preempt(inp, ws, out, lane, inst, tally, index, victim, victim < position)
            if victim < position:
                position -= 1
    return position, kept, fenced


@leaf
def _schedule_at(inp, ws, out, lane, inst, tally, index, position):
    """Schedule the request at `position`; return the next one's, and whether the walk goes on."""
    r = ws.running[inst["run_lo"] + position]
    request = inp.requests[lane["request_lo"] + r]
    computed, tokens = _tokens_wanted(lane, inst, request, ws.progress[r])
    need = blocks_for(lane, computed + tokens) - blocks_for(lane, computed)
    position, kept, fenced = _preempt_for(inp, ws, out, lane, inst, tally, index, position, need)
    goes_on = not fenced
    if kept and not fenced:
        pool.allocate(ws, inst, need)
        if lane["connects"]:
            note_taken(ws, inst, r, blocks_for(lane, computed + tokens))
        _schedule_tokens(inp, ws, out, lane, inst, tally, index, position, tokens)
        position += 1
    elif not kept:
        goes_on = not victim_is_last(lane)  # if it is, nobody stands behind it
    return position, goes_on


@part
def schedule_one_by_one(inp, ws, out, lane, inst, tally, index):
    """Schedule the running requests in order; preempt while a request lacks blocks."""
    if lane["copies_each_step"]:
        unsettled.settle_all(inp, ws, lane, inst)
        inst["filled_to"] = inst["step"]
        inst["settled_to"] = inst["step"]
    if lane["connects"] and inst["unsettled"] > 0:
        counted_stores.settle_all(inp, ws, lane, inst)
    if lane["any_shared"] and lane["prefix_caching"]:
        cache_decodes(inp, ws, lane, inst, inst["step"], inst["step"] - 1)
    position = 0
    goes_on = True
    while goes_on and position < inst["running"] and inst["budget"] > 0:
        if ws.progress[ws.running[inst["run_lo"] + position]]["decoding"] == LEAVING:
            position += 1
        else:
            position, goes_on = _schedule_at(inp, ws, out, lane, inst, tally, index, position)
    inst["scheduled"] = position
    if lane["copies_each_step"]:
        inst["filled_to"] = inst["step"] + 1
        inst["settled_to"] = inst["step"] + 1
    _skip_rest(ws, out, lane, inst, tally, index)
