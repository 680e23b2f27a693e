"""When the requests of a run of decode steps need attention, and what they are given then."""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import blocks_for, tokens_beyond
from ..time.calendar import find_due
from ..time.windows import inside
from .planning import is_sure, is_to_tell, places_at, planned_blocks, verify
from .slots import FAR, groups_of
from .states import decode_states, keeps_states, next_change
from .tables import cache_known


@leaf
def fit(lane, tally, state, tokens, measured):
    """Note the blocks that a request has taken since, for so many tokens."""
    if tokens > state["room"]:
        blocks = blocks_for(lane, tokens)
        tally["blocks_taken"] += (blocks - state["blocks"]) * groups_of(lane) * measured
        state["blocks"] = blocks
        state["room"] = blocks * lane["block_size"]


@leaf
def catch_up(inp, ws, lane, inst, tally, engine, r):
    """Bring a request up to date with the steps of the run since it was."""
    state = ws.states[engine["state_lo"] + r]
    steps = (inst["step"] - state["since"]) // max(1, lane["stages"])
    if steps == 0:
        return
    measured = r >= lane["warmup"]
    gained = np.int64(steps)
    request = inp.requests[lane["request_lo"] + r]
    if lane["drafts"] > 0:
        gained, last = verify(inp, lane, engine, request, state, steps)
        engine["at_once"] += (gained - steps) * measured
        fit(lane, tally, state, places_at(lane, state["known"] + gained - last), measured)
    state["computed"] += gained
    state["known"] += gained
    state["sure"] += gained
    if lane["drafts"] > 0 and lane["async_scheduling"]:
        state["sure"] = state["known"] + state["coming"]
    state["since"] += steps * max(1, lane["stages"])
    if lane["drafts"] == 0:
        fit(lane, tally, state, state["computed"], measured)
    elif state["published"] < state["private"]:
        s = engine["state_lo"] + r
        settled = np.int64(state["computed"]) - state["flight"]
        cache_known(inp, ws, lane, inst, request, state, s, settled)


@leaf
def phases_of(lane):
    """Return the phases of an instance; in a pipeline each class has its own."""
    return lane["block_size"] * max(1, lane["stages"])


@leaf
def phase_at(lane, inst, number):
    """Return the place of the phase of a schedule in a pipeline."""
    return inst["phase_lo"] + number % phases_of(lane)


@leaf
def phase_of(lane, inst, state):
    """Return the place of the phase at which a request takes blocks."""
    ahead = state["room"] - state["computed"]
    if lane["stages"]:
        return phase_at(lane, inst, state["since"] + ahead * lane["stages"])
    return inst["phase_lo"] + tokens_beyond(lane, state["since"] + ahead)


@leaf
def _last_step(lane, request, state):
    """Return in how many steps a request has its last token, or is told to have it soon.

    A schedule tells of it; asynchronously that is one step before.
    """
    steps = np.int64(state["limit"]) - 1 - state["known"]
    if lane["async_scheduling"] and is_to_tell(lane, request, state):
        steps -= 1
    return steps


@leaf
def tells(lane, request, state):
    """Return whether this step must tell of the end of a request that is due and up to date."""
    tells = is_to_tell(lane, request, state)
    return tells and (lane["drafts"] > 0 or _last_step(lane, request, state) <= 0)


@leaf
def next_due(ws, lane, request, state, s, step):
    """Return the next step at which a request, up to date at `step`, has its last token.

    Or fills a block that others look up, or its states change; its other blocks are counted by
    phase.
    """
    steps = _last_step(lane, request, state)
    if state["published"] < state["private"]:
        filled = min(np.int64(state["computed"]) + 1, np.int64(state["known"]))
        steps = min(steps, state["publish_at"] - filled)
    if keeps_states(lane):
        steps = min(steps, next_change(ws, lane, state, s))
    return step + max(steps, 0)


@leaf
def is_last(lane, inst, state, due):
    """Return whether a request, up to date if it is due, has its last token with this step.

    Asynchronously that is the one on the device; drafts make one due to be told of too.
    """
    comes = np.int64(1)
    if lane["drafts"] > 0:
        comes = np.int64(state["coming"]) if lane["async_scheduling"] else np.int64(FAR)
    return due == inst["step"] and state["known"] + comes >= state["limit"]


