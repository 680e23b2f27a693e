"""Coefficients of step times, as presets and the latency section have them, in one form."""

import math
from typing import Annotated, Any, Protocol

from pydantic import AfterValidator, Field

from kvsweep.config.base import Coefficient, KeyProblem
from kvsweep.limits import MAX_TOKENS

ALPHAS = 3
BETAS = 5
TOKEN_TERMS = 3
"""Of `BETAS`, the first: without those of contexts."""

Alphas = Annotated[tuple[Coefficient, ...], Field(max_length=ALPHAS)]
Betas = Annotated[tuple[Coefficient, ...], Field(max_length=BETAS)]


def _checked_experts(experts: tuple[float, ...]) -> tuple[float, ...]:
    if len(experts) not in (0, 2) or (experts and not 0.0 < experts[1] < 1.0):
        raise ValueError(
            "two numbers: microseconds of reading all experts, and the share of them, above 0 "
            "and below 1, that a token is sent to"
        )
    return experts if any(experts[:1]) else ()


Experts = Annotated[tuple[Coefficient, ...], AfterValidator(_checked_experts)]


def check_experts(experts: tuple[float, ...], memory: tuple[float, ...]) -> None:
    """Refuse experts without the sum to which reading them is added."""
    if experts and not memory:
        raise KeyProblem(
            ("experts",), "has no effect: added to memory, of which it needs more than zeros"
        )


def _checked_window(window: tuple[float, ...]) -> tuple[float, ...]:
    if not window:
        return window
    tokens, *times = window
    if not 2 <= tokens <= MAX_TOKENS or tokens != int(tokens) or not 1 <= len(times) <= 4:
        raise ValueError(
            f"the tokens of a sliding window, 2 to {MAX_TOKENS:,}, and two microseconds, or beside "
            "memory four, for each of those inside of it"
        )
    return padded(window, 5) if any(times) else ()


Window = Annotated[tuple[Coefficient, ...], AfterValidator(_checked_window)]


def check_window(window: tuple[float, ...], memory: tuple[float, ...]) -> None:
    """Refuse times of moving what is inside a window without the sum to which they are added."""
    if any(window[3:]) and not memory:
        raise KeyProblem(
            ("window",),
            "its last two numbers have no effect: added to memory, of which they need more than "
            "zeros",
        )


def told_if_given(dumped: dict[str, Any]) -> dict[str, Any]:
    """Leave out experts and a window that there are not: stores of before do not tell of them."""
    for key in ("experts", "window"):
        if not dumped.get(key, True):
            del dumped[key]
    return dumped


def padded_beta(beta: tuple[float, ...]) -> tuple[float, ...]:
    """Return coefficients of a step in one form; none stay none."""
    if not beta:
        return beta
    return padded(beta, BETAS if any(beta[TOKEN_TERMS:]) else TOKEN_TERMS)


def padded_memory(memory: tuple[float, ...]) -> tuple[float, ...]:
    """Return coefficients of moving data in one form."""
    return padded(memory, BETAS) if any(memory) else ()


def padded(values: tuple[float, ...], count: int) -> tuple[float, ...]:
    """Return `count` coefficients; those that are missing are 0."""
    return (*values, *(0.0,) * count)[:count]


class _Times(Protocol):
    """What has step times: the latency section, a pool."""

    @property
    def beta(self) -> tuple[float, ...]: ...
    @property
    def memory(self) -> tuple[float, ...]: ...
    @property
    def experts(self) -> tuple[float, ...]: ...
    @property
    def window(self) -> tuple[float, ...]: ...


def step_fields(times: _Times) -> dict[str, float]:
    """Return the fields of a LANE record, or of a POOL record, that step times decide."""
    tokens, *inside = times.window or (0.0,) * 5
    sums = {
        "beta": (*padded(times.beta, BETAS), *inside[:2]),
        "memory": (*padded(times.memory, BETAS), *inside[2:]),
    }
    fields = {f"{name}{term}": value for name in sums for term, value in enumerate(sums[name])}
    experts, share = times.experts or (0.0, 0.0)
    roofline = len(times.memory) > 0
    return fields | {
        "reach": max(tokens - 1, 0.0),
        "experts": experts,
        "missed": math.log1p(-share),
        "roofline": roofline,
        "context": roofline or any(times.beta[TOKEN_TERMS:]) or tokens > 0,
    }
