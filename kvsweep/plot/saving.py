"""Figures as files: the same bytes whenever they are drawn, and a word on what has no room."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from kvsweep.analysis.wording import BY_VALUE
from kvsweep.arguments import checked
from kvsweep.errors import InputError, PlainWarning, shown
from kvsweep.files import written
from kvsweep.plot.fitting import fit_labels, is_too_small
from kvsweep.plot.fonts import FONT, LACKING
from kvsweep.plot.medium import current, look_of
from kvsweep.plot.style import style
from kvsweep.plot.touching import in_each_other
from kvsweep.reading import open_regular

if TYPE_CHECKING:
    from matplotlib.layout_engine import LayoutEngine

# What a PNG says it was made with, within its first bytes.
MAKER = "kvsweep"
_HEAD = 4096

PIXELS = 96
"""Of a browser, to an inch."""

_GLYPH = re.compile(r"Glyph (\d+) .*missing from")


@checked
def save(figure: Figure, path: str | Path) -> None:
    """Write `figure` as PNG, SVG or PDF, by the suffix of `path`: no date, version or random id.

    Figures are drawn and written by one thread at a time, as Matplotlib's settings are those of the
    process; others wait, and so does a fork.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Of a function of this package.
    path : path
        Its suffix is ``.png``, ``.svg`` or ``.pdf``; a file that is there is replaced.

    Raises
    ------
    InputError
        For another suffix, a folder that does not exist, or a disk that is full.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> ds = kvsweep.open_results("results/small.zarr").sel(rate=200.0)
    >>> figure = kvsweep.plot.plot_curve(ds, "block_hit_rate", along="gpu_blocks")
    >>> kvsweep.plot.save(figure, "hits.svg")
    """
    path = Path(path)
    metadata: dict[str, dict[str, Any]] = {
        ".png": {"Software": MAKER},
        ".svg": {"Date": None, "Creator": None},
        ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    }
    if path.suffix.lower() not in metadata:
        raise InputError(f"{path}: figures are written as .png, .svg or .pdf")
    if not path.parent.is_dir():
        raise InputError(f"{path}: there is no folder {str(path.parent)!r}")
    kind = path.suffix.lower()
    drawn = BytesIO()  # first, as what is killed while it draws leaves no file then
    with look_of(figure), style(), _told_once(), _settled(figure):
        figure.savefig(drawn, format=kind[1:], metadata=metadata[kind])
    with written(path, binary=True) as file:
        file.write(drawn.getvalue())


def as_png(figure: Figure) -> bytes:
    """Return a figure as a notebook shows it, sharp on a screen of twice the usual pixels."""
    file = BytesIO()
    with look_of(figure), style(), _told_once(), _settled(figure):
        figure.savefig(file, format="png", dpi=2 * PIXELS, metadata={"Software": MAKER})
    return file.getvalue()


def as_svg(figure: Figure) -> str:
    """Return what `save` writes of a figure as SVG."""
    file = BytesIO()
    with look_of(figure), style(), _told_once(), _settled(figure):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    return file.getvalue().decode()


def is_own(path: Path) -> bool:
    """Whether `path` is a PNG that `save` wrote, which another may replace."""
    try:
        with open_regular(path) as file:
            return b"tEXtSoftware\0" + MAKER.encode() in file.read(_HEAD)
    except (InputError, OSError):
        return False


@contextmanager
def _told_once() -> Iterator[None]:
    """Tell of letters that the font lacks once, not of each in each text and drawing.

    Filters of warnings are those of the process too: of threads that go in and out in turn one
    would leave those of another. So this is entered by who draws alone, in a block of `style`.
    """
    letters: list[str] = []
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield
    for warning in found:
        if glyph := _GLYPH.match(str(warning.message)):
            letters.append(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    if letters:
        text = "".join(dict.fromkeys(letters))
        message = f"figure: {FONT} has no {shown(text)}: {LACKING}"
        warnings.warn(message, PlainWarning, stacklevel=4)


@contextmanager
def _settled(figure: Figure) -> Iterator[None]:
    """Fix the layout at rounded positions: the solver's last bits differ from run to run.

    Without an engine the figure is drawn once, not first for its layout (0.2 s).
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        _lay_out(figure, engine)
        fit_labels(figure, engine, lambda: _lay_out(figure, engine))
        if current().size is not None and is_too_small(figure):
            raise InputError(_without_room(figure))
    with mpl.rc_context({"figure.constrained_layout.use": False}):
        figure.set_layout_engine(None)
    for axes in figure.axes:
        left, bottom, width, height = (round(v, 9) for v in axes.get_position(True).bounds)
        axes.set_position((left, bottom, width, height))
    if current().size is not None and (told := in_each_other(figure)):
        width, height = figure.get_size_inches()
        message = f"size: {width:g} x {height:g} inches are too small: {told}"
        warnings.warn(message, PlainWarning, stacklevel=4)
    try:
        yield
    finally:
        figure.set_layout_engine(engine)


def _lay_out(figure: Figure, engine: LayoutEngine) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "constrained_layout not applied")
        try:
            engine.execute(figure)
        except UserWarning:
            raise InputError(_without_room(figure)) from None


def _without_room(figure: Figure) -> str:
    """Say what has no room in a figure whose panels have none: of a size that nobody gave, why."""
    width, height = figure.get_size_inches()
    inches = f"{width:g} x {height:g} inches"
    if current().size is not None:
        return f"size: {inches} have no room for a panel beside its labels"
    return (
        f"figure: names and labels, too long or too many, leave no room for a panel in {inches}: "
        f"select some ({BY_VALUE}), or ask for a larger one (--size WxH, or plot.look(size=(W, H)))"
    )
