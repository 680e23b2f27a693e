"""What a step samples and whom it finishes (rule R5.4).

Synchronously that is processed at its end. Asynchronously (rule R10.3) it is when the step is
scheduled, as it is certain then: requests go on to decode in the next step, and who has its last
token on its way begins to leave (leaving.py).
"""

from ..._jit import leaf
from ...records import LEAVING, NONE, Event
from ..routing.answers import note_answer
from ..tally import add_gap, log_event
from ..time.calendar import find_due, leave_running
from .leaving import begin_leaving, finish, leave_early, may_leave_at_once
from .running import begin_decode


@leaf
def _sample(ws, inst, tally, progress, measured):
    """Append the token that ends a prefill: the first one, or the next after a preemption."""
    end = inst["clock"] + inst["device"]
    progress["outputs"] += 1
    if progress["outputs"] == 1:
        progress["first_token"] = end
    elif measured:
        add_gap(ws, tally, end - progress["last_token"], 1)
    progress["last_token"] = NONE


@leaf
def _sample_due(inp, ws, out, lane, inst, tally, index, r, position, at_once):
    """Sample the token of the request at `position`, which is due; return whether it stays.

    With its last one it leaves; asynchronously one step later, but if it may leave `at_once`.
    """
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    measured = r >= lane["warmup"]
    stays = False
    if not progress["decoding"]:
        log_event(out, lane, inst, tally, index, Event.SAMPLE, r, NONE)
        _sample(ws, inst, tally, progress, measured)
        if progress["outputs"] == 1:
            note_answer(ws, lane, r)
        stays = progress["outputs"] < request["output"]
        if stays:
            begin_decode(inp, ws, lane, inst, request, progress, position, inst["step"] + 1)
            inst["prefilling"] -= 1
            inst["measured"] += measured
    if at_once:
        finish(inp, ws, lane, inst, tally, r, inst["clock"] + inst["device"])
    elif not stays and lane["async_scheduling"] and progress["decoding"] != LEAVING:
        log_event(out, lane, inst, tally, index, Event.FINISH, r, NONE)
        begin_leaving(inp, ws, lane, inst, r, position)
        stays = True
    elif not stays:
        if not lane["async_scheduling"]:
            log_event(out, lane, inst, tally, index, Event.FINISH, r, NONE)
        finish(inp, ws, lane, inst, tally, r, inst["clock"])
    return stays


@leaf
def process_outputs(inp, ws, out, lane, inst, tally, index, until):
    """Serve the requests that are due at the end of this step, in scheduling order.

    The order fixes the LRU order of the blocks they free. Nothing else happens before `until`.
    """
    if inst["next_due"] > inst["step"]:
        return
    position, last, after = find_due(ws, inst)
    free, uncached = inst["free"], inst["free"] - inst["evictable"]
    at_once = lane["async_scheduling"] and position <= last  # who was due may be preempted
    at_once = at_once and may_leave_at_once(ws, lane, inst, after, until)
    while position <= last:
        place = inst["run_lo"] + position
        if ws.due[place] == inst["step"]:
            r = ws.running[place]
            if not _sample_due(inp, ws, out, lane, inst, tally, index, r, position, at_once):
                leave_running(ws, inst, position)
                last -= 1
                continue
            after = min(after, ws.due[place])
        position += 1
    inst["next_due"] = after
    if at_once:
        leave_early(ws, lane, inst, free, uncached)
