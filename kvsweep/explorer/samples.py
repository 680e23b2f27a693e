"""What was simulated so far of one scenario: points of an axis by seeds."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep import simulate
from kvsweep.analysis.cells import cells_of
from kvsweep.analysis.planned import left_out_texts
from kvsweep.analysis.warnings import find_warnings
from kvsweep.config.axes import POLICY, SEED, Axis, about
from kvsweep.errors import InputError
from kvsweep.explorer.answers import variables_of
from kvsweep.explorer.stages import Stage, stages
from kvsweep.metrics import QUANTILES, VARIABLES
from kvsweep.policies import Status
from kvsweep.workload.generate import requests_for
from kvsweep.workload.traces import Trace

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.config import Scenario, Sweep
    from kvsweep.workload.requests import Requests

EXTRA: tuple[tuple[str, ...], ...] = ((), ("quantile",))
"""Dimensions beyond the grid's of the variables that are kept."""


@dataclass
class Samples:
    """Cells of one scenario along an axis; they are those that a grid of the same sweep has.

    Attributes
    ----------
    sweep : Sweep
        All its axes have one value, but `along` and the seed.
    along : Axis
        The axis.
    seeds : tuple of int
        As many as may be needed.
    known : int64 (points,)
        Seeds simulated so far at each point.
    values : dict of str to array (points, seeds, ...)
        Variables of `kvsweep.metrics` by name.
    status : int8 (points, seeds)
        Codes of `policies.Status`.
    """

    sweep: Sweep
    along: Axis
    seeds: tuple[int, ...]
    known: NDArray[np.int64] = field(init=False)
    values: dict[str, NDArray[Any]] = field(init=False, default_factory=dict)
    status: NDArray[np.int8] = field(init=False)

    def __post_init__(self) -> None:
        shape = (len(self.along.values), len(self.seeds))
        self.known = np.zeros(shape[0], np.int64)
        self.status = np.full(shape, Status.PENDING, np.int8)

    @property
    def point(self) -> dict[str, Any]:
        """Return the values of all axes but the two, by name."""
        others = (a for a in self.sweep.axes if a.key not in (SEED, self.along.key))
        return {axis.name: axis.values[0] for axis in others}

    @property
    def entries(self) -> tuple[str, ...]:
        """Entries of the kernel that simulate it."""
        return simulate.kernel_entries(map(self.scenario, range(len(self.along.values))))

    def scenario(self, point: int) -> Scenario:
        """Return the scenario at a point of the axis, by its position."""
        return self.sweep.scenario(self.point | {self.along.name: self.along.values[point]})

    def simulate(self, points: Sequence[int], first: int, last: int) -> None:
        """Simulate some points with some of the seeds, which are the next at all of them."""
        variants = [self.scenario(point) for point in points]
        found = simulate.simulate_batch(
            variants,
            self.seeds[first:last],
            entropy=self.sweep.entropy,
            policies=[self.point.get(POLICY)] * len(variants),
            base_dir=self.sweep.base_dir.resolve(),
        )
        place = np.ix_(points, range(first, last))
        self.status[place] = found["status"]
        for name, values in found.items():
            variable = VARIABLES.get(name)
            if variable is None or variable.dims not in EXTRA or variable.dtype == "str":
                continue
            if name not in self.values:
                full = (*self.status.shape, *values.shape[2:])
                self.values[name] = np.full(full, variable.missing, variable.dtype)
            self.values[name][place] = values
        self.known[list(points)] = last

    def stages(self, cost: float | None) -> Iterator[Stage]:
        """Yield what to simulate, first little, then more."""
        return stages(len(self.along.values), len(self.seeds), cost)

    def lacking(self, points: Sequence[int], seeds: int) -> list[tuple[list[int], int, int]]:
        """Return what is to be simulated until some points have so many seeds.

        Returns
        -------
        list of (points, first seed, last seed)
            Positions of points that lack the same seeds.
        """
        groups: dict[int, list[int]] = {}
        for point in points:
            if self.known[point] < seeds:
                groups.setdefault(int(self.known[point]), []).append(point)
        return [(group, first, seeds) for first, group in sorted(groups.items())]

    def dataset(
        self, points: Sequence[int], seeds: int, measures: Sequence[str] | None = None
    ) -> xr.Dataset:
        """Return some points with the first seeds, as a store of them would be opened.

        Of the variables, those that some `measures` are of, and the status; all if not given.

        Raises
        ------
        InputError
            If one of them is of service levels that the scenario does not have.
        """
        import xarray as xr

        dims = (self.along.name, SEED)
        rows, columns = list(points), slice(0, seeds)
        labels = np.array([status.label for status in Status])
        arrays: dict[str, Any] = {"status": (dims, labels[self.status[rows, columns]])}
        for name in self.values if measures is None else variables_of(measures, VARIABLES):
            variable = VARIABLES[name]
            if name not in self.values:
                wanted = " or ".join(f"slo.{level}_ms" for level in variable.levels)
                raise InputError(f"page: measure {name!r} needs {wanted}")
            values = self.values[name]
            about_it = {"units": variable.units, "long_name": variable.long_name}
            arrays[name] = (dims + variable.dims, values[rows, columns], about_it)
        key = about(self.along.key)
        axis = [self.along.values[point] for point in points]
        return xr.Dataset(
            arrays,
            coords={
                self.along.name: (
                    self.along.name,
                    axis,
                    {"units": key.unit, "long_name": key.meaning},
                ),
                SEED: list(self.seeds[:seeds]),
                "quantile": list(QUANTILES),
            },
            attrs={
                "title": self.sweep.title,
                "question": self.sweep.question,
                "sweep": json.dumps(self._described(axis)),
            },
        )

    def requests(self, scenario: Scenario, seed: int) -> Requests:
        """Return the requests of a scenario of these."""
        assert scenario.workload is not None  # `Sweep.scenario` sees to it
        return requests_for(
            scenario.workload,
            seed,
            self.sweep.entropy,
            self.point.get(POLICY),
            self.sweep.base_dir,
        )

    def life(self, value: float, seed: int) -> dict[str, Any]:
        """Return the life of every request at a value of the axis.

        Raises
        ------
        InputError
            If the axis has no such value, or as of `kvsweep.explorer.lives.life_of`.
        """
        from kvsweep.explorer.lives import life_of

        if value not in self.along.values:
            raise InputError(f"page: {self.along.name} has no value {value}")
        scenario = self.scenario(self.along.values.index(value))
        requests, name = self.requests(scenario, seed), self.sweep.source.label
        trace = Trace(requests, where=name, seed=seed, entropy=self.sweep.entropy)
        return life_of(scenario, trace)

    def warnings(self, points: Sequence[int], seeds: int) -> list[str]:
        """Return what in these results misleads, as a run of the sweep would tell."""
        variants = [self.scenario(point) for point in points]
        scenarios = np.fromiter(variants, object, len(variants))[:, None]

        def requests(index: tuple[int, ...]) -> Requests:
            return self.requests(variants[index[0]], self.seeds[index[1]])

        ds = self.dataset(points, seeds)
        cliff = self.sweep.cliff is not None
        cells = cells_of(ds, cliff=cliff, scenarios=scenarios, requests=requests)
        cells = replace(cells, sized=self.sweep.seeks_rate)
        return [*left_out_texts(self.sweep), *map(str, find_warnings(cells))]

    def _described(self, axis: list[Any]) -> dict[str, Any]:
        """Return the sweep as a store has it, axes of one value among the scenario's keys."""
        return {
            "grid": {self.along.key: axis},
            "policies": {},
            "scenario": self.scenario(0).model_dump(mode="json"),
            "entropy": self.sweep.entropy,
        }
