"""The head of the waiting list, which may have to load first (rule R11.3)."""

import numpy as np

from ..._jit import leaf
from ...records import NONE, Event
from ..explicit.aligning import is_fresh
from ..explicit.capacity import pulled_blocks
from ..explicit.handoff import take_to_load
from ..explicit.lookup import count_users
from ..explicit.reserving import fits
from ..explicit.slots import all_groups, groups_of
from ..explicit.stages import set_aside
from ..offload import jobs
from ..tally import log_event
from . import copies, manager
from .connector import match
from .rings import chunk_of, slot_of_chunk
from .search import LATER, chunks_up
from .state_blocks import tell_states


@leaf
def ask(inp, ws, out, lane, inst, tally, index, engine, r, hits):
    """Return the tokens that the head can load behind its `hits`; or LATER: it was passed over."""
    off = ws.offload[index]
    s = engine["state_lo"] + r
    request, state = inp.requests[lane["request_lo"] + r], ws.states[s]
    tokens = match(inp, ws, lane, inst, off, request, state, s, hits * lane["block_size"])
    if tokens == LATER:
        off["later"] += 1
        log_event(out, lane, inst, tally, index, Event.LATER, r, NONE)
        set_aside(inp, ws, lane, inst, engine, r)
    return tokens


@leaf
def _read(inp, ws, lane, inst, off, request, state, s, group, first, end, job):
    """Let a load read the chunks `first` to ``end - 1`` of a group."""
    for chunk in range(first, end):
        slot = slot_of_chunk(lane, state, group, chunk)
        node = chunk_of(inp, ws, lane, inst, request, group, chunk)
        ws.chunks[node]["place"] = chunk
        manager.read(ws, lane, inst, off, s, slot, node)
        ws.slots[slot]["job"] = job


@leaf
def _read_all(inp, ws, lane, inst, off, r, state, s, local, tokens, job):
    """Let a load read what a request needs of `tokens` beyond `local`; return the blocks."""
    request = inp.requests[lane["request_lo"] + r]
    end = chunks_up(lane, local + tokens)
    last = np.int64(state["blocks"])
    count = np.int64(0)
    for group in range(groups_of(lane)):
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        first = max(local // lane["block_size"], gone)
        if first < last:
            lo = first // lane["factor"]
            _read(inp, ws, lane, inst, off, request, state, s, group, lo, end, job)
            count += last - first
    for group in range(groups_of(lane), all_groups(lane)):  # of states the last one
        _read(inp, ws, lane, inst, off, request, state, s, group, end - 1, end, job)
        count += 1
    return count


@leaf
def _begin_load(inp, ws, lane, inst, off, engine, r, s, local, tokens):
    """Load `tokens` beyond `local` into blocks that request `r` has got; return what is copied."""
    state = ws.states[s]
    job = jobs.new_job(ws, off)
    count = _read_all(inp, ws, lane, inst, off, r, state, s, local, tokens, job)
    copied = count * lane["block_size"]
    end = chunks_up(lane, local + tokens)
    jobs.fill_job(ws, job, r, local // lane["chunk_tokens"], end, copied)
    jobs.append(ws, off, jobs.NEW_LOADS, job)
    ws.offers[s]["next"] = end
    ws.offers[s]["next_head"] = end
    ws.offers[s]["jobs"] += 1
    off["unreported"] += 1
    off["loads"] += 1
    off["loaded"] += copied
    inst["reloads"] += count
    engine["copies"] = off["unreported"]
    copies.touch(inp, ws, lane, inst, state, s, np.int64(0))
    if lane["states"]:
        tell_states(ws, lane, inst, state, s)
    return copied


@leaf
def load(inp, ws, out, lane, inst, tally, index, engine, r, hits, tokens):
    """Take blocks for `tokens` of the head and begin to load them; return whether there is room."""
    s = engine["state_lo"] + r
    state = ws.states[s]
    local = hits * lane["block_size"]
    total = local + tokens
    unused, used = count_users(inp, ws, lane, state, hits, total)
    taken = pulled_blocks(inp, lane, total, hits)
    if not fits(inp, ws, lane, inst, engine, state, s, hits, hits, total, taken, unused):
        return False
    if lane["states"] and is_fresh(inp, ws, lane, inst, engine, r, hits):
        return False
    take_to_load(inp, ws, lane, inst, tally, r, state, s, hits, unused + used, total, taken)
    off = ws.offload[index]
    copied = _begin_load(inp, ws, lane, inst, off, engine, r, s, local, tokens)
    if r >= lane["warmup"] and lane["prefix_caching"] and not state["preempted"]:
        tally["loaded_tokens"] += tokens
    log_event(out, lane, inst, tally, index, Event.LOAD, r, copied)
    return True
