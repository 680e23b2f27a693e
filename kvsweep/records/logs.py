"""What a simulation counts, and what it logs if told to."""

from kvsweep.records.codes import QUANTILES
from kvsweep.records.fields import Field, dtype_of, f64, i32, i64

TALLY_FIELDS = (
    Field("status", i64, "1", "code of LaneStatus"),
    Field("listed", i64, "index", "next request of the list whose arrival is fixed"),
    Field("coming", i64, "request", "arrivals made by completions and not routed yet"),
    Field("sendable", i64, "index", "first request of the list that must wait to be sent"),
    Field("itl_entries", i64, "1", "used slots of the inter-token latency list"),
    Field("log_steps", i64, "step", "logged steps"),
    Field("log_events", i64, "1", "logged events"),
    Field("log_transfers", i64, "1", "logged copies"),
    Field("pruned", i64, "1", "1 if copied from the lane `smaller_pool`"),
    Field("shortages", i64, "1", "times that the number of blocks mattered"),
    Field("steps", i64, "step", "engine steps of all instances"),
    Field("makespan", i64, "us", "end of the last step"),
    Field("used_time", i64, "block us", "used blocks summed over time and instances"),
    Field("evictions", i64, "block", "cached blocks evicted"),
    Field("offloads", i64, "block", "blocks copied to the CPU tier"),
    Field("reloads", i64, "block", "blocks copied back from the CPU tier"),
    Field("thrashed", i64, "block", "of those, blocks that came back within the window"),
    Field("transfer_time", i64, "us", "transfers from the CPU tier, all instances"),
    Field("loads", i64, "1", "loads of a tier as vLLM has it"),
    Field("stores", i64, "1", "stores of such a tier"),
    Field("loaded", i64, "token", "loaded by them"),
    Field("stored", i64, "token", "stored by them"),
    Field("tier_evictions", i64, "block", "chunks of such a tier that made room"),
    Field("refused", i64, "1", "offers refused for lack of room in such a tier"),
    Field("later", i64, "1", "times that a request was told to ask for its load again"),
    Field("window_freed", i64, "block", "blocks given back as they left their window"),
    Field("draft_tokens", i64, "token", "drafts verified"),
    Field("accepted_tokens", i64, "token", "drafts accepted"),
    Field("pulls", i64, "1", "transfers from prefill to decode instances"),
    Field("forgone", i64, "1", "prompts of which a decode instance had all that could be pulled"),
    Field("pulled_tokens", i64, "token", "tokens that these moved, of each group of layers"),
    Field("pull_wait", i64, "us", "from the end of prefills to the report of their transfers"),
    Field("pull_waits", i64, "request", "measured requests whose transfers these are"),
    Field("kept_time", i64, "us", "time that finished prefills kept their blocks"),
    Field("failed_pulls", i64, "1", "of these transfers, those that failed"),
    Field("expired_leases", i64, "1", "leases that ended before the blocks were pulled"),
    Field("blocks_taken", i64, "block", "blocks newly taken by measured requests"),
    Field("blocks_reused", i64, "block", "blocks hit by measured requests at admissions"),
    Field("query_tokens", i64, "token", "tokens looked up at first admissions, measured"),
    Field("hit_tokens", i64, "token", "tokens found cached at first admissions, measured"),
    Field("loaded_tokens", i64, "token", "tokens found on the CPU at first admissions, measured"),
    Field("arrived", i64, "request", "measured requests that must have arrived"),
    Field("preemptions", i64, "1", "times that measured requests were preempted"),
    Field("preempted", i64, "request", "measured requests preempted at least once"),
    Field("computed_tokens", i64, "token", "tokens computed of measured requests, each time"),
    Field("recomputed_tokens", i64, "token", "of those, computed before a preemption already"),
    Field("first_arrival", i64, "us", "first arrival of a measured request; NEVER if none arrives"),
    Field("admissions", i64, "request", "measured requests that began to run"),
    Field("first_tokens", i64, "request", "measured requests that sampled a token"),
    Field("output_tokens", i64, "token", "output of completed measured requests"),
    Field("delay_sum", i64, "us", "scheduling delays of measured requests"),
    Field("patience_sum", i64, "us", "waits of measured requests that their clients gave up"),
    Field("ttft_sum", i64, "us", "times to first token of measured requests"),
    Field("e2e_sum", i64, "us", "times to last token of measured requests"),
    Field("service_sum", i64, "us", "the same from their first step on"),
    Field("tpots", i64, "request", "completed measured requests of two or more output tokens"),
    Field("tpot_sum", f64, "us", "their times per output token"),
    Field("itl_sum", i64, "us", "sum of inter-token latencies, measured requests"),
    Field("itl_count", i64, "token", "number of inter-token latencies, measured requests"),
    *(
        Field(f"itl_q{i}", f64, "us", f"inter-token latency, quantile {quantile:g}")
        for i, quantile in enumerate(QUANTILES)
    ),
)

