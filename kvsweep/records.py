"""Every record of the kernel: fields with dtype, unit and meaning, and the state built of them.

Units are ``us`` (microseconds), ``token``, ``block``, ``request``, ``step``; ``1`` is a pure number
or a code, ``index`` a position in another array (-1: none).
"""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

NONE = np.int64(-1)
"""No index, no value."""
ANY_LENGTH = np.int64(2**62)
"""Longest request of an instance that serves all."""
NEVER = np.int64(2**62)
"""A time or step that does not come."""
WHOLE, PREFILL, DECODE = 0, 1, 2
"""`LANE.role`: what an instance does of a request."""
LEAVING = np.uint8(2)
"""`PROGRESS.decoding` of a request whose last token is on its way (asynchronous scheduling)."""
QUANTILES = (0.5, 0.9, 0.95, 0.99)
"""The reported quantiles of every latency."""


class Field(NamedTuple):
    """One field of a record: name, dtype, unit, one-line meaning."""

    name: str
    dtype: DTypeLike
    unit: str
    doc: str


class LaneStatus(IntEnum):
    """How a lane (one simulation) ended; the kernel sets it, nothing is raised."""

    OK = 0
    STEP_LIMIT = 1
    WORKSPACE_FULL = 2
    NOT_CONSERVED = 3
    TIME_LIMIT = 4
    UNKNOWN_POLICY = 5


class Event(IntEnum):
    """What the event log records, in the order of decisions within a step."""

    CHUNK = 0
    ADMIT = 1
    PREEMPT = 2
    FINISH = 3
    SKIP = 4
    SAMPLE = 5
    LATER = 6
    LOAD = 7
    STORE = 8
    REFUSE = 9
    VERIFY = 10
    PULL = 11


def _dtype(fields: tuple[Field, ...]) -> np.dtype[Any]:
    return np.dtype([(field.name, field.dtype) for field in fields], align=True)


def without(dtype: np.dtype[Any], names: Sequence[str]) -> np.dtype[Any]:
    """Return a dtype for the same records that lacks fields; what is left is where it was."""
    kept = {name: field for name, field in (dtype.fields or {}).items() if name not in names}
    described = {
        "names": list(kept),
        "formats": [field[0] for field in kept.values()],
        "offsets": [field[1] for field in kept.values()],
        "itemsize": dtype.itemsize,
    }
    return np.dtype(described, align=True)  # type: ignore[call-overload, no-any-return]


# One integer type wherever code may meet it: functions compile once (and no slower: measured).
_i32, _i64, _f64, _u8 = np.int32, np.int64, np.float64, np.uint8

REQUEST_FIELDS = (
    Field("arrival", _i64, "us", "arrival at the cluster (closed loop: not before the kernel)"),
    Field("key_lo", _i64, "index", "first slot of this request in the key list"),
    Field("chain_lo", _i64, "index", "first slot of this request in the chain list"),
    Field("prompt_lo", _i64, "index", "first slot of this request in the list of prompt extents"),
    Field("priority", _i64, "1", "priority given by the source, else 0 (smaller: more urgent)"),
    Field("class_priority", _i64, "1", "priority given by the source, else made from the class"),
    Field("think", _i64, "us", "closed loop: from seeing the previous round's end to arrival"),
    Field("patience", _i64, "us", "longest wait for the first step, -1: any"),
    Field("prompt", _i64, "token", "prompt length"),
    Field("output", _i64, "token", "output length"),
    Field("reusable", _i64, "block", "leading keys that another request has too"),
    Field("follower", _i64, "index", "request that arrives after this one's completion, or -1"),
    Field("shared", _u8, "1", "1 if another request has a key of one of its decode blocks"),
    Field(
        "duplicate", _u8, "1", "1 if one of these keys is also of another request's decode block"
    ),
    Field("accepted_lo", _i64, "index", "first of the drafts that its verifications accept"),
    Field("accepted_len", _i64, "1", "how many of these there are, used in a circle; 0: none"),
    Field("awaits", _u8, "1", "1 if it arrives after another request's completion"),
    Field("slo_class", _u8, "1", "code of policies.SloClass; a class of another name: standard"),
)

GROUP_FIELDS = (
    Field("window", _i64, "token", "sliding window of this group of layers, 0: full attention"),
    Field("member", _i64, "index", "the group that is looked up at this place of the order"),
    Field("member_window", _i64, "token", "its window"),
    Field("class_end", _i64, "index", "place behind the groups that are looked up with it"),
)

POOL_FIELDS = (
    Field("instances", _i64, "1", "engine instances of this pool"),
    Field("role", _i64, "1", "WHOLE, PREFILL or DECODE"),
    Field("gpu_blocks", _i64, "block", "usable blocks of one instance"),
    Field("watermark", _i64, "block", "blocks kept free at admissions"),
    Field("max_num_seqs", _i64, "request", "cap on the running list"),
    Field("max_tokens", _i64, "token", "token budget of a step"),
    *(Field(f"beta{term}", _f64, "us", f"step time, as LANE.beta{term}") for term in range(5)),
    *(Field(f"memory{term}", _f64, "us", f"roofline, as LANE.memory{term}") for term in range(5)),
    Field("longest", _i64, "token", "longest request that is routed here, output included"),
    Field("context", _u8, "1", "1 if the step time depends on more than token counts"),
    Field("roofline", _u8, "1", "1 if it is the larger of two sums"),
)

CHAIN_FIELDS = (
    Field("extent", _i32, "index", "extent of the request list"),
    Field("first", _i32, "block", "blocks of the request before this extent"),
    Field("end", _i32, "block", "blocks of the request up to the end of this extent"),
)

