"""When steps may be a run of decodes (decode_run.py): who runs, who waits, what is on its way."""

import numpy as np

from ..._jit import leaf
from ...records import PREFILL
from ..scheduling.admit import deadline
from ..scheduling.holders import LOADING
from .batches import is_next
from .leases import beats
from .longest import cuts_nothing
from .refused import evicts_hit
from .slots import FAR
from .states import keeps_states


@leaf
def tries(inp, ws, lane, inst, engine, taken):
    """Return whether a schedule that takes so many blocks would try to admit somebody who waits.

    Or do anything else than decode: send a heartbeat.
    """
    seats = inst["running"] < lane["max_num_seqs"]
    tries = False
    if seats and inst["held"] > 0:
        for place in range(inst["hold_lo"], inst["hold_lo"] + inst["held"]):
            tries = tries or ws.progress[ws.hold[place]]["loading"] != LOADING
    if seats and inst["waiting"] > 0:
        tries = tries or engine["refused"] == 0 or inst["free"] - taken >= engine["free_wanted"]
        tries = tries or evicts_hit(ws, inst, engine, taken)
        if lane["impatient"]:
            tries = tries or inst["clock"] > deadline(inp, ws, lane, inst)
    if lane["lease"]:
        tries = tries or beats(lane, inst, engine)
    return tries


@leaf
def _may_wait_to_cache(lane, request, state):
    """Return whether what a request with drafts will fill may be cached when somebody looks.

    Nobody else's decode fills the same, and no router looks at any time, nor who decides whether to
    prefill apart; or nobody looks at all.
    """
    unseen = state["published"] >= state["private"] or not lane["prefix_caching"]
    looks = lane["sees_blocks"] or (lane["disaggregated"] and lane["threshold"] >= 0)
    return unseen or not (looks or request["duplicate"])


@leaf
def decodes(lane, engine, request, state):
    """Return whether a request got a token in the last step and wants one in this.

    It takes blocks as it goes, its windows have left what they have, and with drafts what it will
    fill need not be cached in the very step.
    """
    waits = np.int64(lane["async_scheduling"]) * (1 + lane["drafts"])
    alike = state["placeholders"] == waits and state["flight"] == waits
    alike = alike and state["last_token"] == engine["last_end"]
    alike = alike and state["known"] + state["placeholders"] - state["computed"] == 1
    alike = alike and not state["prefilling"]
    if lane["drafts"] > 0:
        alike = alike and state["drafts"] == lane["drafts"] and state["release_at"] == FAR
        alike = alike and state["computed"] >= state["frontier"]
        return alike and cuts_nothing(lane, state) and _may_wait_to_cache(lane, request, state)
    alike = alike and state["room"] - state["computed"] < lane["block_size"]
    return alike and state["computed"] - state["flight"] <= state["release_at"]


@leaf
def may_join(ws, lane, engine, request, state, s):
    """Return whether a request may be counted from now on, the next of the running list."""
    joins = decodes(lane, engine, request, state)
    if lane["async_scheduling"] and lane["drafts"] > 0:
        joins = joins and is_next(ws, lane, engine, s)
    return joins


@leaf
def may_plan(lane):
    """Return whether steps with drafts can be planned: what is accepted adds up, no log tells."""
    return lane["most_accepted"] <= lane["drafts"] and not lane["log"]


@leaf
def _may_verify(lane, inst):
    """Return whether a step can verify the drafts of all who run, and need not log each."""
    width = 1 + lane["drafts"] + lane["slot"]
    return inst["running"] * width <= lane["max_tokens"] and may_plan(lane)


@leaf
def may_run(inp, ws, lane, inst, engine):
    """Return whether the next steps may be a run."""
    if lane["role"] == PREFILL or inst["running"] == 0:
        return False
    if lane["block_size"] == 1 and lane["prefix_caching"]:
        return False  # a step of a run would cache what it takes only then: a record too many
    if lane["drafts"] > 0 and (keeps_states(lane) or not _may_verify(lane, inst)):
        return False
    if engine["queued"] != lane["async_scheduling"] or tries(inp, ws, lane, inst, engine, 0):
        return False
    if lane["async_scheduling"]:
        if engine["missed"] > 0:
            return False
        batch = ws.batches[engine["batch_lo"] + engine["oldest"]]
        entries = batch["size"] - batch["skipped"]
        if entries != inst["running"] - engine["counted"] or engine["settles"]:
            return False
    for place in range(inst["run_lo"] + engine["counted"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        request = inp.requests[lane["request_lo"] + r]
        if not decodes(lane, engine, request, ws.states[engine["state_lo"] + r]):
            return False
    return True
