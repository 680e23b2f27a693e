"""The job of a store: what is common to chunks of attention and to states."""

from ..._jit import leaf
from ...records import Event
from ..offload import jobs
from ..tally import log_event


@leaf
def create(ws, off, r, first, end):
    """Return a job that writes some of the chunks `first` to ``end - 1`` of a request."""
    job = jobs.new_job(ws, off)
    jobs.fill_job(ws, job, r, first, end, 0)
    ws.jobs[job]["pinned"] = 0
    return job


@leaf
def submit(ws, out, lane, inst, tally, index, off, r, s, job, count):
    """Let a job of the step being scheduled read so many blocks."""
    tokens = count * lane["block_size"]
    ws.jobs[job]["tokens"] = tokens
    jobs.append(ws, off, jobs.NEW_STORES, job)
    ws.offers[s]["jobs"] += 1
    off["unreported"] += 1
    off["stores"] += 1
    off["stored"] += tokens
    inst["offloads"] += count
    log_event(out, lane, inst, tally, index, Event.STORE, r, tokens)
