"""Context of those who are counted inside a sliding window (`time.windows`).

Without drafts the base of a request is the step before which it would have computed nothing. With
drafts it gains several tokens a step, and what is inside is planned with them (planning.py).
"""

import numpy as np

from ..._jit import leaf
from ..time.windows import all_inside, count_anew, join_short, leave_short
from .planning import planned_inside


@leaf
def join_inside(lane, inst, engine, state):
    """Count a request, up to date, that is counted from now on; the first of them begins anew."""
    if lane["reach"]:
        if engine["counted"] == 1:
            count_anew(inst, inst["step"])
        if lane["drafts"] == 0:
            join_short(lane, inst, np.int64(state["since"]) - state["computed"])


@leaf
def leave_inside(lane, inst, state):
    """Count a request no more that is up to date and counted no more."""
    if lane["reach"] and lane["drafts"] == 0:
        leave_short(lane, inst, np.int64(state["since"]) - state["computed"])


@leaf
def _look(ws, lane, inst, engine):
    """Count who is short in this step."""
    count_anew(inst, inst["step"])
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        state = ws.states[engine["state_lo"] + ws.running[place]]
        join_short(lane, inst, np.int64(state["since"]) - state["computed"])


@leaf
def counted_inside(ws, lane, inst, engine):
    """Return the tokens inside a window before those that this step computes of who is counted."""
    found = np.int64(0)
    if lane["reach"] and lane["drafts"] > 0:
        found = planned_inside(ws, inst, engine)
    elif lane["reach"]:
        if inst["step"] >= inst["outgrown_at"]:
            _look(ws, lane, inst, engine)
        found = np.int64(all_inside(lane, inst, engine["counted"], inst["step"]))
    return found
