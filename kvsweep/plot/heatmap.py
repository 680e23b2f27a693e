"""One measure over two axes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize
from matplotlib.ticker import FuncFormatter

from kvsweep.analysis import variables
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.variables import HIGHER_IS_BETTER
from kvsweep.analysis.wording import label, level, number
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.medium import current

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# A positive measure that spans more than this factor is coloured on a logarithmic scale.
LOG_FACTOR = 200.0

MAX_PANELS = 6


@checked
def plot_heatmap(
    ds: xr.Dataset, metric: str, x: str, y: str, threshold: float | None = None
) -> Figure:
    """Draw the mean over seeds of `metric` over axes `x` and `y`.

    Axes of names and uneven numeric axes are drawn as equal cells with their values; blocks have
    their GiB below them where the bytes of a token are known. At most one
    more dimension may be left: one panel per value of it. Cells without a result are hatched.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep; dimension ``seed`` (optional) holds paired repetitions.
    metric : str
        A measure, or a quantile of one (``ttft_p99_ms``).
    x, y : str
        Two axes, of numbers or names.
    threshold : float, optional
        Where the measure passes it a line is drawn.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For an unknown measure or axis, equal axes, or more panels than `MAX_PANELS`.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(policy="base")
    >>> figure = kvsweep.plot.plot_heatmap(ds, "preemption_rate", x="gpu_blocks", y="rate")
    >>> kvsweep.plot.save(figure, "heatmap.png")
    """
    for name in (x, y):
        variables.axis(ds, name, numeric=False)
    array = variables.get(ds, metric)
    rest = [str(d) for d in array.dims if d not in (x, y, "seed")]
    if x == y or x not in array.dims or y not in array.dims:
        raise InputError(f"heatmap: {metric!r} needs two different axes, not {x!r} and {y!r}")
    panels = array.sizes[rest[0]] if rest else 1
    if len(rest) > 1 or panels > MAX_PANELS:
        raise InputError(
            f"heatmap: dimensions {', '.join(rest)} are left over; select a value of them with "
            f".sel(), at most {MAX_PANELS} panels fit"
        )
    mean = array.mean("seed", keep_attrs=True) if "seed" in array.dims else array
    mean = mean.transpose(*rest, y, x)
    with style.style():
        figure, axes = _panels(panels)
        style.title(figure, ds)
        norm, gib = _norm(mean.values), {name: unit_gib(ds, name) for name in (x, y)}
        for i, panel in enumerate(axes):
            image = _draw(panel, mean.isel({rest[0]: i}) if rest else mean, norm, gib)
            if threshold is not None:
                _draw_threshold(panel, mean.isel({rest[0]: i}) if rest else mean, threshold)
            if rest:
                name = label({rest[0]: mean[rest[0]].values[i]})
                panel.set_title(name, loc="left", fontsize=7.5)
        bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02, aspect=25)
        bar.outline.set_visible(False)
        if isinstance(norm, LogNorm):
            bar.formatter = FuncFormatter(lambda value, _: number(value))
        else:
            style.group_thousands(bar.ax, "y")
        long = panels > 1 and not current().is_slide
        bar.set_label(_told(array, metric, threshold, 48 if long else 28), fontsize=7.5)
    return figure


def _panels(count: int) -> tuple[Figure, list[Axes]]:
    """Return panels one below the other, but two beside each other if they are more than two."""
    if count <= 2 or current().is_slide:
        figure = style.new_figure(height=0.7 + 2.1 * count)
        return figure, style.panels(figure, count)
    rows = -(-count // 2)
    figure = style.new_figure(height=0.7 + 2.1 * rows, width=2.0 * style.COLUMN_WIDTH)
    axes = list(figure.subplots(rows, 2, squeeze=False).ravel())
    for empty in axes[count:]:
        empty.remove()
    return figure, axes[:count]


def _told(array: xr.DataArray, metric: str, threshold: float | None, characters: int) -> str:
    """Return what the colours are of, in lines that a colour bar is as long as."""
    better = "more" if metric in HIGHER_IS_BETTER else "less"
    line = "" if threshold is None else f"; line: {number(threshold)}"
    name = textwrap.fill(" ".join(style.axis_label(array).split()), characters)
    return f"{name}\n{better} is better{line}"


def _draw_threshold(panel: Axes, table: xr.DataArray, threshold: float) -> None:
    """Draw the line between cells on either side of a threshold, along their edges."""
    past = table.values > threshold
    known = ~np.isnan(table.values)
    lines = []
    for row, column in zip(*np.nonzero(past[:, 1:] != past[:, :-1]), strict=True):
        if known[row, column] and known[row, column + 1]:
            lines.append([(column + 0.5, row - 0.5), (column + 0.5, row + 0.5)])
    for row, column in zip(*np.nonzero(past[1:] != past[:-1]), strict=True):
        if known[row, column] and known[row + 1, column]:
            lines.append([(column - 0.5, row + 0.5), (column + 0.5, row + 0.5)])
    for colour, width in (("#000000", 2.2), ("#ffffff", 1.0)):  # seen on any cell
        panel.add_collection(LineCollection(lines, colors=colour, linewidths=width))


def _norm(values: Floats) -> Normalize:
    """Choose a linear or logarithmic scale from the values themselves."""
    known = values[~np.isnan(values)]
    if known.size == 0:
        return Normalize(0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    return LogNorm(low, high) if 0.0 < low * LOG_FACTOR < high else Normalize(low, high)


def _draw(
    panel: Axes, table: xr.DataArray, norm: Normalize, gib: dict[str, float | None]
) -> AxesImage:
    """Draw one table (y, x) as equal cells, ticks at the values; `gib`: of a unit of an axis."""
    y, x = (str(d) for d in table.dims)
    panel.set_facecolor(current().theme.empty)
    panel.patch.set_hatch("////")
    panel.patch.set_edgecolor(current().theme.hatch)
    image = panel.imshow(
        table.values, origin="lower", aspect="auto", cmap="cividis", norm=norm, interpolation="none"
    )
    for name, which in ((x, panel.xaxis), (y, panel.yaxis)):
        values = table[name].values
        step = max(1, int(np.ceil(len(values) / 6)))
        places = np.arange(0, len(values), step)
        texts = [
            level(v) if isinstance(v, str | np.bool_) else style.with_memory(float(v), gib[name])
            for v in values[places]
        ]
        which.set_ticks(places, labels=texts)
    panel.set_xlabel(style.memory_label(table[x], gib[x]))
    panel.set_ylabel(style.memory_label(table[y], gib[y]))
    panel.spines[:].set_visible(False)
    return image
