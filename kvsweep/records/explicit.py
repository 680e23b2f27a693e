"""Instances of the explicit engine: groups and pools, states, batches, handoffs."""

from kvsweep.records.fields import Field, dtype_of, f64, i32, i64, u8

GROUP_FIELDS = (
    Field("window", i64, "token", "sliding window of this group of layers, 0: full attention"),
    Field("member", i64, "index", "the group that is looked up at this place of the order"),
    Field("member_window", i64, "token", "its window"),
    Field("class_end", i64, "index", "place behind the groups that are looked up with it"),
    Field("asked", i64, "index", "the group that a CPU tier is asked for at this place"),
    Field("slides", u8, "1", "1 if that has a sliding window"),
    Field("head", u8, "1", "1 if this group has the layers of an EAGLE head, should there be one"),
)

POOL_FIELDS = (
    Field("instances", i64, "1", "engine instances of this pool"),
    Field("role", i64, "1", "WHOLE, PREFILL or DECODE"),
    Field("gpu_blocks", i64, "block", "usable blocks of one instance"),
    Field("cpu_blocks", i64, "block", "blocks of one instance's CPU tier, 0: none"),
    Field("watermark", i64, "block", "blocks kept free at admissions"),
    Field("max_num_seqs", i64, "request", "cap on the running list"),
    Field("max_tokens", i64, "token", "token budget of a step"),
    *(Field(f"beta{term}", f64, "us", f"step time, as LANE.beta{term}") for term in range(7)),
    *(Field(f"memory{term}", f64, "us", f"roofline, as LANE.memory{term}") for term in range(7)),
    Field("reach", i64, "token", "as LANE.reach"),
    Field("experts", f64, "us", "memory time of the weights of all experts, as LANE.experts"),
    Field("missed", f64, "1", "as LANE.missed"),
    Field("longest", i64, "token", "longest request that is routed here, output included"),
    Field("routing", i64, "1", "code of policies.Routing: how one of its instances is chosen"),
    Field("scorer_lo", i64, "index", "first scorer of this routing, of those of the lane"),
    Field("scorers", i64, "1", "number of scorers"),
    Field("context", u8, "1", "1 if the step time depends on more than token counts"),
    Field("roofline", u8, "1", "1 if it is the larger of two sums"),
    Field("indexes", u8, "1", "1 if a scorer reads the router's index"),
)

STATE_FIELDS = (
    Field("last_token", i64, "us", "end of the step that sampled its latest token, or -1"),
    Field("eligible", i64, "1", "in a pipeline: the schedule from which on it may decode"),
    Field("table_lo", i64, "index", "first slot of its block tables"),
    Field("places", i32, "block", "slots of each of its tables"),
    Field("prompt", i32, "token", "prompt length"),
    Field("known", i32, "token", "prompt and sampled tokens"),
    Field("limit", i32, "token", "known tokens at its end"),
    Field("sure", i32, "token", "known tokens once the steps on their way have ended"),
    Field("computed", i32, "token", "computed tokens, those on their way and drafts included"),
    Field("placeholders", i32, "token", "output tokens that are being computed, not known yet"),
    Field("flight", i32, "token", "scheduled tokens whose step is not processed"),
    Field("stale", i32, "token", "of these, scheduled before the latest preemption"),
    Field("drafts", i32, "token", "drafts to be verified in the next step"),
    Field("verified", i32, "1", "verifications scheduled so far"),
    Field("coming", i32, "token", "while it is counted: what the batch on the device gives it"),
    Field("blocks", i32, "block", "length of each of its tables"),
    Field("room", i32, "token", "tokens that these have room for"),
    Field("published", i32, "block", "leading blocks that it has cached or hit"),
    Field("shared", i32, "block", "leading blocks whose keys other requests have too"),
    Field("private", i32, "block", "its first block without a record; none while it is preempted"),
    Field("publish_at", i32, "token", "tokens that fill the next one"),
    Field("hit", i32, "block", "blocks hit at its admission, where windows keep but some"),
    Field("slots", i32, "block", "leading blocks that have slots there; others are counted"),
    Field("junction", i32, "token", "of blocks that others have beyond what all groups have; or 0"),
    Field("release_at", i32, "token", "processed tokens with which a window leaves a block"),
    Field("frontier", i32, "token", "most tokens that were computed at a preemption"),
    Field("since", i32, "step", "while it is counted: the step that the state is of"),
    Field("entry", i32, "index", "its place in the batch being scheduled, or -1"),
    Field("split", u8, "1", "1 if its last schedule left tokens of its prefill"),
    Field("prefilling", u8, "1", "1 if it runs, and its prefill is not all scheduled"),
    Field("ends_prefill", u8, "1", "1 if its last schedule ended a prefill that was begun before"),
    Field("runs", u8, "1", "1 if it is in the running list"),
    Field("preempted", u8, "1", "1 if it was preempted at this instance"),
    Field("done", u8, "1", "1 if it has all its tokens"),
)

