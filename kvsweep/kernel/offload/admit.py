"""Admissions where requests may have to load first (rule R11.3): holders, then who waits."""

from ..._jit import leaf, part
from ...records import NONE, Event
from ..blocks import pool
from ..blocks.sizes import blocks_for
from ..scheduling import waiting
from ..scheduling.admit import count_query, deadline, find_hits, give_up, run_request
from ..scheduling.caching import cache_decodes_for, next_useful_fill
from ..scheduling.holders import (
    LOADING,
    cache_load,
    come_back,
    hold,
    leave,
    loaded_tokens,
    pass_by,
    reserved,
)
from ..scheduling.running import chunk_of, is_alone
from ..tally import log_event
from ..time.decoding import known_tokens
from . import connector
from .pins import note_taken
from .watch import touch_held


@leaf
def _room(lane, inst):
    """Return the free blocks that an admission may take."""
    room = inst["free"]
    if inst["running"] > 0:
        room -= lane["watermark"]
    return room


@leaf
def _lacks_all(inp, ws, lane, inst, r, held, room):
    """Return whether a request lacks blocks for all that it knows, if that is asked for.

    Then it is not tried again until something wakes it (`_has_room` of scheduling/admit.py).
    """
    request = inp.requests[lane["request_lo"] + r]
    known = known_tokens(request, ws.progress[r])
    lacks = lane["reserve_full_prompt"] and blocks_for(lane, known) - held > room
    if lacks:
        waiting.refuse_head(inst, next_useful_fill(inp, ws, lane, inst, request))
    return lacks


@leaf
def _fits(inp, ws, lane, inst, r, held, need, room, loads):
    """Return whether `need` blocks can be taken, and all that are lacking if that is asked for.

    What `loads` leaves the blocks alone that others will need.
    """
    fits = not _lacks_all(inp, ws, lane, inst, r, held, room) and need <= room
    if fits and loads:
        fits = need <= room - reserved(inp, ws, lane, inst)
    inst["shortages"] += not fits
    return fits


@leaf
def _admit_holder(inp, ws, out, lane, inst, tally, index, position, alone):
    """Admit the request at `position` of the holders, if it has its load and there is room.

    Returns
    -------
    goes_on, left : bool
        Whether the next is tried; whether this one left the list.
    """
    r = ws.hold[inst["hold_lo"] + position]
    progress = ws.progress[r]
    if progress["loading"] == LOADING:
        return True, False
    request = inp.requests[lane["request_lo"] + r]
    cache_decodes_for(inp, ws, lane, inst, request, inst["step"] + 1)
    cache_load(inp, ws, lane, inst, request, progress)
    known = known_tokens(request, progress)
    cached = loaded_tokens(request, progress)
    splits = lane["chunked_prefill"] != 0
    tokens = chunk_of(lane, known - cached, inst["budget"], alone, splits)
    held = blocks_for(lane, progress["computed"])
    need = max(blocks_for(lane, cached + tokens) - held, 0)
    if tokens == 0 or not _fits(inp, ws, lane, inst, r, held, need, _room(lane, inst), False):
        return False, False
    leave(ws, inst, position)
    touch_held(inp, ws, lane, inst, r)
    pool.allocate(ws, inst, need)
    note_taken(ws, inst, r, held + need)
    run_request(inp, ws, out, lane, inst, tally, index, r, cached, tokens)
    return True, True


@leaf
def _load(inp, ws, out, lane, inst, tally, index, off, r, hits, unused, tokens):
    """Begin to load `tokens` of the head of the waiting list; return whether there is room."""
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    local = hits * lane["block_size"]
    need = blocks_for(lane, local + tokens) - hits
    room = _room(lane, inst) - unused
    if not _fits(inp, ws, lane, inst, r, hits, need, room, True):
        return False
    measured = r >= lane["warmup"]
    loads = tokens // lane["block_size"]
    count_query(lane, tally, request, progress, hits, loads, measured)
    waiting.leave_waiting(inp, ws, lane, inst)
    pool.touch(inp, ws, lane, inst, r, hits)
    touch_held(inp, ws, lane, inst, r)
    pool.allocate(ws, inst, need)
    note_taken(ws, inst, r, hits + need)
    progress["reused"] = hits
    progress["computed"] = local + tokens
    connector.load(inp, ws, lane, inst, off, r, local, tokens)
    hold(inp, ws, lane, inst, r)
    log_event(out, lane, inst, tally, index, Event.LOAD, r, tokens)
    return True


