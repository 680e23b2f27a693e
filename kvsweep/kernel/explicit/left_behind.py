"""Blocks that windows leave while requests only decode: one note for all of a step and a phase.

They become free one after the other, in the order of their list (leavers.py), and nobody else has
their keys. So a note tells how many, and their *places* are numbers in order of leaving. Free ones
with places that follow one another are one record of the LRU list, a stretch of places and of no
request (`block_records.release_stretch`), the first one evicted first.

A victim may hit its own again: `cut_out` makes a block a stretch of its request, and cuts note and
record in *pieces*. Places go round in a circle of twice as many as blocks. Those in use are the
last ones, as older ones were evicted before, no more than there are blocks; and a note does not go
on at the other end, which may leave as many empty.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE
from ..blocks import lru
from ..blocks.prefix_table import new_id
from .block_records import STRETCH, release_stretch


@leaf
def _circle(lane):
    """Return how many places the circle has."""
    return 2 * lane["gpu_blocks"]


@leaf
def _note_at(ws, inst, at):
    """Return the note at a place of the circle."""
    return ws.left[2 * inst["block_lo"] + at]


@leaf
def _in_circle(lane, engine, place):
    """Return where in the circle a place is."""
    at = engine["left_at"] - (engine["left"] - place)
    return at if at >= 0 else at + _circle(lane)


@leaf
def is_noted(lane, engine, place):
    """Return whether the note at a place, or at NONE, is not overwritten."""
    return place != NONE and place >= engine["left"] - _circle(lane)


@leaf
def note_of(ws, lane, inst, engine, place):
    """Return the note at a place, which is not overwritten."""
    return _note_at(ws, inst, _in_circle(lane, engine, place))


@leaf
def _free(ws, inst, at, count):
    """Free so many blocks that have their places from `at` on; return their record."""
    last = np.int64(inst["lru_tail"])
    grows = False
    if last != NONE:
        record = ws.blocks[last]
        grows = record["key"] == STRETCH and record["extent"] == NONE
        grows = grows and record["duplicate_next"] == at
    if grows:
        ws.blocks[last]["duplicate_next"] = at + count
        inst["free"] += count
        inst["evictable"] += count
        inst["keyed"] += count
    else:
        last = release_stretch(ws, inst, NONE, 0, at, at + count)
    return last


@leaf
def leave_some(ws, lane, inst, engine, leavers, count, first):
    """Give back the next block of `count` tables of a list, the first of which has number `first`.

    Or a smaller number, if nobody is between.
    """
    engine["window_freed"] += count
    if not lane["prefix_caching"]:
        inst["free"] += count
        return
    if engine["left_at"] + count > _circle(lane):
        engine["left"] += _circle(lane) - engine["left_at"]
        engine["left_at"] = 0
    at = engine["left_at"]
    note = _note_at(ws, inst, at)
    note["record"] = _free(ws, inst, at, count)
    note["count"] = count
    note["step"] = inst["step"]
    note["first"] = first
    note["before"] = leavers["latest"]
    leavers["latest"] = engine["left"]
    engine["left"] += count
    engine["left_at"] = at + count


@leaf
def leave_bare(inst, engine, count):
    """Give back the next block of `count` tables, none of which has a key."""
    engine["window_freed"] += count
    inst["free"] += count


@leaf
def _is_in(ws, found, at):
    """Return whether a record, as a note has it, still has a place of the circle."""
    record = ws.blocks[found]
    here = record["key"] == STRETCH and record["extent"] == NONE
    return here and record["duplicate_prev"] <= at < record["duplicate_next"]


@leaf
def is_in_use(ws, lane, inst, engine, place):
    """Return whether any block is free and not evicted of a note, which is in one piece."""
    here = is_noted(lane, engine, place)
    if here:
        at = _in_circle(lane, engine, place)
        note = _note_at(ws, inst, at)
        here = _is_in(ws, note["record"], at + note["count"] - 1)
    return here


@leaf
def _cut_note(ws, inst, at, place):
    """Let a place of the circle be a piece of its own, of the piece at `at`."""
    note = _note_at(ws, inst, at)
    behind = at + note["count"] - (place + 1)
    if behind > 0:
        _note_at(ws, inst, place + 1)["count"] = behind
    if place > at:
        note["count"] = place - at
    _note_at(ws, inst, place)["count"] = 1


@leaf
def _cut_behind(ws, inst, found, place):
    """Give what a record has behind a place a record of its own, at its place in the order."""
    upper = np.int64(new_id(ws, inst))
    record = ws.blocks[upper]
    record["key"] = STRETCH
    record["ref_count"] = 0
    record["extent"] = NONE
    record["hits"] = 0
    record["duplicate_prev"] = place + 1
    record["duplicate_next"] = ws.blocks[found]["duplicate_next"]
    ws.blocks[found]["duplicate_next"] = place + 1
    at = np.int64(place) + 1
    while at < record["duplicate_next"]:
        note = _note_at(ws, inst, at)
        note["record"] = upper
        at += note["count"]
    lru.link(ws, inst, upper, ws.lru[found]["next"])
    lru.link(ws, inst, found, upper)


@leaf
def _cut_record(ws, inst, found, place):
    """Give the block at a place of a record a record of its own; return it."""
    if place + 1 < ws.blocks[found]["duplicate_next"]:
        _cut_behind(ws, inst, found, place)
    block = np.int64(found)
    if ws.blocks[found]["duplicate_prev"] < place:
        block = np.int64(new_id(ws, inst))
        ws.blocks[found]["duplicate_next"] = place
        lru.link(ws, inst, block, ws.lru[found]["next"])
        lru.link(ws, inst, found, block)
    return block


@leaf
def cut_out(ws, lane, inst, engine, place, ahead, s, group, block):
    """Make a block of a request that is noted at `place`, behind `ahead` others, a stretch of it.

    Return the record of that, NONE if the block was evicted.
    """
    at = _in_circle(lane, engine, place)
    own = at + ahead
    while at + _note_at(ws, inst, at)["count"] <= own:
        at += _note_at(ws, inst, at)["count"]
    found = np.int64(_note_at(ws, inst, at)["record"])
    if not _is_in(ws, found, own):
        return np.int64(NONE)
    _cut_note(ws, inst, at, own)
    found = _cut_record(ws, inst, found, own)
    _note_at(ws, inst, own)["record"] = found
    record = ws.blocks[found]
    record["key"] = STRETCH
    record["ref_count"] = 0
    record["extent"] = s
    record["hits"] = group
    record["duplicate_prev"] = block
    record["duplicate_next"] = block + 1
    return found
