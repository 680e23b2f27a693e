"""The records of a CPU tier with adaptive replacement: rings of chunks, found by their keys.

A chunk is `LANE.factor` blocks of the GPU, with the key of the last of them. ``ONCE`` and ``AGAIN``
are the lists of adaptive replacement, oldest first; the other two hold the ghosts of what was
evicted from them. The first four records of an instance are the rings' ends. Nothing is cleared
between lanes: a slot of the table counts only if the record that it names is in use and carries
the key.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks.ring import close_ring, link_before

ONCE, AGAIN, ONCE_GHOSTS, AGAIN_GHOSTS = 0, 1, 2, 3
RINGS = 4
SEEN, INSERTED, REUSED, MISSED = 1, 2, 4, 8
"""What a request has done with its chunk j: flags of `Workspace.seen`, in the slot of block j."""


@leaf
def begin_chunks(ws, off):
    """Empty the tier of an instance."""
    for end in range(off["chunk_lo"], off["chunk_lo"] + RINGS):
        close_ring(ws.chunks, end)
        ws.chunks[end]["key"] = NONE


@leaf
def link_last(ws, off, ring, node):
    """Make a record the youngest of a ring."""
    ws.chunks[node]["ring"] = ring
    link_before(ws.chunks, node, off["chunk_lo"] + ring)


@leaf
def find_record(ws, inst, off, key):
    """Return the record, of a chunk or a ghost, that carries `key`, or NONE."""
    node = np.int64(ws.tier_table[inst["prefix_lo"] + key])
    lo = off["chunk_lo"] + RINGS
    if node < lo or node >= lo + off["chunk_fresh"] or ws.chunks[node]["key"] != key:
        node = NONE
    return node


@leaf
def find_chunk(ws, inst, off, key):
    """Return the record of the chunk with `key` if it is on the CPU, or NONE."""
    node = find_record(ws, inst, off, key)
    if node != NONE and ws.chunks[node]["ring"] > AGAIN:
        node = NONE
    return node


@leaf
def follow(ws, inst, off, node, key):
    """Return the record of the chunk with `key`, or NONE; mostly it stands before `node`.

    `node` is that of the chunk before it in a request, or NONE; who finished renewed both.
    """
    if node != NONE and ws.chunks[ws.chunks[node]["prev"]]["key"] == key:
        node = np.int64(ws.chunks[node]["prev"])
    else:
        node = find_chunk(ws, inst, off, key)
    return node


@leaf
def new_record(ws, inst, off, key):
    """Return a record that carries `key` from now on; it is in no ring."""
    node = off["chunk_spare"]
    if node == NONE:
        node = off["chunk_lo"] + RINGS + off["chunk_fresh"]
        off["chunk_fresh"] += 1
    else:
        off["chunk_spare"] = ws.chunks[node]["next"]
    ws.chunks[node]["key"] = key
    ws.chunks[node]["offer"] = 0  # it may hold an earlier lane's
    ws.tier_table[inst["prefix_lo"] + key] = node
    return node


@leaf
def drop_record(ws, off, node):
    """Forget a record that is in no ring."""
    ws.chunks[node]["key"] = NONE
    ws.chunks[node]["next"] = off["chunk_spare"]
    off["chunk_spare"] = node


@leaf
def chunk_key(inp, lane, request, chunk):
    """Return the key of a chunk of a request: that of its last block."""
    return inp.keys[request["key_lo"] + (chunk + 1) * lane["factor"] - 1]


@leaf
def is_victim(ws, off, node):
    """Return whether a chunk may make room: nobody reads or writes it, and it is not on offer."""
    chunk = ws.chunks[node]
    return chunk["readers"] == 0 and chunk["offer"] != off["offers"]
