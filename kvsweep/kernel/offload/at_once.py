"""The stores of a run of decode steps that are over when it ends, done all at once.

They leave nothing but chunks that are idle (replay.py does the others one by one).
"""

import math

import numpy as np

from ..._jit import leaf
from ...records import NEVER
from ..time.decoding import next_fill, next_phase, settled_tokens
from . import copies
from .connector import chunks_in
from .filled import fill_absent, is_absent
from .lru import evict, idle_in_front
from .order import is_arc
from .room import count_evicted, lacking


@leaf
def filling_phase(lane, phase):
    """Return the phase of those who offer a chunk in a step of this phase.

    They take a block in the step after the one that fills it; asynchronously it is offered then.
    """
    return phase if lane["async_scheduling"] else next_phase(lane, phase)


@leaf
def _count_stored(ws, lane, inst, off, first, phase, begins, duration, last, until):
    """Count the stores of the steps `first` to `last`, and those of them that are over at `until`.

    Returns
    -------
    left : int
        The first step whose stores are not all over then.
    count, more : int
        The stores of those before it; those of the others.
    ready : int
        When the last one of the former ends.
    """
    takes = lane["transfer_base"] + math.ceil(lane["chunk_tokens"] / lane["bandwidth"])
    ready = off["store_ready"]
    left = first
    count = 0
    more = 0
    for step in range(first, last + 1):
        stores = ws.phases[inst["phase_lo"] + filling_phase(lane, phase)]
        begins += duration
        ends = max(ready, begins) + stores * takes
        if stores > 0 and (more > 0 or ends > until):
            more += stores
        elif stores > 0:
            ready = ends
            count += stores
        if more == 0:
            left = step + 1
        phase = next_phase(lane, phase)
    return left, count, more, ready


@leaf
def _offered(lane, request, progress, step):
    """Return the chunks of a decoding request that it has offered before `step` is scheduled."""
    return chunks_in(lane, settled_tokens(lane, request, progress, step, NEVER))


@leaf
def _find_fills(inp, ws, lane, inst, step):
    """Find which running requests fill chunks and offer them before `step`.

    Returns
    -------
    found : int
        How many, at the first places of `Workspace.fills`.
    count : int
        The chunks; -1: some of them are on the CPU already, or several requests offer their first,
        so that their ranks depend on the steps.
    """
    found = 0
    count = 0
    unranked = 0
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if ws.offers[r]["due"] < step and ws.progress[r]["decoding"] == 1:
            request = inp.requests[lane["request_lo"] + r]
            first = np.int64(ws.offers[r]["next"])
            end = _offered(lane, request, ws.progress[r], step)
            if request["shared"] and not is_absent(inp, ws, lane, inst, request, first, end):
                return found, -1
            if end > first:
                unranked += ws.offers[r]["rank"] == 0
                if unranked > 1:
                    return found, -1
                count += end - first
                ws.fills[found] = r
                found += 1
    return found, count


@leaf
def _store_all(inp, ws, lane, inst, off, step, found):
    """Let the CPU have all that the `found` requests fill and offer before `step`."""
    for place in range(found):
        r = ws.fills[place]
        progress = ws.progress[r]
        request = inp.requests[lane["request_lo"] + r]
        end = _offered(lane, request, progress, step)
        offers = ws.offers[r]
        fill_absent(inp, ws, lane, inst, off, request, r, np.int64(offers["next"]), end)
        offers["next"] = end
        late = np.int64(lane["async_scheduling"])
        offers["due"] = next_fill(lane, progress, step - late) + late


@leaf
def _count_done(lane, inst, off, count):
    """Count stores of a chunk each that are over."""
    off["chunks"] += count
    off["idle"] += count
    off["stores"] += count
    off["stored"] += count * lane["chunk_tokens"]
    inst["offloads"] += count


@leaf
def store_at_once(inp, ws, out, lane, inst, off, first, phase, begins, duration, last, until):
    """Do what the stores do that a run from step `first` to `last` creates and that are over then.

    Nothing, if one of them may be refused, or is there already, or what makes room for them is not
    sure. Return the first step whose stores are left.
    """
    again = lane["any_shared"] and not lane["prefix_caching"]  # two may fill one chunk, in one run
    if is_arc(lane) or off["lags"] or lane["log"] or lane["factor"] > 1 or again:
        return first
    left, count, more, ready = _count_stored(
        ws, lane, inst, off, first, phase, begins, duration, last, until
    )
    # Who began to decode in the first step may have offered its chunk before.
    found = 0
    filled = -1
    if count > 0:
        found, filled = _find_fills(inp, ws, lane, inst, left)
    if filled != count:
        return first
    # Those that are left must not take the room of what is over only at the end.
    if not idle_in_front(ws, inst, lacking(lane, off, count + more)):
        return first
    excess = lacking(lane, off, count)
    copies.report(inp, ws, out, lane, inst, off, until)
    if excess > 0:
        off["offers"] += 1
        evict(ws, inst, off, excess)
        count_evicted(off, excess)
    _store_all(inp, ws, lane, inst, off, left, found)
    off["store_ready"] = ready
    _count_done(lane, inst, off, count)
    return left
