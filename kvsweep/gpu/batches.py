"""Which batches are timed: a ladder of sizes to fit to, drawn ones to judge by, and their order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from kvsweep.errors import InputError
from kvsweep.limits import MAX_BATCHED_TOKENS, MAX_SEQS, MAX_TOKENS

SHORTEST = 16
"""Tokens of the shortest chunk of a prompt, and of the shortest context of a decoding request."""

SHORTEST_REQUEST = 128
"""Tokens that the longest request has at least, for lengths to be told apart."""


class Batch(NamedTuple):
    """What one step computes.

    Attributes
    ----------
    prefill : int
        Tokens of a chunk of one prompt; 0: none.
    prefill_context : int
        Tokens of that prompt before the chunk.
    decode : int
        Decoding requests, a token each.
    decode_context : int
        Tokens of each of them before that token.
    """

    prefill: int
    prefill_context: int
    decode: int
    decode_context: int

    @property
    def tokens(self) -> int:
        """Tokens of the step."""
        return self.prefill + self.decode

    @property
    def sampled(self) -> int:
        """Tokens whose successors are computed: of decoding requests, and the last of the chunk."""
        return self.decode + (self.prefill > 0)

    @property
    def held(self) -> int:
        """Tokens in the KV cache after the step."""
        prompt = self.prefill + self.prefill_context if self.prefill else 0
        return prompt + self.decode * (self.decode_context + 1)

    @property
    def sums(self) -> tuple[float, float, float, float, float]:
        """What `kvsweep.config.latency.Latency.beta` weights."""
        before = self.prefill * self.prefill_context + self.prefill * (self.prefill - 1) / 2
        return 1.0, self.prefill, self.decode, self.decode * self.decode_context, before

    def inside(self, window: int) -> tuple[int, int]:
        """Return the tokens inside a window before each decoded token, and before each of a chunk.

        `kvsweep.config.latency.Latency.window` weights these sums.
        """
        reach = window - 1
        chunk = range(self.prefill_context, self.prefill_context + self.prefill)
        short = sum(range(chunk.start, min(chunk.stop, reach)))
        long = reach * len(range(max(chunk.start, reach), chunk.stop))
        return self.decode * min(self.decode_context, reach), short + long


@dataclass(frozen=True)
class Ranges:
    """How large batches get.

    Attributes
    ----------
    max_num_batched_tokens, max_num_seqs, max_model_len : int
        vLLM's settings: tokens and requests of a step, tokens of a request.
    pool_tokens : int
        Tokens that the KV cache holds.
    """

    max_num_batched_tokens: int
    max_num_seqs: int
    max_model_len: int
    pool_tokens: int

    def check(self) -> None:
        """Refuse ranges in which nothing can be told apart.

        Raises
        ------
        InputError
            Naming the option.
        """
        for option, value, least, most in (
            ("max-num-batched-tokens", self.max_num_batched_tokens, 64, MAX_BATCHED_TOKENS),
            ("max-num-seqs", self.max_num_seqs, 2, MAX_SEQS),
            ("max-model-len", self.max_model_len, SHORTEST_REQUEST, MAX_TOKENS),
            ("pool-tokens", self.pool_tokens, self.max_model_len, MAX_BATCHED_TOKENS),
        ):
            if not least <= value <= most:
                raise InputError(f"--{option}: {value:,}; allowed: {least:,} to {most:,}")

    def has(self, batch: Batch) -> bool:
        """Return whether a server with these settings can have such a step."""
        return (
            0 < batch.tokens <= self.max_num_batched_tokens
            and batch.decode <= self.max_num_seqs
            and batch.prefill + batch.prefill_context <= self.max_model_len
            and (not batch.decode or 0 < batch.decode_context < self.max_model_len)
            and batch.held <= self.pool_tokens
        )


@dataclass(frozen=True)
class Plan:
    """What is timed.

    Attributes
    ----------
    ranges : Ranges
        How large batches get.
    fitted, held_out : tuple of Batch
        To fit to, and to judge by.
    trials : int
        Times that each is timed.
    seed : int
        Of what is drawn, and of the order.
    """

    ranges: Ranges
    fitted: tuple[Batch, ...]
    held_out: tuple[Batch, ...]
    trials: int
    seed: int

    @property
    def batches(self) -> tuple[Batch, ...]:
        """All of them: those to fit to first."""
        return self.fitted + self.held_out

    def order(self, parts: int) -> Iterator[tuple[int, int, int]]:
        """Yield part, batch and trial of all timings.

        Trial by trial, each in a random order of its own: so all batches meet the same drift of the
        machine, and a run that is interrupted has about as many trials of each.
        """
        rng = random.Random(self.seed)
        for trial in range(self.trials):
            cells = list(product(range(parts), range(len(self.batches))))
            cells.sort(key=lambda _: rng.random())
            yield from ((part, batch, trial) for part, batch in cells)


def plan(ranges: Ranges, *, trials: int, rungs: int, seed: int) -> Plan:
    """Lay out batches over ranges.

    Parameters
    ----------
    ranges : Ranges
        How large batches get.
    trials : int
        Times that each is timed.
    rungs : int
        Sizes of chunks and of batches to fit to, from the least to the most.
    seed : int
        Of what is drawn, and of the order.

    Returns
    -------
    Plan
        To fit to: chunks and batches of `rungs` sizes with short, middle and long contexts, and
        some of both at once. To judge by: two fifths as many, drawn evenly over the logarithms.
    """
    ranges.check()
    chunks = _ladder(SHORTEST, min(ranges.max_num_batched_tokens, ranges.max_model_len), rungs)
    counts = _ladder(1, ranges.max_num_seqs, rungs)
    contexts = _ladder(SHORTEST, ranges.max_model_len - 1, 3)
    laid = [Batch(size, before, 0, 0) for size, before in product(chunks, [0, *contexts[1:]])]
    laid += [Batch(0, 0, count, before) for count, before in product(counts, contexts)]
    laid += [_fitting(batch, ranges) for batch in laid]
    laid += [
        Batch(chunk, 0, count, contexts[1]) for chunk, count in product(chunks[1::2], counts[1::2])
    ]
    fitted = tuple(dict.fromkeys(batch for batch in laid if ranges.has(batch)))
    return Plan(ranges, fitted, _drawn(ranges, fitted, seed), trials, seed)


def _ladder(least: int, most: int, rungs: int) -> list[int]:
    """Return whole numbers from `least` to `most`, evenly over their logarithms."""
    steps = [least * (most / least) ** (i / (rungs - 1)) for i in range(rungs)]
    return list(dict.fromkeys(round(step) for step in steps))


def _fitting(batch: Batch, ranges: Ranges) -> Batch:
    """Return a batch with as much of its context as there is room for."""
    chunk, count = batch.prefill, batch.decode
    before = min(batch.prefill_context, ranges.max_model_len - chunk, ranges.pool_tokens - chunk)
    room = ranges.pool_tokens // count - 1 if count else 0
    return Batch(chunk, before, count, min(batch.decode_context, room))


def _drawn(ranges: Ranges, fitted: Sequence[Batch], seed: int) -> tuple[Batch, ...]:
    """Draw batches that are not among those to fit to: two of chunks, two of requests, one both."""
    rng = random.Random(f"{seed} held out")

    def drawn(least: int, most: int) -> int:
        size: float = least * (max(most, least) / least) ** rng.random()
        return round(size)

    longest = min(ranges.max_num_batched_tokens, ranges.max_model_len)
    found: dict[Batch, None] = {}
    while len(found) < max(5, 2 * len(fitted) // 5):
        kind = len(found) % 5
        chunk = drawn(SHORTEST, longest) if kind != 2 and kind != 4 else 0
        count = drawn(1, ranges.max_num_seqs) if kind in (2, 3, 4) else 0
        batch = Batch(
            chunk,
            drawn(SHORTEST, ranges.max_model_len) if kind == 1 else 0,
            count,
            drawn(SHORTEST, ranges.max_model_len) if count else 0,
        )
        if ranges.has(batch) and batch not in fitted:
            found[batch] = None
    return tuple(found)
