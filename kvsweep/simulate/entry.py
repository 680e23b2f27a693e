"""An entry of the kernel: code for lanes that lack some features."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import _cache
from ..records import LANE, Inputs, Outputs, Workspace, without


@dataclass(frozen=True)
class Entry:
    """One entry of the kernel.

    Attributes
    ----------
    run : callable (Inputs, Workspace, Outputs, int64 (n,))
        It runs the lanes of these numbers.
    absent : tuple of str
        Fields of LANE that are 0 in all lanes that it can run.
    first : str
        Which run is the first to need it, for a message.
    more : int
        Seconds that it takes longer to compile than the usual one.
    """

    run: Callable[..., None]
    absent: tuple[str, ...]
    first: str
    more: int = 0

    @property
    def name(self) -> str:
        """Name of the entry."""
        return self.run.__name__

    @property
    def loaded(self) -> bool:
        """Whether this process has its code."""
        return _plain(self.run) or bool(self.run.signatures)  # type: ignore[attr-defined]

    @property
    def cached(self) -> bool:
        """Whether its code is in the cache folder, or it runs as plain Python, which needs none."""
        if _plain(self.run):
            return True
        folder = self.run.stats.cache_path  # type: ignore[attr-defined]
        return bool(folder and any(Path(folder).glob(f"engine.{self.name}-*.nbc")))

    @property
    def message(self) -> str:
        """What a user is told who waits for it."""
        seconds = _cache.seconds + _cache.steeper * self.more
        return f"compiling the kernel ({self.first} only, about {seconds} s)"

    @cached_property
    def lane(self) -> np.dtype[Any]:
        """LANE without the fields that are absent."""
        return without(LANE, self.absent)

    @cached_property
    def _bytes(self) -> NDArray[np.int64]:
        """Where in a LANE record the fields are that are absent."""
        fields = (LANE.fields or {}).items()
        places = [range(f[1], f[1] + f[0].itemsize) for name, f in fields if name in self.absent]
        return np.array([place for each in places for place in each], np.int64)

    def covers(self, lanes: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which lanes it can run: all that is absent is 0."""
        # All bytes at once: field by field it took 2 % of a simulation in batches of 30.
        content = lanes.view(np.uint8).reshape(len(lanes), LANE.itemsize)
        found: NDArray[np.bool_] = np.logical_not(content[:, self._bytes].any(axis=1))
        return found

    def __call__(
        self, inputs: Inputs, workspace: Workspace, outputs: Outputs, numbers: NDArray[np.int64]
    ) -> None:
        """Run the lanes of these numbers, in their order."""
        inputs = inputs._replace(lanes=inputs.lanes.view(self.lane))
        workspace = workspace._replace(own=workspace.own.view(self.lane))
        self.run(inputs, workspace, outputs, numbers)


def _plain(run: Callable[..., None]) -> bool:
    """Return whether nothing is compiled, as ``NUMBA_DISABLE_JIT`` asks for."""
    return not hasattr(run, "signatures")
