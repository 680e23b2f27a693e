"""The end of a step: sampled tokens, finished requests (rule R5.4)."""

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NONE, Event
from ..offload.connector import note_finish
from ..tally import add_gap, log_event
from ..time.calendar import find_due, leave_running
from ..time.decoding import most_computed
from .running import begin_decode, free_request


@leaf
def _sample(ws, inst, tally, progress, measured):
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
    free_request(inp, ws, lane, inst, tally, r, most_computed(request))
    progress["finish"] = inst["clock"]
    progress["status"] = RequestStatus.COMPLETED
    inst["load"] -= 1
    inst["completed"] += r >= lane["warmup"]
    if lane["connects"]:
        note_finish(inp, ws, lane, inst, r)


@leaf
def _sample_due(inp, ws, out, lane, inst, tally, index, r, position):
    """Sample the token of the request at `position`, which is due; return whether it goes on."""
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    measured = r >= lane["warmup"]
    stays = False
    if not progress["decoding"]:
        log_event(out, lane, inst, tally, index, Event.SAMPLE, r, NONE)
        _sample(ws, inst, tally, progress, measured)
        stays = progress["outputs"] < request["output"]
        if stays:
            begin_decode(inp, ws, lane, inst, request, progress, position, inst["step"] + 1)
            inst["prefilling"] -= 1
            inst["measured"] += measured
    if not stays:
        log_event(out, lane, inst, tally, index, Event.FINISH, r, NONE)
        _finish(inp, ws, lane, inst, tally, r)
    return stays


@leaf
def process_outputs(inp, ws, out, lane, inst, tally, index):
    """Serve the requests that are due at the end of this step, in scheduling order.

    The order fixes the LRU order of the blocks they free.
    """
    if inst["next_due"] > inst["step"]:
        return
    position, last, after = find_due(ws, inst)
    while position <= last:
        place = inst["run_lo"] + position
        if ws.due[place] == inst["step"]:
            if not _sample_due(inp, ws, out, lane, inst, tally, index, ws.running[place], position):
                leave_running(ws, inst, position)
                last -= 1
                continue
            after = min(after, ws.due[place])
        position += 1
    inst["next_due"] = after
