"""CPU tiers, and vLLM's connector to them."""

from kvsweep.records.fields import Field, dtype_of, f64, i32, i64, u8

RUN_FIELDS = (
    Field("rank", i64, "1", "when its first block was used, smallest first; ARC: its ring"),
    Field("offer", i64, "1", "tier as vLLM has it: the last offer that it is part of"),
    Field("extent", i32, "index", "extent record whose places these are, or -1: no run"),
    Field("first", i32, "1", "its first place: a key, or the chunk of a tier as vLLM has it"),
    Field("end", i32, "1", "the place behind its last one"),
    Field("falls", i32, "1", "which of its places makes room first (kernel.blocks.runs)"),
    Field("prev", i32, "index", "neighbour in the ring, less recently used"),
    Field("next", i32, "index", "neighbour in the ring, or in the stack of spare records"),
    Field("left", i32, "index", "run of the extent before it, of the lowest: the highest"),
    Field("right", i32, "index", "run of the extent behind it, of the highest: the lowest"),
    Field(
        "readers", i32, "1", "tier as vLLM has it: loads that read it, or what offload.room names"
    ),
    Field("job", i32, "index", "likewise: the store that writes it"),
)

CHUNK_FIELDS = (
    Field("offer", i64, "1", "the last offer that it is part of"),
    Field("rank", i64, "1", "LRU: when it was used; ARC: the ring that it is in"),
    Field("place", i32, "block", "LRU: chunks of a request in front of it; of a mark -1"),
    Field("group", i32, "index", "its group of layers"),
    Field("readers", i32, "1", "loads that read it, or what kernel.moving.rings names"),
    Field("prev", i32, "index", "neighbour in its ring, less recently used"),
    Field("next", i32, "index", "neighbour in its ring"),
    Field("lane", i32, "1", "`serial` of the lane that last asked for it, or of an older one"),
)

SLOT_FIELDS = (
    Field("since", i64, "1", "the schedule that gave its block to the request"),
    Field("block", i32, "index", "block that a store reads for it"),
    Field("job", i32, "index", "copy of its block; a load marks the last one of a chunk; or -1"),
    Field("flags", u8, "1", "of the chunk that it ends: flags of kernel.moving.manager"),
)

TIER_FIELDS = (Field("came", i64, "us", "when the block was copied to the CPU"),)

OFFLOAD_FIELDS = (
    Field("chunks", i64, "block", "chunks on the CPU"),
    Field("idle", i64, "block", "of them, those that nobody reads or writes"),
    Field("offers", i64, "1", "offers made so far"),
    Field("ranks", i64, "1", "LRU: numbers handed out so far"),
    Field("target", f64, "block", "ARC: chunks used once that are kept at the others' cost"),
    Field("once", i64, "block", "ARC: chunks used once"),
    Field("once_ghosts", i64, "block", "ARC: ghosts of those"),
    Field("again_ghosts", i64, "block", "ARC: ghosts of chunks used again"),
    Field("job_lo", i64, "index", "first record of this instance's copies"),
    Field("job_fresh", i64, "1", "records of copies handed out at least once"),
    Field("job_spare", i64, "index", "stack of records of copies"),
    Field("queue_lo", i64, "index", "first of this instance's queues of copies"),
    Field("store_ready", i64, "us", "end of the last store begun"),
    Field("load_ready", i64, "us", "end of the last load begun"),
    Field("unreported", i64, "1", "copies created and not reported"),
    Field("pinned", i64, "1", "of them, stores of requests that have finished"),
    Field("lags", i64, "1", "1 if a running request must offer again what was refused"),
    Field("unranked", i64, "1", "0 if all running requests that decode have a rank, surely"),
    Field("odd_to", i64, "step", "up to this one phases may not tell who offers a chunk"),
    Field("counted", i64, "1", "jobs that are stores of several requests, only counted"),
    Field("counted_from", i64, "step", "no earlier step created one of these"),
    Field("awaits", i64, "1", "1 if the step being scheduled awaits a store"),
    Field("awaited", i64, "1", "stores that the last step scheduled awaits"),
    Field("queued", i64, "step", "steps scheduled and not processed"),
    Field("device_end", i64, "us", "end of the last of them"),
    Field("end", i64, "us", "the oldest of them: its end"),
    Field("sampling", i64, "1", "1 if the outputs of the last of them are not processed"),
    Field("stall", i64, "us", "the oldest of them: its stall"),
    Field("changes", i64, "1", "the oldest of them: 1 if it changes anything"),
    Field("next_end", i64, "us", "the one after that: its end"),
    Field("next_stall", i64, "us", "the one after that: its stall"),
    Field("next_changes", i64, "1", "the one after that: 1 if it changes anything"),
    Field("finished_head", i64, "index", "first request that finished since the last schedule"),
    Field("finished_tail", i64, "index", "last of them"),
    Field("handing", i64, "index", "first request, as its state, that hands over states; or -1"),
    Field("last_handing", i64, "index", "last of them"),
    Field("loads", i64, "1", "loads so far"),
    Field("stores", i64, "1", "stores so far"),
    Field("loaded", i64, "token", "loaded so far"),
    Field("stored", i64, "token", "stored so far"),
    Field("evictions", i64, "block", "chunks that made room so far"),
    Field("refused", i64, "1", "offers refused for lack of room so far"),
    Field("later", i64, "1", "times that a request was told to ask for its load again"),
)

