"""The chunks of a CPU tier as runs, evicted by recency: stored, found, read (vLLM's manager)."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import runs
from ..memory import extent_at
from . import lru
from .room import BEING_WRITTEN, count_evicted, lacking
from .seen import see


@leaf
def _next_part(inp, ws, lane, inst, slot, first, end):
    """Return the part of the chunks `first` to `end - 1` of a request that they begin with.

    Returns
    -------
    slot, extent : int
        The slot in the chain list, and the extent, that it is of; the next part's is no earlier.
    node : int
        Its run, or NONE if it is not on the CPU.
    upto : int
        The first chunk behind it.
    """
    slot = lru.slot_with(inp, lane, slot, first)
    extent = extent_at(lane, inst, inp.chain[slot]["extent"])
    upto = min(end, lru.chunks_of(lane, np.int64(inp.chain[slot]["end"])))
    node = runs.find_run(ws, extent, first)
    if node != NONE:
        if ws.tier[node]["first"] > first:
            upto = min(upto, np.int64(ws.tier[node]["first"]))
            node = NONE
        else:
            upto = min(upto, np.int64(ws.tier[node]["end"]))
    return slot, extent, node, upto


@leaf
def find(inp, ws, lane, inst, request, first, end):
    """Find the leading ones of the chunks `first` to `end - 1` that are on the CPU.

    Returns
    -------
    chunk : int
        The first that is not.
    written, read : bool
        Whether any of those before it is being written, or read.
    """
    slot = request["chain_lo"]
    written = False
    read = False
    while first < end:
        slot, _, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        if node == NONE:
            break
        written = written or ws.tier[node]["readers"] == BEING_WRITTEN
        read = read or ws.tier[node]["readers"] > 0
        first = upto
    return first, written, read


@leaf
def _note_offer(inp, ws, lane, inst, off, request, r, first, end):
    """Note which chunks a request offers, and protect those that are here.

    Returns
    -------
    new, spare, gap : int
        How many are not here; how many of the others could make room if they were not on offer;
        the first that is not here.
    """
    new = 0
    spare = 0
    gap = end
    off["offers"] += 1
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        readers = np.int64(0)
        if node == NONE:
            new += upto - first
            gap = min(gap, first)
        else:
            node = runs.cut(ws, inst, node, first, upto)
            readers = np.int64(ws.tier[node]["readers"])
            ws.tier[node]["offer"] = off["offers"]
            spare += (upto - first) * (readers == 0)
        if readers != BEING_WRITTEN:
            lru.use(ws, lane, inst, off, request, r, node, first, upto)
        first = upto
    return new, spare, gap


@leaf
def _insert(ws, lane, inst, off, r, extent, first, end, job):
    """Add chunks of an extent that are being written by `job`."""
    lru.take_rank(ws, lane, inst, off, r)
    node = runs.new_run(ws, inst, extent, first, end, runs.FALLS)
    ws.tier[node]["readers"] = BEING_WRITTEN
    ws.tier[node]["offer"] = 0  # it may hold an earlier one's
    ws.tier[node]["job"] = job
    lru.put_in_order(ws, lane, r, node)
    off["chunks"] += end - first


@leaf
def store(inp, ws, lane, inst, off, request, r, first, end, job):
    """Offer the chunks `first` to `end - 1` of a request (`manager.store`)."""
    new, spare, gap = _note_offer(inp, ws, lane, inst, off, request, r, first, end)
    excess = lacking(lane, off, new)
    if new > 0 and excess > off["idle"] - spare and excess > 0:
        return -1, gap
    if new > 0 and excess > 0:
        lru.evict(ws, inst, off, excess)
        count_evicted(off, excess)
    slot = request["chain_lo"]
    left = new
    first = gap
    while left > 0:
        slot, extent, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        if node == NONE:
            _insert(ws, lane, inst, off, r, extent, first, upto, job)
            left -= upto - first
        first = upto
    return new, gap


@leaf
def read(inp, ws, lane, inst, off, request, r, first, end):
    """Pin the chunks `first` to `end - 1` of a request, which are loaded from now on."""
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        node = runs.cut(ws, inst, node, first, upto)
        if ws.tier[node]["readers"] == 0:
            off["idle"] -= upto - first
        ws.tier[node]["readers"] += 1
        lru.use(ws, lane, inst, off, request, r, node, first, upto)
        first = upto


@leaf
def was_read(inp, ws, lane, inst, off, request, first, end):
    """Unpin chunks whose load is complete."""
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        node = runs.cut(ws, inst, node, first, upto)
        ws.tier[node]["readers"] -= 1
        if ws.tier[node]["readers"] == 0:
            off["idle"] += upto - first
            lru.join(ws, inst, node)
        first = upto


@leaf
def _is_written_by(ws, node, job):
    found = False
    if node != NONE:
        found = ws.tier[node]["readers"] == BEING_WRITTEN and ws.tier[node]["job"] == job
    return found


@leaf
def written_part(inp, ws, lane, inst, request, first, end, job):
    """Return the bounds of the first of the chunks `first` to `end - 1` that `job` writes."""
    slot = request["chain_lo"]
    upto = first
    while first < end:
        slot, _, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        if _is_written_by(ws, node, job):
            break
        first = upto
    return first, upto


@leaf
def was_written(inp, ws, lane, inst, off, request, first, end, job):
    """Let those of the chunks `first` to `end - 1` be read that `job` has written."""
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        if _is_written_by(ws, node, job):
            ws.tier[node]["readers"] = 0
            off["idle"] += upto - first
            lru.join(ws, inst, node)
        first = upto


@leaf
def is_absent(inp, ws, lane, inst, request, first, end):
    """Return whether none of the chunks `first` to `end - 1` of a request is on the CPU."""
    slot = request["chain_lo"]
    absent = True
    while first < end and absent:
        slot, _, node, first = _next_part(inp, ws, lane, inst, slot, first, end)
        absent = node == NONE
    return absent


@leaf
def fill_absent(inp, ws, lane, inst, off, request, r, first, end):
    """Let the CPU have the chunks `first` to `end - 1`, none of which it has, all written already.

    They go on where the request's own chunks end, mostly; what counts them is left to the caller.
    """
    see(ws, lane, request, r, first, end)
    lru.take_rank(ws, lane, inst, off, r)
    slot = request["chain_lo"]
    while first < end:
        slot, extent, _, upto = _next_part(inp, ws, lane, inst, slot, first, end)
        node = runs.find_below(ws, extent, first)
        grows = False
        if node != NONE:
            run = ws.tier[node]
            grows = run["end"] == first and run["rank"] == ws.offers[r]["rank"]
            grows = grows and run["readers"] == 0
        if grows:
            ws.tier[node]["end"] = upto
        else:
            node = runs.new_run(ws, inst, extent, first, upto, runs.FALLS)
            ws.tier[node]["readers"] = 0
            ws.tier[node]["offer"] = 0  # it may hold an earlier one's
            lru.put_in_order(ws, lane, r, node)
        first = upto


@leaf
def finish(inp, ws, lane, inst, off, request, r, chunks):
    """Settle the recency of what a finished request of `chunks` chunks has seen."""
    lru.renew(inp, ws, lane, inst, off, request, r, chunks)
    lru.drop_rank(ws, lane, r)
