"""What decoding requests fill and a write-through tier gets, in the step that fills it.

The order of copies decides what the tier forgets (`LANE.copies_each_step`). Mostly nobody can tell
when they are made, so they are only counted (blocks/unsettled.py). Where what is filled may be on
the CPU already, the copies of a run of steps are made at its end.
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NEVER
from ..blocks import tier, tier_room, unsettled
from ..blocks.sizes import full_blocks
from ..memory import SPAN
from ..time.decoding import decoded_tokens, next_phase


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
        slot = request["chain_lo"]
        absent = unsettled.is_absent(inp, ws, lane, inst, request, slot, first, end)
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


@leaf
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


@part
def _copy_at_once(inp, ws, lane, inst, steps, now, duration):
    """Copy what decoding requests fill in the next `steps` steps, some of it there perhaps."""
    unsettled.settle_all(inp, ws, lane, inst)
    found, count = _find_fillers(inp, ws, lane, inst, steps)
    if count > lane["cpu_blocks"]:
        _copy_one_by_one(inp, ws, lane, inst, steps, now, duration)
    elif found > 0:
        tier_room.find_room(inp, ws, lane, inst, count)
        inst["tier_used"] += count
        inst["offloads"] += count
        for place in range(found):
            r = ws.fills[place]
            progress = ws.progress[r]
            request = inp.requests[lane["request_lo"] + r]
            first, end = _fills(lane, progress, inst["step"], steps)
            unsettled.put_fills(inp, ws, lane, inst, request, progress, first, end)
    inst["filled_to"] = inst["step"] + steps
    inst["settled_to"] = inst["filled_to"]


@leaf
def copy_fills(inp, ws, lane, inst, steps, count, now, duration):
    """Copy the `count` blocks that decoding requests fill in the next `steps` steps, in this order.

    The first of them is scheduled at `now`, each takes `duration`, and all get their tokens. What
    is new and fits needs not be in order: it takes no room from itself, and ranks tell the rest.
    """
    end = inst["step"] + steps
    if inst["unsettled"] > 0 and end - inst["settled_to"] > SPAN:
        unsettled.settle_all(inp, ws, lane, inst)
    unsettled.note_begins(ws, inst, steps, now, duration)
    if inst["watched"] > 0 or count > lane["cpu_blocks"]:
        _copy_at_once(inp, ws, lane, inst, steps, now, duration)
        return
    if inst["unsettled"] == 0:
        inst["settled_to"] = inst["step"]
    if inst["tier_used"] + count > lane["cpu_blocks"]:
        tier_room.find_room(inp, ws, lane, inst, count)
    inst["tier_used"] += count
    inst["offloads"] += count
    inst["unsettled"] += count
    inst["filled_to"] = end