LANE_FIELDS = (
    Field("request_lo", _i64, "index", "first request of this lane"),
    Field("out_lo", _i64, "index", "first slot of this lane in the per-request columns"),
    Field("smaller_pool", _i64, "index", "lane that differs only in having fewer blocks, or -1"),
    Field("step_limit", _i64, "step", "steps of all instances after which the lane gives up"),
    Field("last_clock", _i64, "us", "time of an instance at which the lane gives up"),
    Field("admission_latency", _i64, "us", "arrival to admission decision"),
    Field("routing_latency", _i64, "us", "admission decision to routing decision"),
    Field("alpha0", _f64, "us", "queueing delay, constant"),
    Field("alpha1", _f64, "us/token", "queueing delay per prompt token"),
    Field("alpha2", _f64, "us", "output overhead, added once to client-visible times"),
    Field("beta0", _f64, "us", "step time, constant"),
    Field("beta1", _f64, "us/token", "step time per prefill token"),
    Field("beta2", _f64, "us/request", "step time per decoding request"),
    Field("beta3", _f64, "us/token", "step time per token before a decoded one"),
    Field("beta4", _f64, "us/token", "step time per token before a prefill token"),
    Field("memory0", _f64, "us", "roofline: memory time, constant"),
    Field("memory1", _f64, "us/token", "roofline: memory time per prefill token"),
    Field("memory2", _f64, "us/request", "roofline: memory time per decoding request"),
    Field("memory3", _f64, "us/token", "roofline: memory time per token before a decoded one"),
    Field("memory4", _f64, "us/token", "roofline: memory time per token before a prefill token"),
    Field("first_steps", _i64, "step", "first steps of an instance that take longer"),
    Field("first_step0", _i64, "us", "what the first one takes longer"),
    Field("first_step1", _i64, "us", "what the second one does"),
    Field("first_step2", _i64, "us", "what the third one does"),
    Field("first_step3", _i64, "us", "what the fourth one does"),
    Field("requests", _i64, "request", "number of requests"),
    Field("warmup", _i64, "request", "leading requests left out of the measures"),
    Field("n_keys", _i64, "1", "number of distinct block keys of the request list"),
    Field("n_extents", _i64, "1", "number of extents of the request list"),
    Field("n_shared", _i64, "1", "number of extents that several requests have: the first ones"),
    Field("n_prompt", _i64, "1", "number of prompt extents, 0 if the router needs none"),
    Field("prompt_shared", _i64, "1", "of those, the ones of several prompts: the first ones"),
    Field("instances", _i64, "1", "number of engine instances"),
    Field("gpu_blocks", _i64, "block", "usable blocks of one instance"),
    Field("block_size", _i64, "token", "tokens of one block"),
    Field("inverse", _i64, "1", "times this, then shifted: divided by the block size (sizes.py)"),
    Field("inverse_shift", _i64, "1", "by so many bits to the right"),
    Field("max_num_seqs", _i64, "request", "cap on the running list"),
    Field("places", _i64, "1", "places of a running list, in whole rows, and one row behind them"),
    Field("max_tokens", _i64, "token", "token budget of a step"),
    Field("long_prefill", _i64, "token", "cap on one request's tokens in a step, 0: none"),
    Field("watermark", _i64, "block", "blocks kept free at admissions"),
    Field("routing", _i64, "1", "code of policies.Routing"),
    Field("scorer_lo", _i64, "index", "first scorer of weighted routing"),
    Field("scorers", _i64, "1", "number of scorers"),
    Field("index_blocks", _i64, "block", "blocks that the router's index remembers per instance"),
    Field("snapshot_refresh", _i64, "us", "age up to which the router works with old figures"),
    Field("bucket_capacity", _f64, "token", "token bucket: its size"),
    Field("bucket_refill", _f64, "token/s", "token bucket: what flows in"),
    Field("scheduler", _i64, "1", "code of policies.Scheduler"),
    Field("admission", _i64, "1", "code of policies.Admission"),
    Field("priority", _i64, "1", "code of policies.Priority"),
    Field("eviction", _i64, "1", "code of policies.Eviction"),
    Field("victim", _i64, "1", "code of policies.Victim"),
    Field("concurrency", _i64, "request", "requests under way at once, at most; 0: any number"),
    Field("cpu_blocks", _i64, "block", "blocks of one instance's CPU tier, 0: none"),
    Field("offload", _i64, "1", "code of policies.Offload"),
    Field("offload_threshold", _f64, "1", "share of used blocks above which blocks move"),
    Field("transfer_base", _i64, "us", "fixed part of a transfer from the CPU tier"),
    Field("bandwidth", _f64, "token/us", "bandwidth of transfers from the CPU tier"),
    Field("thrashing_window", _i64, "us", "a block that comes back sooner counts as thrashing"),
    Field("age", _i64, "us", "priority age: one level of priority per so much age"),
    Field("async_scheduling", _u8, "1", "1 if a step is scheduled while the last is computed"),
    Field("preempt_for_urgent", _u8, "1", "1 if less urgent running requests give way to a head"),
    Field("prefix_caching", _u8, "1", "1 if full blocks are kept for reuse"),
    Field("chunked_prefill", _u8, "1", "1 if a prompt may be split over steps"),
    Field("reserve_full_prompt", _u8, "1", "1 if an admission needs room for all known tokens"),
    Field("overlap", _u8, "1", "1 if transfers go on beside the step's computation"),
    Field("factor", _i64, "block", "blocks of a chunk, the unit of a tier as vLLM has it"),
    Field("chunk_tokens", _i64, "token", "tokens of a chunk"),
    Field("chunk_records", _i64, "1", "records of one instance's chunks and ghosts, ends included"),
    Field("jobs", _i64, "1", "copies that one instance may have under way"),
    Field("hold_places", _i64, "1", "requests that may wait for a load at one instance"),
    Field("offload_eviction", _i64, "1", "code of policies.TierEviction"),
    Field("line_places", _i64, "1", "places in line of one instance's blocks that decoding filled"),
    Field("connects", _u8, "1", "1 if there is a CPU tier as vLLM has it"),
    Field("unconnected", _u8, "1", "1 if there is none, and extents stand for blocks"),
    Field("explicit", _u8, "1", "1 if each block has a record and each request its tokens"),
    Field("by_extents", _u8, "1", "1 if extents stand for blocks"),
    Field("disaggregated", _u8, "1", "1 if some instances prefill and others decode"),
    Field("groups", _i64, "1", "groups of layers, each with a table of blocks per request"),
    Field("group_lo", _i64, "index", "first of these groups"),
    Field("drafts", _i64, "token", "draft tokens that a decode verifies"),
    Field("slot", _i64, "token", "what a request takes of a step's input beside its tokens"),
    Field("ahead", _i64, "token", "tokens behind a block that its key covers too"),
    Field("role", _i64, "1", "what the instance does of a request: WHOLE, PREFILL or DECODE"),
    Field("longest", _i64, "token", "longest request that an instance serves, output included"),
    Field("routed", _i64, "1", "leading instances, those that requests are routed to"),
    Field("pools", _i64, "1", "pools of instances that are not all alike, 0: they are"),
    Field("pool_lo", _i64, "index", "first of these pools"),
    Field("key_slots", _i64, "index", "slots of the request list in the key list"),
    Field("more_places", _i64, "block", "places of a block table beyond the keys of its request"),
    Field("pull_base", _i64, "us", "fixed part of a transfer from prefill to decode"),
    Field("pull_bandwidth", _f64, "token/us", "bandwidth of such transfers"),
    Field("handoff", _i64, "us", "end of a prefill to the entry into the queue of its decode"),
    Field("tiered", _u8, "1", "1 if there is a CPU tier of kvsweep's own"),
    Field("prompt_only", _u8, "1", "1 if such a tier stores no output"),
    Field("all_split", _u8, "1", "1 if every cached block has a record: all extents are split"),
    Field("copies_each_step", _u8, "1", "1 if the CPU gets a block in the step that fills it"),
    Field("any_shared", _u8, "1", "1 if any request is `shared`"),
    Field("any_duplicates", _u8, "1", "1 if any request is `duplicate`"),
    Field("closed_loop", _u8, "1", "1 if instances are advanced from event to event"),
    Field("follow_ups", _u8, "1", "1 if completions make any request arrive"),
    Field("impatient", _u8, "1", "1 if any request has a patience"),
    Field("context", _u8, "1", "1 if the step time depends on more than token counts"),
    Field("roofline", _u8, "1", "1 if it is the larger of two sums"),
    Field("reads_state", _u8, "1", "1 if the routing reads the state of instances"),
    Field("sees_cache", _u8, "1", "1 if a scorer reads how the cache of an instance fares"),
    Field("sees_blocks", _u8, "1", "1 if a scorer reads what the cache of an instance holds"),
    Field("indexes", _u8, "1", "1 if a scorer reads the router's index"),
    Field("count_pending", _u8, "1", "1 if requests on their way into the queue are load"),
    Field("snapshot_load", _u8, "1", "1 if the load is as old as the other figures"),
    Field(
        "visit_all", _u8, "1", "1 to visit every request in every step: the yardstick of benchmarks"
    ),
    Field("log", _u8, "1", "1 if steps and events are logged"),
)

