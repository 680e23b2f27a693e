"""Copies between the GPU and the CPU: one stream each way, each after the one before it.

A job copies chunks of one request. Stores wait in a list until the next step begins, then stand in
their stream, in order, until a step ends that they have ended by; then they are reported. Blocks of
a finished request are free at once, though stores may still read them: they are *pinned*. Whoever
takes or hits a pinned block makes its step await the copy; the next one too, asynchronously, if
that takes up what the block was filled with, as the copy is not reported yet.
"""

import numpy as np

from ..._jit import leaf, part
from ...policies import RequestStatus
from ...records import NEVER, NONE
from ..memory import in_table
from ..scheduling import waiting
from ..scheduling.holders import LOADED
from .counted_jobs import report_counted
from .jobs import LOADS, NEW_LOADS, NEW_STORES, STORES, WAITING_STORES, append, copy_time, head, pop
from .manager import was_read, was_written, written_part


@leaf
def _begin(ws, out, lane, tally, index, off, queue, job, now, ready):
    """Begin a copy at `now`, or when its stream is `ready`; return when it ends.

    That of the stores of several requests has the end of the first one.
    """
    record = ws.jobs[job]
    start = max(now, ready)
    takes = copy_time(lane, record["tokens"])
    ends = start + takes
    record["ends"] = ends
    append(ws, off, queue, job)
    if record["request"] == NONE:
        return start + takes * record["end"]
    if lane["log"]:
        record["row"] = tally["log_transfers"]
        tally["log_transfers"] += 1
        if record["row"] < out.transfers.size:
            row = out.transfers[record["row"]]
            row["instance"] = index
            row["load"] = queue == LOADS
            row["pull"] = 0
            row["request"] = record["request"]
            row["tokens"] = record["tokens"]
            row["ordered_us"] = now
            row["submitted_us"] = now
            row["start_us"] = start
            row["end_us"] = ends
            row["reported_us"] = NONE
    return ends


@leaf
def begin_waiting(ws, out, lane, tally, index, off, now):
    """Begin the stores of the step before the one that begins at `now`."""
    while head(ws, off, WAITING_STORES) != NONE:
        job = pop(ws, off, WAITING_STORES)
        ready = off["store_ready"]
        off["store_ready"] = _begin(ws, out, lane, tally, index, off, STORES, job, now, ready)


@leaf
def keep_waiting(ws, off):
    """Let the stores that a step has created, none of which it awaits, wait for the next step."""
    while head(ws, off, NEW_STORES) != NONE:
        append(ws, off, WAITING_STORES, pop(ws, off, NEW_STORES))


@leaf
def begin_stores(ws, out, lane, inst, tally, index, off):
    """Begin the stores of the step before and those that this step must await; return its stall."""
    now = inst["clock"] + inst["device"]
    begin_waiting(ws, out, lane, tally, index, off, now)
    while head(ws, off, NEW_STORES) != NONE:
        job = pop(ws, off, NEW_STORES)
        if ws.jobs[job]["flush"] == inst["serial"]:
            ready = off["store_ready"]
            off["store_ready"] = _begin(ws, out, lane, tally, index, off, STORES, job, now, ready)
        else:
            append(ws, off, WAITING_STORES, job)
    until = now
    off["awaited"] = 0
    job = head(ws, off, STORES) if off["awaits"] else NONE
    while job != NONE:
        if ws.jobs[job]["flush"] == inst["serial"]:
            off["awaited"] += 1
            until = max(until, ws.jobs[job]["ends"])
        job = np.int64(ws.jobs[job]["next"])
    off["awaits"] = 0
    return until - now


@leaf
def begin_loads(ws, out, lane, tally, index, off, now):
    """Begin the loads of a step at its end."""
    while head(ws, off, NEW_LOADS) != NONE:
        job = pop(ws, off, NEW_LOADS)
        ready = off["load_ready"]
        off["load_ready"] = _begin(ws, out, lane, tally, index, off, LOADS, job, now, ready)


@leaf
def next_load(ws, off):
    """Return when the next of the loads under way ends."""
    time = NEVER
    job = head(ws, off, LOADS)
    if job != NONE:
        time = ws.jobs[job]["ends"]
    return time


@leaf
def next_end(ws, off):
    """Return when the next of the copies under way ends."""
    time = NEVER
    for queue in (STORES, LOADS):
        job = head(ws, off, queue)
        if job != NONE:
            time = min(time, ws.jobs[job]["ends"])
    return time


