"""Whether waiting lists come to rest: what the arrivals of a cell say of load against capacity."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..records import Inputs


def backlog(
    inputs: Inputs, lanes: NDArray[np.intp], delay_us: NDArray[np.int64]
) -> dict[str, NDArray[np.float64]]:
    """Return what tells load from capacity, of all requests: while it warms up a cluster fills.

    Parameters
    ----------
    inputs : Inputs
        The batch.
    lanes : intp (cells,)
        Positions of lanes with equally many requests.
    delay_us : int64 (cells, requests)
        As for `queue_growth`.

    Returns
    -------
    dict of str to float64 (cells,)
        ``arrivals_s`` and ``queue_growth``; NaN in closed loops, which slow down by themselves.
    """
    records = inputs.lanes[lanes]
    first, which = np.unique(records["request_lo"], return_inverse=True)
    arrival = inputs.requests["arrival"][first[:, None] + np.arange(delay_us.shape[1])]
    closed = records["follow_ups"] > 0  # not of roles: they too go from event to event
    span = (arrival[:, -1] - arrival[:, 0])[which] / 1e6
    return {
        "arrivals_s": np.where(closed, np.nan, span),
        "queue_growth": np.where(closed, np.nan, queue_growth(arrival, delay_us, which)),
    }


def queue_growth(
    arrival_us: NDArray[np.int64], delay_us: NDArray[np.int64], which: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Return the share of the later half of the arrivals by which waiting lists grew meanwhile.

    A cluster that can serve a share c of what arrives leaves 1 - c of it waiting, whatever its
    scheduler; one that keeps up leaves no more than the ups and downs of its queues.

    Parameters
    ----------
    arrival_us : int64 (lists, requests)
        Arrivals of each request list, not decreasing.
    delay_us : int64 (cells, requests)
        From arrival to the first step, where prefill and decode are apart to the first token;
        negative for a request that had none and so waits for none.
    which : int (cells,)
        The list of each cell.

    Returns
    -------
    float64 (cells,)
        -1 to 1; NaN where there are fewer than two requests.
    """
    requests = arrival_us.shape[1]
    half = requests // 2
    if half == 0:
        return np.full(len(which), np.nan)
    # Who starts later waits. No gather per cell: 0.4 us, for 200 requests, instead of 2.6.
    to_last = arrival_us[:, -1:] - arrival_us
    to_middle = arrival_us[:, half - 1 : half] - arrival_us[:, :half]
    waiting = np.count_nonzero(delay_us > to_last[which], axis=1)
    before = np.count_nonzero(delay_us[:, :half] > to_middle[which], axis=1)
    growth: NDArray[np.float64] = (waiting - before) / (requests - half)
    return growth
