"""One instance step by step: schedule a batch, hand it to the device, process its outputs.

Batches on their way are a queue of one, or asynchronously of two (R10.1), and of more in a pipeline
(R16.1). The clock is the engine's: it moves to the end of the oldest when no other can be scheduled
before. A batch may be empty; it takes no time. When batches change nothing the engine sleeps until
a transfer ends or a request enters.
"""

from ..._jit import leaf, part
from ...policies import RequestStatus, Scheduler
from ...records import DECODE, NONE, PREFILL, LaneStatus
from ..memory import depth
from ..moving.copies import report
from ..moving.stalls import note_stall, rests
from ..routing.answers import note_answer
from ..scheduling import waiting
from ..scheduling.running import is_alone
from ..time.instance import clear_step
from ..time.step_time import is_cold
from .admitting import admit
from .batches import in_ring
from .by_itself import OUTPUTS, is_busy, next_time, own_until
from .capacity import can_never_fit, handed_tokens, never_holds
from .classes import process_class, schedule_class
from .closing import close_schedule
from .counted import schedule_counted
from .counted_batches import process_counted
from .deciding import call_off
from .decode_run import run_decodes
from .leases import (
    await_blocks,
    beats,
    end_leases,
    note_change,
    renew,
    send_heartbeat,
    waits_for_ever,
)
from .log import log_outputs, note_before
from .missed import misses_this
from .run_of_classes import run_classes
from .settling import process_outputs, release_owed
from .stages import begin_share, first_begins, none_changes
from .transfers import release_sent, report_arrivals
from .walking import schedule_running


@leaf
def fits_nowhere(inp, ws, lane, r):
    """Return whether a request can never be served by the instance it is at, or will be at."""
    request = inp.requests[lane["request_lo"] + r]
    if lane["role"] == PREFILL:
        last = ws.own[lane["instances"] - 1]
        never = never_holds(inp, lane, handed_tokens(lane, request["prompt"]))
        return never or can_never_fit(inp, last, request)
    return can_never_fit(inp, lane, request)


@leaf
def accept(inp, ws, lane, inst, now):
    """Let requests whose queueing delay is over at `now` enter the waiting list, or drop them."""
    while inst["inbox_head"] != NONE and ws.progress[inst["inbox_head"]]["queued"] <= now:
        r = waiting.leave_inbox(ws, inst)
        if fits_nowhere(inp, ws, lane, r):
            ws.progress[r]["status"] = RequestStatus.DROPPED_UNSERVABLE
            inst["load"] -= 1
            note_answer(ws, lane, r)
            if lane["role"] == PREFILL:
                call_off(ws, r)
        else:
            if inst["waiting"] == 0 or lane["scheduler"] != Scheduler.FCFS:
                ws.engines[inst["number"]]["refused"] = 0  # it is the head now, or may be
            waiting.wait_last(inp, ws, lane, inst, r)
            if lane["lease"]:
                await_blocks(ws, lane, inst, r)


@leaf
def _move_clock(lane, inst, time):
    """Move the engine's clock on to `time`, with the blocks in use now."""
    if time > inst["clock"]:
        inst["used_time"] += (lane["gpu_blocks"] - inst["free"]) * (time - inst["clock"])
        inst["clock"] = time


@leaf
def _begin_schedule(ws, lane, inst, engine):
    """Begin to count what a schedule does."""
    clear_step(lane, inst)
    inst["gave_up"] = 0
    inst["device"] = first_begins(ws, lane, inst, engine) - inst["clock"]
    engine["input"] = lane["max_tokens"]
    engine["size"] = 0
    engine["taken_back"] = 0
    engine["splits"] = 0
    engine["pulls"] = 0
    engine["stall"] = 0
    if lane["moves"]:
        inst["serial"] += 1
    engine["finished"] = 0
    engine["schedules"] += 1
    engine["turn"] += 1
    engine["refused"] = 0
    engine["watches"] = 0
    note_before(inst, engine)
    engine["begun"] = 0


@leaf
def _schedule(inp, ws, out, lane, inst, tally, index):
    """Schedule at the clock, if there is anything to do."""
    engine = ws.engines[index]
    if not is_busy(inst, engine):
        engine["asleep"] = engine["queued"] == 0
        engine["settles"] = engine["queued"] > 0
        return
    _begin_schedule(ws, lane, inst, engine)
    if lane["fair_share"]:
        begin_share(lane, inst, engine)
    alone = is_alone(inst)
    if lane["stages"]:
        schedule_class(inp, ws, lane, inst, tally, engine)
    elif lane["counts"]:
        schedule_counted(inp, ws, out, lane, inst, tally, index, engine)
    if not misses_this(lane, inst, engine):
        schedule_running(inp, ws, out, lane, inst, tally, index, engine, alone)
    engine["walked"] = engine["plain"] + engine["size"] - engine["taken_back"]
    if inst["preempted"] == 0 and inst["waiting"] + inst["held"] > 0:
        admit(inp, ws, out, lane, inst, tally, index, engine, alone)
    if lane["lease"] and beats(lane, inst, engine):
        send_heartbeat(ws, lane, inst, engine)
        if waits_for_ever(ws, lane, inst, tally):
            tally["status"] = LaneStatus.STEP_LIMIT
    close_schedule(inp, ws, out, lane, inst, tally, index, engine)
    more = engine["size"] + engine["plain"] + engine["stall"] > 0 or is_busy(inst, engine)
    engine["settles"] = not (engine["queued"] < depth(lane) and more)


