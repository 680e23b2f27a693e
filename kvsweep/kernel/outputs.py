"""What a step samples and whom it finishes (rule R5.4).

Synchronously that is processed at its end. Asynchronously (rule R10) all but the release of blocks
and seats is certain, and is processed, as soon as the step is scheduled: requests go on to decode
in the next step; those whose last token is on its way leave once it is there (`retire`).
"""

from .._jit import leaf
from ..policies import RequestStatus
from ..records import NONE, Event
from . import blocks, waiting
from .calendar import IDLE, find_due, leave_running
from .decoding import most_computed, settled_tokens
from .running import begin_decode, let_go, publish_decodes, stop_decode
from .sizes import full_blocks
from .tally import add_gap, log_event


@leaf
def _sample(ws, tally, progress, measured, end):
    """Append the token that ends a prefill: the first one, or the next after a preemption."""
    progress["outputs"] += 1
    if progress["outputs"] == 1:
        progress["first_token"] = end
    elif measured:
        add_gap(ws, tally, end - progress["last_token"], 1)
    progress["last_token"] = NONE


@leaf
def _finish(inp, ws, lane, inst, tally, r):
    """End a request whose last token was just sampled; its blocks are free at once."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    computed = most_computed(request)
    let_go(inp, ws, lane, inst, tally, r, computed, computed)
    _complete(ws, lane, inst, progress, r)


@leaf
def _complete(ws, lane, inst, progress, r):
    progress["finish"] = inst["clock"]
    progress["status"] = RequestStatus.COMPLETED
    inst["load"] -= 1
    inst["completed"] += r >= lane["warmup"]


@leaf
def _begin_leaving(inp, ws, lane, inst, r):
    """Let a request whose last token is on its way be scheduled no more; it keeps its blocks."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    step = inst["step"]
    if progress["decoding"]:
        if request["shared"] and lane["prefix_caching"]:
            settled = settled_tokens(lane, progress, step + 1, step - 1)
            blocks.publish(inp, ws, lane, inst, request, progress, full_blocks(lane, settled))
        stop_decode(ws, inst, progress, r >= lane["warmup"])
    else:
        inst["prefilling"] -= 1
    inst["leaving"] += 1
    progress["leaving"] = 1
    progress["leave_step"] = step
    progress["leave_next"] = NONE
    if inst["leave_head"] == NONE:
        inst["leave_head"] = r
    else:
        ws.progress[inst["leave_tail"]]["leave_next"] = r
    inst["leave_tail"] = r


@leaf
def retire(inp, ws, lane, inst, tally):
    """Let those go whose last token the step that ends at the clock has sampled, in its order.

    Who was preempted meanwhile has no blocks any more, and need not be admitted again.
    """
    while inst["leave_head"] != NONE:
        r = inst["leave_head"]
        progress = ws.progress[r]
        if progress["leave_step"] > inst["ending"]:
            break
        inst["leave_head"] = progress["leave_next"]
        if progress["leaving"] == 1:
            position = 0
            while ws.running[inst["run_lo"] + position] != r:
                position += 1
            if lane["twins"] and inst["gaps"] > 0:
                publish_decodes(inp, ws, lane, inst, inst["step"], inst["step"] - 1)
            _finish(inp, ws, lane, inst, tally, r)
            leave_running(ws, inst, position)
        else:
            waiting.stop_waiting(inp, ws, lane, inst, r)
            waiting.wake_head(inst)
            _complete(ws, lane, inst, progress, r)


@leaf
def _serve_due(inp, ws, out, lane, inst, tally, index, r, position, end):
    """Sample the token of the request at `position`, which is due; return whether it goes on."""
    request = inp.requests[lane["request_lo"] + r]
    progress = ws.progress[r]
    measured = r >= lane["warmup"]
    stays = False
    if not progress["decoding"]:
        log_event(out, tally, inst, lane, Event.SAMPLE, r, index, NONE)
        _sample(ws, tally, progress, measured, end)
        stays = progress["outputs"] < request["output"]
        if stays:
            begin_decode(inp, lane, ws, inst, request, progress, position, inst["step"] + 1)
            inst["prefilling"] -= 1
            inst["measured"] += measured
    if not stays:
        log_event(out, tally, inst, lane, Event.FINISH, r, index, NONE)
        if lane["async_scheduling"]:
            _begin_leaving(inp, ws, lane, inst, r)
            ws.due[inst["run_lo"] + position] = IDLE
        else:
            _finish(inp, ws, lane, inst, tally, r)
    return stays or lane["async_scheduling"] != 0


@leaf
def process_outputs(inp, ws, out, lane, inst, tally, index, end):
    """Serve the requests that are due at the `end` of this step, in scheduling order.

    The order fixes the LRU order of the blocks they release.
    """
    if inst["next_due"] > inst["step"]:
        return
    position, last, after = find_due(ws, inst)
    while position <= last:
        place = inst["run_lo"] + position
        if ws.due[place] == inst["step"]:
            r = ws.running[place]
            if not _serve_due(inp, ws, out, lane, inst, tally, index, r, position, end):
                leave_running(ws, inst, position)
                last -= 1
                continue
            after = min(after, ws.due[place])
        position += 1
    inst["next_due"] = after