RECURRENT_FIELDS = (
    Field("length", i32, "block", "length of the table of each group of states"),
    Field("alive", i32, "block", "leading slots that are empty for good"),
    Field("fresh", i32, "block", "first slot that was cached at `fresh_at`"),
    Field("fresh_at", i64, "1", "the latest `turn` that cached a state of it, or -1"),
    Field("told", i32, "block", "beside a CPU tier: slots that the connector knows of"),
    Field("handed", i32, "block", "likewise: first slot cached since the last schedule"),
    Field("handed_end", i32, "block", "the one behind the last of these, 0: none"),
    Field("next_handing", i32, "index", "next state that hands some over, or -1"),
    Field("hands", u8, "1", "1 if it is among those that hand some over"),
    Field("given", u8, "1", "1 if it was given states since it was admitted"),
    Field("keeps", u8, "1", "1 if the chunk being scheduled keeps the state before its last one"),
    Field("inside", i32, "block", "beside EAGLE: slot of that state"),
    Field("inside_end", i32, "token", "likewise: tokens behind which it is"),
    Field("early", i32, "block", "likewise: slot of a fresh state behind the slot before, or -1"),
)

ENTRY_FIELDS = (
    Field("state", i32, "index", "the request, as its state"),
    Field("tokens", i32, "token", "scheduled tokens, drafts included"),
    Field("drafts", i32, "token", "of these, drafts to verify"),
    Field("accepted", i32, "token", "of these, those that will be accepted"),
    Field("samples", u8, "1", "1 if it samples at the end of the step"),
    Field("padded", u8, "1", "1 if its drafts only fill up the batch: all are rejected"),
)

BATCH_FIELDS = (
    Field("end", i64, "us", "when it ends on the device"),
    Field("step", i64, "step", "its index, if it has tokens"),
    Field("row", i64, "index", "its row in the log, or -1"),
    Field("size", i64, "request", "its entries"),
    Field("skipped", i64, "request", "leading entries that do not count: these requests have none"),
    Field("plain", i64, "request", "scheduled requests without entries"),
    Field("changes", i64, "1", "1 if it changes anything"),
    Field("stall", i64, "us", "for which it waits for copies, part of its duration"),
    Field("samples", i64, "1", "in a pipeline: 1 if it samples a token"),
)

CLASS_FIELDS = (
    Field("count", i64, "request", "those of a class of a pipeline who are counted"),
    Field("context", i64, "token", "their computed tokens"),
    Field("measured", i64, "request", "those of them who count in the measures"),
    Field("last_end", i64, "us", "end of the last batch with tokens of the class, or -1"),
)

EDGE_FIELDS = (
    Field("gone", i64, "block", "leading slots of a table whose blocks left its window"),
    Field("step", i64, "step", "when the next one leaves it, in a list (explicit/leavers.py)"),
    Field("own", i64, "step", "from when on it leaves blocks whose keys nobody else has"),
    Field("bare", i64, "step", "from when on it leaves blocks without keys"),
    Field("until", i64, "step", "from when on none leaves"),
    Field("number", i64, "1", "tables that joined its list before"),
    Field("latest", i64, "index", "place of the last note of its list when its request ended"),
    Field("next", i64, "index", "the table behind it in its list, or -1"),
    Field("before", i64, "index", "the table in front of it, or -1"),
    Field("counts", i64, "1", "1 if `count` of its list has it, 2 if `bare` has"),
)

