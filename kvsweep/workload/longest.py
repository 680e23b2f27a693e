"""How long drawn requests can be, from the parameters of their workload alone."""

from __future__ import annotations

import math
from typing import Any

from kvsweep.config.lengths import (
    Constant,
    Empirical,
    Exponential,
    Gaussian,
    Lengths,
    ParetoLognormal,
    Uniform,
)
from kvsweep.config.workload import Workload
from kvsweep.limits import MAX_RATE, MAX_TIME_US, MAX_TOKENS
from kvsweep.workload.draws import SINGLE, client_of, session_count, sessions_of

# No draw of NumPy's is larger: it makes them of 53 random bits, by the ziggurat's tails
# (exponential: 7.7 + 53 log 2; normal: 3.7 + 53 log 2 / 3.7).
MOST_EXPONENTIAL = 45.0
MOST_NORMAL = 14.0


def longest_tokens(workload: Workload) -> tuple[int, int] | None:
    """Return what no request of a workload exceeds, whatever the seed.

    Returns
    -------
    (int, int) or None
        Tokens of a request, context and output together, and of its prompt. None if only drawing
        tells: if lengths are a trace's, or if lengths or times may be beyond their limits.
    """
    if workload.lengths_from is not None:
        return None
    bounds = [_longest_of_client(workload, i) for i in range(max(1, len(workload.clients)))]
    known = [bound for bound in bounds if bound is not None]
    if len(known) < len(bounds):
        return None
    return max(total for total, _ in known), max(prompt for _, prompt in known)


def _longest_of_client(workload: Workload, index: int) -> tuple[int, int] | None:
    client = client_of(workload, index)
    own: Any = client or workload
    sessions = sessions_of(workload, index) or SINGLE
    new = longest_length(own.prompt or workload.prompt)
    output = longest_length(own.output or workload.output)
    if not max(new, output) <= MAX_TOKENS:
        return None
    pause = 1e6 * sessions.think_time_s
    pause *= MOST_EXPONENTIAL if sessions.think_time == "exponential" else 1.0
    pause += output if sessions.arrivals == "fixed" else 0.0
    last = _last_start_us(workload, index) + (sessions.rounds - 1) * pause
    if not last <= MAX_TIME_US:
        return None
    earlier = sessions.rounds - 1 if sessions.context == "accumulate" else 0
    prefix = client.prefix_len if client and client.prefix_group else 0
    prompt = prefix + earlier * (new + output) + new
    return math.ceil(prompt + output), math.ceil(prompt)


def _last_start_us(workload: Workload, index: int) -> float:
    """Bound the arrival of the last session or single request of a client, microseconds."""
    client = client_of(workload, index)
    process = (client.arrivals if client else None) or workload.arrivals
    gap = {"constant": 1.0, "poisson": MOST_EXPONENTIAL}.get(process, math.inf)
    shares = [other.rate_fraction for other in workload.clients] or [1.0]
    rate = (workload.rate or MAX_RATE) * shares[index] / sum(shares)
    return session_count(workload, sessions_of(workload, index) or SINGLE) * gap * (1e6 / rate)


def longest_length(lengths: Lengths) -> float:
    """Bound the tokens that a distribution draws."""
    if lengths.max is not None:
        return lengths.max
    return max(1.0, lengths.min or 0.0, _largest_draw(lengths) + 1)  # rounded at the end


def _largest_draw(lengths: Lengths) -> float:
    match lengths:
        case Gaussian():
            return lengths.mean + MOST_NORMAL * lengths.std
        case Constant():
            return lengths.value
        case Uniform():
            return lengths.max
        case Exponential():
            return MOST_EXPONENTIAL * lengths.mean
        case ParetoLognormal():
            exponent = MOST_EXPONENTIAL / lengths.alpha
            tail = lengths.xm * math.exp(exponent) if exponent < 700 else math.inf
            return max(tail, math.exp(lengths.mu + MOST_NORMAL * lengths.sigma))
        case Empirical():
            return max(lengths.values)
