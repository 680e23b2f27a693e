"""One measure over two axes."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.colors import LogNorm, Normalize

from kvsweep.analysis import variables
from kvsweep.analysis.gib import unit_gib
from kvsweep.analysis.statistics import Floats
from kvsweep.analysis.wording import BY_VALUE, label, level, number, seeds_counted
from kvsweep.arguments import checked
from kvsweep.errors import InputError
from kvsweep.plot import style
from kvsweep.plot.labels import LINE_HEIGHT, elided, panel_title
from kvsweep.plot.medium import current
from kvsweep.plot.panel import (
    check_threshold,
    dressed,
    figure_of,
    refuse_empty,
    refuse_panels,
)
from kvsweep.plot.ticks import evened_labels, labelled, width_of

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.colorbar import Colorbar
    from matplotlib.figure import Figure
    from matplotlib.image import AxesImage

# A positive measure that spans more than this factor is coloured on a logarithmic scale.
LOG_FACTOR = 200.0

MAX_PANELS = 6

BESIDE = 26  # letters of a line beside a panel

TITLE = 36  # letters above a panel
WIDE_NAME = 14  # letters beside a panel that then has room for few numbers below

DRAWN = 0.75  # of a panel's size, that is left once its labels have their room
COLUMNS = 2.0  # inches that names of columns have in a column of a paper
ROW = 0.17  # inches of a row that has a name
TALLEST = 20.0  # inches of all rows


@checked
def plot_heatmap(
    ds: xr.Dataset,
    metric: str,
    x: str,
    y: str,
    threshold: float | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the mean over seeds of `metric` over axes `x` and `y`.

    Axes of names, in their order, and uneven numeric axes, ascending, are drawn as equal cells with
    their values; blocks have their GiB below them where the bytes of a token are known. At most one
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
    ax : matplotlib.axes.Axes, optional
        Draw in this panel instead of a figure of its own, the colours beside it; of one table.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        For an unknown measure or axis, a measure without a value in any cell, equal axes, or more
        panels than `MAX_PANELS`.

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
            f"heatmap: dimensions {', '.join(rest)} are left over, where one may be, of at most "
            f"{MAX_PANELS} values, each a panel; select values of them: {BY_VALUE}"
        )
    refuse_empty(metric, [array.values])
    if threshold is not None:
        check_threshold(threshold)
    mean = array.mean("seed", keep_attrs=True) if "seed" in array.dims else array
    # Of many numbers some are told: what is between two of them must lie between.
    numbers = [name for name in (x, y) if name in mean.coords and _is_numeric(mean[name])]
    mean = mean.sortby(numbers).transpose(*rest, y, x)
    refuse_panels(ax, panels)
    slide = current().is_slide
    with style.drawing():
        axes, rooms = (
            _panels(ds, panels, _height(mean[x], mean[y])) if ax is None else ([dressed(ax)], [])
        )
        norm, gib = _norm(mean.values), {name: unit_gib(ds, name) for name in (x, y)}
        for i, panel in enumerate(axes):
            table, beside = mean.isel({rest[0]: i}) if rest else mean, panels > 1 and slide
            image = _draw(panel, table, norm, gib, beside=beside)
            if threshold is not None:
                _draw_threshold(panel, table, threshold)
            if rest:
                name = label({rest[0]: mean[rest[0]].values[i]})
                panel.set_title(panel_title(name, TITLE), loc="left", fontsize=7.5)
        _tell_once(axes)
        bar = _bar(image, axes, rooms)
        long = panels > 1 and not slide
        bar.set_label(_told(array, metric, threshold, 48 if long else 36), fontsize=7.5)
    return figure_of(axes[0])


def _panels(ds: xr.Dataset, count: int, height: float) -> tuple[list[Axes], list[Axes]]:
    """Return the panels of a new figure, and those that are left over.

    They stand one below the other, but two beside each other if they are more than two; each is
    so many inches high.
    """
    several = count > 2 and not current().is_slide
    rows = -(-count // 2) if several else count
    width = (2.0 if several else 1.0) * style.COLUMN_WIDTH
    figure = style.new_figure(height=0.7 + rows * height, width=width)
    grid = figure.subplots(rows, 2).ravel() if several else style.panels(figure, count)
    style.title(figure, ds)
    return list(grid[:count]), list(grid[count:])


def _tell_once(axes: list[Axes]) -> None:
    """Leave out of a panel what the one to its left, or the one below, tells of the same axis."""
    if len(axes) < 2:
        return
    specs = [(panel, panel.get_subplotspec()) for panel in axes]
    places = {(spec.rowspan.start, spec.colspan.start): panel for panel, spec in specs if spec}
    for (row, column), panel in places.items():
        if (row, column - 1) in places:
            panel.set_ylabel("")
            panel.tick_params(labelleft=False)
        if (row + 1, column) in places:
            panel.set_xlabel("")
            panel.tick_params(labelbottom=False)


def _height(x: xr.DataArray, y: xr.DataArray) -> float:
    """Return the inches of a panel in a column, that has room for the names of its axes."""
    rows = 0 if _is_numeric(y) else min(ROW * y.size, TALLEST)  # beyond, some names are left out
    height = max(2.1, 0.5 + rows)
    if _is_numeric(x):
        return height
    names = elided([level(value) for value in x.values])
    upright = len(names) * width_of(names) > COLUMNS
    return height + (width_of(names) if upright else 0.0)


def _is_numeric(axis: xr.DataArray) -> bool:
    return axis.dtype.kind in "iuf"


def _bar(image: AxesImage, axes: list[Axes], rooms: list[Axes]) -> Colorbar:
    """Draw the colours: in the middle of a panel that is left over, or beside all panels."""
    figure = figure_of(axes[0])
    for room in rooms:
        room.axis("off")
        place = room.inset_axes((0.02, 0.6, 0.96, 0.07))
        bar = figure.colorbar(image, cax=place, orientation="horizontal")
    if not rooms:
        bar = figure.colorbar(image, ax=axes, shrink=0.9, pad=0.02, aspect=25)
    bar.outline.set_visible(False)
    if isinstance(image.norm, LogNorm):
        bar.formatter = style.number_ticks()
    else:
        style.group_thousands(bar.ax, "x" if rooms else "y")
    return bar


def _told(array: xr.DataArray, metric: str, threshold: float | None, characters: int) -> str:
    """Return what the colours are of, in lines that a colour bar is as long as."""
    better = variables.better(metric)
    told = [f"{better} is better"] if better else []
    told += [] if threshold is None else [f"line: {number(threshold)}"]
    seeds = [dim for dim in array.dims if dim == "seed"]
    told += ["hatched: no value"] if bool(array.isnull().all(seeds).any()) else []
    name = textwrap.fill(" ".join(style.axis_label(array).split()), characters)
    means, rest = _means_of(array), textwrap.fill("; ".join(told), characters)
    one = "; ".join(filter(None, [means, rest]))
    return "\n".join(filter(None, [name, one] if len(one) <= characters else [name, means, rest]))


def _means_of(array: xr.DataArray) -> str:
    """Say how many seeds the means are of; nothing of a single one."""
    if "seed" not in array.dims:
        return ""
    counts = [count for count in array.count("seed").values.ravel().tolist() if count]
    if max(counts) < 2:
        return ""
    return f"mean over {seeds_counted(counts, array.sizes['seed'])}"


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
    low, high = float(known.min()), float(known.max())
    if low == high == 0.0:  # of measures that are 0 none is less
        return Normalize(0.0, 1.0)
    return LogNorm(low, high) if 0.0 < low * LOG_FACTOR < high else Normalize(low, high)


def _draw(
    panel: Axes,
    table: xr.DataArray,
    norm: Normalize,
    gib: dict[str, float | None],
    *,
    beside: bool,
) -> AxesImage:
    """Draw one table (y, x) as equal cells, ticks at the values; `gib`: of a unit of an axis.

    Panels `beside` each other on a slide have room for few ticks.
    """
    y, x = (str(d) for d in table.dims)
    panel.set_facecolor(current().theme.empty)
    panel.patch.set_hatch("////")
    panel.patch.set_edgecolor(current().theme.hatch)
    image = panel.imshow(
        table.values, origin="lower", aspect="auto", cmap="cividis", norm=norm, interpolation="none"
    )
    named = () if _is_numeric(table[y]) else table[y].values  # text of whatever data type
    longest = max((len(level(value)) for value in named), default=0)
    numbers = 3 if beside or longest > WIDE_NAME else 4 if longest > WIDE_NAME // 2 else 6
    for name, which in ((x, "x"), (y, "y")):
        if _is_numeric(table[name]):
            lines = 1 if gib[name] is None else 2
            most = numbers if which == "x" else max(2, min(6, int(_rows(panel) / lines)))
            _tick_numbers(panel, which, table[name].values, gib[name], most)
        else:
            _tick_names(panel, which, [level(value) for value in table[name].values])
    panel.set_xlabel(style.memory_label(table[x], gib[x]))
    panel.set_ylabel(style.memory_label(table[y], gib[y], BESIDE))
    panel.spines[:].set_visible(False)
    return image


def _tick_numbers(panel: Axes, which: str, values: Floats, gib: float | None, most: int) -> None:
    """Write some of the numbers of an axis, at equal steps."""
    places = np.arange(0, len(values), -(-len(values) // most))
    drawn = [float(value) for value in values[places]]
    texts = [labelled(value, gib) for value in drawn]
    if len(set(texts)) < len(texts):
        texts = evened_labels(drawn, gib)
    _axis(panel, which).set_ticks(places, labels=texts)


def _tick_names(panel: Axes, which: str, names: list[str]) -> None:
    """Write all names of an axis, which have no order: nobody could tell those left out.

    They stand upright below the panel where they would touch. If there is no room for that, some
    are left out.
    """
    names = elided(names)
    width = DRAWN * panel.bbox.width / figure_of(panel).dpi
    upright = which == "x" and len(names) * width_of(names) > width
    beside = which == "x" and not upright
    rows = width / LINE_HEIGHT if upright else _rows(panel)
    step = 1 if beside else max(1, int(np.ceil(len(names) / rows)))
    places = np.arange(0, len(names), step)
    texts = [names[place] for place in places]
    _axis(panel, which).set_ticks(places, labels=texts, rotation=90 if upright else 0)


def _rows(panel: Axes) -> float:
    """Return how many lines have room beside a panel."""
    return DRAWN * panel.bbox.height / figure_of(panel).dpi / LINE_HEIGHT


def _axis(panel: Axes, which: str) -> Axis:
    return panel.xaxis if which == "x" else panel.yaxis