LEAVERS_FIELDS = (
    Field("first", i64, "index", "first table that a window may leave a block of, or -1"),
    Field("last", i64, "index", "last of them"),
    Field("joined", i64, "1", "tables that have joined them so far"),
    Field("visited", i64, "step", "last step in which they were asked"),
    Field("count", i64, "block", "blocks with keys that they leave in a step before `look_at`"),
    Field("bare", i64, "block", "blocks without keys that they leave then"),
    Field("look_at", i64, "step", "when to look at each"),
    Field("latest", i64, "index", "place of the last note of what they left, or -1"),
    Field("ended", i64, "index", "first table of who has ended, of whom notes tell, or -1"),
    Field("ended_last", i64, "index", "last of them"),
)

LEFT_FIELDS = (
    Field("record", i32, "index", "block id of the record that the blocks are part of"),
    Field("count", i32, "block", "blocks that were left, as far as they are in one piece"),
    Field("step", i64, "step", "when"),
    Field("first", i64, "1", "number of the first table that left one, or less"),
    Field("before", i64, "index", "place of the note before of the same list, or -1"),
)

ENGINE_FIELDS = (
    Field("state_lo", i64, "index", "state of the first request at this instance"),
    Field("entry_lo", i64, "index", "first entry of its first batch"),
    Field("batch_lo", i64, "index", "its first batch"),
    Field("queued", i64, "step", "batches scheduled and not processed"),
    Field("oldest", i64, "index", "place of the oldest of them in the ring of batches"),
    Field("stage_lo", i64, "index", "first stage of its pipeline"),
    Field("share", i64, "request", "requests that this schedule may serve, at most"),
    Field("aside", i64, "index", "request that this schedule passed over last, or -1"),
    Field("device_end", i64, "us", "end of the last of them"),
    Field("last_end", i64, "us", "end of the last batch with tokens that was processed"),
    Field("size", i64, "request", "entries of the batch being scheduled"),
    Field("taken_back", i64, "request", "entries whose request was preempted again"),
    Field("walked", i64, "request", "running requests that this schedule serves"),
    Field("waited", i64, "request", "length of the waiting list before this schedule"),
    Field("evicted", i64, "block", "evictions before this schedule"),
    Field("freed_before", i64, "block", "`window_freed` before this schedule"),
    Field("counted", i64, "request", "leading running requests whose states may lag behind"),
    Field("context", i64, "token", "computed tokens of these"),
    Field("measured", i64, "request", "those of these who count in the measures"),
    Field("planned", i64, "step", "with drafts: first step that is not planned for these"),
    Field("plain", i64, "request", "running requests that this batch has without entries"),
    Field("missed", i64, "request", "those of these who missed a schedule and had no token since"),
    Field("missed_from", i64, "index", "position of the first of them in the running list"),
    Field("missed_at", i64, "step", "the schedule that they missed"),
    Field("missed_context", i64, "token", "computed tokens of them then"),
    Field("missed_inside", i64, "token", "what their count has of these inside a window"),
    Field("missed_measured", i64, "request", "those of them who count in the measures"),
    Field("late_end", i64, "us", "when their last token came, once `late`"),
    Field("plan_lo", i64, "index", "the 0 before its planned steps"),
    Field("free_wanted", i64, "block", "free blocks that a refused head needs at least"),
    Field("even", i64, "token", "tokens of this batch whose last one came with the step before"),
    Field("at_once", i64, "token", "tokens of this batch that come with one before them"),
    Field("input", i64, "token", "tokens and slots that the step may still take as input"),
    Field("schedules", i64, "1", "schedules made so far, empty ones included"),
    Field("turn", i64, "1", "the one being made by number, of those for heartbeats alone as well"),
    Field("window_freed", i64, "block", "blocks that left their window so far"),
    Field("left", i64, "block", "place of the next of them that is noted"),
    Field("left_at", i64, "index", "the same in the circle of places; explicit/left_behind.py"),
    Field("drafts", i64, "token", "drafts verified so far"),
    Field("accepted", i64, "token", "drafts accepted so far"),
    Field("pulls", i64, "1", "transfers begun by the batch being scheduled"),
    Field("copies", i64, "1", "copies from and to a CPU tier that are not reported"),
    Field("offering", i64, "1", "1 if somebody who is counted has a chunk to store"),
    Field("stall", i64, "us", "for which the batch being scheduled waits for copies"),
    Field("link_ready", i64, "us", "end of the last transfer to this instance"),
    Field("kept", i64, "request", "finished requests whose blocks are kept for a transfer"),
    Field("transfer_head", i64, "index", "request whose transfer is reported next"),
    Field("transfer_tail", i64, "index", "request whose transfer is reported last"),
    Field("pulls_from", i64, "index", "first of those whose pulls begin with this batch, or -1"),
    Field("pulls_to", i64, "index", "last of them"),
    Field("lease_head", i64, "index", "first of the requests that it keeps blocks of for a lease"),
    Field("lease_tail", i64, "index", "last of them"),
    Field("expires", i64, "us", "when the first of these leases ends"),
    Field("changed", i64, "us", "of the first: when the lane last changed but by heartbeats"),
    Field("next_beat", i64, "us", "from when on its schedule sends a heartbeat"),
    Field("awaited", i64, "request", "requests here whose blocks were not pulled yet"),
    Field("splits", u8, "1", "1 if a running request of this batch had its prefill split"),
    Field("refused", u8, "1", "1 if the last schedule refused a head for lack of blocks"),
    Field("owed_first", i64, "index", "first who is done, whose blocks wait for a batch, or -1"),
    Field("owed_last", i64, "index", "last of them"),
    Field("watches", u8, "1", "1 if it may be admitted once one of its hits is evicted"),
    Field("late", u8, "1", "1 if the batch that they missed has ended"),
    Field("begun", u8, "1", "1 if a run of decodes ended with blocks given for its next step"),
    Field("finished", u8, "1", "1 if a request has finished since the last schedule"),
    Field("heard", u8, "1", "1 if a heartbeat has come in the step under way"),
    Field("settles", u8, "1", "1 if the oldest batch is processed before the next schedule"),
    Field("asleep", u8, "1", "1 if no step is made until a transfer ends or a request enters"),
)

