"""How many drafts each verification accepts: given by a trace, or drawn beforehand.

What is drawn depends on the seed, the request's place in its list and the number of the
verification only. So lists of different acceptance, or of more drafts, are paired: who accepts more
in one verification accepts no fewer in any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.random import SeedSequence
from numpy.typing import NDArray

from kvsweep.config.speculative import Speculative
from kvsweep.config.workload import DEFAULT_ENTROPY
from kvsweep.errors import InputError
from kvsweep.limits import MAX_KEYS
from kvsweep.workload.requests import Accepted, Requests

ACCEPTANCE = 5
"""Quantity of the random stream, after those of `draws` and the delays of `bending`."""

# Steele, Lea and Flood's SplitMix64: a counter, and a mixture of its bits.
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_SHIFTS = tuple(np.uint64(shift) for shift in (30, 27, 31))
_BITS = np.uint64(11)  # all but the 53 of a double


def with_acceptance(
    requests: Requests,
    how: Speculative | None,
    seed: int,
    entropy: int = DEFAULT_ENTROPY,
    where: str = "the request list",
) -> Requests:
    """Return the requests with what their verifications accept.

    Parameters
    ----------
    requests : Requests
        From a workload or a trace.
    how : Speculative or None
        None, or no tokens: nothing is drafted, and the requests are returned as they are.
    seed, entropy : int
        Of the draws.
    where : str
        Where the requests are from, for messages.

    Raises
    ------
    InputError
        If neither the requests nor the settings say what is accepted, or both do.
    """
    if how is None or how.tokens == 0:
        return requests
    if requests.accepted is not None:
        if how.acceptance is not None:
            raise InputError(
                f"engine.speculative.acceptance: has no effect: requests of {where} have their own "
                "'accepted'"
            )
        return requests
    if how.acceptance is None:
        raise InputError(
            f"engine.speculative.acceptance: missing; the requests of {where} have no 'accepted'"
        )
    return replace(requests, accepted=_drawn(requests.output_tokens, how, seed, entropy))


def _drawn(outputs: NDArray[np.int64], how: Speculative, seed: int, entropy: int) -> Accepted:
    """Draw for as many verifications as a request has output tokens: each gives at least one."""
    offsets = np.zeros(len(outputs) + 1, np.int64)
    np.cumsum(outputs, out=offsets[1:])
    if offsets[-1] > MAX_KEYS:
        raise InputError(
            f"engine.speculative: the request list has {offsets[-1]:,} output tokens, at most "
            f"{MAX_KEYS:,} with drafts: give fewer requests"
        )
    request = np.repeat(np.arange(len(outputs)), outputs)
    uniform = uniforms(request, np.arange(offsets[-1]) - offsets[request], seed, entropy)
    return Accepted(offsets, _counts(uniform, how.reached()))


def _counts(uniform: NDArray[np.float64], reached: Sequence[float]) -> NDArray[np.uint8]:
    """Return how many drafts each verification accepts: those whose share is above its number."""
    counts = np.zeros(len(uniform), np.uint8)
    for share in reached:
        counts += uniform < share
    return counts


def uniforms(
    request: NDArray[np.int64], number: NDArray[np.int64], seed: int, entropy: int
) -> NDArray[np.float64]:
    """Return a number from 0 to below 1 for each verification of each request.

    Parameters
    ----------
    request, number : int64 (n,)
        Place of the request in its list, and of the verification in the request.
    seed, entropy : int
        They decide the stream.
    """
    stream = SeedSequence(entropy, spawn_key=(seed, 0, ACCEPTANCE)).generate_state(2, np.uint64)
    own = _mixed(stream[0] + request.astype(np.uint64) * _GOLDEN)
    mixed = _mixed((own ^ stream[1]) + (number.astype(np.uint64) + np.uint64(1)) * _GOLDEN)
    drawn: NDArray[np.float64] = (mixed >> _BITS).astype(np.float64)
    return drawn * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> _SHIFTS[0])) * _FIRST
    state = (state ^ (state >> _SHIFTS[1])) * _SECOND
    return state ^ (state >> _SHIFTS[2])
