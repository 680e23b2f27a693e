"""What a run of the replica returns: records of plain values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kvsweep.replica.cluster import Cluster
from kvsweep.replica.instance import Instance, StepRecord
from kvsweep.replica.metrics import Totals
from kvsweep.replica.request import Request
from kvsweep.replica.tiered import TieredStore


@dataclass(frozen=True)
class RequestRecord:
    """One request; times in microseconds, None where there is no value.

    Attributes
    ----------
    instance : int
        Where it was routed; -1 = rejected or never routed.
    state : str
        The reference's: queued (also if rejected or never arrived), running, completed, dropped.
    status : str
        As in a trace's columns: queued, running, completed, dropped_unservable, rejected,
        not_arrived (not yet in a wait queue at the horizon).
    ttft_us, e2e_us : int or None
        As the reference defines them; an unfinished request can have a TTFT (D4).
    finish_us : int or None
        Simulated completion minus arrival.
    sched_delay_us : int or None
        Last admission minus arrival.
    cached_blocks_rle, hit_blocks_rle : list of [value, count]
        Over the admissions: cached prefix blocks found; blocks referenced and counted as hits.
    queued_us : int or None
        Entry into the wait queue.
    itl_us : list of int
        Inter-token latencies, those of lost attempts included.
    """

    instance: int
    state: str
    status: str
    ttft_us: int | None
    e2e_us: int | None
    finish_us: int | None
    sched_delay_us: int | None
    preemptions: int
    admissions: int
    first_admit_us: int | None
    last_admit_us: int | None
    cached_blocks_rle: list[list[int]]
    hit_blocks_rle: list[list[int]]
    queued_us: int | None
    itl_us: list[int]


@dataclass(frozen=True)
class InstanceRecord:
    """Counters of one instance.

    Attributes
    ----------
    used_end, held_end : int
        Blocks in use at the end, and those of them reachable from a table: the rest is leaked.
    cpu_hits, reload_latency : int
        Blocks reloaded from the CPU; transfer time charged for them, microseconds.
    in_tokens, out_tokens : int
        Prompt tokens queued; decode steps (repeated after a preemption).
    kv_alloc_fail : int
        Last output tokens that found no block.
    block_us : int
        Integral of the blocks in use over the steps' time, block microseconds.
    evictions : int
        Blocks that still had a key when they were taken.
    last_useful_us : int
        End of the last step in which some request got further than ever before; -1 = none.
    """

    completed: int
    queued: int
    running: int
    dropped: int
    preemptions: int
    hits: int
    misses: int
    peak: int
    used_end: int
    held_end: int
    steps: int
    sim_end: int
    cpu_hits: int
    cpu_misses: int
    offloads: int
    thrash: int
    cpu_used: int
    reload_latency: int
    hit_rate: float
    thrash_rate: float
    in_tokens: int
    out_tokens: int
    kv_alloc_fail: int
    ttft_sum: int
    block_us: int
    evictions: int
    last_useful_us: int


@dataclass(frozen=True)
class Replication:
    """One run of the replica.

    Attributes
    ----------
    status : str
        ``ok``; ``livelock`` (no horizon, and some instance repeats itself for ever without
        completing anything); ``failed`` (the reference crashes).
    status_detail : str
        The evidence, or the defect's name; empty if ok.
    last_useful_us : int
        End of the last step in which some request got further than ever before, microseconds;
        -1 if there was none. What comes later in an ``ok`` run with a horizon is idle spinning.
    requests : list of RequestRecord
        In request order.
    instances : list of InstanceRecord
    totals : Totals
    steps : list of list of StepRecord
        Step log per instance; empty unless it was asked for.
    """

    status: str
    status_detail: str
    last_useful_us: int
    requests: list[RequestRecord]
    instances: list[InstanceRecord]
    totals: Totals
    steps: list[list[StepRecord]]

    @property
    def leaked_blocks(self) -> int:
        """Blocks in use at the end that no request can reach (D0)."""
        return sum(i.used_end - i.held_end for i in self.instances)


def collect(
    cluster: Cluster,
    requests: Sequence[Request],
    totals: Totals,
    status: str,
    status_detail: str,
) -> Replication:
    """Return the records of a run that has ended."""
    return Replication(
        status=status,
        status_detail=status_detail,
        last_useful_us=max(i.counters.last_useful for i in cluster.instances),
        requests=[_request(r) for r in requests],
        instances=[_instance(i) for i in cluster.instances],
        totals=totals,
        steps=[i.log for i in cluster.instances if i.log is not None],
    )


def _request(request: Request) -> RequestRecord:
    delay = None if request.last_admit is None else request.last_admit - request.arrival
    return RequestRecord(
        instance=request.instance,
        state="queued" if request.state == "rejected" else request.state,
        status=_status(request),
        ttft_us=request.first_token,
        e2e_us=request.e2e,
        finish_us=request.finish,
        sched_delay_us=delay,
        preemptions=request.preemptions,
        admissions=request.admissions,
        first_admit_us=request.first_admit,
        last_admit_us=request.last_admit,
        cached_blocks_rle=_run_lengths((cached, n) for cached, _, n in request.admitted),
        hit_blocks_rle=_run_lengths((hits, n) for _, hits, n in request.admitted),
        queued_us=request.queued,
        itl_us=request.itl,
    )


def _status(request: Request) -> str:
    """Return the state in the words of a trace's columns."""
    if request.state == "dropped":
        return "dropped_unservable"
    if request.state == "queued" and request.queued is None:
        return "not_arrived"
    return request.state


def _run_lengths(pairs: Iterable[tuple[int, int]]) -> list[list[int]]:
    """Return run-length pairs with equal neighbours merged."""
    merged: list[list[int]] = []
    for value, count in pairs:
        if merged and merged[-1][0] == value:
            merged[-1][1] += count
        else:
            merged.append([value, count])
    return merged


def _instance(instance: Instance) -> InstanceRecord:
    counters, batcher, store = instance.counters, instance.batcher, instance.store
    tier = store if isinstance(store, TieredStore) else None
    return InstanceRecord(
        completed=counters.completed,
        queued=len(batcher.waiting),
        running=len(batcher.running),
        dropped=counters.dropped,
        preemptions=batcher.preemptions,
        hits=store.hits,
        misses=store.misses,
        peak=counters.peak_blocks,
        used_end=store.used,
        held_end=store.held,
        steps=counters.steps,
        sim_end=instance.clock,
        cpu_hits=tier.cpu_hits if tier else 0,
        cpu_misses=tier.cpu_misses if tier else 0,
        offloads=tier.offloads if tier else 0,
        thrash=tier.thrashed if tier else 0,
        cpu_used=tier.cpu_used if tier else 0,
        reload_latency=tier.reload_latency if tier else 0,
        hit_rate=store.hit_rate,
        thrash_rate=store.thrashing_rate,
        in_tokens=counters.prompt_tokens,
        out_tokens=counters.decode_tokens,
        kv_alloc_fail=counters.last_token_failures,
        ttft_sum=counters.ttft_sum,
        block_us=counters.block_time,
        evictions=store.evictions,
        last_useful_us=counters.last_useful,
    )
