"""From a prefill instance to a decode instance: rule R14.

A finished prefill keeps its blocks. Its request enters the waiting list of a decode instance, which
takes blocks for it and pulls what it does not have (transfers.py). What leases and failures add is
in leases.py.
"""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE
from ..blocks.sizes import blocks_for
from ..moving.copies import touch
from ..moving.state_blocks import tell_states
from ..scheduling import waiting
from ..scheduling.holders import hold
from .aligning import is_fresh
from .capacity import handed_tokens, pulled_blocks
from .deciding import enter_handed
from .leases import grant
from .lookup import count_users, find_hits, find_to_pull, touch_hits
from .refusing import refuse
from .reserving import fits, reserved
from .states import have_drafts, have_loaded
from .tables import grow_by
from .transfers import transfer


@leaf
def hand_over(ws, lane, inst, engine, r):
    """Send a request whose prefill has ended at the clock on to its decode instance."""
    handoff = ws.handoffs[r]
    progress = ws.progress[r]
    handoff["queued"] = progress["queued"]
    handoff["prefilled"] = inst["clock"]
    handoff["requeued"] = inst["clock"] + lane["handoff"]
    handoff["source"] = inst["number"]
    engine["kept"] += 1
    if lane["lease"]:
        grant(ws, lane, inst, engine, r)
    enter_handed(ws, ws.instances[handoff["target"]], r, handoff["requeued"])


@leaf
def count_query(lane, tally, state, hits, blocks, measured):
    """Count the look-up of an admission as vLLM does (rule R6.1); in all groups it hit `blocks`."""
    if measured and lane["prefix_caching"]:
        tally["blocks_reused"] += blocks
        if not state["preempted"]:
            tally["query_tokens"] += state["prompt"]
            tally["hit_tokens"] += hits * lane["block_size"]


@leaf
def _take_blocks(ws, lane, inst, tally, state, s, blocks, taken, measured):
    """Let all tables have what a load fills, group by group; states of drafts come last."""
    if lane["states_first"]:
        have_loaded(ws, lane, inst, tally, state, s, blocks, measured)
    grow_by(ws, lane, inst, tally, state, s, blocks, taken, measured)
    if lane["states"]:
        if not lane["states_first"]:
            have_loaded(ws, lane, inst, tally, state, s, blocks, measured)
        have_drafts(ws, lane, inst, tally, state, s, measured)


@part
def take_to_load(inp, ws, lane, inst, tally, r, state, s, hits, seen, tokens, taken):
    """Take the blocks into which the head loads up to `tokens`; it waits for them without a seat.

    Its `hits` touch `seen` blocks of all groups; `taken` are new.
    """
    measured = r >= lane["warmup"]
    count_query(lane, tally, state, hits, seen, measured)
    waiting.leave_waiting(inp, ws, lane, inst)
    touch_hits(inp, ws, lane, inst, r, state, s, hits, tokens)
    _take_blocks(ws, lane, inst, tally, state, s, blocks_for(lane, tokens), taken, measured)
    state["computed"] = tokens
    hold(inp, ws, lane, inst, r)


@leaf
def _begin(inp, ws, out, lane, inst, tally, index, engine, r, state, s, hits, seen, tokens, taken):
    """Begin to pull `tokens` of the head, of which it has `hits` blocks."""
    take_to_load(inp, ws, lane, inst, tally, r, state, s, hits, seen, tokens, taken)
    if lane["lease"]:
        ws.handoffs[r]["failed"] |= inp.requests[lane["request_lo"] + r]["fails"]
    if lane["moves"]:
        touch(inp, ws, lane, inst, state, s, np.int64(0))
        if lane["states"]:
            tell_states(ws, lane, inst, state, s)
    moved = (taken + lane["states"]) * lane["block_size"]
    transfer(ws, out, lane, inst, tally, index, engine, r, moved)


@leaf
def pull(inp, ws, out, lane, inst, tally, index, engine, r, hits, unused, used):
    """Take blocks for the prompt of the head and begin to pull; return whether there is room."""
    s = engine["state_lo"] + r
    state = ws.states[s]
    prompt = np.int64(state["prompt"])
    if lane["windows"]:
        unused, used = count_users(inp, ws, lane, state, hits, prompt)
    taken = pulled_blocks(inp, lane, prompt, hits)
    room = inst["free"] - unused - taken
    if inst["running"] > 0:
        room -= lane["watermark"]
    left, ending = reserved(inp, ws, lane, inst, engine)
    if room < left + ending:
        refuse(inp, ws, lane, inst, engine, r, left - room, hits, False)
        return False
    seen = unused + used
    _begin(inp, ws, out, lane, inst, tally, index, engine, r, state, s, hits, seen, prompt, taken)
    return True


@leaf
def _lacks(lane, state, hits):
    """Return whether there is anything to pull beside so many blocks that a request hits."""
    return hits * lane["block_size"] < handed_tokens(lane, state["prompt"])


@leaf
def look_up(inp, ws, lane, inst, request, state, s, apart):
    """Find what the head hits; and, beside states, what it goes on from if it pulls the rest.

    Returns
    -------
    hits, unused, used : int
        As `find_hits` has them.
    begun : int
        Behind how many of the hits there is a state; NONE: there is nothing to pull, or no state.
    """
    if lane["states"] and apart and not lane["moves"]:
        hits, begun = find_to_pull(inp, ws, lane, inst, request, state, s)
        if _lacks(lane, state, hits):
            return hits, np.int64(0), np.int64(0), begun
    hits, unused, used = find_hits(inp, ws, lane, inst, request, state, s)
    begun = np.int64(NONE)
    if lane["states"] and lane["moves"] and apart and _lacks(lane, state, hits):
        begun = np.int64(hits)
    return hits, unused, used, begun


@leaf
def pull_beside_states(inp, ws, out, lane, inst, tally, index, engine, r, hits, begun):
    """Do so where a state of each group is pulled, too; a head that has to wait is always retried.

    Behind `begun` of its `hits` there is a state.
    """
    s = engine["state_lo"] + r
    state = ws.states[s]
    tokens = handed_tokens(lane, state["prompt"])
    unused, used = count_users(inp, ws, lane, state, hits, hits * lane["block_size"])
    taken = pulled_blocks(inp, lane, tokens, hits)
    room = fits(inp, ws, lane, inst, engine, state, s, hits, begun, tokens, taken, unused)
    if not room or is_fresh(inp, ws, lane, inst, engine, r, begun):
        return False
    seen = unused + used
    _begin(inp, ws, out, lane, inst, tally, index, engine, r, state, s, hits, seen, tokens, taken)
    return True
