"""Context inside a sliding window, where step times tell it apart (`LANE.reach`).

Of tokens that follow one another it is a closed form. Of all who decode, one token a step, it
follows from counts: who has computed no more than a window reaches, and so is *short*, has all of
it inside, the others have a whole window. Who is short at ``looked_at`` is known by its base, the
step before which it had computed nothing. When the first of them is short no more, all are looked
at: as often as requests finish, at most.
"""

import numpy as np

from ..._jit import leaf
from ...records import NEVER


@leaf
def _up_to(lane, tokens):
    """Return the tokens inside a window before each of the first `tokens`, summed."""
    short = min(tokens, lane["reach"])
    return short * (short - 1) // 2 + lane["reach"] * (tokens - short)


@leaf
def inside(lane, computed, tokens):
    """Return the tokens inside a window before each of `tokens` tokens behind `computed`, summed.

    0 where step times do not ask for it.
    """
    found = np.int64(0)
    if lane["reach"]:
        found = np.int64(_up_to(lane, computed + tokens) - _up_to(lane, computed))
    return found


@leaf
def join_short(lane, inst, base):
    """Count a request that decodes from now on, if it is short."""
    if lane["reach"]:
        outgrown = base + lane["reach"]
        if outgrown > inst["looked_at"]:
            inst["short"] += 1
            inst["short_base"] += base
            inst["outgrown_at"] = min(inst["outgrown_at"], outgrown)


@leaf
def leave_short(lane, inst, base):
    """Count a request no more that stops decoding."""
    if lane["reach"] and base + lane["reach"] > inst["looked_at"]:
        inst["short"] -= 1
        inst["short_base"] -= base


@leaf
def count_anew(inst, step):
    """Begin to count who is short at `step`: nobody yet."""
    inst["short"] = 0
    inst["short_base"] = 0
    inst["outgrown_at"] = NEVER
    inst["looked_at"] = step


@leaf
def all_inside(lane, inst, count, step):
    """Return the tokens inside a window before those that `count` requests decode in `step`.

    Who has outgrown it until then is not counted as short any more.
    """
    short = inst["short"] * step - inst["short_base"]
    return short + (count - inst["short"]) * lane["reach"]
