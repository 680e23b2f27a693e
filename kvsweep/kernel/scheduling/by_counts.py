"""Scheduling of the running requests by counts instead of visits (rule R5.1).

Exact where every decoding request gets its token: nobody has missed a step, and at most one
request prefills, the last one. All other steps are walked as vLLM does (one_by_one.py).
"""

from ..._jit import leaf
from ...records import Event
from ..blocks import pool
from ..blocks.sizes import blocks_for
from ..tally import log_event
from ..time.decoding import all_decoded_inside, all_decoded_tokens, fills_block, next_phase
from .caching import cache_decode, cache_decodes_for, caches_at_once
from .fills import copy_fills
from .preempt import fences, last_running, preempt, victim_is_last
from .running import charge_decodes, prefill_chunk, schedule_chunk


@leaf
def _cache_due(inp, ws, lane, inst):
    """Cache the blocks that must be cached at once, in running order."""
    step = inst["step"]
    late = lane["async_scheduling"]
    for position in range(inst["running"]):
        if ws.due[inst["run_lo"] + position] == step:
            r = ws.running[inst["run_lo"] + position]
            progress = ws.progress[r]
            request = inp.requests[lane["request_lo"] + r]
            fills = progress["decoding"] == 1 if late else fills_block(lane, progress, step)
            if caches_at_once(lane, request) and fills:
                cache_decode(inp, ws, lane, inst, request, progress, position)


@leaf
def _allocate_for_decodes(inp, ws, out, lane, inst, tally, index):
    """Give a block to each decoding request at its phase; preempt while they lack.

    The first in the list are scheduled before the next victim is chosen, so a victim never was.
    What is free is allocated, and so evicted, before more is freed.
    """
    slot = inst["phase_lo"] + inst["phase"]
    allocated = 0
    while ws.phases[slot] - allocated > inst["free"]:
        allocated += inst["free"]
        pool.allocate(ws, inst, inst["free"])
        preempt(inp, ws, out, lane, inst, tally, index, last_running(inst), False)
    pool.allocate(ws, inst, ws.phases[slot] - allocated)
    if inst["next_due"] == inst["step"]:
        _cache_due(inp, ws, lane, inst)
    if lane["copies_each_step"]:
        count = ws.phases[inst["phase_lo"] + next_phase(lane, inst["phase"])]
        copy_fills(inp, ws, lane, inst, 1, count, inst["clock"], 0)
    decoding = inst["running"] - inst["prefilling"]
    context = all_decoded_tokens(inst, decoding, inst["step"])
    in_window = all_decoded_inside(ws, lane, inst, decoding, inst["step"])
    charge_decodes(inst, decoding, context, in_window)


@leaf
def _continue_prefill(inp, ws, out, lane, inst, tally, index):
    """Compute the next chunk of the prefilling request at the end of the list, or preempt it.

    If it lacks blocks it is itself the victim, as the last one.
    """
    position = last_running(inst)
    r = ws.running[inst["run_lo"] + position]
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    tokens = prefill_chunk(lane, inst, request, progress, inst["budget"])
    computed = progress["computed"]
    need = blocks_for(lane, computed + tokens) - blocks_for(lane, computed)
    if need > inst["free"]:
        preempt(inp, ws, out, lane, inst, tally, index, position, False)
    else:
        pool.allocate(ws, inst, need)
        cache_decodes_for(inp, ws, lane, inst, request, inst["step"] + 1)
        log_event(out, lane, inst, tally, index, Event.CHUNK, r, tokens)
        schedule_chunk(inp, ws, lane, inst, request, progress, position, tokens)


@leaf
def is_countable(inp, ws, lane, inst):
    """Return whether the running requests can be scheduled by counts in this step.

    Where a victim may stand anywhere in the list, or be fenced, blocks must not run short. The
    budget cannot: config/rules.py, _check_batch_limits, refuses one below max_num_seqs, each decode
    takes one token of it and has a seat, and the request that prefills has a seat too.
    """
    last = ws.running[inst["run_lo"] + inst["running"] - 1]
    prefills = inst["prefilling"] - inst["leaving"]
    one_prefill = prefills == 1 and not ws.progress[last]["decoding"]
    need = ws.phases[inst["phase_lo"] + inst["phase"]]
    if one_prefill:
        request = inp.requests[lane["request_lo"] + last]
        chunk = prefill_chunk(lane, inst, request, ws.progress[last], lane["max_tokens"])
        need += blocks_for(lane, chunk) + 1
    ample = need <= inst["free"] or (victim_is_last(lane) and not fences(lane))
    alike = inst["skipped"] == 0 and (prefills == 0 or one_prefill)
    return alike and ample and not lane["visit_all"]


@leaf
def schedule_by_counts(inp, ws, out, lane, inst, tally, index):
    """Schedule the running requests of a countable step."""
    _allocate_for_decodes(inp, ws, out, lane, inst, tally, index)
    if inst["prefilling"] > inst["leaving"]:
        _continue_prefill(inp, ws, out, lane, inst, tally, index)
