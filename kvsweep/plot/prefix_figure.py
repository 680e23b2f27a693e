"""What losing a prefix costs: time to first token and throughput over context B."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator

from kvsweep.analysis.prefix_cost import Line, PrefixCost
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.llama.design import CONDITIONS
from kvsweep.plot import style
from kvsweep.plot.labels import label_ends

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Measures, and the heights of their panels in inches inside the axes.
PANELS = {"ttft_ms": 1.8, "throughput_tok_s": 0.8}

# Attributes of a measurement that the heading names.
_ABOUT = ("model_file", "runtime", "runtime_version", "threads")

# Single trials stand this far from the median, as a share of the range of B.
ASIDE = {"hit": -0.02, "miss": 0.02}


@checked
def plot_prefix(ds: xr.Dataset, cost: PrefixCost) -> Figure:
    """Draw time to first token and throughput over the tokens of B.

    Large dots are medians, the small ones beside them single trials, hits left and misses right.
    Lines join the medians, but those of the time of the misses: there it is the fitted line.

    Parameters
    ----------
    ds : xr.Dataset
        Of ``kvsweep measure prefix``.
    cost : PrefixCost
        Found in it.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For a dataset of something else, or without a size of which `cost` tells.

    Examples
    --------
    >>> import kvsweep.plot, xarray
    >>> from kvsweep.analysis.prefix_cost import prefix_cost
    >>> ds = xarray.open_zarr("prefix.zarr")
    >>> kvsweep.plot.save(kvsweep.plot.plot_prefix(ds, prefix_cost(ds)), "prefix.png")
    """
    _check_measured(ds, cost)
    with style.drawing():
        figure = style.new_figure(height=1.3 + sum(PANELS.values()))
        panels = figure.subplots(2, 1, sharex=True, height_ratios=list(PANELS.values()))
        style.title(figure, ds.assign_attrs(question=_what(ds)))
        for panel, (name, height) in zip(panels, PANELS.items(), strict=True):
            fits = {"miss": cost.miss} if name == "ttft_ms" else {}
            ends = [_draw(panel, ds, cost, name, i, fits.get(c)) for i, c in enumerate(CONDITIONS)]
            panel.set_ylim(0.0, 1.12 * panel.get_ylim()[1])
            panel.set_title(style.axis_label(ds[name]), loc="left", fontsize=7.5)
            panel.grid(axis="y", color=style.GRID, linewidth=0.6)
            style.group_thousands(panel, "y")
            label_ends(panel, list(zip(CONDITIONS, ends, strict=True)), height)
        if cost.miss:
            _tell_fit(panels[0], cost.miss)
        panels[1].set_xlabel(style.axis_label(ds["context_b"]))
        panels[1].xaxis.set_major_locator(FixedLocator([size.b for size in cost.sizes]))
    return figure


def _check_measured(ds: xr.Dataset, cost: PrefixCost) -> None:
    """Refuse results of something else, and those that the cost was not found in."""
    if not {*_ABOUT} <= ds.attrs.keys() or not {*PANELS, "context_b", "size"} <= {*ds.variables}:
        raise InputError("ds: needs results of `kvsweep measure prefix`")
    there = {str(size) for size in ds["size"].values.ravel()}
    for size in cost.sizes:
        if size.label not in there:
            raise InputError(f"cost: was found in another dataset: no size {size.label!r} here")


def _what(ds: xr.Dataset) -> str:
    """Say what was measured on what."""
    about = ds.attrs
    threads = f"{about['threads']} thread{'' if about['threads'] == 1 else 's'}"
    return (
        f"After [A, B]: hit [A, B, Q], miss [B, Q]. {about['model_file']}, {about['runtime']} "
        f"{about['runtime_version']}, {threads}"
    )


def _draw(
    panel: Axes, ds: xr.Dataset, cost: PrefixCost, name: str, index: int, fit: Line | None
) -> float:
    """Draw trials, medians and line of a condition; return the last median."""
    colour, condition = style.colour(index), CONDITIONS[index]
    b = np.array([size.b for size in cost.sizes], dtype=np.float64)
    aside = ASIDE[condition] * (float(np.ptp(b)) or b[0])
    for size in cost.sizes:
        trials = ds[name].sel(size=size.label, condition=condition).values
        x = np.full(trials.size, size.b + aside)
        panel.plot(x, trials, ".", color=colour, alpha=0.5, ms=3.5, mew=0)
    medians = np.array([getattr(size, name)[condition].median for size in cost.sizes])
    line = fit.intercept + fit.slope * b if fit else medians
    panel.plot(b, line, color=colour, linestyle=style.dash(index))
    panel.plot(b, medians, "o", color=colour, ms=3.5)
    return float(medians[-1])


def _tell_fit(panel: Axes, fit: Line) -> None:
    """Write slope and R2 into the corner that a rising line leaves free."""
    r2 = "" if np.isnan(fit.r2) else f", R\N{SUPERSCRIPT TWO} = {fit.r2:.3f}"
    panel.annotate(
        f"miss: {fit.slope:.3g} ms per token of B{r2}",
        (0.02, 0.98),
        xycoords="axes fraction",
        va="top",
        fontsize=7,
        color=style.colour(CONDITIONS.index("miss")),
        path_effects=[withStroke(linewidth=2.0, foreground=style.PAPER)],
    )
