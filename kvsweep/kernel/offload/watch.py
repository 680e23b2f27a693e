"""Which blocks a step takes up that a store of a finished request may still read (rule R11.5)."""

import numpy as np

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NONE
from ..blocks.prefix_table import new_id
from ..blocks.sizes import blocks_for, full_blocks
from ..blocks.split import find_split, is_split, split_extent
from ..memory import extent_at, in_table
from ..time.decoding import most_computed
from . import jobs
from .pins import clear_pins, note_held, note_hit


@leaf
def _name_blocks(ws, lane, inst, request, first, end):
    """Give ids to blocks `first` to `end - 1` of a request that is done, whose blocks lie on top.

    Some may have ids: then a store of somebody before reads them too.
    """
    lo = request["key_lo"]
    ground = inst["free"] - blocks_for(lane, most_computed(request))
    for place in range(first, end):
        ws.table[in_table(ws, lo + place)] = NONE
    block = inst["named"]
    while block != NONE:
        pins = ws.pins[block]
        if pins["heir"] == NONE and first <= pins["place"] - ground < end:
            ws.table[in_table(ws, lo + pins["place"] - ground)] = block
        block = pins["next"]
    for place in range(first, end):
        if ws.table[in_table(ws, lo + place)] == NONE:
            block = new_id(ws, inst)
            ws.table[in_table(ws, lo + place)] = block
            ws.pins[block]["heir"] = NONE
            ws.pins[block]["place"] = ground + place
            ws.pins[block]["next"] = inst["named"]
            inst["named"] = block


@leaf
def give_ids(inp, ws, lane, inst, request, first, end):
    """Give ids to blocks `first` to `end - 1` of a request, which has just freed them."""
    if lane["prefix_caching"]:
        _split_extents(inp, ws, lane, inst, request, first, end)
    else:
        _name_blocks(ws, lane, inst, request, first, end)


@leaf
def _split_extents(inp, ws, lane, inst, request, first, end):
    """Split the extents of those blocks."""
    lo = request["key_lo"]
    slot = request["chain_lo"]
    done = 0
    while done < end:
        link = inp.chain[slot]
        index = extent_at(lane, inst, link["extent"])
        extent = ws.extents[index]
        begin = link["first"]
        if link["end"] > first and extent["size"] > 0 and not is_split(lane, extent):
            size = extent["size"]
            split_extent(inp, ws, lane, inst, index, lo + begin, begin)
            find_split(inp, ws, inst, lo + begin, lo + begin + size)
        done = link["end"]
        slot += 1


@leaf
def _rename(ws, first, end, old, new):
    """Let the table slots `first` to `end - 1` that hold the id `old` hold `new`."""
    for slot in range(first, end):
        if ws.table[in_table(ws, slot)] == old:
            ws.table[in_table(ws, slot)] = new
            ws.pins[new]["stores"] += 1


@leaf
def _rename_read(inp, ws, lane, inst, off, old, new):
    """Let the block that had the id `old` have `new`, in all that stores of finished requests read.

    So in what they may still store.
    """
    for queue in (jobs.WAITING_STORES, jobs.STORES):
        job = jobs.head(ws, off, queue)
        while job != NONE:
            record = ws.jobs[job]
            r = record["request"]
            if r != NONE and ws.progress[r]["status"] == RequestStatus.COMPLETED:
                lo = inp.requests[lane["request_lo"] + r]["key_lo"]
                first = lo + record["first"] * lane["factor"]
                _rename(ws, first, lo + record["end"] * lane["factor"], old, new)
            job = np.int64(record["next"])
    r = off["finished_head"]
    while r != NONE:
        request = inp.requests[lane["request_lo"] + r]
        lo = request["key_lo"]
        first = lo + ws.offers[r]["next"] * lane["factor"]
        _rename(ws, first, lo + full_blocks(lane, most_computed(request)), old, new)
        r = ws.progress[r]["next"]


@leaf
def give_back(inp, ws, lane, inst, r):
    """Let stores read on what the step being scheduled gave to a request that it preempts.

    It has not taken that up (rule R11.5). What is cached keeps its content, free, under another id.
    """
    request = inp.requests[lane["request_lo"] + r]
    off = ws.offload[inst["number"]]
    block = inst["replaced"]
    while block != NONE:
        place = ws.pins[block]["place"]
        if ws.pins[block]["heir"] == r and place < ws.progress[r]["cached_blocks"]:
            _split_extents(inp, ws, lane, inst, request, place, place + 1)
            new = ws.table[in_table(ws, request["key_lo"] + place)]
            clear_pins(ws, new)
            _rename_read(inp, ws, lane, inst, off, block, new)
        block = ws.pins[block]["next"]


@leaf
def _touch_split(inp, ws, lane, inst, request, end):
    """Note the first `end` blocks of a request as far as they have ids; others nobody reads."""
    lo = request["key_lo"]
    slot = request["chain_lo"]
    done = 0
    while done < end:
        link = inp.chain[slot]
        done = min(end, link["end"])
        if is_split(lane, ws.extents[extent_at(lane, inst, link["extent"])]):
            for place in range(lo + link["first"], lo + done):
                note_hit(ws, inst, ws.table[in_table(ws, place)])
        slot += 1


@leaf
def _is_same(inp, ws, lane, inst, request, other, block):
    """Return whether two requests hold the same block there, given that it has the same key."""
    slot = request["chain_lo"]
    while inp.chain[slot]["end"] <= block:
        slot += 1
    same = not is_split(lane, ws.extents[extent_at(lane, inst, inp.chain[slot]["extent"])])
    if not same:
        mine = ws.table[in_table(ws, request["key_lo"] + block)]
        same = mine == ws.table[in_table(ws, other["key_lo"] + block)]
    return same


@leaf
def _touch_replaced(inp, ws, lane, inst, request, end):
    """Note those of them that took the place of one that a store reads a schedule ago.

    Asynchronously such a store is not reported yet, so this step awaits it too.
    """
    block = inst["replaced_before"]
    while block != NONE:
        pins = ws.pins[block]
        heir = pins["heir"]
        place = pins["place"]
        if heir != NONE and place < end and place < ws.progress[heir]["cached_blocks"]:
            other = inp.requests[lane["request_lo"] + heir]
            alike = inp.keys[request["key_lo"] + place] == inp.keys[other["key_lo"] + place]
            if alike and _is_same(inp, ws, lane, inst, request, other, place):
                pins["again"] = inst["serial"]
                inst["flushes"] = 1
        block = pins["next"]


@leaf
def touch_held(inp, ws, lane, inst, r):
    """Note that the step takes up the blocks of a request, as far as copies may read them."""
    if inst["watches"]:
        request = inp.requests[lane["request_lo"] + r]
        end = ws.progress[r]["cached_blocks"]
        _touch_split(inp, ws, lane, inst, request, end)
        _touch_replaced(inp, ws, lane, inst, request, end)
        note_held(ws, inst, r)
