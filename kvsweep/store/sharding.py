"""How tasks share the files of a store: a shard is a block of tasks, one file of each array.

It follows from the sweep alone, as the tasks do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvsweep.grid import Plan

Place = tuple[int, ...]
"""Position of a task among the tasks along each dimension, or of a shard among the shards."""

# A shard is packed in memory, compressed (to an eighth, in H8); and while it is not complete each
# of its tasks is a file, after that each array is one: with t tasks in s shards t/s + 50 s files.
SHARD_BYTES = 512 * 2**20
ARRAYS = 50


@dataclass(frozen=True)
class Sharding:
    """The tasks of a sweep and their division into shards.

    Attributes
    ----------
    tasks : tuple of int
        Tasks along each dimension of the grid.
    each : tuple of int
        Those of one shard. Tasks of a shard are neighbours in the order of tasks.
    """

    tasks: tuple[int, ...]
    each: tuple[int, ...]

    @cached_property
    def shards(self) -> tuple[Place, ...]:
        """Places of all shards, the last dimension fastest."""
        counts = [math.ceil(n / k) for n, k in zip(self.tasks, self.each, strict=True)]
        return tuple(product(*map(range, counts)))

    def place(self, task: int) -> Place:
        """Return the place of a task, by its index."""
        place = []
        for length in reversed(self.tasks):
            task, at = divmod(task, length)
            place.append(at)
        return tuple(reversed(place))

    def shard_of(self, task: int) -> Place:
        """Return the shard of a task, by its index."""
        return tuple(at // k for at, k in zip(self.place(task), self.each, strict=True))

    def inside(self, task: int) -> Place:
        """Return the place of a task within its shard, by its index."""
        return tuple(at % k for at, k in zip(self.place(task), self.each, strict=True))

    def tasks_of(self, shard: Place) -> Iterator[int]:
        """Yield the indices of the tasks of a shard, in order."""
        parts = zip(shard, self.each, self.tasks, strict=True)
        for place in product(*(range(at * k, min((at + 1) * k, n)) for at, k, n in parts)):
            index = 0
            for at, length in zip(place, self.tasks, strict=True):
                index = index * length + at
            yield index

    def order(self, shard: Place) -> list[int]:
        """Return the positions of a shard's tasks in the order in which its files have them."""
        places = list(map(self.inside, self.tasks_of(shard)))
        return sorted(range(len(places)), key=lambda i: morton(places[i]))

    @classmethod
    def of_plan(cls, plan: Plan) -> Sharding:
        """Divide the tasks of a sweep."""
        pairs = list(zip(plan.shape, plan.chunks, strict=True))
        tasks = tuple(math.ceil(length / chunk) for length, chunk in pairs)
        count = math.prod(tasks)
        wanted = math.ceil(count / math.ceil(math.sqrt(count / ARRAYS)))
        bytes_of_one = plan.bytes / plan.cells * math.prod(plan.chunks)
        return cls(tasks, _block(tasks, max(1, min(wanted, int(SHARD_BYTES / bytes_of_one)))))

    @classmethod
    def of_array(cls, document: dict[str, Any]) -> Sharding:
        """Return how an array is divided that has the dimensions of the grid and no others."""
        if not document["shape"]:
            return cls((), ())
        outer = document["chunk_grid"]["configuration"]["chunk_shape"]
        inner = document["codecs"][0]["configuration"]["chunk_shape"]
        tasks = [math.ceil(n / k) for n, k in zip(document["shape"], inner, strict=True)]
        return cls(tuple(tasks), tuple(k // n for k, n in zip(outer, inner, strict=True)))


@lru_cache(maxsize=4096)  # the same places in each of sixty arrays: a fifth of what packing took
def morton(place: Place) -> int:
    """Return the number of a place in Morton's order: the bits of its coordinates in turns."""
    number = 0
    for bit in range(max(place, default=0).bit_length()):
        for dim, at in enumerate(place):
            number |= (at >> bit & 1) << (bit * len(place) + dim)
    return number


def _block(tasks: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Return even parts of at most so many tasks: the last dimensions whole, one cut."""
    each: list[int] = []
    for length in reversed(tasks):
        parts = math.ceil(length / most)
        size = math.ceil(length / parts)
        each.append(size)
        most = most // size if size == length else 1
        most = max(1, most)
    return tuple(reversed(each))
