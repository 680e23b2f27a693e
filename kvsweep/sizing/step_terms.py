"""Coefficients of a step that is computed, in the form of `kvsweep.config.latency.Latency`."""

from __future__ import annotations

from typing import NamedTuple

Five = tuple[float, float, float, float, float]


class StepTerms(NamedTuple):
    """Coefficients of a step, as `kvsweep.config.latency.Latency` has them.

    Attributes
    ----------
    beta, memory : tuple of 5 float
        Of computing and of moving data, microseconds.
    experts : tuple of 0 or 2 float
        Of a mixture of experts: microseconds of reading all of them, and a token's share of them.
    """

    beta: Five
    memory: Five
    experts: tuple[float, ...] = ()
