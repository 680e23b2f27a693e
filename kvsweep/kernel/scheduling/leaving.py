"""Requests that have all their tokens: they leave with the step that samples the last (rule R5.4).

Asynchronously the next step is scheduled before that one ends (rule R10.3). Until then a request is
*leaving*: it takes part in nothing, but has its seat and its blocks; who is preempted meanwhile has
neither, waits, and leaves from there.
"""

from ..._jit import leaf
from ...policies import Eviction, RequestStatus, Scheduler
from ...records import LEAVING, NONE
from ..blocks import pool
from ..blocks.unsettled import end_fills
from ..offload.connector import note_finish
from ..offload.counted_stores import end_counting
from ..tally import count_computed
from ..time.calendar import IDLE
from ..time.decoding import drop_base, most_computed, next_phase
from . import waiting
from .caching import cache_decodes
from .running import free_request


@leaf
def _complete(inp, ws, lane, inst, r, end):
    """Note that the last token of a request was sampled at `end`."""
    progress = ws.progress[r]
    progress["finish"] = end
    progress["status"] = RequestStatus.COMPLETED
    inst["load"] -= 1
    inst["completed"] += r >= lane["warmup"]
    if lane["connects"]:
        note_finish(inp, ws, lane, inst, r)


@leaf
def finish(inp, ws, lane, inst, tally, r, end):
    """End a running request whose last token is sampled at `end`; its blocks are free at once."""
    request = inp.requests[lane["request_lo"] + r]
    computed = most_computed(request)
    if lane["copies_each_step"] and ws.progress[r]["decoding"]:
        end_fills(inp, ws, lane, inst, request, ws.progress[r])
    if lane["connects"] and ws.progress[r]["decoding"] == 1:
        end_counting(inp, ws, lane, inst, r)
    count_computed(ws, lane, tally, r, computed)
    free_request(inp, ws, lane, inst, tally, r, computed, computed)
    _complete(inp, ws, lane, inst, r, end)


@leaf
def begin_leaving(inp, ws, lane, inst, r, position):
    """Let a request, which this step gives its last token, be scheduled no more.

    It is due again in the next step: when that is scheduled and this one ends, it leaves.
    """
    progress = ws.progress[r]
    request = inp.requests[lane["request_lo"] + r]
    if progress["decoding"] == 1:
        if lane["connects"]:
            end_counting(inp, ws, lane, inst, r)
        drop_base(ws, lane, inst, progress)
        inst["measured"] -= r >= lane["warmup"]
        inst["prefilling"] += 1
        progress["outputs"] = request["output"]
    inst["leaving"] += 1
    progress["decoding"] = LEAVING
    ws.due[inst["run_lo"] + position] = inst["step"] + 1


@leaf
def may_leave_at_once(ws, lane, inst, others_due, until):
    """Return whether those who are due may leave now, one step early, as nobody can tell.

    All decode, others go on, the next step has blocks for them and tries no head, and it is over,
    with these gone, before anything else happens. It evicts none of theirs: they are freed last.
    (Where somebody missed a step, another was preempted in it, and the head is tried.)
    """
    alike = inst["prefilling"] == 0 and others_due < IDLE
    need = ws.phases[inst["phase_lo"] + next_phase(lane, inst["phase"])]
    alike = alike and need <= inst["free"]
    rests = inst["try_head"] == 0 and inst["try_head_at"] > inst["step"] + 1
    alike = alike and (inst["waiting"] == 0 or (rests and not lane["impatient"]))
    head = inst["inbox_head"]
    alike = alike and (head == NONE or ws.progress[head]["queued"] > inst["clock"])
    alike = alike and lane["eviction"] == Eviction.LRU
    alike = alike and not (lane["visit_all"] or lane["log"] or lane["any_duplicates"])
    return alike and inst["clock"] + inst["device"] < until


@leaf
def leave_early(ws, lane, inst, free, uncached):
    """Let those who have left at once have done so after the next step.

    That evicts first what it lacks: of the blocks that were `free` before, `uncached` had no key.
    What they gave back counts as used until it is over, and only then the head is tried.
    """
    need = ws.phases[inst["phase_lo"] + next_phase(lane, inst["phase"])]
    pool.evict(ws, inst, need - uncached)
    inst["used_time"] += (inst["free"] - free) * inst["device"]
    inst["peak"] = max(inst["peak"], lane["gpu_blocks"] - free + need)
    waiting.refuse_head(inst, inst["step"] + 2)


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
        _complete(inp, ws, lane, inst, r, inst["clock"])
        inst["leaving_waiting"] -= 1


@leaf
def leave_first(inp, ws, lane, inst):
    """Do what comes before the outputs of the step that ends at the clock."""
    if inst["leaving_waiting"] > 0:
        _leave_waiting_list(inp, ws, lane, inst)
    if lane["any_duplicates"] and lane["prefix_caching"] and inst["skipped"] > 0:
        _catch_up(inp, ws, lane, inst)
