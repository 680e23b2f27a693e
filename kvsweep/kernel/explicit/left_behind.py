"""Blocks that windows leave one by one while requests only decode: noted in order of leaving.

Those that become free one after the other are one record of the LRU list, a stretch of notes and of
no request (`block_records.release_stretch`), the first one evicted first. Nobody else has their
keys, but a victim may hit its own again: a note tells its record, and of which slot it is.

Notes go round in a circle, and there are as many as blocks: while one is in use no block is left
twice. It would have to be taken in between, and what is younger is evicted later; who hits it again
was a victim, and is not noted any more.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import lru
from ..blocks.prefix_table import new_id
from .block_records import STRETCH, give_key, release_stretch

FIRST = np.int64(-2)
"""A slot of a table has this less the place of the note of its block."""


@leaf
def _open(ws, lane, inst, engine):
    """Return the place of the next note, and the last record of the LRU list, which ends there."""
    place = engine["left"]
    if place == lane["gpu_blocks"]:
        place = np.int64(0)
    last = np.int64(inst["lru_tail"])
    grows = False
    if last != NONE:
        record = ws.blocks[last]
        grows = record["key"] == STRETCH and record["extent"] == NONE
        grows = grows and record["duplicate_next"] == place
    if not grows:
        last = release_stretch(ws, inst, NONE, 0, place, place)
    return place, last


@leaf
def _close(ws, inst, engine, last, end, count):
    """Let the last record of the LRU list have `count` more notes, up to `end`."""
    ws.blocks[last]["duplicate_next"] = end
    inst["free"] += count
    inst["evictable"] += count
    inst["keyed"] += count
    engine["left"] = end
    engine["window_freed"] += count


@leaf
def leave_own(ws, lane, inst, engine, table, alone):
    """Give back the next block of a table, whose key nobody else has, as the window has left it.

    So of those behind it in its list that are due, unless it goes `alone`, until one may have a key
    that others have too. Return the next table.
    """
    place, last = _open(ws, lane, inst, engine)
    first = place
    step = inst["step"]
    goes_on = True
    while goes_on:
        edge = ws.edges[table]
        if edge["step"] <= step < edge["until"]:
            slot = edge["slot"]
            note = ws.left[inst["block_lo"] + place]
            note["record"] = last
            note["slot"] = slot
            ws.tables[slot] = FIRST - place
            place += 1
            edge["slot"] = slot + 1
            edge["gone"] += 1
            edge["step"] += lane["block_size"]
        table = np.int64(edge["next"])
        goes_on = table != NONE and not alone and place < lane["gpu_blocks"]
        goes_on = goes_on and ws.edges[table]["own"]
    _close(ws, inst, engine, last, place, place - first)
    return table


@leaf
def _find(ws, inst, slot, place):
    """Return the record of the block that was noted for a slot, NONE if it was evicted."""
    note = ws.left[inst["block_lo"] + place]
    record = ws.blocks[note["record"]]
    here = note["slot"] == slot and record["key"] == STRETCH and record["extent"] == NONE
    here = here and record["duplicate_prev"] <= place < record["duplicate_next"]
    return np.int64(note["record"]) if here else np.int64(NONE)


@leaf
def _cut_behind(ws, inst, found, place):
    """Give what a record has behind a note a record of its own, at its place in the order."""
    upper = np.int64(new_id(ws, inst))
    record = ws.blocks[upper]
    record["key"] = STRETCH
    record["extent"] = NONE
    record["hits"] = 0
    record["duplicate_prev"] = place + 1
    record["duplicate_next"] = ws.blocks[found]["duplicate_next"]
    ws.blocks[found]["duplicate_next"] = place + 1
    for other in range(place + 1, record["duplicate_next"]):
        ws.left[inst["block_lo"] + other]["record"] = upper
    lru.link(ws, inst, upper, ws.lru[found]["next"])
    lru.link(ws, inst, found, upper)


@leaf
def split_left(ws, inst, slot, place, key):
    """Give the block that was noted for a slot a record with `key`; return it, NONE if evicted."""
    found = _find(ws, inst, slot, place)
    if found == NONE:
        return found
    if place + 1 < ws.blocks[found]["duplicate_next"]:
        _cut_behind(ws, inst, found, place)
    block = found
    if ws.blocks[found]["duplicate_prev"] < place:
        block = np.int64(new_id(ws, inst))
        ws.blocks[found]["duplicate_next"] = place
        lru.link(ws, inst, block, ws.lru[found]["next"])
        lru.link(ws, inst, found, block)
    give_key(ws, inst, block, key)
    return block
