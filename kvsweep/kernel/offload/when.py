"""When steps may be run by counts though copies are under way, or created."""

import numpy as np

from ..._jit import leaf
from ...records import NEVER, NONE
from ..scheduling import waiting
from ..scheduling.admit import may_admit
from ..scheduling.caching import is_being_filled
from ..scheduling.holders import LOADED
from . import jobs
from .connector import concerns_head


@leaf
def _head_has_copied(inp, ws, lane, inst, off):
    """Return whether the head of the waiting list has a chunk that is being copied."""
    has = False
    for queue in (jobs.WAITING_STORES, jobs.STORES, jobs.LOADS):
        job = jobs.head(ws, off, queue)
        while job != NONE and not has:
            record = ws.jobs[job]
            if record["request"] == NONE:
                head = waiting.first_waiting(ws, lane, inst)
                has = is_being_filled(inp, ws, lane, inst, inp.requests[lane["request_lo"] + head])
            else:
                request = inp.requests[lane["request_lo"] + record["request"]]
                has = concerns_head(inp, ws, lane, inst, request, np.int64(record["first"]))
            job = np.int64(record["next"])
    return has


@leaf
def head_is_deaf(inp, ws, lane, inst, off):
    """Return whether copies under way change nothing for the waiting list.

    Only who was told to ask later hears of their reports. All others who lack blocks go on lacking
    them; but if a step evicts what the head hits, it may look for a chunk that is being copied
    instead, and be told. So it must have none of these, or nothing must be left to evict.
    """
    deaf = not may_admit(lane, inst)
    if not deaf and not inst["told"]:
        deaf = inst["evictable"] == 0 or not _head_has_copied(inp, ws, lane, inst, off)
    return deaf


@leaf
def stores_meanwhile(lane, inst):
    """Return whether a run of decode steps may go on while requests store what they decode.

    A store of what the head of the waiting list could load makes it ask later: so there must be
    none, or no seat for it, or it was refused and nobody fills what it has. And the begin of each
    step must be known, so that all take the same time. Without prefix caching nobody knows who
    fills what others have too.
    """
    rests = inst["try_head"] == 0 and inst["try_head_at"] == NEVER and not inst["told"]
    rests = rests and (lane["prefix_caching"] or not lane["any_shared"])
    return not (lane["prompt_only"] or lane["context"]) and (rests or not may_admit(lane, inst))


@leaf
def _head_has_refused(inp, ws, lane, inst):
    """Return whether the head of the waiting list has a chunk that is offered again.

    It was refused for lack of room, maybe when there was another head.
    """
    has = False
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        if ws.offers[r]["due"] <= inst["step"] and not has:
            request = inp.requests[lane["request_lo"] + r]
            has = concerns_head(inp, ws, lane, inst, request, np.int64(ws.offers[r]["next"]))
    return has


@leaf
def offers_rest(inp, ws, lane, inst, off):
    """Return whether offers of a run of decode steps change nothing for the waiting list.

    Nobody has anything to offer in its first step, or `stores_meanwhile`.
    """
    rests = inst["next_offer"] > inst["step"]
    if not rests and stores_meanwhile(lane, inst):
        free = off["lags"] == 0 or not may_admit(lane, inst)
        rests = free or not _head_has_refused(inp, ws, lane, inst)
    return rests


@leaf
def holders_rest(ws, lane, inst):
    """Return whether no request that waits for a load may go on before the next load is reported.

    Who has its load was refused then, for lack of blocks that lasts, or there is no seat.
    """
    rests = inst["try_head"] == 0 or inst["running"] == lane["max_num_seqs"]
    place = inst["hold_lo"]
    while not rests and place < inst["hold_lo"] + inst["held"]:
        if ws.progress[ws.hold[place]]["loading"] == LOADED:
            break
        place += 1
    return rests or place == inst["hold_lo"] + inst["held"]
