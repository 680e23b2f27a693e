"""Where an axis has labels, as many as there is room for, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import Formatter, Locator, MaxNLocator

from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import WHOLE, gib, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER = 0.056
"""Inches of a letter of a label, about."""

APART = 0.06  # inches between labels

MOST = 6

# Swept values that have labels of their own on a logarithmic axis; of more, round numbers have.
MOST_SWEPT = 12

# An axis is logarithmic if each value is so many times the one before, or if its values span so
# many times the smallest and are spaced more evenly by their logarithms.
TIMES = 1.9
SPAN = 8.0

# Of the distance between two labels, that what they say may be beside their places; and the
# decimals that they have at most.
OFF = 0.02
DECIMALS = 15

POINTS = 120  # of a curve that is straight between few values of a logarithmic axis


def is_wide(values: Floats) -> bool:
    """Whether the values of an axis are to be drawn by their logarithms.

    Examples
    --------
    >>> import numpy as np
    >>> is_wide(np.array([10, 20, 40])), is_wide(np.arange(1, 65)), is_wide(np.geomspace(1, 9))
    (True, False, True)
    """
    values = np.unique(np.asarray(values, np.float64))
    if len(values) < 3 or values[0] <= 0.0:
        return False
    steps = np.diff(np.log(values))
    if (steps > np.log(TIMES)).all():
        return True
    return bool(
        values[-1] >= SPAN * values[0] and _unevenness(steps) < _unevenness(np.diff(values))
    )


def between(values: Floats) -> Floats:
    """Return the values of an axis, and others between if it is logarithmic, for smooth curves."""
    if not is_wide(values):
        return values
    count = -(-POINTS // len(values))
    parts = [np.geomspace(*pair, count, endpoint=False) for pair in pairwise(values)]
    return np.append(np.concatenate(parts), values[-1])


def _unevenness(steps: Floats) -> float:
    return float(np.std(steps) / np.mean(steps))


class FittingLocator(MaxNLocator):
    """Round numbers on a horizontal axis: as many as do not touch, `MOST` at most.

    Parameters
    ----------
    each_gib : float, optional
        GiB of a unit of the axis, which stand below its numbers.
    """

    def __init__(self, each_gib: float | None) -> None:
        self.each_gib = each_gib
        super().__init__(MOST, steps=[1, 2, 2.5, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the places of the labels, some of them beyond the limits."""
        for count in range(MOST, 0, -1):
            self.set_params(nbins=count)
            ticks = super().tick_values(vmin, vmax)
            if self._fits([float(tick) for tick in ticks], abs(vmax - vmin)):
                break
        return ticks

    def _fits(self, ticks: list[float], extent: float) -> bool:
        if len(ticks) < 2 or not extent:
            return True
        room = (ticks[1] - ticks[0]) / extent * _inches(self.axis)
        return bool(room >= width_of(evened_labels(ticks, self.each_gib)))


