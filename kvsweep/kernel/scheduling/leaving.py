"""Requests that have all their tokens: they leave with the step that samples the last (rule R5.4).

Asynchronously the next step is scheduled before that one ends (rule R10.3). Until then a request is
*leaving*: it takes part in nothing, but has its seat and its blocks; who is preempted meanwhile has
neither, waits, and leaves from there.
"""

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NONE
from ..blocks import pool
from ..blocks.sizes import full_blocks
from ..offload.connector import note_finish
from ..time.calendar import leave_running
from ..time.decoding import most_computed, settled_tokens
from . import waiting
from .caching import cache_decodes
from .running import free_request, stop_decode


@leaf
def _complete(inp, ws, lane, inst, r):
    """Note that the last token of a request was sampled at the clock."""
    progress = ws.progress[r]
    progress["finish"] = inst["clock"]
    progress["status"] = RequestStatus.COMPLETED
    inst["load"] -= 1
    inst["completed"] += r >= lane["warmup"]
    if lane["connects"]:
        note_finish(inp, ws, lane, inst, r)


@leaf
def finish(inp, ws, lane, inst, tally, r):
    """End a running request whose last token was just sampled; its blocks are free at once."""
    request = inp.requests[lane["request_lo"] + r]
    computed = most_computed(request)
    free_request(inp, ws, lane, inst, tally, r, computed, computed)
    _complete(inp, ws, lane, inst, r)


@leaf
def _join_leaving(ws, inst, r):
    """Append a request to the list of those that leave, which is in the order of scheduling."""
    progress = ws.progress[r]
    progress["leaving"] = 1
    progress["leave_step"] = inst["step"]
    progress["leave_next"] = NONE
    if inst["leave_head"] == NONE:
        inst["leave_head"] = r
    else:
        ws.progress[inst["leave_tail"]]["leave_next"] = r
    inst["leave_tail"] = r
    inst["leaving"] += 1


@leaf
def begin_leaving(inp, ws, lane, inst, r):
    """Let a request, which this step gives its last token, be scheduled no more."""
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    step = inst["step"]
    if progress["decoding"]:
        if request["shared"] and lane["prefix_caching"]:
            full = full_blocks(lane, settled_tokens(lane, progress, step + 1, step - 1))
            pool.cache_blocks(inp, ws, lane, inst, request, progress, full)
        stop_decode(ws, inst, progress, r >= lane["warmup"])
    else:
        inst["prefilling"] -= 1
    _join_leaving(ws, inst, r)


@leaf
def _leave_seat(inp, ws, lane, inst, tally, r):
    """Let a running request go.

    Who missed the step scheduled meanwhile caches what it filled before it, in running order.
    """
    position = 0
    while ws.running[inst["run_lo"] + position] != r:
        position += 1
    if lane["any_duplicates"] and inst["skipped"] > 0:
        cache_decodes(inp, ws, lane, inst, inst["step"], inst["step"] - 1)
    finish(inp, ws, lane, inst, tally, r)
    leave_running(ws, inst, position)


@leaf
def retire(inp, ws, lane, inst, tally):
    """Let those go whose last token is of the step that ends at the clock."""
    while inst["leave_head"] != NONE:
        r = inst["leave_head"]
        progress = ws.progress[r]
        if progress["leave_step"] > inst["ending"]:
            break
        inst["leave_head"] = progress["leave_next"]
        if progress["leaving"] == 1:
            _leave_seat(inp, ws, lane, inst, tally, r)
        else:
            waiting.stop_waiting(inp, ws, lane, inst, r)
            waiting.wake_head(inst)
            _complete(inp, ws, lane, inst, r)
