"""What a run of the replica leaves, reduced to numbers.

What the reference itself prints has the reference's definition: the preemption rate is 0 where
nothing completed, the hit rate is the unweighted mean over the instances, the end-to-end latency
and the scheduling delay are its own (see `kvsweep.replica`). Everything else is computed from the
replica's records. A request that has not reached a wait queue when the horizon comes has not
arrived and is not counted as injected. A run with a horizon is ``ok``, and its ``status_detail``
says when its last useful step ended: what comes later is idle spinning.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..metrics import NO_COUNT, jain_index, per_second, ratio, summarize_latency
from ..metrics.request_columns import replica_columns
from ..policies import RequestStatus, Status
from ..records import NEVER
from ..replica import Replication
from ..replica.result import RequestRecord
from ..workload.requests import Requests
from .backlog import queue_growth
from .inversions import find_inversions
from .list_records import class_levels

STATUSES = {"ok": Status.OK, "livelock": Status.LIVELOCK, "failed": Status.FAILED}


def cell_values(
    scenario: Scenario, requests: Requests, replication: Replication
) -> dict[str, NDArray[Any]]:
    """Return the variables of one run that are not by group, its status and its detail.

    Returns
    -------
    dict of str to array (...)
        Dimensions as the variables' ``dims`` say; ``instance`` and ``request`` have the lengths of
        this run.
    """
    warmup = scenario.workload.warmup if scenario.workload else 0
    measured = replication.requests[warmup:]
    columns = replica_columns(scenario, requests, replication)
    values = _latencies(measured, times_per_token(columns)[warmup:])
    values |= _counts(measured) | _blocks(scenario, requests, replication)
    lasted = measured_us(scenario, requests, replication)
    microseconds = np.array(lasted)
    done = np.array([r.status == "completed" for r in replication.requests])
    done[:warmup] = False
    values["throughput_rps"] = per_second(values["completed"], microseconds)
    tokens = requests.output_tokens[done].sum()
    values["output_tokens_per_s"] = per_second(tokens, microseconds)
    values["preemption_rate"] = _preemption_rate(scenario, values)
    total = lasted * scenario.cluster.instances
    end = replication.totals.sim_end
    values |= _populations(requests.arrival_us[warmup:], measured, total, end)
    values["status"] = np.array(STATUSES[replication.status], np.int8)
    values["status_detail"] = np.array(_detail(scenario, replication), object)
    values |= _backlog(requests, replication)
    return values | _fairness(requests, replication, columns, warmup) | columns


def _detail(scenario: Scenario, replication: Replication) -> str:
    """Return the evidence of a run without an end; of one with a horizon, its last useful step."""
    if replication.status != "ok" or scenario.engine.horizon_us is None:
        return replication.status_detail
    if replication.last_useful_us < 0:
        return "no useful step"
    return f"last useful step ended at {replication.last_useful_us / 1e6:.6f} s"


def _backlog(requests: Requests, replication: Replication) -> dict[str, NDArray[Any]]:
    """Return what tells load from capacity; what waits at a horizon has not begun."""
    arrival = requests.arrival_us
    began = [
        NEVER if r.status == RequestStatus.QUEUED.label else or_missing(r.first_admit_us)
        for r in replication.requests
    ]
    start = np.array(began, np.int64)
    delay = np.where(start < 0, NO_COUNT, start - arrival)
    return {
        "arrivals_s": np.array((arrival[-1] - arrival[0]) / 1e6),
        "queue_growth": queue_growth(arrival[None], delay[None], np.zeros(1, np.intp))[0],
    }


def _fairness(
    requests: Requests,
    replication: Replication,
    columns: dict[str, NDArray[Any]],
    warmup: int,
) -> dict[str, NDArray[Any]]:
    """Return priority inversions, by class as the reference has no other, and load balance."""
    instance, status = columns["request_instance"], columns["request_status"]
    scheduled = columns["request_scheduled_us"]
    waits = status != RequestStatus.DROPPED_UNSERVABLE.label
    rows = (
        class_levels(requests.slo_names, requests.slo_class),
        instance,
        np.where(waits, columns["request_queued_us"], NO_COUNT),
        scheduled,
        np.where(scheduled < 0, NEVER, scheduled),
    )
    inversions = find_inversions(*(row[None] for row in rows))[0, warmup:].sum()
    measured = (np.arange(len(status)) >= warmup) & (status == RequestStatus.COMPLETED.label)
    completed = np.bincount(instance[measured], minlength=len(replication.instances))
    return {
        "priority_inversions": inversions,
        "priority_inversion_rate": ratio(inversions, (scheduled[warmup:] >= 0).sum()),
        "fairness_instances": jain_index(completed[None], np.ones((1, len(completed)), bool))[0],
    }


def _populations(
    arrival_us: NDArray[np.int64], measured: Sequence[RequestRecord], total_us: int, end_us: int
) -> dict[str, NDArray[Any]]:
    """Return mean numbers of requests per instance, by Little's law from their times.

    What a horizon cuts off waits, or runs, until the end.
    """
    waited = served = 0
    for arrival, request in zip(arrival_us.tolist(), measured, strict=True):
        begun, lasted = request.first_admit_us, request.finish_us
        if begun is not None:
            waited += begun - arrival
            served += (end_us if lasted is None else arrival + lasted) - begun
        elif request.status == RequestStatus.QUEUED.label:
            waited += end_us - arrival
    total = np.array(total_us)
    return {
        "mean_waiting": ratio(np.array(waited), total),
        "mean_running": ratio(np.array(served), total),
    }


def _preemption_rate(scenario: Scenario, values: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return preemptions per completed request; 0 where nothing completed, as shipped (D13)."""
    rate = ratio(values["preemptions"], values["completed"])
    return rate if scenario.engine.blis.get("pooled_rates") else np.nan_to_num(rate)