ASYNC = ("async_scheduling",)
RARE = (
    "tiered",
    "copies_each_step",
    "victim",
    "eviction",
    "first_steps",
    "concurrency",
    "preempt_for_urgent",
)
CONNECTOR = ("connects",)
NO_CONNECTOR = ("unconnected",)
EXPLICIT = ("explicit", "disaggregated")
NO_EXPLICIT = ("unconnected", "by_extents")
FEATURES = (*ASYNC, *RARE, *CONNECTOR, *EXPLICIT, *NO_EXPLICIT)
"""Fields of LANE that are 0 without a feature; entries for lanes without it lack them."""

INSTANCE_FIELDS = (
    Field("clock", _i64, "us", "end of the last step begun; the next starts here or later"),
    Field("end", _i64, "us", "end of the last step (the clock also moves to queue entries)"),
    Field("device", _i64, "us", "asynchronous: what the step takes that begins at `clock`, or 0"),
    Field("step", _i64, "step", "index of the next step"),
    Field("phase", _i64, "step", "step modulo the block size, kept to spare divisions"),
    Field("next_due", _i64, "step", "earliest step at which a running request needs attention"),
    Field("try_head_at", _i64, "step", "next at which a block may be filled that the head hits"),
    Field("used_time", _i64, "block us", "used blocks summed over time"),
    Field("block_lo", _i64, "index", "first block record of this instance"),
    Field("node_lo", _i64, "index", "LRU node of the first extent: all blocks come before"),
    Field("extent_lo", _i64, "index", "first record of this instance's shared extents"),
    Field("run_lo", _i64, "index", "first slot of this instance's running list"),
    Field("phase_lo", _i64, "index", "first of this instance's phase counts"),
    Field("base_sum", _i64, "step", "sum of `base` over the decoding requests"),
    Field("heap_lo", _i64, "index", "first slot of this instance's waiting heap"),
    Field("prefix_lo", _i64, "index", "first slot of this instance's prefix table"),
    Field("free", _i64, "block", "blocks without a user: uncached and evictable ones"),
    Field("evictable", _i64, "block", "free blocks that carry a key, all of them in the LRU list"),
    Field("lru_head", _i64, "index", "block or extent that is evicted next"),
    Field("lru_tail", _i64, "index", "block or extent freed last"),
    Field("spare", _i64, "index", "stack of block ids without a key (linked as the LRU list)"),
    Field("fresh", _i64, "block", "block ids handed out at least once"),
    Field("keyed", _i64, "block", "block ids that carry a key, used or free"),
    Field("whole_blocks", _i64, "block", "blocks of the whole extents in the LRU list"),
    Field("peak", _i64, "block", "largest number of used blocks"),
    Field("running", _i64, "request", "length of the running list"),
    Field("prefilling", _i64, "request", "running requests that do not decode, or no more"),
    Field("leaving", _i64, "request", "of these, those whose last token is on its way"),
    Field("leaving_waiting", _i64, "request", "waiting requests whose last token is on its way"),
    Field("waiting", _i64, "request", "length of the waiting list"),
    Field("wait_head", _i64, "index", "front of the waiting list (fcfs)"),
    Field("wait_tail", _i64, "index", "back of the waiting list (fcfs)"),
    Field("inbox_head", _i64, "index", "next request to enter the waiting list"),
    Field("inbox_tail", _i64, "index", "last request to enter the waiting list"),
    Field("load", _i64, "request", "requests routed here and not yet gone"),
    Field("measured", _i64, "request", "decoding requests that count in the measures"),
    Field("completed", _i64, "request", "measured requests completed so far"),
    Field("evictions", _i64, "block", "cached blocks evicted so far"),
    Field("tier_lo", _i64, "index", "first record of the CPU tier, the end of its ring"),
    Field("tier_fresh", _i64, "1", "records of the CPU tier handed out at least once"),
    Field("tier_spare", _i64, "index", "stack of records of the CPU tier that are no run"),
    Field("tier_used", _i64, "block", "blocks in a CPU tier of kvsweep's own"),
    Field("tier_uses", _i64, "1", "times that something was used in it, counted so far"),
    Field("line_head", _i64, "1", "place in line of its block that decoding filled first"),
    Field("line_tail", _i64, "1", "place behind the one that decoding filled last"),
    Field("offloads", _i64, "block", "blocks copied to the CPU tier so far"),
    Field("reloads", _i64, "block", "blocks copied back from the CPU tier so far"),
    Field("thrashed", _i64, "block", "of those, blocks that came back within the window"),
    Field("transfer", _i64, "us", "transfers of the step in flight, or of the one scheduled"),
    Field("transfer_time", _i64, "us", "transfers so far"),
    Field("shortages", _i64, "1", "times a request lacked blocks so far"),
    Field("budget", _i64, "token", "tokens that the step being scheduled may still take"),
    Field("prefill_tokens", _i64, "token", "prompt and recomputed tokens of this step"),
    Field("decode_tokens", _i64, "token", "decode tokens of this step"),
    Field("prefill_context", _i64, "token", "tokens before each prefill token, summed"),
    Field("decode_context", _i64, "token", "tokens before each decode token, summed"),
    Field("preempted", _i64, "request", "victims of this step"),
    Field("victims", _i64, "request", "victims so far"),
    Field("scheduled", _i64, "request", "leading running requests that this step schedules"),
    Field(
        "skipped", _i64, "request", "decoding requests without a token since a step skipped them"
    ),
    Field("number", _i64, "index", "this instance"),
    Field("held", _i64, "request", "requests that wait for a load, or have it and wait for a seat"),
    Field("hold_lo", _i64, "index", "first slot of this instance's list of them"),
    Field("serial", _i64, "1", "schedules made so far, with a tier as vLLM has it"),
    Field("next_offer", _i64, "step", "next at which a running request may have chunks to store"),
    Field("replaced", _i64, "index", "blocks evicted while stores may read them: the last one"),
    Field("replaced_before", _i64, "index", "the same of the schedule before"),
    Field("watches", _u8, "1", "1 if stores may read blocks of requests that have finished"),
    Field("flushes", _u8, "1", "1 if the step may have to await stores of earlier ones"),
    Field("gave_up", _u8, "1", "1 if a client gave up in the step being scheduled"),
    Field("asleep", _u8, "1", "1 if no step is made until a copy ends or a request enters"),
    Field("on_device", _u8, "1", "1 if a step begins at `clock`; synchronously always"),
    Field("announced", _u8, "1", "1 if the step just begun makes an arrival"),
    Field("in_flight", _u8, "1", "1 if a step with outputs to process ends at `clock`"),
    Field("try_head", _u8, "1", "1 if the head of the waiting list may be admissible now"),
)

