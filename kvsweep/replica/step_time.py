"""The reference's latency model: linear in tokens, computed in float64 and truncated."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Latency:
    """Coefficients ``alpha`` (queueing and output overhead) and ``beta`` (step time).

    Times are microseconds; ``alpha = (base, per prompt token, per output token)`` and
    ``beta = (base, per prefill token, per decode token)``.
    """

    alpha: tuple[float, float, float]
    beta: tuple[float, float, float]

    def queueing(self, prompt_tokens: int) -> int:
        """Return the time from arrival at an instance to the wait queue."""
        return int(self.alpha[0] + self.alpha[1] * prompt_tokens)

    def output(self) -> int:
        """Return the overhead per output token: added to metrics, never to the clock (D4)."""
        return int(self.alpha[2])

    def step(self, prefill: int, decode: int) -> int:
        """Return the duration of a step, without transfers."""
        return int(self.beta[0] + self.beta[1] * prefill + self.beta[2] * decode)
