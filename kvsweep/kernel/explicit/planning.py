"""Steps that verify drafts of those who are counted: what each is to take and to give.

What each verification accepts is drawn beforehand, so it is known in which steps a request takes
blocks and in which it has its last token. The plan of an instance is a ring of the next HORIZON
steps; those that are over are cleared before more is planned.
"""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import full_blocks
from ..memory import HORIZON


@leaf
def verify(inp, lane, engine, request, state, steps):
    """Let a request make so many verifications.

    Returns
    -------
    tokens, last : int
        What they give, and of that what the last one gives.
    """
    accepted = inp.accepted
    first = np.int64(request["accepted_lo"]) + state["verified"]
    tokens = np.int64(steps)
    for ahead in range(steps):
        tokens += accepted[first + ahead]
    last = np.int64(accepted[first + steps - 1]) + 1
    state["verified"] += steps
    engine["drafts"] += steps * lane["drafts"]
    engine["accepted"] += tokens - steps
    return tokens, last


@leaf
def _place(lo, step):
    """Return the place of a step in the plan of blocks; that of tokens is HORIZON behind it."""
    return lo + (step & (HORIZON - 1))


@leaf
def clear_over(ws, inst, engine):
    """Clear the plan of the steps that are over."""
    for step in range(max(engine["planned"], inst["step"] - HORIZON), inst["step"]):
        place = _place(engine["plan_lo"], step)
        ws.plans[place] = 0
        ws.plans[place + HORIZON] = 0
    engine["planned"] = inst["step"]


@leaf
def forget_plan(ws, engine):
    """Clear the plan of all steps."""
    for place in range(engine["plan_lo"], engine["plan_lo"] + 2 * HORIZON):
        ws.plans[place] = 0


@leaf
def plan(inp, ws, lane, inst, engine, request, state, joins):
    """Plan the steps of a request that is up to date; return the last one.

    It is the one that finishes it, or the last for which there is room. Unless the request `joins`
    those who are counted its blocks of this step are planned already.
    """
    accepted, plans = inp.accepted, ws.plans
    # Nothing is read in the loop that compilers could take for written in it.
    lo, context = np.int64(engine["plan_lo"]), lane["context"] != 0
    inverse, shift = np.int64(lane["inverse"]), np.int64(lane["inverse_shift"])
    step = np.int64(inst["step"])
    end = step + HORIZON - 1
    verification = np.int64(request["accepted_lo"]) + state["verified"]
    wanted = np.int64(state["limit"]) - state["known"]
    needs = state["known"] + 2 * lane["drafts"] - state["room"] + lane["block_size"] - 1
    taken = full_blocks(lane, max(needs, 0))
    plans[_place(lo, step)] += taken * joins
    more = 1 + np.int64(accepted[verification])
    given = more
    while given < wanted and step < end:
        if context:
            plans[_place(lo, step) + HORIZON] += more
        step += 1
        blocks = (max(needs + given, 0) * inverse) >> shift
        plans[_place(lo, step)] += blocks - taken
        taken = blocks
        verification += 1
        more = 1 + np.int64(accepted[verification])
        given += more
    return step


@leaf
def planned_blocks(ws, inst, engine):
    """Return the blocks of one group that are taken in this step."""
    return np.int64(ws.plans[_place(engine["plan_lo"], inst["step"])])


@leaf
def planned_tokens(ws, inst, engine):
    """Return the tokens that this step gives to those whom it does not finish."""
    return np.int64(ws.plans[_place(engine["plan_lo"], inst["step"]) + HORIZON])
