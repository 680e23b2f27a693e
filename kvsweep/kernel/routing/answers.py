"""What a sticky router counts as in flight: from when it sends a request until that is answered.

An answer is the first token, or the end of a request that gets none. Those who process it note it
(`note_answer`); the router looks when it routes, as a token may be certain before it is there.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE


@leaf
def begin_counting(ws, lane):
    """Count nothing yet."""
    ws.router[0]["answered"] = 0
    for r in range(lane["requests"]):
        ws.sent[r]["instance"] = NONE
        ws.sent[r]["decoder"] = NONE


@leaf
def count_sent(ws, lane, index, r, tokens):
    """Count so many tokens of request `r` as in flight at an instance from now on."""
    ws.snapshots[index]["in_flight"] += tokens
    if lane["disaggregated"] and index >= lane["routed"]:
        ws.sent[r]["decoder"] = index
        ws.sent[r]["decoder_tokens"] = tokens
    else:
        ws.sent[r]["instance"] = index
        ws.sent[r]["tokens"] = tokens


@leaf
def note_answer(ws, lane, r):
    """Note that a request gets its first token, or ends without one."""
    if lane["counts_tokens"]:
        ws.answered[ws.router[0]["answered"]] = r
        ws.router[0]["answered"] += 1


@leaf
def _forget(ws, r):
    """Count nothing of a request any more."""
    sent = ws.sent[r]
    if sent["instance"] != NONE:
        ws.snapshots[sent["instance"]]["in_flight"] -= sent["tokens"]
    if sent["decoder"] != NONE:
        ws.snapshots[sent["decoder"]]["in_flight"] -= sent["decoder_tokens"]


@leaf
def forget_answered(ws, now):
    """Count requests no more whose answer was there before `now`; later ones stay noted."""
    kept = 0
    for place in range(ws.router[0]["answered"]):
        r = np.int64(ws.answered[place])
        if ws.progress[r]["first_token"] < now:  # NONE is
            _forget(ws, r)
        else:
            ws.answered[kept] = r
            kept += 1
    ws.router[0]["answered"] = kept
