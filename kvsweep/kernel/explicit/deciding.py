"""Where a request is prefilled and where it is decoded, and its way into their inboxes: rule R14.7.

An inbox is in order of entry. At equal times those whose prefill has ended come before those that
were routed there: the former in the order of these ends, the latter by their numbers.
"""

import numpy as np

from ..._jit import leaf
from ...policies import Routing
from ...records import NONE
from ..blocks.sizes import full_blocks
from ..routing.choose import choose_instance
from ..scheduling.waiting import insert
from .lookup import find_prefix


@leaf
def _choose_decode(inp, ws, lane, tally, r):
    """Return the decode instance of a request; in turn is by its number."""
    router = ws.router[0]
    first = np.int64(lane["routed"])
    own = ws.own[first]
    if own["routing"] == Routing.ROUND_ROBIN:
        return first + r % (lane["instances"] - first)
    router["first"] = first
    router["end"] = lane["instances"]
    router["home"] = lane["homes"] - 1
    return np.int64(choose_instance(inp, ws, own, tally, r))


@leaf
def _count_uncached(inp, ws, lane, index, r):
    """Return the tokens of a prompt that the cache of an instance does not have now."""
    request = inp.requests[lane["request_lo"] + r]
    limit = min(request["reusable"], full_blocks(lane, request["prompt"]))
    state = ws.states[ws.engines[index]["state_lo"] + r]
    held = find_prefix(inp, ws, lane, ws.instances[index], request, state, limit)
    return request["prompt"] - held * lane["block_size"]


@leaf
def choose_roles(inp, ws, lane, tally, r):
    """Choose the decode instance of a request; return where it goes first: there, or to prefill.

    A request that stays there has nothing to pull.
    """
    router = ws.router[0]
    handoff = ws.handoffs[r]
    decode = _choose_decode(inp, ws, lane, tally, r)
    handoff["target"] = decode
    threshold = lane["threshold"]
    if threshold >= 0 and _count_uncached(inp, ws, lane, decode, r) <= threshold:
        handoff["loading"] = 1
        return decode
    ws.instances[decode]["load"] += 1
    ws.snapshots[decode]["load"] += lane["count_pending"]
    router["first"] = 0
    router["end"] = lane["routed"]
    router["home"] = 0
    return np.int64(choose_instance(inp, ws, ws.own[0], tally, r))


@leaf
def call_off(ws, r):
    """Let a decode instance not expect a request that ends before its prefill does."""
    ws.instances[ws.handoffs[r]["target"]]["load"] -= 1


@leaf
def enter_routed(ws, inst, r, time):
    """Let a request that is routed here enter at `time`."""
    before = np.int64(inst["inbox_tail"])
    while before != NONE and (
        ws.progress[before]["queued"] > time
        or (
            ws.progress[before]["queued"] == time
            and before > r
            and ws.handoffs[before]["prefilled"] == NONE
        )
    ):
        before = np.int64(ws.progress[before]["prev"])
    insert(ws, inst, r, time, before)


@leaf
def enter_handed(ws, inst, r, time):
    """Let a request enter at `time` whose prefill has ended."""
    before = np.int64(inst["inbox_tail"])
    while before != NONE and (
        ws.progress[before]["queued"] > time
        or (ws.progress[before]["queued"] == time and ws.handoffs[before]["prefilled"] == NONE)
    ):
        before = np.int64(ws.progress[before]["prev"])
    insert(ws, inst, r, time, before)
