"""Routing policies: which instance gets the next request (rule R8.4).

All but round-robin read snapshots, which must be up to date (`snapshots.look`).
"""

from ..._jit import leaf
from ...policies import Routing
from ...records import ANY_LENGTH, NONE, LaneStatus
from ..blocks.sizes import full_blocks
from ..memory import count_words
from . import router_index
from .scorers import score_instances
from .sticky import choose_sticky


@leaf
def _round_robin(ws):
    router = ws.router[0]
    snapshot = ws.snapshots[router["first"]]
    chosen = router["first"] + snapshot["turn"]
    snapshot["turn"] = snapshot["turn"] + 1 if chosen + 1 < router["end"] else 0
    return chosen


@leaf
def _least_loaded(ws):
    """Return the first instance with the fewest requests routed to it and not yet gone."""
    best = ws.router[0]["first"]
    for index in range(best + 1, ws.router[0]["end"]):
        if ws.snapshots[index]["load"] < ws.snapshots[best]["load"]:
            best = index
    return best


@leaf
def _always_busiest(ws):
    """Return the first instance with the most requests routed to it and not yet gone."""
    best = ws.router[0]["first"]
    for index in range(best + 1, ws.router[0]["end"]):
        if ws.snapshots[index]["load"] > ws.snapshots[best]["load"]:
            best = index
    return best


@leaf
def _prompt_affinity(inp, ws, lane, r):
    """Return where a prompt with the same last full block went first, else the least loaded.

    A prompt shorter than a block has none, and one that no other prompt has needs no home. Where
    requests go to different pools a prompt has a home in each; that is kept as 1 + its instance.
    """
    request = inp.requests[lane["request_lo"] + r]
    blocks = full_blocks(lane, request["prompt"] - lane["ahead"])
    chosen = _least_loaded(ws)
    extent = router_index.last_extent(inp, request, blocks)
    if extent != NONE and extent < lane["prompt_shared"]:
        place = router_index.begin_places(ws, lane, extent) + count_words(lane)
        place += ws.router[0]["home"]
        if ws.holders[place] > 0:
            chosen = ws.holders[place] - 1
        ws.holders[place] = chosen + 1
    return chosen


@leaf
def _highest_score(ws):
    best = ws.router[0]["first"]
    for index in range(best + 1, ws.router[0]["end"]):
        if ws.snapshots[index]["score"] > ws.snapshots[best]["score"]:
            best = index
    return best


@leaf
def _weighted(inp, ws, lane, tally, r):
    """Return the first instance with the highest score; record the prompt as routed there."""
    request = inp.requests[lane["request_lo"] + r]
    blocks = full_blocks(lane, request["prompt"] - lane["ahead"])
    if lane["indexes"]:
        router_index.match(inp, ws, lane, request, blocks)
    score_instances(inp, ws, lane, tally, request, blocks)
    best = _highest_score(ws)
    if lane["indexes"]:
        router_index.record(inp, ws, lane, best, request, blocks)
    return best


@leaf
def find_candidates(inp, ws, lane, request):
    """Let the router choose from the first pool that serves requests as long as this one.

    All pools are candidates if none has a longest request; the last is if all are too short.
    """
    router = ws.router[0]
    last = lane["pool_lo"] + lane["pools"] - 1
    pool = lane["pool_lo"]
    if inp.pools[pool]["longest"] < ANY_LENGTH:
        first = 0
        while pool < last and request["prompt"] + request["output"] > inp.pools[pool]["longest"]:
            first += inp.pools[pool]["instances"]
            pool += 1
        router["first"] = first
        router["end"] = first + inp.pools[pool]["instances"]
        router["home"] = pool - lane["pool_lo"]


@leaf
def choose_instance(inp, ws, lane, tally, r):
    """Choose the instance of request `r`."""
    chosen = 0
    if lane["routing"] == Routing.ROUND_ROBIN:
        chosen = _round_robin(ws)
    elif lane["routing"] == Routing.LEAST_LOADED:
        chosen = _least_loaded(ws)
    elif lane["routing"] == Routing.ALWAYS_BUSIEST:
        chosen = _always_busiest(ws)
    elif lane["routing"] == Routing.PROMPT_AFFINITY:
        chosen = _prompt_affinity(inp, ws, lane, r)
    elif lane["routing"] == Routing.WEIGHTED:
        chosen = _weighted(inp, ws, lane, tally, r)
    elif lane["routing"] == Routing.STICKY:
        chosen = choose_sticky(inp, ws, lane, r)
    else:
        tally["status"] = LaneStatus.UNKNOWN_POLICY
    return chosen