@leaf
def pin(inp, ws, lane, inst, off, job, count):
    """Pin the blocks that a store of a finished request reads (`count` 1), or unpin them (-1).

    A block that was evicted since, or by the schedule that pins it, is filled anew already: its id
    may be that of another block. Return whether the step being scheduled has touched one of them.
    """
    pinned = ws.jobs[job]["pinned"]
    r = ws.jobs[job]["request"]
    request = inp.requests[lane["request_lo"] + r]
    touched = False
    stop, last = np.int64(ws.jobs[job]["first"]), np.int64(ws.jobs[job]["end"])
    while stop < last:
        first, stop = written_part(inp, ws, lane, inst, request, stop, last, job)
        lo = request["key_lo"]
        for slot in range(lo + first * lane["factor"], lo + stop * lane["factor"]):
            pins = ws.pins[ws.table[in_table(ws, slot)]]
            valid = pins["evicted"] < pinned
            pins["stores"] += count * valid
            once = not valid and pins["evicted_before"] < pinned  # evicted once since it is pinned
            now = once and pins["evicted"] == 2 * inst["serial"]
            touched = touched or ((valid or now) and pins["touched"] == inst["serial"])
            touched = touched or (once and pins["again"] == inst["serial"])
    return touched


@leaf
def is_awaited(inp, ws, lane, inst, off, job):
    """Return whether the step being scheduled must await a store that began before it.

    It is of a request that the step preempts, or reads a block that the step touches though the
    request has finished.
    """
    r = ws.jobs[job]["request"]
    if r == NONE:
        return False
    awaited = ws.offers[r]["flush"] == inst["serial"]
    if ws.progress[r]["status"] == RequestStatus.COMPLETED:
        awaited = pin(inp, ws, lane, inst, off, job, 0)
    return awaited


@leaf
def find_awaited(inp, ws, lane, inst, off):
    """Mark the stores of earlier steps that the step being scheduled must await."""
    if inst["flushes"]:
        for queue in (WAITING_STORES, STORES):
            job = head(ws, off, queue)
            while job != NONE:
                if is_awaited(inp, ws, lane, inst, off, job):
                    ws.jobs[job]["flush"] = inst["serial"]
                    off["awaits"] = 1
                job = np.int64(ws.jobs[job]["next"])
    inst["flushes"] = 0


@leaf
def _drop(ws, out, lane, off, job, now):
    """Forget a job that is reported; its record can be used again."""
    if lane["log"] and ws.jobs[job]["row"] < out.transfers.size:
        out.transfers[ws.jobs[job]["row"]]["reported_us"] = now
    ws.offers[ws.jobs[job]["request"]]["jobs"] -= 1
    off["unreported"] -= 1
    ws.jobs[job]["next"] = off["job_spare"]
    off["job_spare"] = job


@leaf
def _end_store(inp, ws, lane, inst, off, job):
    """Let the chunks be read that a store has written."""
    r = ws.jobs[job]["request"]
    request = inp.requests[lane["request_lo"] + r]
    if ws.progress[r]["status"] == RequestStatus.COMPLETED:
        pin(inp, ws, lane, inst, off, job, -1)
        off["pinned"] -= 1
    first, end = np.int64(ws.jobs[job]["first"]), np.int64(ws.jobs[job]["end"])
    was_written(inp, ws, lane, inst, off, request, first, end, job)


@leaf
def _end_load(inp, ws, lane, inst, off, job):
    """Unpin the chunks that a load has read, and let its request go on."""
    r = ws.jobs[job]["request"]
    request = inp.requests[lane["request_lo"] + r]
    first, end = np.int64(ws.jobs[job]["first"]), np.int64(ws.jobs[job]["end"])
    was_read(inp, ws, lane, inst, off, request, first, end)
    ws.progress[r]["loading"] = LOADED


@part
def report(inp, ws, out, lane, inst, off, now):
    """Report the copies that have ended by `now`; return how many."""
    count = 0
    if off["unreported"] == 0:
        return count
    while head(ws, off, STORES) != NONE and ws.jobs[head(ws, off, STORES)]["ends"] <= now:
        if ws.jobs[head(ws, off, STORES)]["request"] == NONE:
            count += report_counted(ws, lane, off, now)
            continue
        job = pop(ws, off, STORES)
        _end_store(inp, ws, lane, inst, off, job)
        _drop(ws, out, lane, off, job, now)
        count += 1
    while head(ws, off, LOADS) != NONE and ws.jobs[head(ws, off, LOADS)]["ends"] <= now:
        job = pop(ws, off, LOADS)
        _end_load(inp, ws, lane, inst, off, job)
        _drop(ws, out, lane, off, job, now)
        count += 1
        waiting.wake_head(inst)
    if count > 0 and inst["told"]:
        waiting.wake_head(inst)
    return count
