"""What is noted of a head that lacks blocks, so that it is not tried in vain (`refused`)."""

import numpy as np

from ..._jit import leaf
from ..blocks.sizes import blocks_for
from .own_again import recorded
from .slots import groups_of, slot_of, window_of
from .tables import left_by


@leaf
def _may_hit_more(inp, ws, lane, inst, engine, request, hits):
    """Return whether a running request fills blocks of a head: behind its `hits`, or duplicates."""
    for place in range(inst["run_lo"], inst["run_lo"] + inst["running"]):
        r = ws.running[place]
        state = ws.states[engine["state_lo"] + r]
        other = inp.requests[lane["request_lo"] + r]
        block = min(np.int64(state["published"]), hits)  # who has the same behind it has this too
        both = block < min(np.int64(request["reusable"]), np.int64(other["reusable"]))
        fills = both and state["published"] < state["private"]
        if fills and inp.keys[request["key_lo"] + block] == inp.keys[other["key_lo"] + block]:
            return True
    return False


@leaf
def _with_duplicates(inp, ws, lane, state, hits):
    """Return how many of the blocks that a head hits nobody uses, and have a duplicate."""
    count = np.int64(0)
    for group in range(groups_of(lane)):
        gone = left_by(lane, window_of(inp, lane, group), hits * lane["block_size"])
        for block in range(gone, recorded(lane, state, hits)):
            found = np.int64(ws.tables[slot_of(state, group, block)])
            record = ws.blocks[found]
            count += record["ref_count"] == 0 and record["duplicate_next"] != found
    return count


@leaf
def _may_be_shorter(lane, inst, engine):
    """Return whether a chunk has less room once all who run verify drafts, and so lacks less."""
    width = inst["running"] * (1 + lane["drafts"])
    input_width = width + inst["running"] * lane["slot"]
    used = lane["max_tokens"] - inst["budget"]
    return width > used or input_width > lane["max_tokens"] - engine["input"]


@leaf
def refuse(inp, ws, lane, inst, engine, r, lacks, hits, watches):
    """Note that the head lacks so many blocks: without as many more free it is refused again.

    Unless it hits more, as somebody caches a block of its (`refused.wake_for`); with drafts, and
    where prefill and decode are apart, while somebody fills one. And if it `watches` it may lack
    fewer once one of its hits is evicted (`refused.evicts_hit`): of its first chunk, maybe smaller,
    or of what a window hits. Of its hits that nobody uses, those with a duplicate are not to be
    counted: once one is evicted the other may do, which may be used. Nor is the room for drafts
    behind all that it knows: once a hit is evicted its chunk may end before.
    """
    request = inp.requests[lane["request_lo"] + r]
    inst["shortages"] += 1
    engine["refused"] = 1
    engine["watches"] = watches
    if lane["any_shared"] and (lane["drafts"] > 0 or lane["disaggregated"]):
        engine["refused"] = not _may_hit_more(inp, ws, lane, inst, engine, request, hits)
    if lane["drafts"] > 0 and not lane["reserve_full_prompt"]:
        engine["refused"] = engine["refused"] and not _may_be_shorter(lane, inst, engine)
    if lane["drops_last"]:  # of what it hits the last block is not known here
        engine["refused"] = 0
    state = ws.states[engine["state_lo"] + r]
    known = np.int64(state["known"])
    drafts = blocks_for(lane, known + 2 * lane["drafts"]) - blocks_for(lane, known)
    fewer = drafts * groups_of(lane) + _with_duplicates(inp, ws, lane, state, hits)
    engine["free_wanted"] = inst["free"] + lacks - fewer
