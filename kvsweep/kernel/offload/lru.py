"""Eviction of what was used the longest ago: runs of chunks, in order of ranks.

A request has a rank from the first time that it offers or reuses a chunk, the next number then. All
chunks of a rank stand behind a mark of the request, its end first. When the request finishes its
chunks are used just now, the first one last. (vLLM sorts pairs of numbers; this keeps the order.)
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import ring, runs
from ..memory import extent_at, rank_mark
from .chunks import chunks_of, slot_with
from .room import is_victim
from .seen import first_unseen, last_seen, see


@leaf
def take_rank(ws, lane, inst, off, r):
    """Give a request its rank, if it has none."""
    if ws.offers[r]["rank"] == 0:
        off["ranks"] += 1
        ws.offers[r]["rank"] = off["ranks"]
        mark = rank_mark(lane, r)
        ws.tier[mark]["rank"] = off["ranks"]
        ws.tier[mark]["readers"] = 1  # never makes room
        ws.tier[mark]["extent"] = NONE
        ring.link_before(ws.tier, mark, inst["tier_lo"])


@leaf
def put_in_order(ws, lane, r, node):
    """Put a run in no order behind those of its request's rank that come later in the request."""
    rank = ws.offers[r]["rank"]
    run = ws.tier[node]
    run["rank"] = rank
    after = np.int64(ws.tier[rank_mark(lane, r)]["next"])
    while (
        ws.tier[after]["extent"] != NONE
        and ws.tier[after]["rank"] == rank
        and ws.tier[after]["first"] > run["first"]
    ):
        after = np.int64(ws.tier[after]["next"])
    ring.link_before(ws.tier, node, after)


@leaf
def insert(ws, lane, inst, off, r, extent, first, end):
    """Return a run of chunks of an extent that a request brings, behind its mark."""
    take_rank(ws, lane, inst, off, r)
    node = runs.new_run(ws, inst, extent, first, end, runs.FALLS)
    put_in_order(ws, lane, r, node)
    return node


@leaf
def use(ws, lane, inst, off, request, r, node, first, end):
    """Rank the chunks `first` to `end - 1` as used by a request, if it sees them the first time.

    They are those of the run `node`, or on their way to the CPU or not there if that is NONE. Who
    was ranked by a later request stays.
    """
    first, stop = first_unseen(ws, request, r, first, end)
    while first < stop:
        take_rank(ws, lane, inst, off, r)
        see(ws, lane, request, r, first, stop)
        if node != NONE and ws.tier[node]["rank"] < ws.offers[r]["rank"]:
            node = runs.cut(ws, inst, node, first, stop)
            ring.unlink(ws.tier, node)
            put_in_order(ws, lane, r, node)
            node = np.int64(ws.tier[node]["right"])
        first, stop = first_unseen(ws, request, r, stop, end)


@leaf
def _join(ws, inst, lower, upper):
    """Make one of two runs side by side of an extent, if they are alike and idle."""
    low = ws.tier[lower]
    high = ws.tier[upper]
    alike = low["end"] == high["first"] and low["rank"] == high["rank"]
    if alike and low["readers"] == 0 and high["readers"] == 0 and low["prev"] == upper:
        low["end"] = high["end"]
        runs.drop_run(ws, inst, upper)


@leaf
def join(ws, inst, node):
    """Make one of a run that has become idle and its neighbours, as far as they are alike."""
    _join(ws, inst, node, np.int64(ws.tier[node]["right"]))
    _join(ws, inst, np.int64(ws.tier[node]["left"]), node)


@leaf
def _renew(ws, inst, off, extent, first, end):
    """Count the chunks `end - 1` down to `first` of an extent as used just now."""
    above = NONE
    while first < end:
        node = runs.find_below(ws, extent, end)
        if node == NONE or ws.tier[node]["end"] <= first:
            break
        end = min(end, np.int64(ws.tier[node]["end"]))
        node = runs.cut(ws, inst, node, max(first, np.int64(ws.tier[node]["first"])), end)
        end = np.int64(ws.tier[node]["first"])
        ring.unlink(ws.tier, node)
        ring.link_before(ws.tier, node, inst["tier_lo"])
        ws.tier[node]["rank"] = off["ranks"]
        if above != NONE:
            _join(ws, inst, node, above)
        above = node


@leaf
def renew(inp, ws, lane, inst, off, request, r, chunks):
    """Count what a request of `chunks` chunks has seen as used just now, its end first."""
    off["ranks"] += 1
    first, end = last_seen(ws, request, r, chunks)
    slot = request["chain_lo"]
    if first < end:
        slot = slot_with(inp, lane, slot, end - 1)
    while first < end:
        link = inp.chain[slot]
        below = chunks_of(lane, np.int64(link["first"]))
        extent = extent_at(lane, inst, link["extent"])
        if below < end:
            _renew(ws, inst, off, extent, max(first, below), end)
            end = max(first, below)
        slot -= 1
        if first == end:
            first, end = last_seen(ws, request, r, end)
            if first < end:
                slot = slot_with(inp, lane, request["chain_lo"], end - 1)


@leaf
def drop_rank(ws, lane, r):
    """Forget the rank of a request that has finished."""
    if ws.offers[r]["rank"] != 0:
        ring.unlink(ws.tier, rank_mark(lane, r))
        ws.offers[r]["rank"] = 0


@leaf
def evict(ws, inst, off, count):
    """Let `count` chunks make room that nobody reads or writes and are not on offer."""
    node = np.int64(ws.tier[inst["tier_lo"]]["next"])
    while count > 0:
        after = np.int64(ws.tier[node]["next"])
        if is_victim(ws, off, node):
            count -= runs.take_first(ws, inst, node, count)
        node = after


@leaf
def idle_in_front(ws, inst, count):
    """Return whether `count` idle chunks make room first, whatever running requests do meanwhile.

    All of them stand in front of the first mark, and so does nothing else.
    """
    node = np.int64(ws.tier[inst["tier_lo"]]["next"])
    while count > 0 and ws.tier[node]["extent"] != NONE and ws.tier[node]["readers"] == 0:
        count -= ws.tier[node]["end"] - ws.tier[node]["first"]
        node = np.int64(ws.tier[node]["next"])
    return count <= 0


@leaf
def goes_first(ws, inst, off, count):
    """Return whether `count` chunks that make room first stand in front of the first mark."""
    node = np.int64(ws.tier[inst["tier_lo"]]["next"])
    while count > 0 and ws.tier[node]["extent"] != NONE:
        if is_victim(ws, off, node):
            count -= ws.tier[node]["end"] - ws.tier[node]["first"]
        node = np.int64(ws.tier[node]["next"])
    return count <= 0
