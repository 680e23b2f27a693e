"""The kinds of figures that ``kvsweep plot`` draws, and the options that each of them uses."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from kvsweep.cli.base import warn
from kvsweep.cli.measure import open_prefix
from kvsweep.cli.results import read
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from kvsweep.addresses import Where

    Draw = Callable[[xr.Dataset, Mapping[str, Any]], Figure]


def _cliff(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.analysis.questions import cliff_of
    from kvsweep.plot import plot_cliff

    return plot_cliff(ds, cliff_of(ds, given))


def _trend(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.analysis.questions import cliff_of
    from kvsweep.plot import plot_cliff_trend

    over = given["over"]
    asked = {key: value for key, value in given.items() if key != "over"}
    return plot_cliff_trend(ds, cliff_of(ds, asked), over)


def _curve(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.analysis.questions import listed
    from kvsweep.plot import plot_curve

    return plot_curve(ds, listed(given["metric"]), **_others(given, "metric"))


def _heatmap(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.plot import plot_heatmap

    return plot_heatmap(
        ds, given["metric"], given["along"], given["over"], threshold=given["threshold"]
    )


def _bars(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.plot import plot_bars

    return plot_bars(ds, **_others(given))


def _tradeoff(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.plot import plot_tradeoff

    across = given["against"] or "throughput_rps"
    return plot_tradeoff(ds, across, given["metric"], **_others(given, "against", "metric"))


def _cdf(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.plot import plot_cdf

    return plot_cdf(ds, **_others(given))


def _attainment(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.config.service_levels import goodput_overrides
    from kvsweep.plot import plot_attainment

    pairs = (text.removeprefix("slo.").split("=") for text in goodput_overrides(given["goodput"]))
    levels = {name: float(value) for name, value in pairs} or None
    with _levels_by("--goodput"):
        return plot_attainment(ds, levels, **_others(given, "goodput"))


def _pareto(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.analysis.questions import check_limit, front_of
    from kvsweep.plot import plot_pareto

    front = front_of(ds, given["objectives"])
    levels: dict[str, float] = {}
    for text in given["level"]:
        name, value = _level(text)
        if name in levels:
            raise InputError(f"--level {text}: {name} is given twice")
        check_limit(name, value, f"--level {text}")
        levels[name] = value
    with _levels_by("--level"):
        return plot_pareto(ds, front, levels)


@contextmanager
def _levels_by(option: str) -> Iterator[None]:
    """Name an option where a figure names the argument of Python that it gives."""
    try:
        yield
    except InputError as error:
        raise InputError(re.sub("^levels: ", f"{option}: ", str(error))) from None


def _level(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        level = float(value)
    except ValueError:
        level = math.inf
    if name.strip()[-1:] in ("", "<", ">") or math.isinf(level):  # as --target of `size` has them
        raise InputError(f"--level {text}: expected MEASURE=NUMBER, as ttft_p99_ms=2000")
    return name.strip(), level


def _effects(ds: xr.Dataset, given: Mapping[str, Any]) -> Figure:
    from kvsweep.analysis.effect_records import Effects
    from kvsweep.analysis.questions import effects_of
    from kvsweep.plot import plot_effects, plot_sensitivity

    found = effects_of(ds, given["metric"], {k: v for k, v in given.items() if k != "metric"})
    return plot_effects(ds, found) if isinstance(found, Effects) else plot_sensitivity(ds, found)


def _others(given: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Return what was given, but for some options."""
    return {key: value for key, value in given.items() if value is not None and key not in without}


class Kind(NamedTuple):
    """A kind of figure.

    Attributes
    ----------
    draw : callable (xr.Dataset, options) -> Figure
        Draws it, with the options that it uses; None what was not given.
    needs, takes : tuple of str
        The options that must, and that may be given.
    """

    draw: Draw
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()


KINDS = {
    "cliff": Kind(_cliff, (), ("metric", "along", "threshold", "confidence")),
    "trend": Kind(_trend, ("over",), ("metric", "along", "threshold", "confidence")),
    "curve": Kind(_curve, ("metric", "along"), ("threshold", "confidence")),
    "heatmap": Kind(_heatmap, ("metric", "along", "over"), ("threshold",)),
    "bars": Kind(_bars, ("metric", "over"), ("threshold", "confidence")),
    "tradeoff": Kind(_tradeoff, ("metric", "along"), ("against", "threshold", "confidence")),
    "cdf": Kind(_cdf, ("metric",), ("threshold", "confidence")),
    "attainment": Kind(_attainment, (), ("goodput", "confidence")),
    "pareto": Kind(_pareto, (), ("objectives", "level")),
    "effects": Kind(_effects, ("metric",), ("factors", "order", "joint", "confidence")),
}

PREFIX = "prefix"
"""The kind of measurements, of another store."""


def draw(store: Where, kind: str, at: tuple[str, ...], options: Mapping[str, Any]) -> Figure:
    """Draw a figure of a store, and warn of cells without numbers, which nobody sees in it.

    Raises
    ------
    InputError
        If an option is missing, or has no effect.
    """
    known = KINDS.get(kind, Kind(_cliff))
    used = (*known.needs, *known.takes)
    given = {**options, "at": at} if kind == PREFIX else options
    for key, value in given.items():
        if value not in (None, ()) and key not in used:
            raise InputError(f"--{key}: has no effect on this kind of figure, {kind}")
    for key in known.needs:
        if options[key] is None:
            raise InputError(f"--{key}: missing; this kind of figure needs it")
    if kind == PREFIX:
        return _draw_prefix(store)
    _check_threshold(options)
    ds = read(store, at)
    figure = known.draw(ds, {key: options[key] for key in used})
    _warn_of_cells(ds)
    return figure


def _check_threshold(options: Mapping[str, Any]) -> None:
    """Refuse a line where the first measure never is; that of the sweep's cliff has its own."""
    from kvsweep.analysis.questions import check_limit, listed

    if options["metric"] is not None and options["threshold"] is not None:
        check_limit(listed(options["metric"])[0], options["threshold"], "--threshold")


def _warn_of_cells(ds: xr.Dataset) -> None:
    from kvsweep.analysis.cells import cells_of
    from kvsweep.analysis.losses import without_numbers

    if warning := without_numbers(cells_of(ds)):
        warn([warning])


def _draw_prefix(store: Where) -> Figure:
    from kvsweep.analysis.prefix_cost import prefix_cost
    from kvsweep.plot import plot_prefix

    ds = open_prefix(store)
    return plot_prefix(ds, prefix_cost(ds))
