"""The story: a batch of lanes, one after the other; a lane routes requests to instances.

Between two routing decisions instances do not interact, so each is advanced alone to the next
routing time. Where completions make arrivals (closed loop), the lane goes from event to event.
"""

from .._jit import kernel, leaf, part
from ..policies import RequestStatus
from ..records import NONE, LaneStatus
from .explicit import stepping as explicit
from .explicit.deciding import choose_roles, enter_routed
from .offload import engine as offload
from .routing.admission import is_admitted
from .routing.choose import choose_instance, find_candidates
from .routing.snapshots import look
from .scheduling import waiting
from .setup import begin_lane, copy_lane, end_lane
from .time.arrivals import let_send, next_arrival, remove_arrival, skip_awaiting
from .time.instance import accept, advance, can_never_fit
from .time.step_time import queueing_delay
from .turns import next_to_advance, next_turn, routes_unseen


@leaf
def _choose(inp, ws, lane, tally, r):
    if lane["explicit"] and lane["pools"] > 0:
        find_candidates(inp, ws, lane, inp.requests[lane["request_lo"] + r])
    if lane["disaggregated"]:
        index = choose_roles(inp, ws, lane, tally, r)
    else:
        index = choose_instance(inp, ws, lane, tally, r)
    return index


@leaf
def _route(inp, ws, lane, tally, r, now):
    """Send a request to an instance, where it enters the waiting list a little later."""
    if lane["reads_state"]:
        look(inp, ws, lane, r, now)
    index = _choose(inp, ws, lane, tally, r)
    ws.snapshots[index]["load"] += lane["count_pending"]
    inst = ws.instances[index]
    ws.progress[r]["instance"] = index
    inst["load"] += 1
    request = inp.requests[lane["request_lo"] + r]
    entry = now + queueing_delay(lane, request["prompt"])
    if lane["disaggregated"]:
        enter_routed(ws, inst, r, entry)
    else:
        waiting.enter_inbox(ws, inst, r, entry)
    if lane["concurrency"] > 0:
        misfit = False
        if lane["explicit"]:
            misfit = explicit.fits_nowhere(inp, ws, ws.own[index], r)
        if lane["by_extents"]:
            misfit = can_never_fit(lane, request)
        if misfit:
            let_send(inp, ws, lane, tally, entry)  # when it will be dropped


@leaf
def _routing_time(ws, lane, r):
    latency = lane["admission_latency"] + lane["routing_latency"]
    return ws.progress[r]["arrival"] + latency


@part
def _arrive(inp, ws, lane, tally, r, now):
    """Let in and route a request that has arrived, or reject it."""
    if lane["closed_loop"]:
        for index in range(lane["instances"]):
            # Who can never fit is dropped during the step under way, before a router looks.
            if lane["explicit"] and not (lane["disaggregated"] and routes_unseen(lane)):
                explicit.accept(inp, ws, ws.own[index], ws.instances[index], now - 1)
            if lane["by_extents"]:
                accept(inp, ws, lane, ws.instances[index], now - 1)
    remove_arrival(inp, ws, lane, tally, r)
    if is_admitted(inp, ws, lane, tally, r):
        _route(inp, ws, lane, tally, r, now)
    else:
        ws.progress[r]["status"] = RequestStatus.REJECTED
        if lane["concurrency"] > 0:
            let_send(inp, ws, lane, tally, ws.progress[r]["arrival"] + lane["admission_latency"])