ROUTER_FIELDS = (
    Field("serial", _i64, "1", "number of the lane in this workspace, from 1"),
    Field("first", _i64, "index", "first instance that may get the request being routed"),
    Field("end", _i64, "index", "the one behind the last of them"),
    Field("refreshed", _i64, "us", "when the snapshots were last taken"),
    Field("refilled", _i64, "us", "when the token bucket was last refilled"),
    Field("tokens", _f64, "token", "what the token bucket holds"),
)

SNAPSHOT_FIELDS = (
    Field("load", _i64, "request", "requests here, as far as the router knows"),
    Field("utilization", _f64, "1", "share of the blocks in use"),
    Field("transfer", _i64, "us", "transfers between the tiers charged to the step under way"),
    Field("thrashing", _f64, "1", "share of the offloaded blocks that came back at once"),
    Field("held", _i64, "block", "leading blocks of the prompt that the cache holds"),
    Field("matched", _i64, "block", "leading blocks of the prompt that the router's index has"),
    Field("score", _f64, "1", "weighted sum of scores of the request being routed"),
    Field("turn", _i64, "index", "round-robin: of the instances from here on, the next one"),
    Field("oldest", _i64, "index", "router's index: node that is forgotten next"),
    Field("newest", _i64, "index", "router's index: node recorded last"),
    Field("indexed", _i64, "block", "router's index: blocks"),
)

NODE_FIELDS = (
    Field("prev", _i32, "index", "neighbour in the router's index, the next to be forgotten"),
    Field("next", _i32, "index", "neighbour in the router's index"),
    Field("size", _i32, "block", "blocks of the extent that the index has: the last ones"),
)

SCORER_FIELDS = (
    Field("code", _i64, "1", "code of policies.Scorer"),
    Field("weight", _f64, "1", "weight; those of a lane add up to 1"),
)

PROGRESS_FIELDS = (
    Field("arrival", _i64, "us", "arrival at the cluster"),
    Field("base", _i64, "step", "while decoding: computed tokens = step index - base"),
    Field("phase", _i64, "step", "base modulo the block size"),
    Field("queued", _i64, "us", "entry into the waiting list"),
    Field("scheduled", _i64, "us", "when the first admission was scheduled"),
    Field("first_token", _i64, "us", "end of the step that sampled the first token"),
    Field("finish", _i64, "us", "end of the step that sampled the last token"),
    Field("last_token", _i64, "us", "end of the step that sampled the latest token so far"),
    Field("computed", _i64, "token", "computed tokens while prefilling"),
    Field("found", _i64, "token", "tokens found cached at the latest admission"),
    Field("frontier", _i64, "token", "most tokens that were computed at a preemption"),
    Field("recomputed", _i64, "token", "tokens computed again below the frontier"),
    Field("outputs", _i64, "token", "sampled tokens when decoding last began or ended"),
    Field("cached_blocks", _i64, "block", "leading blocks that it has cached or hit"),
    Field("link", _i64, "index", "slot in the chain list of the last cached block's extent"),
    Field("fills", _i64, "index", "extent in which it began to decode blocks of others, or -1"),
    Field("reused", _i64, "block", "blocks hit at the latest admission"),
    Field("chunk", _i64, "token", "tokens scheduled in this step while prefilling"),
    Field("missed", _i64, "step", "the last step that it missed while running, or -1"),
    Field("preemptions", _i64, "1", "times preempted"),
    Field("cached_tokens", _i64, "token", "cached tokens at the first admission"),
    Field("instance", _i64, "index", "instance routed to"),
    Field("prev", _i64, "index", "neighbour in the inbox or the waiting list"),
    Field("next", _i64, "index", "neighbour in the inbox or the waiting list"),
    Field("loading", _u8, "1", "0: waits for no load; else kernel.holders.LOADING or LOADED"),
    Field("decoding", _u8, "1", "1 from the first sample after an admission on, or LEAVING"),
    Field("status", _u8, "1", "code of policies.RequestStatus"),
)

EXTENT_FIELDS = (
    Field("size", _i32, "block", "present blocks: the leading ones if whole, all if split"),
    Field("ref_count", _i32, "request", "of a whole extent: running requests that hold its blocks"),
    Field("fillers", _i32, "request", "decoding requests whose `fills` it is"),
    Field("split", _i32, "1", "1 if its blocks have records of their own"),
    Field("key_lo", _i32, "index", "of a whole extent: slot of its first block in the key list"),
)

BLOCK_FIELDS = (
    Field("key", _i32, "index", "content key, or -1"),
    Field("ref_count", _i32, "request", "reference count"),
    Field("extent", _i32, "index", "extent record that it belongs to"),
    Field("hits", _i32, "1", "times found at an admission since it was cached, if eviction asks"),
    Field("duplicate_prev", _i32, "index", "ring of blocks with the same key, oldest first"),
    Field("duplicate_next", _i32, "index", "ring of blocks with the same key, oldest first"),
)

RUN_FIELDS = (
    Field("rank", _i64, "1", "the run with a smaller one makes room first"),
    Field("offer", _i64, "1", "tier as vLLM has it: the last offer that it is part of"),
    Field("extent", _i32, "index", "extent record whose places these are, or -1: no run"),
    Field("first", _i32, "1", "its first place: a key, or the chunk of a tier as vLLM has it"),
    Field("end", _i32, "1", "the place behind its last one"),
    Field("falls", _i32, "1", "which of its places makes room first (kernel.blocks.runs)"),
    Field("prev", _i32, "index", "neighbour in the ring, less recently used"),
    Field("next", _i32, "index", "neighbour in the ring, or in the stack of spare records"),
    Field("left", _i32, "index", "run of the extent before it, of the lowest: the highest"),
    Field("right", _i32, "index", "run of the extent behind it, of the highest: the lowest"),
    Field("readers", _i32, "1", "tier as vLLM has it: loads that read it; -1: being written"),
    Field("job", _i32, "index", "likewise: the store that writes it"),
)

TIER_FIELDS = (
    Field("came", _i64, "us", "when the block was copied to the CPU"),
    Field("used", _i64, "1", "when decoding last filled it, as `RUN.rank`"),
)

LINE_FIELDS = (
    Field("used", _i64, "1", "when decoding filled the block, as `RUN.rank`"),
    Field("key", _i32, "index", "its content key"),
    Field("extent", _i32, "index", "extent record that it belongs to"),
)

