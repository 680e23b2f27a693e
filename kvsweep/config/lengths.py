"""Distributions of prompt and output lengths, in tokens."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kvsweep.config.base import (
    KeyProblem,
    Positive,
    Real,
    Section,
    Share,
    Tokens,
    TokensReal,
    Weight,
    not_below,
)
from kvsweep.limits import (
    MAX_LOG_TOKENS,
    MAX_TAIL,
    MAX_TOKENS,
    MAX_VALUES,
    MIN_TAIL,
    MIN_WEIGHT,
)

PositiveTokens = Annotated[Positive, Field(le=MAX_TOKENS)]
TailShape = Annotated[Positive, Field(le=MAX_TAIL), not_below(MIN_TAIL)]
LogTokens = Annotated[Real, Field(le=MAX_LOG_TOKENS)]


class _Bounded(Section):
    """Limits that any distribution takes; a draw beyond a limit becomes the limit.

    Attributes
    ----------
    min, max : int or None
        Tokens; a length is at least 1 in any case.
    """

    min: Tokens | None = None
    max: Tokens | None = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise KeyProblem(("min",), f"{self.min} is more than max, {self.max}")
        return self


class Gaussian(_Bounded):
    """Normal, clamped to [min, max], then rounded."""

    dist: Literal["gaussian"]
    mean: TokensReal
    std: TokensReal


class Constant(_Bounded):
    """Always `value`."""

    dist: Literal["constant"]
    value: Tokens


class Uniform(_Bounded):
    """An integer from `min` to `max`, both included, each as likely; the mean is halfway.

    ``vllm bench serve`` draws so: a mean and ``--random-range-ratio r`` are mean * (1 - r), rounded
    down, to mean * (1 + r), rounded up.
    """

    dist: Literal["uniform"]
    min: Tokens
    max: Tokens


class Exponential(_Bounded):
    """Exponential with mean `mean`, rounded."""

    dist: Literal["exponential"]
    mean: PositiveTokens


class ParetoLognormal(_Bounded):
    """With probability `mix_weight` Pareto(alpha, xm), else lognormal(mu, sigma); rounded.

    Attributes
    ----------
    alpha, xm : float
        Shape and smallest value (tokens) of the Pareto tail.
    mu, sigma : float
        Mean and standard deviation of the logarithm of the lognormal body.
    mix_weight : float
        Share of the Pareto tail, 0 to 1.
    """

    dist: Literal["pareto-lognormal"]
    alpha: TailShape
    xm: PositiveTokens
    mu: LogTokens
    sigma: LogTokens
    mix_weight: Share


class Empirical(_Bounded):
    """One of `values`, with probabilities proportional to `weights` (equal if absent)."""

    dist: Literal["empirical"]
    values: Annotated[tuple[Tokens, ...], Field(min_length=1, max_length=MAX_VALUES)]
    weights: Annotated[tuple[Weight, ...], Field(max_length=MAX_VALUES)] | None = None

    @model_validator(mode="after")
    def _matching(self) -> Self:
        if self.weights is None:
            return self
        if len(self.weights) != len(self.values):
            raise KeyProblem(
                ("weights",), f"{len(self.weights)} weights for {len(self.values)} values"
            )
        if max(self.weights) < MIN_WEIGHT:
            raise KeyProblem(("weights",), f"at least one must be more than 0, by {MIN_WEIGHT:g}")
        return self


Lengths = Annotated[
    Gaussian | Constant | Uniform | Exponential | ParetoLognormal | Empirical,
    Field(discriminator="dist"),
]
"""Any of the distributions; `dist` says which."""
