"""Cells under vLLM's rules: lay out lanes, run the kernel, reduce what it leaves to numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..kernel.engine import run_batch
from ..kernel.tally import MAX_ITL_ENTRIES
from ..metrics import count_statuses, ratio, summarize_latency
from ..policies import RequestStatus, Status
from ..records import NONE, Inputs, Lane, Outputs
from ..workload.requests import Requests
from .lanes import allocate_outputs, allocate_workspace, build_inputs
from .lists import RequestLists

ITL_ENTRIES = 1 << 12
"""Least room for steps with prefill, of which a request has about one; a lane that has more than
fit is run again with more."""

STATUS_OF_LANE = {
    Lane.OK: Status.OK,
    Lane.STEP_LIMIT: Status.STEP_LIMIT,
    Lane.WORKSPACE_FULL: Status.FAILED,
    Lane.NOT_CONSERVED: Status.FAILED,
}
DETAIL_OF_LANE = {
    Lane.OK: "",
    Lane.STEP_LIMIT: "more steps than the request list can need",
    Lane.WORKSPACE_FULL: "more inter-token latencies than can be sorted",
    Lane.NOT_CONSERVED: "blocks or requests are unaccounted for at the end (a bug: please report)",
}


def warm_up() -> None:
    """Compile the kernel, or load it from the cache: an empty batch runs through it."""
    from .lanes import EMPTY

    outputs = allocate_outputs(EMPTY)
    run_batch(EMPTY, allocate_workspace(EMPTY, 1), outputs, 0, 0)


def run_lanes(inputs: Inputs, outputs: Outputs) -> None:
    """Run all lanes; those whose inter-token latencies did not fit run again with more room."""
    entries = max(ITL_ENTRIES, 2 * int(inputs.lanes["requests"].max()))
    run_batch(inputs, allocate_workspace(inputs, entries), outputs, 0, len(inputs.lanes))
    entries *= 8
    while entries <= MAX_ITL_ENTRIES:
        again = np.flatnonzero(outputs.tallies["status"] == Lane.WORKSPACE_FULL)
        if not again.size:
            break
        workspace = allocate_workspace(inputs, entries)
        for lane in again:
            outputs.tallies[lane] = 0
            run_batch(inputs, workspace, outputs, lane, lane + 1)
        entries *= 8


def run_kernel_cells(
    variants: Sequence[Scenario],
    positions: Sequence[int],
    n_seeds: int,
    lists: RequestLists,
    keep_requests: bool,
    prune: bool = True,
) -> dict[str, NDArray[Any]]:
    """Simulate every variant with every seed on the kernel.

    Parameters
    ----------
    variants : sequence of Scenario
        Scenarios under vLLM's rules.
    positions : sequence of int
        Their positions in `lists`.
    n_seeds : int
        Number of seeds.
    lists : RequestLists
        Where their requests are.
    keep_requests : bool
        Return the per-request variables too.
    prune : bool
        Copy cells that are proved equal to one with fewer blocks.

    Returns
    -------
    dict of str to array (len(variants), n_seeds, ...)
        As `simulate_batch`.
    """
    # Small pools first: a larger one may repeat the run of a smaller one.
    order = np.argsort([scenario.cache.gpu_blocks for scenario in variants], kind="stable")
    variants = [variants[v] for v in order]
    positions = [positions[v] for v in order]
    keys = [
        lists.key(position, seed, scenario.cache.block_size)
        for seed in range(n_seeds)
        for position, scenario in zip(positions, variants, strict=True)
    ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    which = np.array([numbers[key] for key in keys]).reshape(n_seeds, len(variants))
    prepared = [lists.prepared(key) for key in numbers]
    inputs = build_inputs(variants, prepared, which, prune=prune)
    outputs = allocate_outputs(inputs, keep_requests=keep_requests)
    run_lanes(inputs, outputs)
    flat = _measure(inputs, outputs)
    if keep_requests:
        owners = [lists.requests(p, s) for s in range(n_seeds) for p in positions]
        flat |= _request_columns(inputs, outputs, owners)
    back = np.argsort(order)
    return {
        name: np.swapaxes(values.reshape(which.shape + values.shape[1:]), 0, 1)[back]
        for name, values in flat.items()
    }


def _measure(inputs: Inputs, outputs: Outputs) -> dict[str, NDArray[Any]]:
    """Reduce the lanes of a batch to one number, or row of numbers, each."""
    values = _tallied(inputs, outputs)
    shapes = np.stack([inputs.lanes["requests"], inputs.lanes["warmup"]], axis=1)
    distinct, group = np.unique(shapes, axis=0, return_inverse=True)
    for number, (requests, warmup) in enumerate(distinct):
        lanes = np.flatnonzero(group.ravel() == number)
        found = _measure_requests(inputs, outputs, lanes, int(requests), int(warmup))
        for name, part in found.items():
            if name not in values:
                values[name] = np.zeros((len(inputs.lanes), *part.shape[1:]), part.dtype)
            values[name][lanes] = part
    _add_rates(inputs, outputs, values)
    _add_status(outputs, values)
    return values


def _columns(
    column: NDArray[Any], lanes: NDArray[Any], chosen: NDArray[np.intp], requests: int, warmup: int
) -> NDArray[Any]:
    """Return a per-request column as (lanes, measured requests), without a copy if it can."""
    if len(chosen) == len(lanes):
        return column.reshape(len(lanes), requests)[:, warmup:]
    slots = lanes["out_lo"][chosen][:, None] + np.arange(warmup, requests)
    return column[slots]


def _measure_requests(
    inputs: Inputs, outputs: Outputs, chosen: NDArray[np.intp], requests: int, warmup: int
) -> dict[str, NDArray[Any]]:
    """Reduce the per-request columns of lanes with equally many requests."""
    values: dict[str, NDArray[Any]] = {}

    def rows(column: NDArray[Any]) -> NDArray[Any]:
        return _columns(column, inputs.lanes, chosen, requests, warmup)

    latencies = {"ttft": outputs.ttft, "e2e": outputs.e2e, "scheduling_delay": outputs.delay}
    for name, column in latencies.items():
        values[f"{name}_mean_ms"], values[f"{name}_ms"] = summarize_latency(rows(column))
    status = rows(outputs.request_status)
    values |= count_statuses(status)
    values["injected"] = np.full(len(chosen), requests - warmup, np.int64)
    preemptions = rows(outputs.preemptions)
    values["preemptions"] = preemptions.sum(axis=1, dtype=np.int64)
    values["preempted_fraction"] = (preemptions > 0).mean(axis=1)
    first = inputs.lanes["request_lo"][chosen][:, None] + np.arange(warmup, requests)
    output = inputs.requests["output"][first]
    values["_output_tokens"] = np.where(status == RequestStatus.COMPLETED, output, 0).sum(axis=1)
    arrival = inputs.requests["arrival"][first[:, 0]]
    values["_measured_from"] = np.where(warmup > 0, arrival, 0)
    return values


def _tallied(inputs: Inputs, outputs: Outputs) -> dict[str, NDArray[Any]]:
    """Return what the kernel counted itself."""
    tallies, lanes = outputs.tallies, inputs.lanes
    block_time = tallies["makespan"] * lanes["instances"]
    none = np.zeros(len(lanes), np.int64)
    return {
        "itl_mean_ms": ratio(tallies["itl_sum"], tallies["itl_count"]) / 1000,
        "itl_ms": np.stack([tallies[f"itl_q{i}"] for i in range(4)], axis=1) / 1000,
        "block_hit_rate": ratio(
            tallies["blocks_reused"], tallies["blocks_reused"] + tallies["blocks_taken"]
        ),
        "prefix_hit_rate": ratio(tallies["hit_tokens"], tallies["query_tokens"]),
        "peak_blocks": outputs.peak_blocks.astype(np.int64),
        "mean_blocks": ratio(tallies["used_time"], block_time),
        "evictions": tallies["evictions"].copy(),
        "offloads": none,
        "reloads": none,
        "thrashing_rate": np.full(len(lanes), np.nan),
        "steps": tallies["steps"].copy(),
        "pruned": tallies["pruned"].copy(),
        "makespan_s": tallies["makespan"] / 1e6,
    }


def _add_rates(inputs: Inputs, outputs: Outputs, values: dict[str, NDArray[Any]]) -> None:
    """Add what is a quotient of other values, in place."""
    values["preemption_rate"] = ratio(values["preemptions"], values["completed"])
    seconds = (outputs.tallies["makespan"] - values.pop("_measured_from")) / 1e6
    values["throughput_rps"] = ratio(values["completed"], seconds)
    values["output_tokens_per_s"] = ratio(values.pop("_output_tokens"), seconds)


def _add_status(outputs: Outputs, values: dict[str, NDArray[Any]]) -> None:
    """Add status and detail; a cell whose requests do not add up to its list has failed."""
    outcomes = sum(values[member.label] for member in RequestStatus if member.label in values)
    ends = outputs.tallies["status"].copy()
    ends[(ends == Lane.OK) & (outcomes != values["injected"])] = Lane.NOT_CONSERVED
    values["status"] = np.array([STATUS_OF_LANE[lane] for lane in Lane], np.int8)[ends]
    values["status_detail"] = np.array([DETAIL_OF_LANE[lane] for lane in Lane], object)[ends]


def _request_columns(
    inputs: Inputs, outputs: Outputs, owners: Sequence[Requests]
) -> dict[str, NDArray[Any]]:
    """Return the per-request variables, padded to the longest request list."""
    lanes = inputs.lanes
    longest = int(lanes["requests"].max())
    inside = np.arange(longest) < lanes["requests"][:, None]
    progress = outputs.progress

    def padded(values: NDArray[Any]) -> NDArray[np.int64]:
        column = np.full(inside.shape, NONE, np.int64)
        column[inside] = values
        return column

    columns = {
        f"request_{name}_us": padded(progress[name])
        for name in ("queued", "scheduled", "first_token", "finish")
    }
    columns["request_arrival_us"] = padded(np.concatenate([o.arrival_us for o in owners]))
    columns["request_ttft_us"] = padded(outputs.ttft)
    columns["request_e2e_us"] = padded(outputs.e2e)
    columns["request_preemptions"] = padded(outputs.preemptions)
    columns["request_cached_tokens"] = padded(progress["cached"])
    columns["request_instance"] = padded(progress["instance"])
    columns["request_session"] = padded(np.concatenate([o.session for o in owners]))
    columns["request_round"] = padded(np.concatenate([o.round for o in owners]))
    texts: dict[str, NDArray[Any]] = {
        name: np.full(inside.shape, "", object) for name in ("request_status", "request_slo_class")
    }
    labels = np.array(RequestStatus.labels(), object)
    texts["request_status"][inside] = labels[outputs.request_status]
    texts["request_slo_class"][inside] = np.concatenate([class_names(o) for o in owners])
    return columns | texts


def class_names(requests: Requests) -> NDArray[Any]:
    """Return the SLO class of each request by name, empty where it has none."""
    return np.array([*requests.slo_names, ""], object)[requests.slo_class]
