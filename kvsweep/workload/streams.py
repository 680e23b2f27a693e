"""Random streams: one for each (seed, client, quantity), begun where NumPy's seeding begins it.

NumPy takes 13 us to make a seeded generator, three times the 200 lengths that are drawn from it.
So the keys of many streams are made at once, by NumPy's own published arithmetic (O'Neill's
``seed_seq``, which it promises not to change), and one generator is moved from stream to stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from threading import local
from typing import Any

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray

Words = NDArray[np.uint32]

TOGETHER = 256
"""Seeds whose keys are made at once (0.2 ms), as a sweep takes seeds in a row."""
QUANTITIES = 4
_SEEDS = 2**32  # a larger one is more than one word
_CLIENTS = 16  # of many, the keys of seeds that nobody asks for would cost more than they save
_LAST = 2**32 - 1

# NumPy's numpy/random/bit_generator.pyx.
_INIT_A, _MULT_A = 0x43B0D7E5, 0x931E8875
_INIT_B, _MULT_B = 0x8B51F9DD, 0x58F38DED
_MIX_L, _MIX_R = np.uint32(0xCA01F9DD), np.uint32(0x4973F715)
_SHIFT = np.uint32(16)
_POOL = 4


@dataclass(frozen=True)
class Streams:
    """Random streams of some seeds: Philox, seeded by ``SeedSequence(entropy, spawn_key=...)``.

    The spawn key is (seed, client, quantity), and `part` where a quantity takes several streams.
    """

    entropy: int
    seeds: Sequence[int]
    client: int
    quantity: int
    part: int | None = None

    def generators(self) -> Iterator[Generator]:
        """Yield a generator at the beginning of each stream in turn.

        A thread has one, and moves it: it is of a stream until the next is asked for, here or
        elsewhere.
        """
        mine = _mine.__dict__
        if not mine:
            mine["philox"] = Philox(0)
            mine["generator"] = Generator(mine["philox"])
            mine["state"] = _new_state()
        generator, philox, state = mine["generator"], mine["philox"], mine["state"]
        words = state["state"]
        for key in self._keys():
            words["key"] = key
            philox.state = state
            yield generator

    def of_part(self, part: int) -> Streams:
        """Return streams of their own, those of this number that ``Generator.spawn`` gives."""
        return replace(self, part=part)

    def _keys(self) -> Iterator[list[int]]:
        last, keys = -1, None
        for seed in self.seeds:
            row, place = divmod(seed, TOGETHER)
            if seed >= _SEEDS or self.client >= _CLIENTS:
                yield self._key(seed)
                continue
            if keys is None or row != last:
                last, keys = row, _keys(self.entropy, row, self.client, self.part)
            yield keys[place][self.quantity]

    def _key(self, seed: int) -> list[int]:
        path = [seed, self.client, self.quantity]
        path += [] if self.part is None else [self.part]
        alone: list[int] = (
            SeedSequence(self.entropy, spawn_key=path).generate_state(2, "u8").tolist()
        )
        return alone


def fill(streams: Streams, n: int, method: str, *arguments: float) -> NDArray[np.float64]:
    """Draw `n` numbers of each stream by a method of NumPy's Generator; (streams, n)."""
    drawn = np.empty((len(streams.seeds), n))
    for generator, row in zip(streams.generators(), drawn, strict=True):
        getattr(generator, method)(*arguments, out=row)
    return drawn


_mine: Any = local()


def _new_state() -> dict[str, Any]:
    """Return the state of a new generator but for its key; of tuples, which are set fastest."""
    none = (0, 0, 0, 0)
    return {
        "bit_generator": "Philox",
        "state": {"counter": none, "key": none[:2]},
        "buffer": none,
        "buffer_pos": len(none),
        "has_uint32": 0,
        "uinteger": 0,
    }


@lru_cache(maxsize=64)
def _keys(entropy: int, row: int, client: int, part: int | None) -> list[list[list[int]]]:
    """Return the keys of a client's streams for the seeds of a row.

    Returns
    -------
    list of int (TOGETHER, QUANTITIES, 2)
        ``generate_state(2, "u8")`` of their SeedSequences.
    """
    root = SeedSequence(entropy)
    shape = (TOGETHER, QUANTITIES)
    pool = [np.full(shape, word, np.uint32) for word in root.pool]
    words = max(_POOL, -(-entropy.bit_length() // 32))
    hashed = _POOL * words  # calls of the hash so far
    seeds = np.arange(TOGETHER * row, TOGETHER * (row + 1), dtype=np.uint32)[:, None]
    # Arrays, as numbers of one word would complain of overflow.
    path = [seeds, _word(client), np.arange(QUANTITIES, dtype=np.uint32)[None, :]]
    for word in path if part is None else [*path, _word(part)]:
        for i in range(_POOL):
            pool[i] = _mix(pool[i], _hash(word, _INIT_A, _MULT_A, hashed))
            hashed += 1
    state = [_hash(pool[i], _INIT_B, _MULT_B, i) for i in range(_POOL)]
    together = np.stack(state, axis=-1).astype("<u4")
    keys: list[list[list[int]]] = together.view("<u8").tolist()
    return keys


def _word(value: int) -> Words:
    return np.array([[value]], np.uint32)


def _hash(word: Words, first: int, factor: int, calls: int) -> Words:
    """Hash words as the call of this number does; each has another constant."""
    constant = first * pow(factor, calls, 2**32) & _LAST
    hashed: Words = (word ^ np.uint32(constant)) * np.uint32(constant * factor & _LAST)
    hashed ^= hashed >> _SHIFT
    return hashed


def _mix(state: Words, word: Words) -> Words:
    mixed: Words = state * _MIX_L - word * _MIX_R
    mixed ^= mixed >> _SHIFT
    return mixed
