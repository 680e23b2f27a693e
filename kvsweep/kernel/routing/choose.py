"""Routing policies: which instance gets the next request (rule R8.4).

All but round-robin read snapshots, which must be up to date (`snapshots.look`).
"""

from ..._jit import leaf
from ...policies import Routing
from ...records import NONE, LaneStatus
from ..blocks.sizes import full_blocks
from . import router_index
from .scorers import score_instances


@leaf
def _round_robin(ws, lane):
    turn = ws.router[0]["turn"]
    ws.router[0]["turn"] = turn + 1 if turn + 1 < lane["routed"] else 0
    return turn


@leaf
def _least_loaded(ws, lane):
    """Return the first instance with the fewest requests routed to it and not yet gone."""
    best = 0
    for index in range(1, lane["routed"]):
        if ws.snapshots[index]["load"] < ws.snapshots[best]["load"]:
            best = index
    return best


@leaf
def _always_busiest(ws, lane):
    """Return the first instance with the most requests routed to it and not yet gone."""
    best = 0
    for index in range(1, lane["routed"]):
        if ws.snapshots[index]["load"] > ws.snapshots[best]["load"]:
            best = index
    return best


@leaf
def _prompt_affinity(inp, ws, lane, r):
    """Return where a prompt with the same last full block went first, else the least loaded.

    A prompt shorter than a block has none, and one that no other prompt has needs no home.
    """
    request = inp.requests[lane["request_lo"] + r]
    blocks = full_blocks(lane, request["prompt"])
    chosen = _least_loaded(ws, lane)
    extent = router_index.last_extent(inp, request, blocks)
    if extent != NONE and extent < lane["prompt_shared"]:
        if ws.known[extent] == ws.router[0]["serial"]:
            chosen = ws.holders[extent]
        ws.known[extent] = ws.router[0]["serial"]
        ws.holders[extent] = chosen
    return chosen


@leaf
def _highest_score(ws, lane):
    best = 0
    for index in range(1, lane["routed"]):
        if ws.snapshots[index]["score"] > ws.snapshots[best]["score"]:
            best = index
    return best


@leaf
def _weighted(inp, ws, lane, tally, r):
    """Return the first instance with the highest score; record the prompt as routed there."""
    request = inp.requests[lane["request_lo"] + r]
    blocks = full_blocks(lane, request["prompt"])
    if lane["indexes"]:
        router_index.match(inp, ws, lane, request, blocks)
    score_instances(inp, ws, lane, tally, request, blocks)
    best = _highest_score(ws, lane)
    if lane["indexes"]:
        router_index.record(inp, ws, lane, best, request, blocks)
    return best


@leaf
def choose_instance(inp, ws, lane, tally, r):
    """Choose the instance of request `r`."""
    chosen = 0
    if lane["routing"] == Routing.ROUND_ROBIN:
        chosen = _round_robin(ws, lane)
    elif lane["routing"] == Routing.LEAST_LOADED:
        chosen = _least_loaded(ws, lane)
    elif lane["routing"] == Routing.ALWAYS_BUSIEST:
        chosen = _always_busiest(ws, lane)
    elif lane["routing"] == Routing.PROMPT_AFFINITY:
        chosen = _prompt_affinity(inp, ws, lane, r)
    elif lane["routing"] == Routing.WEIGHTED:
        chosen = _weighted(inp, ws, lane, tally, r)
    else:
        tally["status"] = LaneStatus.UNKNOWN_POLICY
    return chosen
