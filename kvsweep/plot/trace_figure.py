"""Figures of traces: what is in one, and what caches of all sizes find of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, PercentFormatter

from kvsweep.analysis.wording import counted, number
from kvsweep.plot import style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from kvsweep.traces.hits import Hits
    from kvsweep.workload.requests import Requests

WIDTH, HEIGHT = 7.0, 4.6  # inches
POINTS = 48  # of a curve over capacities
_POWERS, _BETWEEN = (1.0,), (1.0, 2.0, 5.0)  # of a decade


def plot_trace(name: str, requests: Requests, hits: Hits) -> Figure:
    """Draw the rate over time, the lengths, the age of what is used again, and hits by capacity.

    Parameters
    ----------
    name : str
        Of the trace.
    requests : Requests
        Its requests.
    hits : Hits
        What caches find of them.

    Returns
    -------
    matplotlib.figure.Figure
        For `kvsweep.plot.save`.
    """
    blocks = hits.points(POINTS)
    with style.drawing():
        figure = style.new_figure(HEIGHT, WIDTH)
        panels = figure.subplots(2, 2).ravel()
        style.head(figure, name, counted(len(requests), "request"))
        _draw_rate(panels[0], requests.arrival_us)
        _draw_lengths(panels[1], requests)
        _draw_ages(panels[2], *hits.reuse(requests.arrival_us))
        lru = [hits.lru(count) / hits.prompt_tokens for count in blocks]
        best = [hits.optimum(count) / hits.prompt_tokens for count in blocks]
        _draw_hits(panels[3], blocks, lru, best, hits.ceiling / hits.prompt_tokens)
        panels[3].set_title("What a cache of so many blocks finds", loc="left", fontsize=7.5)
    return figure


def plot_hits(
    name: str, columns: Mapping[str, Sequence[Any]], ceiling: float, block_size: int
) -> Figure:
    """Draw the hit rates of `kvsweep.traces.capacities.columns`, with GiB on top if known."""
    with style.drawing():
        figure = style.new_figure(2.5)
        panel = figure.subplots()
        style.head(figure, name, "What a cache of so many blocks finds, one request at a time")
        blocks = columns["blocks"]
        _draw_hits(panel, blocks, columns["lru_hit_rate"], columns["best_hit_rate"], ceiling)
        panel.set_xlabel(f"blocks of {block_size} tokens")
        if "gib" in columns and ceiling:
            each = columns["gib"][0] / blocks[0]
            top = panel.secondary_xaxis(
                "top", functions=(partial(mul, each), partial(_divided, by=each))
            )
            top.set_xlabel("GiB on each GPU")
            log_ticks(top.xaxis)
    return figure


def _divided(values: Any, by: float) -> Any:
    return values / by


def _draw_rate(panel: Axes, arrival_us: NDArray[np.int64]) -> None:
    from kvsweep.traces.info import rate_over_time, whole_bins

    begin, width, counts = rate_over_time(arrival_us)
    first, end = whole_bins(begin, len(counts))
    edges = begin + width * np.arange(first, end + 1)
    unit, seconds = _unit_of(float(width * len(counts)))
    panel.stairs(counts[first:end] / width, edges / seconds, fill=True, color=style.colour(0))
    panel.set_title(f"Arrivals, requests/s in bins of {width:,} s", loc="left", fontsize=7.5)
    panel.set_xlabel(f"time ({unit})")
    panel.set_ylim(bottom=0)
    panel.margins(x=0.01)
    style.group_thousands(panel, "x")
    _grid(panel)


def _unit_of(seconds: float) -> tuple[str, int]:
    """Return the unit of a time axis of so many seconds, and its seconds."""
    units = (("days", 86_400, 4), ("h", 3600, 6), ("min", 60, 10))
    return next(((name, each) for name, each, least in units if seconds >= least * each), ("s", 1))


def _draw_lengths(panel: Axes, requests: Requests) -> None:
    lines = (("prompts", requests.prompt_tokens), ("outputs", requests.output_tokens))
    for i, (label, tokens) in enumerate(lines):
        name = f"{label}, median {number(float(np.median(tokens)))}"
        _draw_shares(panel, tokens, np.ones(len(tokens)), i, name)
    panel.legend(loc="best", handlelength=1.8)
    panel.set_title("Lengths, share of requests up to", loc="left", fontsize=7.5)
    panel.set_xlabel("tokens")


def _draw_ages(panel: Axes, tokens: NDArray[np.int64], age_us: NDArray[np.int64]) -> None:
    panel.set_title("Age of what is found again, share of tokens up to", loc="left", fontsize=7.5)
    if len(tokens):
        # What arrived at the same time has no place on the axis: it is below its left end.
        later = age_us[age_us > 0]
        least = int(later.min()) if later.size else 10**6
        _draw_shares(panel, np.maximum(age_us, least) / 1e6, tokens.astype(np.float64), 2)
        panel.set_xlabel("seconds since it was used last")
    else:
        _leave_empty(panel)


def _leave_empty(panel: Axes) -> None:
    panel.set_axis_off()
    text = "no request begins\nas an earlier one does,\nor the file does not tell"
    panel.text(0.5, 0.5, text, transform=panel.transAxes, ha="center", color=style.FAINT_INK)


def _draw_shares(
    panel: Axes, values: Any, weights: NDArray[np.float64], index: int, name: str = ""
) -> None:
    order = np.argsort(values)
    shares = np.cumsum(weights[order]) / weights.sum()
    # So many steps are no wider than a pixel.
    kept = np.unique(np.linspace(0, len(order) - 1, 2000).astype(np.int64))
    places = np.asarray(values)[order][kept]
    panel.plot(
        np.append(places[:1], places),  # a single value is a line too
        np.append(0.0, shares[kept]),
        label=name,
        drawstyle="steps-post",
        color=style.colour(index),
        linestyle=style.dash(index if index < 2 else 0),
    )
    panel.set_xscale("log")
    log_ticks(panel.xaxis)
    panel.set_ylim(0, 1.02)
    panel.yaxis.set_major_formatter(PercentFormatter(1.0))
    _grid(panel)


def _draw_hits(
    panel: Axes, blocks: Sequence[int], lru: Sequence[float], best: Sequence[float], ceiling: float
) -> None:
    if not ceiling:
        _leave_empty(panel)
        return
    alone = len(blocks) == 1
    marker = "o" if alone else None  # a line of one point is not seen
    # Whose axis is its decade: what stands beside it, and the ceiling opposite, have room there.
    beside = 1 if math.log10(blocks[0]) % 1 < 0.5 else -1
    right = alone and beside > 0
    # Where both meet they are still two lines.
    for i, (values, width) in enumerate(((best, 2.2), (lru, 1.3))):
        colour = style.colour(1 - i)
        look: dict[str, Any] = {
            "linestyle": style.dash(1 - i),
            "linewidth": width,
            "marker": marker,
        }
        panel.plot(blocks, values, color=colour, **look)
    panel.axhline(ceiling, color=style.FAINT_INK, linewidth=0.6, linestyle=(0, (1, 2)))
    text = f"ceiling {100 * ceiling:.1f}%"
    panel.annotate(
        text,
        (int(right), ceiling),
        xycoords=("axes fraction", "data"),
        xytext=(-3 if right else 3, 2),
        textcoords="offset points",
        ha="right" if right else "left",
        fontsize=7,
        color=style.FAINT_INK,
    )
    middle = len(blocks) // 2
    for i, (name, values, side) in enumerate((("LRU", lru, 1), ("at best", best, -1))):
        along = beside if alone else side
        panel.annotate(
            name,
            (blocks[middle], values[middle]),
            xytext=(5 * along, -3 * side),
            textcoords="offset points",
            ha="left" if along > 0 else "right",
            va="top" if side > 0 else "bottom",
            fontsize=7,
            color=style.colour(i),
        )
    panel.set_xscale("log")
    log_ticks(panel.xaxis)
    panel.set_xlabel("blocks")
    panel.set_ylim(0, max(0.01, 1.15 * ceiling))
    panel.yaxis.set_major_formatter(FuncFormatter(_percent))
    panel.set_ylabel("prompt tokens found")
    _grid(panel)


class _RoundLocator(LogLocator):
    """Powers of ten, and where fewer than two of them are in view what begins with 2 and 5."""

    def tick_values(self, vmin: float, vmax: float) -> Any:
        self.set_params(subs=_POWERS)
        found = np.asarray(super().tick_values(vmin, vmax))
        if np.count_nonzero((vmin <= found) & (found <= vmax)) > 1:
            return found
        self.set_params(subs=_BETWEEN)
        return super().tick_values(vmin, vmax)


def log_ticks(axis: Any, *, each: bool = False) -> None:
    """Write powers of ten as plain numbers, with `each` those between that begin with 2 and 5.

    So are these where powers of ten alone would leave an axis with one number, or none.
    """
    make, parts = (LogLocator, _BETWEEN) if each else (_RoundLocator, _POWERS)
    axis.set_major_locator(make(10.0, subs=parts, numticks=8))
    axis.set_major_formatter(style.number_ticks())
    axis.set_minor_formatter(NullFormatter())


def _percent(share: float, _: object) -> str:
    return f"{number(100 * share)}%"


def _grid(panel: Axes) -> None:
    panel.grid(axis="y", color=style.GRID, linewidth=0.6)
