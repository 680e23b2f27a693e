"""The LRU list of an instance: free blocks that carry a key, a whole extent of them as one node.

Its head is evicted next. Nodes are the blocks, then the extents (`INSTANCE.node_lo`). Under another
policy than ``lru`` it is in the order of that (eviction.py).
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE


@leaf
def link(ws, inst, before, after):
    """Make two nodes of the LRU list neighbours; NONE stands for its ends."""
    if before == NONE:
        inst["lru_head"] = after
    else:
        ws.lru[before]["next"] = after
    if after == NONE:
        inst["lru_tail"] = before
    else:
        ws.lru[after]["prev"] = before


@leaf
def following(ws, inst, node):
    """Return the node behind `node`, the head of the list behind NONE; or NONE."""
    after = np.int64(inst["lru_head"])
    if node != NONE:
        after = np.int64(ws.lru[node]["next"])
    return after


@leaf
def append(ws, inst, node):
    """Put a node at the tail of the LRU list: evicted last."""
    link(ws, inst, inst["lru_tail"], node)
    link(ws, inst, node, NONE)


@leaf
def unlink(ws, inst, node):
    """Take a node out of the LRU list, wherever it is."""
    link(ws, inst, ws.lru[node]["prev"], ws.lru[node]["next"])