HANDOFF_FIELDS = (
    Field("queued", i64, "us", "entry into the waiting list of the prefill instance"),
    Field("prefilled", i64, "us", "end of the prefill"),
    Field("requeued", i64, "us", "entry into the waiting list of the decode instance"),
    Field("arrives", i64, "us", "end of the transfer of its blocks"),
    Field("pulled", i64, "us", "end of the step of the decode instance that reported it"),
    Field("released", i64, "us", "end of the step of the prefill instance that reported it"),
    Field("tokens", i64, "token", "tokens that were transferred"),
    Field("source", i64, "index", "prefill instance"),
    Field("target", i64, "index", "decode instance"),
    Field("next_arrival", i64, "index", "request whose transfer ends next at its instance"),
    Field("next_release", i64, "index", "request that its prefill instance releases next"),
    Field("next_begun", i64, "index", "beside a tier: request whose transfer begins next"),
    Field("row", i64, "index", "row of the transfer in the log"),
    Field("lease_end", i64, "us", "until when its prefill instance keeps its blocks"),
    Field("next_lease", i64, "index", "request that was next to get a lease there"),
    Field("loading", u8, "1", "1 once its blocks were asked for, or if it has none to pull"),
    Field("renewed", u8, "1", "1 if a heartbeat of it has come in the step under way"),
    Field("failed", u8, "1", "1 if its pull fails: as drawn, or as its lease ended before"),
)

GROUP = dtype_of(GROUP_FIELDS)
POOL = dtype_of(POOL_FIELDS)
STATE = dtype_of(STATE_FIELDS)
RECURRENT = dtype_of(RECURRENT_FIELDS)
ENTRY = dtype_of(ENTRY_FIELDS)
BATCH = dtype_of(BATCH_FIELDS)
CLASS = dtype_of(CLASS_FIELDS)
EDGE = dtype_of(EDGE_FIELDS)
LEAVERS = dtype_of(LEAVERS_FIELDS)
LEFT = dtype_of(LEFT_FIELDS)
ENGINE = dtype_of(ENGINE_FIELDS)
HANDOFF = dtype_of(HANDOFF_FIELDS)
