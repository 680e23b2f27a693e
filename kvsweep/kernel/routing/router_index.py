"""The router's own index: per instance an LRU of the prompt blocks that were routed there.

It knows nothing of outputs, nor of what an instance evicts. Blocks are remembered by *prompt
extents*, stretches that every prompt has all or nothing of: so the blocks of one stand together in
the list, in the order of the prompt, and the first are forgotten first. A node stands for those
that are left; it is the oldest if some are missing. As a prompt matches from its beginning, of an
extent all or nothing is found.

Which instances have all of an extent is a row of bits, so that one walk along a prompt serves 64
instances. A row counts only if the lane at work has written it (`known`); nothing is cleared.
(Conversations on four instances: 0.4 us a request; 1.8 us with a node for each block.)
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..memory import WORD, count_places, count_words, extent_of_node, is_shared_node, node_at

ALL = np.int64(-1)
ONE = np.int64(1)
NOBODY = np.int64(0)


@leaf
def last_extent(inp, request, blocks):
    """Return the prompt extent with the last of the `blocks` full blocks of a prompt, or NONE."""
    extent = NONE
    slot = request["prompt_lo"]
    end = 0
    while end < blocks:
        extent = np.int64(inp.prompts[slot]["extent"])
        end = inp.prompts[slot]["end"]
        slot += 1
    return extent


@leaf
def begin_places(ws, lane, extent):
    """Return where the places of a shared extent begin; this lane has written them from now on."""
    first = extent * count_places(lane)
    if ws.known[extent] != ws.router[0]["serial"]:
        ws.known[extent] = ws.router[0]["serial"]
        for place in range(first, first + count_places(lane)):
            ws.holders[place] = 0
    return first


@leaf
def _holders(ws, lane, extent, word):
    """Return the instances of one word whose index has all of an extent, as bits."""
    holders = NOBODY
    if extent < lane["prompt_shared"] and ws.known[extent] == ws.router[0]["serial"]:
        holders = ws.holders[extent * count_places(lane) + word]
    return holders


@leaf
def _set_holder(ws, lane, index, extent, holds):
    """Note whether the index of an instance has all of a shared extent."""
    slot = begin_places(ws, lane, extent) + index // WORD
    bit = ONE << (index % WORD)
    ws.holders[slot] &= ~bit
    if holds:
        ws.holders[slot] |= bit


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
    words = count_words(lane)
    for word in range(words):
        matching = ALL
        slot = request["prompt_lo"]
        matched = np.int64(0)
        while matching != 0 and matched < blocks:
            link = inp.prompts[slot]
            having = _holders(ws, lane, link["extent"], word)
            if matching & ~having:
                _note_matched(ws, lane, word, matching & ~having, matched)
            matching &= having
            matched = np.int64(link["end"])
            slot += 1
        if matching:
            _note_matched(ws, lane, word, matching, matched)


@leaf
def _link(ws, index, before, after):
    """Make two nodes of an instance neighbours; NONE stands for the ends of its list."""
    if before == NONE:
        ws.snapshots[index]["oldest"] = after
    else:
        ws.nodes[before]["next"] = after
    if after == NONE:
        ws.snapshots[index]["newest"] = before
    else:
        ws.nodes[after]["prev"] = before


@leaf
def _unlink(ws, index, node):
    _link(ws, index, np.int64(ws.nodes[node]["prev"]), np.int64(ws.nodes[node]["next"]))


@leaf
def _append(ws, index, node):
    """Put a node at the end of the list: forgotten last."""
    _link(ws, index, ws.snapshots[index]["newest"], node)
    _link(ws, index, node, NONE)


@leaf
def _forget_excess(ws, lane, index):
    """Forget the oldest blocks of an instance beyond the capacity."""
    while ws.snapshots[index]["indexed"] > lane["index_blocks"]:
        node = ws.snapshots[index]["oldest"]
        size = ws.nodes[node]["size"]
        count = min(ws.snapshots[index]["indexed"] - lane["index_blocks"], size)
        ws.nodes[node]["size"] = size - count
        ws.snapshots[index]["indexed"] -= count
        if is_shared_node(lane, node):
            _set_holder(ws, lane, index, extent_of_node(lane, index, node), False)
        if count == size:
            _unlink(ws, index, node)


@leaf
def _record_extent(ws, lane, index, extent, size):
    """Make the `size` blocks of a prompt extent the latest of an instance.

    If only some of them are left they are the oldest, and the first ones, which are new, push out
    the others; so all are new.
    """
    node = node_at(lane, index, extent)
    bit = ONE << (index % WORD)
    if _holders(ws, lane, extent, index // WORD) & bit:
        _unlink(ws, index, node)
        _append(ws, index, node)
        return
    if ws.snapshots[index]["oldest"] == node:
        ws.snapshots[index]["indexed"] -= ws.nodes[node]["size"]
        _unlink(ws, index, node)
    ws.nodes[node]["size"] = size
    _append(ws, index, node)
    ws.snapshots[index]["indexed"] += size
    if is_shared_node(lane, node):
        _set_holder(ws, lane, index, extent, True)
    _forget_excess(ws, lane, index)


@leaf
def record(inp, ws, lane, index, request, blocks):
    """Make the `blocks` full blocks of a prompt the latest of an instance, the first the oldest."""
    slot = request["prompt_lo"]
    end = np.int64(0)
    while end < blocks:
        link = inp.prompts[slot]
        _record_extent(ws, lane, index, np.int64(link["extent"]), link["end"] - end)
        end = np.int64(link["end"])
        slot += 1
