"""The router's own index: per instance an LRU of the prompt blocks that were routed there.

It knows nothing of outputs, nor of what an instance evicts. A block that two requests may share is
a node of its own, found by its key. The keys beyond those no other request has (*private tail*,
as in blocks.py), so nobody can ever match them, and each request is recorded once: one node with a
size stands for them all.

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
def match(inp, ws, lane, request, blocks):
    """Find how many of the `blocks` full blocks of a prompt the index of each instance has."""
    first = request["key_lo"]
    shared = min(request["reusable"], blocks)
    words = _words(lane)
    for word in range(words):
        matching = ALL
        block = 0
        while matching != 0 and block < shared:
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
def _move_last(ws, lane, index, first, last):
    """Move the neighbours `first` to `last` to the end of the list: forgotten last."""
    before = ws.nodes[_place(lane, index, first)]["prev"]
    _link(ws, lane, index, before, ws.nodes[_place(lane, index, last)]["next"])
    _link(ws, lane, index, ws.snapshots[index]["newest"], first)
    _link(ws, lane, index, last, NONE)


@leaf
def _forget_key(ws, lane, index, key):
    bit = ONE << (index % WORD)
    ws.holders[key * _words(lane) + index // WORD] &= ~bit


@leaf
def _forget(ws, lane, index):
    """Forget the oldest node of an instance.

    A tail goes as a whole: it stays the oldest until its last block is forgotten, so the blocks
    that might stay a little longer cannot be told from free room.
    """
    node = ws.snapshots[index]["oldest"]
    record = ws.nodes[_place(lane, index, node)]
    if node < lane["shared_keys"]:
        _forget_key(ws, lane, index, node)
    _link(ws, lane, index, NONE, record["next"])
    ws.snapshots[index]["indexed"] -= record["size"]


@leaf
def _add(ws, lane, index, node, blocks):
    """Append a new node of so many blocks, and forget the oldest beyond the capacity."""
    ws.nodes[_place(lane, index, node)]["size"] = blocks
    _link(ws, lane, index, ws.snapshots[index]["newest"], node)
    _link(ws, lane, index, node, NONE)
    ws.snapshots[index]["indexed"] += blocks
    while ws.snapshots[index]["indexed"] > lane["index_blocks"]:
        _forget(ws, lane, index)


@leaf
def _add_key(ws, lane, index, key):
    """Remember a block that others may share; return False if it is remembered already."""
    words = _words(lane)
    slot = key * words + index // WORD
    bit = ONE << (index % WORD)
    _own(ws, key, words)
    new = ws.holders[slot] & bit == 0
    if new:
        ws.holders[slot] |= bit
        _add(ws, lane, index, key, 1)
    return new


@leaf
def _record_shared(inp, ws, lane, index, slot, end):
    """Make the blocks of key slots `slot` to `end - 1` the latest of an instance, in this order.

    Blocks recorded together stand together, so they are moved together, at the price of one.
    """
    while slot < end:
        key = np.int64(inp.keys[slot])
        slot += 1
        if not _add_key(ws, lane, index, key):
            last = key
            while slot < end and ws.nodes[_place(lane, index, last)]["next"] == inp.keys[slot]:
                last = np.int64(inp.keys[slot])
                slot += 1
            _move_last(ws, lane, index, key, last)


@leaf
def record(inp, ws, lane, r, index, blocks):
    """Make the `blocks` full blocks of a prompt the latest of an instance, the first the oldest."""
    request = inp.requests[lane["request_lo"] + r]
    shared = min(request["reusable"], blocks)
    _record_shared(inp, ws, lane, index, request["key_lo"], request["key_lo"] + shared)
    if blocks > shared:
        _add(ws, lane, index, lane["shared_keys"] + r, blocks - shared)
