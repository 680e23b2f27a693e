"""From a prefill instance to a decode instance: rule R14.

A finished prefill keeps its blocks. Its request enters the waiting list of a decode instance, which
takes blocks for it and pulls what it does not have over its link, one transfer after the other.
Each side learns of the end of a transfer with its own next step that ends then or later.
What leases and failures add is in leases.py.
"""

import numpy as np

from ..._jit import leaf
from ...records import NONE, Event
from ..blocks.sizes import blocks_for
from ..scheduling import waiting
from ..scheduling.holders import LOADED, hold
from ..tally import log_event
from .capacity import pulled_blocks
from .deciding import enter_handed
from .leases import fail_pull, grant
from .lookup import count_users, touch_hits
from .refusing import refuse
from .reserving import reserved
from .states import have_drafts, have_loaded
from .tables import grow_by, release_all


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


@leaf
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
    take_to_load(inp, ws, lane, inst, tally, r, state, s, hits, unused + used, prompt, taken)
    if lane["lease"]:
        ws.handoffs[r]["failed"] |= inp.requests[lane["request_lo"] + r]["fails"]
    _transfer(ws, out, lane, inst, tally, index, engine, r, taken * lane["block_size"])
    return True


@leaf
def _transfer(ws, out, lane, inst, tally, index, engine, r, tokens):
    """Submit the transfer of so many tokens at the start of the step being scheduled."""
    handoff = ws.handoffs[r]
    submitted = max(inst["clock"], engine["device_end"])
    start = max(submitted, engine["link_ready"])
    end = start + lane["pull_base"] + np.int64(np.ceil(tokens / lane["pull_bandwidth"]))
    engine["link_ready"] = end
    engine["pulls"] += 1
    handoff["loading"] = 1
    handoff["arrives"] = end
    handoff["tokens"] = tokens
    tally["pulls"] += 1
    tally["pulled_tokens"] += tokens
    handoff["next_arrival"] = NONE
    if engine["transfer_head"] == NONE:
        engine["transfer_head"] = r
    else:
        ws.handoffs[engine["transfer_tail"]]["next_arrival"] = r
    engine["transfer_tail"] = r
    if not handoff["failed"]:
        _await_release(ws, ws.engines[handoff["source"]], r, end)
    log_event(out, lane, inst, tally, index, Event.PULL, r, tokens)
    if lane["log"]:
        _log(out, inst, tally, index, handoff, r, submitted, start)


@leaf
def _log(out, inst, tally, index, handoff, r, submitted, start):
    """Append a transfer to its log."""
    handoff["row"] = tally["log_transfers"]
    tally["log_transfers"] += 1
    if handoff["row"] < out.transfers.size:
        row = out.transfers[handoff["row"]]
        row["instance"] = index
        row["load"] = 1
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
