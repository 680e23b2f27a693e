"""Transfers from a prefill instance to a decode instance, over the link of the latter: rule R14.3.

Each side learns of the end of one with its own next step that ends then or later.
"""

import numpy as np

from ..._jit import leaf
from ...records import DECODE, NONE, PREFILL, Event
from ..scheduling.holders import LOADED
from ..tally import log_event
from .leases import fail_pull
from .tables import release_all


@leaf
def loads(lane):
    """Return whether copies may fill blocks, in no order with the steps on their way (R11.6).

    Where vLLM prefills for others it asks for its role (R14.5), though there may be a tier.
    """
    if lane["role"] == PREFILL:
        return lane["kv_both"] != 0
    return lane["role"] == DECODE or lane["moves"] != 0


@leaf
def _log(out, inst, tally, index, handoff, r, submitted, start):
    """Append a transfer to its log."""
    handoff["row"] = tally["log_transfers"]
    tally["log_transfers"] += 1
    if handoff["row"] < out.transfers.size:
        row = out.transfers[handoff["row"]]
        row["instance"] = index
        row["load"] = 1
        row["pull"] = 1
        row["request"] = r
        row["tokens"] = handoff["tokens"]
        row["ordered_us"] = inst["clock"]
        row["submitted_us"] = submitted
        row["start_us"] = start
        row["end_us"] = handoff["arrives"]
        row["reported_us"] = NONE


@leaf
def _await_release(ws, engine, r, end):
    """Let a prefill instance release the blocks of `r` after `end`, in the order of these times."""
    before = NONE
    after = engine["transfer_head"]
    while after != NONE and ws.handoffs[after]["arrives"] <= end:
        before = after
        after = ws.handoffs[after]["next_release"]
    ws.handoffs[r]["next_release"] = after
    if before == NONE:
        engine["transfer_head"] = r
    else:
        ws.handoffs[before]["next_release"] = r


@leaf
def _begin(ws, out, lane, inst, tally, index, engine, r):
    """Submit a transfer at the start of the step being scheduled; one of nothing ends there."""
    handoff = ws.handoffs[r]
    submitted = max(inst["clock"], engine["device_end"])
    if lane["moves"]:
        submitted += engine["stall"]
    start, end = submitted, submitted
    if handoff["tokens"] > 0:
        start = max(submitted, engine["link_ready"])
        takes = np.int64(np.ceil(handoff["tokens"] / lane["pull_bandwidth"]))
        end = start + lane["pull_base"] + takes
        engine["link_ready"] = end
    handoff["arrives"] = end
    fails = handoff["failed"] and handoff["tokens"] > 0
    if handoff["released"] == NONE and not fails:
        _await_release(ws, ws.engines[handoff["source"]], r, end)
        ws.turns[handoff["source"]] = NONE
    if lane["log"]:
        _log(out, inst, tally, index, handoff, r, submitted, start)


@leaf
def transfer(ws, out, lane, inst, tally, index, engine, r, tokens):
    """Order the transfer of so many tokens with the step being scheduled."""
    handoff = ws.handoffs[r]
    engine["pulls"] += 1
    handoff["loading"] = 1
    handoff["tokens"] = tokens
    tally["pulls"] += 1
    tally["pulled_tokens"] += tokens
    handoff["next_arrival"] = NONE
    if engine["transfer_head"] == NONE:
        engine["transfer_head"] = r
    else:
        ws.handoffs[engine["transfer_tail"]]["next_arrival"] = r
    engine["transfer_tail"] = r
    log_event(out, lane, inst, tally, index, Event.PULL, r, tokens)
    _order(ws, out, lane, inst, tally, index, engine, r)


@leaf
def _order(ws, out, lane, inst, tally, index, engine, r):
    """Let a transfer begin with the step being scheduled: which may wait for copies before."""
    if not lane["moves"]:
        _begin(ws, out, lane, inst, tally, index, engine, r)
        return
    ws.handoffs[r]["next_begun"] = NONE
    if engine["pulls_from"] == NONE:
        engine["pulls_from"] = r
    else:
        ws.handoffs[engine["pulls_to"]]["next_begun"] = r
    engine["pulls_to"] = r


@leaf
def begin_pulls(ws, out, lane, inst, tally, index, engine):
    """Begin the transfers of the step that has been scheduled, in the order of the schedule."""
    r = np.int64(engine["pulls_from"])
    while r != NONE:
        _begin(ws, out, lane, inst, tally, index, engine, r)
        r = np.int64(ws.handoffs[r]["next_begun"])
    engine["pulls_from"] = NONE


@leaf
def forgo(ws, out, lane, inst, tally, index, engine, r):
    """Let a request pull nothing, as it has all that it could; its prefill instance is told."""
    engine["pulls"] += 1
    tally["forgone"] += 1
    ws.handoffs[r]["loading"] = 1
    ws.handoffs[r]["tokens"] = 0
    log_event(out, lane, inst, tally, index, Event.PULL, r, 0)
    _order(ws, out, lane, inst, tally, index, engine, r)


@leaf
def next_transfer(ws, engine):
    """Return the end of the transfer that an instance is told of next; there must be one."""
    return ws.handoffs[engine["transfer_head"]]["arrives"]


@leaf
def report_arrivals(inp, ws, out, lane, inst, tally, engine, now):
    """Tell a decode instance of the transfers that have ended by `now`; return how many."""
    count = 0
    while engine["transfer_head"] != NONE and next_transfer(ws, engine) <= now:
        r = engine["transfer_head"]
        handoff = ws.handoffs[r]
        engine["transfer_head"] = handoff["next_arrival"]
        ws.progress[r]["loading"] = LOADED
        handoff["pulled"] = now
        if r >= lane["warmup"] and not handoff["failed"]:
            tally["pull_wait"] += now - handoff["prefilled"]
            tally["pull_waits"] += 1
        if lane["log"] and handoff["row"] < out.transfers.size:
            out.transfers[handoff["row"]]["reported_us"] = now
        if lane["lease"]:
            engine["awaited"] -= 1
            if handoff["failed"]:
                fail_pull(inp, ws, lane, inst, tally, engine, r, now)
        count += 1
    return count


@leaf
def release_sent(inp, ws, lane, inst, tally, engine, now):
    """Free what a prefill instance kept for transfers that have ended by `now`; return how many."""
    count = 0
    while engine["transfer_head"] != NONE and next_transfer(ws, engine) <= now:
        r = engine["transfer_head"]
        handoff = ws.handoffs[r]
        engine["transfer_head"] = handoff["next_release"]
        s = engine["state_lo"] + r
        release_all(inp, ws, lane, inst, ws.states[s], s)
        handoff["released"] = now
        engine["kept"] -= 1
        tally["kept_time"] += now - handoff["prefilled"]
        count += 1
    return count
