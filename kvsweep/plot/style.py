"""The look of all figures: lettering, colours, titles and axis labels."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import RLock
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import FixedLocator, NullFormatter

from kvsweep.errors import printable
from kvsweep.plot.fonts import families
from kvsweep.plot.medium import current, remember
from kvsweep.plot.shown import ShownFigure
from kvsweep.plot.ticks import (
    MOST_SWEPT,
    FittingLocator,
    NumberFormatter,
    SweptLocator,
    scale_x,
)

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

# One column of a two-column paper, in inches; fonts are at their final size.
COLUMN_WIDTH = 3.5

SLIDE_WIDTH, SLIDE_HEIGHT = 7.0, 3.94

# Colour is never the only difference: lines that lie on each other stay both visible.
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.6)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))

HEADING = 3  # lines that heights of figures reckon with; more make a figure higher
LINE = 0.145  # inches of a line of a heading

LABEL_CHARACTERS = 48  # of a line of an axis label

# Colours of the theme that figures are made in, by `__getattr__`.
INK: str
FAINT_INK: str
GRID: str
PAPER: str
_THEMED = {"INK": "ink", "FAINT_INK": "faint", "GRID": "grid", "PAPER": "paper"}


_made: ContextVar[list[Artist] | None] = ContextVar("made", default=None)

# Matplotlib's settings are those of the process. Whoever has changed them holds this lock until
# they are back, and forks wait for that too: a child would keep what another thread had changed.
_settings = RLock()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_settings.acquire,
        after_in_parent=_settings.release,
        after_in_child=_settings.release,
    )


def __getattr__(name: str) -> str:
    if name not in _THEMED:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    colour: str = getattr(current().theme, _THEMED[name])
    return colour


_STYLE: dict[str, Any] = {
    "font.size": 7.5,
    "axes.labelsize": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "lines.linewidth": 1.3,
    "lines.solid_capstyle": "round",
    "legend.frameon": False,
    "legend.fontsize": 7,
    "figure.dpi": 200,
    "savefig.dpi": 300,
    "svg.hashsalt": "kvsweep",
    "pdf.fonttype": 42,  # TrueType: Type 3 fonts are refused by some publishers
    "figure.constrained_layout.use": True,
}


def _colours() -> dict[str, str]:
    """Return the settings that follow from the theme."""
    theme = current().theme
    inked = ("text.color", "axes.labelcolor", "xtick.labelcolor", "ytick.labelcolor")
    return {
        **dict.fromkeys(inked, theme.ink),
        **dict.fromkeys(("axes.edgecolor", "xtick.color", "ytick.color"), theme.faint),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), theme.paper),
    }


@contextmanager
def style() -> Iterator[None]:
    """Apply the look while a figure is made; the caller's own settings come back afterwards.

    Threads draw one after the other; within a thread blocks may be nested. In a block nothing waits
    for another thread, which may want to draw. What somebody else sets meanwhile, past the lock, is
    lost.
    """
    defaults: dict[Any, Any] = {
        key: value for key, value in mpl.rcParamsDefault.items() if not key.startswith("backend")
    }
    fonts = {"font.family": families()}
    with _settings, mpl.rc_context(defaults | _STYLE | fonts | _colours()):
        yield


@contextmanager
def drawing() -> Iterator[None]:
    """Apply the look while a figure is made of titles and names that are others' words.

    A dollar in them is a dollar. Texts keep the settings under which they were made, so those
    without one are Matplotlib's again afterwards: ticks, which logarithms write as TeX, and labels
    that are set later.
    """
    made: list[Artist] = []
    token = _made.set(made)
    with _settings:  # until the texts have the caller's setting, not that of another's figure
        try:
            with style(), mpl.rc_context({"text.parse_math": False}):
                yield
        finally:
            _made.reset(token)
        for text in (text for artist in made for text in artist.findobj(Text)):
            if "$" not in text.get_text():
                text.set(parse_math=mpl.rcParams["text.parse_math"])


def note_made(artist: Artist) -> None:
    """Tell `drawing` of a figure, or of a panel of the caller's, that is drawn into."""
    made = _made.get()
    if made is not None:
        made.append(artist)


def new_figure(height: float, width: float = COLUMN_WIDTH) -> Figure:
    """Return an empty figure, `width` by `height` inches, outside pyplot's list of figures.

    For slides all have the shape of a slide, but for those that are much taller.
    """
    if current().is_slide:
        width = SLIDE_WIDTH
        height = SLIDE_HEIGHT if height < 2 * SLIDE_HEIGHT else height
    width, height = current().size or (width, height)
    figure = ShownFigure(figsize=(width, height), layout="constrained")
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(w_pad=0.03, h_pad=0.03, hspace=0.04, wspace=0.04)  # type: ignore[call-arg]
    note_made(figure)
    return remember(figure)