OFFLOAD_FIELDS = (
    Field("chunk_lo", _i64, "index", "first record of this instance's chunks"),
    Field("chunk_fresh", _i64, "1", "records of chunks handed out at least once"),
    Field("chunk_spare", _i64, "index", "stack of records without a key"),
    Field("chunks", _i64, "block", "chunks on the CPU"),
    Field("idle", _i64, "block", "of them, those that nobody reads or writes"),
    Field("offers", _i64, "1", "offers made so far"),
    Field("ranks", _i64, "1", "LRU: numbers handed out so far"),
    Field("target", _f64, "block", "ARC: chunks used once that are kept at the others' cost"),
    Field("once", _i64, "block", "ARC: chunks used once"),
    Field("once_ghosts", _i64, "block", "ARC: ghosts of those"),
    Field("again_ghosts", _i64, "block", "ARC: ghosts of chunks used again"),
    Field("job_lo", _i64, "index", "first record of this instance's copies"),
    Field("job_fresh", _i64, "1", "records of copies handed out at least once"),
    Field("job_spare", _i64, "index", "stack of records of copies"),
    Field("queue_lo", _i64, "index", "first of this instance's queues of copies"),
    Field("store_ready", _i64, "us", "end of the last store begun"),
    Field("load_ready", _i64, "us", "end of the last load begun"),
    Field("unreported", _i64, "1", "copies created and not reported"),
    Field("pinned", _i64, "1", "of them, stores of requests that have finished"),
    Field("lags", _i64, "1", "1 if a running request must offer again what was refused"),
    Field("awaits", _i64, "1", "1 if the step being scheduled awaits a store"),
    Field("awaited", _i64, "1", "stores that the last step scheduled awaits"),
    Field("queued", _i64, "step", "steps scheduled and not processed"),
    Field("device_end", _i64, "us", "end of the last of them"),
    Field("end", _i64, "us", "the oldest of them: its end"),
    Field("sampling", _i64, "1", "1 if the outputs of the last of them are not processed"),
    Field("stall", _i64, "us", "the oldest of them: its stall"),
    Field("changes", _i64, "1", "the oldest of them: 1 if it changes anything"),
    Field("next_end", _i64, "us", "the one after that: its end"),
    Field("next_stall", _i64, "us", "the one after that: its stall"),
    Field("next_changes", _i64, "1", "the one after that: 1 if it changes anything"),
    Field("finished_head", _i64, "index", "first request that finished since the last schedule"),
    Field("finished_tail", _i64, "index", "last of them"),
    Field("loads", _i64, "1", "loads so far"),
    Field("stores", _i64, "1", "stores so far"),
    Field("loaded", _i64, "token", "loaded so far"),
    Field("stored", _i64, "token", "stored so far"),
    Field("evictions", _i64, "block", "chunks that made room so far"),
    Field("refused", _i64, "1", "offers refused for lack of room so far"),
    Field("later", _i64, "1", "times that a request was told to ask for its load again"),
)

OFFER_FIELDS = (
    Field("rank", _i64, "1", "LRU: rank of the chunks that this request is using, 0: none"),
    Field("flush", _i64, "1", "schedule that awaits its stores, as it preempts it"),
    Field("due", _i64, "step", "while decoding: next at which it may have chunks to offer, else 0"),
    Field("next", _i32, "block", "first chunk that it has not offered"),
    Field("seen_first", _i32, "block", "LRU: first of the chunks that it has offered or reused"),
    Field("seen_end", _i32, "block", "the one behind the last, 0: none; -1: they have flags"),
    Field("jobs", _i32, "1", "its copies that are not reported"),
)

CHUNK_FIELDS = (
    Field("offer", _i64, "1", "the last offer that it is part of"),
    Field("key", _i32, "index", "content key of its last block, or -1"),
    Field("prev", _i32, "index", "older neighbour in its ring"),
    Field("next", _i32, "index", "younger neighbour in its ring, or in the stack of spare ones"),
    Field("readers", _i32, "1", "loads that read it; -1: being written"),
    Field("job", _i32, "index", "the store that writes it"),
    Field("ring", _i32, "1", "which ring it is in (kernel.offload.chunks)"),
)

JOB_FIELDS = (
    Field("ends", _i64, "us", "when the copy ends, once it has begun"),
    Field("flush", _i64, "1", "schedule whose step awaits it"),
    Field("tokens", _i64, "token", "tokens that it copies"),
    Field("pinned", _i64, "1", "twice the schedule that pinned its blocks, 1 more if after it"),
    Field("row", _i64, "index", "its row in the log"),
    Field("request", _i32, "index", "request whose chunks it copies"),
    Field("first", _i32, "block", "the first of these chunks"),
    Field("end", _i32, "block", "the one behind the last"),
    Field("next", _i32, "index", "next in its queue, or in the stack of spare records"),
)

QUEUE_FIELDS = (
    Field("head", _i32, "index", "first copy, or -1"),
    Field("tail", _i32, "index", "last copy"),
)

PIN_FIELDS = (
    Field("touched", _i64, "1", "the last schedule that took or hit the block"),
    Field("evicted", _i64, "1", "twice the last schedule that evicted the block of this id"),
    Field("evicted_before", _i64, "1", "the same before the last schedule"),
    Field("stores", _i64, "1", "stores of finished requests that still read it"),
    Field("order", _i64, "block", "evictions before that of the block of this id"),
    Field("heir", _i64, "index", "request that got the block evicted last, or -1"),
    Field("place", _i64, "block", "which of its blocks that is"),
    Field("again", _i64, "1", "schedule that hit it there, though the last one has evicted it"),
    Field("next", _i64, "index", "block evicted before it in the same schedule, or -1"),
)

STATE_FIELDS = (
    Field("last_token", _i64, "us", "end of the step that sampled its latest token, or -1"),
    Field("table_lo", _i64, "index", "first slot of its block tables"),
    Field("places", _i32, "block", "slots of each of its tables"),
    Field("prompt", _i32, "token", "prompt length"),
    Field("known", _i32, "token", "prompt and sampled tokens"),
    Field("limit", _i32, "token", "known tokens at its end"),
    Field("sure", _i32, "token", "known tokens once the steps on their way have ended"),
    Field("computed", _i32, "token", "computed tokens, those on their way and drafts included"),
    Field("placeholders", _i32, "token", "output tokens that are being computed, not known yet"),
    Field("flight", _i32, "token", "scheduled tokens whose step is not processed"),
    Field("stale", _i32, "token", "of these, scheduled before the latest preemption"),
    Field("drafts", _i32, "token", "drafts to be verified in the next step"),
    Field("verified", _i32, "1", "verifications scheduled so far"),
    Field("blocks", _i32, "block", "length of each of its tables"),
    Field("room", _i32, "token", "tokens that these have room for"),
    Field("published", _i32, "block", "leading blocks that it has cached or hit"),
    Field("publish_at", _i32, "token", "tokens that fill the next one"),
    Field("release_at", _i32, "token", "processed tokens with which a window leaves a block"),
    Field("frontier", _i32, "token", "most tokens that were computed at a preemption"),
    Field("since", _i32, "step", "in a run of decodes: the step that the state is of"),
    Field("entry", _i32, "index", "its place in the batch being scheduled, or -1"),
    Field("split", _u8, "1", "1 if its last schedule left tokens of its prefill"),
    Field("prefilling", _u8, "1", "1 if it runs, and its prefill is not all scheduled"),
    Field("runs", _u8, "1", "1 if it is in the running list"),
    Field("preempted", _u8, "1", "1 if it was preempted at this instance"),
    Field("done", _u8, "1", "1 if it has all its tokens"),
)

ENTRY_FIELDS = (
    Field("state", _i32, "index", "the request, as its state"),
    Field("tokens", _i32, "token", "scheduled tokens, drafts included"),
    Field("drafts", _i32, "token", "of these, drafts to verify"),
    Field("accepted", _i32, "token", "of these, those that will be accepted"),
    Field("samples", _u8, "1", "1 if it samples at the end of the step"),
    Field("padded", _u8, "1", "1 if its drafts only fill up the batch: all are rejected"),
)

