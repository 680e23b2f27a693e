"""Runs of steps in which every running request decodes: nothing but counts changes.

Each step takes the blocks of its phase, and the context of its tokens grows by their number.
"""

from ..._jit import leaf
from ...records import NONE
from ..blocks import pool
from ..memory import SPAN
from ..offload.when import stores_meanwhile
from ..scheduling.admit import deadline, may_admit
from ..scheduling.fills import copy_fills
from ..tally import add_gap, log_step
from .arrivals import announce
from .decoding import all_decoded_inside, all_decoded_tokens, next_phase, previous_phase
from .step_time import is_cold, step_time, token_time


@leaf
def only_decodes(inp, ws, lane, inst):
    """Return whether the next steps may be run by counts: no prefill, no gap, no admission."""
    tries = False
    if may_admit(lane, inst):
        tries = inst["try_head"] != 0 or inst["step"] >= inst["try_head_at"]
        if lane["impatient"]:
            tries = tries or inst["clock"] > deadline(inp, ws, lane, inst)
    alike = inst["running"] > inst["leaving"] == inst["prefilling"] and inst["skipped"] == 0
    alike = alike and not is_cold(lane, inst)
    return alike and not tries and not lane["visit_all"]


@leaf
def _decode_bounds(inp, ws, lane, inst, until):
    """Return when a run of decode steps ends, and the last step that it may include."""
    last = inst["next_due"]
    if lane["connects"] and not stores_meanwhile(lane, inst):
        last = min(last, inst["next_offer"] - 1)
    if lane["any_duplicates"]:
        last -= 1  # who is due may cache, which is part of scheduling
    if lane["copies_each_step"]:
        span = 1 if lane["context"] else SPAN  # each copy has its own time
        last = min(last, inst["step"] + span - 1)
    if inst["inbox_head"] != NONE:
        until = min(until, ws.progress[inst["inbox_head"]]["queued"])
    if may_admit(lane, inst):
        last = min(last, inst["try_head_at"] - 1)
        if lane["impatient"]:
            until = min(until, deadline(inp, ws, lane, inst) + 1)
    if lane["log"]:
        until = min(until, inst["clock"] + 1)  # one step a run, to log each
    return until, last


@leaf
def decode(inp, ws, out, lane, inst, tally, index, until):
    """Run the steps in which every running request decodes, to the first that finishes one.

    The run ends before a step that begins at `until` or later, follows a queue entry, lacks
    blocks, or fills a block that must be cached at once. Return whether it has a step.
    """
    until, last = _decode_bounds(inp, ws, lane, inst, until)
    if lane["context"]:
        steps = _decode_longer(inp, ws, out, lane, inst, tally, index, until, last)
    else:
        steps = _decode_alike(inp, ws, out, lane, inst, tally, index, until, last)
    return steps > 0


@leaf
def _behind_device(inst, duration, until, last):
    """Return the start, the end and the last step of a run, which lags behind the device.

    The clock first moves by the step that the device has, then by steps of the run. It is set back
    by the difference, and its end not before it, as the first step is always scheduled.
    """
    clock = inst["clock"] + inst["device"] - duration
    if duration == 0:
        last = min(last, inst["step"])
    return clock, max(until, clock + 1), last


@leaf
def _copy_run(inp, ws, lane, inst, steps, used, phase, duration):
    """Copy what requests fill in a run that ends with `used` blocks, in `phase`, to the tier."""
    count = used - (lane["gpu_blocks"] - inst["free"])  # who takes one has filled one
    count += ws.phases[inst["phase_lo"] + phase]
    count -= ws.phases[inst["phase_lo"] + inst["phase"]]
    copy_fills(inp, ws, lane, inst, steps, count, inst["clock"], duration)


@leaf
def _copy_step(inp, ws, lane, inst, phase):
    """Copy what requests fill in the one step of a run, which begins in `phase`, to the tier."""
    inst["phase"] = phase
    count = ws.phases[inst["phase_lo"] + next_phase(lane, phase)]
    copy_fills(inp, ws, lane, inst, 1, count, inst["clock"], 0)
    inst["phase"] = next_phase(lane, phase)


