"""The chunks of a CPU tier: what is stored and refused, who reads what (vLLM's manager).

Evicted by recency they are runs (by_runs.py), with adaptive replacement single (by_chunks.py).
"""

from ..._jit import leaf
from ...policies import TierEviction
from . import by_chunks, by_runs


@leaf
def is_arc(lane):
    """Return whether room is made by adaptive replacement."""
    return lane["offload_eviction"] == TierEviction.ARC


@leaf
def find(inp, ws, lane, inst, off, request, first, end):
    """Find the leading ones of the chunks `first` to `end - 1` that are on the CPU.

    Returns
    -------
    chunk : int
        The first that is not.
    written, read : bool
        Whether any of those before it is being written, or read.
    """
    if is_arc(lane):
        found = by_chunks.find(inp, ws, lane, inst, off, request, first, end)
    else:
        found = by_runs.find(inp, ws, lane, inst, request, first, end)
    return found


@leaf
def store(inp, ws, lane, inst, off, request, r, first, end, job):
    """Offer the chunks `first` to `end - 1` of a request, to be written by `job`.

    Returns
    -------
    new : int
        How many of them are written; -1: refused, for lack of room.
    gap : int
        None of those before this chunk is written.
    """
    gap = first
    if is_arc(lane):
        new = by_chunks.store(inp, ws, lane, inst, off, request, first, end, job)
    else:
        new, gap = by_runs.store(inp, ws, lane, inst, off, request, r, first, end, job)
    return new, gap


@leaf
def read(inp, ws, lane, inst, off, request, r, first, end):
    """Pin the chunks `first` to `end - 1` of a request, which are loaded from now on."""
    if is_arc(lane):
        by_chunks.read(inp, ws, lane, inst, off, request, first, end)
    else:
        by_runs.read(inp, ws, lane, inst, off, request, r, first, end)


@leaf
def was_read(inp, ws, lane, inst, off, request, first, end):
    """Unpin chunks whose load is complete."""
    if is_arc(lane):
        by_chunks.was_read(inp, ws, lane, inst, off, request, first, end)
    else:
        by_runs.was_read(inp, ws, lane, inst, off, request, first, end)


@leaf
def written_part(inp, ws, lane, inst, off, request, first, end, job):
    """Return the bounds of the first of the chunks `first` to `end - 1` that `job` writes.

    They begin with `end` if there is none.
    """
    if is_arc(lane):
        part = by_chunks.written_part(inp, ws, lane, inst, off, request, first, end, job)
    else:
        part = by_runs.written_part(inp, ws, lane, inst, request, first, end, job)
    return part


@leaf
def was_written(inp, ws, lane, inst, off, request, first, end, job):
    """Let those of the chunks `first` to `end - 1` be read whose copy by `job` is complete."""
    if is_arc(lane):
        by_chunks.was_written(inp, ws, lane, inst, off, request, first, end, job)
    else:
        by_runs.was_written(inp, ws, lane, inst, off, request, first, end, job)


@leaf
def finish(inp, ws, lane, inst, off, request, r, chunks):
    """Settle the recency of what a finished request of `chunks` chunks has seen."""
    if is_arc(lane):
        by_chunks.finish(inp, ws, lane, inst, off, request, chunks)
    else:
        by_runs.finish(inp, ws, lane, inst, off, request, r, chunks)