def panels(figure: Figure, count: int, **shared: Any) -> list[Axes]:
    """Return `count` panels, one below the other in a column, side by side on a slide."""
    rows, columns = (1, count) if current().is_slide else (count, 1)
    return list(figure.subplots(rows, columns, squeeze=False, **shared).ravel())


def lowest(panels: Sequence[Axes]) -> Sequence[Axes]:
    """Return the panels of `panels` that no other stands below."""
    return panels if current().is_slide else panels[-1:]


def colour(index: int) -> str:
    """Colour of the `index`-th member; they repeat after the seventh."""
    colours = current().theme.colours
    return colours[index % len(colours)]


def dash(index: int) -> Any:
    """Line style of the `index`-th member."""
    return DASHES[index % len(DASHES)]


def title(figure: Figure, ds: xr.Dataset, fallback: str = "") -> None:
    """Head the figure with the dataset's title and, below, its question; room is made for both."""
    head(figure, ds.attrs.get("title") or fallback, ds.attrs.get("question", ""))


def head(figure: Figure, name: str, text: str) -> None:
    """Head the figure with a name and, below, a sentence; room is made for both.

    A title that was asked for takes the place of both; if it is empty there is no heading.
    """
    given = current().title
    name, text = (name, text) if given is None else (given, "")
    if not name and not text:
        return
    characters = int(figure.get_figwidth() / 0.059)
    heading = textwrap.wrap(printable(name), int(characters * 0.9))
    question = textwrap.wrap(printable(text), characters)
    if current().size is None and not current().is_slide:
        beyond = max(0, len(heading) + len(question) - HEADING)
        figure.set_figheight(figure.get_figheight() + LINE * beyond)
    top = 1.0 - 0.05 / figure.get_figheight()
    theme = current().theme
    for lines, weight, ink in ((heading, "bold", theme.ink), (question, "normal", theme.faint)):
        for line in lines:
            figure.text(0.015, top, line, va="top", fontsize=7.5, fontweight=weight, color=ink)
            top -= LINE / figure.get_figheight()
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.set(rect=(0.0, 0.0, 1.0, top))  # type: ignore[call-arg]


def axis_label(array: xr.DataArray, letters: int = LABEL_CHARACTERS) -> str:
    """Label with the unit: ``time to first token (ms)``; none for pure numbers.

    A unit that the name says already (blocks counted in ``block``) is not repeated.
    """
    name = str(array.attrs.get("long_name") or array.name)
    return with_unit(name, str(array.attrs.get("units", "1")), letters)


def with_unit(name: str, units: str, letters: int = LABEL_CHARACTERS) -> str:
    """Write a name with its unit, as `axis_label` does, in lines of so many letters."""
    said = len(units) > 2 and any(word.startswith(units) for word in name.split())
    text = name if units in ("1", "") or said else f"{name} ({units})"
    return textwrap.fill(text, letters, break_on_hyphens=False)


def group_thousands(axis: Axes, which: str, each_gib: float | None = None) -> None:
    """Write the tick labels of the ``x`` or ``y`` axis with thousands separated.

    Under each of them stands its memory, behind those of the ``y`` axis, if `each_gib` says how
    much GiB a unit of the axis is; `memory_label` tells so.
    """
    target = axis.xaxis if which == "x" else axis.yaxis
    if which == "x":
        target.set_major_locator(FittingLocator(each_gib))
    target.set_major_formatter(NumberFormatter(each_gib, beside=which == "y"))


def number_ticks() -> NumberFormatter:
    """Return what writes plain numbers at ticks; like all of a figure it can be pickled."""
    return NumberFormatter(None, even=False)


def number_axis(panel: Axes, axis: xr.DataArray, each_gib: float | None) -> None:
    """Write the x axis of a panel as `group_thousands` does, its limits given or those of lines.

    Of values over decades it is logarithmic, with labels at them. Whole numbers have no others
    between: there are no 4.5 instances. GiB stand below numbers of blocks whatever these are.
    """
    values = np.unique(np.asarray(axis.values, np.float64))
    if scale_x(panel, values):
        panel.xaxis.set_major_locator(SweptLocator(values, each_gib))
        panel.xaxis.set_major_formatter(NumberFormatter(each_gib))
        panel.xaxis.set_minor_locator(
            FixedLocator(values.tolist() if len(values) <= MOST_SWEPT else [])
        )
        panel.xaxis.set_minor_formatter(NullFormatter())
        return
    group_thousands(panel, "x", each_gib)
    if axis.dtype.kind in "iu" and each_gib is None:
        panel.locator_params("x", integer=True, min_n_ticks=1)


def memory_label(
    array: xr.DataArray,
    each_gib: float | None,
    letters: int = LABEL_CHARACTERS,
    where: str = "below",
) -> str:
    """Return the label of an axis whose numbers may have their memory below them, or elsewhere."""
    below = "" if each_gib is None else f"\n{where}: GiB on each GPU"
    return axis_label(array, letters) + below
