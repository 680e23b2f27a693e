"""Sticky routing: to where a prompt's beginning went, until that has too much to do (rule R8.4).

As llm-d's router has it: its prefix-cache-affinity-filter, then its token-load-scorer. What counts
are the prompt tokens in flight: of requests without a first token, what the router's index had not.
"""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import full_blocks
from . import router_index
from .answers import count_sent

NOBODY = np.int64(-1)


@leaf
def _least(ws, lane, blocks, knows):
    """Return the fewest tokens in flight of the instances that know the prompt, or of the others.

    Returns
    -------
    tokens : int
        NOBODY if there is none.
    """
    least = NOBODY
    for index in range(ws.router[0]["first"], ws.router[0]["end"]):
        snapshot = ws.snapshots[index]
        tokens = np.int64(snapshot["in_flight"])
        if _knows(lane, snapshot, blocks) == knows and (least == NOBODY or tokens < least):
            least = tokens
    return least


@leaf
def _knows(lane, snapshot, blocks):
    """Return whether enough of a prompt of so many full blocks was sent to an instance."""
    return blocks > 0 and snapshot["matched"] / blocks >= lane["sticky_threshold"]


@leaf
def _keeps(ws, lane, blocks):
    """Return whether the request goes to one of those that know its prompt."""
    known = _least(ws, lane, blocks, True)
    other = _least(ws, lane, blocks, False)
    lead = lane["sticky_lead"]
    return known != NOBODY and (other == NOBODY or lead == 0 or known - other <= lead)


@leaf
def _uncached(lane, snapshot, request):
    """Return the tokens of a prompt that the index of an instance has not."""
    return np.int64(request["prompt"]) - snapshot["matched"] * lane["block_size"]


@leaf
def _choose(ws, lane, request, blocks):
    """Return the instance with the fewest tokens in flight, the request's among them; in turn."""
    router = ws.router[0]
    keeps = _keeps(ws, lane, blocks)
    count = router["end"] - router["first"]
    turn = np.int64(ws.snapshots[router["first"]]["turn"])
    best, fewest = NOBODY, NOBODY
    for k in range(count):
        place = turn + k
        if place >= count:
            place -= count
        snapshot = ws.snapshots[router["first"] + place]
        tokens = snapshot["in_flight"] + _uncached(lane, snapshot, request)
        if (not keeps or _knows(lane, snapshot, blocks)) and (best == NOBODY or tokens < fewest):
            best, fewest = place, tokens
    ws.snapshots[router["first"]]["turn"] = best + 1 if best + 1 < count else 0
    return router["first"] + best


@leaf
def choose_sticky(inp, ws, lane, r):
    """Choose the instance of request `r`, and count its tokens as in flight there."""
    request = inp.requests[lane["request_lo"] + r]
    blocks = full_blocks(lane, request["prompt"] - lane["ahead"])
    router_index.match(inp, ws, lane, request, blocks)
    chosen = _choose(ws, lane, request, blocks)
    count_sent(ws, lane, chosen, r, _uncached(lane, ws.snapshots[chosen], request))
    router_index.record(inp, ws, lane, chosen, request, blocks)
    return chosen
