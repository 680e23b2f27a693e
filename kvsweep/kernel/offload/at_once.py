"""The stores of a run of decode steps, and of a step that is scheduled by counts, done all at once.

Mostly they are only counted (counted_stores.py). Where something tells whose they are, those that
are over when the run ends leave nothing but chunks that are idle; replay.py does the others.
"""

import numpy as np

from ..._jit import leaf, part
from ..scheduling import waiting
from ..scheduling.caching import is_being_filled
from ..time.decoding import next_fill, next_phase
from . import copies, jobs
from .counted_jobs import count_stores, create_counted, offered
from .counted_stores import may_count, nobody_tells, settle_all
from .filled import fill_absent, is_absent
from .lru import evict, idle_in_front
from .room import count_evicted, lacking


@leaf
def filling_phase(lane, phase):
    """Return the phase of those who offer a chunk in a step of this phase.

    They take a block in the step after the one that fills it; asynchronously it is offered then.
    """
    return phase if lane["async_scheduling"] else next_phase(lane, phase)


@leaf
def next_filled(ws, lane, inst, phase):
    """Return in how many steps from one of this `phase` on a chunk is offered: 0, in this one."""
    steps = 0
    while ws.phases[inst["phase_lo"] + filling_phase(lane, phase)] == 0:
        phase = next_phase(lane, phase)
        steps += 1
    return steps


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
    takes = jobs.copy_time(lane, lane["chunk_tokens"])
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
    if inst["unsettled"] > 0:
        settle_all(inp, ws, lane, inst)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if ws.offers[r]["due"] < step and ws.progress[r]["decoding"] == 1:
            request = inp.requests[lane["request_lo"] + r]
            first = np.int64(ws.offers[r]["next"])
            end = offered(lane, request, ws.progress[r], step)
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
        end = offered(lane, request, progress, step)
        offers = ws.offers[r]
        fill_absent(inp, ws, lane, inst, off, request, r, np.int64(offers["next"]), end)
        offers["next"] = end
        late = np.int64(lane["async_scheduling"])
        offers["due"] = next_fill(lane, progress, step - late) + late


@leaf
def _store_rest(ws, out, lane, inst, tally, index, off, left, phase, begins, duration, last):
    """Create the stores of the steps `left` to `last`, not all of which are over."""
    for step in range(left, last + 1):
        copies.begin_waiting(ws, out, lane, tally, index, off, begins)
        stores = ws.phases[inst["phase_lo"] + filling_phase(lane, phase)]
        if stores > 0:
            create_counted(ws, lane, off, jobs.WAITING_STORES, step, stores)
        phase = next_phase(lane, phase)
        begins += duration


@leaf
def _make_room(ws, inst, off, excess):
    """Let `excess` chunks make room, which stand in front of all others."""
    if excess > 0:
        off["offers"] += 1
        evict(ws, inst, off, excess)
        count_evicted(off, excess)


@leaf
def _store_counted(inp, ws, out, lane, inst, off, count, more, ready, until):
    """Count the stores of a run, `count` that are over and `more`, which all find room."""
    copies.report(inp, ws, out, lane, inst, off, until)
    _make_room(ws, inst, off, lacking(lane, off, count + more))
    count_stores(lane, inst, off, count + more)
    off["idle"] += count
    off["store_ready"] = ready
    inst["unsettled"] += count + more


@leaf
def _store_over(inp, ws, out, lane, inst, off, left, count, ready, until):
    """Let the CPU have the `count` chunks of the stores before step `left`, which are over.

    Return whether that can be: nothing, if one of them is there already, or was offered before.
    """
    found, filled = _find_fills(inp, ws, lane, inst, left)
    if filled != count:
        return False
    copies.report(inp, ws, out, lane, inst, off, until)
    _make_room(ws, inst, off, lacking(lane, off, count))
    _store_all(inp, ws, lane, inst, off, left, found)
    count_stores(lane, inst, off, count)
    off["idle"] += count
    off["store_ready"] = ready
    return True


@part
def store_at_once(
    inp, ws, out, lane, inst, tally, index, off, first, phase, begins, duration, last, until
):
    """Do what the stores do that a run from step `first` to `last` creates.

    All of it, if nobody tells whose they are; else of those that are over at its end, or nothing,
    if one of them may be refused, or is there already, or what makes room for them is not sure.
    Return the first step whose stores are left.
    """
    if off["lags"] or not may_count(lane):
        return first
    left, count, more, ready = _count_stored(
        ws, lane, inst, off, first, phase, begins, duration, last, until
    )
    # Those that are left must not take the room of what is over only at the end.
    if not idle_in_front(ws, inst, lacking(lane, off, count + more)):
        return first
    if count + more > 0 and nobody_tells(inst, off) and off["odd_to"] < first:
        _store_counted(inp, ws, out, lane, inst, off, count, more, ready, until)
        phase = (phase + left - first) % lane["block_size"]
        begins += (left - first) * duration
        _store_rest(ws, out, lane, inst, tally, index, off, left, phase, begins, duration, last)
        inst["filled_to"] = last + 1
        return last + 1
    if count > 0 and _store_over(inp, ws, out, lane, inst, off, left, count, ready, until):
        return left
    return first


@leaf
def _heeds_nothing(inp, ws, lane, inst):
    """Return whether no store makes the head of the waiting list ask later (`concerns_head`)."""
    heeds = inst["told"] != 0
    if inst["waiting"] > 0 and not heeds:
        head = inp.requests[lane["request_lo"] + waiting.first_waiting(ws, lane, inst)]
        heeds = is_being_filled(inp, ws, lane, inst, head)
    return not heeds


@leaf
def _may_count_step(inp, ws, lane, inst, off, before):
    """Return whether the stores of the `before` requests, in a step by counts, may be counted."""
    sure = may_count(lane) and nobody_tells(inst, off) and off["lags"] == 0
    sure = sure and inst["preempted"] == 0 and inst["scheduled"] == before
    return sure and off["odd_to"] < inst["step"] and _heeds_nothing(inp, ws, lane, inst)


@leaf
def store_step(inp, ws, lane, inst, off, before):
    """Count what the decoding ones of `before` requests store in a step, all scheduled by counts.

    Return whether that can be: nobody tells who they are, and there is room in front of all.
    """
    count = np.int64(ws.phases[inst["phase_lo"] + filling_phase(lane, inst["phase"])])
    excess = lacking(lane, off, count)
    counts = count > 0 and _may_count_step(inp, ws, lane, inst, off, before)
    if not counts or not idle_in_front(ws, inst, excess):
        return False
    _make_room(ws, inst, off, excess)
    count_stores(lane, inst, off, count)
    create_counted(ws, lane, off, jobs.NEW_STORES, inst["step"], count)
    inst["unsettled"] += count
    inst["filled_to"] = inst["step"] + 1
    after = next_filled(ws, lane, inst, next_phase(lane, inst["phase"]))
    inst["next_offer"] = inst["step"] + 1 + after
    return True
