"""From many requests to one number of a cell: means, quantiles, quotients, fairness.

Quantiles interpolate linearly between ranks, as ``numpy.quantile`` does and as the original
experiments did.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.records import QUANTILES


def summarize_latency(times_us: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return mean and quantiles of each row of latencies.

    Parameters
    ----------
    times_us : int64 or float64 (cells, requests)
        Microseconds; negative where a request has none.

    Returns
    -------
    mean : float64 (cells,)
        Milliseconds; NaN for a row without any.
    quantiles : float64 (cells, len(QUANTILES))
        Milliseconds.
    """
    ordered = np.sort(times_us, axis=1)
    counts = (ordered >= 0).sum(axis=1)
    sums = np.where(ordered < 0, 0, ordered).sum(axis=1)
    return mean_latency(sums, counts), latency_quantiles(ordered, counts)


def mean_latency(sums_us: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return milliseconds from sums of microseconds; NaN where there are none.

    NumPy's own 0 / 0 has a sign or none, as there are more cells or fewer, and stores are compared
    to the byte.
    """
    return ratio(sums_us, counts) / 1000


def latency_quantiles(ordered_us: NDArray[Any], counts: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the quantiles of each row of latencies.

    Parameters
    ----------
    ordered_us : int32, int64 or float64 (cells, requests)
        Microseconds, each row sorted; negative where a request has none.
    counts : int64 (cells,)
        How many of each row have one.

    Returns
    -------
    float64 (cells, len(QUANTILES))
        Milliseconds; NaN for a row without any.
    """
    last = ordered_us.shape[1] - 1
    rank = np.maximum(counts - 1, 0)[:, None] * np.array(QUANTILES)
    below = np.floor(rank).astype(np.int64)
    # Missing values sort to the front, so rank r of the rest is at column missing + r.
    place = np.minimum(last + 1 - counts[:, None] + below, last)
    low = np.take_along_axis(ordered_us, place, axis=1)
    high = np.take_along_axis(ordered_us, np.minimum(place + 1, last), axis=1)
    quantiles: NDArray[np.float64] = low + (high - low) * (rank - below)
    quantiles[counts == 0] = np.nan
    return quantiles / 1000


def ratio(part: NDArray[Any], whole: NDArray[Any]) -> NDArray[np.float64]:
    """Return part / whole, NaN where the whole is not above zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(whole > 0, part / whole, np.nan)


def per_second(count: NDArray[Any], microseconds: NDArray[Any]) -> NDArray[np.float64]:
    """Return how many there are a second: 0 of nothing, also in a run that ended before it began.

    Where all is refused on arrival there is no step, and so no time to divide by.
    """
    found: NDArray[np.float64] = np.where(count == 0, 0.0, ratio(count, microseconds / 1e6))
    return found


def jain_index(shares: NDArray[Any], counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the fairness of each row of shares, (sum x)^2 / (n sum x^2).

    1 if all have the same, 1/n if one of n has everything. R. Jain, D. Chiu and W. Hawe, A
    Quantitative Measure of Fairness and Discrimination for Resource Allocation in Shared Computer
    Systems, DEC Research Report TR-301 (1984).

    Parameters
    ----------
    shares : (cells, n)
        What each has, at least 0.
    counted : bool (cells, n)
        Who takes part.

    Returns
    -------
    float64 (cells,)
        NaN where nobody has anything.
    """
    x = np.where(counted, shares, 0).astype(np.float64)
    return ratio(x.sum(axis=1) ** 2, counted.sum(axis=1) * (x**2).sum(axis=1))
