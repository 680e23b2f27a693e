"""One instance: its clock, queue entries, and steps that are scheduled one by one."""

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NEVER, NONE, LaneStatus
from ..blocks import tier
from ..blocks.sizes import blocks_for
from ..routing.answers import note_answer
from ..scheduling import waiting
from ..scheduling.admit import admit_waiting
from ..scheduling.by_counts import is_countable, schedule_by_counts
from ..scheduling.leaving import leave_first
from ..scheduling.one_by_one import schedule_one_by_one
from ..scheduling.outputs import process_outputs
from ..tally import add_gap, log_step
from .arrivals import announce
from .decode_run import decode, only_decodes
from .decoding import most_computed, next_phase
from .device import move_clock, start_device, stop_device
from .step_time import cold_time, is_cold, step_time


@leaf
def can_never_fit(lane, request):
    """Return whether a request is longer, or needs more blocks, than an instance has room for."""
    most = most_computed(request)
    too_long = most + 1 > lane["max_tokens"] and not lane["chunked_prefill"]
    too_long = too_long or most + 1 > lane["longest"]
    return blocks_for(lane, most) > lane["gpu_blocks"] or too_long


@leaf
def accept(inp, ws, lane, inst, now):
    """Let requests whose queueing delay is over at `now` enter the waiting list, or drop them."""
    while inst["inbox_head"] != NONE and ws.progress[inst["inbox_head"]]["queued"] <= now:
        r = waiting.leave_inbox(ws, inst)
        if can_never_fit(lane, inp.requests[lane["request_lo"] + r]):
            ws.progress[r]["status"] = RequestStatus.DROPPED_UNSERVABLE
            inst["load"] -= 1
            note_answer(ws, lane, r)
        else:
            waiting.wait_last(inp, ws, lane, inst, r)
            waiting.wake_head(inst)


@leaf
def note_itl(ws, lane, inst, tally, duration):
    """Note the latencies of the tokens that decoding requests sample at the end of the step."""
    tokens = inst["measured"]
    if inst["skipped"] > 0:
        begins = inst["clock"] + inst["device"]
        for position in range(inst["running"]):
            r = ws.running[inst["run_lo"] + position]
            progress = ws.progress[r]
            if progress["decoding"] and progress["last_token"] != NONE:
                tokens -= r >= lane["warmup"]
                if position < inst["scheduled"]:
                    if r >= lane["warmup"]:
                        add_gap(ws, tally, begins + duration - progress["last_token"], 1)
                    progress["last_token"] = NONE
                    inst["skipped"] -= 1
    alike = inst["prefill_tokens"] + inst["transfer"] == 0 and not is_cold(lane, inst)
    if tokens > 0 and alike and not lane["context"]:
        ws.itl_by_batch[inst["decode_tokens"]] += tokens
    elif tokens > 0:
        add_gap(ws, tally, duration, tokens)


@leaf
def clear_step(lane, inst):
    """Begin to count what a step schedules."""
    inst["budget"] = lane["max_tokens"]
    inst["prefill_tokens"] = 0
    inst["decode_tokens"] = 0
    inst["prefill_context"] = 0
    inst["decode_context"] = 0
    inst["prefill_inside"] = 0
    inst["decode_inside"] = 0
    inst["preempted"] = 0
    inst["scheduled"] = inst["running"]


@leaf
def _schedule_step(inp, ws, out, lane, inst, tally, index):
    """Schedule one step at the clock, unless there is nothing to schedule."""
    waiting_before = inst["waiting"]
    evictions_before = inst["evictions"]
    clear_step(lane, inst)
    if inst["running"] > 0 and is_countable(inp, ws, lane, inst):
        schedule_by_counts(inp, ws, out, lane, inst, tally, index)
    elif inst["running"] > 0:
        schedule_one_by_one(inp, ws, out, lane, inst, tally, index)
    if inst["preempted"] == 0 and inst["waiting"] > 0:
        admit_waiting(inp, ws, out, lane, inst, tally, index)
    if inst["budget"] == lane["max_tokens"]:
        stop_device(out, lane, inst, tally)
        return
    compute = step_time(lane, inst)
    if is_cold(lane, inst):
        compute += cold_time(lane, inst)
    duration = tier.add_transfer(lane, inst, compute)
    note_itl(ws, lane, inst, tally, duration)
    if lane["log"]:
        log_step(out, lane, inst, tally, index, duration, waiting_before, evictions_before)
    if lane["closed_loop"] and inst["next_due"] == inst["step"]:
        announce(inp, ws, lane, inst, tally, inst["clock"] + inst["device"] + duration)
    move_clock(lane, inst, start_device(lane, inst, duration))


@leaf
def _end_step(inp, ws, out, lane, inst, tally, index, until):
    """Process the outputs of the step in flight and go on to the next."""
    if lane["async_scheduling"]:
        leave_first(inp, ws, lane, inst)
    process_outputs(inp, ws, out, lane, inst, tally, index, until)
    if inst["on_device"]:
        inst["step"] += 1
        inst["phase"] = next_phase(lane, inst["phase"])
    inst["in_flight"] = 0
    inst["transfer"] = 0


@leaf
def _begin_step(ws, inst, until):
    """Move an idle clock to the next queue entry; return whether a step begins before `until`.

    The clock does not move beyond `until`: a request that is routed later may enter earlier.
    """
    if inst["running"] + inst["waiting"] == 0:
        entry = NEVER
        if inst["inbox_head"] != NONE:
            entry = ws.progress[inst["inbox_head"]]["queued"]
        if entry < until:
            inst["clock"] = max(inst["clock"], entry)
        return entry < until and inst["clock"] < until
    return inst["clock"] < until


@leaf
def _is_behind(ws, inst, until):
    """Return whether anything happens at an instance strictly before `until`."""
    head = inst["inbox_head"]
    return inst["clock"] < until or (head != NONE and ws.progress[head]["queued"] < until)


@leaf
def advance(inp, ws, out, lane, inst, tally, index, until):
    """Advance an instance through everything that happens before `until`.

    It stops early when a step begins that makes an arrival: that may come before `until`.
    """
    if not _is_behind(ws, inst, until):
        return
    inst["announced"] = 0
    while tally["status"] == LaneStatus.OK and not inst["announced"]:
        if inst["in_flight"] and inst["clock"] < until:
            _end_step(inp, ws, out, lane, inst, tally, index, until)
        if inst["in_flight"] or not _begin_step(ws, inst, until):
            # Entries during the step under way wait for its end, but a router sees who is dropped.
            accept(inp, ws, lane, inst, until - 1)
            break
        accept(inp, ws, lane, inst, inst["clock"])
        if inst["running"] + inst["waiting"] == 0:
            continue  # all that entered was dropped
        if inst["step"] > lane["step_limit"]:
            tally["status"] = LaneStatus.STEP_LIMIT
        elif not (
            only_decodes(inp, ws, lane, inst)
            and decode(inp, ws, out, lane, inst, tally, index, until)
        ):
            _schedule_step(inp, ws, out, lane, inst, tally, index)
