"""Admission of waiting requests to the running list (rule R5.2)."""

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NEVER, NONE, Event
from ..blocks import pool, tier
from ..blocks.sizes import blocks_for, full_blocks
from ..routing.answers import note_answer
from ..tally import log_event
from ..time.decoding import known_tokens
from . import waiting
from .caching import cache_decodes_for, next_useful_fill
from .preempt import make_way
from .running import chunk_of, is_alone, schedule_chunk


@leaf
def count_query(lane, tally, request, progress, hits, loads, measured):
    """Count the look-up as vLLM does: only at a successful admission, first ones apart."""
    if measured and lane["prefix_caching"]:
        tally["blocks_reused"] += hits
        if progress["preemptions"] == 0:
            tally["query_tokens"] += request["prompt"]
            tally["hit_tokens"] += hits * lane["block_size"]
            tally["loaded_tokens"] += loads * lane["block_size"]


@leaf
def _most_hits(inp, ws, lane, r):
    """Return how many blocks a look-up of a waiting request may find (rule R5.8).

    One known token stays uncomputed. A request that was never admitted can only hit what another
    request cached too.
    """
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    limit = full_blocks(lane, known_tokens(request, progress) - 1)
    if progress["preemptions"] == 0:
        limit = min(limit, request["reusable"])
    return limit


@leaf
def find_hits(inp, ws, lane, inst, r):
    """Find the cached prefix of a waiting request.

    Returns
    -------
    hits, unused : int
        Cached blocks; those of them without a user.
    """
    hits = 0
    unused = 0
    if lane["prefix_caching"]:
        limit = _most_hits(inp, ws, lane, r)
        hits, unused = pool.find_prefix(inp, ws, lane, inst, r, limit)
    return hits, unused


@leaf
def _look_up(inp, ws, lane, inst, r):
    """Find the cached prefix of a waiting request on the GPU, and what of its CPU tier goes on.

    Returns
    -------
    hits, unused, loads : int
        Cached blocks; those of them without a user; blocks to load from the CPU tier.
    """
    hits, unused = find_hits(inp, ws, lane, inst, r)
    loads = 0
    if lane["tiered"] and lane["prefix_caching"]:
        request = inp.requests[lane["request_lo"] + r]
        limit = _most_hits(inp, ws, lane, r)
        loads = tier.count_loads(inp, ws, lane, inst, request, hits, limit)
    return hits, unused, loads


@leaf
def _admit(inp, ws, out, lane, inst, tally, index, r, hits, loads, tokens):
    """Move the head of the waiting list to the running list and schedule `tokens` of it."""
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    count_query(lane, tally, request, progress, hits, loads, r >= lane["warmup"])
    waiting.leave_waiting(inp, ws, lane, inst)
    cached = (hits + loads) * lane["block_size"]
    pool.touch(inp, ws, lane, inst, r, hits)
    pool.allocate(ws, inst, loads + blocks_for(lane, tokens))
    progress["reused"] = hits
    if lane["tiered"]:
        tier.take_turn(inst, progress)
        if loads > 0:
            tier.load(inp, ws, lane, inst, request, progress, loads)
        tier.touch(inp, ws, lane, inst, request, progress, hits + loads)
    run_request(inp, ws, out, lane, inst, tally, index, r, cached, tokens)


@leaf
def run_request(inp, ws, out, lane, inst, tally, index, r, cached, tokens):
    """Append a request that has its blocks to the running list; schedule `tokens` of it."""
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    progress["computed"] = cached
    progress["found"] = cached
    if progress["scheduled"] == NONE:
        progress["scheduled"] = inst["clock"]
        progress["cached_tokens"] = cached
    log_event(out, lane, inst, tally, index, Event.ADMIT, r, cached)
    position = inst["running"]
    inst["running"] = position + 1
    inst["prefilling"] += 1
    ws.running[inst["run_lo"] + position] = r
    log_event(out, lane, inst, tally, index, Event.CHUNK, r, tokens)
    schedule_chunk(inp, ws, lane, inst, request, progress, position, tokens)


@leaf
def deadline(inp, ws, lane, inst):
    """Return when the client of the first waiting request loses patience; NEVER if it has all.

    Only a first admission can come too late; a preempted request has run.
    """
    r = waiting.first_waiting(ws, lane, inst)
    patience = inp.requests[lane["request_lo"] + r]["patience"]
    time = NEVER
    if patience >= 0 and ws.progress[r]["scheduled"] == NONE:
        time = ws.progress[r]["arrival"] + patience
    return time


@leaf
def give_up(inp, ws, lane, inst, r):
    """Drop the head of the waiting list, whose client has left."""
    waiting.leave_waiting(inp, ws, lane, inst)
    ws.progress[r]["status"] = RequestStatus.TIMED_OUT
    inst["load"] -= 1
    note_answer(ws, lane, r)
    waiting.wake_head(inst)


@leaf
def _has_room(inp, ws, lane, inst, request, known, tokens, hits, unused, loads):
    """Return whether the blocks suffice for a head (rule R4.2); if not note when to look again.

    A head that lacks blocks for all its known tokens goes on lacking them until blocks are
    freed or cached: evictions only make it worse. So it is not tried again until something
    wakes it, or until a request fills a block that it may hit.
    """
    room = inst["free"] - unused
    if inst["running"] > 0:
        room -= lane["watermark"]
    fits = loads + blocks_for(lane, tokens) <= room
    if lane["reserve_full_prompt"] and blocks_for(lane, known) - hits > room:
        fits = False
        waiting.refuse_head(inst, next_useful_fill(inp, ws, lane, inst, request))
    inst["shortages"] += not fits
    return fits


@leaf
def may_admit(lane, inst):
    """Return whether there is somebody to admit and a seat, or one that may be taken."""
    seat = inst["running"] < lane["max_num_seqs"] or lane["preempt_for_urgent"]
    return inst["waiting"] > 0 and seat


@leaf
def _needs_seat(lane, inst):
    """Return whether a head lacks a seat; it goes on lacking it until somebody leaves."""
    lacks = inst["running"] == lane["max_num_seqs"]
    if lacks:
        waiting.refuse_head(inst, NEVER)
    return lacks


@leaf
def admit_waiting(inp, ws, out, lane, inst, tally, index):
    """Admit from the head of the waiting list until it fails; nothing behind it is tried.

    A head that lacks blocks or a seat may preempt (`make_way`), and is tried again.
    """
    alone = is_alone(inst)
    while inst["budget"] > 0 and may_admit(lane, inst):
        r = waiting.first_waiting(ws, lane, inst)
        if inst["clock"] > deadline(inp, ws, lane, inst):
            give_up(inp, ws, lane, inst, r)
            continue
        request = inp.requests[lane["request_lo"] + r]
        known = known_tokens(request, ws.progress[r])
        cache_decodes_for(inp, ws, lane, inst, request, inst["step"] + 1)
        hits, unused, loads = _look_up(inp, ws, lane, inst, r)
        cached = (hits + loads) * lane["block_size"]
        splits = lane["chunked_prefill"] != 0
        tokens = chunk_of(lane, known - cached, inst["budget"], alone, splits)
        seated = not _needs_seat(lane, inst)
        if seated and tokens == 0:
            break
        if seated and _has_room(inp, ws, lane, inst, request, known, tokens, hits, unused, loads):
            _admit(inp, ws, out, lane, inst, tally, index, r, hits, loads, tokens)
            continue
        moved = False
        if lane["preempt_for_urgent"]:
            moved = make_way(inp, ws, out, lane, inst, tally, index, r)
        if not moved:
            break
