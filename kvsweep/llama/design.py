"""What is measured: sizes, conditions, trials, and their order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from kvsweep.errors import InputError

HIT, MISS = "hit", "miss"
CONDITIONS = (HIT, MISS)

WARMUP_TOKENS = 6
"""Tokens generated after [A, B], which fills the cache."""

OUTPUT_TOKENS = 50
"""Tokens of the generation whose throughput is measured."""


class Size(NamedTuple):
    """Tokens of context A, which is removable, and of context B, which stays."""

    a: int
    b: int

    @property
    def label(self) -> str:
        """As on the command line: ``512:256``."""
        return f"{self.a}:{self.b}"


class Cell(NamedTuple):
    """Indices of one trial: which size, which condition, which repetition."""

    size: int
    condition: int
    trial: int


@dataclass(frozen=True)
class Design:
    """An experiment.

    Attributes
    ----------
    sizes : tuple of Size
    trials : int
        Repetitions of each size and condition.
    query : int
        Tokens of the query Q.
    pause_s : float
        Seconds of rest before each timed part.
    seed : int
        Of prompts and order.
    output : int
        Tokens of the generation whose throughput is measured.
    """

    sizes: tuple[Size, ...]
    trials: int = 10
    query: int = 32
    pause_s: float = 0.1
    seed: int = 0
    output: int = OUTPUT_TOKENS

    @property
    def context(self) -> int:
        """Tokens of the longest prompt and its output."""
        return max(size.a + size.b for size in self.sizes) + self.query + self.output

    @property
    def count(self) -> int:
        """How many trials there are in all."""
        return len(self.sizes) * len(CONDITIONS) * self.trials

    def order(self) -> Iterator[Cell]:
        """Yield all trials: repetition by repetition, each in a random order of its own.

        So sizes and conditions meet the same drift of the machine, and a run that is interrupted
        has about as many trials of each.
        """
        rng = random.Random(self.seed)
        for trial in range(self.trials):
            cells = list(product(range(len(self.sizes)), range(len(CONDITIONS))))
            cells.sort(key=lambda _: rng.random())
            yield from (Cell(size, condition, trial) for size, condition in cells)


def parse_sizes(text: str) -> tuple[Size, ...]:
    """Read ``512:256,384:384``.

    Raises
    ------
    InputError
        If a part is no pair of positive integers, or occurs twice.
    """
    sizes = []
    for part in text.split(","):
        numbers = part.split(":")
        if len(numbers) != 2 or not all(n.strip().isdecimal() and int(n) for n in numbers):
            raise InputError(f"--sizes: {part!r} is not A:B, two numbers of tokens, as in 512:256")
        size = Size(*map(int, numbers))
        if size in sizes:
            raise InputError(f"--sizes: {size.label} occurs twice")
        sizes.append(size)
    return tuple(sizes)
