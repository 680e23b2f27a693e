"""What a worker asks of what is explored, be it a sweep or a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from threading import Lock

    import xarray as xr

    from kvsweep.explorer.controls import Control
    from kvsweep.explorer.messages import Settings
    from kvsweep.explorer.stages import Stage

MAX_PAGES = 8
"""Pages of one subject that are open at once."""


class Part(Protocol):
    """The cells of one scenario along an axis."""

    @property
    def entries(self) -> tuple[str, ...]:
        """Entries of the kernel that simulate it (`kvsweep.simulate.kernel_entries`)."""

    def stages(self, cost: float | None) -> Iterator[Stage]:
        """Yield what to look at, first little, then more; `cost` is seconds of a simulation."""

    def lacking(self, points: Sequence[int], seeds: int) -> list[tuple[list[int], int, int]]:
        """Return what is to be simulated until some points have so many seeds."""

    def simulate(self, points: Sequence[int], first: int, last: int) -> None:
        """Simulate some points with some of the seeds."""

    def dataset(self, points: Sequence[int], seeds: int, measures: Sequence[str]) -> xr.Dataset:
        """Return what measures are of, at some points with the first seeds, and the status."""

    def life(self, value: float, seed: int) -> dict[str, Any]:
        """Return the life of every request at a value of the axis: told, present, data.

        Raises
        ------
        InputError
            If there is no such value, or nothing to draw.
        """

    def warnings(self, points: Sequence[int], seeds: int) -> list[str]:
        """Return what in these results misleads."""


class Subject(Protocol):
    """What is explored.

    Attributes
    ----------
    kind : str
        ``sweep`` or ``store``.
    name : str
        Its file or folder.
    title, question : str
        As the sweep has them.
    lock : Lock
        Who looks at its parts, or simulates, holds it: pages share what was simulated.
    """

    kind: str
    name: str
    title: str
    question: str
    lock: Lock

    @property
    def measure(self) -> str:
        """The measure that is looked at first."""

    @property
    def threshold(self) -> float | None:
        """The threshold that is looked at first; None: no cliff."""

    @property
    def measures(self) -> list[dict[str, Any]]:
        """The measures that there may be: name, label, units, which is better."""

    @property
    def alongs(self) -> list[dict[str, str]]:
        """The axes that curves can be drawn along, the one to begin with first: name, label."""

    def controls(self, along: str) -> tuple[Control, ...]:
        """Return what can be set while curves are drawn along an axis."""

    def part(self, settings: Settings, along: str) -> Part:
        """Return what there is of a scenario.

        Raises
        ------
        InputError
            If a setting is not valid.
        """

    def command(self, settings: Settings, along: str, seen: Seen) -> str:
        """Return the command that gives the same numbers."""

    def toml(self, settings: Settings, along: str) -> str:
        """Return the scenario as a sweep file.

        Raises
        ------
        InputError
            If there is none.
        """


class Seen(Protocol):
    """What the page shows: for commands that give the same."""

    @property
    def measure(self) -> str:
        """Measure of the cliff."""

    @property
    def threshold(self) -> float | None:
        """Its threshold."""

    @property
    def seeds(self) -> Sequence[int]:
        """The seeds that are shown."""
