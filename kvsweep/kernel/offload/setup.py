"""Begin the CPU tiers of a lane, and collect what they leave behind."""

from ..._jit import leaf
from ...records import LaneStatus
from ..blocks.runs import begin_runs, clear_heads
from ..blocks.sizes import full_blocks
from ..memory import place_tier
from ..time.decoding import most_computed
from .jobs import begin_copies
from .order import is_arc


@leaf
def begin_offload(inp, ws, lane):
    """Empty the tiers of all instances, and let no request have offered anything."""
    for index in range(lane["instances"]):
        ws.offload[index] = ws.blank_offload[0]
        place_tier(lane, ws.instances[index], ws.offload[index])
        begin_runs(ws, ws.instances[index])
        begin_copies(ws, ws.offload[index])
    for r in range(lane["requests"]):
        ws.offers[r] = ws.blank_offer[0]
        if is_arc(lane):
            request = inp.requests[lane["request_lo"] + r]
            lo = request["key_lo"]
            ws.seen[lo : lo + full_blocks(lane, most_computed(request))] = 0
    clear_heads(ws, lane)


@leaf
def end_offload(ws, inst, tally):
    """Add up what the tier of an instance did; all its chunks must be idle, and counted right."""
    off = ws.offload[inst["number"]]
    tally["loads"] += off["loads"]
    tally["stores"] += off["stores"]
    tally["loaded"] += off["loaded"]
    tally["stored"] += off["stored"]
    tally["tier_evictions"] += off["evictions"]
    tally["refused"] += off["refused"]
    tally["later"] += off["later"]
    leaked = off["idle"] != off["chunks"] or off["unreported"] != 0
    if tally["status"] == LaneStatus.OK and leaked:
        tally["status"] = LaneStatus.NOT_CONSERVED
