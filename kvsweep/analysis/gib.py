"""The memory of an axis of blocks, where the bytes of a token are known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsweep.analysis.settings import foreign_axes, sweep_of
from kvsweep.config.axes import SEED
from kvsweep.config.pools import ROLES
from kvsweep.config.transfer import has_usual_bytes
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

GIB = 2**30

DECIDING = (
    *("cache.block_size", "cache.groups", "cache.kv_bytes_per_token", "latency.model", "model."),
    *("cluster.pools", "cluster.prefill", "cluster.decode", "engine.pipeline_parallel_size"),
)
"""Keys, or how they begin, that change the bytes of a block from cell to cell."""


def unit_gib(ds: xr.Dataset, axis: str) -> float | None:
    """Return the GiB on each GPU of a unit of an axis of blocks or tokens.

    Parameters
    ----------
    ds : xr.Dataset
        Results of a sweep.
    axis : str
        Name of a dimension.

    Returns
    -------
    float or None
        None for other axes, or if the bytes of a token are not known or not the same everywhere,
        as of several stores that ``xr.concat`` has put together.
    """
    sweep = _sweep(ds)
    keys = [key for key in sweep.get("grid", {}) if key.rpartition(".")[2] == axis]
    if keys not in (["cache.gpu_blocks"], ["cache.gpu_tokens"]):
        return None
    varied = [*sweep["grid"], *(sweep.get("design") or {}).get("ranges", {})]
    varied += [key for policy in sweep["policies"].values() for key in policy]
    if any(key.startswith(DECIDING) for key in varied):
        return None
    if axis in ds.dims and axis not in ds.coords:  # places in a list
        return None
    if foreign_axes(ds) - {axis, SEED}:  # attributes are those of one of several stores
        return None
    if not _are_alike(sweep["scenario"]):
        return None
    cache = sweep["scenario"].get("cache", {})
    token, size = cache.get("kv_bytes_per_token"), cache.get("block_size")
    if token is None or size is None or len(cache.get("groups", ())) > 1:
        return None  # a block of one of several groups has the bytes of its layers only
    return float(token * (size if axis == "gpu_blocks" else 1) / GIB)


def _are_alike(scenario: dict[str, Any]) -> bool:
    """Return whether a token has as many bytes on each GPU of all pools that take their blocks."""
    cluster = scenario.get("cluster") or {}
    pools = [*cluster.get("pools", ()), *(cluster.get(role) or {} for role in ROLES)]
    usual = (scenario.get("latency") or {}).get("model")
    own = [pool["latency"] for pool in pools if pool.get("latency") and not pool.get("gpu_blocks")]
    return all(has_usual_bytes(times.get("model"), usual) for times in own)


def _sweep(ds: xr.Dataset) -> dict[str, Any]:
    try:
        found = sweep_of(ds)
    except InputError:
        return {}
    return found if {"grid", "policies", "scenario"} <= found.keys() else {}
