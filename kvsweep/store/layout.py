"""Arrays, coordinates and attributes of a store, and its creation."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from kvsweep.errors import InputError
from kvsweep.metrics import Variable
from kvsweep.policies import Status
from kvsweep.store import chunks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from kvsweep.grid import Plan

TEXT = np.dtypes.StringDType()
STATUS = Variable("status", (), "str", "1", "how the simulation ended")
STATUS_DETAIL = Variable("status_detail", (), "str", "1", "why the simulation did not end well")
STATUS_NAMES = np.array(Status.labels(), dtype=TEXT)

# Meaning and unit of coordinates, by axis key; of others the key itself, a pure number.
_AXES = {
    "cache.block_size": ("tokens per block", "token"),
    "cache.cpu_blocks": ("blocks of the CPU tier per instance", "block"),
    "cache.gpu_blocks": ("usable KV blocks per instance", "block"),
    "cache.gpu_tokens": ("tokens that fit into the KV cache of an instance", "token"),
    "cache.kv_bytes_per_token": ("bytes of a token's keys and values on one GPU", "byte"),
    "cache.link_gb_per_s": ("link between GPU and CPU, each direction", "GB/s"),
    "cache.transfer_bandwidth": ("tokens moved between GPU and CPU", "token/us"),
    "cluster.instances": ("engine instances", "1"),
    "engine.max_num_batched_tokens": ("token budget of a step", "token"),
    "engine.max_num_seqs": ("largest batch", "request"),
    "policy": ("policy", "1"),
    "seed": ("seed of the request list", "1"),
    "workload.rate": ("arrival rate of the cluster", "request/s"),
    "workload.requests": ("length of the request list", "request"),
}


# Meaning of the coordinates that variables have beyond the grid's own.
_EXTRA = {
    "quantile": "quantile",
    "instance": "position of the engine instance",
    "round": "round of a session",
    "slo_class": "SLO class, the most urgent first",
    "request": "position in the request list",
}


def names(plan: Plan) -> list[str]:
    """Return the names of the variables in the order of writing: what tells the status last."""
    return [variable.name for variable in _variables(plan)]


def create(path: Path, plan: Plan, attributes: Mapping[str, Any]) -> None:
    """Write all metadata of a new store beside `path`, then give it its name in one step.

    Raises
    ------
    InputError
        If nothing can be written there.
    """
    new = path.with_name(path.name + ".new")
    shutil.rmtree(new, ignore_errors=True)
    try:
        new.parent.mkdir(parents=True, exist_ok=True)
        group = zarr.open_group(new, mode="w", zarr_format=3, attributes=dict(attributes))
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None
    _write_coordinates(group, plan)
    made: dict[tuple[object, ...], Path] = {}
    for variable in _variables(plan):
        kind = (variable.dtype, variable.dims, str(_fill_value(variable)))
        if kind in made:
            _create_alike(made[kind], variable)
        else:
            _create_array(group, plan, variable)
            made[kind] = new / variable.name
    new.rename(path)


def _create_array(group: zarr.Group, plan: Plan, variable: Variable) -> None:
    """Write the metadata of the array of a variable."""
    extra = tuple(len(plan.extra[d]) for d in variable.dims)
    group.create_array(
        variable.name,
        shape=plan.shape + extra,
        chunks=plan.chunks + extra,
        dtype=str if variable.dtype == "str" else variable.dtype,
        serializer=chunks.TEXT if variable.dtype == "str" else chunks.NUMBERS,
        compressors=chunks.COMPRESSOR,
        fill_value=_fill_value(variable),
        dimension_names=plan.dims + variable.dims,
        attributes=_attributes(variable),
    )


def _create_alike(model: Path, variable: Variable) -> None:
    """Write those of one that differs from the array at `model` in name and attributes only.

    Zarr takes 2 ms for each of 40 variables, most of them alike: a twentieth of a small sweep.
    """
    metadata = json.loads((model / "zarr.json").read_bytes())
    metadata["attributes"] = _attributes(variable)
    path = model.with_name(variable.name)
    path.mkdir()
    (path / "zarr.json").write_text(json.dumps(metadata, indent=2), encoding="utf-8")


def _attributes(variable: Variable) -> dict[str, str]:
    return {"units": variable.units, "long_name": variable.long_name}


def _write_coordinates(group: zarr.Group, plan: Plan) -> None:
    """Write the coordinate of every axis and of every further dimension."""
    for axis in plan.axes:
        long_name, units = _AXES.get(axis.key, (axis.key, "1"))
        _write_coordinate(group, axis.name, np.array(axis.values), units, long_name)
    for name, values in plan.extra.items():
        _write_coordinate(group, name, np.array(values), "1", _EXTRA[name])


def _write_coordinate(
    group: zarr.Group, name: str, values: NDArray[Any], units: str, long_name: str
) -> None:
    group.create_array(
        name,
        data=values.astype(TEXT) if values.dtype.kind == "U" else values,
        chunks=values.shape,
        dimension_names=(name,),
        attributes={"units": units, "long_name": long_name},
    )


def _variables(plan: Plan) -> list[Variable]:
    return [*plan.variables, STATUS_DETAIL, STATUS]


def _fill_value(variable: Variable) -> Any:
    """Return what a cell holds that was not simulated or did not end well."""
    if variable is STATUS:
        return Status.PENDING.label
    if variable.dtype == "str":
        return ""
    return np.nan if np.dtype(variable.dtype).kind == "f" else -1
