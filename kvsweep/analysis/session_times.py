"""How long sessions last, and when their requests arrive: as long a cluster fills up with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cells import Cells
from kvsweep.config.axes import POLICY
from kvsweep.records import NONE

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.config.sessions import Sessions
    from kvsweep.workload.requests import Requests

Floats = NDArray[np.float64]


def in_sessions(cells: Cells) -> NDArray[np.bool_]:
    """Tell where all requests are rounds of drawn sessions, or most of a trace's wait; (grid)."""
    waiting: NDArray[np.bool_] = np.isfinite(_last_starts(cells))
    found = cells.settings(lambda scenario: bool(_sessions(scenario)), np.bool_)
    return waiting if found is None else waiting | found


def session_times(cells: Cells, span: Floats, service: Floats) -> tuple[Floats, Floats]:
    """Return what `span` and `service` are where requests are rounds of sessions.

    Parameters
    ----------
    cells : Cells
        Where.
    span : float64 (grid)
        Seconds from the first to the last arrival; NaN in closed loops.
    service : float64 (grid)
        Mean seconds from a request's first step to its end.

    Returns
    -------
    span, service : float64 (grid)
        Of sessions: in closed loops as far as the end of the run tells; and the mean length of a
        session, of several kinds the least, of a trace's that of what begins last.
    """
    served, pauses = cells.settings(_served, np.float64), cells.settings(_pauses, np.float64)
    if served is None or pauses is None:
        return span, service
    last, makespan = _last_starts(cells), cells.number("makespan_s")
    of_trace, lasted = np.isfinite(last), makespan - cells.number("e2e_mean_ms") / 1000
    closed = of_trace | (np.isnan(span) & in_sessions(cells))
    length = np.where(of_trace, makespan - last, served * service + pauses)
    return np.where(closed, lasted, span), length


def _last_starts(cells: Cells) -> Floats:
    """Return when the last session of a trace begins, in s; NaN of what is no such trace; (grid).

    Seeds have the same trace, and of policies with files of their own it is not known.
    """
    last = np.full(cells.ok.shape, np.nan)
    traces = cells.settings(_trace)
    if cells.requests is None or traces is None:
        return last
    for trace in set(traces.ravel()) - {""}:
        if "{policy}" in trace and POLICY in cells.axes:
            continue
        where = traces == trace
        last[where] = _last_start(cells.requests(tuple(map(int, np.argwhere(where)[0]))))
    return last


def _trace(scenario: Scenario) -> str:
    """Return what tells the request list of a trace from others; nothing of what is drawn."""
    workload = scenario.workload
    return "" if workload is None or workload.trace is None else workload.model_dump_json()


def _last_start(requests: Requests) -> float:
    """Return when the last session begins, in s; NaN unless most requests wait.

    NaN too if all begin at once, as on lanes: nobody asks for a rate then.
    """
    later = requests.after != NONE
    starts = requests.arrival_us[~later]
    if later.mean() < 0.5 or starts.min() == starts.max():
        return np.nan
    return float(starts.max()) / 1e6


def _served(scenario: Scenario) -> float:
    """Return how many requests of a session are served one after the other."""
    closed = (each.rounds if each.arrivals == "closed-loop" else 1 for each in _sessions(scenario))
    return min(closed, default=1)


def _pauses(scenario: Scenario) -> float:
    """Return how many seconds a session pauses between its rounds."""
    return min(((each.rounds - 1) * each.think_time_s for each in _sessions(scenario)), default=0.0)


def _sessions(scenario: Scenario) -> list[Sessions]:
    """Return the sessions that requests are drawn in; none if some are in none."""
    workload = scenario.workload
    if workload is None:
        return []
    found = [client.sessions or workload.sessions for client in workload.clients]
    kept = [each for each in found or [workload.sessions] if each is not None and each.rounds > 1]
    return kept if len(kept) == max(1, len(found)) else []
