"""Whose pull from prefill to decode fails: given by a trace, or drawn beforehand.

What is drawn depends on the seed and the request's place in its list only. So lists of different
rates are paired: whoever fails at one rate fails at any higher one.
"""

from __future__ import annotations

from dataclasses import replace

from numpy.random import Generator, Philox, SeedSequence

from kvsweep.config.workload import DEFAULT_ENTROPY
from kvsweep.errors import InputError
from kvsweep.workload.requests import Requests

FAILURES = 6
"""Quantity of the random stream, after that of `acceptance`."""


def with_failures(
    requests: Requests,
    rate: float,
    seed: int,
    entropy: int = DEFAULT_ENTROPY,
    where: str = "the request list",
) -> Requests:
    """Return the requests with whose pull fails.

    Parameters
    ----------
    requests : Requests
        From a workload or a trace.
    rate : float
        Probability of each; 0: as the requests say themselves, if they do.
    seed, entropy : int
        Of the draws.
    where : str
        Where the requests are from, for messages.

    Raises
    ------
    InputError
        If both the requests and the rate say whose pull fails.
    """
    if rate == 0:
        return requests
    if requests.pull_fails is not None:
        raise InputError(
            f"cluster.kv_load_failure_rate: has no effect: requests of {where} have their own "
            "'pull_fails'; leave one of the two out"
        )
    stream = Generator(Philox(SeedSequence(entropy, spawn_key=(seed, 0, FAILURES))))
    return replace(requests, pull_fails=stream.random(len(requests)) < rate)
