"""A store that is explored: settings choose coordinates, and nothing is simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any

from kvsweep.analysis import variables
from kvsweep.analysis.settings import sweep_of
from kvsweep.analysis.warnings import warnings_in, warnings_of
from kvsweep.config.axes import SAMPLE, SEED
from kvsweep.errors import InputError
from kvsweep.explorer.answers import variables_of
from kvsweep.explorer.commands import store_command
from kvsweep.explorer.controls import AXES, Control
from kvsweep.explorer.messages import Settings, check_settings
from kvsweep.explorer.of_sweep import told
from kvsweep.explorer.stages import Stage
from kvsweep.metrics import quantile_names
from kvsweep.store import load

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.explorer.subject import Seen


@dataclass
class StoredPart:
    """The cells of one combination of a store's other axes.

    Attributes
    ----------
    results : xr.Dataset
        With the axis of the curves, in ascending order, and the seeds, if the store has any.
    is_whole : bool
        Whether these are all cells of the store.
    cliff : bool
        Whether the sweep asks for a cliff.
    """

    results: xr.Dataset
    is_whole: bool
    cliff: bool
    entries: tuple[str, ...] = ()

    def stages(self, cost: float | None) -> Iterator[Stage]:
        """Yield the whole at once."""
        yield Stage((), len(self.seeds))

    def lacking(self, points: Sequence[int], seeds: int) -> list[tuple[list[int], int, int]]:
        """Return what is to be simulated: nothing."""
        return []

    def simulate(self, points: Sequence[int], first: int, last: int) -> None:
        """Never called, as nothing is lacking."""
        raise AssertionError("nothing of a store is simulated")

    def life(self, value: float, seed: int) -> dict[str, Any]:
        """Refuse to simulate.

        Raises
        ------
        InputError
            Always.
        """
        raise InputError("page: of a store nothing is simulated; explore its sweep for lives")

    def dataset(self, points: Sequence[int], seeds: int, measures: Sequence[str]) -> xr.Dataset:
        """Return what measures are of, and the status, read from the disk."""
        names = variables_of(measures, [*map(str, self.results.data_vars)])
        return load(self.results[["status", *names]])

    def warnings(self, points: Sequence[int], seeds: int) -> list[str]:
        """Return what misleads in these cells."""
        if self.is_whole:
            return [str(warning) for warning in warnings_of(self.results)]
        return [str(warning) for warning in warnings_in(self.results, cliff=self.cliff)]

    @property
    def seeds(self) -> tuple[int, ...]:
        """The seeds of the store."""
        found = self.results[SEED].values.tolist() if SEED in self.results.dims else [0]
        return tuple(found)


class OfStore:
    """A store, its axes, and what it holds.

    Parameters
    ----------
    ds : xr.Dataset
        As `kvsweep.open_results` opens it.
    name : str
        Its folder.

    Raises
    ------
    InputError
        If it has no numeric axis, or no status, as means over seeds have none.
    """

    kind = "store"

    def __init__(self, ds: xr.Dataset, name: str) -> None:
        if "status" not in ds:
            raise InputError(
                f"{name}: has no status of cells, as a mean has none: give the store or a part of "
                "it, ds.sel(...), over whose seeds means are taken here"
            )
        self.name = name
        self.title = str(ds.attrs.get("title", name))
        self.question = str(ds.attrs.get("question", ""))
        self.lock = Lock()
        self._ds = ds
        self._dims = [dim for dim in variables.swept(ds) if dim != SEED]
        asked = sweep_of(ds).get("cliff")
        self._asked: dict[str, Any] = asked if isinstance(asked, dict) else {}
        self._axes = self._numeric()
        self.measures = self._measures()
        if not self.measures:
            raise InputError(f"{name}: no measure of a cell to draw")

    def _numeric(self) -> list[str]:
        ds = self._ds
        found = [d for d in self._dims if d != SAMPLE and ds[d].dtype.kind in "fiu"]
        # Places in a list, where a coordinate was dropped, are no values.
        found = [dim for dim in found if ds.sizes[dim] > 1 and dim in ds.coords]
        if not found:
            raise InputError(
                f"{self.name}: no numeric axis of two values or more to draw curves along; it has: "
                f"{', '.join(self._dims) or 'none'}"
            )
        return sorted(found, key=lambda dim: dim != self._asked.get("along"))

    def _measures(self) -> list[dict[str, Any]]:
        """Describe the measures of a cell, each once; of none is a value read."""
        found: dict[str, dict[str, Any]] = {}
        for name, array in self._ds.data_vars.items():
            own = set(map(str, array.dims)) - {*self._dims, SEED}
            if array.dtype.kind not in "fiub" or own not in (set(), {"quantile"}):
                continue
            names = quantile_names(str(name)) if own else [str(name)]
            label, units = array.attrs.get("long_name", name), array.attrs.get("units", "1")
            for each in names:  # `open_results` has views of quantiles by their own names too
                found.setdefault(each, told(each, str(label), str(units)))
        return list(found.values())

    @property
    def measure(self) -> str:
        """The measure that is looked at first."""
        names = [str(item["name"]) for item in self.measures]
        asked = str(self._asked.get("metric", "preemption_rate"))
        return asked if asked in names else names[0]

    @property
    def threshold(self) -> float | None:
        """The threshold that is looked at first."""
        asked = self._asked.get("threshold")
        return float(asked) if isinstance(asked, int | float) else None

    @property
    def alongs(self) -> list[dict[str, str]]:
        """The axes that curves can be drawn along, the one to begin with first."""
        return [{"name": d, "label": self._ds[d].attrs.get("long_name", d)} for d in self._axes]

    def controls(self, along: str) -> tuple[Control, ...]:
        """Return the other axes, whose values can be chosen."""
        return tuple(self._control(dim) for dim in self._dims if dim != along)

    def _control(self, dim: str) -> Control:
        array = self._ds[dim]
        values = tuple(array.values.tolist())
        units, meaning = str(array.attrs.get("units", "1")), array.attrs.get("long_name", dim)
        return Control(dim, AXES, "choice", units, str(meaning), values[0], True, choices=values)

    def part(self, settings: Settings, along: str) -> StoredPart:
        """Return the cells of a combination of the other axes.

        Raises
        ------
        InputError
            If there is no such axis or value.
        """
        if along not in self._axes:
            raise InputError(f"{self.name}: no axis {along!r}; one of: {', '.join(self._axes)}")
        controls = {control.key: control for control in self.controls(along)}
        check_settings(settings, controls)
        chosen = {key: control.value for key, control in controls.items()} | settings
        places = {dim: controls[dim].choices.index(value) for dim, value in chosen.items()}
        cells = self._ds.isel(places, drop=True).sortby(along)
        whole = not places and cells["status"].size == _planned(self._ds)
        return StoredPart(cells, is_whole=whole, cliff=bool(self._asked))

    def command(self, settings: Settings, along: str, seen: Seen) -> str:
        """Return the command that tells the same cliff, or draws the same curve."""
        at = {control.key: control.value for control in self.controls(along)} | settings
        texts = [f"{key}={value}" for key, value in at.items()]
        return store_command(self.name, texts, along, seen)

    def toml(self, settings: Settings, along: str) -> str:
        """Refuse: a store is made already."""
        raise InputError(f"{self.name}: a store has no settings to save; its sweep has")


def _planned(ds: xr.Dataset) -> int:
    """Count the cells of the sweep that a dataset is of, or a part of; a [design] has points more.

    Of points one is looked at, which is never the whole.
    """
    return prod(len(values) for values in sweep_of(ds).get("grid", {}).values())
