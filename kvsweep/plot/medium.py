"""For which medium figures are drawn: a column of a paper or a slide, on light or dark ground."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from matplotlib.figure import Figure

from kvsweep.arguments import checked
from kvsweep.errors import InputError, did_you_mean, shown

STYLES = ("column", "slide")
MOST_INCHES = 100


@dataclass(frozen=True)
class Theme:
    """Colours of the ground and of what is drawn on it.

    Attributes
    ----------
    paper, ink, faint, grid, empty, hatch : str
        Ground; text; text of less weight and axes; grid lines; cells without a value and their
        hatching.
    colours : tuple of str
        Of members, in the order in which they stand out.
    """

    paper: str
    ink: str
    faint: str
    grid: str
    empty: str
    hatch: str
    colours: tuple[str, ...]


# M. Okabe and K. Ito, Color Universal Design (2008), in the order of contrast on white, without the
# yellow that a thin line loses on paper.
LIGHT = Theme(
    paper="#ffffff",
    ink="#222222",
    faint="#6b6b6b",
    grid="#e4e4e4",
    empty="#f2f2f2",
    hatch="#c8c8c8",
    colours=("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"),
)

# The same hues, those that are dark made lighter: each has a contrast of 5 and more on the ground.
DARK = Theme(
    paper="#15181d",
    ink="#e8eaed",
    faint="#a3a9b3",
    grid="#31363f",
    empty="#23272e",
    hatch="#4a515c",
    colours=("#56B4E9", "#F28E2B", "#2BC29B", "#E39AC4", "#F0E442", "#7F9CF5", "#FFFFFF"),
)


@dataclass(frozen=True)
class Look:
    """A medium.

    Attributes
    ----------
    style : str
        One of `STYLES`.
    theme : Theme
        Light or dark.
    size : tuple of float, optional
        Width and height in inches; None: as a kind of figure needs.
    title : str, optional
        Heading, none if empty; None: that of the dataset, and its question.
    """

    style: str = "column"
    theme: Theme = LIGHT
    size: tuple[float, float] | None = None
    title: str | None = None

    @property
    def is_slide(self) -> bool:
        """Whether figures are as wide as a slide."""
        return self.style == "slide"


_USUAL = Look()
_look: ContextVar[Look] = ContextVar("look", default=_USUAL)

# An attribute of a figure, its medium: pickled and copied with it.
_LOOK = "_kvsweep_look"


def current() -> Look:
    """Return the medium of the figures that are made now."""
    return _look.get()


def remember(figure: Figure) -> Figure:
    """Note the medium of a new figure, whose ticks are made when it is drawn; return it."""
    vars(figure)[_LOOK] = current()
    return figure


@contextmanager
def look_of(figure: Figure) -> Iterator[None]:
    """Draw a figure for the medium that it was made for."""
    token = _look.set(vars(figure).get(_LOOK, current()))
    try:
        yield
    finally:
        _look.reset(token)


@checked
@contextmanager
def look(
    style: str = "column",
    dark: bool = False,
    size: tuple[float, float] | None = None,
    title: str | None = None,
) -> Iterator[None]:
    """Draw the figures that are made in the block for another medium.

    Parameters
    ----------
    style : str
        ``column``: 3.5 inches wide, of a paper of two columns. ``slide``: 7 inches wide in the
        shape of a slide, 16 to 9, where letters are as large as on a slide when it fills it.
    dark : bool
        On dark ground.
    size : tuple of float, optional
        Width and height in inches; letters stay as large as they are.
    title : str, optional
        Heading instead of the dataset's title and question; empty: none.

    Raises
    ------
    InputError
        For another style, or a size of less than 1 or more than 100 inches.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0)
    >>> with kvsweep.plot.look("slide", dark=True):
    ...     figure = kvsweep.plot.plot_curve(ds, "ttft_p99_ms", along="gpu_blocks")
    >>> kvsweep.plot.save(figure, "slide.png")
    """
    if style not in STYLES:
        hint = did_you_mean(style, list(STYLES))
        raise InputError(f"style: unknown {shown(style)}; allowed: {', '.join(STYLES)}{hint}")
    if size is not None and not all(1 <= inches <= MOST_INCHES for inches in size):
        width, height = size
        raise InputError(
            f"size: {width:g} x {height:g} inches are not 1 to {MOST_INCHES} inches each way"
        )
    token = _look.set(Look(style, DARK if dark else LIGHT, size and (size[0], size[1]), title))
    try:
        yield
    finally:
        _look.reset(token)
