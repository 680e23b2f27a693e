"""The LRU list of an instance: free blocks that carry a key, and private tails as one node each.

Its head is evicted next. Nodes are positions in the block records; tails come after the blocks.
"""

from .._jit import leaf
from ..records import NONE


@leaf
def append(ws, inst, node):
    """Put a block or private tail at the tail of the LRU list: evicted last."""
    tail = inst["lru_tail"]
    ws.blocks[node]["lru_prev"] = tail
    ws.blocks[node]["lru_next"] = NONE
    if tail == NONE:
        inst["lru_head"] = node
    else:
        ws.blocks[tail]["lru_next"] = node
    inst["lru_tail"] = node


@leaf
def link(ws, inst, before, after):
    """Make two nodes of the LRU list neighbours; NONE stands for its ends."""
    if before == NONE:
        inst["lru_head"] = after
    else:
        ws.blocks[before]["lru_next"] = after
    if after == NONE:
        inst["lru_tail"] = before
    else:
        ws.blocks[after]["lru_prev"] = before


@leaf
def unlink(ws, inst, node):
    """Take a block or private tail out of the LRU list, wherever it is."""
    link(ws, inst, ws.blocks[node]["lru_prev"], ws.blocks[node]["lru_next"])
