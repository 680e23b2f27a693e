"""What a step of an instance with a connector schedules, stores and awaits."""

from ..._jit import leaf
from ...records import LEAVING, NEVER
from ..scheduling.one_by_one import schedule_one_by_one
from ..time.decoding import settled_tokens
from ..time.instance import clear_step
from ..time.step_time import step_time
from . import copies
from .admit import admit_or_load
from .connector import next_offer, offer, offer_finished


@leaf
def _offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before):
    """Offer what each request of the step will have computed at its end, in scheduling order.

    The first `scheduled` of the `before` requests that ran before it, and those admitted in it.
    Asynchronously a token that is being sampled is not known yet, nor is the block that it fills.
    """
    step = inst["step"]
    inst["next_offer"] = NEVER
    for position in range(inst["running"]):
        r = ws.running[inst["run_lo"] + position]
        progress = ws.progress[r]
        leaves = progress["decoding"] == LEAVING
        if (position < inst["scheduled"] or position >= before) and not leaves:
            tokens = progress["computed"]
            if progress["decoding"]:
                request = inp.requests[lane["request_lo"] + r]
                tokens = settled_tokens(lane, request, progress, step + 1, step - 1)
            offer(inp, ws, out, lane, inst, tally, index, off, r, tokens)
            due = next_offer(inp, ws, lane, r, tokens)
            inst["next_offer"] = min(inst["next_offer"], step + due)


@leaf
def schedule_step(inp, ws, out, lane, inst, tally, index):
    """Schedule a step and begin its stores; return how long it computes and how long it stalls."""
    off = ws.offload[index]
    inst["serial"] += 1
    inst["gave_up"] = 0
    clear_step(lane, inst)
    inst["device"] = max(0, off["device_end"] - inst["clock"])
    if inst["running"] > 0:
        schedule_one_by_one(inp, ws, out, lane, inst, tally, index)
    before = inst["running"]
    if inst["preempted"] == 0 and inst["waiting"] + inst["held"] > 0:
        admit_or_load(inp, ws, out, lane, inst, tally, index)
    copies.find_awaited(inp, ws, lane, inst, off)
    _offer_scheduled(inp, ws, out, lane, inst, tally, index, off, before)
    offer_finished(inp, ws, out, lane, inst, tally, index, off)
    stall = copies.begin_stores(ws, out, lane, inst, tally, index, off)
    compute = 0
    if inst["prefill_tokens"] + inst["decode_tokens"] > 0:
        compute = step_time(lane, inst)
    return compute, stall
