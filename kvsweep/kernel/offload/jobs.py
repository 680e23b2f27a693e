"""Jobs of an instance, each a copy of chunks of one request, and the queues that they stand in."""

import math

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..memory import QUEUES

NEW_STORES, WAITING_STORES, STORES, NEW_LOADS, LOADS = range(QUEUES)
"""Queues of jobs: created by the step being scheduled, by the one before it, and begun."""


@leaf
def copy_time(lane, tokens):
    """Return how long a copy of so many tokens takes."""
    return lane["transfer_base"] + math.ceil(tokens / lane["bandwidth"])


@leaf
def begin_copies(ws, off):
    """Let nothing be under way at an instance."""
    for queue in range(off["queue_lo"], off["queue_lo"] + QUEUES):
        ws.queues[queue]["head"] = NONE


@leaf
def new_job(ws, off):
    """Return a job record that is not in use."""
    job = off["job_spare"]
    if job == NONE:
        job = off["job_lo"] + off["job_fresh"]
        off["job_fresh"] += 1
    else:
        off["job_spare"] = np.int64(ws.jobs[job]["next"])
    return job


@leaf
def drop_job(ws, off, job):
    """Let a job record be used again."""
    ws.jobs[job]["next"] = off["job_spare"]
    off["job_spare"] = job


@leaf
def head(ws, off, queue):
    """Return the first job of a queue, or NONE."""
    return np.int64(ws.queues[off["queue_lo"] + queue]["head"])


@leaf
def append(ws, off, queue, job):
    """Put a job at the end of a queue."""
    ends = ws.queues[off["queue_lo"] + queue]
    ws.jobs[job]["next"] = NONE
    if ends["head"] == NONE:
        ends["head"] = job
    else:
        ws.jobs[ends["tail"]]["next"] = job
    ends["tail"] = job


@leaf
def pop(ws, off, queue):
    """Take the first job out of a queue, which must not be empty."""
    ends = ws.queues[off["queue_lo"] + queue]
    job = np.int64(ends["head"])
    ends["head"] = ws.jobs[job]["next"]
    return job


@leaf
def fill_job(ws, job, r, first, end, tokens):
    """Set what a job copies: `tokens` of the chunks `first` to `end - 1` of a request."""
    record = ws.jobs[job]
    record["request"] = r
    record["first"] = first
    record["end"] = end
    record["tokens"] = tokens
    record["flush"] = 0
    record["ends"] = NEVER
    record["next"] = NONE
