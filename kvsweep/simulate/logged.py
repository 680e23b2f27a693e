"""One simulation with its logs: every step and every decision, for replays and tests."""

from dataclasses import dataclass

import numpy as np

from ..config import Scenario
from ..config.workload import DEFAULT_ENTROPY
from ..policies import Status
from ..records import LaneStatus, Outputs
from ..workload.acceptance import with_acceptance
from ..workload.blocks import resolve_blocks
from ..workload.failures import with_failures
from ..workload.requests import Requests
from .batch import build_inputs
from .explicit_records import looks_ahead
from .kernel_cells import run_lanes
from .lane_ends import STATUS_OF_LANE, details
from .lane_records import keep_logs
from .list_records import prepare
from .workspace import allocate_outputs


@dataclass(frozen=True)
class Single:
    """One finished simulation.

    Attributes
    ----------
    outputs : Outputs
        Of one lane, with the requests' final state and both logs.
    status : Status
        How it ended.
    detail : str
        Why it did not end well.
    """

    outputs: Outputs
    status: Status
    detail: str


def run_single(
    scenario: Scenario, requests: Requests, seed: int = 0, entropy: int = DEFAULT_ENTROPY
) -> Single:
    """Run a scenario under vLLM's rules on a request list, logging every step and event.

    It runs twice: the first run counts the rows of the logs. What is drawn of each request
    beforehand depends on `seed` and `entropy`, as in a sweep.
    """
    requests = with_acceptance(requests, scenario.engine.speculative, seed, entropy)
    requests = with_failures(requests, scenario.cluster.kv_load_failure_rate, seed, entropy)
    keys = resolve_blocks(requests, scenario.cache.block_size, looks_ahead(scenario))
    prepared = prepare(requests, keys)
    inputs = build_inputs([scenario], [prepared], np.zeros((1, 1), np.int64))
    keep_logs(inputs.lanes)
    counts = allocate_outputs(inputs)
    run_lanes(inputs, counts)
    rows = counts.tallies[0]
    outputs = allocate_outputs(
        inputs,
        keep_requests=True,
        steps=rows["log_steps"],
        events=rows["log_events"],
        transfers=rows["log_transfers"],
    )
    run_lanes(inputs, outputs)
    # An instance that goes on by itself logs its copies before earlier ones of others.
    in_time = np.argsort(outputs.transfers["ordered_us"], kind="stable")
    outputs.transfers[:] = outputs.transfers[in_time]
    ends = outputs.tallies["status"]
    (detail,) = details(ends, inputs.lanes)
    return Single(outputs, STATUS_OF_LANE[LaneStatus(ends[0])], detail)
