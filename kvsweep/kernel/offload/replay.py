"""What copies did during a run of decode steps, found out at its end.

Stores are created by the step that fills a chunk, begin with the next one, and are reported at the
end of a step. While nobody is admitted, preempted or finished nobody can tell when (`may_run`), and
all steps take the same time. So they are replayed: those that are over when the run ends all at
once (`_store_at_once`), as they leave nothing but chunks that are idle; the others one by one.
"""

import math

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..time.decoding import next_fill, next_phase, settled_tokens
from ..time.step_time import token_time
from . import copies
from .connector import chunks_in, settle_finished
from .filled import fill_absent, is_absent
from .lru import evict, idle_in_front
from .order import is_arc
from .room import count_evicted, lacking
from .schedule import offer_scheduled
from .when import stores_meanwhile


@leaf
def _filling_phase(lane, phase):
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
        stores = ws.phases[inst["phase_lo"] + _filling_phase(lane, phase)]
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
        The chunks; -1: some of them are on the CPU already.
    """
    found = 0
    count = 0
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if ws.offers[r]["due"] < step and ws.progress[r]["decoding"] == 1:
            request = inp.requests[lane["request_lo"] + r]
            first = np.int64(ws.offers[r]["next"])
            end = _offered(lane, request, ws.progress[r], step)
            if request["shared"] and not is_absent(inp, ws, lane, inst, request, first, end):
                return found, -1
            if end > first:
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
def _store_at_once(inp, ws, out, lane, inst, off, first, phase, begins, duration, last, until):
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


@leaf
def _next_offer(ws, lane, inst, first, phase, step):
    """Return the first step from `step` on that fills a chunk; `phase` is that of step `first`."""
    phase = (phase + step - first) % lane["block_size"]
    while ws.phases[inst["phase_lo"] + _filling_phase(lane, phase)] == 0:
        phase = next_phase(lane, phase)
        step += 1
    return step


@leaf
def _store_one_by_one(inp, ws, out, lane, inst, tally, index, off, first, begins, duration, last):
    """Create what the steps `first` to `last` still have to store, each in its step."""
    after = inst["step"]
    inst["scheduled"] = inst["running"]
    created = first
    while inst["next_offer"] <= last:
        inst["step"] = inst["next_offer"]
        if inst["step"] > created:
            begun = begins + (created + 1 - first) * duration
            copies.begin_waiting(ws, out, lane, tally, index, off, begun)
            begun = begins + (inst["step"] - lane["async_scheduling"] - first) * duration
            copies.report(inp, ws, out, lane, inst, off, begun)
        offer_scheduled(inp, ws, out, lane, inst, tally, index, off, inst["running"], 0)
        copies.keep_waiting(ws, off)
        created = inst["step"]
        settle_finished(inp, ws, lane, inst, off)
    if created < last:
        begun = begins + (created + 1 - first) * duration
        copies.begin_waiting(ws, out, lane, tally, index, off, begun)
    inst["step"] = after


@leaf
def _store_in_run(inp, ws, out, lane, inst, tally, index, off, first, phase, begins, until):
    """Replay a run from step `first`, which begins at `begins`, at whose end it is `until`.

    The requests that finished before it settle their recency once its first step has offered.
    """
    last = inst["step"] - 1 + inst["in_flight"]
    duration = token_time(lane, 0, inst["running"] - inst["leaving"])
    if inst["next_offer"] > first:
        settle_finished(inp, ws, lane, inst, off)
    if off["finished_head"] == NONE:
        left = _store_at_once(
            inp, ws, out, lane, inst, off, first, phase, begins, duration, last, until
        )
        if left > first:
            inst["next_offer"] = _next_offer(ws, lane, inst, first, phase, left)
    _store_one_by_one(inp, ws, out, lane, inst, tally, index, off, first, begins, duration, last)


@leaf
def catch_up(inp, ws, out, lane, inst, tally, index, off, first, phase, begins):
    """Do what copies did during the run of decode steps that has just ended.

    Its first step was `first`, of this phase, and began at `begins`.
    """
    until = inst["clock"]
    alike = not lane["context"]
    if inst["in_flight"] and not lane["async_scheduling"]:
        # The last step is not over, so what ended by its begin is reported.
        until = begins
        if alike:
            until += (inst["step"] - first) * token_time(lane, 0, inst["running"])
    copies.begin_waiting(ws, out, lane, tally, index, off, begins)
    if stores_meanwhile(lane, inst):
        _store_in_run(inp, ws, out, lane, inst, tally, index, off, first, phase, begins, until)
    settle_finished(inp, ws, lane, inst, off)
    copies.report(inp, ws, out, lane, inst, off, until)


@leaf
def leave_run(lane, inst, off):
    """Leave the last step of a run as a step is left that was scheduled by itself."""
    off["end"] = inst["clock"] + inst["device"]
    off["sampling"] = inst["in_flight"]
    off["changes"] = 1
    off["stall"] = 0
    off["queued"] = max(inst["in_flight"], lane["async_scheduling"])
    off["device_end"] = off["end"]
    inst["end"] = off["end"]
    inst["transfer"] = 0
