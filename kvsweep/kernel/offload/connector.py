"""vLLM's OffloadingConnector, scheduler side: what is loaded and stored, what a step must await."""

import numpy as np

from ..._jit import leaf, part
from ...policies import RequestStatus
from ...records import NEVER, NONE, Event
from ..blocks.sizes import full_blocks
from ..scheduling import waiting
from ..scheduling.caching import is_being_filled
from ..tally import log_event
from ..time.decoding import known_tokens, most_computed
from . import copies, jobs, manager, order
from .counted_stores import may_count, watch_decodes
from .watch import give_ids

LATER = -1


@leaf
def chunks_in(lane, tokens):
    """Return the chunks that `tokens` tokens fill."""
    blocks = full_blocks(lane, tokens)
    return blocks if lane["factor"] == 1 else blocks // lane["factor"]


@leaf
def offer_anew(ws, r):
    """Let a request that is being looked up offer all its chunks, from the first one on."""
    ws.offers[r]["next"] = 0
    ws.offers[r]["due"] = 0


@leaf
def match(inp, ws, lane, inst, off, r, local):
    """Return the tokens that request `r` can load beyond `local` ones on the GPU, or LATER.

    Later: its own copies are under way, or a chunk is still being written, or its blocks will be
    on the GPU anyway, as another request loads them. This changes nothing but where offers begin.
    """
    offer_anew(ws, r)
    if ws.offers[r]["jobs"] > 0:
        return LATER
    request = inp.requests[lane["request_lo"] + r]
    size = lane["chunk_tokens"]
    most = chunks_in(lane, known_tokens(request, ws.progress[r]))
    first = chunks_in(lane, local)
    if most * size - local < size:
        most = first
    chunk, written, read = manager.find(inp, ws, lane, inst, request, first, most)
    tokens = chunk * size - local if chunk > first else 0
    if written or (tokens >= size and read and lane["prefix_caching"]):
        tokens = LATER
    elif tokens < size:
        tokens = 0
    return tokens


@leaf
def load(inp, ws, lane, inst, off, r, local, tokens):
    """Load `tokens` beyond `local` into blocks that request `r` has."""
    request = inp.requests[lane["request_lo"] + r]
    first = chunks_in(lane, local)
    end = chunks_in(lane, local + tokens)
    manager.read(inp, ws, lane, inst, off, request, r, first, end)
    ws.offers[r]["next"] = end
    job = jobs.new_job(ws, off)
    jobs.fill_job(ws, job, r, first, end, tokens)
    jobs.append(ws, off, jobs.NEW_LOADS, job)
    _count(ws, off, r)
    waiting.wake_head(inst)
    off["loads"] += 1
    off["loaded"] += tokens
    inst["reloads"] += tokens // lane["block_size"]


@leaf
def _count(ws, off, r):
    """Count a copy that was created."""
    ws.offers[r]["jobs"] += 1
    off["unreported"] += 1


@leaf
def concerns_head(inp, ws, lane, inst, request, chunk):
    """Return whether a copy of a request, from `chunk` on, may make the waiting list ask later.

    That is, if the head has the chunk too: then it is passed by others. Keys stand for prefixes, so
    it has none of those behind it else.
    """
    concerns = inst["told"] != 0
    if inst["waiting"] > 0 and not concerns:
        head = inp.requests[lane["request_lo"] + waiting.first_waiting(ws, lane, inst)]
        block = (chunk + 1) * lane["factor"] - 1
        akin = head["family"] == request["family"]  # that of a key itself waits for the memory
        if akin and block < full_blocks(lane, most_computed(head)):
            concerns = inp.keys[head["key_lo"] + block] == inp.keys[request["key_lo"] + block]
    return concerns


@leaf
def _offered_tokens(lane, request, tokens):
    """Return how many of the first `tokens` of a request may be stored."""
    if lane["prompt_only"]:
        tokens = min(tokens, request["prompt"])
    return tokens


@leaf
def _look_out(inp, ws, lane, inst, request, first):
    """Let those be watched who decode what a request is about to offer, from chunk `first` on.

    Of what it decodes itself others are known that do too (`begin_counting`).
    """
    prompt = first < chunks_in(lane, request["prompt"])
    if prompt and may_count(lane) and is_being_filled(inp, ws, lane, inst, request):
        watch_decodes(inp, ws, lane, inst)


