"""Runs of published designs: a case and a column in, the figures of one run out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from kvsweep.config import Scenario, Sweep, load_sweep
from kvsweep.config.scenario import validate
from kvsweep.config.workload import Workload
from kvsweep.errors import InputError
from kvsweep.metrics import QUANTILES
from kvsweep.policies import Status
from kvsweep.studies.columns import Column, tables_of
from kvsweep.workload.generate import requests_for
from kvsweep.workload.requests import Requests

_P99 = QUANTILES.index(0.99)
_FINGERPRINT = ("instance", "ttft_us", "e2e_us", "finish_us", "preemptions")


@dataclass(frozen=True)
class Case:
    """One cell of a published sweep.

    Attributes
    ----------
    sweep : str
        Name of the sweep file.
    point : tuple of (str, value)
        Value of each axis but the seed.
    seed : int
    """

    sweep: str
    point: tuple[tuple[str, Any], ...]
    seed: int


def case(sweep: str, seed: int, **point: Any) -> Case:
    """Return the cell of a sweep at the axis values `point`."""
    return Case(sweep, tuple(point.items()), seed)


@dataclass(frozen=True)
class Run:
    """What one run came to. Times in milliseconds, NaN where nothing has a value.

    Attributes
    ----------
    status : str
        ``ok``, ``livelock``, ``failed``, or ``unavailable``: these rules lack what the design asks.
    detail : str
        Why it is not ok.
    hit_rate : float
        Blocks reused / blocks reused or newly taken.
    last_useful_s, leaked_blocks
        Replica only: end of the last step that got some request further than ever before; blocks
        in use at the end that no request can reach. NaN and -1 otherwise.
    ttft_by_round : tuple of float
        Mean TTFT of each round of the conversations.
    ttft_p99_by_class : tuple of (str, float)
        Of each SLO class.
    assigned : tuple of int
        Requests routed to each instance.
    fingerprint : str
        Equal for runs that are equal in every request: instance, times, preemptions.
    """

    status: str
    detail: str
    requests: int = 0
    completed: int = -1
    queued: int = -1
    running: int = -1
    dropped: int = -1
    not_arrived: int = -1
    preemptions: int = -1
    preemption_rate: float = np.nan
    ttft_mean_ms: float = np.nan
    ttft_p99_ms: float = np.nan
    e2e_mean_ms: float = np.nan
    e2e_p99_ms: float = np.nan
    throughput_rps: float = np.nan
    hit_rate: float = np.nan
    reloads: int = -1
    last_useful_s: float = np.nan
    leaked_blocks: int = -1
    ttft_by_round: tuple[float, ...] = ()
    ttft_p99_by_class: tuple[tuple[str, float], ...] = ()
    assigned: tuple[int, ...] = ()
    fingerprint: str = ""


def sweeps_folder() -> Path:
    """Return the folder of the published sweeps: in the installed package, or in the sources."""
    installed = Path(__file__).parent / "sweeps"
    return installed if installed.is_dir() else Path(__file__).parents[2] / "sweeps" / "published"


@lru_cache
def read_sweep(name: str) -> Sweep:
    """Return a published sweep."""
    return load_sweep(sweeps_folder() / f"{name}.toml")


@lru_cache(maxsize=16)
def requests_of(trace: str, seed: int) -> Requests:
    """Return an original request list; `trace` is its path with ``{seed}`` in it."""
    return requests_for(Workload(trace=trace), seed, 0, base_dir=sweeps_folder())


def simulate(chosen: Case, column: Column) -> Run:
    """Run a case under the rules of a column."""
    sweep = read_sweep(chosen.sweep)
    original = sweep.scenario(dict(chosen.point))
    try:
        scenario = validate(column.apply(tables_of(original)), sweep.base_dir)
    except ValidationError as error:
        return Run("unavailable", str(error.errors()[0]["msg"]).removeprefix("Value error, "))
    except InputError as error:
        return Run("unavailable", str(error))
    assert scenario.workload is not None  # `Sweep.scenario` sees to it
    assert scenario.workload.trace is not None  # as in all published sweeps
    requests = requests_of(scenario.workload.trace, chosen.seed)
    if column.rules == "vllm":
        return _on_kernel(scenario, chosen.seed, len(requests), sweep)
    return _on_replica(scenario, requests)


def _on_replica(scenario: Scenario, requests: Requests) -> Run:
    from kvsweep.simulate.reduce_replica import cell_values
    from kvsweep.simulate.replica_cells import replicate

    replication = replicate(scenario, requests)
    values = cell_values(scenario, requests, replication)
    totals, useful = replication.totals, replication.last_useful_us
    return replace(
        _record(values),
        last_useful_s=useful / 1e6 if useful >= 0 else np.nan,
        leaked_blocks=replication.leaked_blocks,
        # As the instances count them, not as the requests' own records have it.
        completed=totals.completed,
        queued=totals.queued,
        running=totals.running,
        dropped=totals.dropped,
        preemptions=totals.preemptions,
    )


def _on_kernel(scenario: Scenario, seed: int, requests: int, sweep: Sweep) -> Run:
    from kvsweep.simulate import simulate_batch

    cells = simulate_batch(
        [scenario],
        [seed],
        entropy=sweep.entropy,
        policies=[None],
        base_dir=sweep.base_dir,
        keep_requests=True,
    )
    return _record({name: values[0, 0] for name, values in cells.items()})


def _record(values: dict[str, NDArray[Any]]) -> Run:
    """Return the figures of one cell, given by the names of `kvsweep.metrics`."""
    ttft, status = values["request_ttft_us"], values["request_status"]
    instances = values["request_instance"]
    digest = hashlib.sha256()
    for name in _FINGERPRINT:
        digest.update(np.ascontiguousarray(values[f"request_{name}"], np.int64).tobytes())
    return Run(
        status=Status.labels()[int(values["status"])],
        detail=str(values["status_detail"]),
        requests=len(ttft),
        completed=int((status == "completed").sum()),
        queued=int((status == "queued").sum()),
        running=int((status == "running").sum()),
        dropped=int((status == "dropped_unservable").sum()),
        not_arrived=int((status == "not_arrived").sum()),
        preemptions=int(values["request_preemptions"].sum()),
        preemption_rate=float(values["preemption_rate"]),
        ttft_mean_ms=float(values["ttft_mean_ms"]),
        ttft_p99_ms=float(values["ttft_ms"][_P99]),
        e2e_mean_ms=float(values["e2e_mean_ms"]),
        e2e_p99_ms=float(values["e2e_ms"][_P99]),
        throughput_rps=float(values["throughput_rps"]),
        hit_rate=float(values["block_hit_rate"]),
        reloads=int(values["reloads"]),
        ttft_by_round=_means(ttft, values["request_round"]),
        ttft_p99_by_class=_p99_by_class(ttft, values["request_slo_class"]),
        assigned=tuple(np.bincount(instances[instances >= 0]).tolist()),
        fingerprint=digest.hexdigest(),
    )


def _means(times_us: NDArray[np.int64], groups: NDArray[np.int64]) -> tuple[float, ...]:
    """Return the mean time of each group 0, 1, ..., milliseconds."""
    known = (times_us >= 0) & (groups >= 0)
    if not known.any():
        return ()
    counts = np.bincount(groups[known])
    sums = np.bincount(groups[known], weights=times_us[known])
    with np.errstate(invalid="ignore"):
        return tuple((sums / counts / 1000).tolist())


def _p99_by_class(
    times_us: NDArray[np.int64], classes: NDArray[Any]
) -> tuple[tuple[str, float], ...]:
    """Return the 99th percentile of each class that has a name, milliseconds."""
    found = []
    for name in sorted(set(classes.tolist()) - {""}):
        times = times_us[(classes == name) & (times_us >= 0)]
        found.append((name, float(np.quantile(times, 0.99)) / 1000 if times.size else np.nan))
    return tuple(found)