BATCH_FIELDS = (
    Field("end", _i64, "us", "when it ends on the device"),
    Field("step", _i64, "step", "its index, if it has tokens"),
    Field("row", _i64, "index", "its row in the log, or -1"),
    Field("size", _i64, "request", "scheduled requests"),
    Field("changes", _i64, "1", "1 if it changes anything"),
)

ENGINE_FIELDS = (
    Field("state_lo", _i64, "index", "state of the first request at this instance"),
    Field("entry_lo", _i64, "index", "first entry of its first batch"),
    Field("batch_lo", _i64, "index", "its first batch"),
    Field("queued", _i64, "step", "batches scheduled and not processed"),
    Field("oldest", _i64, "index", "which of the two batches is the oldest of them"),
    Field("device_end", _i64, "us", "end of the last of them"),
    Field("last_end", _i64, "us", "end of the last batch with tokens that was processed"),
    Field("size", _i64, "request", "entries of the batch being scheduled"),
    Field("taken_back", _i64, "request", "entries whose request was preempted again"),
    Field("walked", _i64, "request", "running requests that this schedule serves"),
    Field("waited", _i64, "request", "length of the waiting list before this schedule"),
    Field("evicted", _i64, "block", "evictions before this schedule"),
    Field("freed_before", _i64, "block", "`window_freed` before this schedule"),
    Field("context", _i64, "token", "in a run of decodes: computed tokens of all who run"),
    Field("measured", _i64, "request", "in a run of decodes: those who count in the measures"),
    Field("free_wanted", _i64, "block", "free blocks that a refused head needs at least"),
    Field("even", _i64, "token", "tokens of this batch whose last one came with the step before"),
    Field("at_once", _i64, "token", "tokens of this batch that come with one before them"),
    Field("input", _i64, "token", "tokens and slots that the step may still take as input"),
    Field("schedules", _i64, "1", "schedules made so far, empty ones included"),
    Field("window_freed", _i64, "block", "blocks that left their window so far"),
    Field("drafts", _i64, "token", "drafts verified so far"),
    Field("accepted", _i64, "token", "drafts accepted so far"),
    Field("pulls", _i64, "1", "transfers begun by the batch being scheduled"),
    Field("link_ready", _i64, "us", "end of the last transfer to this instance"),
    Field("kept", _i64, "request", "finished requests whose blocks are kept for a transfer"),
    Field("transfer_head", _i64, "index", "request whose transfer is reported next"),
    Field("transfer_tail", _i64, "index", "request whose transfer is reported last"),
    Field("splits", _u8, "1", "1 if a running request of this batch had its prefill split"),
    Field("refused", _u8, "1", "1 if the last schedule refused a head for lack of blocks"),
    Field("begun", _u8, "1", "1 if a run of decodes ended with blocks given for its next step"),
    Field("finished", _u8, "1", "1 if a request has finished since the last schedule"),
    Field("settles", _u8, "1", "1 if the oldest batch is processed before the next schedule"),
    Field("asleep", _u8, "1", "1 if no step is made until a transfer ends or a request enters"),
)

HANDOFF_FIELDS = (
    Field("queued", _i64, "us", "entry into the waiting list of the prefill instance"),
    Field("prefilled", _i64, "us", "end of the prefill"),
    Field("requeued", _i64, "us", "entry into the waiting list of the decode instance"),
    Field("arrives", _i64, "us", "end of the transfer of its blocks"),
    Field("pulled", _i64, "us", "end of the step of the decode instance that reported it"),
    Field("released", _i64, "us", "end of the step of the prefill instance that reported it"),
    Field("tokens", _i64, "token", "tokens that were transferred"),
    Field("source", _i64, "index", "prefill instance"),
    Field("next_arrival", _i64, "index", "request whose transfer ends next at its instance"),
    Field("next_release", _i64, "index", "request that its prefill instance releases next"),
    Field("row", _i64, "index", "row of the transfer in the log"),
    Field("loading", _u8, "1", "1 once its blocks were asked for"),
)

LRU_FIELDS = (
    Field("prev", _i32, "index", "neighbour that is evicted before, or -1"),
    Field("next", _i32, "index", "neighbour that is evicted after, or -1"),
)

TALLY_FIELDS = (
    Field("status", _i64, "1", "code of LaneStatus"),
    Field("listed", _i64, "index", "next request of the list whose arrival is fixed"),
    Field("coming", _i64, "request", "arrivals made by completions and not routed yet"),
    Field("sendable", _i64, "index", "first request of the list that must wait to be sent"),
    Field("itl_entries", _i64, "1", "used slots of the inter-token latency list"),
    Field("log_steps", _i64, "step", "logged steps"),
    Field("log_events", _i64, "1", "logged events"),
    Field("log_transfers", _i64, "1", "logged copies"),
    Field("pruned", _i64, "1", "1 if copied from the lane `smaller_pool`"),
    Field("shortages", _i64, "1", "times that the number of blocks mattered"),
    Field("steps", _i64, "step", "engine steps of all instances"),
    Field("makespan", _i64, "us", "end of the last step"),
    Field("used_time", _i64, "block us", "used blocks summed over time and instances"),
    Field("evictions", _i64, "block", "cached blocks evicted"),
    Field("offloads", _i64, "block", "blocks copied to the CPU tier"),
    Field("reloads", _i64, "block", "blocks copied back from the CPU tier"),
    Field("thrashed", _i64, "block", "of those, blocks that came back within the window"),
    Field("transfer_time", _i64, "us", "transfers from the CPU tier, all instances"),
    Field("loads", _i64, "1", "loads of a tier as vLLM has it"),
    Field("stores", _i64, "1", "stores of such a tier"),
    Field("loaded", _i64, "token", "loaded by them"),
    Field("stored", _i64, "token", "stored by them"),
    Field("tier_evictions", _i64, "block", "chunks of such a tier that made room"),
    Field("refused", _i64, "1", "offers refused for lack of room in such a tier"),
    Field("later", _i64, "1", "times that a request was told to ask for its load again"),
    Field("window_freed", _i64, "block", "blocks given back as they left their window"),
    Field("draft_tokens", _i64, "token", "drafts verified"),
    Field("accepted_tokens", _i64, "token", "drafts accepted"),
    Field("pulls", _i64, "1", "transfers from prefill to decode instances"),
    Field("pulled_tokens", _i64, "token", "tokens that these moved"),
    Field("pull_time", _i64, "us", "time that these took, all links, waiting for the link apart"),
    Field("pull_wait", _i64, "us", "from the end of prefills to the report of their transfers"),
    Field("kept_time", _i64, "us", "time that finished prefills kept their blocks"),
    Field("blocks_taken", _i64, "block", "blocks newly taken by measured requests"),
    Field("blocks_reused", _i64, "block", "blocks hit by measured requests at admissions"),
    Field("query_tokens", _i64, "token", "tokens looked up at first admissions, measured"),
    Field("hit_tokens", _i64, "token", "tokens found cached at first admissions, measured"),
    Field("loaded_tokens", _i64, "token", "tokens found on the CPU at first admissions, measured"),
    Field("arrived", _i64, "request", "measured requests that must have arrived"),
    Field("preemptions", _i64, "1", "times that measured requests were preempted"),
    Field("preempted", _i64, "request", "measured requests preempted at least once"),
    Field("computed_tokens", _i64, "token", "tokens computed of measured requests, each time"),
    Field("recomputed_tokens", _i64, "token", "of those, computed before a preemption already"),
    Field("first_arrival", _i64, "us", "arrival of the first measured request"),
    Field("admissions", _i64, "request", "measured requests that began to run"),
    Field("first_tokens", _i64, "request", "measured requests that sampled a token"),
    Field("output_tokens", _i64, "token", "output of completed measured requests"),
    Field("delay_sum", _i64, "us", "scheduling delays of measured requests"),
    Field("ttft_sum", _i64, "us", "times to first token of measured requests"),
    Field("e2e_sum", _i64, "us", "times to last token of measured requests"),
    Field("service_sum", _i64, "us", "the same from their first step on"),
    Field("tpots", _i64, "request", "completed measured requests of two or more output tokens"),
    Field("tpot_sum", _f64, "us", "their times per output token"),
    Field("itl_sum", _i64, "us", "sum of inter-token latencies, measured requests"),
    Field("itl_count", _i64, "token", "number of inter-token latencies, measured requests"),
    *(
        Field(f"itl_q{i}", _f64, "us", f"inter-token latency, quantile {quantile:g}")
        for i, quantile in enumerate(QUANTILES)
    ),
)

