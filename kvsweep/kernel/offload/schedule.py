"""What a step of an instance with a connector schedules, stores and awaits."""

from ..._jit import leaf
from ...records import LEAVING, NEVER
from ..scheduling.by_counts import is_countable, schedule_by_counts
from ..scheduling.one_by_one import schedule_one_by_one
from ..time.decoding import settled_tokens
from ..time.instance import clear_step
from ..time.step_time import step_time
from . import copies
from .admit import admit_or_load
from .connector import next_offer, offer, offer_finished
from .pins import begin_replaced, forget_names


@leaf
def _first_offer(ws, inst, before, counted):
    """Return the first of the running requests that may have anything to offer.

    By counts all but the last of the `before` requests that ran decode; when these have, is known.
    """
    first = 0
    if counted and inst["next_offer"] > inst["step"]:
        first = before
        if first > 0 and not ws.progress[ws.running[inst["run_lo"] + first - 1]]["decoding"]:
            first -= 1
    return first


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
    for position in range(first, inst["running"]):
        r = ws.running[inst["run_lo"] + position]
        if ws.offers[r]["due"] > step:
            inst["next_offer"] = min(inst["next_offer"], ws.offers[r]["due"])
            continue
        progress = ws.progress[r]
        leaves = progress["decoding"] == LEAVING
        if (position < inst["scheduled"] or position >= before) and not leaves:
            tokens = progress["computed"]
            if progress["decoding"]:
                request = inp.requests[lane["request_lo"] + r]
                tokens = settled_tokens(lane, request, progress, step + 1, step - 1)
            offer(inp, ws, out, lane, inst, tally, index, off, r, tokens)
            due = step + next_offer(inp, ws, lane, r, tokens)
            inst["next_offer"] = min(inst["next_offer"], due)
            if progress["decoding"]:
                ws.offers[r]["due"] = due


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
    first = _first_offer(ws, inst, before, counted)
    offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before, first)
    offer_finished(inp, ws, out, lane, inst, tally, index, off)
    inst["watches"] = off["pinned"] > 0
    if not inst["watches"]:
        forget_names(inst)
    stall = copies.begin_stores(ws, out, lane, inst, tally, index, off)
    compute = 0
    if inst["prefill_tokens"] + inst["decode_tokens"] > 0:
        compute = step_time(lane, inst)
    return compute, stall
