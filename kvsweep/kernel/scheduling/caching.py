"""When the blocks of running requests are cached, and when a decoding request is due for it.

Blocks that decoding fills are cached late: when they are freed, or before anything is looked up or
cached that could tell. *Duplicates*, whose decode blocks may carry the same key, cache each block
as soon as they may, and are due then, as the first to be cached is found. They may in the step that
fills the block; asynchronously in the next one, as the token is known then (rule R10.4).

A write-through tier gets each block in the step that fills it (`LANE.copies_each_step`), as the
order of copies decides what it forgets. Nobody can tell during a run of steps, so the copies of all
of them are made at its end (`copy_fills`).
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NEVER
from ..blocks import pool, tier, tier_order
from ..blocks.sizes import full_blocks
from ..memory import extent_at
from ..time.decoding import (
    decoded_tokens,
    filling_step,
    last_decode,
    next_fill,
    next_phase,
    settled_tokens,
)


@leaf
def caches_at_once(lane, request):
    """Return whether a request caches each decode block in the step that fills it."""
    return request["duplicate"] and lane["prefix_caching"]


@leaf
def next_due(lane, request, progress, step):
    """Return the first step from `step` on at which a decoding request needs attention."""
    due = last_decode(request, progress)
    if caches_at_once(lane, request):
        due = min(due, next_fill(lane, progress, step) + lane["async_scheduling"])
    return due


@leaf
def cache(inp, ws, lane, inst, request, progress, count):
    """Cache the first `count` blocks of a prefill; a write-through tier copies the new ones."""
    if lane["copies_each_step"]:
        tier.copy(inp, ws, lane, inst, request, progress, count, inst["clock"])
    pool.cache_blocks(inp, ws, lane, inst, request, progress, count)


@leaf
def copy_fill(inp, ws, lane, inst, request, progress, step, now):
    """Copy the block that a decoding request fills in a step, scheduled at `now`, to the CPU."""
    block = full_blocks(lane, decoded_tokens(progress, step + 1)) - 1
    tier.copy_fill(inp, ws, lane, inst, request, progress, block, step, now)


@leaf
def _fills(lane, progress, step, steps):
    """Return the bounds of the blocks that a decoding request fills in `steps` steps."""
    first = full_blocks(lane, decoded_tokens(progress, step))
    return first, full_blocks(lane, decoded_tokens(progress, step + steps))


@leaf
def _are_absent(inp, ws, lane, inst, r, first, end):
    """Return whether blocks that a request fills are surely not on the CPU."""
    request = inp.requests[lane["request_lo"] + r]
    absent = not request["duplicate"]  # else another one may fill them meanwhile
    if absent and request["shared"]:
        slot = ws.progress[r]["link"]
        absent = tier.is_absent(inp, ws, lane, inst, request, slot, first, end)
    return absent


@leaf
def _find_fillers(inp, ws, lane, inst, steps):
    """Find which decoding requests fill blocks in the next `steps` steps.

    Returns
    -------
    found : int
        How many, at the first places of `Workspace.fills`.
    count : int
        The blocks that they fill; NEVER: some of them may be on the CPU already.
    """
    phase = inst["phase"]
    left = 0
    for _ in range(min(steps, lane["block_size"])):
        phase = next_phase(lane, phase)  # who takes a block in the next step fills one in this
        left += ws.phases[inst["phase_lo"] + phase]
    found = 0
    count = np.int64(0)
    place = inst["run_lo"]
    while found < left:
        r = ws.running[place]
        progress = ws.progress[r]
        first, end = _fills(lane, progress, inst["step"], steps)
        if first < end and progress["decoding"]:
            ws.fills[found] = r
            found += 1
            count += end - first
            if not _are_absent(inp, ws, lane, inst, r, first, end):
                count = NEVER
                break
        place += 1
    return found, count


@part
def _copy_one_by_one(inp, ws, lane, inst, steps, now, duration):
    """Copy what decoding requests fill in the next `steps` steps, step by step in running order."""
    phase = inst["phase"]
    for step in range(inst["step"], inst["step"] + steps):
        phase = next_phase(lane, phase)
        for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
            progress = ws.progress[ws.running[place]]
            if progress["decoding"] and progress["phase"] == phase:
                request = inp.requests[lane["request_lo"] + ws.running[place]]
                copy_fill(inp, ws, lane, inst, request, progress, step, now)
        now += duration


@leaf
def copy_fills(inp, ws, lane, inst, steps, now, duration):
    """Copy what decoding requests fill in the next `steps` steps, in this order.

    The first of them is scheduled at `now`, each takes `duration`, and all get their tokens. What
    is new and fits needs not be in order: it takes no room from itself, and ranks tell the rest.
    """
    found, count = _find_fillers(inp, ws, lane, inst, steps)
    if count > lane["cpu_blocks"]:
        _copy_one_by_one(inp, ws, lane, inst, steps, now, duration)
    elif found > 0:
        tier_order.find_room(ws, lane, inst, count)
        wait = duration * lane["block_size"]
        for place in range(found):
            r = ws.fills[place]
            progress = ws.progress[r]
            request = inp.requests[lane["request_lo"] + r]
            first, end = _fills(lane, progress, inst["step"], steps)
            step = filling_step(lane, progress, first)
            begun = now + (step - inst["step"]) * duration
            tier.fill_absent(inp, ws, lane, inst, request, progress, first, end, step, begun, wait)


@leaf
def cache_decode(inp, ws, lane, inst, request, progress, position):
    """Cache what a decoding request has filled, this step's token included, and set its due."""
    step = inst["step"]
    full = full_blocks(lane, settled_tokens(lane, request, progress, step + 1, step - 1))
    pool.cache_blocks(inp, ws, lane, inst, request, progress, full)
    if caches_at_once(lane, request) and last_decode(request, progress) > step:
        after = step + 1 - lane["async_scheduling"]
        ws.due[inst["run_lo"] + position] = next_due(lane, request, progress, after)