STEP_FIELDS = (
    Field("step", _i64, "step", "index within the instance"),
    Field("instance", _i64, "index", "engine instance"),
    Field("scheduled_us", _i64, "us", "when the step was scheduled"),
    Field("start_us", _i64, "us", "start of the step"),
    Field("duration_us", _i64, "us", "duration of the step"),
    Field("running", _i64, "request", "length of the running list after scheduling"),
    Field("waiting", _i64, "request", "length of the waiting list before scheduling"),
    Field("prefill_tokens", _i64, "token", "prompt and recomputed tokens scheduled"),
    Field("decode_tokens", _i64, "token", "decode tokens scheduled"),
    Field("preempted", _i64, "request", "victims"),
    Field("preempted_in_flight", _i64, "request", "of these, those in the step on its way"),
    Field("free_blocks", _i64, "block", "free blocks after scheduling, cached ones included"),
    Field("evicted", _i64, "block", "cached blocks evicted"),
    Field("stall_us", _i64, "us", "waited for copies, part of the duration"),
    Field("tier_blocks", _i64, "block", "chunks on the CPU after scheduling"),
    Field("awaited", _i64, "1", "copies that it waited for"),
    Field("window_freed", _i64, "block", "blocks given back as they left their window"),
    Field("kept", _i64, "request", "finished requests that keep their blocks for a transfer"),
    Field("free_after", _i64, "block", "free blocks once its outputs are processed, if explicit"),
)

TRANSFER_FIELDS = (
    Field("instance", _i32, "index", "engine instance"),
    Field("load", _i32, "1", "1: to the GPU, 0: to the CPU"),
    Field("request", _i64, "index", "request"),
    Field("tokens", _i64, "token", "tokens copied"),
    Field("submitted_us", _i64, "us", "when it was handed to the device"),
    Field("start_us", _i64, "us", "when it began"),
    Field("end_us", _i64, "us", "when it ended"),
    Field("reported_us", _i64, "us", "end of the step that reported it"),
)

EVENT_FIELDS = (
    Field("step", _i64, "step", "index within the instance"),
    Field("instance", _i32, "index", "engine instance"),
    Field("kind", _i32, "1", "code of Event"),
    Field("request", _i32, "index", "request"),
    Field(
        "value",
        _i32,
        "token",
        "tokens scheduled (chunk), cached tokens (admit); asynchronously 1 if a victim was in the "
        "step on its way (preempt), plus 2 if its schedule before this step computed nothing; -1",
    ),
)

REQUEST = _dtype(REQUEST_FIELDS)
CHAIN = _dtype(CHAIN_FIELDS)
LANE = _dtype(LANE_FIELDS)
INSTANCE = _dtype(INSTANCE_FIELDS)
ROUTER = _dtype(ROUTER_FIELDS)
SNAPSHOT = _dtype(SNAPSHOT_FIELDS)
NODE = _dtype(NODE_FIELDS)
SCORER = _dtype(SCORER_FIELDS)
PROGRESS = _dtype(PROGRESS_FIELDS)
EXTENT = _dtype(EXTENT_FIELDS)
BLOCK = _dtype(BLOCK_FIELDS)
RUN = _dtype(RUN_FIELDS)
TIER = _dtype(TIER_FIELDS)
LINE = _dtype(LINE_FIELDS)
LRU = _dtype(LRU_FIELDS)
OFFLOAD = _dtype(OFFLOAD_FIELDS)
OFFER = _dtype(OFFER_FIELDS)
CHUNK = _dtype(CHUNK_FIELDS)
JOB = _dtype(JOB_FIELDS)
QUEUE = _dtype(QUEUE_FIELDS)
PIN = _dtype(PIN_FIELDS)
GROUP = _dtype(GROUP_FIELDS)
POOL = _dtype(POOL_FIELDS)
STATE = _dtype(STATE_FIELDS)
ENTRY = _dtype(ENTRY_FIELDS)
BATCH = _dtype(BATCH_FIELDS)
ENGINE = _dtype(ENGINE_FIELDS)
HANDOFF = _dtype(HANDOFF_FIELDS)
TALLY = _dtype(TALLY_FIELDS)
STEP = _dtype(STEP_FIELDS)
EVENT = _dtype(EVENT_FIELDS)
TRANSFER = _dtype(TRANSFER_FIELDS)


class Inputs(NamedTuple):
    """What a batch of lanes reads."""

    requests: NDArray[Any]
    """REQUEST (all request lists of the batch, one after the other)."""
    keys: NDArray[Any]
    """int32, content key per (request, full block); same slots as `Workspace.table`."""
    chain: NDArray[Any]
    """CHAIN, the extents that a request's full blocks make up, in order, request by request."""
    prompts: NDArray[Any]
    """CHAIN, likewise of the full blocks of prompts, all or nothing of which any *prompt* has."""
    lanes: NDArray[Any]
    """LANE (n_lanes,)."""
    scorers: NDArray[Any]
    """SCORER (scorers of all lanes,), in the order in which scores are added up."""
    groups: NDArray[Any]
    """GROUP (groups of layers of all scenarios,)."""
    pools: NDArray[Any]
    """POOL (pools of all scenarios,)."""
    accepted: NDArray[np.uint8]
    """Drafts that the verifications of each request accept, request by request."""