@leaf
def _decode_alike(inp, ws, out, lane, inst, tally, index, until, last):
    """Run steps of one duration, which depends on the batch size alone; return their number."""
    batch = inst["running"] - inst["leaving"]
    duration = token_time(lane, 0, batch)
    clock = inst["clock"]
    step = inst["step"]
    phase = inst["phase"]
    used = lane["gpu_blocks"] - inst["free"]
    used_steps = 0
    late = 0
    if lane["async_scheduling"]:
        clock, until, last = _behind_device(inst, duration, until, last)
        late = (inst["device"] - duration) * (used + ws.phases[inst["phase_lo"] + phase])
    while step <= last and clock < until:
        need = ws.phases[inst["phase_lo"] + phase]
        if used + need > lane["gpu_blocks"]:
            break
        used += need
        used_steps += used
        clock += duration
        step += 1
        phase = next_phase(lane, phase)
    steps = step - inst["step"]
    if steps > 0:
        inst["used_time"] += used_steps * duration + late
        if lane["copies_each_step"]:
            _copy_run(inp, ws, lane, inst, steps, used, phase, duration)
        inst["phase"] = phase
        ws.itl_by_batch[batch] += steps * inst["measured"]
        _end_run(inp, ws, out, lane, inst, tally, index, steps, used, clock, duration)
    return steps


@leaf
def _decode_longer(inp, ws, out, lane, inst, tally, index, until, last):
    """Run steps whose durations grow with the context; return their number."""
    inst["prefill_tokens"] = 0
    inst["prefill_context"] = 0
    inst["prefill_inside"] = 0
    inst["decode_tokens"] = inst["running"] - inst["leaving"]
    clock = inst["clock"]
    step = inst["step"]
    used = lane["gpu_blocks"] - inst["free"]
    phase = inst["phase"]
    duration = inst["device"]
    while step <= last and clock < until:
        need = ws.phases[inst["phase_lo"] + inst["phase"]]
        if used + need > lane["gpu_blocks"]:
            break
        used += need
        inst["decode_context"] = all_decoded_tokens(inst, inst["decode_tokens"], step)
        inst["decode_inside"] = all_decoded_inside(ws, lane, inst, inst["decode_tokens"], step)
        before, duration = duration, step_time(lane, inst)
        moved = before if lane["async_scheduling"] else duration
        inst["used_time"] += used * moved
        if inst["measured"] > 0:
            add_gap(ws, tally, duration, inst["measured"])
        clock += moved
        step += 1
        inst["phase"] = next_phase(lane, inst["phase"])
    steps = step - inst["step"]
    if steps > 0 and lane["copies_each_step"]:
        _copy_step(inp, ws, lane, inst, phase)
    if steps > 0:
        _end_run(inp, ws, out, lane, inst, tally, index, steps, used, clock, duration)
    return steps


@leaf
def _end_run(inp, ws, out, lane, inst, tally, index, steps, used, clock, duration):
    """Account for a run that ends at `clock` with `used` blocks; `duration` is its last step's.

    Evictions may wait until here, as nothing else touches the LRU list during the run.
    """
    evictions = inst["evictions"]
    pool.allocate(ws, inst, used - (lane["gpu_blocks"] - inst["free"]))
    inst["peak"] = max(inst["peak"], used)
    if lane["log"]:
        _log_decode(out, lane, inst, tally, index, duration, evictions)
    inst["clock"] = clock
    inst["end"] = clock
    inst["step"] += steps
    if lane["async_scheduling"]:
        inst["device"] = duration
    if inst["step"] > inst["next_due"]:
        inst["step"] -= 1  # the last one is in flight: its outputs come at its end
        inst["phase"] = previous_phase(lane, inst["phase"])
        inst["in_flight"] = 1
        if lane["closed_loop"]:
            announce(inp, ws, lane, inst, tally, clock + inst["device"])


@leaf
def _log_decode(out, lane, inst, tally, index, duration, evictions):
    inst["prefill_tokens"] = 0
    inst["decode_tokens"] = inst["running"] - inst["leaving"]
    inst["preempted"] = 0
    waits = inst["waiting"] + inst["held"]
    log_step(out, lane, inst, tally, index, duration, waits, evictions)