OFFER_FIELDS = (
    Field("rank", i64, "1", "LRU: rank of the chunks that this request is using, 0: none"),
    Field("flush", i64, "1", "schedule that awaits its stores, as it preempts it"),
    Field("due", i64, "step", "while decoding: next at which it may have chunks to offer, else 0"),
    Field("next", i32, "block", "first chunk that it has not offered"),
    Field("next_head", i32, "block", "explicit: the same of the group of an EAGLE head"),
    Field("seen_first", i32, "block", "LRU: first of the chunks that it has offered or reused"),
    Field("seen_end", i32, "block", "the one behind the last, 0: none; -1: they have flags"),
    Field("jobs", i32, "1", "its copies that are not reported"),
    Field("told", i32, "block", "explicit: blocks of each of its tables that are known of"),
    Field("put", i32, "index", "explicit, LRU: chunk that it put in order last, or its mark"),
    Field("behind", i32, "index", "explicit: who finished next since the last schedule, or -1"),
)

JOB_FIELDS = (
    Field("ends", i64, "us", "when the copy ends, once it has begun"),
    Field("flush", i64, "1", "schedule whose step awaits it"),
    Field("tokens", i64, "token", "tokens that it copies"),
    Field("pinned", i64, "1", "twice the schedule that pinned its blocks, 1 more if after it"),
    Field("row", i64, "index", "its row in the log"),
    Field("request", i32, "index", "request whose chunks it copies; -1: several, a chunk each"),
    Field("first", i32, "block", "the first of these chunks; of several: the step that created it"),
    Field("end", i32, "block", "the one behind the last; of several: stores not reported"),
    Field("next", i32, "index", "next in its queue, or in the stack of spare records"),
)

QUEUE_FIELDS = (
    Field("head", i32, "index", "first copy, or -1"),
    Field("tail", i32, "index", "last copy"),
)

PIN_FIELDS = (
    Field("touched", i64, "1", "the last schedule that took or hit the block"),
    Field("evicted", i64, "1", "twice the last schedule that evicted the block of this id"),
    Field("evicted_before", i64, "1", "the same before the last schedule"),
    Field("stores", i64, "1", "stores of finished requests that still read it"),
    Field("order", i64, "block", "evictions before that of the block of this id"),
    Field("heir", i64, "index", "request that got the block evicted last, or a named one; or -1"),
    Field("place", i64, "block", "which of its blocks that is; if free how many are below it"),
    Field("again", i64, "1", "schedule that hit it there, though the last one has evicted it"),
    Field("next", i64, "index", "block evicted before it in the same schedule, or named; or -1"),
)

RUN = dtype_of(RUN_FIELDS)
CHUNK = dtype_of(CHUNK_FIELDS)
SLOT = dtype_of(SLOT_FIELDS)
TIER = dtype_of(TIER_FIELDS)
OFFLOAD = dtype_of(OFFLOAD_FIELDS)
OFFER = dtype_of(OFFER_FIELDS)
JOB = dtype_of(JOB_FIELDS)
QUEUE = dtype_of(QUEUE_FIELDS)
PIN = dtype_of(PIN_FIELDS)
