"""Steps that verify drafts of those who are counted: what the next ones need, some at a time.

What each verification accepts is drawn beforehand, so a request's tokens after so many steps are
known, and with them the steps in which it takes a block and its last one. Plans are sums, of a step
and those before it. (Sums of what is accepted are made anew: to read them took longer.)
"""

import numpy as np

from ..._ahead import LINE, ask_for
from ..._jit import leaf
from ..blocks.sizes import full_blocks
from ..memory import HORIZON, PART, PLAN
from ..time.arrivals import makes_arrival
from ..time.calendar import IDLE
from ..time.windows import inside


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
    if lane["async_scheduling"]:  # the last one is on its way, and that before it has come
        tokens += state["coming"] - last
        coming = last
        last = np.int64(state["coming"])
        if steps > 1:
            last = np.int64(accepted[first + steps - 2]) + 1
        state["coming"] = coming
    state["verified"] += steps
    engine["drafts"] += steps * lane["drafts"]
    engine["accepted"] += tokens - steps
    return tokens, last


@leaf
def ask_for_accepted(inp, lane, r, state):
    """Ask for what the next verifications accept; it is far away, and read in a later step.

    Three lines measured best: without, a lane took 1.3 times as long (`tests/bench/explicit.py`).
    """
    first = np.int64(inp.requests[lane["request_lo"] + r]["accepted_lo"]) + state["verified"]
    for line in range(3):
        ask_for(inp.accepted, first + line * LINE)


@leaf
def _add_up(inp, ws, first, wanted):
    """Note what the next verifications give, each with those before it.

    Return how many of them give fewer tokens than `wanted`.
    """
    accepted, sums = inp.accepted, ws.sums
    given = np.int64(0)
    unfinished = np.int64(0)
    for ahead in range(HORIZON):
        given += 1 + np.int64(accepted[first + ahead])
        sums[ahead] = given
        unfinished += given < wanted
    return unfinished


@leaf
def _add_up_behind(inp, ws, first, wanted, coming):
    """Note likewise what the batch on the device gives, and those behind it."""
    accepted, sums = inp.accepted, ws.sums
    given = coming
    unfinished = np.int64(0)
    for ahead in range(HORIZON):
        sums[ahead] = given
        unfinished += given < wanted
        given += 1 + np.int64(accepted[first + ahead])
    return unfinished


@leaf
def places_at(lane, known):
    """Return how many places a request has that is scheduled with so many known tokens.

    Asynchronously it has tokens on their way, as if all of their drafts were accepted.
    """
    drafts = np.int64(lane["drafts"])
    return known + 1 + 3 * drafts if lane["async_scheduling"] else known + 2 * drafts


@leaf
def is_to_tell(lane, request, state):
    """Return whether the end of a request, up to date, makes an arrival and was not told of yet."""
    return makes_arrival(lane, request) and state["sure"] < state["limit"]


@leaf
def is_sure(lane, state):
    """Return whether the batch on the device surely gives a request, up to date, its last token."""
    return lane["async_scheduling"] and state["known"] + 1 >= state["limit"]


@leaf
def blocks_wanted(lane, state):
    """Return the blocks of each group that a request, up to date, takes in this step."""
    needs = np.int64(0)
    if not is_sure(lane, state):
        lacking = places_at(lane, np.int64(state["known"])) - state["room"]
        needs = max(lacking + lane["block_size"] - 1, needs)
    return full_blocks(lane, needs)


@leaf
def _place(inst, engine):
    """Return the place of this step in the plan of blocks; the one before it is of the last."""
    return engine["plan_lo"] + 1 + inst["step"] + HORIZON - engine["planned"]


@leaf
def _add_blocks(ws, lane, place, most, needs):
    """Plan the blocks of the steps from `place` on; with `most` tokens the request takes no more.

    Vector instructions: so many steps always, and nothing is read in the loop that compilers could
    take for written in it, not even where an array is.
    """
    sums, plans = ws.sums, ws.plans
    inverse = np.int64(lane["inverse"])
    shift = np.int64(lane["inverse_shift"])
    for ahead in range(HORIZON):
        tokens = max(needs + min(sums[ahead], most), 0)
        plans[place + ahead] += (tokens * inverse) >> shift


