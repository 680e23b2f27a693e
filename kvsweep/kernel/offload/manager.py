"""The chunks of a CPU tier as runs: what is stored and refused, found and read (vLLM's manager)."""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from ..blocks import runs
from . import lru, order
from .chunks import next_part
from .counted_stores import settle_all
from .room import BEING_WRITTEN, lacking


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
        slot, _, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
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
        slot, _, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
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
            order.use(ws, lane, inst, off, request, r, node, first, upto)
        first = upto
    return new, spare, gap


@leaf
def _insert(ws, lane, inst, off, request, r, extent, first, end, job):
    """Add chunks of an extent that are being written by `job`."""
    node = order.insert(ws, lane, inst, off, request, r, extent, first, end)
    ws.tier[node]["readers"] = BEING_WRITTEN
    ws.tier[node]["offer"] = 0  # it may hold an earlier one's
    ws.tier[node]["job"] = job
    off["chunks"] += end - first


@part
def store(inp, ws, lane, inst, off, request, r, first, end, job):
    """Offer the chunks `first` to `end - 1` of a request, to be written by `job`.

    Returns
    -------
    new : int
        How many of them are written; -1: refused, for lack of room.
    gap : int
        None of those before this chunk is written.
    """
    new, spare, gap = _note_offer(inp, ws, lane, inst, off, request, r, first, end)
    if new == 0:
        return new, gap
    order.miss(inp, ws, lane, inst, off, request, gap, end)
    excess = lacking(lane, off, new)
    if excess > 0:
        if excess > off["idle"] - spare:
            return -1, gap
        if inst["unsettled"] > 0 and not lru.goes_first(ws, inst, off, excess):
            settle_all(inp, ws, lane, inst)
        order.evict(ws, lane, inst, off, excess)
    slot = request["chain_lo"]
    left = new
    first = gap
    while left > 0:
        slot, extent, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
        if node == NONE:
            _insert(ws, lane, inst, off, request, r, extent, first, upto, job)
            left -= upto - first
        first = upto
    return new, gap


@leaf
def read(inp, ws, lane, inst, off, request, r, first, end):
    """Pin the chunks `first` to `end - 1` of a request, which are loaded from now on."""
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
        node = runs.cut(ws, inst, node, first, upto)
        if ws.tier[node]["readers"] == 0:
            off["idle"] -= upto - first
        ws.tier[node]["readers"] += 1
        order.use(ws, lane, inst, off, request, r, node, first, upto)
        first = upto


@leaf
def was_read(inp, ws, lane, inst, off, request, first, end):
    """Unpin chunks whose load is complete."""
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
        node = runs.cut(ws, inst, node, first, upto)
        ws.tier[node]["readers"] -= 1
        if ws.tier[node]["readers"] == 0:
            off["idle"] += upto - first
            order.join(ws, lane, inst, node)
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
        slot, _, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
        if _is_written_by(ws, node, job):
            break
        first = upto
    return first, upto


@leaf
def was_written(inp, ws, lane, inst, off, request, first, end, job):
    """Let those of the chunks `first` to `end - 1` be read that `job` has written."""
    slot = request["chain_lo"]
    while first < end:
        slot, _, node, upto = next_part(inp, ws, lane, inst, slot, first, end)
        if _is_written_by(ws, node, job):
            ws.tier[node]["readers"] = 0
            off["idle"] += upto - first
            order.join(ws, lane, inst, node)
        first = upto
