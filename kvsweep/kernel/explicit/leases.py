"""Leases of the blocks that prefill instances keep, and what becomes of a pull that fails (R14).

A finished prefill gets a lease (R14.8), which heartbeats of its decode instance renew (R14.9). An
instance has a list of those that it gave, in the order of the ends of the prefills; who was
released is in it until it is swept.
"""

import numpy as np

from ..._jit import leaf
from ...policies import LoadFailure, RequestStatus
from ...records import DECODE, NEVER, NONE, PREFILL
from ..moving.connector import note_finish
from ..routing.answers import note_answer
from ..scheduling.holders import leave
from ..time.arrivals import let_send, next_arrival
from .tables import release_all


@leaf
def grant(ws, lane, inst, engine, r):
    """Give a request whose prefill ends at the clock a lease."""
    handoff = ws.handoffs[r]
    handoff["lease_end"] = inst["clock"] + lane["lease"]
    engine["expires"] = min(engine["expires"], handoff["lease_end"])
    if engine["lease_head"] == NONE:
        engine["lease_head"] = r
    else:
        ws.handoffs[engine["lease_tail"]]["next_lease"] = r
    engine["lease_tail"] = r


@leaf
def await_blocks(ws, lane, inst, r):
    """Note that a request has entered the waiting list; it may wait for blocks from elsewhere."""
    if lane["role"] == DECODE and ws.handoffs[r]["prefilled"] != NONE:
        ws.engines[inst["number"]]["awaited"] += 1


@leaf
def await_no_more(ws, engine, r):
    """Note that a request is done; with states it may never have pulled what it entered for."""
    handoff = ws.handoffs[r]
    if handoff["prefilled"] != NONE and handoff["pulled"] == NONE:
        engine["awaited"] -= 1


@leaf
def beats(lane, inst, engine):
    """Return whether a schedule at the clock sends a heartbeat."""
    due = lane["beat_every"] > 0 and inst["clock"] >= engine["next_beat"]
    return due and engine["awaited"] > 0


@leaf
def next_lease_event(lane, engine):
    """Return when an instance that sleeps ends a lease, or sends a heartbeat."""
    if lane["role"] == PREFILL:
        return np.int64(engine["expires"])
    if lane["beat_every"] > 0 and engine["awaited"] > 0:
        return np.int64(engine["next_beat"])
    return np.int64(NEVER)


@leaf
def _is_awaited(inst, handoff):
    """Return whether a decode instance waits at its clock for the blocks of a request."""
    here = handoff["target"] == inst["number"] and handoff["requeued"] <= inst["clock"]
    return here and handoff["pulled"] == NONE and handoff["released"] == NONE


@leaf
def may_have_ended(ws, engine, time):
    """Return whether a pull that a decode instance is told of by `time` may fail by then.

    Not if its lease lasts longer; it is never cut short.
    """
    may = False
    r = engine["transfer_head"]
    while r != NONE and ws.handoffs[r]["arrives"] <= time:
        handoff = ws.handoffs[r]
        if handoff["released"] == NONE and not handoff["failed"]:
            may = may or handoff["lease_end"] <= time
        r = handoff["next_arrival"]
    return may


@leaf
def asks_for_leases(ws, lane, inst, engine, time):
    """Return whether a schedule of a decode instance at `time` may send a heartbeat."""
    head = inst["inbox_head"]
    awaits = engine["awaited"] > 0 or (head != NONE and ws.progress[head]["queued"] <= time)
    return lane["beat_every"] > 0 and time >= engine["next_beat"] and awaits


@leaf
def renew(ws, lane, engine, now):
    """Renew the leases of those of whom a heartbeat has come, as a prefill instance hears it."""
    engine["heard"] = 0
    engine["expires"] = NEVER
    r = engine["lease_head"]
    while r != NONE:
        handoff = ws.handoffs[r]
        if handoff["renewed"]:
            handoff["renewed"] = 0
            handoff["lease_end"] = max(handoff["lease_end"], now + lane["beat_extends"])
        if handoff["released"] == NONE:
            engine["expires"] = min(engine["expires"], handoff["lease_end"])
        r = handoff["next_lease"]


