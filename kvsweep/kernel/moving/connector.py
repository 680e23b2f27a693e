"""vLLM's OffloadingConnector where requests are explicit: what is loaded and stored, and when."""

import numpy as np

from ..._jit import leaf, part
from ...records import NONE, Event
from ..explicit.batches import entry_at, scheduled_batch
from ..explicit.due import is_served
from ..explicit.slots import all_groups, groups_of
from ..memory import place_tier
from ..offload import copies as streams
from ..offload import jobs
from ..tally import log_event
from . import copies, manager, storing
from .handed import store_handed
from .identities import forget_gone
from .rings import begin_chunks, begin_mark, chunk_of, is_here, slot_of_chunk
from .search import LATER, chunks_known, find, is_being_read
from .state_blocks import keep_back, tell_states
from .worth import chunks_to_offer, is_new, is_of_use


@leaf
def begin_moving(ws, lane):
    """Empty the tiers of all instances, and let no request have offered anything."""
    for index in range(lane["instances"]):
        ws.offload[index] = ws.blank_offload[0]
        place_tier(lane, ws.instances[index], ws.offload[index])
        jobs.begin_copies(ws, ws.offload[index])
        begin_chunks(ws, lane, ws.instances[index])
    sides = 1 + lane["disaggregated"]
    for s in range(lane["requests"] * sides):
        ws.offers[s] = ws.blank_offer[0]
        begin_mark(ws, lane, s)
    slots = (lane["key_slots"] + lane["requests"] * lane["more_places"]) * all_groups(lane)
    for slot in range(slots * sides):
        ws.slots[slot]["job"] = NONE
        ws.slots[slot]["flags"] = 0


@leaf
def match(inp, ws, lane, inst, off, request, state, s, local):
    """Return the tokens that a request can load beyond `local` ones on the GPU, or LATER.

    Later: its own copies are under way, or a chunk is still being written, or its blocks will be
    on the GPU anyway, as another request loads them. It will offer all its chunks anew.
    """
    offers = ws.offers[s]
    offers["next"] = 0
    offers["next_head"] = 0
    offers["told"] = 0
    if offers["jobs"] > 0:
        return np.int64(LATER)
    tokens = find(inp, ws, lane, inst, request, state, local)
    reuses = tokens > 0 and lane["prefix_caching"]
    if reuses and is_being_read(inp, ws, lane, inst, request, local, tokens):
        tokens = np.int64(LATER)
    return tokens


@leaf
def note_admitted(ws, lane, state, s):
    """Note that a request runs from now on; its tables are known of with this schedule."""
    ws.offers[s]["told"] = 0
    if lane["states"]:
        ws.recurrent[s]["told"] = 0
    forget_gone(ws, lane, state, s)


@leaf
def note_preempted(ws, inst, s):
    """Note that the step being scheduled preempts a request: it must await its stores."""
    if ws.offers[s]["jobs"] > 0:
        ws.offers[s]["flush"] = inst["serial"]
        inst["flushes"] = 1


@leaf
def note_finish(inp, ws, lane, inst, r, state, s):
    """Note that a request has finished: its blocks are free, but its stores still read them."""
    off = ws.offload[inst["number"]]
    ws.offers[s]["behind"] = NONE
    if off["finished_head"] == NONE:
        off["finished_head"] = s
    else:
        ws.offers[off["finished_tail"]]["behind"] = s
    off["finished_tail"] = s
    if lane["states"]:
        keep_back(ws, lane, state, s)
    if ws.offers[s]["jobs"] > 0:
        copies.protect_all(inp, ws, lane, off, r, state)


@leaf
def _store_chunks(inp, ws, lane, inst, off, request, state, s, first, end, job):
    """Let a job write those of the chunks on offer that are not here; return the blocks read."""
    count = np.int64(0)
    for group in range(groups_of(lane)):
        for chunk in range(first, end):
            slot = slot_of_chunk(lane, state, group, chunk)
            node = chunk_of(inp, ws, lane, inst, request, group, chunk)
            if ws.slots[slot]["flags"] & manager.OFFERED and not is_here(ws, node):
                manager.insert(ws, lane, inst, off, s, slot, node)
                count += copies.read_chunk(inp, ws, lane, state, group, chunk, job)
    return count


@leaf
def _store(inp, ws, out, lane, inst, tally, index, off, r, state, s, first, end):
    """Create the job that writes what is new of an offer."""
    request = inp.requests[lane["request_lo"] + r]
    job = storing.create(ws, off, r, first, end)
    count = _store_chunks(inp, ws, lane, inst, off, request, state, s, first, end, job)
    storing.submit(ws, out, lane, inst, tally, index, off, r, s, job, count)
    if state["done"]:
        copies.protect(inp, ws, lane, state, job)
        if copies.is_touched(inp, ws, lane, inst, state, job, False):
            ws.jobs[job]["flush"] = inst["serial"]
            off["awaits"] = 1


