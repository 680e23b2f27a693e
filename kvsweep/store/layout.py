"""Arrays and coordinates of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kvsweep.config.axes import about
from kvsweep.config.base import Key
from kvsweep.dimensions import DIMENSIONS
from kvsweep.metrics import NO_COUNT, Variable
from kvsweep.policies import RequestStatus, Status
from kvsweep.store.arrays import Array
from kvsweep.store.metadata import ROOT, Root, encoded, sums_of
from kvsweep.store.sharding import Sharding

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan

STATUS = Variable("status", (), "int8", "1", "how the simulation ended")
STATUS_DETAIL = Variable("status_detail", (), "str", "1", "why the simulation did not end well")
"""Not an array over the grid: `incomplete` has it of the cells that have one."""
FLAGS: Mapping[str, tuple[str, ...]] = {
    STATUS.name: Status.labels(),
    "request_status": RequestStatus.labels(),
    "pruned": ("simulated", "copied"),
}
"""Variables that hold codes of names, and the names."""


def names(plan: Plan) -> list[str]:
    """Return the names of the variables in the order of parts: the status last."""
    return [variable.name for variable in _variables(plan)]


def arrays(plan: Plan) -> dict[str, Array]:
    """Return all arrays of a store: coordinates, measures, and last the status."""
    coordinates = [_coordinate(*label) for label in _labels(plan)]
    each = Sharding.of_plan(plan).each
    variables = [_variable(plan, variable, each) for variable in _variables(plan)]
    return {array.name: array for array in (*coordinates, *variables)}


def measured(plan: Plan) -> list[Array]:
    """Return the arrays that tasks write, in the order of `names`."""
    made = arrays(plan)
    return [made[name] for name in names(plan)]


def contents(plan: Plan, attributes: Mapping[str, Any]) -> tuple[Root, dict[str, bytes | None]]:
    """Return the root of a new store, and its other files by name: None for one that is absent."""
    made = arrays(plan)
    files: dict[str, bytes | None] = {}
    for name, array in made.items():
        files[f"{name}/{ROOT}"] = encoded(array.document())
    for name, values, _ in _labels(plan):
        files[chunk_name(name, (0,), 1)] = made[name].encode(values)
    documents = {name: array.document() for name, array in made.items()}
    return Root(dict(attributes), documents, sums_of(files)), files


def chunk_name(array: str, place: tuple[int, ...], dims: int) -> str:
    """Return the file of a chunk or shard, in the store; further dimensions are whole in each."""
    further = (0,) * (dims - len(place))
    return "/".join([array, "c", *map(str, place + further)])


def flag_attributes(names: Sequence[str], first: int = 0) -> dict[str, Any]:
    """Return the attributes by which CF says what codes mean."""
    return {"flag_values": [*range(first, first + len(names))], "flag_meanings": " ".join(names)}


def _variable(plan: Plan, variable: Variable, each: tuple[int, ...]) -> Array:
    extra = tuple(len(plan.extra[d]) for d in variable.dims)
    attributes: dict[str, Any] = {"units": variable.units, "long_name": variable.long_name}
    if variable is not STATUS:  # which is there to mask and group by, not to average
        attributes["coordinates"] = STATUS.name
    flags = FLAGS.get(variable.name, ())
    return Array(
        name=variable.name,
        shape=plan.shape + extra,
        chunks=plan.chunks + extra,
        dtype=np.dtype("i1") if flags else _dtype(plan, variable),
        fill_value=_fill_value(variable),
        dims=plan.dims + variable.dims,
        attributes=attributes | (flag_attributes(flags) if flags else {}),
        shards=each if plan.shape else None,
        flags=flags,
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
    if variable.dtype != "str":
        return np.dtype(variable.dtype).newbyteorder("<")
    names = plan.extra.get("slo_class", ())
    return np.dtype(f"<U{max(map(len, names), default=1)}")


def _variables(plan: Plan) -> list[Variable]:
    return [*plan.variables, STATUS]


def _fill_value(variable: Variable) -> Any:
    """Return what a cell holds that was not simulated or did not end well."""
    if variable is STATUS:
        return Status.PENDING.value
    return NO_COUNT if variable.name in FLAGS else variable.missing
