"""The arrays of records that the kernel reads, works in and writes."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


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
    """int32, block id per (request, cached block of a split extent): `kernel.memory.in_table`."""
    prefix: NDArray[Any]
    """int32 (instances x keys,): oldest block with a key; valid only if that block carries it."""
    tier: NDArray[Any]
    """RUN (instances x records + requests,): CPU tiers, then a mark of each request."""
    tier_heads: NDArray[Any]
    """int32, beside `extents`: the lowest run of an extent, or -1."""
    tier_blocks: NDArray[Any]
    """TIER (instances x keys,): the block with a key; valid only if a run has it."""
    begins: NDArray[Any]
    """int64 (instances x SPAN,): write-through tiers, when the last steps began, by step."""
    fills: NDArray[Any]
    """int64 (places,): requests of one running list that fill blocks during a run of steps."""
    blank_offload: NDArray[Any]
    """OFFLOAD (1,): what every instance with a tier as vLLM has it starts from."""
    blank_offer: NDArray[Any]
    """OFFER (1,): what every request starts from at such an instance."""
    offload: NDArray[Any]
    """OFFLOAD (most instances with such a tier,)."""
    offers: NDArray[Any]
    """OFFER (requests of the largest lane with such tiers,)."""
    chunks: NDArray[Any]
    """CHUNK (instances x (keys x groups + rings) + requests,): `kernel.moving.rings`."""
    slots: NDArray[Any]
    """SLOT, beside `tables`: what a CPU tier knows of them."""
    seen: NDArray[Any]
    """uint8 per (request, chunk j), in the slot of its block j: flags of kernel.offload.seen."""
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
    """BATCH (instances x kernel.memory.count_batches,): the steps on their way."""
    entries: NDArray[Any]
    """ENTRY (batches x places,): their requests, in the order of scheduling."""
    stages: NDArray[Any]
    """int64 (instances x stages,): when each stage of a pipeline has computed all it was given."""
    blank_class: NDArray[Any]
    """CLASS (1,): a class of nobody."""
    classes: NDArray[Any]
    """CLASS (instances x stages,): sums of those who are counted, by their turn in a pipeline."""
    states: NDArray[Any]
    """STATE (requests, again where instances decode only,): requests as their instance has them."""
    tables: NDArray[Any]
    """int32: tables of each state, group after group: block ids, or places of left_behind.py."""
    edges: NDArray[Any]
    """EDGE (states x groups,): what the window of each table has left."""
    blank_recurrent: NDArray[Any]
    """RECURRENT (1,): what every request starts from."""
    recurrent: NDArray[Any]
    """RECURRENT (states,) if there are groups of states: what each request has of them."""
    left: NDArray[Any]
    """LEFT (2 x that of `blocks`,) if there are windows: what these left, by its first place."""
    blank_leavers: NDArray[Any]
    """LEAVERS (1,): a list of nobody."""
    leavers: NDArray[Any]
    """LEAVERS (instances x block_size,): tables that windows may leave blocks of, by phase."""
    plans: NDArray[Any]
    """int64 (instances x kernel.memory.PLAN,): what the next steps with drafts take and give."""
    sums: NDArray[np.int64]
    """int64 (kernel.memory.HORIZON,): tokens after each of the next verifications of a request."""
    handoffs: NDArray[Any]
    """HANDOFF (requests where prefill and decode are apart,)."""
    turns: NDArray[np.int64]
    """int64 (instances,): in closed loops what each does next, and when; `turns.next_turn`."""
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
    sent: NDArray[Any]
    """SENT (requests of the largest lane with one,): what a sticky router counts as in flight."""
    answered: NDArray[Any]
    """int64 (requests of the largest lane with one,): those that it is to count no more."""
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