class SweptLocator(Locator):
    """Values of a logarithmic axis as they were swept; of many, or fewer than two, round numbers.

    Parameters
    ----------
    values : float64 (n,)
        All of the axis, ascending.
    each_gib : float, optional
        As of `FittingLocator`.
    """

    def __init__(self, values: Floats, each_gib: float | None) -> None:
        self.values = values
        self.each_gib = each_gib

    def __call__(self) -> Any:
        """Return the places of the labels."""
        axis: Any = self.axis
        return self.tick_values(*axis.get_view_interval())

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the places of the labels between two limits."""
        low, high = sorted((vmin, vmax))
        an_inch = np.log(high / low) / _inches(self.axis)
        swept = self.values[(self.values >= low) & (self.values <= high)]
        if 1 < len(swept) <= MOST_SWEPT:
            return self._with_room(swept, an_inch)
        kept = []
        for firsts in ((1.0, 2.0, 5.0), (1.0,)):
            places = _round_numbers(low, high, firsts)
            kept.append(self._with_room(places, an_inch))
            if len(kept[-1]) == len(places) > 1:
                return kept[-1]
        return kept[0]

    def _with_room(self, places: Floats, an_inch: float) -> list[float]:
        """Return the places whose labels have room, from the left."""
        kept: list[float] = []
        for place in places.tolist():
            near = kept[-1:]
            room = np.log(place / near[0]) / an_inch if near else np.inf
            if room >= width_of([labelled(value, self.each_gib) for value in (*near, place)]):
                kept.append(place)
        return kept


def _round_numbers(low: float, high: float, firsts: tuple[float, ...]) -> Floats:
    """Return numbers of one digit between two others."""
    powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1.0)
    found = np.outer(powers, firsts).ravel()
    return found[(found >= low) & (found <= high)]


def _inches(axis: Any) -> float:
    """Return the width of the panel of an axis; stubs know of other axes."""
    return float(axis.axes.bbox.width / axis.axes.figure.dpi)


class NumberFormatter(Formatter):
    """Numbers with thousands separated, on a linear axis all with as many decimals.

    Parameters
    ----------
    each_gib : float, optional
        As of `FittingLocator`.
    beside : bool
        Whether the GiB stand behind the numbers, in brackets.
    even : bool
        Whether numbers have as many decimals; if not, only where they would read alike without.
    """

    def __init__(self, each_gib: float | None, beside: bool = False, even: bool = True) -> None:
        self.each_gib = each_gib
        self.beside = beside
        self.even = even

    def __call__(self, value: float, pos: int | None = None) -> str:
        """Write a single number."""
        return labelled(float(value), self.each_gib, self.beside)

    def format_ticks(self, values: Any) -> list[str]:
        """Write the numbers of an axis."""
        axis: Any = self.axis
        numbers = [float(value) for value in values]
        texts = [labelled(value, self.each_gib, self.beside) for value in numbers]
        is_linear = axis is not None and axis.get_scale() == "linear"
        if (is_linear and self.even) or len(set(texts)) < len(set(numbers)):
            return evened_labels(numbers, self.each_gib, self.beside)
        return texts


def labelled(value: float, each_gib: float | None, beside: bool = False) -> str:
    """Write a number of an axis, with its memory if that is known."""
    return _joined(number(value), None if each_gib is None else gib(value * each_gib), beside)


def evened_labels(values: list[float], each_gib: float | None, beside: bool = False) -> list[str]:
    """Write the numbers of an axis as `labelled` does, with as many decimals each."""
    texts = told_apart(values)
    if each_gib is None:
        return texts
    memory = evened([gib(value * each_gib) for value in values])
    return [_joined(*pair, beside) for pair in zip(texts, memory, strict=True)]


def told_apart(values: list[float]) -> list[str]:
    """Write the numbers of an axis with four digits, or as many as it takes to be exact.

    Examples
    --------
    >>> told_apart([0.9998, 1.0, 1.0002]), told_apart([10_000, 10_000.5])
    (['0.9998', '1.0000', '1.0002'], ['10,000.0', '10,000.5'])
    """
    texts = [number(value) for value in values]
    places = np.array(values, np.float64)
    steps = np.diff(np.unique(places))
    if not steps.size or not np.isfinite(places).all() or np.abs(places).max() >= WHOLE:
        return evened(texts)
    least = OFF * float(steps.min())
    if all(abs(_read(text) - value) <= least for text, value in zip(texts, values, strict=True)):
        return evened(texts)
    decimals = (n for n in range(DECIMALS) if (np.abs(places.round(n) - places) <= least).all())
    return [f"{value + 0.0:,.{n}f}" for n in [next(decimals, DECIMALS)] for value in values]


def _read(text: str) -> float:
    return float(text.replace(",", ""))


def _joined(text: str, memory: str | None, beside: bool) -> str:
    if memory is None:
        return text
    return f"{text} ({memory})" if beside else f"{text}\n{memory}"


def evened(texts: list[str]) -> list[str]:
    """Give numbers as many decimals as the one of them with most has.

    Examples
    --------
    >>> evened(["0", "0.25", "1,000"]), evened(["1e+20", "0.5"])
    (['0.00', '0.25', '1,000.00'], ['1e+20', '0.5'])
    """
    decimals = max((len(text.partition(".")[2]) for text in texts), default=0)
    if not decimals or any("e" in text for text in texts):
        return texts
    return [
        text + ("" if "." in text else ".") + "0" * (decimals - len(text.partition(".")[2]))
        for text in texts
    ]


def width_of(texts: Sequence[str]) -> float:
    """Return the inches from one label to the next that the widest of them needs."""
    return LETTER * max(len(line) for text in texts for line in text.split("\n")) + APART


def scale_x(panel: Axes, values: Floats) -> bool:
    """Draw the x axis of a panel by logarithms if what is seen of its values asks for that."""
    low, high = panel.get_xlim()
    seen = values[(values >= low) & (values <= high)]
    wide = is_wide(values) and (is_wide(seen) or 0.0 < SPAN * low <= high)
    if wide:
        panel.set_xscale("log")
    return wide
