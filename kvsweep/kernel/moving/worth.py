"""Which chunks a request has to store: what a hit may need, and what is still there to be read."""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.sizes import full_blocks
from ..explicit.kept import tail_of
from ..explicit.slots import FAR, slot_of, window_of
from .search import chunks_known, has_head


@leaf
def _next_end(lane, offers):
    """Return the tokens that fill the first chunk which a request has not offered yet."""
    return (np.int64(offers["next"]) + 1) * lane["chunk_tokens"]


@leaf
def lacks_to_offer(lane, state, offers):
    """Return how many tokens a decoding request lacks to have a chunk to store; FAR: none comes.

    As `chunks_to_offer` has it, without drafts.
    """
    end = _next_end(lane, offers)
    if lane["prompt_only"] and end > state["prompt"]:
        return FAR
    return max(end - state["known"], np.int64(0))


@leaf
def chunks_to_offer(lane, state, offers, tokens):
    """Return the chunks of the first `tokens` of a request that may be stored by now.

    Most decodes have none beyond what was offered: that is told without a division.

    Returns
    -------
    end, end_head : int
        Of a group; of that with the layers of an EAGLE head, which may still write to the last one.
    """
    tokens = min(tokens, np.int64(state["known"]))
    if lane["prompt_only"]:
        tokens = min(tokens, np.int64(state["prompt"]))
    if tokens < _next_end(lane, offers) and offers["next_head"] == offers["next"]:
        return np.int64(offers["next"]), np.int64(offers["next"])
    chunks = full_blocks(lane, tokens) // lane["factor"]
    most = min(offers["told"] // lane["factor"], chunks_known(lane, state))
    stable = chunks
    if lane["volatile"] and tokens > state["prompt"] and not state["done"]:
        stable -= 1
    end = max(np.int64(offers["next"]), min(chunks, most))
    return end, max(np.int64(offers["next_head"]), min(stable, most))


@leaf
def is_new(inp, lane, offers, group, chunk, end_head):
    """Return whether a chunk of a group is among those that it has not offered yet."""
    new = chunk >= offers["next"]
    if has_head(inp, lane, group):
        new = offers["next_head"] <= chunk < end_head
    return new


@leaf
def is_there(ws, window, slot):
    """Return whether the block of a slot is still what its request has filled.

    A window may have left it; once it has been taken or hit since, vLLM takes it for another's.
    """
    block = np.int64(ws.tables[slot])
    return block != NONE and (window == 0 or ws.pins[block]["touched"] <= ws.slots[slot]["since"])


@leaf
def _ends_in(lane, tokens, tail, block):
    """Return whether a hit needs a block that ends with the last chunk of so many tokens."""
    end = full_blocks(lane, tokens) // lane["factor"] * lane["factor"]
    return end - tail <= block < end


@leaf
def _may_need(lane, state, window, block):
    """Return whether a hit needs a block that ends at a chunk; or, if told, at some of them."""
    if window == 0:
        return True
    tail = tail_of(lane, window)
    every = np.int64(lane["factor"])
    needed = False
    if lane["stores_some"]:
        every = np.int64(lane["stored_every"])
        needed = _ends_in(lane, np.int64(state["prompt"]) - 1, tail, block)
        needed = needed or _ends_in(lane, np.int64(state["junction"]), tail, block)
    if every > 0:
        needed = needed or tail >= every or block % every >= every - tail
    return needed


@leaf
def is_of_use(inp, ws, lane, state, group, chunk):
    """Return whether a hit may need a chunk, and all of its blocks that it may need are there."""
    window = window_of(inp, lane, group)
    any_needed = False
    whole = True
    there = False
    for block in range(chunk * lane["factor"], (chunk + 1) * lane["factor"]):
        there = is_there(ws, window, slot_of(state, group, block))
        if _may_need(lane, state, window, block):
            any_needed = True
            whole = whole and there
    return there and any_needed and whole
