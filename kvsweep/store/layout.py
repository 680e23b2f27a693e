"""Arrays, coordinates and attributes of a store, and its creation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np

from kvsweep.config.axes import about
from kvsweep.config.base import Key
from kvsweep.dimensions import DIMENSIONS
from kvsweep.files import replace_file
from kvsweep.metrics import Variable
from kvsweep.policies import RequestStatus, Status
from kvsweep.store.arrays import Array
from kvsweep.store.chunks import chunk_name
from kvsweep.store.folders import made_beside, move_in
from kvsweep.store.metadata import ROOT, Root, encoded, hexadecimal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan

STATUS = Variable("status", (), "str", "1", "how the simulation ended")
STATUS_DETAIL = Variable("status_detail", (), "str", "1", "why the simulation did not end well")
DETAIL_BYTES = 200
"""Kept of a detail: most are a short line, but a worker's error may be a page."""


def names(plan: Plan) -> list[str]:
    """Return the names of the variables in the order of writing: what tells the status last."""
    return [variable.name for variable in _variables(plan)]


def arrays(plan: Plan) -> dict[str, Array]:
    """Return all arrays of a store: coordinates, measures, and last the status."""
    coordinates = [_coordinate(*label) for label in _labels(plan)]
    variables = [_variable(plan, variable) for variable in _variables(plan)]
    return {array.name: array for array in (*coordinates, *variables)}


def create(path: Path, plan: Plan, attributes: Mapping[str, Any]) -> None:
    """Write all metadata of a new store beside `path`, then give it its name in one step.

    A store that is there is deleted then; `folders.recognise` tells before whether it may be.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    with made_beside(path) as new:
        root, files = contents(plan, attributes)
        root.write(new)  # first, so that what a kill leaves is known for a store
        for name, data in files.items():
            if data is not None:
                (new / name).parent.mkdir(parents=True, exist_ok=True)
                replace_file(f"{new}/{name}", data)
        move_in(new, path)


def contents(plan: Plan, attributes: Mapping[str, Any]) -> tuple[Root, dict[str, bytes | None]]:
    """Return the root of a new store, and its other files by name: None for one that is absent."""
    made = arrays(plan)
    files: dict[str, bytes | None] = {}
    for name, array in made.items():
        files[f"{name}/{ROOT}"] = encoded(array.document())
    for name, values, _ in _labels(plan):
        files[chunk_name(name, (0,), 1)] = made[name].encode(values)
    sums = {
        name: None if data is None else hexadecimal(crc32(data)) for name, data in files.items()
    }
    documents = {name: array.document() for name, array in made.items()}
    return Root(dict(attributes), documents, sums), files


def _variable(plan: Plan, variable: Variable) -> Array:
    extra = tuple(len(plan.extra[d]) for d in variable.dims)
    return Array(
        name=variable.name,
        shape=plan.shape + extra,
        chunks=plan.chunks + extra,
        dtype=_dtype(plan, variable),
        fill_value=_fill_value(variable),
        dims=plan.dims + variable.dims,
        attributes={"units": variable.units, "long_name": variable.long_name},
    )


def _labels(plan: Plan) -> Iterator[tuple[str, NDArray[Any], Key]]:
    """Yield name, values, and unit and meaning of every coordinate."""
    for axis in plan.axes:
        yield axis.name, np.array(axis.values), about(axis.key)
    for name, values in plan.extra.items():
        yield name, np.array(values), Key("1", DIMENSIONS[name])


def _coordinate(name: str, values: NDArray[Any], key: Key) -> Array:
    return Array(
        name=name,
        shape=values.shape,
        chunks=values.shape,
        dtype=values.dtype.newbyteorder("<"),
        fill_value=values.dtype.type().item(),
        dims=(name,),
        attributes={"units": key.unit, "long_name": key.meaning},
    )


def _dtype(plan: Plan, variable: Variable) -> np.dtype[Any]:
    """Return the type of a variable; text is as wide as the longest name that there can be."""
    if variable is STATUS_DETAIL:
        return np.dtype(f"S{DETAIL_BYTES}")
    if variable.dtype != "str":
        return np.dtype(variable.dtype).newbyteorder("<")
    known = {STATUS.name: Status.labels(), "request_status": RequestStatus.labels()}
    names = known.get(variable.name) or plan.extra.get("slo_class", ())
    return np.dtype(f"<U{max(map(len, names), default=1)}")


def _variables(plan: Plan) -> list[Variable]:
    return [*plan.variables, STATUS_DETAIL, STATUS]


def _fill_value(variable: Variable) -> Any:
    """Return what a cell holds that was not simulated or did not end well."""
    if variable is STATUS:
        return Status.PENDING.label
    return b"" if variable is STATUS_DETAIL else variable.missing