@leaf
def send_heartbeat(ws, lane, inst, engine):
    """Tell prefill instances of all that an instance waits for.

    One that sleeps hears it at once. The schedule that sends it does not count: the shorter leases
    are, the more are made for heartbeats alone.
    """
    engine["schedules"] -= 1
    engine["next_beat"] = inst["clock"] + lane["beat_every"]
    for index in range(lane["routed"]):
        prefill = ws.engines[index]
        r = prefill["lease_head"]
        while r != NONE:
            handoff = ws.handoffs[r]
            if _is_awaited(inst, handoff):
                handoff["renewed"] = 1
                prefill["heard"] = 1
            r = handoff["next_lease"]
        if prefill["heard"] and prefill["asleep"]:
            renew(ws, lane, prefill, inst["clock"])
            ws.turns[index] = NONE


@leaf
def note_change(ws, inst):
    """Note that something changes at the clock of an instance, and not just leases are renewed."""
    first = ws.engines[0]
    first["changed"] = max(first["changed"], inst["clock"])


@leaf
def waits_for_ever(ws, lane, inst, tally):
    """Return whether all that will happen any more is that leases are renewed.

    Nobody arrives, enters, runs or is on the way, and nothing has changed for two leases: all that
    are not renewed have ended.
    """
    for_ever = inst["clock"] - ws.engines[0]["changed"] > 2 * lane["lease"]
    for_ever = for_ever and next_arrival(ws, lane, tally) == NONE
    for index in range(lane["instances"]):
        other = ws.instances[index]
        rests = other["running"] == 0 and other["inbox_head"] == NONE
        engine = ws.engines[index]
        for_ever = for_ever and rests and engine["transfer_head"] == NONE and engine["copies"] == 0
    return for_ever


@leaf
def _withdraw(ws, engine, r):
    """Let a prefill instance not be told of the end of a transfer."""
    before = NONE
    place = engine["transfer_head"]
    while place != NONE and place != r:
        before = place
        place = ws.handoffs[place]["next_release"]
    if place == r:
        after = ws.handoffs[r]["next_release"]
        if before == NONE:
            engine["transfer_head"] = after
        else:
            ws.handoffs[before]["next_release"] = after


@leaf
def _expire(inp, ws, lane, inst, tally, engine, r, now):
    """Free the blocks of a request whose lease has ended; its pull fails."""
    handoff = ws.handoffs[r]
    s = engine["state_lo"] + r
    release_all(inp, ws, lane, inst, ws.states[s], s)
    _withdraw(ws, engine, r)
    handoff["released"] = now
    handoff["failed"] = 1
    engine["kept"] -= 1
    tally["kept_time"] += now - handoff["prefilled"]
    tally["expired_leases"] += 1


@leaf
def end_leases(inp, ws, lane, inst, tally, engine, now):
    """Free what was kept for leases that have ended by `now`; return for how many.

    Sweep the list: vLLM looks at every lease too, as those that are renewed end out of order.
    """
    count = 0
    expires = np.int64(NEVER)
    before = NONE
    r = engine["lease_head"]
    while r != NONE:
        handoff = ws.handoffs[r]
        if handoff["released"] == NONE and handoff["lease_end"] <= now:
            _expire(inp, ws, lane, inst, tally, engine, r, now)
            count += 1
        if handoff["released"] == NONE:
            before = r
            expires = min(expires, np.int64(handoff["lease_end"]))
        elif before == NONE:
            engine["lease_head"] = handoff["next_lease"]
        else:
            ws.handoffs[before]["next_lease"] = handoff["next_lease"]
        r = handoff["next_lease"]
    engine["lease_tail"] = before
    engine["expires"] = expires
    return count


@leaf
def _drop_holder(ws, inst, r):
    """Take a request out of those that hold blocks."""
    position = np.int64(0)
    while ws.hold[inst["hold_lo"] + position] != r:
        position += 1
    leave(ws, inst, position)


@leaf
def fail_pull(inp, ws, lane, inst, tally, engine, r, now):
    """Let a request whose pull has failed end, or have nothing computed (R14.10)."""
    s = engine["state_lo"] + r
    state = ws.states[s]
    tally["failed_pulls"] += 1
    if lane["kv_load_failure_policy"] == LoadFailure.RECOMPUTE:
        state["computed"] = 0
        return
    _drop_holder(ws, inst, r)
    release_all(inp, ws, lane, inst, state, s)
    if lane["moves"]:
        note_finish(inp, ws, lane, inst, r, state, s)
    ws.progress[r]["status"] = RequestStatus.ERRORED
    inst["load"] -= 1
    note_answer(ws, lane, r)
    engine["finished"] = 1
    if lane["drafts"] > 0:
        engine["refused"] = 0  # nothing is reserved any more for its first verification
    if lane["concurrency"] > 0:
        inst["announced"] = 1
        let_send(inp, ws, lane, tally, now)
