"""When an instance does something next, and until when it may go on by itself.

Where prefill and decode are apart, what an instance does may concern others: then it waits until
what it does next is the first of all.
"""

import numpy as np

from ..._jit import leaf
from ...records import DECODE, NEVER, NONE, PREFILL
from ..memory import depth
from ..offload.copies import next_end
from .leases import asks_for_leases, may_have_ended, next_lease_event
from .transfers import next_transfer

OUTPUTS, SCHEDULE = 0, 1
"""What an instance does next; at equal times outputs come first."""


@leaf
def is_busy(inst, engine):
    """Return whether there is anything to schedule, to be told or to be released."""
    requests = inst["running"] + inst["waiting"] + inst["held"] + engine["kept"] + engine["copies"]
    return requests > 0 or engine["finished"] != 0


@leaf
def _waits(lane, inst, engine):
    """Return whether nothing can be scheduled before the oldest batch is processed."""
    full = engine["queued"] == depth(lane)
    done = full or engine["settles"] != 0 or not is_busy(inst, engine)
    return engine["queued"] > 0 and done


@leaf
def next_time(ws, lane, inst):
    """Return when an instance does something next, and what: OUTPUTS or SCHEDULE."""
    engine = ws.engines[inst["number"]]
    if _waits(lane, inst, engine):
        end = ws.batches[engine["batch_lo"] + engine["oldest"]]["end"]
        return max(inst["clock"], end), OUTPUTS
    time = inst["clock"]
    if engine["asleep"] or (engine["queued"] == 0 and not is_busy(inst, engine)):
        time = NEVER
        if inst["inbox_head"] != NONE:
            time = ws.progress[inst["inbox_head"]]["queued"]
        if engine["transfer_head"] != NONE:
            time = min(time, next_transfer(ws, engine))
        if lane["lease"]:
            time = min(time, next_lease_event(lane, engine))
        if lane["moves"]:
            time = min(time, next_end(ws, ws.offload[inst["number"]]))
    return max(inst["clock"], time), SCHEDULE


@leaf
def first_outputs(ws, lane, inst, time):
    """Return when an instance that does something next at `time` has outputs at the earliest.

    A step takes its fixed part at least.
    """
    engine = ws.engines[inst["number"]]
    if engine["queued"] > 0:
        time = max(time, np.int64(ws.batches[engine["batch_lo"] + engine["oldest"]]["end"]))
    elif time < NEVER:
        time += np.int64(lane["beta0"])
    return time


@leaf
def is_starved(ws, inst):
    """Return whether an instance has requests but sleeps until blocks are released."""
    requests = inst["running"] + inst["waiting"] + inst["held"]
    return ws.engines[inst["number"]]["asleep"] != 0 and requests > 0


@leaf
def runs_ahead(lane):
    """Return whether an instance that decodes may pass what other instances do meanwhile.

    Not if its answers make arrivals.
    """
    return lane["follow_ups"] == 0


@leaf
def _wakes_prefill(ws, lane, engine):
    """Return whether a schedule has begun to pull what a prefill instance waits to be rid of."""
    wakes = False
    if engine["pulls"] > 0:
        for index in range(lane["routed"]):
            wakes = wakes or is_starved(ws, ws.instances[index])
    return wakes


@leaf
def _may_pull(inp, ws, lane, inst, engine, time):
    """Return whether a schedule at `time` may begin to pull: pulls are made in order of time."""
    head = inst["inbox_head"]
    may = head != NONE and ws.progress[head]["queued"] <= time
    if inst["waiting"] > 0:
        refused = engine["refused"] != 0 and engine["watches"] == 0
        refused = refused and inst["free"] < engine["free_wanted"]
        may = may or not refused or lane["impatient"] != 0 or lane["windows"] != 0
    return may


@leaf
def _concerns(inp, ws, lane, inst, engine, time, what):
    """Return whether what an instance that decodes does next, at `time`, must be in order of time.

    It pulls, renews leases, or is told of a pull whose lease may have ended.
    """
    if what == SCHEDULE:
        concerns = _may_pull(inp, ws, lane, inst, engine, time)
        if lane["lease"]:
            concerns = concerns or asks_for_leases(ws, lane, inst, engine, time)
    else:
        concerns = False
        if lane["lease"]:
            concerns = may_have_ended(ws, engine, time)
    return concerns


@leaf
def own_until(inp, ws, lane, inst, engine, what, until, second):
    """Return until when an instance may go on by itself, where prefill and decode are apart.

    What it has done may concern others: a prefill that ends, or a pull that lets one begin. So what
    it does next waits until it is the first of all; but it is not in order if a prefill instance
    schedules, nor if one that decodes has nothing to pull.
    """
    if lane["follow_ups"]:
        until = inst["clock"]
    elif lane["role"] == PREFILL and what == OUTPUTS:
        until = inst["clock"] + 1
    elif lane["role"] == DECODE:
        time, what = next_time(ws, lane, inst)
        concerns = time >= second and _concerns(inp, ws, lane, inst, engine, time, what)
        if concerns or _wakes_prefill(ws, lane, engine):
            until = inst["clock"]
    return until
