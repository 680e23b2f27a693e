"""A sweep that is explored: settings in, simulated curves out."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

from kvsweep.analysis import variables
from kvsweep.analysis.statistics import USUAL_SEEDS
from kvsweep.config.axes import POLICY, SAMPLE, SEED, Axis, about
from kvsweep.config.compose import parts_of
from kvsweep.config.load import changed
from kvsweep.config.toml_text import option
from kvsweep.errors import InputError
from kvsweep.explorer.commands import grid_command, sweep_toml
from kvsweep.explorer.controls import Control, controls_of, value_at
from kvsweep.explorer.messages import Settings, check_settings
from kvsweep.explorer.samples import Samples
from kvsweep.explorer.stages import MOST_POINTS, MOST_SEEDS, spread
from kvsweep.metrics import VARIABLES, quantile_names
from kvsweep.search.problem import varies

if TYPE_CHECKING:
    from kvsweep.config import Sweep
    from kvsweep.explorer.subject import Seen

KEPT = 12
"""Scenarios whose samples are kept: to go back to one costs nothing. Some 6 MB each, at most."""

BLOCKS = ("cache.gpu_blocks", "cache.gpu_tokens")
"""Axes that curves are drawn along rather than others, where the sweep asks for no cliff."""


class OfSweep:
    """A sweep, its controls, and what was simulated for its settings.

    Parameters
    ----------
    sweep : Sweep
        From `kvsweep.load_sweep`.

    Raises
    ------
    InputError
        If it has no numeric axis, or is a design.
    """

    kind = "sweep"

    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.name = str(sweep.path)
        self.title, self.question = sweep.title, sweep.question
        self.axes = _numeric_axes(sweep)
        self.lock = Lock()
        self.measures = told_measures()
        self._controls: dict[str, tuple[Control, ...]] = {}
        self._kept: OrderedDict[tuple[Any, ...], Samples] = OrderedDict()

    @property
    def measure(self) -> str:
        """The measure that is looked at first."""
        return self.sweep.cliff.metric if self.sweep.cliff else "preemption_rate"

    @property
    def threshold(self) -> float | None:
        """The threshold that is looked at first."""
        return self.sweep.cliff.threshold if self.sweep.cliff else None

    @property
    def alongs(self) -> list[dict[str, str]]:
        """The axes that curves can be drawn along, the one to begin with first."""
        return [{"name": axis.name, "label": about(axis.key).meaning} for axis in self.axes]

    def axis(self, name: str) -> Axis:
        """Return an axis that curves can be drawn along.

        Raises
        ------
        InputError
            If there is none of that name.
        """
        known = {axis.name: axis for axis in self.axes}
        if name not in known:
            raise InputError(f"{self.name}: no axis {name!r}; one of: {', '.join(known)}")
        return known[name]

    def controls(self, along: str) -> tuple[Control, ...]:
        """Return what can be set while curves are drawn along an axis."""
        if along not in self._controls:
            self._controls[along] = controls_of(self.sweep, self.axis(along))
        return self._controls[along]

    def overrides(self, settings: Settings, along: str) -> list[str]:
        """Return settings as options of the command line have them, ``KEY=VALUE`` each.

        All axes but `along` and the seed get one value, their first if no other is set.
        """
        controls = {control.key: control for control in self.controls(along)}
        check_settings(settings, controls)
        axis = self.axis(along)
        others = [a for a in self.sweep.axes if a.key not in (SEED, axis.key)]
        values = {a.key: a.values[0] for a in others} | _with_whole_tables(self.sweep, settings)
        if len(axis.values) > MOST_POINTS:
            values[axis.key] = [axis.values[i] for i in spread(len(axis.values), MOST_POINTS)]
        return [f"{key}={option(value)}" for key, value in values.items()]

    def changed(self, settings: Settings, along: str, seeds: int | None = None) -> Sweep:
        """Return the sweep with settings, checked as `kvsweep.load_sweep` does.

        Raises
        ------
        InputError
            As of `kvsweep.load_sweep`.
        """
        return changed(self.sweep, self.overrides(settings, along), seeds)

    def part(self, settings: Settings, along: str) -> Samples:
        """Return what there is of a scenario; the same again for the same settings.

        Raises
        ------
        InputError
            If a setting is not valid, or has no effect.
        """
        typed = ((key, type(value).__name__, value) for key, value in settings.items())
        place = (along, *sorted(typed))
        if place not in self._kept:
            sweep = self.changed(settings, along)
            axis = next(a for a in sweep.axes if a.key == self.axis(along).key)
            ordered = Axis(axis.key, axis.name, tuple(sorted(axis.values)))
            self._kept[place] = Samples(sweep, ordered, _seeds(sweep))
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(place)
        return self._kept[place]

    def command(self, settings: Settings, along: str, seen: Seen) -> str:
        """Return the commands that give the same numbers."""
        return grid_command(self.sweep, self.overrides(settings, along), along, seen)

    def toml(self, settings: Settings, along: str) -> str:
        """Return the scenario as a sweep file."""
        overrides = self.overrides(settings, along)
        return sweep_toml(changed(self.sweep, overrides), self.name, overrides)


def _with_whole_tables(sweep: Sweep, settings: Settings) -> Settings:
    """Return settings, of a distribution that the file leaves to its default all that it has.

    Its mean alone would be a table without a kind.
    """
    found = dict(settings)
    usual = next(sweep.probes()).model_dump(mode="json")
    for key in settings:
        path = parts_of(key, sweep.base)
        table = value_at(usual, path[:-1])
        if isinstance(table, dict) and "dist" in table and not value_at(sweep.base, path[:-1]):
            name = ".".join(map(str, path[:-1]))
            found.setdefault(name, {k: v for k, v in table.items() if v is not None})
            found[name][str(path[-1])] = found.pop(key)
    return found


def _numeric_axes(sweep: Sweep) -> tuple[Axis, ...]:
    """Return the axes that curves can be drawn along, the one to begin with first."""
    label = sweep.source.label
    if sweep.design:
        raise InputError(
            f"{label}: design: the points of a design are in no order; an explorer needs a sweep "
            "with a numeric axis of [grid] alone (`kvsweep effects` tells which parameters matter)"
        )
    found = [axis for axis in sweep.axes if _is_numeric(axis)]
    if not found:
        raise InputError(
            f"{label}: grid: no numeric axis of two values or more to draw curves along, such as "
            '"cache.gpu_blocks" = { start = 1000, stop = 2600, step = 100 }'
        )
    asked = sweep.cliff.along if sweep.cliff else None
    return tuple(sorted(found, key=lambda a: (a.name != asked, a.key not in BLOCKS)))


def _is_numeric(axis: Axis) -> bool:
    numbers = all(type(value) in (int, float) for value in axis.values)
    return axis.key not in (POLICY, SEED, SAMPLE) and numbers and len(axis.values) > 1


def _seeds(sweep: Sweep) -> tuple[int, ...]:
    """Return the seeds of the sweep, and further ones if they are few; one where all are equal."""
    known = next((axis.values for axis in sweep.axes if axis.key == SEED), (0,))
    groups = [{axis.name: axis.values[0]} for axis in sweep.axes if axis.key == POLICY] or [{}]
    if not varies(sweep, groups):
        return known[:1]
    if len(known) < USUAL_SEEDS:
        known = (*known, *range(max(known) + 1, max(known) + 1 + MOST_SEEDS))
    return known[:MOST_SEEDS]


def told_measures() -> list[dict[str, Any]]:
    """Return all measures of a cell that are one number: for the page to choose from."""
    found = []
    for variable in VARIABLES.values():
        names = [variable.name] if not variable.dims else []
        if variable.dims == ("quantile",):
            names = quantile_names(variable.name)
        if variable.dtype != "str":
            found += [told(name, variable.long_name, variable.units) for name in names]
    return found


def told(name: str, label: str, units: str) -> dict[str, Any]:
    """Describe a measure for the page."""
    label = variables.called(name, label)
    return {"name": name, "label": label, "units": units, "better": variables.better(name)}
