"""Jobs of the stores of several requests, a chunk each, that are only counted (counted_stores.py).

One stands for what decoding requests offer in a step. It ends store by store, and is spelled out,
into a job for each, before anything tells whose stores they are.
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NEVER, NONE
from ..blocks.sizes import full_blocks
from ..memory import extent_at
from ..time.decoding import known_tokens, settled_tokens
from . import jobs, lru
from .chunks import chunks_of, slot_with
from .filled import fill_absent
from .room import BEING_WRITTEN
from .seen import see


@leaf
def offered(lane, request, progress, step):
    """Return the chunks of a decoding request that it has offered before `step` is scheduled."""
    return chunks_of(lane, full_blocks(lane, settled_tokens(lane, request, progress, step, NEVER)))


@leaf
def begun(lane, request, progress):
    """Return the chunks that a decoding request had filled when it began to."""
    return chunks_of(lane, full_blocks(lane, known_tokens(request, progress) - 1))


@leaf
def settle_to(inp, ws, lane, inst, request, progress, r, step):
    """Put what a request has stored before `step` and is only counted into the tier, written."""
    first = np.int64(ws.offers[r]["next"])
    end = offered(lane, request, progress, step)
    if first < end and end > begun(lane, request, progress):
        off = ws.offload[inst["number"]]
        fill_absent(inp, ws, lane, inst, off, request, r, first, end)
        ws.offers[r]["next"] = end
        inst["unsettled"] -= end - first


@leaf
def count_stores(lane, inst, off, count):
    """Count stores of a chunk each."""
    off["chunks"] += count
    off["stores"] += count
    off["stored"] += count * lane["chunk_tokens"]
    inst["offloads"] += count


@leaf
def create_counted(ws, lane, off, queue, step, count):
    """Create the job of the `count` stores of a step, of a chunk each, that are only counted."""
    job = jobs.new_job(ws, off)
    jobs.fill_job(ws, job, NONE, step, count, lane["chunk_tokens"])
    ws.jobs[job]["pinned"] = count
    jobs.append(ws, off, queue, job)
    off["unreported"] += count
    if off["counted"] == 0:
        off["counted_from"] = step
    off["counted"] += 1


@leaf
def drop_counted(ws, off, job):
    """Forget the job of stores that are only counted, the oldest one."""
    off["counted"] -= 1
    off["counted_from"] = ws.jobs[job]["first"] + 1
    jobs.drop_job(ws, off, job)


@leaf
def report_counted(ws, lane, off, now):
    """Report those stores of the first job under way that have ended by `now`; return how many."""
    job = jobs.head(ws, off, jobs.STORES)
    record = ws.jobs[job]
    takes = jobs.copy_time(lane, record["tokens"])
    over = min(np.int64(record["end"]), 1 + (now - record["ends"]) // takes)
    record["ends"] += over * takes
    record["end"] -= over
    off["unreported"] -= over
    off["idle"] += over
    if record["end"] == 0:
        drop_counted(ws, off, jobs.pop(ws, off, jobs.STORES))
    return over


@leaf
def _store_of(inp, ws, lane, inst, off, queue, r, chunk, ends):
    """Create the job of a store of a request that was only counted; it ends at `ends`."""
    request = inp.requests[lane["request_lo"] + r]
    job = jobs.new_job(ws, off)
    jobs.fill_job(ws, job, r, chunk, chunk + 1, lane["chunk_tokens"])
    ws.jobs[job]["ends"] = ends
    ws.jobs[job]["pinned"] = 0
    jobs.append(ws, off, queue, job)
    ws.offers[r]["jobs"] += 1
    ws.offers[r]["next"] = chunk + 1
    inst["unsettled"] -= 1
    see(ws, lane, request, r, chunk, chunk + 1)
    slot = slot_with(inp, lane, request["chain_lo"], chunk)
    extent = extent_at(lane, inst, inp.chain[slot]["extent"])
    node = lru.insert(ws, lane, inst, off, r, extent, chunk, chunk + 1)
    ws.tier[node]["readers"] = BEING_WRITTEN
    ws.tier[node]["offer"] = 0  # it may hold an earlier one's
    ws.tier[node]["job"] = job


@leaf
def _spell_out(inp, ws, lane, inst, off, queue, job):
    """Create a job for each store of a job that is only counted; its record is used again."""
    step = np.int64(ws.jobs[job]["first"])
    over = np.int64(ws.jobs[job]["pinned"]) - ws.jobs[job]["end"]
    ends = np.int64(ws.jobs[job]["ends"])
    takes = jobs.copy_time(lane, lane["chunk_tokens"])
    drop_counted(ws, off, job)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        request = inp.requests[lane["request_lo"] + r]
        progress = ws.progress[r]
        chunk = offered(lane, request, progress, step)
        stores = progress["decoding"] == 1 and offered(lane, request, progress, step + 1) > chunk
        if stores and chunk >= begun(lane, request, progress):
            over -= 1
            if over < 0:
                settle_to(inp, ws, lane, inst, request, progress, r, step)
                _store_of(inp, ws, lane, inst, off, queue, r, chunk, ends)
                ends += takes * (queue == jobs.STORES)


@part
def spell_out(inp, ws, lane, inst, off):
    """Create a job for each store that is only counted and not reported."""
    for queue in (jobs.STORES, jobs.WAITING_STORES, jobs.NEW_STORES):
        job = jobs.head(ws, off, queue)
        ws.queues[off["queue_lo"] + queue]["head"] = NONE
        while job != NONE:
            after = np.int64(ws.jobs[job]["next"])
            if ws.jobs[job]["request"] == NONE:
                _spell_out(inp, ws, lane, inst, off, queue, job)
            else:
                jobs.append(ws, off, queue, job)
            job = after
