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
    window : tuple of 0 or 5 float
        Of a model with sliding windows: `Latency.window`.
    """

    beta: Five
    memory: Five
    experts: tuple[float, ...] = ()
    window: tuple[float, ...] = ()

    def longer(self, step_us: float, token_us: float) -> StepTerms:
        """Return the same with times added, of a step and of each of its tokens.

        What a token takes is added to both sums, as it waits for either.

        Examples
        --------
        >>> StepTerms((1.0, 0, 0, 0, 0), (9.0, 0, 0, 0, 0)).longer(5.0, 0.5)[:2]
        ((6.0, 0.5, 0.5, 0, 0), (9.0, 0.5, 0.5, 0, 0))
        """
        beta, memory = _plus(self.beta, step_us, token_us), _plus(self.memory, 0.0, token_us)
        return self._replace(beta=beta, memory=memory)


def _plus(sums: Five, once_us: float, token_us: float) -> Five:
    once, prefill, decode, context, before = sums
    return once + once_us, prefill + token_us, decode + token_us, context, before
