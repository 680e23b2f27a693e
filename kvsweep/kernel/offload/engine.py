"""One instance with a connector: steps that may be empty or stall, and sleep between them.

An engine goes on making steps while there is something to schedule, to tell the connector or to be
reported. A step that schedules nothing takes no time, but for a stall. When a step changed nothing
the engine sleeps until a copy ends or a request enters.
"""

from ..._jit import leaf, part
from ...records import NEVER, NONE, LaneStatus
from ..scheduling.one_by_one import schedule_one_by_one
from ..scheduling.outputs import process_outputs
from ..tally import log_step
from ..time import instance as plain
from ..time.arrivals import announce
from ..time.decoding import computed_tokens
from ..time.step_time import step_time
from . import copies
from .admit import admit_or_load
from .connector import offer, offer_finished


@leaf
def is_busy(ws, inst, index):
    """Return whether there is anything to schedule, to tell the connector or to be reported."""
    off = ws.offload[index]
    told = off["finished_head"] == NONE and off["unreported"] == 0
    return not told or inst["running"] + inst["waiting"] + inst["held"] > 0


@leaf
def _offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before):
    """Offer what each request of the step will have computed at its end, in scheduling order.

    The first `served` of the `before` requests that ran before it, and those admitted in it.
    """
    for position in range(inst["running"]):
        if position < inst["scheduled"] or position >= before:
            r = ws.running[inst["run_lo"] + position]
            tokens = computed_tokens(ws.progress[r], inst["step"] + 1)
            offer(inp, ws, out, lane, inst, tally, index, off, r, tokens)


@leaf
def _schedule(inp, ws, out, lane, inst, tally, index):
    """Schedule a step and begin its copies.

    Return how long it computes; its stall is `inst["transfer"]`.
    """
    off = ws.offload[index]
    inst["serial"] += 1
    inst["gave_up"] = 0
    plain.clear_step(lane, inst)
    if inst["running"] > 0:
        schedule_one_by_one(inp, ws, out, lane, inst, tally, index)
    before = inst["running"]
    if inst["preempted"] == 0 and inst["waiting"] + inst["held"] > 0:
        admit_or_load(inp, ws, out, lane, inst, tally, index)
    copies.find_awaited(inp, ws, lane, inst, off)
    _offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before)
    offer_finished(inp, ws, out, lane, inst, tally, index, off)
    inst["transfer"] = copies.begin_stores(ws, out, lane, inst, tally, index, off)
    compute = 0
    if inst["prefill_tokens"] + inst["decode_tokens"] > 0:
        compute = step_time(lane, inst)
    return compute


@leaf
def _changes(ws, inst, off):
    """Return whether the step just scheduled changes anything, or lets the next one do so."""
    made = copies.head(ws, off, copies.NEW_LOADS) != NONE
    made = made or copies.head(ws, off, copies.WAITING_STORES) != NONE
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
def _step(inp, ws, out, lane, inst, tally, index):
    """Make a step; return whether it changes anything at all."""
    off = ws.offload[index]
    waits = inst["waiting"] + inst["held"]
    evictions = inst["evictions"]
    stalled_before = off["stored"]
    compute = _schedule(inp, ws, out, lane, inst, tally, index)
    duration = compute + inst["transfer"]
    changes = duration > 0 or _changes(ws, inst, off) or off["stored"] != stalled_before
    plain.note_usage(lane, inst, duration)
    inst["transfer_time"] += inst["transfer"]
    if compute > 0:
        plain.note_itl(ws, lane, inst, tally, duration)
    if lane["log"] and duration > 0:
        log_step(out, lane, inst, tally, index, duration, waits, evictions)
        _log_copies(out, inst, tally, off)
    inst["clock"] += duration
    copies.begin_loads(ws, out, lane, tally, index, off, inst["clock"])
    inst["end"] = inst["clock"] if compute > 0 else inst["end"]
    inst["in_flight"] = 1
    if lane["closed_loop"] and inst["next_due"] == inst["step"]:
        announce(inp, ws, lane, inst, tally)
    return changes


@leaf
def _end_step(inp, ws, out, lane, inst, tally, index):
    """Process the outputs of the step in flight, then the reports of copies."""
    off = ws.offload[index]
    process_outputs(inp, ws, out, lane, inst, tally, index)
    reported = copies.report(inp, ws, out, lane, inst, off, inst["clock"])
    plain.go_on(lane, inst)
    if inst["changes"] == 0 and reported == 0 and is_busy(ws, inst, index):
        inst["asleep"] = 1


@leaf
def next_time(ws, inst):
    """Return when an instance does something next."""
    time = NEVER
    entry = NEVER
    if inst["inbox_head"] != NONE:
        entry = ws.progress[inst["inbox_head"]]["queued"]
    if inst["in_flight"]:
        time = inst["clock"]
    elif inst["asleep"]:
        time = min(copies.next_end(ws, ws.offload[inst["number"]]), entry)
    elif is_busy(ws, inst, inst["number"]):
        time = inst["clock"]
    elif entry != NEVER:
        time = max(inst["clock"], entry)
    return time


@leaf
def _wake(ws, lane, inst, until):
    """Move the clock of an idle or sleeping instance on; return whether a step is made."""
    time = next_time(ws, inst)
    if time >= until:
        return False
    if time > inst["clock"]:
        plain.note_usage(lane, inst, time - inst["clock"])
        inst["clock"] = time
    inst["asleep"] = 0
    return True


@part
def advance(inp, ws, out, lane, inst, tally, index, until):
    """Advance an instance through everything that happens before `until` (`instance.advance`)."""
    inst["announced"] = 0
    while tally["status"] == LaneStatus.OK and not inst["announced"]:
        if inst["in_flight"] and inst["clock"] < until:
            _end_step(inp, ws, out, lane, inst, tally, index)
        if inst["in_flight"] or not _wake(ws, lane, inst, until):
            plain.accept(inp, ws, lane, inst, until - 1)
            break
        plain.accept(inp, ws, lane, inst, inst["clock"])
        if not is_busy(ws, inst, index):
            continue  # all that entered was dropped
        if inst["step"] > lane["step_limit"]:
            tally["status"] = LaneStatus.STEP_LIMIT
        else:
            inst["changes"] = _step(inp, ws, out, lane, inst, tally, index)
