"""The blocks of an instance, each with an identity, and what a request's tables take and give back.

Free blocks without a key are a stack, those never taken below it; free ones with a key are the LRU
list. A slot that a window has left still names its block: a store may read it.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import lru
from ..blocks.prefix_table import add_key, forget, new_id
from ..explicit.kept import is_kept, tail_of
from ..explicit.slots import all_groups, group_at, groups_of, key_of, slot_of, window_of


@leaf
def take_one(ws, lane, inst):
    """Return a free block: one without a key, or else the next to evict."""
    if inst["spare"] == NONE and inst["fresh"] == lane["gpu_blocks"]:
        head = np.int64(inst["lru_head"])
        lru.unlink(ws, inst, head)
        forget(ws, inst, head)
        inst["evictable"] -= 1
        inst["evictions"] += 1
    block = np.int64(new_id(ws, inst))
    ws.blocks[block]["ref_count"] = 1
    ws.blocks[block]["hits"] = 0
    inst["free"] -= 1
    return block


@leaf
def take(ws, lane, inst, state, s, blocks):
    """Let the tables of a request have so many blocks, group by group; they must be free."""
    had = np.int64(state["blocks"])
    for group in range(groups_of(lane)):
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        for block in range(had, blocks):
            slot = slot_of(state, group, block)
            ws.tables[slot] = take_one(ws, lane, inst) if block >= gone else NONE


@leaf
def _release_without_key(ws, inst, state, group, first, end):
    """Drop a request's references to blocks; who is free without a key is taken next."""
    for block in range(first, end):
        found = np.int64(ws.tables[slot_of(state, group, block)])
        if found == NONE:  # the slot of a state, which is empty
            continue
        record = ws.blocks[found]
        record["ref_count"] -= 1
        if record["ref_count"] == 0 and record["key"] == NONE:
            ws.lru[found]["next"] = inst["spare"]
            inst["spare"] = found
            inst["free"] += 1


@leaf
def _release_with_key(ws, inst, state, group, first, end):
    """Let those of the blocks that are free with a key be evicted last, the first one behind."""
    for block in range(end - 1, first - 1, -1):
        found = np.int64(ws.tables[slot_of(state, group, block)])
        if found == NONE:
            continue
        record = ws.blocks[found]
        if record["ref_count"] == 0 and record["key"] != NONE:
            lru.append(ws, inst, found)
            inst["free"] += 1
            inst["evictable"] += 1


@leaf
def release(ws, inst, state, group, first, end):
    """Free blocks `first` to ``end - 1`` of a table, the last one first."""
    _release_without_key(ws, inst, state, group, first, end)
    _release_with_key(ws, inst, state, group, first, end)


@leaf
def _held(ws, lane, state, s, group):
    """Return the first block that a request has in a group, and the end of its table."""
    if group >= groups_of(lane):
        return np.int64(ws.recurrent[s]["alive"]), np.int64(ws.recurrent[s]["length"])
    return np.int64(ws.edges[s * groups_of(lane) + group]["gone"]), np.int64(state["blocks"])


@leaf
def release_at_once(ws, lane, inst, state, s):
    """Free the blocks of a request as one, the last group first: those that vLLM has deferred."""
    for place in range(all_groups(lane)):
        group = group_at(lane, place)
        first, end = _held(ws, lane, state, s, group)
        _release_without_key(ws, inst, state, group, first, end)
    for place in range(all_groups(lane) - 1, -1, -1):
        group = group_at(lane, place)
        first, end = _held(ws, lane, state, s, group)
        _release_with_key(ws, inst, state, group, first, end)


@leaf
def cache(inp, ws, lane, inst, request, state, s, full):
    """Let the blocks before `full` be found that are not yet, as far as they are kept."""
    for group in range(groups_of(lane)):
        window = window_of(inp, lane, group)
        gone = np.int64(ws.edges[s * groups_of(lane) + group]["gone"])
        for block in range(max(np.int64(state["published"]), gone), full):
            if window == 0 or is_kept(lane, state, tail_of(lane, window), block):
                key = key_of(inp, lane, request, group, block)
                add_key(ws, inst, np.int64(ws.tables[slot_of(state, group, block)]), key)


@leaf
def forget_gone(ws, lane, state, s):
    """Let the slots name no block that the windows of an admitted request have left."""
    for group in range(groups_of(lane)):
        for block in range(np.int64(ws.edges[s * groups_of(lane) + group]["gone"])):
            ws.tables[slot_of(state, group, block)] = NONE
