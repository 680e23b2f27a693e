"""Counters of a lane, the log of steps and events, and exact inter-token latencies."""

import numpy as np

from .._jit import leaf
from ..records import Lane

_INDEX_BITS = 24
"""Room for the entry number beside the time while sorting; leaves times of 2**39 us, six days."""
MAX_ITL_ENTRIES = 1 << _INDEX_BITS


@leaf
def add_gap(ws, tally, time, weight):
    """Note that `weight` tokens had an inter-token latency of `time` us.

    Without context terms, steps that only decode have a time that depends on the batch size alone
    and are counted in `itl_plain` instead, so this list stays short.
    """
    entry = tally["itl_entries"]
    tally["itl_entries"] = entry + 1
    if entry < ws.itl_time.size:
        ws.itl_time[entry] = time
        ws.itl_weight[entry] = weight
    else:
        tally["status"] = Lane.WORKSPACE_FULL
    tally["itl_sum"] += time * weight
    tally["itl_count"] += weight


@leaf
def log_step(out, tally, inst, lane, index, duration, waiting, evictions):
    """Append one row to the step log; it only counts once the log is full."""
    row = tally["log_steps"]
    tally["log_steps"] = row + 1
    if row < out.steps.size:
        record = out.steps[row]
        record["step"] = inst["step"]
        record["instance"] = index
        record["start_us"] = inst["clock"]
        record["duration_us"] = duration
        record["running"] = inst["running"]
        record["waiting"] = waiting
        record["prefill_tokens"] = inst["prefill_tokens"]
        record["decode_tokens"] = inst["decode_tokens"]
        record["preempted"] = inst["preempted"]
        record["free_blocks"] = inst["free"]
        record["evicted"] = inst["evictions"] - evictions


@leaf
def log_event(out, tally, inst, lane, kind, request, instance, value):
    """Append one row to the event log, if logging is on."""
    if lane["log"]:
        row = tally["log_events"]
        tally["log_events"] = row + 1
        if row < out.events.size:
            record = out.events[row]
            record["step"] = inst["step"]
            record["instance"] = instance
            record["kind"] = kind
            record["request"] = request
            record["value"] = value


@leaf
def _fold_plain(lane, ws, tally, token_time):
    """Move the counts of pure decode steps into the list of latencies."""
    for batch in range(1, lane["max_num_seqs"] + 1):
        if ws.itl_plain[batch] > 0:
            add_gap(ws, tally, token_time(lane, 0, batch), ws.itl_plain[batch])
            ws.itl_plain[batch] = 0


@leaf
def _sort(values, count):
    """Sort the first `count` values in place (heapsort: np.sort allocates)."""
    for size in range(2 * count - 1, 0, -1):
        # The first half of the turns builds the heap, the second half takes it apart.
        root = max(size - count, 0)
        end = min(size, count)
        if size < count:
            values[0], values[size] = values[size], values[0]
        value = values[root]
        child = 2 * root + 1
        while child < end:
            if child + 1 < end and values[child + 1] > values[child]:
                child += 1
            if values[child] <= value:
                break
            values[root] = values[child]
            root = child
            child = 2 * root + 1
        values[root] = value


@leaf
def itl_quantile(ws, order, count, rank):
    """Return the latency at the fractional 0-based `rank` of the sorted multiset, us.

    Linear between neighbouring ranks, as numpy.quantile's default.
    """
    below = int(rank)
    fraction = rank - below
    seen = 0
    low = 0.0
    high = 0.0
    found = False
    for position in range(count):
        entry = order[position] & ((1 << _INDEX_BITS) - 1)
        time = order[position] >> _INDEX_BITS
        seen += ws.itl_weight[entry]
        if not found and seen > below:
            low = float(time)
            found = True
        if found and (seen > below + 1 or fraction == 0.0):
            high = float(time)
            break
        high = float(time)
    return low + (high - low) * fraction


@leaf
def fold_itl(lane, ws, tally, token_time, q0, q1, q2, q3):
    """Compute the reported quantiles of the inter-token latency of a finished lane."""
    _fold_plain(lane, ws, tally, token_time)
    count = tally["itl_entries"]
    if tally["status"] == Lane.OK and count > 0:
        order = ws.itl_order
        for entry in range(count):
            order[entry] = (ws.itl_time[entry] << _INDEX_BITS) | entry
        _sort(order, count)
        last = tally["itl_count"] - 1
        tally["itl_q0"] = itl_quantile(ws, order, count, q0 * last)
        tally["itl_q1"] = itl_quantile(ws, order, count, q1 * last)
        tally["itl_q2"] = itl_quantile(ws, order, count, q2 * last)
        tally["itl_q3"] = itl_quantile(ws, order, count, q3 * last)
    else:
        tally["itl_q0"] = np.nan
        tally["itl_q1"] = np.nan
        tally["itl_q2"] = np.nan
        tally["itl_q3"] = np.nan
