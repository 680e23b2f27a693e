"""Where chunks end beside groups of states: where a state can be cached (rules R12.7 and R12.9)."""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import full_blocks
from .slots import groups_of, key_of, slot_of
from .states import can_keep, keeps_states, last_state


@leaf
def _first_within(start, end, stop):
    """Return the earlier of `end` and a stop, if that is within the chunk."""
    return stop if start < stop < end else end


@leaf
def aligned(ws, lane, state, s, tokens, start):
    """Return how many of `tokens` tokens a chunk from `start` on takes, so that it ends well.

    Before the last one it ends with a block, if a block is not longer than any chunk. The last one
    stops where the last whole block ends, unless it can keep the state there from within; and all
    stop where the blocks end that others have, too. 0: it waits for a step with more room.
    """
    goal = max(np.int64(state["prompt"]), np.int64(state["known"]) - 1)
    if not keeps_states(lane) or start >= goal:
        return tokens
    size = lane["block_size"]
    end = start + tokens
    last = last_state(lane, np.int64(state["known"]))
    inside = lane["checkpoints"] != 0 and end >= goal
    inside = inside and can_keep(lane, start, end, last_state(lane, goal))
    if end < goal:
        longest = lane["max_tokens"]
        if lane["long_prefill"] > 0:
            longest = min(longest, lane["long_prefill"])
        whole = full_blocks(lane, end) * size
        if whole > start or size <= longest:
            end = whole
    first = np.int64(end)
    if not inside:
        first = _first_within(start, first, last)
        if start > full_blocks(lane, start) * size:
            first = _first_within(start, first, (full_blocks(lane, start) + 1) * size)
    junction = np.int64(state["junction"])
    if start < junction < end:
        first = _first_within(start, first, start + full_blocks(lane, junction - start) * size)
    return max(first - start, 0)


@leaf
def aligned_with(ws, lane, state, s, tokens, start, padded):
    """Return the same of an admission, and whether it is padded still: not if that was cut."""
    found = aligned(ws, lane, state, s, tokens, start)
    if padded and found > 0 and found != tokens:
        found = np.int64(1)
        padded = False
    return found, padded


@leaf
def _has_fresh(inp, ws, lane, inst, engine, request, r, block):
    """Return whether a running request has cached in this schedule what is the same behind `block`.

    Its slot for that state is a later one if it was kept early (R13.8).
    """
    s = engine["state_lo"] + r
    own, state = ws.recurrent[s], ws.states[s]
    other = inp.requests[lane["request_lo"] + r]
    at = block + (lane["drops_last"] != 0 and own["early"] == block + 1)
    new = own["fresh_at"] == engine["turn"]
    if not new or not max(own["fresh"], own["alive"]) <= at < state["published"]:
        return False
    found = ws.tables[slot_of(state, groups_of(lane), at)]
    there = found >= 0
    if lane["moves"]:  # each has a record there, cached or not
        key = key_of(inp, lane, other, groups_of(lane), block)
        there = there and ws.blocks[found]["key"] == key
    same = inp.keys[request["key_lo"] + block] == inp.keys[other["key_lo"] + block]
    return there and same


@leaf
def is_fresh(inp, ws, lane, inst, engine, head, hits):
    """Return whether the state that a head hits behind `hits` blocks is cached by this schedule.

    Then nobody can begin with it before the next one, not even with an older one like it.
    """
    request = inp.requests[lane["request_lo"] + head]
    fresh = False
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        fresh = fresh or _has_fresh(inp, ws, lane, inst, engine, request, r, hits - 1)
    return fresh
