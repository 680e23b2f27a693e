"""Tables of more requests than a list may have: only what is asked for of them is kept.

Azure's week of conversations has 27 million rows, of which a study takes an hour.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.bending import Bends, Slice
from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_REQUESTS
from kvsweep.workload.checks import no_request_between
from kvsweep.workload.measured import PER_SECOND

Chunk = dict[str, Any]
"""Values of some rows by role; of names, a list of str."""

_NEAR_S = 1e-3
"""So far outside of a part rows are kept: how they are rounded decides later."""


class Part(NamedTuple):
    """What is enough of a file.

    Attributes
    ----------
    window : Slice
        Of its time.
    limit : int or None
        The first requests of the window, at least; None: all of them.
    """

    window: Slice
    limit: int | None


def part_of(how: Bends, read: Reading | None) -> Part | None:
    """Return what is enough of a file for what becomes of its requests; None: nothing less."""
    recorded = read is None or read.arrivals == "recorded"
    # Copies depend on how many others there are, and on when the last one arrives.
    limit = how.limit if how.repeat == how.loop == 1 else None
    if not recorded or (how.slice is None and limit is None):
        return None
    return Part(how.slice or Slice(), limit)


def too_many(where: str, about: str = "") -> InputError:
    """Return the error of a file, or of a part of one, that has more requests than a list may."""
    return InputError(
        f"{where}: more than {MAX_REQUESTS:,} requests{about}: a window of its time, or its "
        "first requests, can be read: workload.slice or limit of a sweep, --from, --to or --limit "
        "of `kvsweep trace slice`"
    )


class Kept:
    """Rows of a table while it is read.

    Parameters
    ----------
    where : str
        The file's name, for messages.
    unit : str
        Of the arrivals, one of `PER_SECOND`.
    part : Part or None
        What is enough.

    Attributes
    ----------
    cut : bool
        Whether rows were left out, as there were too many.
    """

    def __init__(self, where: str, unit: str, part: Part | None) -> None:
        self.where = where
        self.cut = False
        self._part = part
        self._second = PER_SECOND[unit]
        self._first: Any = None
        self._last: Any = None
        self._rows = 0
        self._chunks: list[Chunk] = []
        self._places: list[NDArray[np.int64]] = []

    @property
    def origin(self) -> Any:
        """The earliest arrival of the file, if rows were left out: where its time begins."""
        return self._first if self.cut else None

    def add(self, chunk: Chunk, places: NDArray[np.int64]) -> None:
        """Add rows; `places` are their numbers in the file.

        Raises
        ------
        InputError
            If there are too many, in the part that is asked for, or the part was misjudged.
        """
        if not len(places):
            return
        low, high = chunk["arrival"].min(), chunk["arrival"].max()
        if self.cut and low < self._first:
            row = places[int(chunk["arrival"].argmin())]
            raise InputError(
                f"{self.where}: row {row} arrives before the first of {MAX_REQUESTS:,} rows: sort "
                "a file of that length by time"
            )
        self._first = low if self._first is None else min(self._first, low)
        self._last = high if self._last is None else max(self._last, high)
        self._rows += len(places)
        self._chunks.append(chunk)
        self._places.append(places)
        if self.cut:
            self._take(-1, self._inside(chunk["arrival"]))
        if sum(map(len, self._places)) > MAX_REQUESTS:
            self._cut()

    def joined(self) -> tuple[Chunk, NDArray[np.int64]]:
        """Return all rows that are kept, and their numbers.

        Raises
        ------
        InputError
            If there were too many, and none in the window that is asked for.
        """
        if not self._chunks:
            return {}, np.zeros(0, np.int64)
        roles = self._chunks[0]
        chunk = {role: _joined([each[role] for each in self._chunks]) for role in roles}
        places = np.concatenate(self._places)
        if self.cut and not len(places):
            assert self._part is not None
            last_s = (self._last - self._first) / self._second
            raise no_request_between(self._part.window, self.where, self._rows, 0.0, last_s)
        return chunk, places

    def _cut(self) -> None:
        """Leave out what is not asked for."""
        if self._part is None:
            last_s = (self._last - self._first) / self._second
            raise too_many(self.where, f" (the first ones arrive within {last_s:,.0f} s)")
        self.cut = True
        chunk, places = self.joined()
        self._chunks, self._places = [chunk], [places]
        self._take(0, self._inside(chunk["arrival"]))
        if self._part.limit is not None:
            self._take(0, self._among_first(self._chunks[0]["arrival"], self._part.limit))
        if len(self._places[0]) > MAX_REQUESTS:
            raise too_many(self.where, " in the part that is asked for")

    def _inside(self, arrival: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which rows are in the window, or so near that rounding may put them there."""
        assert self._part is not None
        since = (arrival - self._first) / self._second
        inside: NDArray[np.bool_] = since >= self._part.window.from_s - _NEAR_S
        if self._part.window.end_s is not None:
            inside &= since < self._part.window.end_s + _NEAR_S
        return inside

    def _among_first(self, arrival: NDArray[Any], limit: int) -> NDArray[np.bool_]:
        """Return which rows may be among the first of the window, a few that are not included."""
        assert self._part is not None
        since = (arrival - self._first) / self._second
        certain = since[since >= self._part.window.from_s + _NEAR_S]
        if len(certain) <= limit:
            return np.ones(len(since), np.bool_)
        last = np.partition(certain, limit - 1)[limit - 1]
        early: NDArray[np.bool_] = since < last + _NEAR_S  # those at one time stay as in the file
        return early

    def _take(self, at: int, which: NDArray[np.bool_]) -> None:
        kept = np.flatnonzero(which)
        self._chunks[at] = {role: taken(values, kept) for role, values in self._chunks[at].items()}
        self._places[at] = self._places[at][kept]


def taken(values: Any, kept: NDArray[np.int64]) -> Any:
    """Return the values of some rows."""
    return values[kept] if isinstance(values, np.ndarray) else [values[i] for i in kept.tolist()]


def _joined(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return [value for part in parts for value in part]