def measured_us(scenario: Scenario, requests: Requests, replication: Replication) -> int:
    """Return how long a run is measured, from zero or the first measured arrival on."""
    warmup = scenario.workload.warmup if scenario.workload else 0
    since = int(requests.arrival_us[warmup]) if warmup else 0
    return replication.totals.sim_end - since


def times_per_token(columns: dict[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return the time per output token after the first, microseconds, or -1; (requests,)."""
    times: NDArray[np.float64] = np.nan_to_num(columns["request_tpot_us"], nan=-1.0)
    return times


def _latencies(
    measured: Sequence[RequestRecord], per_token_us: NDArray[np.float64]
) -> dict[str, NDArray[Any]]:
    """Return means and quantiles, milliseconds; NaN where no request has a value."""
    columns: dict[str, list[int] | list[int | None]] = {
        "ttft": [r.ttft_us for r in measured],
        "e2e": [r.e2e_us for r in measured],
        "scheduling_delay": [r.sched_delay_us for r in measured],
        "itl": [gap for r in measured for gap in r.itl_us],
    }
    values: dict[str, NDArray[Any]] = {}
    for name, column in columns.items():
        known = np.array([or_missing(time) for time in column] or [NO_COUNT], np.int64)
        mean, quantiles = summarize_latency(known[None, :])
        values[f"{name}_mean_ms"], values[f"{name}_ms"] = mean[0], quantiles[0]
    mean, quantiles = summarize_latency(per_token_us[None, :])
    return values | {"tpot_mean_ms": mean[0], "tpot_ms": quantiles[0]}


def _counts(measured: Sequence[RequestRecord]) -> dict[str, NDArray[Any]]:
    """Count requests by status, and preemptions."""
    status = [r.status for r in measured]
    counts = {label: status.count(label) for label in RequestStatus.labels()}
    counts["injected"] = len(measured) - counts.pop(RequestStatus.NOT_ARRIVED.label)
    del counts[RequestStatus.ERRORED.label]  # it has no prefill and decode apart
    counts["preemptions"] = sum(r.preemptions for r in measured)
    values: dict[str, NDArray[Any]] = {k: np.array(n, np.int64) for k, n in counts.items()}
    preempted = np.array(sum(r.preemptions > 0 for r in measured))
    values["preempted_fraction"] = ratio(preempted, values["injected"])
    return values


def _blocks(
    scenario: Scenario, requests: Requests, replication: Replication
) -> dict[str, NDArray[Any]]:
    """Return what is counted per instance: blocks, transfers, steps."""
    instances, totals = replication.instances, replication.totals
    block_size = scenario.cache.block_size
    warmup = scenario.workload.warmup if scenario.workload else 0
    admitted = [i for i, r in enumerate(replication.requests) if r.admissions and i >= warmup]
    found = sum(replication.requests[i].cached_blocks_rle[0][0] for i in admitted) * block_size
    looked_up = requests.prompt_tokens[admitted].sum()
    whole = {
        "evictions": sum(i.evictions for i in instances),
        "offloads": sum(i.offloads for i in instances),
        "reloads": sum(i.cpu_hits for i in instances),
        "steps": sum(i.steps for i in instances),
    }
    values: dict[str, NDArray[Any]] = {k: np.array(n, np.int64) for k, n in whole.items()}
    values["peak_blocks"] = np.array([i.peak for i in instances], np.int64)
    values["block_hit_rate"] = np.array(totals.cache_hit_rate)
    values["thrashing_rate"] = np.array(totals.thrash_rate)
    values["prefix_hit_rate"] = ratio(np.array(found), np.array(looked_up))
    block_time = np.array(sum(i.block_us for i in instances))
    values["mean_blocks"] = ratio(block_time, np.array(totals.sim_end * len(instances)))
    values["pruned"] = np.array(0, np.int64)
    values["makespan_s"] = np.array(totals.sim_end / 1e6)
    return values


def or_missing(value: int | None) -> int:
    """Return a count or time, -1 where there is none."""
    return NO_COUNT if value is None else value
