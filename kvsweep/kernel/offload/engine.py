"""One instance with a connector: steps that may be empty or stall, and sleep between them.

An engine goes on making steps while there is something to schedule, to tell the connector or to be
reported. A step that schedules nothing takes no time, but for a stall. When steps change nothing
the engine sleeps until a copy ends or a request enters.

Steps that are scheduled and not processed are a queue of one, or asynchronously of two. The clock
is the engine's: it moves to the end of the oldest when no other can be scheduled before.
"""

from ..._jit import leaf
from ...records import NEVER, NONE, LaneStatus
from ..scheduling.leaving import leave_first
from ..scheduling.outputs import process_outputs
from ..tally import log_step
from ..time.arrivals import announce
from ..time.decode_run import decode, only_decodes
from ..time.decoding import next_phase
from ..time.instance import accept, note_itl
from . import copies, jobs
from .replay import catch_up, leave_run
from .schedule import schedule_step
from .when import head_is_deaf, holders_rest, offers_rest


@leaf
def is_busy(ws, inst):
    """Return whether there is anything to schedule, to tell the connector or to be reported."""
    off = ws.offload[inst["number"]]
    told = off["finished_head"] == NONE and off["unreported"] == 0
    return not told or inst["running"] + inst["waiting"] + inst["held"] > 0


@leaf
def _changes(ws, inst, off, stored):
    """Return whether the step just scheduled changes anything, or lets the next one do so.

    `stored` tokens had been stored before it.
    """
    made = jobs.head(ws, off, jobs.NEW_LOADS) != NONE or off["stored"] != stored
    made = made or jobs.head(ws, off, jobs.WAITING_STORES) != NONE
    return made or inst["preempted"] > 0 or inst["gave_up"] != 0


@leaf
def _log_copies(out, inst, tally, off):
    """Add what the connector did to the row just logged."""
    row = tally["log_steps"] - 1
    if row < out.steps.size:
        out.steps[row]["stall_us"] = inst["transfer"]
        out.steps[row]["tier_blocks"] = off["chunks"]
        out.steps[row]["awaited"] = off["awaited"]


@leaf
def _enqueue(inst, off, end, changes):
    """Hand the step just scheduled to the device; `changes` whether it changes anything."""
    if off["queued"] == 0:
        off["end"] = end
        off["changes"] = changes
        off["stall"] = inst["transfer"]
    else:
        off["next_end"] = end
        off["next_changes"] = changes
        off["next_stall"] = inst["transfer"]
    off["queued"] += 1
    off["device_end"] = end
    inst["in_flight"] = 1


@leaf
def _step(inp, ws, out, lane, inst, tally, index):
    """Schedule a step and hand it to the device."""
    off = ws.offload[index]
    waits = inst["waiting"] + inst["held"]
    evictions = inst["evictions"]
    stored = off["stored"]
    compute, stall = schedule_step(inp, ws, out, lane, inst, tally, index)
    inst["transfer"] = stall
    duration = compute + stall
    end = inst["clock"] + inst["device"] + duration
    changes = duration > 0 or _changes(ws, inst, off, stored)
    inst["transfer_time"] += stall
    inst["peak"] = max(inst["peak"], lane["gpu_blocks"] - inst["free"])
    if compute > 0:
        note_itl(ws, lane, inst, tally, duration)
        inst["end"] = end
    if lane["log"] and duration > 0:
        log_step(out, lane, inst, tally, index, duration, waits, evictions)
        _log_copies(out, inst, tally, off)
    copies.begin_loads(ws, out, lane, tally, index, off, end)
    if lane["closed_loop"] and inst["next_due"] == inst["step"]:
        announce(inp, ws, lane, inst, tally, end)
    _enqueue(inst, off, end, changes)
    inst["empty"] += inst["prefill_tokens"] + inst["decode_tokens"] == 0
    off["sampling"] = 1
    inst["transfer"] = off["stall"]


@leaf
def _move_clock(lane, inst, time):
    """Move the engine's clock on to `time`, if that is later."""
    if time > inst["clock"]:
        used = lane["gpu_blocks"] - inst["free"]
        inst["used_time"] += used * (time - inst["clock"])
        inst["clock"] = time


@leaf
def _sample(inp, ws, out, lane, inst, tally, index):
    """Process the outputs of the last step scheduled, if that was not done, and go on to the next.

    Asynchronously they are still to come, but certain; and who has its last token with the step
    before, which ends at the clock, leaves.
    """
    off = ws.offload[index]
    if off["sampling"]:
        inst["device"] = off["device_end"] - inst["clock"]
        if lane["async_scheduling"]:
            leave_first(inp, ws, lane, inst)
        now = inst["clock"]  # so nobody leaves early: the connector is told in the next schedule
        process_outputs(inp, ws, out, lane, inst, tally, index, now)
        inst["step"] += 1
        inst["phase"] = next_phase(lane, inst["phase"])
        off["sampling"] = 0


