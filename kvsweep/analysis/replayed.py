"""A replay as the one cell that it is: what the warnings about sweeps know of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.warning_records import ResultWarning
from kvsweep.metrics import NO_COUNT, jain_index
from kvsweep.policies import RequestStatus
from kvsweep.records import NONE
from kvsweep.simulate.backlog import queue_growth
from kvsweep.trace_replay import Replay, is_ok


def cell_of_replay(found: Replay) -> Cells:
    """Return the cell of a replay, with the measures that checks look at if it ended well."""
    scenario = np.empty((), object)
    scenario[()] = found.scenario
    measures = _measures(found) if is_ok(found) else {}
    values = {name: np.asarray(value, np.float64) for name, value in measures.items()}
    return Cells(
        axes={},
        ok=np.array(is_ok(found)),
        statuses=lambda: {found.status: 1},
        read=values.get,
        names=tuple(values),
        scenarios=scenario,
        requests=lambda index: found.trace.requests,
    )


def early_arrivals(found: Replay) -> list[ResultWarning]:
    """Return a warning if requests that wait for answers arrived before the trace says.

    Their arrivals are made by the answers, and what the trace has as `arrival_us` is not read.
    """
    requests, arrived = found.trace.requests, found.requests["arrival_us"]
    recorded = requests.arrival_us
    early = np.flatnonzero((requests.after != NONE) & (arrived != NO_COUNT) & (arrived < recorded))
    if not early.size:
        return []
    first = int(early[0])
    text = (
        f"requests arrived before their arrival_us, as they have 'after': {early.size:,}, first of "
        f"all requests[{first}] at {arrived[first]:,} us instead of {recorded[first]:,}: think_us "
        "after the answer decides, and arrival_us is not read; a longer think_us makes them later, "
        "and without 'after' arrival_us holds"
    )
    return [ResultWarning("early-arrivals", text, 1, 1, {})]


def _measures(found: Replay) -> dict[str, Any]:
    columns, n = found.requests, found.scenario.cluster.instances
    status, arrival, finish = columns["status"], columns["arrival_us"], columns["finish_us"]
    done = status == RequestStatus.COMPLETED.label
    values: dict[str, Any] = {
        name: (status == name).sum()
        for name in RequestStatus.labels()
        if name != RequestStatus.NOT_ARRIVED.label
    }
    values["injected"] = sum(values.values())
    served = np.bincount(columns["instance"][done], minlength=n)
    values["fairness_instances"] = jain_index(served[None], np.ones((1, n), bool))[0]
    # By Little's law; of the load only the sum of the two is looked at.
    present = (finish - arrival)[done].sum() / max(1, finish.max(initial=0)) / n
    values |= {"mean_running": present, "mean_waiting": 0.0}
    values["queue_growth"] = _growth(found)
    return values


def _growth(found: Replay) -> float:
    """Return `queue_growth` of the requests; NaN in a closed loop and of a burst."""
    columns = found.requests
    arrival, start = columns["arrival_us"], columns["scheduled_us"]
    service = (columns["finish_us"] - start)[columns["finish_us"] >= 0]
    at_once = service.size == 0 or arrival[-1] - arrival[0] < service.mean()
    if at_once or (found.trace.requests.after >= 0).any():
        return np.nan
    delay = np.where(start < 0, NO_COUNT, start - arrival)
    return float(queue_growth(arrival[None], delay[None], np.zeros(1, np.intp))[0])
