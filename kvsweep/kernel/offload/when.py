"""When steps that store what is decoded may be run by counts."""

from ..._jit import leaf
from ..scheduling.admit import may_admit


@leaf
def stores_meanwhile(lane, inst):
    """Return whether a run of decode steps may go on while requests store what they decode.

    A copy wakes the head of the waiting list: so there must be none, or no seat for it. And the
    begin of each step must be known, so that all take the same time.
    """
    return not (lane["prompt_only"] or lane["context"] or may_admit(lane, inst))
