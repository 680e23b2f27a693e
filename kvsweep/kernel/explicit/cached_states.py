"""Which recurrent states are cached, and by which key (rules R12.8 to R12.10).

By that of the block at whose end the state is. Nearly always it is that of its slot; but where hits
do without their last block (R13.8), a chunk that ends within a block keeps the state one block
earlier than its slot says.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.sizes import full_blocks
from ..moving.state_blocks import cache_state
from . import block_records
from .kept import is_kept
from .slots import COUNTED, groups_of, key_of
from .states import last_state, state_slot


@leaf
def _is_begun_with(lane, state, end):
    """Return whether others can begin with the state that a chunk keeps from within, behind `end`.

    That is at the end of the prompt, at the junction, or at an interval.
    """
    begun = lane["sparse"] == 0 or end == state["junction"]
    if lane["kept_every"] > 0:
        begun = begun or full_blocks(lane, end) % lane["kept_every"] == 0
    return begun or end == last_state(lane, np.int64(state["prompt"]))


@leaf
def _cache_one(inp, ws, lane, inst, request, state, s, number, block, stands):
    """Cache the state in a slot, by the key of the block at whose end it is."""
    slot = state_slot(lane, state, number, block)
    found = np.int64(ws.tables[slot])
    key = key_of(inp, lane, request, groups_of(lane) + number, stands)
    if lane["moves"]:
        cache_state(ws, lane, inst, state, s, number, stands, found, key)
    elif found == COUNTED:
        ws.tables[slot] = block_records.cache(ws, inst, key)


@leaf
def _cache(inp, ws, lane, inst, request, state, s, number, block):
    """Cache the state in a slot, if it stays cached.

    What a chunk keeps from within has the key of its slot before it is asked who begins with it:
    vLLM counts an eviction then.
    """
    own = ws.recurrent[s]
    stays = is_kept(lane, state, 1, block)
    stands = block
    if lane["drops_last"] and own["keeps"] and block == own["inside"]:
        begun = _is_begun_with(lane, state, own["inside_end"])
        inst["evictions"] += stays and not begun
        stays = begun
        stands = full_blocks(lane, own["inside_end"]) - 1
        if begun and stands < block:
            own["early"] = block
    if stays:
        _cache_one(inp, ws, lane, inst, request, state, s, number, block, stands)


@leaf
def publish_states(inp, ws, lane, inst, request, state, s, end):
    """Cache the states in slots before `end` that are not cached yet, and that stay cached."""
    if lane["states"]:
        own = ws.recurrent[s]
        turn = ws.engines[inst["number"]]["turn"]
        if own["fresh_at"] != turn:
            own["fresh"] = state["published"]
            own["fresh_at"] = turn
            own["early"] = NONE
        for number in range(lane["states"]):
            for block in range(max(np.int64(state["published"]), own["alive"]), end):
                if ws.tables[state_slot(lane, state, number, block)] != NONE:
                    _cache(inp, ws, lane, inst, request, state, s, number, block)
