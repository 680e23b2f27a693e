"""A warning about results, and where in a grid something is seen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.wording import label


@dataclass(frozen=True)
class ResultWarning:
    """Why results mislead.

    Attributes
    ----------
    kind : str
        Name of the check, as ``queue-growth``.
    text : str
        One sentence: what is seen, in how many cells and where, why it misleads, what to do.
    cells, of : int
        In how many cells it is seen, of how many.
    worst : dict
        Setting of the cell where it is worst: the value of each axis but the seed.
    """

    kind: str
    text: str
    cells: int
    of: int
    worst: dict[str, Any]

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


_KINDS = {"kind": str, "text": str, "cells": int, "of": int, "worst": dict}
"""Of what kind the fields of a warning are, where it is stored."""


def is_told(entry: Any) -> bool:
    """Whether what was read holds a warning."""
    if not isinstance(entry, dict) or entry.keys() != _KINDS.keys():
        return False
    return all(isinstance(entry[name], kind) for name, kind in _KINDS.items())


@dataclass(frozen=True)
class Seen:
    """Where something is seen.

    Attributes
    ----------
    cells : Cells
        Where it was looked for.
    where : bool (grid)
        The cells with it.
    worst : tuple of int
        Index of the cell that has most of it.
    """

    cells: Cells
    where: NDArray[np.bool_]
    worst: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of cells with it."""
        return int(self.where.sum())

    @property
    def share(self) -> str:
        """How many have it: `` in 12 of 84 cells``; nothing of a single cell."""
        of = int(self.cells.ok.sum())
        if of == 1:
            return ""
        return f" in {'all' if self.count == of else f'{self.count:,} of'} {of:,} cells"

    @property
    def setting(self) -> str:
        """The worst cell: `` at round-robin, rate 200``; nothing if all have one setting."""
        labels = self.cells.labels(self.worst)
        return f" at {label(labels)}" if labels else ""

    def most(self, much: str) -> str:
        """Say in how many cells it is seen, where most of it, and how much that is."""
        return (
            f"{self.share}, most{self.setting} ({much})"
            if self.setting
            else (f"{self.share} ({'at most ' if self.share else ''}{much})")
        )

    def value(self, name: str) -> float:
        """Return a variable of the worst cell."""
        return float(self.cells.number(name)[self.worst])

    def warning(self, kind: str, text: str) -> ResultWarning:
        """Return the warning that says so in `text`."""
        of = int(self.cells.ok.sum())
        return ResultWarning(kind, text, self.count, of, self.cells.labels(self.worst))


def seen(cells: Cells, where: NDArray[np.bool_], how_bad: NDArray[Any]) -> Seen | None:
    """Return where something is seen, and where it is worst; None if it is nowhere.

    Parameters
    ----------
    cells : Cells
        Where it was looked for.
    where : bool (grid)
        The cells with it.
    how_bad : float (grid)
        The larger the worse; the first of the worst cells is named.
    """
    if not where.any():
        return None
    ranked = np.array(how_bad, np.float64)  # in place, as each is 8 MB; one cell is an array too
    np.nan_to_num(ranked, copy=False)
    ranked[~where] = -np.inf
    worst = np.unravel_index(np.argmax(ranked), where.shape)
    return Seen(cells, where, tuple(int(i) for i in worst))
