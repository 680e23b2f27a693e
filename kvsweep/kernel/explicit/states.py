"""Groups of layers that keep a recurrent state: Mamba, linear attention (rules R12.6 to R12.9).

A block of such a group is the state behind so many tokens. With prefix caching there is one where a
chunk ends, at the end of a block while that can be, so the tables have *empty* slots between; and
what a state was made from is given back, once it is not needed. Without it a request has one. With
drafts there is one more for each, behind the request's own, and it moves on with that.

All these groups have the same states of a request, so what is known of their tables is known once
(`RECURRENT`). Each state that is cached has a record of its own.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.sizes import blocks_for, full_blocks
from ..moving import state_blocks
from . import block_records
from .slots import COUNTED, groups_of, slot_of


@leaf
def keeps_states(lane):
    """Return whether states are cached, so that they come and go while a request runs."""
    return lane["states"] != 0 and lane["prefix_caching"] != 0


@leaf
def state_slot(lane, state, number, block):
    """Return the slot of a block in the table of a group of states."""
    return slot_of(state, groups_of(lane) + number, block)


@leaf
def clear_states(ws, lane, state, s):
    """Let a request have no states."""
    if lane["states"]:
        if lane["moves"]:
            state_blocks.keep_back(ws, lane, state, s)
            ws.recurrent[s]["told"] = 0
        ws.recurrent[s]["length"] = 0
        ws.recurrent[s]["alive"] = 0
        ws.recurrent[s]["given"] = 0


@leaf
def most_states(lane, blocks):
    """Return how many states a request of so many blocks has at a time, at most."""
    each = np.int64(1)
    if lane["prefix_caching"]:
        each = min(np.int64(blocks), 2 + lane["checkpoints"])
    return (each + lane["drafts"]) * lane["states"]


@leaf
def can_keep(lane, start, end, position):
    """Return whether a chunk can keep the state behind `position` tokens, from within it."""
    size = lane["block_size"]
    aligned = start == full_blocks(lane, start) * size
    beyond = blocks_for(lane, end) - 2 > full_blocks(lane, start + size - 1) - 1
    return aligned and beyond and start + size <= position < end


@leaf
def last_state(lane, tokens):
    """Return behind how many of so many tokens the last state is that another can begin with.

    One token must be left to compute; or the block that a hit does without.
    """
    last = full_blocks(lane, tokens - 1)
    if lane["drops_last"]:
        last = max(full_blocks(lane, tokens) - 1, 0)
    return np.int64(last) * lane["block_size"]


@leaf
def _keeps_one(ws, lane, state, own, start, end):
    """Return whether a chunk keeps the state before its last one, in a slot that is empty.

    Where no interval lets it stay cached only the chunk does that ends a prefill.
    """
    place = blocks_for(lane, end) - 2
    keeps = lane["checkpoints"] != 0 and place >= 0
    if lane["sparse"] and lane["kept_every"] == 0:
        keeps = keeps and end >= max(np.int64(state["prompt"]), np.int64(state["known"]) - 1)
    if keeps and own["alive"] <= place < own["length"] - lane["drafts"]:
        keeps = ws.tables[state_slot(lane, state, 0, place)] == NONE
    return keeps and can_keep(lane, start, end, last_state(lane, end))


@leaf
def states_needed(ws, lane, state, s, start, end, hits):
    """Return the states that a chunk takes, of tokens `start` to ``end - 1``; all groups together.

    A request without any hits the one at the end of `hits` blocks, others have more.
    """
    own = ws.recurrent[s]
    new = 1 + lane["drafts"] * (own["given"] == 0)
    if not lane["prefix_caching"]:
        return np.int64(lane["states"] * new * (own["length"] == 0))
    own["keeps"] = _keeps_one(ws, lane, state, own, start, end)
    if lane["drops_last"]:
        own["inside"] = blocks_for(lane, end) - 2
        own["inside_end"] = last_state(lane, end)
    more = blocks_for(lane, end) + lane["drafts"] - max(np.int64(own["length"]), hits)
    return np.int64(lane["states"] * min(more, new + own["keeps"]))


@leaf
def grow_states(ws, lane, inst, tally, state, own, first, end, measured):
    """Let the slots `first` to ``end - 1`` have states, which are the last ones."""
    for number in range(lane["states"]):
        for block in range(first, end):
            if lane["moves"]:
                state_blocks.take_state(ws, lane, inst, state_slot(lane, state, number, block))
            else:
                ws.tables[state_slot(lane, state, number, block)] = COUNTED
    tally["blocks_taken"] += (end - first) * lane["states"] * measured
    own["length"] = end


@leaf
def _move(ws, lane, state, own, between):
    """Leave slots empty up to `between`; return the first behind those that have a state then.

    States of drafts in front of it move behind it.
    """
    first = np.int64(own["length"])
    for number in range(lane["states"]):
        for block in range(first, between):
            ws.tables[state_slot(lane, state, number, block)] = NONE
    moved = max(first, between)
    if lane["drafts"] > 0 and own["given"]:
        for block in range(first - lane["drafts"], min(first, between)):
            for number in range(lane["states"]):
                slot = state_slot(lane, state, number, block)
                ws.tables[state_slot(lane, state, number, moved)] = ws.tables[slot]
                ws.tables[slot] = NONE
            moved += 1
    return moved


@leaf
def take_states(ws, lane, inst, tally, state, s, end, measured):
    """Give a request the states of a chunk that ends at `end`, as `states_needed` counted them."""
    if lane["states"]:
        own = ws.recurrent[s]
        want = 1 + np.int64(lane["drafts"])
        first = np.int64(own["length"])
        if lane["prefix_caching"]:
            want = blocks_for(lane, end) + lane["drafts"]
            if want > first or own["keeps"]:
                first = _move(ws, lane, state, own, want - lane["drafts"] - 1 - own["keeps"])
        if want > first:
            if not lane["moves"]:
                block_records.take(ws, inst, (want - first) * lane["states"])
            grow_states(ws, lane, inst, tally, state, own, first, want, measured)
        own["length"] = max(want, np.int64(own["length"]))
        own["given"] = 1


@leaf
def have_loaded(ws, lane, inst, tally, state, s, blocks, measured):
    """Give a request the state behind so many blocks, which it loads; it has none before."""
    own = ws.recurrent[s]
    if not lane["prefix_caching"]:
        blocks = np.int64(1)
    if not lane["moves"]:
        block_records.take(ws, inst, np.int64(lane["states"]))
    own["alive"] = blocks - 1
    own["given"] = 1
    grow_states(ws, lane, inst, tally, state, own, blocks - 1, blocks, measured)


@leaf
def have_drafts(ws, lane, inst, tally, state, s, measured):
    """Give a request that loads its states of drafts, behind what it loads."""
    own = ws.recurrent[s]
    if not lane["moves"]:
        block_records.take(ws, inst, np.int64(lane["states"] * lane["drafts"]))
    first = np.int64(own["length"])
    grow_states(ws, lane, inst, tally, state, own, first, first + lane["drafts"], measured)


@leaf
def decode_states(ws, lane, inst, tally, engine, state, s, measured):
    """Let a request that decodes leave and get what it does in this step; it is taken already."""
    own = ws.recurrent[s]
    leave_states(ws, lane, inst, engine, state, s, state["computed"] - state["flight"])
    if state["computed"] == own["length"] * lane["block_size"]:
        first = np.int64(own["length"])
        grow_states(ws, lane, inst, tally, state, own, first, first + 1, measured)


@leaf
def next_change(ws, lane, state, s):
    """Return in how many steps a request that decodes caches, leaves or gets a state."""
    own = ws.recurrent[s]
    computed = np.int64(state["computed"])
    caches = state["publish_at"] - min(computed + 1, np.int64(state["known"]))
    gets = own["length"] * lane["block_size"] - computed
    leaves = (own["alive"] + 1) * lane["block_size"] + 1 + state["flight"] - computed
    return min(caches, gets, leaves)


@leaf
def tables_of(lane):
    """Return of how many tables a request that decodes takes blocks at a time."""
    return groups_of(lane) + lane["states"] * lane["prefix_caching"]


@leaf
def _release(ws, lane, inst, state, number, first, end):
    """Free the states in slots `first` to ``end - 1``, the last one first; return how many."""
    if lane["moves"]:
        return state_blocks.release_between(ws, lane, inst, state, number, first, end)
    freed = np.int64(0)
    for block in range(end - 1, first - 1, -1):
        found = np.int64(ws.tables[state_slot(lane, state, number, block)])
        if found == COUNTED:
            inst["free"] += 1
        elif found != NONE:
            block_records.release(ws, inst, found)
        freed += found != NONE
        ws.tables[state_slot(lane, state, number, block)] = NONE
    return freed


@leaf
def release_states(ws, lane, inst, state, s, back):
    """Free all states of a request, group by group, or `back` from the last group on."""
    if lane["states"]:
        own = ws.recurrent[s]
        for place in range(lane["states"]):
            number = lane["states"] - 1 - place if back else place
            _release(ws, lane, inst, state, number, np.int64(own["alive"]), np.int64(own["length"]))


@leaf
def leave_states(ws, lane, inst, engine, state, s, tokens):
    """Give back the states before that behind `tokens` processed tokens (rule R12.8)."""
    own = ws.recurrent[s]
    left = min(full_blocks(lane, max(tokens - 1, 0)), np.int64(own["length"]))
    if lane["prefix_caching"] and left > own["alive"]:
        for number in range(lane["states"]):
            freed = _release(ws, lane, inst, state, number, np.int64(own["alive"]), left)
            engine["window_freed"] += freed
        own["alive"] = left
