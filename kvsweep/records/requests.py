"""Requests: what is given of each, and how far it has come."""

from kvsweep.records.fields import Field, dtype_of, i32, i64, u8

REQUEST_FIELDS = (
    Field("arrival", i64, "us", "arrival at the cluster (closed loop: not before the kernel)"),
    Field("key_lo", i64, "index", "first slot of this request in the key list"),
    Field("chain_lo", i64, "index", "first slot of this request in the chain list"),
    Field("prompt_lo", i64, "index", "first slot of this request in the list of prompt extents"),
    Field("priority", i64, "1", "priority given by the source, else 0 (smaller: more urgent)"),
    Field("class_priority", i64, "1", "priority given by the source, else made from the class"),
    Field("think", i64, "us", "closed loop: from seeing the previous round's end to arrival"),
    Field("patience", i64, "us", "longest wait for the first step, -1: any"),
    Field("prompt", i64, "token", "prompt length"),
    Field("output", i64, "token", "output length"),
    Field("reusable", i64, "block", "leading keys that another request has too"),
    Field("follower", i64, "index", "request that arrives after this one's completion, or -1"),
    Field("shared", u8, "1", "1 if another request has a key of one of its decode blocks"),
    Field("duplicate", u8, "1", "1 if one of these keys is also of another request's decode block"),
    Field("accepted_lo", i64, "index", "first of the drafts that its verifications accept"),
    Field("accepted_len", i64, "1", "how many of these there are, used in a circle; 0: none"),
    Field("awaits", u8, "1", "1 if it arrives after another request's completion"),
    Field("fails", u8, "1", "1 if the pull of its blocks fails, where there are leases"),
    Field("slo_class", u8, "1", "code of policies.SloClass; a class of another name: standard"),
    Field("family", i32, "index", "key of its first block, -1: none; 0 where nothing is shared"),
)

CHAIN_FIELDS = (
    Field("extent", i32, "index", "extent of the request list"),
    Field("first", i32, "block", "blocks of the request before this extent"),
    Field("end", i32, "block", "blocks of the request up to the end of this extent"),
)

PROGRESS_FIELDS = (
    Field("arrival", i64, "us", "arrival at the cluster"),
    Field("base", i64, "step", "while decoding: computed tokens = step index - base"),
    Field("phase", i64, "step", "base modulo the block size"),
    Field("queued", i64, "us", "entry into the waiting list"),
    Field("scheduled", i64, "us", "when the first admission was scheduled"),
    Field("first_token", i64, "us", "end of the step that sampled the first token"),
    Field("finish", i64, "us", "end of the step that sampled the last token"),
    Field("last_token", i64, "us", "end of the step that sampled the latest token so far"),
    Field("computed", i64, "token", "computed tokens while prefilling"),
    Field("found", i64, "token", "tokens found cached at the latest admission"),
    Field("frontier", i64, "token", "most tokens that were computed at a preemption"),
    Field("recomputed", i64, "token", "tokens computed again below the frontier"),
    Field("outputs", i64, "token", "sampled tokens when decoding last began or ended"),
    Field("cached_blocks", i64, "block", "leading blocks that it has cached or hit"),
    Field("link", i64, "index", "slot in the chain list of the last cached block's extent"),
    Field("fills", i64, "index", "extent in which it began to decode blocks of others, or -1"),
    Field("reused", i64, "block", "blocks hit at the latest admission"),
    Field("chunk", i64, "token", "tokens scheduled in this step while prefilling"),
    Field("missed", i64, "step", "the last step that it missed while running, or -1"),
    Field("preemptions", i64, "1", "times preempted"),
    Field("cached_tokens", i64, "token", "cached tokens at the first admission"),
    Field("instance", i64, "index", "instance routed to"),
    Field("prev", i64, "index", "neighbour in the inbox or the waiting list"),
    Field("next", i64, "index", "neighbour in the inbox or the waiting list"),
    Field("loading", u8, "1", "0: waits for no load; else kernel.holders.LOADING or LOADED"),
    Field("decoding", u8, "1", "1 from the first sample after an admission on, or LEAVING"),
    Field("status", u8, "1", "code of policies.RequestStatus"),
    Field("watched", u8, "1", "CPU tiers: 1 if what it decodes may be there already"),
    Field("turn", i32, "1", "beside a CPU tier of kvsweep's own: `INSTANCE.turns` when admitted"),
)

REQUEST = dtype_of(REQUEST_FIELDS)
CHAIN = dtype_of(CHAIN_FIELDS)
PROGRESS = dtype_of(PROGRESS_FIELDS)
