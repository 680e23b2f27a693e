"""One instance: steps that are scheduled one by one, and runs in which only counts change."""

from .._jit import kernel, leaf
from ..policies import RequestStatus
from ..records import NEVER, NONE, Lane
from . import blocks, waiting
from .admit import admit_waiting, deadline
from .arrivals import announce
from .counted import is_countable, schedule_counted
from .latency import step_time
from .outputs import process_outputs
from .running import blocks_for
from .tally import add_gap, log_step
from .walk import walk_running


@leaf
def accept(inp, ws, lane, inst, now):
    """Let requests whose queueing delay is over at `now` enter the waiting list, or drop them."""
    while inst["inbox_head"] != NONE and ws.progress[inst["inbox_head"]]["queued"] <= now:
        r = waiting.leave_inbox(ws, inst)
        request = inp.requests[lane["request_lo"] + r]
        most = request["prompt"] + request["output"] - 1
        too_long = most > lane["max_tokens"] and not lane["chunked_prefill"]
        if blocks_for(lane, most) > lane["gpu_blocks"] or too_long:
            ws.progress[r]["status"] = RequestStatus.DROPPED_UNSERVABLE
            inst["load"] -= 1
        else:
            waiting.wait_last(inp, ws, lane, inst, r)
            inst["stale"] = 1


@leaf
def _note_usage(lane, inst, duration):
    used = lane["gpu_blocks"] - inst["free"]
    inst["used_time"] += used * duration
    inst["peak"] = max(inst["peak"], used)


@leaf
def _note_itl(ws, lane, inst, tally, duration):
    """Note the latencies of the tokens that decoding requests sample at the end of the step."""
    plain = inst["measured"]
    if inst["gaps"] > 0:
        for position in range(inst["running"]):
            r = ws.running[inst["run_lo"] + position]
            progress = ws.progress[r]
            if progress["decoding"] and progress["last_token"] != NONE:
                plain -= r >= lane["warmup"]
                if position < inst["served"]:
                    if r >= lane["warmup"]:
                        add_gap(ws, tally, inst["clock"] + duration - progress["last_token"], 1)
                    progress["last_token"] = NONE
                    inst["gaps"] -= 1
    if plain > 0 and inst["prefill_tokens"] == 0:
        ws.itl_plain[inst["decode_tokens"]] += plain
    elif plain > 0:
        add_gap(ws, tally, duration, plain)


@leaf
def _schedule_step(inp, ws, out, lane, inst, tally, index):
    """Schedule one step at the clock; its outputs are processed at its end."""
    waiting_before = inst["waiting"]
    evictions_before = inst["evictions"]
    inst["budget"] = lane["max_tokens"]
    inst["prefill_tokens"] = 0
    inst["decode_tokens"] = 0
    inst["preempted"] = 0
    inst["served"] = inst["running"]
    if inst["running"] > 0 and is_countable(ws, lane, inst):
        schedule_counted(inp, ws, out, lane, inst, tally, index)
    elif inst["running"] > 0:
        walk_running(inp, ws, out, lane, inst, tally, index)
    if inst["preempted"] == 0 and inst["waiting"] > 0:
        admit_waiting(inp, ws, out, lane, inst, tally, index)
    if inst["running"] == 0:
        return  # all that waited was given up
    duration = step_time(lane, inst["prefill_tokens"], inst["decode_tokens"])
    _note_usage(lane, inst, duration)
    _note_itl(ws, lane, inst, tally, duration)
    if lane["log"]:
        log_step(out, tally, inst, lane, index, duration, waiting_before, evictions_before)
    inst["clock"] += duration
    inst["end"] = inst["clock"]
    inst["in_flight"] = 1
    if lane["closed_loop"] and inst["next_due"] == inst["step"]:
        announce(inp, ws, lane, inst, tally)


@leaf
def _end_step(inp, ws, out, lane, inst, tally, index):
    """Process the outputs of the step in flight and go on to the next."""
    process_outputs(inp, ws, out, lane, inst, tally, index)
    inst["step"] += 1
    inst["phase"] = inst["step"] % lane["block_size"]
    inst["in_flight"] = 0


@leaf
def _may_admit(lane, inst):
    """Return whether there is somebody to admit and a seat."""
    return inst["waiting"] > 0 and inst["running"] < lane["max_num_seqs"]


