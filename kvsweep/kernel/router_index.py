"""The router's own index: per instance an LRU of the prompt blocks that were routed there.

It knows nothing of outputs, nor of what an instance evicts. A block that two requests may share is
a node of its own, found by its key. The keys beyond those no other request has (*private tail*,
as in blocks.py), so nobody can ever match them, and each request is recorded once: one node with a
size stands for them all, and is forgotten block by block, which is the same.

Which instances have a key is a row of bits, so that one walk along a prompt serves 64 instances.
A row counts only if the lane at work has written it (`known`); nothing is cleared between lanes.
"""

import numpy as np

from .._jit import leaf
from ..records import NONE

WORD = 64
"""Instances in one word of `holders`."""
ALL = np.int64(-1)
ONE = np.int64(1)


@leaf
def _words(lane):
    """Return the words that a key has in `holders`."""
    return (lane["instances"] + WORD - 1) // WORD


@leaf
def _holders(ws, key, words, word):
    """Return the instances of one word whose index has a key, as bits."""
    if ws.known[key] != ws.router[0]["serial"]:
        return np.int64(0)
    return ws.holders[key * words + word]


@leaf
def _own(ws, key, words):
    """Let the row of a key count in this lane, empty at first."""
    if ws.known[key] != ws.router[0]["serial"]:
        ws.known[key] = ws.router[0]["serial"]
        for word in range(words):
            ws.holders[key * words + word] = 0


@leaf
def _note_matched(ws, lane, word, chosen, blocks):
    """Note that the instances of a word that are `chosen` have matched so many blocks."""
    first = word * WORD
    for index in range(first, min(first + WORD, lane["instances"])):
        if (chosen >> (index - first)) & 1:
            ws.snapshots[index]["matched"] = blocks


@leaf
def match(inp, ws, lane, request):
    """Find how many leading blocks of a prompt the index of each instance has."""
    first = request["key_lo"]
    blocks = min(request["reusable"], request["prompt"] // lane["block_size"])
    words = _words(lane)
    for word in range(words):
        matching = ALL
        block = 0
        while matching != 0 and block < blocks:
            having = _holders(ws, inp.keys[first + block], words, word)
            if matching & ~having:
                _note_matched(ws, lane, word, matching & ~having, block)
            matching &= having
            block += 1
        if matching:
            _note_matched(ws, lane, word, matching, block)


@leaf
def _place(lane, index, node):
    """Return where a node of an instance is in `nodes`."""
    return index * (lane["shared_keys"] + lane["requests"]) + node


@leaf
def _link(ws, lane, index, before, after):
    """Make two nodes of an instance neighbours; NONE stands for the ends of its list."""
    if before == NONE:
        ws.snapshots[index]["oldest"] = after
    else:
        ws.nodes[_place(lane, index, before)]["next"] = after
    if after == NONE:
        ws.snapshots[index]["newest"] = before
    else:
        ws.nodes[_place(lane, index, after)]["prev"] = before


@leaf
def _append(ws, lane, index, node):
    """Put a node at the end of the list: forgotten last."""
    _link(ws, lane, index, ws.snapshots[index]["newest"], node)
    _link(ws, lane, index, node, NONE)


@leaf
def _forget_key(ws, lane, index, key):
    bit = ONE << (index % WORD)
    ws.holders[key * _words(lane) + index // WORD] &= ~bit


@leaf
def _forget(ws, lane, index, count):
    """Forget up to `count` of the oldest blocks of an instance; return how many."""
    node = ws.snapshots[index]["oldest"]
    record = ws.nodes[_place(lane, index, node)]
    if node < lane["shared_keys"]:
        _forget_key(ws, lane, index, node)
        count = 1
    else:
        count = min(count, record["size"])
        record["size"] -= count
    if node < lane["shared_keys"] or record["size"] == 0:
        _link(ws, lane, index, NONE, record["next"])
    ws.snapshots[index]["indexed"] -= count
    return count


@leaf
def _add(ws, lane, index, node, blocks):
    """Append a new node of so many blocks, and forget the oldest beyond the capacity."""
    _append(ws, lane, index, node)
    ws.snapshots[index]["indexed"] += blocks
    excess = ws.snapshots[index]["indexed"] - lane["index_blocks"]
    while excess > 0:
        excess -= _forget(ws, lane, index, excess)


@leaf
def _record_block(ws, lane, index, key):
    """Make a block that others may share the latest of an instance."""
    words = _words(lane)
    word = index // WORD
    bit = ONE << (index % WORD)
    _own(ws, key, words)
    if ws.holders[key * words + word] & bit:
        record = ws.nodes[_place(lane, index, key)]
        _link(ws, lane, index, record["prev"], record["next"])
        _append(ws, lane, index, key)
    else:
        ws.holders[key * words + word] |= bit
        _add(ws, lane, index, key, 1)


@leaf
def record(inp, ws, lane, r, index):
    """Make the full blocks of a prompt the latest of an instance, the first of them the oldest."""
    request = inp.requests[lane["request_lo"] + r]
    first = request["key_lo"]
    blocks = request["prompt"] // lane["block_size"]
    shared = min(request["reusable"], blocks)
    for slot in range(first, first + shared):
        _record_block(ws, lane, index, np.int64(inp.keys[slot]))
    if blocks > shared:
        tail = lane["shared_keys"] + r
        ws.nodes[_place(lane, index, tail)]["size"] = blocks - shared
        _add(ws, lane, index, tail, blocks - shared)
