"""How long sessions last, and when their requests arrive: as long a cluster fills up with them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cells import Cells
from kvsweep.records import NONE

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.config.sessions import Sessions

Floats = NDArray[np.float64]


def in_sessions(cells: Cells) -> NDArray[np.bool_]:
    """Tell where all requests are rounds of drawn sessions, or most of a trace's wait; (grid)."""
    if _last_start(cells) is not None:
        return np.ones(cells.ok.shape, np.bool_)
    found = cells.settings(lambda scenario: bool(_sessions(scenario)), np.bool_)
    return np.zeros(cells.ok.shape, np.bool_) if found is None else found


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
    last = _last_start(cells)
    if last is not None:
        makespan = cells.number("makespan_s")
        return makespan - cells.number("e2e_mean_ms") / 1000, makespan - last
    served, pauses = cells.settings(_served, np.float64), cells.settings(_pauses, np.float64)
    if served is None or pauses is None:
        return span, service
    lasted = cells.number("makespan_s") - cells.number("e2e_mean_ms") / 1000
    where = np.isnan(span) & in_sessions(cells)
    return np.where(where, lasted, span), served * service + pauses


def _last_start(cells: Cells) -> float | None:
    """Return when the last session of a trace begins, in s; None unless most requests wait.

    None too if all begin at once, as on lanes: nobody asks for a rate then.
    """
    if cells.requests is None:
        return None
    requests = cells.requests(())
    later = requests.after != NONE
    starts = requests.arrival_us[~later]
    if later.mean() < 0.5 or starts.min() == starts.max():
        return None
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