@leaf
def count_ending(inp, ws, lane, inst, tally, engine, first, last):
    """Find who has the last token with this step.

    Returns
    -------
    ending, spared : int
        How many have; how many of them would take a block in it, and do not.
    told : bool
        Whether a schedule is needed, to tell of an end.
    """
    ending = np.int64(0)
    spared = np.int64(0)
    told = False
    for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
        if ws.due[place] == inst["step"]:
            r = ws.running[place]
            catch_up(inp, ws, lane, inst, tally, engine, r)
            state = ws.states[engine["state_lo"] + r]
            request = inp.requests[lane["request_lo"] + r]
            ends = is_last(lane, inst, state, ws.due[place])
            told = told or tells(lane, request, state)
            ending += ends and (lane["drafts"] == 0 or is_sure(lane, state))
            if ends and lane["async_scheduling"] and lane["drafts"] == 0:
                spared += state["computed"] == state["room"]
    return ending, spared, told


@leaf
def this_phase(lane, inst):
    """Return the place of the phase of this step."""
    if lane["stages"]:
        return phase_at(lane, inst, inst["step"])
    return inst["phase_lo"] + tokens_beyond(lane, inst["step"])


@leaf
def blocks_needed(ws, lane, inst, engine, phase):
    """Return how many blocks of each group the running requests take in this step, at `phase`."""
    return planned_blocks(ws, inst, engine) if lane["drafts"] > 0 else ws.phases[phase]


@leaf
def do_due(inp, ws, lane, inst, tally, engine, place):
    """Cache a block of the request at a place, if it is due, and do what its states are due for."""
    if ws.due[place] == inst["step"]:
        r = ws.running[place]
        catch_up(inp, ws, lane, inst, tally, engine, r)
        s = engine["state_lo"] + r
        state = ws.states[s]
        ends = state["known"] + 1 >= state["limit"]
        if not (ends and lane["async_scheduling"]):
            request = inp.requests[lane["request_lo"] + r]
            tokens = np.int64(state["computed"]) + 1
            if keeps_states(lane):
                measured = r >= lane["warmup"]
                decode_states(ws, lane, inst, tally, engine, state, s, measured)
            cache_known(inp, ws, lane, inst, request, state, s, tokens)
            if not ends:
                ws.due[place] = next_due(ws, lane, request, state, s, inst["step"])


@leaf
def cache_due(inp, ws, lane, inst, tally, engine, first, last):
    """Cache the blocks that are due as others look them up, and do what states are due for."""
    for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
        do_due(inp, ws, lane, inst, tally, engine, place)


@leaf
def cache_filled(inp, ws, lane, inst, tally, engine):
    """Cache what those who are counted have filled with drafts, that of this schedule too."""
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        r = ws.running[place]
        s = engine["state_lo"] + r
        state = ws.states[s]
        if state["published"] < state["private"]:
            catch_up(inp, ws, lane, inst, tally, engine, r)
            request = inp.requests[lane["request_lo"] + r]
            if not is_sure(lane, state):  # else this schedule passes over it
                cache_known(inp, ws, lane, inst, request, state, s, np.int64(state["known"]))


@leaf
def is_served(lane, inst, state):
    """Return whether this step serves a request: asynchronously not if its last token is coming."""
    known = state["known"] + inst["step"] - state["since"]
    return not lane["async_scheduling"] or known + 1 < state["limit"]


@leaf
def served(ws, lane, inst, engine, in_window):
    """Return how many of those who are counted this step serves, and of them what is summed.

    Their context, what of it is inside a window (`in_window` of all who are counted), the measured.
    """
    count = np.int64(engine["counted"])
    context = np.int64(engine["context"])
    measured = np.int64(engine["measured"])
    if lane["async_scheduling"]:
        first, last, _ = find_due(ws, inst)
        for place in range(inst["run_lo"] + first, inst["run_lo"] + last + 1):
            r = ws.running[place]
            state = ws.states[engine["state_lo"] + r]
            if ws.due[place] == inst["step"] and not is_served(lane, inst, state):
                count -= 1
                context -= state["computed"]
                in_window -= inside(lane, state["computed"], 1)
                measured -= r >= lane["warmup"]
    return count, context, in_window, measured
