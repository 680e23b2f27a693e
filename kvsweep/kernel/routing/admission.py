"""Admission control: which arriving requests are let in."""

from ..._jit import leaf
from ...policies import Admission
from ...records import LaneStatus


@leaf
def _take_tokens(ws, lane, prompt, now):
    """Take a prompt's tokens out of the token bucket; return whether it held as many.

    Refilled from time 0 on and evaluated in this order, as inference-sim does.
    """
    router = ws.router[0]
    refill = (now - router["refilled"]) * lane["bucket_refill"] / 1e6
    router["refilled"] = now
    router["tokens"] = min(lane["bucket_capacity"], router["tokens"] + refill)
    enough = router["tokens"] >= prompt
    if enough:
        router["tokens"] -= prompt
    return enough


@leaf
def is_admitted(inp, ws, lane, tally, r):
    """Decide about a request; to be asked once for each, in order of (arrival, id)."""
    admitted = False
    if lane["admission"] == Admission.ALWAYS:
        admitted = True
    elif lane["admission"] == Admission.TOKEN_BUCKET:
        prompt = inp.requests[lane["request_lo"] + r]["prompt"]
        now = ws.progress[r]["arrival"] + lane["admission_latency"]
        admitted = _take_tokens(ws, lane, prompt, now)
    elif lane["admission"] != Admission.REJECT_ALL:
        tally["status"] = LaneStatus.UNKNOWN_POLICY
    return admitted
