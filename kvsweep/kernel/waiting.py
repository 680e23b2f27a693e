"""The inbox and the waiting list of an instance.

The inbox holds routed requests until their queueing delay is over, in order of entry. The waiting
list is a deque for fcfs, a binary heap for priority and sjf (equal to vLLM's RequestQueue).
"""

from .._jit import leaf
from ..policies import Priority, Scheduler
from ..records import NONE


@leaf
def enter_inbox(ws, inst, request, time):
    """Insert `request` by its entry time, after those of the same time with a smaller id.

    Searched from the back: entries come nearly in order, only prompt lengths displace them.
    """
    ws.progress[request]["queued"] = time
    before = inst["inbox_tail"]
    while before != NONE and (
        ws.progress[before]["queued"] > time
        or (ws.progress[before]["queued"] == time and before > request)
    ):
        before = ws.progress[before]["prev"]
    after = inst["inbox_head"] if before == NONE else ws.progress[before]["next"]
    ws.progress[request]["prev"] = before
    ws.progress[request]["next"] = after
    if before == NONE:
        inst["inbox_head"] = request
    else:
        ws.progress[before]["next"] = request
    if after == NONE:
        inst["inbox_tail"] = request
    else:
        ws.progress[after]["prev"] = request


@leaf
def leave_inbox(ws, inst):
    """Take the first request out of the inbox."""
    request = inst["inbox_head"]
    after = ws.progress[request]["next"]
    inst["inbox_head"] = after
    if after == NONE:
        inst["inbox_tail"] = NONE
    else:
        ws.progress[after]["prev"] = NONE
    return request


@leaf
def level(inp, lane, request):
    """Return the priority of a request: the one it brings, or that of its class."""
    record = inp.requests[lane["request_lo"] + request]
    return record["priority"] if lane["priority"] == Priority.CONSTANT else record["class_priority"]


@leaf
def urgency(inp, ws, lane, request):
    """Return the first key of the waiting order: priority, or prompt length for sjf.

    With aging, the time at which the request reaches level 0: all age alike, so this order lasts.
    """
    if lane["scheduler"] == Scheduler.SJF:
        rank = inp.requests[lane["request_lo"] + request]["prompt"]
    elif lane["priority"] == Priority.AGE:
        rank = level(inp, lane, request) * lane["age"] + ws.progress[request]["arrival"]
    else:
        rank = level(inp, lane, request)
    return rank


@leaf
def is_before(inp, ws, lane, a, b):
    """Return whether request `a` comes before `b`: (urgency, arrival, id)."""
    urgency_a = urgency(inp, ws, lane, a)
    urgency_b = urgency(inp, ws, lane, b)
    if urgency_a != urgency_b:
        return urgency_a < urgency_b
    arrival_a = ws.progress[a]["arrival"]
    arrival_b = ws.progress[b]["arrival"]
    return arrival_a < arrival_b or (arrival_a == arrival_b and a < b)


@leaf
def _push_heap(inp, ws, lane, inst, request):
    lo = inst["heap_lo"]
    hole = inst["waiting"]
    while hole > 0:
        parent = (hole - 1) >> 1
        if not is_before(inp, ws, lane, request, ws.heap[lo + parent]):
            break
        ws.heap[lo + hole] = ws.heap[lo + parent]
        hole = parent
    ws.heap[lo + hole] = request


@leaf
def _pop_heap(inp, ws, lane, inst):
    lo = inst["heap_lo"]
    size = inst["waiting"] - 1
    last = ws.heap[lo + size]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and is_before(
            inp, ws, lane, ws.heap[lo + child + 1], ws.heap[lo + child]
        ):
            child += 1
        if is_before(inp, ws, lane, last, ws.heap[lo + child]):
            break
        ws.heap[lo + hole] = ws.heap[lo + child]
        hole = child
    ws.heap[lo + hole] = last


@leaf
def wait_last(inp, ws, lane, inst, request):
    """Append an arriving request to the waiting list."""
    if lane["scheduler"] == Scheduler.FCFS:
        back = inst["wait_tail"]
        ws.progress[request]["prev"] = back
        ws.progress[request]["next"] = NONE
        if back == NONE:
            inst["wait_head"] = request
        else:
            ws.progress[back]["next"] = request
        inst["wait_tail"] = request
    else:
        _push_heap(inp, ws, lane, inst, request)
    inst["waiting"] += 1


@leaf
def wait_first(inp, ws, lane, inst, request):
    """Put a preempted request back: in front (fcfs), or by its ordinary order."""
    if lane["scheduler"] == Scheduler.FCFS:
        front = inst["wait_head"]
        ws.progress[request]["prev"] = NONE
        ws.progress[request]["next"] = front
        if front == NONE:
            inst["wait_tail"] = request
        else:
            ws.progress[front]["prev"] = request
        inst["wait_head"] = request
    else:
        _push_heap(inp, ws, lane, inst, request)
    inst["waiting"] += 1


@leaf
def first_waiting(ws, lane, inst):
    """Return the head of the waiting list, which must not be empty."""
    if lane["scheduler"] == Scheduler.FCFS:
        head = inst["wait_head"]
    else:
        head = ws.heap[inst["heap_lo"]]
    return head


@leaf
def wake_head(inst):
    """Let the head of the waiting list be tried in the next step: it may be admissible now.

    Whatever may make a refused head admissible calls it (docs/kernel.md lists who does).
    """
    inst["stale"] = 1


@leaf
def refuse_head(inst, until):
    """Let the head rest to step `until` if nothing wakes it before: it would be refused again."""
    inst["stale"] = 0
    inst["retry"] = until


@leaf
def leave_waiting(inp, ws, lane, inst):
    """Take the head out of the waiting list."""
    if lane["scheduler"] == Scheduler.FCFS:
        after = ws.progress[inst["wait_head"]]["next"]
        inst["wait_head"] = after
        if after == NONE:
            inst["wait_tail"] = NONE
        else:
            ws.progress[after]["prev"] = NONE
    else:
        _pop_heap(inp, ws, lane, inst)
    inst["waiting"] -= 1
