"""What an instance has room for: of a request at a time, and of one that it ever serves."""

import numpy as np

from ..._jit import leaf
from ...records import DECODE
from ..blocks.sizes import blocks_for
from ..memory import depth
from .longest import longest_of, to_verify, with_places
from .slots import groups_of, window_of
from .states import most_states, states_needed
from .tables import left_by


@leaf
def capped(inp, lane, group, blocks):
    """Return how many of `blocks` blocks a group has at a time, with windows released."""
    window = window_of(inp, lane, group)
    if window > 0:
        most = window - 1 + lane["max_tokens"] * depth(lane)
        blocks = min(blocks, blocks_for(lane, most) + 1)
    return blocks


@leaf
def lacking(inp, lane, tokens, had):
    """Return how many blocks the groups lack to have `tokens`; the table of each has `had`."""
    blocks = blocks_for(lane, tokens)
    lacks = np.int64(0)
    for group in range(groups_of(lane)):
        lacks += max(capped(inp, lane, group, blocks) - had, 0)
    return lacks


@leaf
def never_holds(inp, lane, most):
    """Return whether an instance has no room for `most` tokens of a request, or no step (R1.3).

    It computes so many, and samples one more.
    """
    tokens = most
    if lane["drafts"] > 0:
        tokens = min(most + 2 * lane["drafts"], longest_of(lane))
    total = lacking(inp, lane, tokens, np.int64(0))
    total += most_states(lane, blocks_for(lane, tokens))
    too_long = most + 1 > lane["max_tokens"] and not lane["chunked_prefill"]
    too_long = too_long or most + 1 > lane["longest"]
    return total > lane["gpu_blocks"] or too_long


@leaf
def pulled_blocks(inp, lane, prompt, hits):
    """Return how many blocks are pulled of a prompt of which all groups have `hits` blocks."""
    blocks = blocks_for(lane, prompt)
    count = (blocks - hits) * groups_of(lane)
    if lane["windows"]:
        count = np.int64(0)
        for group in range(groups_of(lane)):
            count += blocks - max(left_by(lane, window_of(inp, lane, group), prompt), hits)
    return count


@leaf
def handed_tokens(lane, prompt):
    """Return how many tokens of a prompt a prefill instance computes for another (R14.13).

    With states not the last one: that is computed where it is decoded, from the state before it.
    """
    return max(np.int64(prompt) - (lane["states"] > 0), np.int64(1))


@leaf
def can_never_fit(inp, lane, request):
    """Return whether a request needs more blocks, or a larger step, than an instance has (R1.3).

    With drafts a decode instance needs more to pull than it takes (R14.11).
    """
    to_pull = np.int64(0)
    if lane["role"] == DECODE:
        to_pull = pulled_blocks(inp, lane, handed_tokens(lane, request["prompt"]), np.int64(0))
        to_pull += lane["states"] * (1 + lane["drafts"])
        to_pull += blocks_for(lane, to_verify(lane)) * groups_of(lane)
    never = never_holds(inp, lane, request["prompt"] + request["output"] - 1)
    return never or to_pull > lane["gpu_blocks"]


@leaf
def room_for(inp, ws, lane, inst, state, s, start, end, had, unused):
    """Return the blocks that are left of the free ones by an admission, negative if it must wait.

    Of `start` tokens on it computes up to `end`; its tables have `had` blocks each, of which
    nobody uses `unused`. With the reservation there must be room for all that it knows too.
    """
    room = inst["free"] - unused
    if inst["running"] > 0:
        room -= lane["watermark"]
    need = max(blocks_for(lane, with_places(lane, end)) - had, 0) * groups_of(lane)
    reserved = np.int64(0)
    if lane["reserve_full_prompt"]:
        reserved = lacking(inp, lane, np.int64(state["known"]), had)
        if lane["states"]:
            reserved += states_needed(ws, lane, state, s, start, np.int64(state["known"]), had)
    if lane["states"]:  # after the reservation: it notes what the chunk keeps
        need += states_needed(ws, lane, state, s, start, end, had)
    return room - max(need, reserved)
