"""Cells under the reference simulator's rules: run the replica on each, one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..metrics import VARIABLES
from ..policies import RequestStatus
from ..replica import Replication, run
from ..workload.native import to_trace_dict
from ..workload.requests import Requests
from .goodput import LevelTable, level_table, measure_levels
from .reduce_groups import Columns, Grouping, groupings, measure_groups
from .reduce_replica import cell_values, measured_us, or_missing, times_per_token
from .request_lists import RequestLists


def run_replica_cells(
    variants: Sequence[Scenario],
    positions: Sequence[int],
    n_seeds: int,
    lists: RequestLists,
    keep_requests: bool,
) -> dict[str, NDArray[Any]]:
    """Simulate every variant with every seed on the replica, one run after the other.

    Parameters
    ----------
    variants : sequence of Scenario
        Scenarios under the rules ``blis``.
    positions : sequence of int
        Their positions in `lists`.
    n_seeds : int
        Number of seeds.
    lists : RequestLists
        Where their requests are.
    keep_requests : bool
        Return the per-request variables too.

    Returns
    -------
    dict of str to array (len(variants), n_seeds, ...)
        As `simulate_batch`.
    """
    cells = []
    levels = level_table(variants, lists.slo_classes)
    for number, (position, scenario) in enumerate(zip(positions, variants, strict=True)):
        table = levels and levels.of(np.array([number]))
        for seed in range(n_seeds):
            requests = lists.requests(position, seed)
            replication = replicate(scenario, requests)
            values = cell_values(scenario, requests, replication)
            divided = groupings([requests], lists.rounds, lists.slo_classes)
            values |= _by_group(scenario, requests, replication, divided, table, values)
            if not keep_requests:
                values = {k: v for k, v in values.items() if not k.startswith("request_")}
            cells.append(values)
    shape = (len(variants), n_seeds)
    stacked = {name: _stack(name, [cell[name] for cell in cells]) for name in cells[0]}
    return {name: values.reshape(shape + values.shape[1:]) for name, values in stacked.items()}


def replicate(scenario: Scenario, requests: Requests) -> Replication:
    """Run the replica on a scenario's requests."""
    return run(scenario.to_trace(), to_trace_dict(requests, {})["requests"])


def _by_group(
    scenario: Scenario,
    requests: Requests,
    replication: Replication,
    groups: Sequence[Grouping],
    table: LevelTable | None,
    values: dict[str, NDArray[Any]],
) -> dict[str, NDArray[Any]]:
    """Return the measures by round or class, and of service levels, from a cell's columns."""
    warmup = scenario.workload.warmup if scenario.workload else 0
    statuses = {member.label: member for member in RequestStatus}

    def row(column: NDArray[Any]) -> NDArray[Any]:
        return column[None, warmup:]

    columns = Columns(
        ttft=row(values["request_ttft_us"]),
        e2e=row(values["request_e2e_us"]),
        delay=row(np.array([or_missing(r.sched_delay_us) for r in replication.requests])),
        tpot=row(times_per_token(values)),
        preemptions=row(values["request_preemptions"]),
        status=row(np.array([statuses[name] for name in values["request_status"]], np.int8)),
        prompt=row(requests.prompt_tokens),
        cached=row(values["request_cached_tokens"]),
        output=row(requests.output_tokens),
    )
    coded = [(grouping, row(grouping.codes)) for grouping in groups]
    found: dict[str, NDArray[Any]] = {}
    for grouping, codes in coded:
        found |= measure_groups(grouping, codes, columns)
    if table is not None:
        lasted = np.array([measured_us(scenario, requests, replication)])
        found |= measure_levels(columns, table, lasted, coded)
    return {name: cells[0] for name, cells in found.items()}


def _stack(name: str, cells: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stack one variable of all cells, padded to the longest."""
    if len({cell.shape for cell in cells}) == 1:
        return np.stack(cells)
    longest = max(len(cell) for cell in cells)
    stacked = np.full((len(cells), longest), VARIABLES[name].missing, cells[0].dtype)
    for row, cell in zip(stacked, cells, strict=True):
        row[: len(cell)] = cell
    return stacked