@leaf
def _note_offers(inp, ws, lane, inst, off, request, state, s, first, end, end_head):
    """Note which of the chunks `first` to ``end - 1`` of all groups a request offers.

    That of an EAGLE head offers those before `end_head`.

    Returns
    -------
    new, spare : int
        How many are not here; how many of the others could make room if they were not on offer.
    """
    off["offers"] += 1
    new, spare = np.int64(0), np.int64(0)
    for group in range(groups_of(lane)):
        for chunk in range(first, end):
            slot = slot_of_chunk(lane, state, group, chunk)
            ws.slots[slot]["flags"] &= 255 - manager.OFFERED
            if not is_new(inp, lane, ws.offers[s], group, chunk, end_head):
                continue
            if is_of_use(inp, ws, lane, state, group, chunk):
                more, idle = manager.note_offer(
                    inp, ws, lane, inst, off, request, state, s, group, chunk
                )
                new += more
                spare += idle
    return new, spare


@leaf
def _offer(inp, ws, out, lane, inst, tally, index, off, engine, s, tokens):
    """Store the chunks of the first `tokens` that a request has not offered yet, all or none."""
    offers = ws.offers[s]
    state = ws.states[s]
    end, end_head = chunks_to_offer(lane, state, offers, tokens)
    if end == offers["next"] and end_head == offers["next_head"]:
        return
    first = np.int64(min(offers["next"], offers["next_head"]))
    r = s - engine["state_lo"]
    request = inp.requests[lane["request_lo"] + r]
    new, spare = _note_offers(inp, ws, lane, inst, off, request, state, s, first, end, end_head)
    if new > 0:
        if not manager.make_room(inp, ws, lane, inst, off, request, state, first, end, new, spare):
            off["refused"] += 1
            log_event(out, lane, inst, tally, index, Event.REFUSE, r, NONE)
            return
        _store(inp, ws, out, lane, inst, tally, index, off, r, state, s, first, end)
    offers["next"] = end
    offers["next_head"] = end_head


@leaf
def _offer_counted(inp, ws, out, lane, inst, tally, index, off, engine):
    """Offer what those who are counted have filled: who was served in this step is up to date."""
    engine["offering"] = 0
    for place in range(inst["run_lo"], inst["run_lo"] + engine["counted"]):
        s = engine["state_lo"] + ws.running[place]
        state = ws.states[s]
        if state["since"] == inst["step"] and is_served(lane, inst, state):
            tokens = np.int64(state["known"])
            _offer(inp, ws, out, lane, inst, tally, index, off, engine, s, tokens)


@leaf
def _offer_finished(inp, ws, out, lane, inst, tally, index, off, engine):
    """Offer what those who finished since the last schedule have filled, then let them go."""
    s = np.int64(off["finished_head"])
    while s != NONE:
        state = ws.states[s]
        tokens = max(np.int64(state["prompt"]), np.int64(state["known"]) - 1)
        _offer(inp, ws, out, lane, inst, tally, index, off, engine, s, tokens)
        s = np.int64(ws.offers[s]["behind"])
    s = np.int64(off["finished_head"])
    while s != NONE:
        state = ws.states[s]
        request = inp.requests[lane["request_lo"] + s - engine["state_lo"]]
        manager.finish(inp, ws, lane, inst, off, request, state, s, chunks_known(lane, state))
        s = np.int64(ws.offers[s]["behind"])
    off["finished_head"] = NONE
    off["finished_tail"] = NONE


@leaf
def tell_blocks(inp, ws, lane, inst, state, s):
    """Tell the connector of the blocks that a request has got in this step."""
    offers = ws.offers[s]
    if offers["told"] != state["blocks"]:
        copies.touch(inp, ws, lane, inst, state, s, np.int64(offers["told"]))
        offers["told"] = state["blocks"]
    if lane["states"]:
        tell_states(ws, lane, inst, state, s)


@leaf
def _tell_blocks(inp, ws, lane, inst, engine, first):
    """Tell the connector of the blocks that the entries from `first` on have got."""
    for place in range(first, first + engine["size"]):
        s = np.int64(ws.entries[place]["state"])
        tell_blocks(inp, ws, lane, inst, ws.states[s], s)


@part
def build(inp, ws, out, lane, inst, tally, index, engine):
    """Make the work of the step just scheduled, and begin its stores; note how long it stalls."""
    off = ws.offload[index]
    first = entry_at(lane, engine, scheduled_batch(lane, engine), 0)
    _tell_blocks(inp, ws, lane, inst, engine, first)
    copies.find_awaited(inp, ws, lane, inst, off, engine)
    if lane["states"]:
        store_handed(inp, ws, out, lane, inst, tally, index, off, engine)
    if engine["offering"]:
        _offer_counted(inp, ws, out, lane, inst, tally, index, off, engine)
    for place in range(first, first + engine["size"]):
        s = np.int64(ws.entries[place]["state"])
        tokens = np.int64(ws.states[s]["computed"])
        _offer(inp, ws, out, lane, inst, tally, index, off, engine, s, tokens)
    _offer_finished(inp, ws, out, lane, inst, tally, index, off, engine)
    engine["copies"] = off["unreported"]
    engine["stall"] = streams.begin_stores(ws, out, lane, inst, tally, index, off)
    inst["transfer_time"] += engine["stall"]
