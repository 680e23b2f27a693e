"""Preemption by recompute: who it hits, and that it gives back everything but its tokens."""

import numpy as np

from ..._jit import leaf, part
from ...policies import Scheduler, Victim
from ...records import LEAVING, NEVER, NONE, Event
from ..blocks import pool
from ..blocks.sizes import full_blocks
from ..blocks.unsettled import end_fills
from ..offload.counted_stores import end_counting
from ..offload.pins import await_stores_of
from ..offload.watch import give_back
from ..tally import count_computed, log_event
from ..time.calendar import leave_running
from ..time.decoding import decoded_tokens, most_computed, outputs_sampled, settled_tokens
from ..time.windows import inside
from . import victims, waiting
from .running import charge_chunk, charge_decodes, free_request


@leaf
def victim_is_last(lane):
    """Return whether the victim is always the last of the running list.

    Who relies on it asks here: scheduling by counts, and the walk, which its own victim then ends.
    """
    return lane["victim"] == Victim.LAST and lane["scheduler"] != Scheduler.PRIORITY


@leaf
def last_running(inst):
    """Return the position of the victim if that is always the last of the running list."""
    return inst["running"] - 1


@leaf
def _least_urgent(inp, ws, lane, inst):
    """Return the position of the largest (priority, arrival), of equals the first in the list."""
    lo = inst["run_lo"]
    victim = last_running(inst)
    for index in range(victim - 1, -1, -1):
        a = ws.running[lo + index]
        b = ws.running[lo + victim]
        urgency_a = waiting.urgency(inp, ws, lane, a)
        urgency_b = waiting.urgency(inp, ws, lane, b)
        arrival_a = ws.progress[a]["arrival"]
        arrival_b = ws.progress[b]["arrival"]
        if urgency_a > urgency_b or (urgency_a == urgency_b and arrival_a >= arrival_b):
            victim = index
    return victim


@leaf
def _largest_urgency(inp, ws, lane, inst):
    """Return the urgency of the least urgent of the running requests."""
    largest = -NEVER
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        largest = max(largest, waiting.urgency(inp, ws, lane, ws.running[place]))
    return largest


@leaf
def _highest_score(inp, ws, lane, inst, asking):
    """Return the position of the highest score, of equals the last in the list.

    By priority among the least urgent only. Who stands in front of the request that lacks blocks,
    at `asking`, is scheduled in this step already; all are if a waiting one lacks them (NONE).
    """
    by_priority = lane["scheduler"] == Scheduler.PRIORITY
    largest = NEVER
    if by_priority:
        largest = _largest_urgency(inp, ws, lane, inst)
    spared = asking if lane["victim"] == Victim.LEAST_COMPUTED_OTHER else NONE
    victim = asking
    best = -np.inf
    for position in range(inst["running"]):
        r = ws.running[inst["run_lo"] + position]
        candidate = not by_priority or waiting.urgency(inp, ws, lane, r) == largest
        if candidate and position != spared:
            scheduled = asking == NONE or position < asking
            points = victims.score(inp, ws, lane, inst, r, scheduled)
            if points >= best:
                best = points
                victim = position
    return victim


@leaf
def find_victim(inp, ws, lane, inst, asking):
    """Return the position in the running list of the request to preempt (rule R5.6).

    `asking` is that of the running request that lacks blocks, NONE if a waiting one does.
    """
    if victim_is_last(lane):
        victim = last_running(inst)
    elif lane["victim"] == Victim.LAST:
        victim = _least_urgent(inp, ws, lane, inst)
    else:
        victim = _highest_score(inp, ws, lane, inst, asking)
    return victim


@leaf
def _unschedule(lane, inst, request, progress):
    """Give the tokens of a victim that this step has already scheduled back to the budget."""
    if progress["decoding"]:
        computed = decoded_tokens(progress, inst["step"])
        charge_decodes(inst, -1, -computed, -inside(lane, computed, 1))
    else:
        progress["computed"] -= progress["chunk"]  # as it was when the chunk was charged
        charge_chunk(lane, inst, request, progress, -1)
        progress["computed"] += progress["chunk"]


@leaf
def _stop_decoding(inst, request, progress, scheduled):
    """Note how far a decoding victim got; return its computed tokens, this step's included.

    Asynchronously a token may be on its way: it is sampled all the same.
    """
    computed = decoded_tokens(progress, inst["step"])
    progress["outputs"] = outputs_sampled(request, computed)
    if progress["last_token"] == NONE:
        progress["last_token"] = inst["clock"] + inst["device"]
    else:
        inst["skipped"] -= 1
    return computed + scheduled