@leaf
def _run(inp, ws, out, lane, tally):
    """Route one request after the other, and advance instances to the time of each.

    In a closed loop a completion anywhere may make the next arrival, so from event to event. (The
    instances are advanced at one place, inlined: a call passes all arrays and took 120 ns.)
    """
    skip_awaiting(inp, lane, tally)
    while tally["status"] == LaneStatus.OK:
        r = next_arrival(ws, lane, tally)
        now = lane["last_clock"]
        if r != NONE:
            now = _routing_time(ws, lane, r)
        if now > lane["last_clock"]:
            tally["status"] = LaneStatus.TIME_LIMIT
            break
        first, end, until, second = next_to_advance(ws, lane, r, now)
        for index in range(first, end):
            if lane["connects"]:
                offload.advance(inp, ws, out, lane, ws.instances[index], tally, index, until)
            if lane["explicit"]:
                inst = ws.instances[index]
                explicit.advance(inp, ws, out, lane, inst, tally, index, until, second)
            if lane["unconnected"]:
                advance(inp, ws, out, lane, ws.instances[index], tally, index, until)
        if lane["closed_loop"] and first < end:
            ws.turns[first] = next_turn(ws, lane, first)
            continue
        if r == NONE:
            break
        _arrive(inp, ws, lane, tally, r, now)


@leaf
def _repeats(out, lane):
    """Return whether the run of a lane is known: the one with fewer blocks was never short."""
    if lane["smaller_pool"] == NONE:
        return False
    tally = out.tallies[lane["smaller_pool"]]
    return tally["status"] == LaneStatus.OK and tally["shortages"] == 0 and tally["steps"] > 0


@leaf
def _run_lanes(inp, ws, out, numbers):
    """Run the lanes of these numbers, each to its end."""
    for place in range(numbers.size):
        number = numbers[place]
        lane = inp.lanes[number]
        tally = out.tallies[number]
        if _repeats(out, lane):
            origin = inp.lanes[lane["smaller_pool"]]["out_lo"]
            copy_lane(out, lane, tally, origin, number)
            continue
        begin_lane(inp, ws, lane, tally)
        _run(inp, ws, out, lane, tally)
        end_lane(inp, ws, out, lane, tally, number)


@kernel
def run_batch(inp, ws, out, numbers):
    """Run lanes without any of the features that have an entry of their own."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_async(inp, ws, out, numbers):
    """Run lanes some of which are scheduled asynchronously."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_tiered(inp, ws, out, numbers):
    """Run lanes some of which have a CPU tier of kvsweep's own."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_rare(inp, ws, out, numbers):
    """Run lanes with any features but a connector."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_connected(inp, ws, out, numbers):
    """Run lanes that all have a connector, and nothing rarer."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_connected_rare(inp, ws, out, numbers):
    """Run lanes that all have a connector, some of them rarer features too."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_groups(inp, ws, out, numbers):
    """Run lanes that are all explicit, some of which have groups of layers or unequal pools."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_moving(inp, ws, out, numbers):
    """Run lanes that are all explicit and have a connector."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_apart_moving(inp, ws, out, numbers):
    """Run lanes with such a tier, some of which prefill and decode apart."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_moving_states(inp, ws, out, numbers):
    """Run lanes that are all explicit and have a connector, some of which have groups of states."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_states(inp, ws, out, numbers):
    """Run lanes that are all explicit, some of which have groups of states."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_apart_states(inp, ws, out, numbers):
    """Run lanes with groups of states, some of which prefill and decode apart."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_pipelines(inp, ws, out, numbers):
    """Run lanes that are all explicit, some of which have pipelines."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_pipelines_rare(inp, ws, out, numbers):
    """Run lanes that are all explicit, some of which have pipelines, and others of these beside."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_drafts(inp, ws, out, numbers):
    """Run lanes that are all explicit, some of which have drafts."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_apart(inp, ws, out, numbers):
    """Run lanes that are all explicit, some of which prefill and decode apart."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_apart_rare(inp, ws, out, numbers):
    """Run lanes that prefill and decode apart, some of which have drafts or leases too."""
    _run_lanes(inp, ws, out, numbers)


@kernel
def run_explicit(inp, ws, out, numbers):
    """Run lanes that are all explicit, whatever else of that kind they have."""
    _run_lanes(inp, ws, out, numbers)
