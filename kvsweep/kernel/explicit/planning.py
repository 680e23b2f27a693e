"""Steps that verify drafts of those who are counted: what each is to take and to give.

What each verification accepts is drawn beforehand, so it is known in which steps a request takes
blocks and in which it has its last token. The plan of an instance is a ring of the next HORIZON
steps; those that are over are cleared before more is planned.
"""

import numpy as np

from ..._jit import leaf
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
def _add_up(inp, ws, first, wanted):
    """Note what the next verifications give, each with those before it, from place 1 on.

    Return how many there are that do not finish the request, at most those that can be planned.
    """
    accepted, sums = inp.accepted, ws.sums
    count = np.int64(0)
    given = 1 + np.int64(accepted[first])
    while given < wanted and count < HORIZON - 1:
        count += 1
        sums[count] = given
        given += 1 + np.int64(accepted[first + count])
    return count


@leaf
def _add_tokens(ws, lo, step, count):
    """Plan the tokens of `count` steps."""
    sums, plans = ws.sums, ws.plans
    sums[0] = 0
    for ahead in range(count):
        plans[_place(lo, step + ahead) + HORIZON] += sums[ahead + 1] - sums[ahead]


@leaf
def _add_blocks(ws, lane, lo, step, count, needs):
    """Plan the blocks of the `count` steps behind `step`, in which tokens have been given.

    Vector instructions: nothing is read in the loops that compilers could take for written in them,
    not even where an array is. (One loop of plain instructions took twice as long.)
    """
    sums, plans = ws.sums, ws.plans
    inverse, shift = np.uint64(np.uint32(lane["inverse"])), np.uint64(lane["inverse_shift"])
    sums[0] = 0
    for ahead in range(count + 1):
        tokens = np.uint32(max(needs + sums[ahead], 0))
        sums[ahead] = (np.uint64(tokens) * inverse) >> shift
    place = _place(lo, step) + 1
    before = min(count, lo + HORIZON - place)  # the others are at the begin of the ring
    for ahead in range(before):
        plans[place + ahead] += sums[ahead + 1] - sums[ahead]
    for ahead in range(count - before):
        plans[lo + ahead] += sums[before + ahead + 1] - sums[before + ahead]


@leaf
def plan(inp, ws, lane, inst, engine, request, state, joins):
    """Plan the steps of a request that is up to date; return the last one.

    It is the one that finishes it, or the last for which there is room. Unless the request `joins`
    those who are counted its blocks of this step are planned already.
    """
    lo, step = np.int64(engine["plan_lo"]), np.int64(inst["step"])
    wanted = np.int64(state["limit"]) - state["known"]
    count = _add_up(inp, ws, np.int64(request["accepted_lo"]) + state["verified"], wanted)
    if lane["context"]:
        _add_tokens(ws, lo, step, count)
    needs = state["known"] + 2 * lane["drafts"] - state["room"] + lane["block_size"] - 1
    _add_blocks(ws, lane, lo, step, count, np.int64(needs))
    if joins:
        ws.plans[_place(lo, step)] += ws.sums[0]
    return step + count


@leaf
def planned_blocks(ws, inst, engine):
    """Return the blocks of one group that are taken in this step."""
    return np.int64(ws.plans[_place(engine["plan_lo"], inst["step"])])


@leaf
def planned_tokens(ws, inst, engine):
    """Return the tokens that this step gives to those whom it does not finish."""
    return np.int64(ws.plans[_place(engine["plan_lo"], inst["step"]) + HORIZON])
