"""Orders in which to try cells of a grid, so that the first few stand for all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count

import numpy as np


def scattered(sizes: Sequence[int]) -> Iterator[int]:
    """Yield positions in a grid without end, any number in a row as evenly spread as can be.

    Halton's sequence: chosen at random, a handful often lies in one corner.
    """
    for number in count(1):
        place = 0
        for size, base in zip(sizes, _primes(len(sizes)), strict=True):
            place = place * size + int(size * _mirrored(number, base))
        yield place


def in_rows(sizes: Sequence[int]) -> Iterator[int]:
    """Yield positions in a grid without end, row by row of its last axis.

    Pools of one row are run once for all that are large enough, which single cells do not show.
    Rows are in a random order that is always the same.
    """
    *others, row = sizes
    rng = np.random.default_rng(0)
    while True:
        for start in rng.permutation(math.prod(others)):
            yield from range(int(start) * row, int(start + 1) * row)


def _primes(number: int) -> list[int]:
    found: list[int] = []
    for candidate in count(2):
        if len(found) == number:
            break
        if all(candidate % prime for prime in found):
            found.append(candidate)
    return found


def _mirrored(number: int, base: int) -> float:
    """Return the digits of a number in a base, mirrored at the point: 6 = 0b110 is 0.011 in 2."""
    share, place = 0.0, 1.0
    while number:
        number, digit = divmod(number, base)
        place /= base
        share += digit * place
    return share
