"""What a step of an instance with a connector schedules, stores and awaits."""

import numpy as np

from ..._jit import leaf
from ...records import LEAVING, NEVER
from ..scheduling.by_counts import is_countable, schedule_by_counts
from ..scheduling.one_by_one import schedule_one_by_one
from ..time.decoding import next_fill, settled_tokens
from ..time.instance import clear_step
from ..time.step_time import cold_time, is_cold, step_time
from . import copies
from .admit import admit_or_load
from .at_once import store_step
from .connector import next_offer, offer, offer_finished
from .counted_stores import settle
from .pins import begin_replaced, forget_names


@leaf
def _first_offer(inp, ws, lane, inst, off, before, counted):
    """Return the first of the running requests that may have anything to offer.

    By counts all but the last of the `before` requests that ran decode; when these have, is known,
    and often it is counted who has.
    """
    first = 0
    if counted and (
        inst["next_offer"] > inst["step"] or store_step(inp, ws, lane, inst, off, before)
    ):
        first = before
        if first > 0 and not ws.progress[ws.running[inst["run_lo"] + first - 1]]["decoding"]:
            first -= 1
    return first


@leaf
def _renew_due(ws, lane, inst, r, progress):
    """Return when a request may offer next; it is noted late if stores of a run were counted."""
    offers = ws.offers[r]
    if 0 < offers["due"] < inst["filled_to"] and progress["decoding"] == 1:
        late = np.int64(lane["async_scheduling"])
        offers["due"] = next_fill(lane, progress, inst["filled_to"] - late) + late
    return offers["due"]


@leaf
def _offer_due(inp, ws, out, lane, inst, tally, index, off, r, joins):
    """Offer what a request has filled that may be due; return when it is next, 0: not known.

    `joins` whether the step has scheduled it.
    """
    step = inst["step"]
    progress = ws.progress[r]
    due = _renew_due(ws, lane, inst, r, progress)
    if due > step:
        return due
    due = 0
    if joins and progress["decoding"] != LEAVING:
        tokens = progress["computed"]
        if progress["decoding"]:
            request = inp.requests[lane["request_lo"] + r]
            tokens = settled_tokens(lane, request, progress, step + 1, step - 1)
        if inst["unsettled"] > 0:
            settle(inp, ws, lane, inst, r)
        offer(inp, ws, out, lane, inst, tally, index, off, r, tokens)
        due = step + next_offer(inp, ws, lane, r, tokens)
        if progress["decoding"]:
            ws.offers[r]["due"] = due
    return due


@leaf
def offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before, first):
    """Offer what each request of the step will have computed at its end, in scheduling order.

    The first `scheduled` of the `before` requests that ran before it, and those admitted in it; all
    before position `first` have nothing to offer. Asynchronously a token that is being sampled is
    not known yet, nor is the block that it fills.
    """
    step = inst["step"]
    if first == 0:
        inst["next_offer"] = NEVER
        off["lags"] = 0
        off["unranked"] = 0
    for position in range(first, inst["running"]):
        r = ws.running[inst["run_lo"] + position]
        due = ws.offers[r]["due"]
        if due <= step:
            joins = position < inst["scheduled"] or position >= before
            due = _offer_due(inp, ws, out, lane, inst, tally, index, off, r, joins)
        if due > 0:
            inst["next_offer"] = min(inst["next_offer"], due)
        off["unranked"] |= ws.offers[r]["rank"] == 0


@leaf
def _begin(ws, lane, inst, off):
    """Let nothing be scheduled yet."""
    inst["serial"] += 1
    inst["gave_up"] = 0
    begin_replaced(ws, inst)
    clear_step(lane, inst)
    inst["device"] = max(0, off["device_end"] - inst["clock"])


@leaf
def schedule_step(inp, ws, out, lane, inst, tally, index):
    """Schedule a step and begin its stores; return how long it computes and how long it stalls."""
    off = ws.offload[index]
    _begin(ws, lane, inst, off)
    counted = inst["running"] > 0 and not inst["watches"] and is_countable(inp, ws, lane, inst)
    if counted:
        schedule_by_counts(inp, ws, out, lane, inst, tally, index)
    elif inst["running"] > 0:
        schedule_one_by_one(inp, ws, out, lane, inst, tally, index)
    before = inst["running"]
    if inst["preempted"] == 0 and inst["waiting"] + inst["held"] > 0:
        admit_or_load(inp, ws, out, lane, inst, tally, index)
    copies.find_awaited(inp, ws, lane, inst, off)
    first = _first_offer(inp, ws, lane, inst, off, before, counted)
    offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before, first)
    offer_finished(inp, ws, out, lane, inst, tally, index, off)
    inst["watches"] = off["pinned"] > 0
    if not inst["watches"]:
        forget_names(inst)
    stall = copies.begin_stores(ws, out, lane, inst, tally, index, off)
    compute = 0
    if inst["prefill_tokens"] + inst["decode_tokens"] > 0:
        compute = step_time(lane, inst)
        if is_cold(lane, inst):
            compute += cold_time(lane, inst)
    return compute, stall
