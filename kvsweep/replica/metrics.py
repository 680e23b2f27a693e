"""Figures as the reference prints them, with its definitions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from kvsweep.replica.cluster import Cluster
from kvsweep.replica.request import Request


@dataclass(frozen=True)
class Totals:
    """The reference's summary of a run; times in microseconds, rates as it defines them.

    Attributes
    ----------
    cache_hit_rate, thrash_rate : float
        Unweighted means over the instances (D13).
    preemption_rate : float
        Preemptions per completed request; 0 when nothing completed (D13).
    e2e_mean_us, e2e_p99_us : float
        Of completed requests, in the reference's definition of e2e (D4).
    ttft_mean_us, ttft_p99_us : float
        Of all requests that got a first token, finished or not.
    queued : int
        Requests in a wait queue at the end; those not yet queued at the horizon appear nowhere.
    """

    cache_hit_rate: float
    completed: int
    dropped: int
    e2e_mean_us: float
    e2e_p99_us: float
    peak: int
    preemption_rate: float
    preemptions: int
    queued: int
    rejected: int
    req_per_s: float
    running: int
    sim_end: int
    thrash_rate: float
    ttft_mean_us: float
    ttft_p99_us: float


def totals(cluster: Cluster, requests: Sequence[Request]) -> Totals:
    """Return the summary of a finished run."""
    instances = cluster.instances
    completed = sum(i.counters.completed for i in instances)
    preemptions = sum(i.batcher.preemptions for i in instances)
    sim_end = max(i.clock for i in instances)
    nothing = math.nan if instances[0].switches.pooled_rates else 0.0
    ttft = [r.first_token for r in requests if r.first_token is not None]
    e2e = [r.e2e for r in requests if r.e2e is not None]
    return Totals(
        cache_hit_rate=_hit_rate(cluster),
        completed=completed,
        dropped=sum(i.counters.dropped for i in instances),
        e2e_mean_us=mean(e2e),
        e2e_p99_us=percentile(e2e, 99),
        peak=max(i.counters.peak_blocks for i in instances),
        preemption_rate=preemptions / completed if completed else nothing,
        preemptions=preemptions,
        queued=sum(len(i.batcher.waiting) for i in instances),
        rejected=cluster.rejected,
        req_per_s=completed / (sim_end / 1e6) if sim_end else 0.0,
        running=sum(len(i.batcher.running) for i in instances),
        sim_end=sim_end,
        thrash_rate=mean([i.store.thrashing_rate for i in instances]),
        ttft_mean_us=mean(ttft),
        ttft_p99_us=percentile(ttft, 99),
    )


def _hit_rate(cluster: Cluster) -> float:
    """Return the mean of the instances' hit rates, or the rate over all their blocks (D13)."""
    stores = [i.store for i in cluster.instances]
    if not cluster.instances[0].switches.pooled_rates:
        return mean([store.hit_rate for store in stores])
    looked_at = sum(store.looked_at for store in stores)
    return sum(store.found for store in stores) / looked_at if looked_at else 0.0


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def percentile(values: Sequence[float], percent: float) -> float:
    """Return a percentile with linear interpolation between order statistics, 0 of nothing."""
    if not values:
        return 0.0
    ordered = sorted(values)
    rank = percent / 100.0 * (len(ordered) - 1)
    low, high = math.floor(rank), math.ceil(rank)
    return ordered[low] + (rank - low) * (ordered[high] - ordered[low])