@leaf
def _process_oldest(inp, ws, out, lane, inst, tally, index):
    """Process the outputs of the oldest step at its end, then the reports of copies."""
    off = ws.offload[index]
    _move_clock(lane, inst, off["end"])
    _sample(inp, ws, out, lane, inst, tally, index)
    reported = copies.report(inp, ws, out, lane, inst, off, off["end"])
    idle = off["changes"] == 0 and reported == 0
    off["queued"] -= 1
    off["end"] = off["next_end"]
    off["changes"] = off["next_changes"]
    off["stall"] = off["next_stall"]
    if off["queued"] > 0:
        idle = idle and off["changes"] == 0 and copies.next_end(ws, off) > off["end"]
    unsent = jobs.head(ws, off, jobs.WAITING_STORES) != NONE
    inst["asleep"] = idle and not unsent and is_busy(ws, inst)
    inst["in_flight"] = off["queued"] > 0
    inst["transfer"] = off["stall"] if off["queued"] > 0 else 0


@leaf
def _waits(ws, lane, inst):
    """Return whether nothing can be scheduled before the oldest step is processed."""
    queued = ws.offload[inst["number"]]["queued"]
    return queued == 1 + lane["async_scheduling"] or (queued > 0 and not is_busy(ws, inst))


@leaf
def _next(ws, lane, inst):
    """Return when an instance does something next, and whether it processes a step then."""
    off = ws.offload[inst["number"]]
    waits = False
    if inst["asleep"]:
        time = copies.next_end(ws, off)
        if inst["inbox_head"] != NONE:
            time = min(time, ws.progress[inst["inbox_head"]]["queued"])
    elif _waits(ws, lane, inst):
        time = off["end"]
        waits = True
    elif is_busy(ws, inst):
        time = inst["clock"]
    else:
        time = NEVER
        if inst["inbox_head"] != NONE:
            time = ws.progress[inst["inbox_head"]]["queued"]
    return max(time, inst["clock"]), waits


@leaf
def next_time(ws, lane, inst):
    """Return when an instance does something next."""
    time, _ = _next(ws, lane, inst)
    return time


@leaf
def _may_run(inp, ws, lane, inst, off):
    """Return whether the next steps may be run by counts: nobody can tell what copies do meanwhile.

    Asynchronously the step on the device must be the one before them.
    """
    quiet = inst["watches"] == 0 and off["queued"] == lane["async_scheduling"]
    quiet = quiet and (inst["held"] == 0 or holders_rest(ws, lane, inst))
    quiet = quiet and only_decodes(inp, ws, lane, inst)
    quiet = quiet and offers_rest(inp, ws, lane, inst, off)
    return quiet and (off["unreported"] == 0 or head_is_deaf(inp, ws, lane, inst, off))


@leaf
def _run_decodes(inp, ws, out, lane, inst, tally, index, until):
    """Run steps by counts (`decode_run`); return whether there was one.

    Their clock begins with what is left of the step on the device, and stands where the last one
    of them begins, or synchronously ends.
    """
    off = ws.offload[index]
    if not _may_run(inp, ws, lane, inst, off):
        return False
    inst["in_flight"] = 0
    inst["device"] = off["end"] - inst["clock"] if lane["async_scheduling"] else 0
    step = inst["step"]
    phase = inst["phase"]
    begins = inst["clock"] + inst["device"]
    if inst["held"] > 0:
        until = min(until, copies.next_load(ws, off))  # its report lets a request go on
    ran = decode(inp, ws, out, lane, inst, tally, index, until)
    if ran:
        catch_up(inp, ws, out, lane, inst, tally, index, off, step, phase, begins)
        off["awaited"] = 0
        if lane["log"]:
            _log_copies(out, inst, tally, off)
        leave_run(lane, inst, off)
    inst["device"] = 0
    inst["in_flight"] = off["queued"] > 0
    return ran


@leaf
def advance(inp, ws, out, lane, inst, tally, index, until):
    """Advance an instance through everything that happens before `until` (`instance.advance`)."""
    inst["announced"] = 0
    while tally["status"] == LaneStatus.OK and not inst["announced"]:
        time, waits = _next(ws, lane, inst)
        if time >= until:
            accept(inp, ws, lane, inst, until - 1)
            break
        if waits:
            _process_oldest(inp, ws, out, lane, inst, tally, index)
            continue
        _move_clock(lane, inst, time)
        inst["asleep"] = 0
        accept(inp, ws, lane, inst, inst["clock"])
        if inst["step"] > lane["step_limit"]:
            tally["status"] = LaneStatus.STEP_LIMIT
        elif is_busy(ws, inst):
            _sample(inp, ws, out, lane, inst, tally, index)
            if not _run_decodes(inp, ws, out, lane, inst, tally, index, until):
                _step(inp, ws, out, lane, inst, tally, index)
