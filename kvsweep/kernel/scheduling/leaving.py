"""Requests that have all their tokens: they leave with the step that samples the last (rule R5.4).

Asynchronously the next step is scheduled before that one ends (rule R10.3). Until then a request is
*leaving*: it takes part in nothing, but has its seat and its blocks; who is preempted meanwhile has
neither, waits, and leaves from there.
"""

from ..._jit import leaf
from ...policies import RequestStatus, Scheduler
from ...records import LEAVING
from ..blocks.unsettled import end_fills
from ..offload.connector import note_finish
from ..tally import count_computed
from ..time.decoding import drop_base, most_computed
from . import waiting
from .caching import cache_decodes
from .running import free_request


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
    if lane["copies_each_step"] and ws.progress[r]["decoding"]:
        end_fills(inp, ws, lane, inst, request, ws.progress[r])
    count_computed(ws, lane, tally, r, computed)
    free_request(inp, ws, lane, inst, tally, r, computed, computed)
    _complete(inp, ws, lane, inst, r)


@leaf
def begin_leaving(inp, ws, lane, inst, r, position):
    """Let a request, which this step gives its last token, be scheduled no more.

    It is due again in the next step: when that is scheduled and this one ends, it leaves.
    """
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    if progress["decoding"] == 1:
        drop_base(ws, inst, progress)
        inst["measured"] -= r >= lane["warmup"]
        inst["prefilling"] += 1
        progress["outputs"] = request["output"]
    inst["leaving"] += 1
    progress["decoding"] = LEAVING
    ws.due[inst["run_lo"] + position] = inst["step"] + 1


@leaf
def _catch_up(inp, ws, lane, inst):
    """Cache what those filled that missed this step, before who leaves does: in running order."""
    cache_decodes(inp, ws, lane, inst, inst["step"] + 1, inst["step"])


@leaf
def _leaves_from_waiting(ws, lane, inst):
    """Return a waiting request whose last token is on its way; there must be one."""
    if lane["scheduler"] == Scheduler.FCFS:
        r = inst["wait_head"]
        while ws.progress[r]["decoding"] != LEAVING:
            r = ws.progress[r]["next"]
    else:
        place = inst["heap_lo"]
        while ws.progress[ws.heap[place]]["decoding"] != LEAVING:
            place += 1
        r = ws.heap[place]
    return r


@leaf
def _leave_waiting_list(inp, ws, lane, inst):
    """Let those go that were preempted while their last token was on its way: it is there now."""
    while inst["leaving_waiting"] > 0:
        r = _leaves_from_waiting(ws, lane, inst)
        waiting.stop_waiting(inp, ws, lane, inst, r)
        waiting.wake_head(inst)
        _complete(inp, ws, lane, inst, r)
        inst["leaving_waiting"] -= 1


@leaf
def leave_first(inp, ws, lane, inst):
    """Do what comes before the outputs of the step that ends at the clock."""
    if inst["leaving_waiting"] > 0:
        _leave_waiting_list(inp, ws, lane, inst)
    if lane["any_duplicates"] and lane["prefix_caching"] and inst["skipped"] > 0:
        _catch_up(inp, ws, lane, inst)
