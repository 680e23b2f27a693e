"""What decoding requests store: counted, and put into the tier when it matters.

Which chunks a request that decodes has filled follows from its base and the step. While none of
them can be on the CPU already, and each request has its rank, nobody can tell when those whose
stores are over come into the tier: it is when the request leaves or misses a step, when it offers
more, when another one that has the same chunks is looked up, or when more makes room than what
stands in front of all requests (`settle_all`). Stores that are not over are jobs that name no
request (counted_jobs.py).
"""

from ..._jit import leaf, part
from ..blocks.sizes import full_blocks
from ..time.decoding import most_computed
from .chunks import chunks_of
from .counted_jobs import begun, offered, settle_to, spell_out
from .filled import is_absent
from .order import is_arc


@leaf
def may_count(lane):
    """Return whether what decoding requests store may be counted, if nothing else is against it."""
    again = lane["any_shared"] and not lane["prefix_caching"]  # two may fill one chunk, in one run
    alike = not (lane["prompt_only"] or lane["context"] or lane["log"] or lane["factor"] > 1)
    return alike and not (is_arc(lane) or again)


@leaf
def nobody_tells(inst, off):
    """Return whether nothing tells when stores of decoding requests come into the tier.

    None of their chunks can be there already, and each request has its rank.
    """
    return inst["watched"] == 0 and off["unranked"] == 0


@part
def settle(inp, ws, lane, inst, r):
    """Put what a request has stored and is only counted into the tier."""
    progress = ws.progress[r]
    if inst["unsettled"] > 0 and progress["decoding"] == 1:
        request = inp.requests[lane["request_lo"] + r]
        off = ws.offload[inst["number"]]
        step = inst["filled_to"]
        if off["counted"] > 0:
            end = offered(lane, request, progress, step)
            if end > offered(lane, request, progress, min(step, off["counted_from"])):
                spell_out(inp, ws, lane, inst, off)
        settle_to(inp, ws, lane, inst, request, progress, r, step)


@part
def settle_all(inp, ws, lane, inst):
    """Put all that is only counted into the tier."""
    off = ws.offload[inst["number"]]
    if off["counted"] > 0:
        spell_out(inp, ws, lane, inst, off)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        settle(inp, ws, lane, inst, ws.running[place])


@leaf
def note_odd(ws, lane, inst, step):
    """Note that somebody may offer in `step` what it has offered already, asynchronously.

    Who begins to decode has; who missed the step before last, as no token of it was on its way.
    """
    if lane["async_scheduling"]:
        off = ws.offload[inst["number"]]
        off["odd_to"] = max(off["odd_to"], step)


@leaf
def begin_counting(inp, ws, lane, inst, request, progress, step):
    """Note whether a request that begins to decode may fill what is on the CPU already.

    It may if others have its chunks too and one of them is there, or may come meanwhile.
    """
    absent = not request["duplicate"]
    if absent and request["shared"]:
        first = begun(lane, request, progress)
        end = chunks_of(lane, full_blocks(lane, most_computed(request)))
        absent = is_absent(inp, ws, lane, inst, request, first, end)
    progress["watched"] = not absent
    inst["watched"] += not absent
    note_odd(ws, lane, inst, step)


@leaf
def end_counting(inp, ws, lane, inst, r):
    """Put what a request that stops decoding has stored into the tier."""
    if inst["unsettled"] > 0:
        settle(inp, ws, lane, inst, r)
    inst["watched"] -= ws.progress[r]["watched"]
    ws.progress[r]["watched"] = 0


@part
def watch_decodes(inp, ws, lane, inst):
    """Note that another request brings chunks to the CPU that decoding ones may fill."""
    settle_all(inp, ws, lane, inst)
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        progress = ws.progress[r]
        shared = inp.requests[lane["request_lo"] + r]["shared"]
        if progress["decoding"] == 1 and shared and not progress["watched"]:
            progress["watched"] = 1
            inst["watched"] += 1