@leaf
def _add_tokens(ws, place, most):
    """Plan the tokens of steps that do not finish a request, likewise."""
    sums, plans = ws.sums, ws.plans
    for ahead in range(HORIZON):
        plans[place + ahead] += min(sums[ahead], most)


@leaf
def _add_inside(ws, lane, place, computed, unfinished):
    """Plan what is inside a window in the steps up to the one that finishes a request."""
    for ahead in range(min(unfinished + 1, HORIZON)):
        before = computed + (ws.sums[ahead - 1] if ahead > 0 else 0)
        ws.plans[place + ahead] += inside(lane, before, 1)


@leaf
def _most_with_blocks(ws, lane, unfinished, most, wanted):
    """Return the tokens behind which a request takes no more blocks.

    Asynchronously it is not in the batch that is scheduled when its last token surely comes.
    """
    if lane["async_scheduling"] and unfinished > 0 and most + 1 >= wanted:
        most = np.int64(ws.sums[unfinished - 2]) if unfinished > 1 else np.int64(0)
    return most


@leaf
def _told_in(inp, ws, first, wanted, unfinished):
    """Return in how many steps a schedule must tell of an end; one before it has come."""
    if unfinished == HORIZON:  # or more
        given = np.int64(ws.sums[HORIZON - 1]) + 1 + np.int64(inp.accepted[first + HORIZON - 1])
        unfinished += given < wanted
    return unfinished - 1


@leaf
def plan_one(inp, ws, lane, inst, engine, request, state):
    """Plan the steps of a request that is up to date; return the one that finishes it.

    Or, asynchronously, the one before, which must tell of it.
    """
    place = _place(inst, engine)
    known = np.int64(state["known"])
    first = np.int64(request["accepted_lo"]) + state["verified"]
    wanted = state["limit"] - known
    if lane["async_scheduling"]:
        unfinished = _add_up_behind(inp, ws, first, wanted, np.int64(state["coming"]))
    else:
        unfinished = _add_up(inp, ws, first, wanted)
    most = np.int64(0)
    if unfinished > 0:
        most = np.int64(ws.sums[unfinished - 1])
    needs = places_at(lane, known) - state["room"] + lane["block_size"] - 1
    if is_sure(lane, state):
        needs = np.int64(0)
    ws.plans[place] += blocks_wanted(lane, state)
    _add_blocks(ws, lane, place + 1, _most_with_blocks(ws, lane, unfinished, most, wanted), needs)
    if lane["context"]:
        _add_tokens(ws, place + PART, most)
    if lane["reach"]:
        _add_inside(ws, lane, place + 2 * PART, np.int64(state["computed"]), unfinished)
    left = engine["planned"] - inst["step"]
    if lane["async_scheduling"] and is_to_tell(lane, request, state):
        unfinished = _told_in(inp, ws, first, wanted, unfinished)
    return np.int64(IDLE) if unfinished >= left else np.int64(inst["step"] + unfinished)


@leaf
def plan(inp, ws, lane, inst, engine):
    """Plan the next steps of all who are counted, who are up to date."""
    for place in range(engine["plan_lo"], engine["plan_lo"] + PLAN):
        ws.plans[place] = 0
    engine["planned"] = inst["step"] + HORIZON
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        r = ws.running[place]
        request = inp.requests[lane["request_lo"] + r]
        state = ws.states[engine["state_lo"] + r]
        ws.due[place] = plan_one(inp, ws, lane, inst, engine, request, state)


@leaf
def planned_blocks(ws, inst, engine):
    """Return the blocks of one group that are taken in this step."""
    place = _place(inst, engine)
    return ws.plans[place] - ws.plans[place - 1]


@leaf
def planned_tokens(ws, inst, engine):
    """Return the tokens that this step gives to those whom it does not finish."""
    place = _place(inst, engine) + PART
    return ws.plans[place] - ws.plans[place - 1]


@leaf
def planned_inside(ws, inst, engine):
    """Return the tokens inside a window before those that this step decodes."""
    return ws.plans[_place(inst, engine) + 2 * PART]
