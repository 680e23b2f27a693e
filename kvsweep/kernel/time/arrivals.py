"""Arrivals in order of (time, id): those of the request list, and those that completions make.

A closed-loop request arrives when its client has seen the last token of the round before and has
thought about it. When a step begins it is certain whom it finishes, and so what will arrive.

Where few requests may be under way at once (`LANE.concurrency`), those of the list are sent in
order: each when it is ready or, if that is later, when one of those under way is over. Requests
`listed` to `sendable` - 1 are the ones for which that time is known; they have it as arrival.
"""

from ..._jit import leaf
from ...policies import RequestStatus
from ...records import NEVER, NONE


@leaf
def _is_earlier(ws, a, b):
    first = ws.progress[a]["arrival"]
    second = ws.progress[b]["arrival"]
    return first < second or (first == second and a < b)


@leaf
def _push(ws, tally, r):
    """Insert a request into the binary heap of arrivals to come."""
    hole = tally["coming"]
    tally["coming"] = hole + 1
    while hole > 0:
        parent = (hole - 1) >> 1
        if not _is_earlier(ws, r, ws.coming[parent]):
            break
        ws.coming[hole] = ws.coming[parent]
        hole = parent
    ws.coming[hole] = r


@leaf
def _pop(ws, tally):
    """Take the earliest request out of the heap."""
    first = ws.coming[0]
    size = tally["coming"] - 1
    tally["coming"] = size
    last = ws.coming[size]
    hole = 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and _is_earlier(ws, ws.coming[child + 1], ws.coming[child]):
            child += 1
        if _is_earlier(ws, last, ws.coming[child]):
            break
        ws.coming[hole] = ws.coming[child]
        hole = child
    ws.coming[hole] = last
    return first


@leaf
def next_arrival(ws, lane, tally):
    """Return the request that arrives next, or NONE: the earlier of the list's and the made."""
    r = NONE
    if tally["listed"] < tally["sendable"]:
        r = tally["listed"]
    if tally["coming"] > 0 and (r == NONE or _is_earlier(ws, ws.coming[0], r)):
        r = ws.coming[0]
    return r


@leaf
def remove_arrival(inp, ws, lane, tally, r):
    """Note that `r`, the next arrival, has arrived."""
    ws.progress[r]["status"] = RequestStatus.QUEUED
    if inp.requests[lane["request_lo"] + r]["awaits"]:
        _pop(ws, tally)
    else:
        tally["listed"] = r + 1
        skip_awaiting(inp, lane, tally)


@leaf
def skip_awaiting(inp, lane, tally):
    """Move the position in the list on to the next request whose arrival is fixed."""
    while (
        tally["listed"] < lane["requests"]
        and (inp.requests[lane["request_lo"] + tally["listed"]]["awaits"])
    ):
        tally["listed"] += 1


@leaf
def _be_sent(inp, ws, lane, r, time):
    """Let a request arrive at `time`, or when it is ready if that is later."""
    ready = inp.requests[lane["request_lo"] + r]["arrival"]
    ws.progress[r]["arrival"] = max(ready, time)


@leaf
def let_send(inp, ws, lane, tally, time):
    """Let one more request be sent, from `time` on: some request is over then.

    Instances do not tell of ends in their order. So this time gets its place among the ones that
    are known already, and the later ones go to the next requests.
    """
    r = tally["sendable"]
    if r < lane["requests"]:
        tally["sendable"] = r + 1
    else:
        r -= 1
        if r < tally["listed"] or ws.progress[r]["arrival"] <= time:
            return  # as the latest of the times it is not needed
    while r > tally["listed"] and ws.progress[r - 1]["arrival"] > time:
        _be_sent(inp, ws, lane, r, ws.progress[r - 1]["arrival"])
        r -= 1
    _be_sent(inp, ws, lane, r, time)


@leaf
def makes_arrival(lane, request):
    """Return whether another request arrives once this one has its last token."""
    return lane["concurrency"] > 0 or request["follower"] != NONE


@leaf
def tell_end(inp, ws, lane, inst, tally, r, seen):
    """Make the arrival that follows from the end of a request, whose client sees it at `seen`."""
    follower = inp.requests[lane["request_lo"] + r]["follower"]
    if lane["concurrency"] > 0:
        inst["announced"] = 1
        let_send(inp, ws, lane, tally, seen)
    elif follower != NONE:
        inst["announced"] = 1
        think = inp.requests[lane["request_lo"] + follower]["think"]
        ws.progress[follower]["arrival"] = seen + think
        _push(ws, tally, follower)


@leaf
def announce(inp, ws, lane, inst, tally, end):
    """Make the arrivals that follow from the requests which this step finishes at its `end`."""
    seen = end + int(lane["alpha2"])
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if ws.due[place] == inst["step"]:
            progress = ws.progress[r]
            request = inp.requests[lane["request_lo"] + r]
            if progress["decoding"] == 1 or progress["outputs"] + 1 == request["output"]:
                tell_end(inp, ws, lane, inst, tally, r, seen)


@leaf
def next_event(ws, inst):
    """Return when an instance does something next: a step's end, its begin, or a queue entry."""
    time = NEVER
    if inst["in_flight"] or inst["running"] + inst["waiting"] > 0:
        time = inst["clock"]
    elif inst["inbox_head"] != NONE:
        time = max(inst["clock"], ws.progress[inst["inbox_head"]]["queued"])
    return time