@leaf
def _admit_head(inp, ws, out, lane, inst, tally, index, r, hits, unused, alone):
    """Admit the head of the waiting list, which loads nothing; return whether it could be."""
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    known = known_tokens(request, progress)
    cached = hits * lane["block_size"]
    splits = lane["chunked_prefill"] != 0
    tokens = chunk_of(lane, known - cached, inst["budget"], alone, splits)
    need = blocks_for(lane, tokens)
    room = _room(lane, inst) - unused
    if tokens == 0 or not _fits(inp, ws, lane, inst, r, hits, need, room, False):
        return False
    count_query(lane, tally, request, progress, hits, 0, r >= lane["warmup"])
    waiting.leave_waiting(inp, ws, lane, inst)
    pool.touch(inp, ws, lane, inst, r, hits)
    touch_held(inp, ws, lane, inst, r)
    pool.allocate(ws, inst, need)
    note_taken(ws, inst, r, hits + need)
    progress["reused"] = hits
    run_request(inp, ws, out, lane, inst, tally, index, r, cached, tokens)
    return True


@leaf
def _try_head(inp, ws, out, lane, inst, tally, index, off, alone, passed):
    """Try the head of the waiting list.

    Returns
    -------
    goes_on : bool
        Whether the next head is tried.
    passed : int
        The last request that was passed in this schedule.
    """
    r = waiting.first_waiting(ws, lane, inst)
    if inst["clock"] > deadline(inp, ws, lane, inst):
        give_up(inp, ws, lane, inst, r)
        inst["gave_up"] = 1
        return True, passed
    request = inp.requests[lane["request_lo"] + r]
    cache_decodes_for(inp, ws, lane, inst, request, inst["step"] + 1)
    hits, unused = find_hits(inp, ws, lane, inst, r)
    room = _room(lane, inst) - unused
    if off["unreported"] == 0 and _lacks_all(inp, ws, lane, inst, r, hits, room):
        connector.offer_anew(ws, r)  # it would be: nothing is under way that could pass it by
        inst["shortages"] += 1
        return False, passed
    local = hits * lane["block_size"]
    tokens = connector.match(inp, ws, lane, inst, off, r, local)
    if tokens == connector.LATER:
        off["later"] += 1
        inst["told"] = 1
        log_event(out, lane, inst, tally, index, Event.LATER, r, NONE)
        return True, pass_by(inp, ws, lane, inst, passed)
    if tokens > 0:
        goes_on = _load(inp, ws, out, lane, inst, tally, index, off, r, hits, unused, tokens)
    else:
        goes_on = _admit_head(inp, ws, out, lane, inst, tally, index, r, hits, unused, alone)
    return goes_on, passed


@leaf
def _may_go_on(lane, inst):
    return inst["budget"] > 0 and inst["running"] < lane["max_num_seqs"]


@part
def admit_or_load(inp, ws, out, lane, inst, tally, index):
    """Admit from the holders, then from the waiting list, until one cannot be admitted.

    Who still loads, or must ask for its load again later, is passed by those behind it.
    """
    off = ws.offload[index]
    alone = is_alone(inst)
    goes_on = True
    position = 0
    while goes_on and position < inst["held"] and _may_go_on(lane, inst):
        goes_on, left = _admit_holder(inp, ws, out, lane, inst, tally, index, position, alone)
        position += goes_on and not left
    if position < inst["held"]:
        return
    passed = NONE
    if _may_go_on(lane, inst):
        inst["told"] = 0
    while goes_on and inst["waiting"] > 0 and _may_go_on(lane, inst):
        goes_on, passed = _try_head(inp, ws, out, lane, inst, tally, index, off, alone, passed)
    come_back(inp, ws, lane, inst, passed)
