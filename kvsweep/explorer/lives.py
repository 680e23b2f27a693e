"""The life of every request of one simulation, for the page to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.analysis.timeline import timeline_of
from kvsweep.errors import InputError
from kvsweep.trace_replay import replay_requests

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.config import Scenario
    from kvsweep.workload.traces import Trace

MOST_REQUESTS = 2000
"""Requests that are drawn: of more, a row has no pixel left."""

MOST_SEGMENTS = 50_000
"""Segments of their lives: some 2 MB of a message."""

MOST_POINTS = 2000
"""Points of the blocks in use of an instance; of more steps the most of several is drawn."""


def life_of(scenario: Scenario, trace: Trace) -> dict[str, Any]:
    """Simulate one request list, and return what ``plot/page/life.js`` draws of it.

    Parameters
    ----------
    scenario : Scenario
        What is simulated.
    trace : Trace
        Its requests, and where they are from.

    Raises
    ------
    InputError
        If there are too many, or the rules log no decisions.
    """
    from kvsweep.plot.timeline_figure import heading  # Matplotlib takes a second to import
    from kvsweep.plot.timeline_page import drawn_data

    count = len(trace.requests.prompt_tokens)
    if count > MOST_REQUESTS:
        raise InputError(
            f"{trace.where}: {count:,} requests; the lives of at most {MOST_REQUESTS:,} are drawn "
            "here: `kvsweep replay --timeline` draws more"
        )
    found = timeline_of(replay_requests(scenario, trace))
    if len(found.row) > MOST_SEGMENTS:
        raise InputError(
            f"{trace.where}: {found.preemptions:,} preemptions, too many to draw here: "
            "`kvsweep replay --timeline` draws them"
        )
    data = drawn_data(found)
    data["used"] = [thinned(times, used) for times, used in data["used"]]
    present = [int(phase) for phase in np.unique(found.phase)]
    return {"told": heading(found)[1], "present": present, "data": data}


def thinned(times: list[float], used: list[int]) -> tuple[list[float], list[int]]:
    """Return at most `MOST_POINTS` times, and the most blocks in use until the next of them."""
    if len(times) <= MOST_POINTS:
        return times, used
    begins = np.linspace(0, len(times), MOST_POINTS, endpoint=False).astype(np.int64)
    most: NDArray[np.int64] = np.maximum.reduceat(np.array(used, np.int64), begins)
    return np.array(times)[begins].tolist(), most.tolist()
