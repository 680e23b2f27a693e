"""Coefficients of step times, as presets and the latency section have them, in one form."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from kvsweep.config.base import Coefficient, KeyProblem

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


def told_experts(dumped: dict[str, Any]) -> dict[str, Any]:
    """Leave out experts that there are not, which stores of before this key do not tell."""
    if not dumped.get("experts", True):
        del dumped["experts"]
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