@leaf
def _stop(lane, inst, request, progress, scheduled):
    """Note how far a victim got; return its computed tokens, and those whose blocks are cached."""
    computed = progress["computed"]
    settled = computed
    if progress["decoding"] == 1:
        step = inst["step"]
        settled = settled_tokens(lane, request, progress, step, step - 1) + scheduled
        computed = _stop_decoding(inst, request, progress, scheduled)
    elif progress["decoding"] == LEAVING:
        computed = most_computed(request)
        settled = computed - 1
        inst["leaving_waiting"] += 1
    return computed, settled


@leaf
def _in_flight(lane, inst, progress):
    """Return 1 if a victim is in the step on its way, 0 if not; NONE if scheduled synchronously."""
    if not lane["async_scheduling"]:
        return NONE
    return 1 if progress["missed"] != inst["step"] - 1 else 0


@leaf
def fences(lane):
    """Return whether a victim may have to keep its blocks (`is_fenced`)."""
    return lane["connects"] and lane["async_scheduling"]


@leaf
def is_fenced(ws, lane, inst, position):
    """Return whether the request at `position` must keep its blocks (rule R11.6).

    With a connector the step on its way may still write to them; then nobody is preempted.
    """
    r = ws.running[inst["run_lo"] + position]
    return lane["connects"] and _in_flight(lane, inst, ws.progress[r]) == 1


@leaf
def _withdrawn(progress, scheduled):
    """Return how many tokens the step under way was to compute of a victim."""
    tokens = 0
    if scheduled and progress["decoding"] != LEAVING:
        tokens = 1 if progress["decoding"] == 1 else progress["chunk"]
    return tokens


@leaf
def _let_stores_read_on(inp, ws, lane, inst, victim, settled):
    """Take back blocks that the step has given to its victim, if watched stores read them."""
    if lane["connects"] and lane["prefix_caching"] and inst["watches"]:
        progress = ws.progress[victim]
        request = inp.requests[lane["request_lo"] + victim]
        pool.cache_blocks(inp, ws, lane, inst, request, progress, full_blocks(lane, settled))
        give_back(inp, ws, lane, inst, victim)


@leaf
def _end_counts(inp, ws, lane, inst, request, progress, victim):
    """Put what a victim has decoded and is only counted into a CPU tier."""
    if lane["copies_each_step"] and progress["decoding"]:
        end_fills(inp, ws, lane, inst, request, progress)
    if lane["connects"] and progress["decoding"] == 1:
        end_counting(inp, ws, lane, inst, victim)


@part
def preempt(inp, ws, out, lane, inst, tally, index, position, scheduled):
    """Preempt the running request at `position`: free its blocks, forget its progress, requeue.

    Blocks that it cached in this step stay cached, though they will not be computed.
    """
    victim = ws.running[inst["run_lo"] + position]
    progress = ws.progress[victim]
    request = inp.requests[lane["request_lo"] + victim]
    _end_counts(inp, ws, lane, inst, request, progress, victim)
    if scheduled and progress["decoding"] != LEAVING:
        _unschedule(lane, inst, request, progress)
    computed, settled = _stop(lane, inst, request, progress, scheduled)
    withdrawn = _withdrawn(progress, scheduled)
    count_computed(ws, lane, tally, victim, computed - withdrawn)
    progress["frontier"] = max(progress["frontier"], computed - withdrawn)
    if scheduled:
        _let_stores_read_on(inp, ws, lane, inst, victim, settled)
    free_request(inp, ws, lane, inst, tally, victim, computed, settled)
    progress["computed"] = 0
    progress["preemptions"] += 1
    leave_running(ws, inst, position)
    if lane["connects"]:
        await_stores_of(ws, inst, victim)
    inst["preempted"] += 1
    inst["victims"] += 1
    inst["shortages"] += 1
    waiting.wait_first(inp, ws, lane, inst, victim)
    in_flight = _in_flight(lane, inst, progress)
    log_event(out, lane, inst, tally, index, Event.PREEMPT, victim, in_flight)


@leaf
def make_way(inp, ws, out, lane, inst, tally, index, head):
    """Preempt the next victim if the waiting `head` is more urgent; return whether it was.

    By priority alone, so that nobody gives way for having come later; with aging the victim must
    also have the later turn, or it would be the next head itself. Who was admitted in this step
    comes before the head, so the victim is one that the step has scheduled.
    """
    if inst["running"] == 0:
        return False
    position = find_victim(inp, ws, lane, inst, NONE)
    victim = ws.running[inst["run_lo"] + position]
    if waiting.level(inp, lane, victim) <= waiting.level(inp, lane, head):
        return False
    if waiting.urgency(inp, ws, lane, victim) <= waiting.urgency(inp, ws, lane, head):
        return False
    preempt(inp, ws, out, lane, inst, tally, index, position, True)
    inst["scheduled"] -= 1
    return True
