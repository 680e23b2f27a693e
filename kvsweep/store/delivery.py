"""What a worker does with the results of a task: it writes them if it sees the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kvsweep.store import parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan, Task
    from kvsweep.store.arrays import Array
    from kvsweep.store.places import Storage


@dataclass(frozen=True)
class Delivery:
    """What became of a task.

    Attributes
    ----------
    data : bytes or None
        Its part; None if the worker wrote it where it belongs.
    """

    data: bytes | None = None


@dataclass(frozen=True)
class PartWriter:
    """What makes parts, and writes them where the store is seen.

    Attributes
    ----------
    folder : Storage
        The store.
    token : str
        What the token file of this run says.
    told_in : str
        The token file.
    sweep : str
        Identity of its sweep.
    plan : Plan
        Its cells.
    arrays : tuple of Array
        What tasks write, in the order of `layout.names`.
    """

    folder: Storage
    token: str
    told_in: str
    sweep: str
    plan: Plan
    arrays: tuple[Array, ...]

    def __call__(self, task: Task, results: Mapping[str, NDArray[Any]]) -> Delivery:
        """Write the part of a task, or return it where that cannot be.

        What a full disk says is for the process that runs the sweep to find: it tries again.
        """
        data = self.part(task, results)
        try:
            if self.folder.get(self.told_in) != self.token.encode():
                return Delivery(data)
            self.folder.put(parts.name_of(task.index), data, shared=True)
        except OSError:
            return Delivery(data)
        return Delivery()

    def with_plan(self, plan: Plan) -> PartWriter:
        """Return the same for some cells of the plan."""
        return replace(self, plan=plan)

    def part(self, task: Task, results: Mapping[str, NDArray[Any]]) -> bytes:
        """Return the part of a task."""
        return parts.part(self.sweep, self.plan, task, self.arrays, results)
