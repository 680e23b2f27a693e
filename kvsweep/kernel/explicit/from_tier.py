"""Who is counted beside a CPU tier where each block has an identity (moving/): what is due of it.

Likewise at an instance that has none, where others of the cluster have one. Nothing is counted by
phase there: who takes a block, whose window leaves one, or who has filled a chunk to store is due.
Of a step that may lack blocks nobody is counted.
"""

import numpy as np

from ..._jit import leaf
from ..moving.connector import tell_blocks
from ..moving.worth import lacks_to_offer
from .due import catch_up, is_served, next_due
from .states import tables_of
from .tables import allocate


@leaf
def block_by_block(lane):
    """Return whether who is counted is due with each block: there is a tier, or elsewhere."""
    return lane["moves"] != 0 or lane["bare"] != 0


@leaf
def next_block(ws, lane, state, s, step):
    """Return the next step at which a request, up to date at `step`, takes a block.

    Or a window of it leaves one, or it has a chunk to store.
    """
    takes = np.int64(state["room"]) - state["computed"]
    leaves = np.int64(state["release_at"]) - (state["computed"] - state["flight"])
    steps = min(takes, leaves)
    if lane["moves"]:
        steps = min(steps, lacks_to_offer(lane, state, ws.offers[s]))
    return step + max(steps, 0)


@leaf
def has_blocks(inp, ws, lane, inst, tally, engine, first, last):
    """Return whether all who are due have blocks, whatever windows leave; they are up to date."""
    takes = np.int64(0)
    for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
        if ws.due[place] == inst["step"]:
            r = ws.running[place]
            catch_up(inp, ws, lane, inst, tally, engine, r)
            state = ws.states[engine["state_lo"] + r]
            takes += state["computed"] == state["room"] and is_served(lane, inst, state)
    return takes * tables_of(lane) <= inst["free"]


@leaf
def _serve_one(inp, ws, lane, inst, tally, engine, place):
    """Give a request that is due what it needs in this step, and note when it is due next."""
    r = ws.running[place]
    s = engine["state_lo"] + r
    state = ws.states[s]
    request = inp.requests[lane["request_lo"] + r]
    allocate(inp, ws, lane, inst, tally, engine, request, state, s, 1, r >= lane["warmup"])
    if lane["moves"]:
        tell_blocks(inp, ws, lane, inst, state, s)
        if lacks_to_offer(lane, state, ws.offers[s]) == 0:  # and in the next step, if refused
            engine["offering"] = 1
    if state["known"] + 1 < state["limit"]:
        due = max(next_block(ws, lane, state, s, inst["step"]), inst["step"] + 1)
        ws.due[place] = min(due, next_due(ws, lane, request, state, s, inst["step"]))


@leaf
def serve_due(inp, ws, lane, inst, tally, engine, first, last):
    """Serve all who are due, in order, as all steps do."""
    for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
        if ws.due[place] == inst["step"]:
            state = ws.states[engine["state_lo"] + ws.running[place]]
            if is_served(lane, inst, state):
                _serve_one(inp, ws, lane, inst, tally, engine, place)
