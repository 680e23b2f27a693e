"""Counters of a lane, the log of steps and events, and exact inter-token latencies."""

import numpy as np

from .._jit import leaf
from ..limits import MAX_GAP_US
from ..records import Event, LaneStatus

_INDEX_BITS = 24
"""Room for the entry number beside the time while sorting; leaves times below `MAX_GAP_US`."""
_DIGIT_BITS = 8
DIGITS = 1 << _DIGIT_BITS
"""Different digits of the times while sorting."""
MAX_ITL_ENTRIES = 1 << _INDEX_BITS


@leaf
def add_gap(ws, tally, time, weight):
    """Note that `weight` tokens had an inter-token latency of `time` us.

    Without context terms, steps that only decode have a time that depends on the batch size alone
    and are counted in `itl_by_batch` instead, so this list stays short.
    """
    entry = tally["itl_entries"]
    tally["itl_entries"] = entry + 1
    if entry < ws.itl_time.size:
        ws.itl_time[entry] = time
        ws.itl_weight[entry] = weight
    else:
        tally["status"] = LaneStatus.WORKSPACE_FULL
    tally["itl_sum"] += time * weight
    tally["itl_count"] += weight


@leaf
def _victims_in_flight(out, inst, tally, index):
    """Return how many victims of the step just scheduled, the last in the log, were in flight."""
    count = 0
    row = min(tally["log_events"], out.events.size) - 1
    while row >= 0:
        record = out.events[row]
        if record["step"] != inst["step"] or record["instance"] != index:
            break
        count += record["kind"] == Event.PREEMPT and record["value"] == 1
        row -= 1
    return count


@leaf
def count_computed(ws, lane, tally, r, computed):
    """Count what a request that leaves had computed since its admission, from what it found on.

    Computed again is what lies below the most that it had computed when it was preempted before:
    what vLLM's counter of recomputed tokens is to count (vllm#57698).
    """
    progress = ws.progress[r]
    again = max(0, min(computed, progress["frontier"]) - progress["found"])
    progress["recomputed"] += again
    if r >= lane["warmup"]:
        tally["recomputed_tokens"] += again
        tally["computed_tokens"] += computed - progress["found"]


@leaf
def log_step(out, lane, inst, tally, index, duration, waiting, evictions):
    """Append one row to the step log; it only counts once the log is full."""
    row = tally["log_steps"]
    tally["log_steps"] = row + 1
    if row < out.steps.size:
        record = out.steps[row]
        record["step"] = inst["step"]
        record["instance"] = index
        record["scheduled_us"] = inst["clock"]
        record["start_us"] = inst["clock"] + inst["device"]
        record["duration_us"] = duration
        record["running"] = inst["running"]
        record["waiting"] = waiting
        record["prefill_tokens"] = inst["prefill_tokens"]
        record["decode_tokens"] = inst["decode_tokens"]
        record["preempted"] = inst["preempted"]
        record["preempted_in_flight"] = _victims_in_flight(out, inst, tally, index)
        record["free_blocks"] = inst["free"]
        record["evicted"] = inst["evictions"] - evictions


@leaf
def log_event(out, lane, inst, tally, instance, kind, request, value):
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
def _fold_by_batch(ws, lane, tally, token_time):
    """Move the counts of pure decode steps into the list of latencies."""
    for batch in range(1, lane["max_num_seqs"] + 1):
        if ws.itl_by_batch[batch] > 0:
            time = token_time(lane, 0, batch * (1 + lane["drafts"]))
            add_gap(ws, tally, time, ws.itl_by_batch[batch])
            ws.itl_by_batch[batch] = 0


@leaf
def _count_digits(values, digits, begin, end, shift):
    """Set each of `digits` to the number of values `begin` to `end - 1` that have a smaller one."""
    digits[:] = 0
    for place in range(begin, end):
        digits[(values[place] >> shift) & (digits.size - 1)] += 1
    smaller = 0
    for digit in range(digits.size):
        count = digits[digit]
        digits[digit] = smaller
        smaller += count


@leaf
def _sort(values, digits, count, largest):
    """Sort the first `count` values by their times; return where they begin then.

    Digit by digit, the last first, to and fro between the halves of `values`. (np.sort allocates.
    H8, 100 to 200 entries: a heap sort took four times as long, a merge sort thrice.)
    """
    here = 0
    there = values.size // 2
    shift = _INDEX_BITS
    while largest > 0:
        _count_digits(values, digits, here, here + count, shift)
        for place in range(here, here + count):
            digit = (values[place] >> shift) & (digits.size - 1)
            values[there + digits[digit]] = values[place]
            digits[digit] += 1
        here, there = there, here
        shift += _DIGIT_BITS
        largest >>= _DIGIT_BITS
    return here


@leaf
def itl_quantile(ws, begin, count, rank):
    """Return the latency at the fractional 0-based `rank` of the sorted multiset, us.

    The multiset is sorted from place `begin` of `itl_order` on, `count` entries.
    Linear between neighbouring ranks, as numpy.quantile's default.
    """
    below = int(rank)
    fraction = rank - below
    seen = 0
    low = 0.0
    high = 0.0
    found = False
    for place in range(begin, begin + count):
        entry = ws.itl_order[place] & ((1 << _INDEX_BITS) - 1)
        time = ws.itl_order[place] >> _INDEX_BITS
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
def fold_itl(ws, lane, tally, token_time, q0, q1, q2, q3):
    """Compute the reported quantiles of the inter-token latency of a finished lane."""
    _fold_by_batch(ws, lane, tally, token_time)
    count = tally["itl_entries"]
    longest = 0
    if tally["status"] == LaneStatus.OK:
        for entry in range(count):
            longest = max(longest, ws.itl_time[entry])
            ws.itl_order[entry] = (ws.itl_time[entry] << _INDEX_BITS) | entry
    if longest >= MAX_GAP_US:
        tally["status"] = LaneStatus.TIME_LIMIT
    if tally["status"] == LaneStatus.OK and count > 0:
        begin = _sort(ws.itl_order, ws.itl_digits, count, longest)
        last = tally["itl_count"] - 1
        tally["itl_q0"] = itl_quantile(ws, begin, count, q0 * last)
        tally["itl_q1"] = itl_quantile(ws, begin, count, q1 * last)
        tally["itl_q2"] = itl_quantile(ws, begin, count, q2 * last)
        tally["itl_q3"] = itl_quantile(ws, begin, count, q3 * last)
    else:
        tally["itl_q0"] = np.nan
        tally["itl_q1"] = np.nan
        tally["itl_q2"] = np.nan
        tally["itl_q3"] = np.nan
