"""Coefficients of step times, as presets and the latency section have them, in one form."""

from typing import Annotated

from pydantic import Field

from kvsweep.config.base import Coefficient

ALPHAS = 3
BETAS = 5
TOKEN_TERMS = 3
"""Of `BETAS`, the first: without those of contexts."""

Alphas = Annotated[tuple[Coefficient, ...], Field(max_length=ALPHAS)]
Betas = Annotated[tuple[Coefficient, ...], Field(max_length=BETAS)]


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
