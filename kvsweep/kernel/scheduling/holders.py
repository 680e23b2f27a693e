"""Requests that wait for a remote load: they hold blocks, but no seat, and cannot be preempted.

They stand in a list in front of the waiting list, in the same order, and are tried first. Who still
loads is passed by those behind it; who has its load is an ordinary request some of whose tokens are
computed. Loads are reported when a step ends. Nothing here knows where the blocks come from.
"""

from ..._jit import leaf
from ...policies import Scheduler
from ...records import NONE
from ..blocks import pool
from ..blocks.sizes import blocks_for, full_blocks
from ..time.decoding import known_tokens
from . import waiting

LOADING, LOADED = 1, 2


@leaf
def hold(inp, ws, lane, inst, r):
    """Put a request that loads from now on into its place in the list."""
    place = inst["hold_lo"] + inst["held"]
    while (
        lane["scheduler"] != Scheduler.FCFS
        and place > inst["hold_lo"]
        and waiting.is_before(inp, ws, lane, r, ws.hold[place - 1])
    ):
        ws.hold[place] = ws.hold[place - 1]
        place -= 1
    ws.hold[place] = r
    inst["held"] += 1
    ws.progress[r]["loading"] = LOADING


@leaf
def leave(ws, inst, position):
    """Take the request at `position` out of the list."""
    r = ws.hold[inst["hold_lo"] + position]
    inst["held"] -= 1
    for place in range(inst["hold_lo"] + position, inst["hold_lo"] + inst["held"]):
        ws.hold[place] = ws.hold[place + 1]
    ws.progress[r]["loading"] = 0


@leaf
def loaded_tokens(request, progress):
    """Return the computed tokens of a request with its load: the last known one never is."""
    return min(progress["computed"], known_tokens(request, progress) - 1)


@leaf
def cache_load(inp, ws, lane, inst, request, progress):
    """Publish the blocks of a request whose load is complete, if they are not yet."""
    if lane["prefix_caching"]:
        full = full_blocks(lane, progress["computed"])
        pool.cache_blocks(inp, ws, lane, inst, request, progress, full)


@leaf
def _lacks(inp, ws, lane, r):
    """Return the blocks that a request lacks for all that it knows."""
    progress = ws.progress[r]
    known = known_tokens(inp.requests[lane["request_lo"] + r], progress)
    return blocks_for(lane, known) - blocks_for(lane, progress["computed"])


@leaf
def reserved(inp, ws, lane, inst):
    """Return the blocks that unfinished prefills and loads will still need; no load takes them."""
    count = 0
    left = inst["prefilling"] - inst["leaving"]  # they stand at the end, mostly
    place = inst["run_lo"] + inst["running"] - 1
    while left > 0:
        if not ws.progress[ws.running[place]]["decoding"]:
            count += _lacks(inp, ws, lane, ws.running[place])
            left -= 1
        place -= 1
    for place in range(inst["hold_lo"], inst["hold_lo"] + inst["held"]):
        count += _lacks(inp, ws, lane, ws.hold[place])
    return count


@leaf
def pass_by(inp, ws, lane, inst, passed):
    """Take the head out of the waiting list for this schedule; return the new last one passed.

    Those passed are a list, linked backwards from the last, `passed`.
    """
    r = waiting.first_waiting(ws, lane, inst)
    waiting.leave_waiting(inp, ws, lane, inst)
    ws.progress[r]["prev"] = passed
    return r


@leaf
def come_back(inp, ws, lane, inst, passed):
    """Put the requests that were passed back to the front of the waiting list, in their order."""
    while passed != NONE:
        before = ws.progress[passed]["prev"]
        waiting.wait_first(inp, ws, lane, inst, passed)
        passed = before
