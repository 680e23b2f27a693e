"""Lengths of prompts and outputs, drawn from the distributions of the configuration."""

from dataclasses import dataclass

import numpy as np
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
from kvsweep.workload.streams import Streams, fill


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

    def draw(self, n: int, streams: Streams) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Draw `n` prompts and outputs of each stream, each pair as likely, with replacement."""
        chosen = (fill(streams, n, "random") * len(self.prompt)).astype(np.int64)
        return self.prompt[chosen], self.output[chosen]


def draw_lengths(lengths: Lengths, n: int, streams: Streams, where: str) -> NDArray[np.int64]:
    """Draw `n` lengths of each stream: clamped to the distribution's limits, rounded, at least 1.

    Parameters
    ----------
    lengths : Lengths
        A distribution.
    n : int
        How many.
    streams : Streams
        Sources of the draws; the first lengths are the same for any `n`.
    where : str
        The configuration key, for the error message.

    Returns
    -------
    int64 (streams, n)
        Tokens.

    Raises
    ------
    InputError
        If a length is more than `MAX_TOKENS`.
    """
    tokens = _draw(lengths, n, streams)
    # In place, and rounded first, which whole limits allow: copies took three times as long.
    np.rint(tokens, out=tokens)
    np.maximum(tokens, lengths.min or 1, out=tokens)
    if lengths.max is not None:
        np.minimum(tokens, lengths.max, out=tokens)
    elif not (longest := tokens.max(initial=0.0)) <= MAX_TOKENS:
        raise InputError(
            f"{where}: drew {longest:.3g} tokens, at most {MAX_TOKENS:,} are possible: give a max"
        )
    return tokens.astype(np.int64)


def _draw(lengths: Lengths, n: int, streams: Streams) -> NDArray[np.float64]:
    match lengths:
        case Gaussian():
            drawn = fill(streams, n, "standard_normal")
            drawn *= lengths.std
            drawn += lengths.mean
            return drawn
        case Constant():
            return np.full((len(streams.seeds), n), float(lengths.value))
        case Uniform():
            drawn = fill(streams, n, "random")
            return lengths.min + np.floor(drawn * (lengths.max - lengths.min + 1))
        case Exponential():
            return lengths.mean * fill(streams, n, "standard_exponential")
        case ParetoLognormal():
            return _pareto_lognormal(lengths, n, streams)
        case Empirical():
            return _empirical(lengths, n, streams)


def _pareto_lognormal(lengths: ParetoLognormal, n: int, streams: Streams) -> NDArray[np.float64]:
    """Draw from the mixture; one stream for each part, so that a draw takes one of each."""
    choice, tail, body = map(streams.of_part, range(3))
    is_tail = fill(choice, n, "random") < lengths.mix_weight
    # log(Pareto / xm) is exponential with mean 1 / alpha.
    log_pareto = fill(tail, n, "standard_exponential") / lengths.alpha
    log_body = lengths.mu + lengths.sigma * fill(body, n, "standard_normal")
    with np.errstate(over="ignore"):
        return np.where(is_tail, lengths.xm * np.exp(log_pareto), np.exp(log_body))


def _empirical(lengths: Empirical, n: int, streams: Streams) -> NDArray[np.float64]:
    values = np.array(lengths.values, np.float64)
    weights = np.array(lengths.weights) if lengths.weights else np.ones(len(values))
    cumulative = np.cumsum(weights)
    # side="right" never picks a value of weight 0.
    drawn: NDArray[np.float64] = values[
        np.searchsorted(cumulative, fill(streams, n, "random") * cumulative[-1], side="right")
    ]
    return drawn
