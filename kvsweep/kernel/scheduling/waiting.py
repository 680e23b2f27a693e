"""The inbox and the waiting list of an instance.

The inbox holds routed requests until their queueing delay is over, in order of entry. The waiting
list is a deque for fcfs, a binary heap for priority and sjf (equal to vLLM's RequestQueue).
"""

from ..._jit import leaf
from ...policies import Priority, Scheduler
from ...records import NONE


@leaf
def insert(ws, inst, r, time, before):
    """Put `r`, which enters at `time`, into the inbox behind `before`; NONE: as the first."""
    ws.turns[inst["number"]] = NONE
    ws.progress[r]["queued"] = time
    after = inst["inbox_head"] if before == NONE else ws.progress[before]["next"]
    ws.progress[r]["prev"] = before
    ws.progress[r]["next"] = after
    if before == NONE:
        inst["inbox_head"] = r
    else:
        ws.progress[before]["next"] = r
    if after == NONE:
        inst["inbox_tail"] = r
    else:
        ws.progress[after]["prev"] = r


@leaf
def enter_inbox(ws, inst, r, time):
    """Insert `r` by its entry time, after those of the same time with a smaller id.

    Searched from the back: entries come nearly in order, only prompt lengths displace them.
    """
    before = inst["inbox_tail"]
    while before != NONE and (
        ws.progress[before]["queued"] > time
        or (ws.progress[before]["queued"] == time and before > r)
    ):
        before = ws.progress[before]["prev"]
    insert(ws, inst, r, time, before)


@leaf
def leave_inbox(ws, inst):
    """Take the first request out of the inbox."""
    r = inst["inbox_head"]
    after = ws.progress[r]["next"]
    inst["inbox_head"] = after
    if after == NONE:
        inst["inbox_tail"] = NONE
    else:
        ws.progress[after]["prev"] = NONE
    return r


@leaf
def level(inp, lane, r):
    """Return the priority of a request: the one it brings, or that of its class."""
    record = inp.requests[lane["request_lo"] + r]
    return record["priority"] if lane["priority"] == Priority.CONSTANT else record["class_priority"]


@leaf
def urgency(inp, ws, lane, r):
    """Return the first key of the waiting order: priority, or prompt length for sjf.

    With aging, the time at which the request reaches level 0: all age alike, so this order lasts.
    """
    if lane["scheduler"] == Scheduler.SJF:
        rank = inp.requests[lane["request_lo"] + r]["prompt"]
    elif lane["priority"] == Priority.AGE:
        rank = level(inp, lane, r) * lane["age"] + ws.progress[r]["arrival"]
    else:
        rank = level(inp, lane, r)
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
def _push_heap(inp, ws, lane, inst, r):
    lo = inst["heap_lo"]
    hole = inst["waiting"]
    while hole > 0:
        parent = (hole - 1) >> 1
        if not is_before(inp, ws, lane, r, ws.heap[lo + parent]):
            break
        ws.heap[lo + hole] = ws.heap[lo + parent]
        hole = parent
    ws.heap[lo + hole] = r


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
def wait_last(inp, ws, lane, inst, r):
    """Append an arriving request to the waiting list."""
    if lane["scheduler"] == Scheduler.FCFS:
        back = inst["wait_tail"]
        ws.progress[r]["prev"] = back
        ws.progress[r]["next"] = NONE
        if back == NONE:
            inst["wait_head"] = r
        else:
            ws.progress[back]["next"] = r
        inst["wait_tail"] = r
    else:
        _push_heap(inp, ws, lane, inst, r)
    inst["waiting"] += 1


@leaf
def wait_first(inp, ws, lane, inst, r):
    """Put a preempted request back: in front (fcfs), or by its ordinary order."""
    if lane["scheduler"] == Scheduler.FCFS:
        front = inst["wait_head"]
        ws.progress[r]["prev"] = NONE
        ws.progress[r]["next"] = front
        if front == NONE:
            inst["wait_tail"] = r
        else:
            ws.progress[front]["prev"] = r
        inst["wait_head"] = r
    else:
        _push_heap(inp, ws, lane, inst, r)
    inst["waiting"] += 1


@leaf
def _unlink(ws, inst, r):
    """Take a request out of the middle of the list (fcfs)."""
    before = ws.progress[r]["prev"]
    after = ws.progress[r]["next"]
    if before == NONE:
        inst["wait_head"] = after
    else:
        ws.progress[before]["next"] = after
    if after == NONE:
        inst["wait_tail"] = before
    else:
        ws.progress[after]["prev"] = before


@leaf
def _lift(ws, inst, r):
    """Move those above a request in the heap down, so that it is on top."""
    lo = inst["heap_lo"]
    hole = 0
    while ws.heap[lo + hole] != r:
        hole += 1
    while hole > 0:
        parent = (hole - 1) >> 1
        ws.heap[lo + hole] = ws.heap[lo + parent]
        hole = parent


@leaf
def stop_waiting(inp, ws, lane, inst, r):
    """Take a request out of the waiting list, wherever it stands."""
    if lane["scheduler"] == Scheduler.FCFS:
        _unlink(ws, inst, r)
    else:
        _lift(ws, inst, r)
        _pop_heap(inp, ws, lane, inst)
    inst["waiting"] -= 1


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
    inst["try_head"] = 1


@leaf
def refuse_head(inst, until):
    """Let the head rest to step `until` if nothing wakes it before: it would be refused again."""
    inst["try_head"] = 0
    inst["try_head_at"] = until


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
