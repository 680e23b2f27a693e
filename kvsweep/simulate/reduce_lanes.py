"""What the kernel leaves of a batch, reduced to named numbers per lane."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..metrics import jain_index, latency_quantiles, mean_latency, per_second, ratio
from ..policies import RequestStatus
from ..records import NEVER, NONE, QUANTILES, Inputs, Outputs
from .backlog import backlog
from .goodput import LevelTable, measure_levels
from .inversions import find_inversions
from .lane_ends import lane_ends
from .measured_lanes import Measured, alike
from .reduce_groups import Grouping, measure_groups


def reduce_lanes(
    inputs: Inputs,
    outputs: Outputs,
    groups: Sequence[Grouping],
    *,
    ranked: bool = False,
    levels: LevelTable | None = None,
) -> dict[str, NDArray[Any]]:
    """Reduce the lanes of a batch to one number, or row of numbers, each.

    Parameters
    ----------
    inputs, outputs : Inputs, Outputs
        A batch after its run. Without `Outputs.progress` its columns are not left in order.
    groups : sequence of Grouping
        Divisions of the requests to measure by; needs `Outputs.progress`.
    ranked : bool
        Whether some requests are more urgent than others, so that priorities can be inverted;
        needs `Outputs.progress`.
    levels : LevelTable, optional
        Service levels of the lanes; needs `Outputs.progress`.

    Returns
    -------
    dict of str to array (lanes, ...)
        By variable of `kvsweep.metrics`, and ``status``, ``status_detail``.
    """
    values = _tallied(inputs, outputs) | _totals(outputs)
    for measured in alike(inputs, outputs):
        found = _quantiles(measured) | backlog(inputs, measured.lanes, _waits(measured))
        found["priority_inversions"] = (
            _inversions(measured) if ranked else np.zeros_like(measured.lanes)
        )
        coded = [(grouping, grouping.codes[measured.slots]) for grouping in groups]
        for grouping, codes in coded:
            found |= measure_groups(grouping, codes, measured.group_columns)
        if levels is not None:
            lasted = _measured_us(inputs, outputs)[measured.lanes]
            table = levels.of(measured.lanes)
            found |= measure_levels(measured.group_columns, table, lasted, coded)
        for name, part in found.items():
            if name not in values:
                values[name] = np.zeros((len(inputs.lanes), *part.shape[1:]), part.dtype)
            values[name][measured.lanes] = part
    _add_rates(inputs, outputs, values)
    return values | lane_ends(inputs, outputs, values)


def _quantiles(measured: Measured) -> dict[str, NDArray[Any]]:
    """Return the quantiles of the times of measured requests."""
    outputs = measured.outputs
    columns = {"ttft": outputs.ttft, "e2e": outputs.e2e, "scheduling_delay": outputs.delay}
    counts = _time_counts(outputs)
    values = {}
    for name, column in columns.items():
        times = _narrow(measured.rows(column))
        times.sort(axis=1)
        values[f"{name}_ms"] = latency_quantiles(times, counts[name][measured.lanes])
    per_token = measured.rows(outputs.tpot)
    # Nothing else reads this column without measures by group: a copy takes 0.4 us a cell.
    per_token = per_token.copy() if outputs.progress.size else per_token
    per_token.sort(axis=1)
    values["tpot_ms"] = latency_quantiles(per_token, counts["tpot"][measured.lanes])
    return values


def _waits(measured: Measured) -> NDArray[np.int64]:
    """Return how long each request waits for service, those of a warmup too; (cells, requests).

    That is to its first step, and of prefill and decode apart to its first token, which is made on
    the other side: it may wait for room on both.
    """
    every = replace(measured, warmup=0)
    delay = every.rows(measured.outputs.delay)
    apart = measured.inputs.lanes["disaggregated"][measured.lanes] != 0
    if not apart.any():
        return delay
    return np.where(apart[:, None], every.rows(measured.outputs.ttft), delay)


def _narrow(times_us: NDArray[np.int64]) -> NDArray[Any]:
    """Return a copy of times in 32 bits if they fit, which sort in half the time: 1 us a cell."""
    fit = times_us.max(initial=0) < np.iinfo(np.int32).max
    return times_us.astype(np.int32 if fit else np.int64)


def _time_counts(outputs: Outputs) -> dict[str, NDArray[np.int64]]:
    """Return how many measured requests of each lane have a time, by its name."""
    return {
        "ttft": outputs.tallies["first_tokens"],
        "e2e": outputs.outcomes[:, RequestStatus.COMPLETED].astype(np.int64),
        "scheduling_delay": outputs.tallies["admissions"],
        "tpot": outputs.tallies["tpots"],
    }


def _inversions(measured: Measured) -> NDArray[np.int64]:
    """Count the measured first admissions that pass over a more urgent request; (cells,).

    A client that gives up waits until its patience is over, not until that is noticed.
    """
    every = replace(measured, warmup=0)
    progress = every.rows(measured.outputs.progress)
    records = measured.inputs.requests[every.slots]
    status, scheduled = progress["status"], progress["scheduled"]
    unservable = status == RequestStatus.DROPPED_UNSERVABLE
    patience = np.where(status == RequestStatus.TIMED_OUT, records["patience"], NEVER)
    left = np.where(scheduled == NONE, progress["arrival"] + patience + 1, scheduled)
    found = find_inversions(
        records["class_priority"],
        progress["instance"],
        np.where(unservable, NONE, progress["queued"]),
        scheduled,
        left,
    )
    count: NDArray[np.int64] = found[:, measured.warmup :].sum(axis=1)
    return count


def _tallied(inputs: Inputs, outputs: Outputs) -> dict[str, NDArray[Any]]:
    """Return what the kernel counted itself."""
    tallies, lanes = outputs.tallies, inputs.lanes
    block_time = tallies["makespan"] * lanes["instances"]
    completing = _completing(lanes, outputs.completed.shape[1])
    return {
        "itl_mean_ms": ratio(tallies["itl_sum"], tallies["itl_count"]) / 1000,
        "itl_ms": np.stack([tallies[f"itl_q{i}"] for i in range(len(QUANTILES))], axis=1) / 1000,
        "block_hit_rate": ratio(
            tallies["blocks_reused"], tallies["blocks_reused"] + tallies["blocks_taken"]
        ),
        "prefix_hit_rate": ratio(tallies["hit_tokens"], tallies["query_tokens"]),
        "cpu_hit_rate": ratio(tallies["loaded_tokens"], tallies["query_tokens"]),
        "peak_blocks": outputs.peak_blocks.astype(np.int64),
        "fairness_instances": jain_index(outputs.completed, completing),
        "mean_blocks": ratio(tallies["used_time"], block_time),
        "evictions": tallies["evictions"].copy(),
        "offloads": tallies["offloads"].copy(),
        "reloads": tallies["reloads"].copy(),
        "thrashing_rate": ratio(tallies["thrashed"], tallies["offloads"]),
        "transfer_s": tallies["transfer_time"] / 1e6,
        "tier_loads": tallies["loads"].copy(),
        "tier_stores": tallies["stores"].copy(),
        "tier_loaded_tokens": tallies["loaded"].copy(),
        "tier_stored_tokens": tallies["stored"].copy(),
        "tier_evictions": tallies["tier_evictions"].copy(),
        "tier_refused": tallies["refused"].copy(),
        "tier_deferred": tallies["later"].copy(),
        **{
            name: tallies[name].copy()
            for name in (
                "window_freed",
                "draft_tokens",
                "accepted_tokens",
                "pulls",
                "pulled_tokens",
                "failed_pulls",
                "expired_leases",
            )
        },
        "draft_acceptance": ratio(tallies["accepted_tokens"], tallies["draft_tokens"]),
        "pull_wait_mean_ms": ratio(tallies["pull_wait"], tallies["pull_waits"]) / 1000,
        "kept_mean_ms": ratio(tallies["kept_time"], tallies["pulls"] + tallies["forgone"]) / 1000,
        "steps": tallies["steps"].copy(),
        "pruned": tallies["pruned"].copy(),
        "makespan_s": tallies["makespan"] / 1e6,
    }


def _completing(lanes: NDArray[Any], most: int) -> NDArray[np.bool_]:
    """Return which instances complete requests, (lanes, most): not those that only prefill."""
    first = np.where(lanes["disaggregated"], lanes["routed"], 0)
    index = np.arange(most)
    found: NDArray[np.bool_] = (first[:, None] <= index) & (index < lanes["instances"][:, None])
    return found


def _totals(outputs: Outputs) -> dict[str, NDArray[Any]]:
    """Return what the kernel added up over the measured requests."""
    tallies = outputs.tallies
    counts = _time_counts(outputs)
    sums = {
        "ttft": "ttft_sum",
        "e2e": "e2e_sum",
        "scheduling_delay": "delay_sum",
        "tpot": "tpot_sum",
    }
    values: dict[str, NDArray[Any]] = {
        f"{name}_mean_ms": mean_latency(tallies[field], counts[name])
        for name, field in sums.items()
    }
    for status in RequestStatus:
        if status is not RequestStatus.NOT_ARRIVED:
            values[status.label] = outputs.outcomes[:, status].astype(np.int64)
    values["injected"] = tallies["arrived"].copy()
    values["preemptions"] = tallies["preemptions"].copy()
    values["preempted_fraction"] = ratio(tallies["preempted"], tallies["arrived"])
    values["recomputed_tokens"] = tallies["recomputed_tokens"].copy()
    values["recompute_share"] = ratio(tallies["recomputed_tokens"], tallies["computed_tokens"])
    return values


def _add_rates(inputs: Inputs, outputs: Outputs, values: dict[str, NDArray[Any]]) -> None:
    """Add what is a quotient of other values, in place.

    Mean numbers of requests follow from their times by Little's law, L = lambda W; what the client
    sees after the last step, alpha2, is no part of them. Who is given up has waited until then.
    """
    lanes, tallies = inputs.lanes, outputs.tallies
    microseconds = _measured_us(inputs, outputs)
    values["preemption_rate"] = ratio(values["preemptions"], values["completed"])
    values["priority_inversion_rate"] = ratio(values["priority_inversions"], tallies["admissions"])
    values["throughput_rps"] = per_second(values["completed"], microseconds)
    values["output_tokens_per_s"] = per_second(tallies["output_tokens"], microseconds)
    total = microseconds * lanes["instances"]
    after = values["completed"] * lanes["alpha2"].astype(np.int64)
    values["mean_running"] = ratio(tallies["service_sum"] - after, total)
    values["mean_waiting"] = ratio(tallies["delay_sum"] + tallies["patience_sum"], total)


def _measured_us(inputs: Inputs, outputs: Outputs) -> NDArray[Any]:
    """Return how long each lane is measured, from zero or the first measured arrival on."""
    lanes, tallies = inputs.lanes, outputs.tallies
    since = np.where(lanes["warmup"] > 0, tallies["first_arrival"], 0)
    lasted: NDArray[Any] = tallies["makespan"] - np.minimum(since, tallies["makespan"])
    return lasted
