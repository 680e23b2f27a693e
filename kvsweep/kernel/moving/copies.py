"""What copies read and write: the blocks that a step must not fill before, and reports of ends."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..explicit.slots import all_groups, groups_of, slot_of, window_of
from ..offload.jobs import LOADS, STORES, WAITING_STORES, head, pop
from ..offload.pins import note_hit
from ..scheduling.holders import LOADED
from . import manager
from .rings import chunk_of, slot_of_chunk
from .worth import is_there


@leaf
def _is_left(inp, lane, group):
    """Return whether blocks of a group are left before their request ends: of a window, a state."""
    return group >= groups_of(lane) or window_of(inp, lane, group) > 0


@leaf
def _add_pins(inp, ws, lane, state, job, sliding, count):
    """Pin the blocks that a store reads in groups that leave theirs, or in the others; or unpin."""
    factor = lane["factor"]
    record = ws.jobs[job]
    for group in range(all_groups(lane)):
        if _is_left(inp, lane, group) == sliding:
            for block in range(record["first"] * factor, record["end"] * factor):
                slot = ws.slots[slot_of(state, group, block)]
                if slot["job"] == job:
                    ws.pins[slot["block"]]["stores"] += count


@leaf
def protect(inp, ws, lane, state, job):
    """Pin all blocks that a store of a finished request reads."""
    ws.jobs[job]["pinned"] = 1
    _add_pins(inp, ws, lane, state, job, False, 1)


@leaf
def protect_all(inp, ws, lane, off, r, state):
    """Pin all blocks that the stores of a request read, which has just finished."""
    for queue in (WAITING_STORES, STORES):
        job = head(ws, off, queue)
        while job != NONE:
            if ws.jobs[job]["request"] == r:
                protect(inp, ws, lane, state, job)
            job = np.int64(ws.jobs[job]["next"])


@leaf
def read_chunk(inp, ws, lane, state, group, chunk, job):
    """Let a store read the blocks of a chunk that are there; return how many.

    What a window has left may become another's before its request ends: it is pinned.
    """
    window = window_of(inp, lane, group)
    count = np.int64(0)
    for block in range(chunk * lane["factor"], (chunk + 1) * lane["factor"]):
        place = slot_of(state, group, block)
        if is_there(ws, window, place):
            slot = ws.slots[place]
            slot["job"] = job
            slot["block"] = ws.tables[place]
            ws.pins[slot["block"]]["stores"] += window > 0
            count += 1
    return count


@leaf
def is_touched(inp, ws, lane, inst, state, job, sliding):
    """Return whether the step being scheduled took or hit a block that a store reads.

    In groups with windows or states (`sliding`), or in the others.
    """
    factor = lane["factor"]
    record = ws.jobs[job]
    for group in range(all_groups(lane)):
        if _is_left(inp, lane, group) == sliding:
            for block in range(record["first"] * factor, record["end"] * factor):
                slot = ws.slots[slot_of(state, group, block)]
                if slot["job"] == job and ws.pins[slot["block"]]["touched"] == inst["serial"]:
                    return True
    return False


@leaf
def _must_be_over(inp, ws, lane, inst, engine, job):
    """Return whether the step being scheduled must await a store of an earlier one.

    It preempts its request, or takes or hits a block that it reads: of a window from the beginning
    on, of full attention once the request has finished.
    """
    record = ws.jobs[job]
    s = engine["state_lo"] + record["request"]
    if ws.offers[s]["flush"] == inst["serial"]:
        return True
    state = ws.states[s]
    touched = is_touched(inp, ws, lane, inst, state, job, True)
    if record["pinned"]:
        touched = touched or is_touched(inp, ws, lane, inst, state, job, False)
    return touched


@leaf
def find_awaited(inp, ws, lane, inst, off, engine):
    """Mark the stores of earlier steps that the step being scheduled must await."""
    if inst["flushes"]:
        for queue in (WAITING_STORES, STORES):
            job = head(ws, off, queue)
            while job != NONE:
                if _must_be_over(inp, ws, lane, inst, engine, job):
                    ws.jobs[job]["flush"] = inst["serial"]
                    off["awaits"] = 1
                job = np.int64(ws.jobs[job]["next"])
    inst["flushes"] = 0


@leaf
def touch(inp, ws, lane, inst, state, s, first):
    """Note that a step gives a request the blocks of its tables from `first` on."""
    for group in range(groups_of(lane)):
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        for block in range(max(first, gone), np.int64(state["blocks"])):
            slot = slot_of(state, group, block)
            ws.slots[slot]["since"] = inst["serial"]
            note_hit(ws, inst, np.int64(ws.tables[slot]))


@leaf
def _end_store(inp, ws, lane, inst, off, request, state, job):
    """Let the chunks be read that a store has written."""
    record = ws.jobs[job]
    _add_pins(inp, ws, lane, state, job, True, -1)
    if record["pinned"]:
        _add_pins(inp, ws, lane, state, job, False, -1)
    for group in range(all_groups(lane)):
        for chunk in range(record["first"], record["end"]):
            if ws.slots[slot_of_chunk(lane, state, group, chunk)]["job"] == job:
                manager.was_written(ws, off, chunk_of(inp, ws, lane, inst, request, group, chunk))


@leaf
def _end_load(inp, ws, lane, inst, off, request, r, state, job):
    """Unpin the chunks that a load has read, and let its request go on."""
    record = ws.jobs[job]
    for group in range(all_groups(lane)):
        for chunk in range(record["first"], record["end"]):
            if ws.slots[slot_of_chunk(lane, state, group, chunk)]["job"] == job:
                manager.was_read(ws, off, chunk_of(inp, ws, lane, inst, request, group, chunk))
    ws.progress[r]["loading"] = LOADED


@leaf
def _drop(ws, out, lane, off, state, s, job, now):
    """Forget a job that is reported; its record can be used again."""
    record = ws.jobs[job]
    if lane["log"] and record["row"] < out.transfers.size:
        out.transfers[record["row"]]["reported_us"] = now
    factor = lane["factor"]
    for group in range(all_groups(lane)):
        for block in range(record["first"] * factor, record["end"] * factor):
            slot = ws.slots[slot_of(state, group, block)]
            if slot["job"] == job:
                slot["job"] = NONE
    ws.offers[s]["jobs"] -= 1
    off["unreported"] -= 1
    record["next"] = off["job_spare"]
    off["job_spare"] = job


@leaf
def report(inp, ws, out, lane, inst, off, engine, now):
    """Report the copies that have ended by `now`; return how many."""
    count = np.int64(0)
    for queue in (STORES, LOADS):
        job = head(ws, off, queue)
        while job != NONE and ws.jobs[job]["ends"] <= now:
            pop(ws, off, queue)
            r = np.int64(ws.jobs[job]["request"])
            request = inp.requests[lane["request_lo"] + r]
            s = engine["state_lo"] + r
            state = ws.states[s]
            if queue == STORES:
                _end_store(inp, ws, lane, inst, off, request, state, job)
            else:
                _end_load(inp, ws, lane, inst, off, request, r, state, job)
            _drop(ws, out, lane, off, state, s, job, now)
            count += 1
            job = head(ws, off, queue)
    engine["copies"] = off["unreported"]
    return count
