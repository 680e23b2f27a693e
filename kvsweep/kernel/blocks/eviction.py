"""Which of the cached blocks that nobody uses is evicted first: the policies of eviction.

A policy gives each block a rank: the smallest goes first, of equals the one freed first. So the LRU
list is kept in the order of ranks, and its head is evicted next whatever the policy. Ranks may
change while a block is in use, not while it is free. Under ``lru`` all are equal and freeing makes
the order (`pool.free_blocks`), an extent in one piece if it can; under all others each block has a
record (`LANE.all_split`), and its place is looked for here.
"""

import numpy as np

from ..._jit import leaf
from ...policies import Eviction
from ...records import NONE
from ..memory import in_table
from . import lru


@leaf
def _rank(lane, block):
    """Return the rank of a block record: the smallest is evicted first (rules R3.1, R9.6)."""
    rank = 0
    if lane["eviction"] == Eviction.LFU:
        rank = block["hits"]
    return rank


@leaf
def count_hits(ws, first, end):
    """Count a hit of the blocks of table slots `first` to `end - 1`."""
    for slot in range(first, end):
        ws.blocks[ws.table[in_table(ws, slot)]]["hits"] += 1


@leaf
def _node_before(ws, lane, inst, node, rank):
    """Return the last node of the list whose rank is at most `rank`, or NONE; look near `node`."""
    while node != NONE and _rank(lane, ws.blocks[node]) > rank:
        node = np.int64(ws.lru[node]["prev"])
    after = lru.following(ws, inst, node)
    while after != NONE and _rank(lane, ws.blocks[after]) <= rank:
        node = after
        after = lru.following(ws, inst, node)
    return node


@leaf
def free_ranked(ws, lane, inst, first, end):
    """Take a user from the blocks of table slots `end - 1` down to `first`.

    Each free one joins the list behind those of its rank. Blocks of one sequence mostly have the
    same rank, so the place of the next is where that of the last was.
    """
    node = np.int64(inst["lru_tail"])
    for slot in range(end - 1, first - 1, -1):
        block = np.int64(ws.table[in_table(ws, slot)])
        ws.blocks[block]["ref_count"] -= 1
        if ws.blocks[block]["ref_count"] == 0:
            node = _node_before(ws, lane, inst, node, _rank(lane, ws.blocks[block]))
            after = lru.following(ws, inst, node)
            lru.link(ws, inst, node, block)
            lru.link(ws, inst, block, after)
            node = block
            inst["evictable"] += 1
            inst["free"] += 1
