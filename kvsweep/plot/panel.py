"""The panel that a figure of one panel is drawn in: of a figure of its own, or the caller's."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal

import matplotlib as mpl
import numpy as np
from matplotlib.text import Text

from kvsweep.analysis import variables
from kvsweep.errors import InputError
from kvsweep.plot import style

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import ArrayLike

    from kvsweep.analysis.cliff_records import Cliff

# Of a threshold: limits beside it, of a few times as much, are numbers too.
SMALLEST, LARGEST = 1e-300, 1e300


def one_panel(
    ax: Axes | None, ds: xr.Dataset, height: float, fallback: str = "", width: float | None = None
) -> Axes:
    """Return the caller's panel, or that of a new figure with the dataset's title.

    Parameters
    ----------
    ax : Axes or None
        The caller's.
    ds : xr.Dataset
        Has title and question.
    height, width : float
        Of a new figure, in inches.
    fallback : str
        Title of a dataset that has none.
    """
    if ax is not None:
        return dressed(ax)
    figure = style.new_figure(height, width or style.COLUMN_WIDTH)
    panel = figure.subplots()
    style.title(figure, ds, fallback)
    return panel


def dressed(ax: Axes) -> Axes:
    """Give the caller's panel the look of the others, within `style.drawing`; return it."""
    given: Any = mpl.rcParams
    _make_plain(ax)
    style.note_made(ax)
    for axis, name in ((ax.xaxis, "xtick"), (ax.yaxis, "ytick")):
        axis.set_tick_params(
            labelsize=given[f"{name}.labelsize"],
            width=given[f"{name}.major.width"],
            length=given[f"{name}.major.size"],
            color=given[f"{name}.color"],
            labelcolor=given[f"{name}.labelcolor"],
        )
        axis.label.set(fontsize=given["axes.labelsize"], color=given["axes.labelcolor"])
    for name in ("top", "right"):
        ax.spines[name].set_visible(False)
    ax.spines[:].set(linewidth=given["axes.linewidth"], edgecolor=given["axes.edgecolor"])
    ax.set_facecolor(given["axes.facecolor"])
    ax.set_axisbelow(True)
    return ax


def _make_plain(ax: Axes) -> None:
    """Let no text of the caller's panel that is about to be written be read as TeX.

    Each text keeps the settings under which it was made. What the caller wrote stays as it is.
    """
    of_axes = {id(text) for axis in (ax.xaxis, ax.yaxis) for text in axis.findobj(Text)}
    for text in ax.findobj(Text):
        if id(text) in of_axes or not text.get_text():
            text.set(parse_math=False, usetex=False)


def refuse_panels(ax: Axes | None, count: int) -> None:
    """Refuse to draw several panels in the caller's.

    Raises
    ------
    InputError
        If they do not fit.
    """
    if ax is not None and count > 1:
        raise InputError(f"ax: is one panel, {count} are needed; select values with .sel()")


def refuse_empty(metric: str, values: Iterable[ArrayLike]) -> None:
    """Refuse to draw a measure of which there is nothing to be seen, or more than an axis has.

    Raises
    ------
    InputError
        If no value is a number, or one is infinite, as in a measure of the caller's own.
    """
    arrays = [np.asarray(some, np.float64) for some in values]
    if all(np.isnan(some).all() for some in arrays):
        raise InputError(f"no cell has a value of {metric}")
    if any(np.isinf(some).any() for some in arrays):
        raise InputError(
            f"{metric}: has infinite values, which no axis has: let them be NaN, as by "
            ".where(abs(array) < inf)"
        )


def begin_at_zero(panel: Axes, which: Literal["x", "y"], values: Iterable[ArrayLike]) -> None:
    """Let an axis on which all values are 0 go up from there: of such measures none is less."""
    if not any(np.nan_to_num(np.asarray(some, np.float64)).any() for some in values):
        panel.update_datalim([(1.0, 1.0)], updatex=which == "x", updatey=which == "y")
        panel.autoscale_view()


def check_found_in(ds: xr.Dataset, cliff: Cliff) -> None:
    """Refuse to draw a cliff with a dataset that it was not found in.

    Raises
    ------
    InputError
        Naming what differs first: the measure, its axes, their values or the number of seeds.
    """
    if differs := _difference(ds, cliff):
        raise InputError(f"cliff: was found in another dataset: {differs}")


def _difference(ds: xr.Dataset, cliff: Cliff) -> str:
    """Say what a cliff was found in that is not in `ds`; empty if all is."""
    try:
        array = variables.get(ds, cliff.metric)
    except InputError as error:
        return str(error)
    labels = [dict(group.labels) for group in cliff.groups]
    axes = {cliff.along, *labels[0], *(["seed"] if cliff.seeds else [])}
    if lacking := sorted(axes - set(map(str, array.dims))):
        return f"{cliff.metric} has no axis {lacking[0]!r} here"
    if further := sorted(set(map(str, array.dims)) - axes):
        return f"{cliff.metric} has the axis {further[0]!r} here"
    values = {name: {each[name] for each in labels} for name in labels[0]}
    values[cliff.along] = set(cliff.axis.tolist())
    for name, known in values.items():
        if known != set(array[name].values.tolist()):
            return f"{name!r} has other values here"
    if cliff.seeds and cliff.seeds != array.sizes["seed"]:
        return f"{array.sizes['seed']} seeds here, {cliff.seeds} there"
    return ""


def check_threshold(threshold: float, name: str = "threshold") -> None:
    """Refuse to draw a threshold with which no axis can calculate.

    Parameters
    ----------
    threshold : float
    name : str
        What it was given as, for messages.

    Raises
    ------
    InputError
        If it is too large, or too close to 0.
    """
    if threshold and not SMALLEST <= abs(threshold) <= LARGEST:
        raise InputError(
            f"{name}: {threshold:g} cannot be drawn, only 0 and {SMALLEST:g} to {LARGEST:g} "
            "on either side"
        )


def lay_out(figure: Figure) -> None:
    """Give the panels their places, so that names can be set apart by inches.

    Where there is no room for panels the figure is refused when it is drawn.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine.execute(figure)


def figure_of(panel: Axes) -> Figure:
    """Return the figure of a panel, that of a part of a figure too."""
    return panel.figure.figure