class Workspace(NamedTuple):
    """Memory of one thread, reused by all its lanes; nothing in it is cleared in full."""

    blank_instance: NDArray[Any]
    """INSTANCE (1,): what every instance starts from, but for its places in the arrays."""
    blank_snapshot: NDArray[Any]
    """SNAPSHOT (1,): what the router knows of an instance at the beginning."""
    blank_progress: NDArray[Any]
    """PROGRESS (1,): what every request starts from, but for its arrival."""
    blank_extent: NDArray[Any]
    """EXTENT (1,): what every extent starts from."""
    progress: NDArray[Any]
    """PROGRESS (requests of the largest lane,)."""
    instances: NDArray[Any]
    """INSTANCE (most instances,)."""
    extents: NDArray[Any]
    """EXTENT: the shared extents of the list once per instance, then the others."""
    blocks: NDArray[Any]
    """BLOCK (instances x blocks,): of split extents."""
    lru: NDArray[Any]
    """LRU (blocks + extents,): neighbours of the nodes, which are blocks, then extents."""
    table: NDArray[Any]
    """int32, block id per (request, cached block of a split extent); slots as of `keys`."""
    prefix: NDArray[Any]
    """int32 (instances x keys,): oldest block with a key; valid only if that block carries it."""
    tier: NDArray[Any]
    """RUN (instances x (CPU blocks + 1) + requests,): CPU tiers, then a mark of each request."""
    tier_heads: NDArray[Any]
    """int32, beside `extents`: the lowest run of an extent, or -1."""
    tier_blocks: NDArray[Any]
    """TIER (instances x keys,): the block with a key; valid only if a run has it."""
    tier_line: NDArray[Any]
    """LINE (instances x places,): blocks of CPU tiers that decoding filled, in this order."""
    fills: NDArray[Any]
    """int64 (places,): requests of one running list that fill chunks during a run of steps."""
    tier_table: NDArray[Any]
    """int32 (instances x keys,): chunk with a key; valid only if that record carries it."""
    blank_offload: NDArray[Any]
    """OFFLOAD (1,): what every instance with a tier as vLLM has it starts from."""
    blank_offer: NDArray[Any]
    """OFFER (1,): what every request starts from at such an instance."""
    offload: NDArray[Any]
    """OFFLOAD (most instances with such a tier,)."""
    offers: NDArray[Any]
    """OFFER (requests of the largest lane with such tiers,)."""
    seen: NDArray[Any]
    """uint8 per (request, chunk j), in the slot of its block j: flags of kernel.offload.chunks, or
    of kernel.offload.seen."""
    chunks: NDArray[Any]
    """CHUNK (instances x records,): chunks and ghosts of tiers with adaptive replacement."""
    jobs: NDArray[Any]
    """JOB (instances x copies under way,)."""
    queues: NDArray[Any]
    """QUEUE (instances x kernel.offload.copies.QUEUES,)."""
    pins: NDArray[Any]
    """PIN (instances x blocks,): what copies still read of each block."""
    hold: NDArray[Any]
    """int64 (instances x places,): requests that wait for a load, or have it, in waiting order."""
    blank_state: NDArray[Any]
    """STATE (1,): what every request starts from at an instance."""
    blank_engine: NDArray[Any]
    """ENGINE (1,): what every instance that is explicit starts from."""
    blank_handoff: NDArray[Any]
    """HANDOFF (1,): what every request starts from where prefill and decode are apart."""
    own: NDArray[Any]
    """LANE (most instances that are explicit,): the lane as each instance has it, by its pool."""
    engines: NDArray[Any]
    """ENGINE (most instances that are explicit,)."""
    batches: NDArray[Any]
    """BATCH (instances x 2,): the steps on their way."""
    entries: NDArray[Any]
    """ENTRY (instances x 2 x places,): their requests, in the order of scheduling."""
    states: NDArray[Any]
    """STATE (requests, again where instances decode only,): requests as their instance has them."""
    tables: NDArray[Any]
    """int32, block ids: the tables of each state, group after group."""
    gone: NDArray[Any]
    """int32 (states x groups,): leading slots of each table whose blocks left the window."""
    handoffs: NDArray[Any]
    """HANDOFF (requests where prefill and decode are apart,)."""
    running: NDArray[Any]
    """int64 (instances x places,): running list in order of admission."""
    due: NDArray[Any]
    """int32, beside `running`: step at which the request finishes, samples or caches a block."""
    phases: NDArray[Any]
    """int64 (instances x block_size,): decoding requests by the phase at which they allocate."""
    heap: NDArray[Any]
    """int64 (instances x requests,): waiting heap of the priority and sjf schedulers."""
    router: NDArray[Any]
    """ROUTER (1,): the router's state."""
    snapshots: NDArray[Any]
    """SNAPSHOT (most instances,): what the router knows of each."""
    nodes: NDArray[Any]
    """NODE: the router's index, the shared prompt extents once per instance, then the others."""
    known: NDArray[Any]
    """int64 (shared prompt extents,): `serial` of the lane that last wrote to its `holders`."""
    holders: NDArray[Any]
    """int64 (shared prompt extents x words,): instances whose index has all of it, one bit each;
    under prompt-affinity routing the one instance where prompts that end with it are at home."""
    coming: NDArray[Any]
    """int64 (requests of the largest lane,): heap of arrivals that completions made."""
    itl_time: NDArray[Any]
    """int64, inter-token latencies of steps that also prefill, and after skipped steps."""
    itl_weight: NDArray[Any]
    """int64, tokens that had it."""
    itl_order: NDArray[Any]
    """int64, twice as many: room to sort the two."""
    itl_digits: NDArray[Any]
    """int64 (kernel.tally.DIGITS,): room to count digits while sorting."""
    itl_by_batch: NDArray[Any]
    """int64 (largest max_num_seqs + 1,): tokens of pure decode steps by their batch size."""


class Outputs(NamedTuple):
    """What a batch of lanes writes."""

    tallies: NDArray[Any]
    """TALLY (n_lanes,)."""
    peak_blocks: NDArray[Any]
    """int32 (n_lanes, most instances): peak of used blocks, -1 where there is no instance."""
    completed: NDArray[Any]
    """int32 (n_lanes, most instances): measured requests completed by each instance."""
    outcomes: NDArray[Any]
    """int32 (n_lanes, statuses): measured requests by code of policies.RequestStatus."""
    ttft: NDArray[Any]
    """int64 (slots,), us: first token seen by the client after arrival, or -1."""
    e2e: NDArray[Any]
    """int64 (slots,), us: last token seen by the client after arrival, or -1."""
    delay: NDArray[Any]
    """int64 (slots,), us: arrival to start of the first step, or -1."""
    tpot: NDArray[Any]
    """float64 (slots,), us: first to last token per token between them, or -1 if none is."""
    preemptions: NDArray[Any]
    """int32 (slots,): times preempted (empty if `progress` is)."""
    request_status: NDArray[Any]
    """int8 (slots,): code of policies.RequestStatus (empty if `progress` is)."""
    progress: NDArray[Any]
    """PROGRESS (slots,), the requests' final state (empty if off)."""
    handoffs: NDArray[Any]
    """HANDOFF (slots,), where prefill and decode are apart (empty if off)."""
    steps: NDArray[Any]
    """STEP log (empty if off)."""
    events: NDArray[Any]
    """EVENT log (empty if off)."""
    transfers: NDArray[Any]
    """TRANSFER log, in order of submission at each instance (empty if off)."""
