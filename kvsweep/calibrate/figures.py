"""Figures of a calibration: measured and simulated in the same axes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from kvsweep.calibrate.comparison import Floats
from kvsweep.calibrate.prefix_results import PrefixResult
from kvsweep.calibrate.results import ServedResult
from kvsweep.calibrate.served import arrivals, per_token
from kvsweep.plot import saving, style

_LABELS = {
    "running": "running requests",
    "waiting": "waiting requests",
    "kv_cache_pct": "KV cache in use (%)",
}
_WIDTH = 7.0  # inches, two columns of a paper
_REAL, _SIMULATED = style.colour(6), style.colour(1)


def draw_served(found: ServedResult, stem: Path) -> Path | None:
    """Write ``STEM-requests.png`` and, where the server logged any series, ``STEM-series.png``.

    Without series a figure of an earlier run's is removed.

    Returns
    -------
    Path or None
        What stands in its place and was not drawn by kvsweep.
    """
    with style.drawing():
        figure = style.new_figure(2.4, _WIDTH)
        panels = figure.subplots(1, 3, sharey=True)
        for panel, (label, real, simulated) in zip(panels, _latencies(found), strict=True):
            _distribution(panel, real, _REAL, "-", "measured")
            _distribution(panel, simulated, _SIMULATED, style.dash(1), "simulated")
            panel.set_xlabel(label)
            panel.grid(color=style.GRID, linewidth=0.6)
        panels[0].set_ylabel("share of requests")
        _legend_above(figure, panels[0])
        saving.save(figure, _named(stem, "requests"))
        series = _named(stem, "series")
        if found.series:
            _draw_series(found, series)
        elif saving.is_own(series):
            series.unlink()
        return None if found.series or not series.exists() else series


def _named(stem: Path, what: str) -> Path:
    return stem.with_name(f"{stem.name}-{what}.png")


def _latencies(found: ServedResult) -> list[tuple[str, Floats, Floats]]:
    served, simulated = found.served, found.part.simulated
    tokens = per_token(simulated.first, simulated.last, served.requests.output_tokens)
    start, arrival = served.arrival, arrivals(served.requests, simulated.last)
    return [
        ("time to first token (s)", served.first - start, simulated.first - arrival),
        ("time per output token (ms)", 1e3 * served.token_s, 1e3 * tokens),
        ("time to last token (s)", served.last - start, simulated.last - arrival),
    ]


def _distribution(panel: Axes, values: Floats, colour: str, dash: object, label: str) -> None:
    ordered = np.sort(values[~np.isnan(values)])
    shares = np.arange(1, len(ordered) + 1) / len(ordered)
    panel.step(ordered, shares, where="post", color=colour, linestyle=dash, label=label)


def _draw_series(found: ServedResult, path: Path) -> None:
    figure = style.new_figure(1.35 * len(found.series) + 0.4, _WIDTH)
    panels = figure.subplots(len(found.series), 1, sharex=True, squeeze=False)[:, 0]
    times = found.served.series["t"]
    for panel, (name, simulated) in zip(panels, found.series.items(), strict=True):
        panel.plot(times, found.served.series[name], color=_REAL, label="measured")
        panel.plot(times, simulated, color=_SIMULATED, linestyle=style.dash(1), label="simulated")
        panel.axvspan(0, found.part.until, color=style.GRID, alpha=0.5, linewidth=0)
        panel.set_ylabel(_LABELS[name])
        panel.set_ylim(bottom=0)
        panel.set_xlim(0, times[-1])
    panels[0].text(0, 0, " fitted to this part", va="bottom", color=style.FAINT_INK)
    _legend_above(figure, panels[0])
    panels[-1].set_xlabel("time since the first arrival (s)")
    saving.save(figure, path)


def _legend_above(figure: Figure, panel: Axes) -> None:
    """Write the legend of a panel above all of them, where no curve can be."""
    handles, labels = panel.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper right", ncols=2)


def draw_prefix(found: PrefixResult, stem: Path) -> None:
    """Write ``STEM-ttft.png``: time to first token over the tokens computed for it."""
    with style.drawing():
        figure = style.new_figure(2.4)
        panel = figure.subplots()
        computed = [cell.trial.computed for cell in found.cells]
        panel.plot(computed, [cell.measured_ms for cell in found.cells], "o", markersize=4,
                   color=_REAL, label="measured, median")  # fmt: skip
        # No line: between two sizes the times bend, and of one length prefixes differ.
        panel.plot(computed, [cell.fitted_ms for cell in found.cells], "o", markersize=8,
                   fillstyle="none", color=style.colour(0),
                   label="simulated, fitted to all sizes")  # fmt: skip
        predicted = [cell.predicted_ms for cell in found.cells]
        if not np.isnan(predicted).all():
            panel.plot(computed, predicted, "x", markersize=4, color=_SIMULATED,
                       label="simulated, fitted to the other sizes")  # fmt: skip
        panel.set_xlabel("prompt tokens computed")
        panel.set_ylabel("time to first token (ms)")
        panel.set_ylim(bottom=0)
        panel.grid(color=style.GRID, linewidth=0.6)
        panel.legend(loc="lower right")
        saving.save(figure, _named(stem, "ttft"))
