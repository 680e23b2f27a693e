"""Distributions of prompt and output lengths, in tokens."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from kvsweep.config.base import (
    Key,
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

_DIST = Key("1", "distribution of the lengths")


class _Bounded(Section):
    """Limits that any distribution takes; a draw beyond a limit becomes the limit.

    Attributes
    ----------
    min, max : int or None
        Tokens; a length is at least 1 in any case.
    """

    min: Annotated[Tokens | None, Key("token", "smallest length")] = None
    max: Annotated[Tokens | None, Key("token", "largest length")] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min is not None and self.max is not None and self.min > self.max:
            raise KeyProblem(("min",), f"{self.min} is more than max, {self.max}")
        return self


class Gaussian(_Bounded):
    """Normal, clamped to [min, max], then rounded."""

    dist: Annotated[Literal["gaussian"], _DIST]
    mean: Annotated[TokensReal, Key("token", "mean length")]
    std: Annotated[TokensReal, Key("token", "standard deviation of the length")]


class Constant(_Bounded):
    """Always `value`."""

    dist: Annotated[Literal["constant"], _DIST]
    value: Annotated[Tokens, Key("token", "length")]


class Uniform(_Bounded):
    """An integer from `min` to `max`, both included, each as likely; the mean is halfway.

    ``vllm bench serve`` draws so: a mean and ``--random-range-ratio r`` are mean * (1 - r), rounded
    down, to mean * (1 + r), rounded up.
    """

    dist: Annotated[Literal["uniform"], _DIST]
    min: Annotated[Tokens, Key("token", "smallest length")]
    max: Annotated[Tokens, Key("token", "largest length")]


class Exponential(_Bounded):
    """Exponential with mean `mean`, rounded."""

    dist: Annotated[Literal["exponential"], _DIST]
    mean: Annotated[PositiveTokens, Key("token", "mean length")]


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

    dist: Annotated[Literal["pareto-lognormal"], _DIST]
    alpha: Annotated[TailShape, Key("1", "shape of the Pareto tail of the length")]
    xm: Annotated[PositiveTokens, Key("token", "smallest length in the Pareto tail")]
    mu: Annotated[LogTokens, Key("1", "mean of the logarithm of the length")]
    sigma: Annotated[LogTokens, Key("1", "standard deviation of the logarithm of the length")]
    mix_weight: Annotated[Share, Key("1", "share of lengths in the Pareto tail")]


class Empirical(_Bounded):
    """One of `values`, with probabilities proportional to `weights` (equal if absent)."""

    dist: Annotated[Literal["empirical"], _DIST]
    values: Annotated[
        tuple[Tokens, ...],
        Field(min_length=1, max_length=MAX_VALUES),
        Key("token", "lengths that occur"),
    ]
    weights: Annotated[
        Annotated[tuple[Weight, ...], Field(max_length=MAX_VALUES)] | None,
        Key("1", "weights of the lengths"),
    ] = None

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