@leaf
def _only_decodes(inp, ws, lane, inst):
    """Return whether the next steps may be run by counts: no prefill, no gap, no admission."""
    tries = False
    if _may_admit(lane, inst):
        tries = inst["stale"] != 0 or inst["step"] >= inst["retry"]
        if lane["impatient"]:
            tries = tries or inst["clock"] > deadline(inp, ws, lane, inst)
    alike = inst["running"] > 0 and inst["prefilling"] == 0 and inst["gaps"] == 0
    return alike and not tries and not lane["plain"]


@leaf
def _decode_bounds(inp, ws, lane, inst, until):
    """Return when a run of decode steps ends, and the last step that it may include."""
    last = inst["next_due"] - lane["twins"]
    if inst["inbox_head"] != NONE:
        until = min(until, ws.progress[inst["inbox_head"]]["queued"])
    if _may_admit(lane, inst):
        last = min(last, inst["retry"] - 1)
        if lane["impatient"]:
            until = min(until, deadline(inp, ws, lane, inst) + 1)
    if lane["log"]:
        until = min(until, inst["clock"] + 1)  # one step a run, to log each
    return until, last


@leaf
def _decode(inp, ws, out, lane, inst, tally, index, until):
    """Run the steps in which every running request decodes, to the first that finishes one.

    Nothing changes but counts: each step takes the blocks of its phase. The run ends before a
    step that begins at `until` or later, follows a queue entry, lacks blocks, or fills a block
    that must be published at once.
    """
    until, last = _decode_bounds(inp, ws, lane, inst, until)
    duration = step_time(lane, 0, inst["running"])
    clock = inst["clock"]
    step = inst["step"]
    phase = inst["phase"]
    used = lane["gpu_blocks"] - inst["free"]
    used_steps = 0
    while step <= last and clock < until:
        need = ws.phases[inst["phase_lo"] + phase]
        if used + need > lane["gpu_blocks"]:
            break
        used += need
        used_steps += used
        clock += duration
        step += 1
        phase = phase + 1 if phase + 1 < lane["block_size"] else 0
    steps = step - inst["step"]
    if steps > 0:
        inst["used_time"] += used_steps * duration
        inst["phase"] = phase
        _end_run(inp, ws, out, lane, inst, tally, index, steps, used, duration)
    return steps > 0


@leaf
def _end_run(inp, ws, out, lane, inst, tally, index, steps, used, duration):
    """Account for a run of decode steps that uses `used` blocks at its end.

    Evictions may wait until here, as nothing else touches the LRU list during the run.
    """
    evictions = inst["evictions"]
    blocks.take(ws, inst, used - (lane["gpu_blocks"] - inst["free"]))
    inst["peak"] = max(inst["peak"], used)
    ws.itl_plain[inst["running"]] += steps * inst["measured"]
    if lane["log"]:
        _log_decode(out, lane, inst, tally, index, duration, evictions)
    inst["clock"] += steps * duration
    inst["end"] = inst["clock"]
    inst["step"] += steps
    if inst["step"] > inst["next_due"]:
        inst["step"] -= 1  # the last one is in flight: its outputs come at its end
        inst["in_flight"] = 1
        if lane["closed_loop"]:
            announce(inp, ws, lane, inst, tally)


@leaf
def _log_decode(out, lane, inst, tally, index, duration, evictions):
    inst["prefill_tokens"] = 0
    inst["decode_tokens"] = inst["running"]
    inst["preempted"] = 0
    log_step(out, tally, inst, lane, index, duration, inst["waiting"], evictions)


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


@kernel
def advance(inp, ws, out, lane, inst, tally, index, until):
    """Advance an instance through everything that happens strictly before `until`.

    It stops early when a step begins that makes an arrival: that may come before `until`.
    """
    inst["announced"] = 0
    while tally["status"] == Lane.OK and not inst["announced"]:
        if inst["in_flight"] and inst["clock"] < until:
            _end_step(inp, ws, out, lane, inst, tally, index)
        if inst["in_flight"] or not _begin_step(ws, inst, until):
            # Entries during the step under way wait for its end, but a router sees who is dropped.
            accept(inp, ws, lane, inst, until - 1)
            break
        accept(inp, ws, lane, inst, inst["clock"])
        if inst["running"] + inst["waiting"] == 0:
            continue  # all that entered was dropped
        if inst["step"] > lane["step_limit"]:
            tally["status"] = Lane.STEP_LIMIT
        elif not (
            _only_decodes(inp, ws, lane, inst)
            and _decode(inp, ws, out, lane, inst, tally, index, until)
        ):
            _schedule_step(inp, ws, out, lane, inst, tally, index)
