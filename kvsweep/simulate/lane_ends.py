"""How lanes ended: their codes as statuses of cells, and why in words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..policies import LoadFailure, RequestStatus, Scheduler, Status, Victim
from ..records import Inputs, LaneStatus, Outputs

STATUS_OF_LANE = {
    LaneStatus.OK: Status.OK,
    LaneStatus.STEP_LIMIT: Status.STEP_LIMIT,
    LaneStatus.WORKSPACE_FULL: Status.FAILED,
    LaneStatus.NOT_CONSERVED: Status.FAILED,
    LaneStatus.TIME_LIMIT: Status.FAILED,
    LaneStatus.UNKNOWN_POLICY: Status.FAILED,
}
DETAIL_OF_LANE = {
    LaneStatus.OK: "",
    LaneStatus.STEP_LIMIT: "more steps than the request list can need",
    LaneStatus.WORKSPACE_FULL: "more inter-token latencies than can be sorted",
    LaneStatus.NOT_CONSERVED: (
        "blocks or requests are unaccounted for at the end (a bug: please report)"
    ),
    LaneStatus.TIME_LIMIT: (
        "simulated time beyond what can be added up: is the rate or a latency wrong?"
    ),
    LaneStatus.UNKNOWN_POLICY: "a policy that the kernel has no branch for (a bug: please report)",
}

PRIORITY_CIRCLE = "; vLLM's own priority scheduler can preempt in a circle (docs/validation.md)"
"""Added to the detail of `LaneStatus.STEP_LIMIT` under that scheduler."""


VICTIM_CIRCLE = "; victims other than the last can preempt each other in a circle"
"""Added to it for an `engine.victim` other than ``last``."""

DRAFTS_WAIT = "; drafts beside windows can wait for ever in a small pool (docs/modern-models.md)"
"""Added to it for lanes with both."""

LOADS_WAIT = (
    "; or none at all: requests that hold loaded blocks can wait for those of each other for ever, "
    "as in vLLM (docs/validation.md)"
)
"""Added to it with vLLM's CPU tier, where requests hold blocks before they run (rule R11.3)."""

PULLS_WAIT = (
    "; or none at all: beside windows requests whose pulls failed can wait for each other's blocks "
    "for ever, as in vLLM (docs/validation.md)"
)
"""Added to it for lanes with windows that recompute prompts whose pulls fail (rule R14.12)."""

STATES_CIRCLE = "; in a pipeline requests with states can preempt themselves in turns, as in vLLM"
"""Added to it for pipelines with groups of states (rule R16.4)."""


def details(ends: NDArray[np.int64], lanes: NDArray[Any]) -> NDArray[np.object_]:
    """Say why lanes, LANE records, did not end well, by their `LaneStatus` codes."""
    told = np.array([DETAIL_OF_LANE[lane] for lane in LaneStatus], object)[ends]
    circle = ends == LaneStatus.STEP_LIMIT
    by_policy = lanes["victim"] != Victim.LAST
    told[circle & by_policy] += VICTIM_CIRCLE
    told[circle & ~by_policy & (lanes["scheduler"] == Scheduler.PRIORITY)] += PRIORITY_CIRCLE
    told[circle & (lanes["drafts"] > 0) & (lanes["windows"] != 0)] += DRAFTS_WAIT
    told[circle & ((lanes["connects"] > 0) | (lanes["moves"] > 0))] += LOADS_WAIT
    recomputes = lanes["kv_load_failure_policy"] == LoadFailure.RECOMPUTE
    told[circle & (lanes["windows"] != 0) & (lanes["lease"] > 0) & recomputes] += PULLS_WAIT
    told[circle & (lanes["stages"] > 0) & (lanes["states"] > 0)] += STATES_CIRCLE
    return told


def lane_ends(
    inputs: Inputs, outputs: Outputs, values: dict[str, NDArray[Any]]
) -> dict[str, NDArray[Any]]:
    """Return status and detail; a cell whose requests do not add up to its list has failed.

    Parameters
    ----------
    inputs, outputs : Inputs, Outputs
        A batch after its run.
    values : dict of str to array (lanes,)
        With the number of requests injected and of each status.
    """
    outcomes = sum(values[member.label] for member in RequestStatus if member.label in values)
    ends = outputs.tallies["status"].copy()
    ends[(ends == LaneStatus.OK) & (outcomes != values["injected"])] = LaneStatus.NOT_CONSERVED
    return {
        "status": np.array([STATUS_OF_LANE[lane] for lane in LaneStatus], np.int8)[ends],
        "status_detail": details(ends, inputs.lanes),
    }