@part
def _process(inp, ws, out, lane, inst, tally, index, engine):
    """Process the outputs of the oldest batch, of those who are counted first."""
    if lane["drafts"] > 0:
        release_owed(inp, ws, lane, inst, engine)
    if lane["stages"]:
        process_class(inp, ws, out, lane, inst, tally, index, engine)
    elif lane["counts"]:
        process_counted(inp, ws, out, lane, inst, tally, index, engine)
    process_outputs(inp, ws, out, lane, inst, tally, index, engine)


@leaf
def _drop_oldest(ws, lane, inst, engine):
    """Let the oldest batch be on its way no more."""
    engine["oldest"] = in_ring(lane, engine["oldest"] + 1)
    engine["queued"] -= 1
    inst["in_flight"] = engine["queued"] > 0
    if lane["moves"]:
        note_stall(ws, inst, engine)
    if (lane["stages"] or lane["moves"]) and engine["queued"] > 0 and not is_busy(inst, engine):
        engine["settles"] = 1  # it waits for the next batch by now, whoever enters meanwhile


@part
def _settle(inp, ws, out, lane, inst, tally, index):
    """Process the outputs of the oldest batch at its end, then what else it reports."""
    engine = ws.engines[index]
    batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
    engine["settles"] = 0
    _process(inp, ws, out, lane, inst, tally, index, engine)
    told = 0
    if lane["moves"]:
        told = report(inp, ws, out, lane, inst, ws.offload[index], engine, batch["end"])
    if lane["role"] == DECODE:
        told += report_arrivals(inp, ws, out, lane, inst, tally, engine, batch["end"])
    elif lane["role"] == PREFILL:
        told += release_sent(inp, ws, lane, inst, tally, engine, batch["end"])
        if lane["lease"] and engine["heard"]:
            renew(ws, lane, engine, batch["end"])
        if lane["lease"] and (told > 0 or batch["end"] >= engine["expires"]):
            told += end_leases(inp, ws, lane, inst, tally, engine, batch["end"])
    if lane["log"]:
        log_outputs(out, inst, batch["row"])
    _drop_oldest(ws, lane, inst, engine)
    if batch["changes"] == 0 and told == 0 and none_changes(ws, lane, engine):
        engine["asleep"] = not lane["moves"] or rests(ws, inst, engine)
    elif lane["lease"]:
        note_change(ws, inst)


@leaf
def _run(inp, ws, out, lane, inst, tally, index, until):
    """Take what may be taken at once before `until`; return whether there was anything."""
    if is_cold(lane, inst):
        return False
    if lane["stages"]:
        return run_classes(inp, ws, lane, inst, tally, index, until)
    if lane["by_phase"]:
        return run_decodes(inp, ws, out, lane, inst, tally, index, until)
    return False


@leaf
def advance(inp, ws, out, lane, inst, tally, index, until, second):
    """Advance an instance through everything that happens before `until` (`instance.advance`).

    Where prefill and decode are apart it is the first thing, and what follows as long as it
    concerns no other instance; the first of them does something at `second`.
    """
    own = ws.own[index]
    inst["announced"] = 0
    while tally["status"] == LaneStatus.OK and not inst["announced"]:
        time, what = next_time(ws, own, inst)
        if time >= until:
            if not lane["disaggregated"]:
                accept(inp, ws, own, inst, until - 1)
            break
        _move_clock(own, inst, time)
        if what == OUTPUTS:
            _settle(inp, ws, out, own, inst, tally, index)
        elif ws.engines[index]["schedules"] > 2 * max(1, lane["stages"]) * own["step_limit"]:
            tally["status"] = LaneStatus.STEP_LIMIT
        else:
            ws.engines[index]["asleep"] = 0
            accept(inp, ws, own, inst, time)
            if not _run(inp, ws, out, own, inst, tally, index, until):
                _schedule(inp, ws, out, own, inst, tally, index)
            elif lane["lease"]:
                note_change(ws, inst)
        if lane["disaggregated"]:
            engine = ws.engines[index]
            until = own_until(inp, ws, own, inst, engine, what, until, second)
