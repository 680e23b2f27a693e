"""The quiet steps of a run of decodes, in which nobody is due: nothing but counts changes.

Without a log they are taken in a loop of their own. Who is due has a step of its own
(`decode_run._take_step`), and so has each step that a log tells of.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..scheduling.admit import deadline
from ..tally import add_gap
from ..time.calendar import nearest_due
from ..time.step_time import step_time
from .batches import pass_on
from .block_records import take
from .due import blocks_needed, this_phase
from .in_turn import takes_turns
from .inside import counted_inside
from .leases import next_lease_event
from .leaving import leave_windows
from .planning import planned_tokens
from .refused import evicts_hit
from .slots import FAR
from .states import tables_of


@leaf
def decode_time(lane, inst, count, context, in_window):
    """Return how long a step takes in which `count` requests decode, and note its tokens.

    `context` is what they have computed, `in_window` what of that is inside a window.
    """
    inst["prefill_tokens"] = 0
    inst["prefill_context"] = 0
    inst["prefill_inside"] = 0
    inst["preempted"] = 0
    inst["decode_tokens"] = count * (1 + lane["drafts"])
    inst["decode_context"] = context
    inst["decode_inside"] = in_window
    return np.int64(step_time(lane, inst))


@leaf
def _time_of_all(ws, lane, inst, engine):
    """Return how long a step takes in which all who run decode, and note its tokens."""
    in_window = counted_inside(ws, lane, inst, engine)
    return decode_time(lane, inst, inst["running"], engine["context"], in_window)


@leaf
def alike_by_batch(lane):
    """Return whether steps of equally many decodes take the same time at all who decode.

    Where prefill and decode are apart the instances that decode are one pool.
    """
    return not lane["context"] and (lane["pools"] == 0 or lane["disaggregated"] != 0)


@leaf
def _device_end(ws, inst, engine):
    """Return when the device is done with what it has: now, if that is nothing."""
    end = np.int64(inst["clock"])
    if engine["queued"] > 0:
        end = np.int64(ws.batches[engine["batch_lo"] + engine["oldest"]]["end"])
    return end


@leaf
def ends_at(ws, inst, engine, duration):
    """Return when the outputs of this step of the run are processed, and when its batch ends."""
    before = _device_end(ws, inst, engine)
    ends = before + duration
    return before if engine["queued"] > 0 else ends, ends


@leaf
def quiet_until(ws, lane, inst, engine):
    """Return the next step that is not quiet."""
    due = np.int64(nearest_due(ws, inst))
    if lane["drafts"] > 0:
        due = min(due, engine["planned"])
        if engine["owed_first"] != NONE:
            due = np.int64(inst["step"])
    due = min(due, inst["step"] + lane["step_limit"] - engine["schedules"])
    return np.int64(inst["step"]) if lane["log"] else due


@leaf
def wakes(inp, ws, lane, inst, engine):
    """Return with how many free blocks, and after when, a schedule would try a head.

    Or, after when, send a heartbeat.
    """
    wanted = np.int64(FAR)
    latest = np.int64(NEVER)
    if inst["waiting"] > 0 and inst["running"] < lane["max_num_seqs"]:
        wanted = np.int64(engine["free_wanted"])
        if lane["impatient"]:
            latest = np.int64(deadline(inp, ws, lane, inst))
    if lane["lease"]:
        latest = min(latest, next_lease_event(lane, engine) - 1)
    return wanted, latest


@leaf
def _advance(ws, lane, inst, tally, engine, settled, duration, usual):
    """Move on to the end of a quiet step.

    Return how long the next one takes, and whether this one had the `usual` latency.
    """
    used = lane["gpu_blocks"] - inst["free"]
    inst["used_time"] += used * (settled - inst["clock"])
    inst["peak"] = max(inst["peak"], used)
    inst["clock"] = settled
    gap = settled - engine["last_end"]
    engine["last_end"] = settled
    if gap != usual and engine["measured"] > 0:
        add_gap(ws, tally, gap, engine["measured"])
    if lane["drafts"] == 0:
        engine["context"] += inst["running"]
    elif lane["context"]:
        engine["context"] += planned_tokens(ws, inst, engine)
    inst["step"] += 1
    if lane["context"]:
        duration = _time_of_all(ws, lane, inst, engine)
    return duration, gap == usual


@leaf
def _leave(ws, lane, inst, tally, engine, begun, alike, usual, device):
    """Leave the last quiet step since `begun`, if any, on the device until `device`.

    Count the tokens of the steps. Of these `alike` have the `usual` latency.
    """
    steps = inst["step"] - begun
    if steps == 0:
        return
    tally["computed_tokens"] += steps * engine["measured"] * (1 + lane["drafts"])
    engine["schedules"] += steps - 1  # and that of `pass_on`
    if alike_by_batch(lane):
        ws.itl_by_batch[inst["running"]] += alike * engine["measured"]
    elif alike * engine["measured"] > 0:
        add_gap(ws, tally, usual, alike * engine["measured"])
    inst["step"] -= 1
    batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
    pass_on(inst, engine, batch, device, NONE)


@leaf
def _next_phase(lane, inst, phase):
    """Return the place of the phase behind one."""
    following = phase + 1
    return following if following < inst["phase_lo"] + lane["block_size"] else inst["phase_lo"]


@leaf
def take_quiet(inp, ws, lane, inst, tally, engine, until, entry, due):
    """Take the steps before `due`; return whether the run goes on behind them.

    It ends before one that ends at `until`, lacks blocks, would try a head or send a heartbeat, and
    with the first that ends at `entry`, when somebody enters.
    """
    duration = _time_of_all(ws, lane, inst, engine)
    usual = duration if not lane["context"] else np.int64(NONE)
    wanted, latest = wakes(inp, ws, lane, inst, engine)
    device = _device_end(ws, inst, engine)
    begun = np.int64(inst["step"])
    phase = np.int64(this_phase(lane, inst))
    alike = np.int64(0)
    goes_on = True
    while goes_on and inst["step"] < due:
        taken = blocks_needed(ws, lane, inst, engine, phase) * tables_of(lane)
        fits = taken <= inst["free"] and not takes_turns(ws, lane, inst, phase, taken)
        if fits and lane["drafts"] == 0:
            leave_windows(inp, ws, lane, inst, tally, engine, phase)
        settled = device if lane["async_scheduling"] else device + duration
        goes_on = settled < until and inst["free"] - taken < wanted and inst["clock"] <= latest
        goes_on = goes_on and fits and not evicts_hit(ws, inst, engine, taken)
        if goes_on:
            take(ws, inst, taken)
            device += duration
            duration, same = _advance(ws, lane, inst, tally, engine, settled, duration, usual)
            alike += same
            phase = _next_phase(lane, inst, phase)
            goes_on = inst["clock"] < entry
    _leave(ws, lane, inst, tally, engine, begun, alike, usual, device)
    return goes_on