STEP_FIELDS = (
    Field("step", i64, "step", "index within the instance"),
    Field("instance", i64, "index", "engine instance"),
    Field("scheduled_us", i64, "us", "when the step was scheduled"),
    Field("start_us", i64, "us", "start of the step"),
    Field("duration_us", i64, "us", "duration of the step"),
    Field("running", i64, "request", "length of the running list after scheduling"),
    Field("waiting", i64, "request", "length of the waiting list before scheduling"),
    Field("prefill_tokens", i64, "token", "prompt and recomputed tokens scheduled"),
    Field("decode_tokens", i64, "token", "decode tokens scheduled"),
    Field("preempted", i64, "request", "victims"),
    Field("preempted_in_flight", i64, "request", "of these, those in the step on its way"),
    Field("free_blocks", i64, "block", "free blocks after scheduling, cached ones included"),
    Field("evicted", i64, "block", "cached blocks evicted"),
    Field("stall_us", i64, "us", "waited for copies, part of the duration"),
    Field("tier_blocks", i64, "block", "chunks on the CPU after scheduling"),
    Field("awaited", i64, "1", "copies that it waited for"),
    Field("window_freed", i64, "block", "blocks given back as they left their window"),
    Field("kept", i64, "request", "finished requests that keep their blocks for a transfer"),
    Field("free_after", i64, "block", "free blocks once its outputs are processed, if explicit"),
)

TRANSFER_FIELDS = (
    Field("instance", i32, "index", "engine instance"),
    Field("load", i32, "1", "1: to the GPU, 0: to the CPU"),
    Field("pull", i32, "1", "1 if from another instance, 0: of a CPU tier"),
    Field("request", i64, "index", "request"),
    Field("tokens", i64, "token", "tokens copied"),
    Field("ordered_us", i64, "us", "when its step was scheduled; of a CPU tier, as submitted"),
    Field("submitted_us", i64, "us", "when it was handed to the device"),
    Field("start_us", i64, "us", "when it began"),
    Field("end_us", i64, "us", "when it ended"),
    Field("reported_us", i64, "us", "end of the step that reported it"),
)

EVENT_FIELDS = (
    Field("step", i64, "step", "index within the instance"),
    Field("instance", i32, "index", "engine instance"),
    Field("kind", i32, "1", "code of Event"),
    Field("request", i32, "index", "request"),
    Field(
        "value",
        i32,
        "token",
        "tokens scheduled (chunk), cached tokens (admit); asynchronously 1 if a victim was in the "
        "step on its way (preempt), plus 2 if its schedule before this step computed nothing; -1",
    ),
)

TALLY = dtype_of(TALLY_FIELDS)
STEP = dtype_of(STEP_FIELDS)
TRANSFER = dtype_of(TRANSFER_FIELDS)
EVENT = dtype_of(EVENT_FIELDS)
