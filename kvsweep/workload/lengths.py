"""Lengths of prompts and outputs, drawn from the distributions of the configuration."""

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from kvsweep.config.lengths import (
    Constant,
    Empirical,
    Exponential,
    Gaussian,
    Lengths,
    ParetoLognormal,
    Uniform,
)
from kvsweep.errors import InputError
from kvsweep.limits import MAX_TOKENS


@dataclass(frozen=True)
class Pairs:
    """Lengths of the requests of a trace, prompt and output of one together.

    Attributes
    ----------
    prompt, output : int64 (m,)
        Tokens.
    """

    prompt: NDArray[np.int64]
    output: NDArray[np.int64]

    def draw(self, n: int, rng: Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw prompts and outputs of `n` requests, each pair as likely, with replacement."""
        chosen = (rng.random(n) * len(self.prompt)).astype(np.int64)
        return self.prompt[chosen], self.output[chosen]


def draw_lengths(lengths: Lengths, n: int, rng: Generator, where: str) -> NDArray[np.int64]:
    """Draw `n` lengths: clamped to the distribution's limits, then rounded, at least 1.

    Parameters
    ----------
    lengths : Lengths
        A distribution.
    n : int
        How many.
    rng : Generator
        Source of the draws; the first lengths are the same for any `n`.
    where : str
        The configuration key, for the error message.

    Returns
    -------
    int64 (n,)
        Tokens.

    Raises
    ------
    InputError
        If a length is more than `MAX_TOKENS`.
    """
    tokens = _draw(lengths, n, rng)
    if lengths.min is not None or lengths.max is not None:
        tokens = np.clip(tokens, lengths.min, lengths.max)
    longest = tokens.max(initial=0.0)
    if not longest <= MAX_TOKENS:
        raise InputError(
            f"{where}: drew {longest:.3g} tokens, at most {MAX_TOKENS:,} are possible: give a max"
        )
    return np.maximum(np.rint(tokens), 1).astype(np.int64)


def _draw(lengths: Lengths, n: int, rng: Generator) -> NDArray[np.float64]:
    match lengths:
        case Gaussian():
            return lengths.mean + lengths.std * rng.standard_normal(n)
        case Constant():
            return np.full(n, float(lengths.value))
        case Uniform():
            return lengths.min + np.floor(rng.random(n) * (lengths.max - lengths.min + 1))
        case Exponential():
            return lengths.mean * rng.standard_exponential(n)
        case ParetoLognormal():
            return _pareto_lognormal(lengths, n, rng)
        case Empirical():
            return _empirical(lengths, n, rng)


def _pareto_lognormal(lengths: ParetoLognormal, n: int, rng: Generator) -> NDArray[np.float64]:
    """Draw from the mixture; one stream for each part, so that a draw takes one of each."""
    choice, tail, body = rng.spawn(3)
    # log(Pareto / xm) is exponential with mean 1 / alpha.
    with np.errstate(over="ignore"):
        pareto = lengths.xm * np.exp(tail.standard_exponential(n) / lengths.alpha)
        lognormal = np.exp(lengths.mu + lengths.sigma * body.standard_normal(n))
    return np.where(choice.random(n) < lengths.mix_weight, pareto, lognormal)


def _empirical(lengths: Empirical, n: int, rng: Generator) -> NDArray[np.float64]:
    values = np.array(lengths.values, np.float64)
    weights = np.array(lengths.weights) if lengths.weights else np.ones(len(values))
    cumulative = np.cumsum(weights)
    # side="right" never picks a value of weight 0.
    drawn: NDArray[np.float64] = values[
        np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right")
    ]
    return drawn
