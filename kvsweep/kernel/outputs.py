"""The end of a step: sampled tokens, finished requests (semantics section 5.4)."""

from .._jit import leaf
from ..policies import RequestStatus
from ..records import NEVER, NONE, Event
from .running import begin_decode, let_go
from .tally import add_gap, log_event


@leaf
def _sample(ws, tally, inst, progress, measured):
    """Append the token that ends a prefill: the first one, or the next after a preemption."""
    progress["outputs"] += 1
    if progress["outputs"] == 1:
        progress["first_token"] = inst["clock"]
    elif measured:
        add_gap(ws, tally, inst["clock"] - progress["last_token"], 1)
    progress["last_token"] = NONE


@leaf
def _finish(inp, ws, lane, inst, tally, r):
    """End a request whose last token was just sampled; its blocks are free at once."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    computed = request["prompt"] + request["output"] - 1  # the last token is never computed
    let_go(inp, ws, lane, inst, tally, r, computed)
    progress["finish"] = inst["clock"]
    progress["status"] = RequestStatus.COMPLETED
    inst["load"] -= 1
    inst["completed"] += r >= lane["warmup"]


@leaf
def _serve_due(inp, ws, out, lane, inst, tally, index, r, position):
    """Sample the token of a request that is due; return whether it goes on running.

    It is then at `position` of the running list.
    """
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    measured = r >= lane["warmup"]
    stays = False
    if not progress["decoding"]:
        log_event(out, tally, inst, lane, Event.SAMPLE, r, index, NONE)
        _sample(ws, tally, inst, progress, measured)
        stays = progress["outputs"] < request["output"]
        if stays:
            begin_decode(inp, lane, ws, inst, request, progress, position, inst["step"] + 1)
            inst["prefilling"] -= 1
            inst["measured"] += measured
    if not stays:
        log_event(out, tally, inst, lane, Event.FINISH, r, index, NONE)
        _finish(inp, ws, lane, inst, tally, r)
    return stays


@leaf
def process_outputs(inp, ws, out, lane, inst, tally, index):
    """Serve the requests that are due at the end of this step, in scheduling order.

    The order fixes the LRU order of the blocks they release. The last loop compiles to vector
    instructions, so the scan costs less than a calendar (64 requests: 10 ns).
    """
    lo = inst["run_lo"]
    end = lo + inst["running"]
    kept = lo
    while kept < end and ws.due[kept] != inst["step"]:
        kept += 1
    for place in range(kept, end):
        r = ws.running[place]
        due = ws.due[place]
        ws.running[kept] = r
        ws.due[kept] = due
        if due != inst["step"] or _serve_due(inp, ws, out, lane, inst, tally, index, r, kept - lo):
            kept += 1
    inst["running"] = kept - lo
    nearest = NEVER
    for place in range(lo, kept):
        nearest = min(nearest, ws.due[place])
    inst["next_due"] = nearest
