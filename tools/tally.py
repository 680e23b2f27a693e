"""How often intervals held and how wide they were, as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kvsweep.analysis.statistics import Floats, Interval

Pair = tuple[Interval, Interval]  # before, after


class Tally:
    """Which intervals held, and how wide they were, by row and number of seeds."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, int], list[tuple[float, float]]] = {}
        self._widths: dict[tuple[str, int], list[tuple[float, float]]] = {}

    def add(self, row: str, seeds: int, truth: float, pair: Pair) -> None:
        """Count the interval before and after of one study."""
        slack = 1e-9 * abs(truth) if np.isfinite(truth) else 0.0  # of sums in another order
        held = [i.low - slack <= truth <= i.high + slack for i in pair]
        width = [np.inf if np.isinf([i.low, i.high]).any() else i.high - i.low for i in pair]
        self.count(row, seeds, (held[0], held[1]))
        self._widths.setdefault((row, seeds), []).append((width[0], width[1]))

    def count(self, row: str, seeds: int, held: tuple[float, float]) -> None:
        """Count whether the statement before and after held in one study."""
        self._held.setdefault((row, seeds), []).append(held)

    def tables(self) -> Iterator[str]:
        """Write coverage in per cent and the median width, before and after, as Markdown."""
        yield from _table(self._held, _percent, "{:.1f}, {:.1f}")
        yield ""
        yield from _table(self._widths, _median, "{:.3g}, {:.3g}")


def _percent(pairs: list[tuple[float, float]]) -> Floats:
    share: Floats = 100.0 * np.mean(pairs, axis=0)
    return share


def _median(pairs: list[tuple[float, float]]) -> Floats:
    return np.median(pairs, axis=0)


def _table(
    found: dict[tuple[str, int], list[tuple[float, float]]],
    of: Callable[[list[tuple[float, float]]], Floats],
    form: str,
) -> Iterator[str]:
    sizes = sorted({seeds for _, seeds in found})
    yield "| | " + " | ".join(f"n = {n}" for n in sizes) + " |"
    yield "|---|" + "---|" * len(sizes)
    for row in dict.fromkeys(row for row, _ in found):
        cells = [form.format(*of(found[row, n])) for n in sizes]
        yield f"| {row} | " + " | ".join(cells) + " |"