@part
def offer(inp, ws, out, lane, inst, tally, index, off, r, tokens):
    """Store the chunks of the first `tokens` that request `r` has not offered yet, or none.

    If they are refused they are offered again when it is scheduled again.
    """
    request = inp.requests[lane["request_lo"] + r]
    first = ws.offers[r]["next"]
    end = chunks_in(lane, _offered_tokens(lane, request, tokens))
    if end <= first:
        return
    _look_out(inp, ws, lane, inst, request, first)
    job = jobs.new_job(ws, off)
    new, gap = manager.store(inp, ws, lane, inst, off, request, r, first, end, job)
    if new > 0:
        _store(inp, ws, out, lane, inst, tally, index, off, r, gap, end, new, job)
    else:
        jobs.drop_job(ws, off, job)
    if new >= 0:
        ws.offers[r]["next"] = end
    else:
        off["refused"] += 1
        off["lags"] = 1
        log_event(out, lane, inst, tally, index, Event.REFUSE, r, NONE)


@leaf
def next_offer(inp, ws, lane, r, tokens):
    """Return in how many steps a scheduled request of so many `tokens` may have chunks to store.

    It has offered all that these fill, unless it was refused; then the next step offers it again.
    """
    request = inp.requests[lane["request_lo"] + r]
    end = (ws.offers[r]["next"] + 1) * lane["chunk_tokens"]
    steps = max(1, end - tokens)
    if lane["prompt_only"] and end > request["prompt"]:
        steps = NEVER
    return steps


@leaf
def _store(inp, ws, out, lane, inst, tally, index, off, r, first, end, new, job):
    """Create the job that writes `new` of the chunks `first` to `end - 1` of a request."""
    tokens = new * lane["chunk_tokens"]
    jobs.fill_job(ws, job, r, first, end, tokens)
    jobs.append(ws, off, jobs.NEW_STORES, job)
    _count(ws, off, r)
    request = inp.requests[lane["request_lo"] + r]
    if concerns_head(inp, ws, lane, inst, request, first):
        waiting.wake_head(inst)
    off["stores"] += 1
    off["stored"] += tokens
    inst["offloads"] += new * lane["factor"]
    finished = ws.progress[r]["status"] == RequestStatus.COMPLETED
    ws.jobs[job]["pinned"] = 2 * inst["serial"]
    if finished:
        off["pinned"] += 1
        if copies.pin(inp, ws, lane, inst, off, job, 1):
            ws.jobs[job]["flush"] = inst["serial"]
            off["awaits"] = 1
    log_event(out, lane, inst, tally, index, Event.STORE, r, tokens)


@leaf
def _pin_stores(inp, ws, lane, inst, off, r):
    """Pin the blocks that the stores of a request still read, which has just finished."""
    request = inp.requests[lane["request_lo"] + r]
    factor = lane["factor"]
    for queue in (jobs.WAITING_STORES, jobs.STORES):
        job = jobs.head(ws, off, queue)
        while job != NONE:
            record = ws.jobs[job]
            if record["request"] == r:
                give_ids(
                    inp, ws, lane, inst, request, record["first"] * factor, record["end"] * factor
                )
                record["pinned"] = 2 * inst["serial"] + 1
                copies.pin(inp, ws, lane, inst, off, job, 1)
                off["pinned"] += 1
                inst["watches"] = 1
            job = np.int64(record["next"])


@part
def note_finish(inp, ws, lane, inst, r):
    """Note that a request has finished: its blocks are free, but its stores still read them."""
    off = ws.offload[inst["number"]]
    ws.progress[r]["next"] = NONE
    if off["finished_tail"] == NONE:
        off["finished_head"] = r
    else:
        ws.progress[off["finished_tail"]]["next"] = r
    off["finished_tail"] = r
    if ws.offers[r]["jobs"] > 0:
        _pin_stores(inp, ws, lane, inst, off, r)
    request = inp.requests[lane["request_lo"] + r]
    first = ws.offers[r]["next"]
    end = chunks_in(lane, _offered_tokens(lane, request, most_computed(request)))
    if end > first:
        inst["watches"] = 1
        factor = lane["factor"]
        give_ids(inp, ws, lane, inst, request, first * factor, end * factor)


@leaf
def offer_finished(inp, ws, out, lane, inst, tally, index, off):
    """Offer what the requests that finished since the last schedule have filled, then let them go.

    All are offered before the recency of any is settled.
    """
    r = off["finished_head"]
    while r != NONE:
        tokens = most_computed(inp.requests[lane["request_lo"] + r])
        offer(inp, ws, out, lane, inst, tally, index, off, r, tokens)
        r = ws.progress[r]["next"]
    settle_finished(inp, ws, lane, inst, off)


@leaf
def settle_finished(inp, ws, lane, inst, off):
    """Settle the recency of what the requests used that finished since the last schedule."""
    r = off["finished_head"]
    while r != NONE:
        request = inp.requests[lane["request_lo"] + r]
        chunks = chunks_in(lane, most_computed(request))
        order.finish(inp, ws, lane, inst, off, request, r, chunks)
        r = ws.progress[r]["next"]
    off["finished_head"] = NONE
    off["finished_tail"] = NONE
