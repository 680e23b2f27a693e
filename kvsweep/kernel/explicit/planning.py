"""Runs of steps that verify drafts: what the next steps need and give, planned some at a time.

What each verification accepts is drawn beforehand, so a request's tokens after so many steps are
known, and with them the steps in which it takes a block, and its last one.
"""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import blocks_for
from ..memory import HORIZON
from ..time.calendar import IDLE


@leaf
def verify(inp, lane, engine, request, state, steps):
    """Let a request make so many verifications.

    Returns
    -------
    tokens, last : int
        What they give, and of that what the last one gives.
    """
    length = np.int64(request["accepted_len"])
    tokens = np.int64(steps)
    last = np.int64(1)
    if steps == HORIZON:  # as they were planned
        tokens = np.int64(state["gain"])
        last = np.int64(state["last_gain"])
    elif length > 0:
        turn = state["verified"] % length
        for _ in range(steps):
            accepted = np.int64(inp.accepted[request["accepted_lo"] + turn])
            last = 1 + min(accepted, np.int64(lane["drafts"]))
            tokens += last - 1
            turn = turn + 1 if turn + 1 < length else 0
    state["verified"] += steps
    engine["drafts"] += steps * lane["drafts"]
    engine["accepted"] += tokens - steps
    return tokens, last


@leaf
def _plan_one(inp, ws, lane, inst, engine, request, state):
    """Plan the next steps of a request that is up to date; return the step that finishes it."""
    length = np.int64(request["accepted_len"])
    lo = np.int64(request["accepted_lo"])  # compilers do not know that plans are no part of these
    most = np.int64(lane["drafts"])
    place = engine["plan_lo"]
    known = np.int64(state["known"])
    left = state["room"] - 2 * most
    turn = state["verified"] % max(length, 1)
    gained = np.int64(1)
    for ahead in range(HORIZON):
        if known > left:
            blocks = blocks_for(lane, known - left)
            ws.plans[place + ahead]["blocks"] += blocks
            left += blocks * lane["block_size"]
        if length > 0:
            accepted = np.int64(inp.accepted[lo + turn])
            gained = 1 + min(accepted, most)
            turn = turn + 1 if turn + 1 < length else 0
        known += gained
        if known >= state["limit"]:
            return inst["step"] + ahead
        if lane["context"]:
            ws.plans[place + ahead]["tokens"] += gained
    state["gain"] = known - state["known"]
    state["last_gain"] = gained
    return np.int64(IDLE)


@leaf
def plan(inp, ws, lane, inst, engine):
    """Plan the next steps of all running requests, which are up to date."""
    lo = engine["plan_lo"]
    for place in range(lo, lo + HORIZON):
        ws.plans[place]["blocks"] = 0
        ws.plans[place]["tokens"] = 0
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        request = inp.requests[lane["request_lo"] + r]
        state = ws.states[engine["state_lo"] + r]
        ws.due[place] = _plan_one(inp, ws, lane, inst, engine, request, state)
    engine["planned"] = inst["step"] + HORIZON


@leaf
def planned(ws, inst, engine):
    """Return the PLAN record of this step."""
    return ws.plans[engine["plan_lo"] + inst["step"] + HORIZON - engine["planned"]]
