"""A sweep: a base scenario, bundles of overrides called policies, and the axes of a grid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from kvsweep.config.axes import POLICY, RATES, SAMPLE, SEED, Axis
from kvsweep.config.base import fill
from kvsweep.config.canonical import canonical
from kvsweep.config.compose import SECTIONS, Override, build
from kvsweep.config.design import Design
from kvsweep.config.document import AskedCliff, AskedSize, Pareto
from kvsweep.config.latency import NO_LATENCY
from kvsweep.config.memory import equal_memory
from kvsweep.config.pool_reads import takes_times
from kvsweep.config.scenario import Scenario
from kvsweep.config.source import Source
from kvsweep.config.until import Until
from kvsweep.config.workload import DEFAULT_ENTROPY
from kvsweep.errors import InputError, did_you_mean
from kvsweep.limits import MAX_CELLS, MAX_VARIANTS
from kvsweep.reading import working_folder


@dataclass(frozen=True)
class Sweep:
    """A sweep file, read and checked. Make one with `load_sweep`.

    Attributes
    ----------
    path : Path
        The file.
    title, question : str
        What the sweep is called and what it asks.
    text : str
        The file's text.
    base : dict
        Scenario sections as the file and the overrides have them.
    policies : dict of str to dict
        Overrides, by dotted key, of each ``[policies.NAME]`` table.
    axes : tuple of Axis
        Dimensions of the grid, in order.
    cliff : AskedCliff or None
        What to look for along an axis.
    pareto : Pareto or None
        What to trade off.
    entropy : int
        Entropy of the random streams.
    design : Design or None
        Points along the axis ``sample``.
    until : Until or None
        How narrow an interval seeds are added for; the axis then has the first ones.
    size : AskedSize or None
        What `kvsweep size` is to find.
    loaded_from : Path
        The folder in which the process worked then.
    source : Source
        The parsed file, for messages with lines.
    """

    path: Path
    title: str
    question: str
    text: str
    base: dict[str, Any]
    policies: dict[str, dict[str, Any]]
    axes: tuple[Axis, ...]
    cliff: AskedCliff | None
    pareto: Pareto | None
    source: Source = field(repr=False, compare=False)
    entropy: int = DEFAULT_ENTROPY
    design: Design | None = None
    until: Until | None = None
    size: AskedSize | None = None
    loaded_from: Path = field(default_factory=working_folder, repr=False, compare=False)
    _scenarios: dict[tuple[Any, ...], Scenario] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _last: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The file's name without its ending."""
        return self.path.stem

    @property
    def base_dir(self) -> Path:
        """The folder that file names in the sweep are relative to, wherever the process is now."""
        folder = self.path.parent
        return folder if working_folder() == self.loaded_from else self.loaded_from / folder

    @property
    def first_point(self) -> dict[str, Any]:
        """The first value of each axis but the seed, by key: those of the first cell."""
        return {axis.key: axis.values[0] for axis in self.axes if axis.key != SEED}

    @property
    def policies_run(self) -> tuple[Any, ...]:
        """The names on the axis of policies; of those in the file some may not be run."""
        return next((axis.values for axis in self.axes if axis.key == POLICY), ())

    @property
    def seeks_rate(self) -> bool:
        """Whether the cliff is along a rate at which requests come."""
        along = self.cliff.along if self.cliff else None
        return any(axis.name == along and axis.key in RATES for axis in self.axes)

    @cached_property
    def rules(self) -> str:
        """The rule books of the cells, joined by a comma if there are several."""
        return ",".join(sorted({scenario.engine.rules for scenario in self.probes()}))

    @cached_property
    def _equal_memory(self) -> tuple[Override, ...]:
        return equal_memory(self)

    def scenario(self, values: Mapping[str, Any]) -> Scenario:
        """Return the scenario at a point of the grid; each is built, and so checked, once.

        Parameters
        ----------
        values : dict of str to object
            Value of each axis but the seed, by the axis' name or key; an axis that is left out
            keeps the value of the base.

        Raises
        ------
        InputError
            If the combination is not valid, or there is no axis of such a name.
        """
        known = {axis.key: axis for axis in self.axes} | {axis.name: axis for axis in self.axes}
        for name in values:
            if name not in known:
                names = [axis.name for axis in self.axes]
                hint = did_you_mean(name, names) or f"; one of: {', '.join(names) or 'none'}"
                raise InputError(f"{self.source.label}: no axis {name!r}{hint}")
        point = {known[name].key: value for name, value in values.items()}
        if not all(isinstance(value, str | int | float) for value in point.values()):
            return self._build(point)  # of no axis, and perhaps not to be hashed
        # In Python, 1, 1.0 and true are equal.
        place = tuple((key, type(value), value) for key, value in point.items())
        if place not in self._scenarios:
            self._scenarios[place] = self._build(point)
        return self._scenarios[place]

    def _build(self, point: Mapping[str, Any]) -> Scenario:
        built = build(self.source, self.base, self._overrides(point), self.base_dir)
        if built.workload is None:
            raise self.source.error(("workload",), "missing; a sweep needs a workload")
        if not built.latency.model_fields_set and takes_times(built, None):
            raise self.source.error(("latency",), NO_LATENCY)
        return self._sharing(built)

    def _sharing(self, built: Scenario) -> Scenario:
        """Return a scenario with the sections of the last one where they are the same.

        154,722 that differ in three keys took 8 kB each; now they take 2.
        """
        same = {}
        for name in SECTIONS:
            section, last = getattr(built, name), self._last.get(name)
            if _are_alike(section, last):
                same[name] = last
            else:
                self._last[name] = section
        copy = built.model_copy()
        fill(copy, **same)
        return copy

    def probes(self) -> Iterator[Scenario]:
        """Yield the scenarios of the grid's first cell and of its neighbours along each axis."""
        return map(self.scenario, self.probe_points())

    def points(self) -> Iterator[dict[str, Any]]:
        """Yield the values of all axes but the seed, by key: of the probes, then of all cells."""
        yield from self.probe_points()
        others = [axis for axis in self.axes if axis.key != SEED]
        for values in product(*(axis.values for axis in others)):
            yield {axis.key: value for axis, value in zip(others, values, strict=True)}

    def probe_points(self) -> Iterator[dict[str, Any]]:
        """Yield the values of all axes but the seed, by key, of the probes."""
        first = self.first_point
        yield first
        for axis in self.axes:
            if axis.key != SEED:
                for value in axis.values[1:]:
                    yield first | {axis.key: value}

    def check(self) -> None:
        """Check every value of every axis, and every policy, in a scenario of the grid.

        Raises
        ------
        InputError
            Naming the first mistake; or if the sweep has more scenarios or cells than are possible.
        """
        self._check_size()
        for _ in self.probes():
            pass
        for name in self.policies:
            if name not in self.policies_run:
                point = {**self.first_point, POLICY: name}
                build(self.source, self.base, self._overrides(point), self.base_dir)

    def _check_size(self) -> None:
        sizes = {axis.key: len(axis.values) for axis in self.axes}
        if self.until:
            sizes[SEED] = self.until.most
        cells = prod(sizes.values())
        scenarios = cells // sizes.get(SEED, 1)
        advice = "use fewer axes or values, or several sweeps"
        if scenarios > MAX_VARIANTS:
            raise self.source.error(
                ("grid",),
                f"{scenarios:,} scenarios (seeds not counted), at most {MAX_VARIANTS:,} make a "
                f"sweep; {advice}",
            )
        if cells > MAX_CELLS:
            place = ("grid", SEED, "until", "most") if self.until else ("grid",)
            message = f"{cells:,} cells, at most {MAX_CELLS:,} make a sweep; {advice}"
            raise self.source.error(place, message)

    def to_dict(self) -> dict[str, Any]:
        """Return what defines the results, in plain types: equal sweeps have equal dicts."""
        return canonical(self)

    def with_seeds(self, count: int) -> Sweep:
        """Return the sweep with the seeds 0 to `count` - 1."""
        seeds = tuple(range(count))
        axes = (replace(axis, values=seeds) if axis.key == SEED else axis for axis in self.axes)
        return replace(self, axes=tuple(axes))

    def setters(self, point: Mapping[str, Any]) -> list[str]:
        """Return the keys that a policy or an axis sets at a point, given by axis key."""
        return [override.key for override in self._overrides(point)]

    def _overrides(self, point: Mapping[str, Any]) -> Iterable[Override]:
        """Return the overrides of a point by axis key: its policy first, then the other axes."""
        yield from self._equal_memory
        if POLICY in point:
            yield from self.policy(point[POLICY])
        for key, value in point.items():
            if key == SAMPLE and self.design:
                drawn = zip(self.design.ranges, self.design.points[value], strict=True)
                yield from (Override(name, one, ("design", name)) for name, one in drawn)
            elif key != POLICY:
                yield Override(key, value, ("grid", key))

    def policy(self, name: str) -> Iterator[Override]:
        """Yield what a policy sets: a bundle of the file, or the routing of that name."""
        if name not in self.policies:
            yield Override("cluster.routing", name, ("grid", POLICY))
            return
        for key, value in self.policies[name].items():
            quoted = ("policies", name, key)
            nested = ("policies", name, *key.split("."))
            from_option = any(nested[:n] in self.source.labels for n in range(2, len(nested) + 1))
            is_quoted = quoted in self.source.lines and not from_option
            yield Override(key, value, quoted if is_quoted else nested)


def _are_alike(section: Any, last: Any) -> bool:
    """Whether sections are the same, also in what was given; in Python, 1, 1.0 and true are."""
    if section is None or last is None:
        return False
    return bool(
        section == last
        and section.model_fields_set == last.model_fields_set
        and section.model_dump_json() == last.model_dump_json()
    )