@leaf
def cache_decodes(inp, ws, lane, inst, step, latest):
    """Cache what decoding requests filled before `step`, where others have the same keys.

    `latest` is the step on its way, as for `settled_tokens`.
    """
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        progress = ws.progress[r]
        request = inp.requests[lane["request_lo"] + r]
        computed = settled_tokens(lane, request, progress, step, latest)
        fills = (progress["cached_blocks"] + 1) * lane["block_size"] <= computed
        if progress["decoding"] and fills and request["shared"]:
            full = full_blocks(lane, computed)
            pool.cache_blocks(inp, ws, lane, inst, request, progress, full)


@leaf
def _is_being_filled(inp, ws, lane, inst, request):
    """Return whether a decoding request fills blocks that `request` has too."""
    filled = False
    end = 0
    slot = request["chain_lo"]
    while lane["prefix_caching"] and end < request["reusable"]:
        link = inp.chain[slot]
        filled = filled or ws.extents[extent_at(lane, inst, link["extent"])]["fillers"] > 0
        end = link["end"]
        slot += 1
    return filled


@leaf
def cache_decodes_for(inp, ws, lane, inst, request, step):
    """Cache what decoding requests filled before `step`, if `request` could tell.

    Step `step` - 1 is scheduled, so asynchronously the one before that is on its way.
    """
    if _is_being_filled(inp, ws, lane, inst, request):
        cache_decodes(inp, ws, lane, inst, step, step - 2)


@leaf
def next_useful_fill(inp, ws, lane, inst, request):
    """Return the next step in which a decoding request may fill a block that `request` hits.

    Such a block continues a chain of the same content, so it begins with the same key.
    """
    nearest = NEVER
    late = lane["async_scheduling"]  # cached one step after the one that fills it
    if _is_being_filled(inp, ws, lane, inst, request):
        key = inp.keys[request["key_lo"]]
        for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
            r = ws.running[place]
            other = inp.requests[lane["request_lo"] + r]
            fills = ws.progress[r]["decoding"] == 1 and other["shared"]
            if fills and inp.keys[other["key_lo"]] == key:
                fill = next_fill(lane, ws.progress[r], inst["step"] + 1 - late)
                nearest = min(nearest, fill + late)
    return nearest
