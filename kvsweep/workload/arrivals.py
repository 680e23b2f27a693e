"""Arrival processes: gaps between arrivals, with mean 1."""

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.workload import ArrivalProcess
from kvsweep.workload.streams import Streams, fill


def unit_gaps(
    process: ArrivalProcess, cv: float | None, n: int, streams: Streams
) -> NDArray[np.float64]:
    """Draw `n` gaps with mean 1 of each stream.

    Parameters
    ----------
    process : str
        ``poisson``: exponential gaps; ``gamma``, ``weibull``: of that distribution; ``constant``.
    cv : float or None
        Standard deviation over mean of the gaps, for gamma and weibull.
    n : int
        Number of gaps.
    streams : Streams
        Sources of the draws; the first gaps are the same for any `n`.

    Returns
    -------
    float64 (streams, n)
        Gaps in units of their mean.
    """
    if process == "constant":
        return np.ones((len(streams.seeds), n))
    if process == "poisson":
        return fill(streams, n, "standard_exponential")
    assert cv is not None, "the configuration requires cv for gamma and weibull"
    if process == "gamma":
        shape = cv**-2
        return fill(streams, n, "standard_gamma", shape) / shape
    shape = weibull_shape(cv)
    exponential = fill(streams, n, "standard_exponential")
    return exponential ** (1 / shape) / math.gamma(1 + 1 / shape)


@cache
def weibull_shape(cv: float) -> float:
    """Return the shape k of the Weibull distribution with coefficient of variation `cv`.

    Solves ``1 + cv**2 == gamma(1 + 2/k) / gamma(1 + 1/k)**2``, whose right side falls with k, by
    bisection of log k.
    """
    target = math.log1p(cv * cv)
    low, high = math.log(0.02), math.log(1e6)
    for _ in range(100):
        middle = (low + high) / 2
        inverse = math.exp(-middle)
        if math.lgamma(1 + 2 * inverse) - 2 * math.lgamma(1 + inverse) > target:
            low = middle
        else:
            high = middle
    return math.exp(low)
