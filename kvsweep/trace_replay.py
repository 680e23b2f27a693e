"""Replay one trace and keep everything: every request's times, every step of every instance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.arguments import checked
from kvsweep.config import NO_LATENCY, Scenario, load_sweep, parse_scenario
from kvsweep.config.axes import POLICY, SEED
from kvsweep.config.bounds import check_times
from kvsweep.config.explain import shown
from kvsweep.config.fleet import is_explicit
from kvsweep.config.read_options import parse_reading, refuse_reading
from kvsweep.errors import InputError
from kvsweep.metrics import RUN_VARIABLES
from kvsweep.metrics.request_columns import kernel_columns, replica_columns
from kvsweep.policies import RULES, Status
from kvsweep.records import EVENT_FIELDS, STEP_FIELDS
from kvsweep.survey import left_out_of
from kvsweep.workload.generate import requests_for
from kvsweep.workload.traces import Trace, load_trace

if TYPE_CHECKING:
    import xarray as xr

REQUEST_COLUMNS = {
    v.name.removeprefix("request_"): v
    for v in RUN_VARIABLES
    if set(v.rules) == set(RULES) and not v.levels
}
"""Per-request columns and what they are; -1 (or an empty CSV field) where there is no value.

Those that every rule book gives, and that need no service levels: files of replays have the same
columns whatever the rules.
"""

STEP_COLUMNS = tuple(field.name for field in STEP_FIELDS if field.name != "evicted")
EVENT_COLUMNS = tuple(field.name for field in EVENT_FIELDS)


@dataclass(frozen=True)
class Replay:
    """What a replay of a trace gives.

    Attributes
    ----------
    scenario : Scenario
        What was replayed.
    requests : dict of str to array (n,)
        `REQUEST_COLUMNS`, in the order of the trace.
    steps : dict of str to int64 array
        `STEP_COLUMNS`, per instance in order of time, instances one after the other; -1 (or an
        empty CSV field) where there is no value. Those that take no time (rule R11.8) are left
        out, which the measure `steps` counts.
    events : dict of str to array
        The kernel's decisions, by the columns of `kvsweep.records.EVENT`, in the order in which
        each instance took them; under the replica's rules none.
    status, status_detail : str
        How the simulation ended, and why it did not end well.
    trace : Trace
        Where the requests are from.
    """

    scenario: Scenario
    requests: dict[str, NDArray[Any]]
    steps: dict[str, NDArray[np.int64]]
    events: dict[str, NDArray[Any]]
    status: str
    status_detail: str
    trace: Trace

    def to_dataset(self) -> xr.Dataset:
        """Return the requests as a dataset with dimension ``request``."""
        import xarray as xr

        columns = {
            name: xr.DataArray(
                self.requests[name],
                dims="request",
                attrs={"units": variable.units, "long_name": variable.long_name},
            )
            for name, variable in REQUEST_COLUMNS.items()
        }
        count = len(self.requests["status"])
        attributes = {
            "status": self.status,
            "status_detail": self.status_detail,
            "left_out": self.trace.left_out,
        }
        return xr.Dataset(columns, coords={"request": np.arange(count)}, attrs=attributes)


@checked
def replay(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    read: Sequence[str] = (),
) -> xr.Dataset:
    """Replay a trace under its own scenario, or simulate one cell of a sweep.

    Parameters
    ----------
    source : path or dict
        A trace: kvsweep-trace/1, or of another format of docs/traces.md. Or a sweep file (its name
        ends in ``.toml``) of which `overrides` leave one value of each axis.
    overrides : sequence of str
        Changes of the scenario, ``KEY=VALUE`` each, as ``cache.gpu_blocks=2000``.
    read : sequence of str
        How to read a file, ``KEY=VALUE`` each, as ``time_unit=ms`` or ``columns.arrival=ts``.

    Returns
    -------
    xr.Dataset
        Dimension ``request`` in trace order, int64 but for ``status``, and -1 where there is no
        value. On the trace's clock, microseconds: ``arrival_us``, ``queued_us``, ``scheduled_us``,
        ``first_token_us``, ``finish_us``; after the arrival, as the client sees them: ``ttft_us``,
        ``e2e_us``. ``preemptions``, ``cached_tokens``, ``instance``; ``status``: text. Attributes
        ``status`` and ``status_detail`` tell how the simulation ended, and ``attrs["left_out"]``
        how many requests of the file are not among these, as those that failed.

    Raises
    ------
    InputError
        If the trace or an override is not valid, or neither says how long steps take; or a sweep
        has several cells.

    Examples
    --------
    >>> import kvsweep
    >>> trace = {
    ...     "format": "kvsweep-trace/1",
    ...     "scenario": {"latency": {"beta": [7000, 17.7, 2.8]}},
    ...     "requests": [
    ...         {"id": 0, "arrival_us": 0, "prompt": [[1, 40]], "output": [2, 3]},
    ...         {"id": 1, "arrival_us": 500, "prompt": [[1, 32], [3, 8]], "output": [4, 2]},
    ...     ],
    ... }
    >>> ds = kvsweep.replay(trace, ["cache.gpu_blocks=20"])
    >>> ds["ttft_us"].values.tolist(), ds["cached_tokens"].values.tolist()
    ([7708, 14352], [0, 32])
    """
    return run_replay(source, overrides, read).to_dataset()


def run_replay(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    read: Sequence[str] = (),
    notify: Callable[[str], None] | None = None,
) -> Replay:
    """Replay a trace as `replay` does; keep the steps too, and tell `notify` what takes long."""
    scenario, trace = _load(source, overrides, read)
    return replay_requests(scenario, trace, notify)


def replay_requests(
    scenario: Scenario, trace: Trace, notify: Callable[[str], None] | None = None
) -> Replay:
    """Replay the requests of a trace under any scenario, as `run_replay` does."""
    prompts, outputs = trace.requests.prompt_tokens, trace.requests.output_tokens
    try:
        check_times(scenario, len(prompts), int((prompts + outputs).max()), int(prompts.max()))
        if scenario.engine.rules == "blis":
            return _run_replica(scenario, trace)
        return _run_kernel(scenario, trace, notify)
    except InputError as error:
        raise InputError(f"{trace.where}: {error}") from None


def _load(
    source: str | Path | Mapping[str, Any], overrides: Sequence[str], read: Sequence[str]
) -> tuple[Scenario, Trace]:
    if not isinstance(source, Mapping) and Path(source).suffix.lower() == ".toml":
        if read:
            raise InputError("--read: says how a trace is read, which a sweep does itself")
        return _load_cell(Path(source), overrides)
    refuse_reading(overrides)
    trace = load_trace(source, parse_reading(read))
    scenario = parse_scenario(trace.scenario, trace.where, overrides)
    if not scenario.latency.model_fields_set:
        raise InputError(f"{trace.where}: latency: {NO_LATENCY}, with --set")
    return scenario, trace


def _load_cell(path: Path, overrides: Sequence[str]) -> tuple[Scenario, Trace]:
    """Return scenario and requests of a sweep that has one cell."""
    sweep = load_sweep(path, overrides)
    if sweep.design:
        raise InputError(f"{path}: has a [design], whose points are not replayed one by one")
    many = [axis for axis in sweep.axes if len(axis.values) > 1]
    if many:
        firsts = ((axis.key, shown(axis.values[0], quote=False)) for axis in many)
        options = " ".join(f"--set {key}={value}" for key, value in firsts)
        raise InputError(f"{path}: has more than one cell; choose one, as by {options}")
    point = {axis.key: axis.values[0] for axis in sweep.axes}
    seed = point.pop(SEED, 0)
    scenario = sweep.scenario(point)
    assert scenario.workload is not None  # a sweep's scenario has one
    workload, policy = scenario.workload, point.get(POLICY)
    requests = requests_for(workload, seed, sweep.entropy, policy, sweep.base_dir)
    left_out = sum(out for out, _ in left_out_of(workload, policy, [seed], sweep.base_dir).values())
    return scenario, Trace(
        requests, where=str(path), left_out=left_out, seed=seed, entropy=sweep.entropy
    )


def _run_kernel(scenario: Scenario, trace: Trace, notify: Callable[[str], None] | None) -> Replay:
    from kvsweep.simulate import kernel_entries, warm_up
    from kvsweep.simulate.logged import run_single

    warm_up(notify, kernel_entries([scenario]))
    single = run_single(scenario, trace.requests, trace.seed, trace.entropy)
    requests = _columns(kernel_columns(single.outputs, [trace.requests]))
    order = np.argsort(single.outputs.steps["instance"], kind="stable")
    steps = {name: single.outputs.steps[name][order] for name in STEP_COLUMNS}
    if not is_explicit(scenario):  # of others it is not logged, and 0 would be a full cache
        steps["free_after"] = np.full(len(order), -1)
    events = {name: single.outputs.events[name] for name in EVENT_COLUMNS}
    return Replay(scenario, requests, steps, events, single.status.label, single.detail, trace)


def _run_replica(scenario: Scenario, trace: Trace) -> Replay:
    from kvsweep.replica import run
    from kvsweep.workload.native import to_trace_dict

    settings = scenario.to_trace()
    settings.setdefault("engine", {})["rules"] = "blis"
    entries = to_trace_dict(trace.requests, settings)["requests"]
    found = run(settings, entries, steps=True)
    requests = _columns(replica_columns(scenario, trace.requests, found))
    steps_taken = _replica_steps(scenario, found)
    none = {name: np.zeros(0, np.int64) for name in EVENT_COLUMNS}
    status, detail = found.status, found.status_detail
    return Replay(scenario, requests, steps_taken, none, status, detail, trace)


def _columns(found: dict[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: found[variable.name] for name, variable in REQUEST_COLUMNS.items()}


def _replica_steps(scenario: Scenario, found: Any) -> dict[str, NDArray[np.int64]]:
    rows = []
    for instance, log in enumerate(found.steps):
        before = 0
        for number, row in enumerate(log):
            free = scenario.cache.gpu_blocks - row.used_blocks_before_completion
            preempted = row.preemptions_so_far - before
            before = row.preemptions_so_far
            rows.append(
                (
                    number,
                    instance,
                    row.start_us,  # it is scheduled when it begins
                    row.start_us,
                    row.advance_us,
                    row.batch,
                    row.waiting,
                    row.prefill_tokens,
                    row.decode_tokens,
                    preempted,
                    0,  # none is in flight
                    free,
                    *(0, 0, 0),  # no copies go on beside its steps
                    *(0, 0),  # nor has it windows or transfers
                    -1,  # nor a log of what was free after
                )
            )
    table = np.array(rows, np.int64).reshape(-1, len(STEP_COLUMNS))
    return {name: table[:, i] for i, name in enumerate(STEP_COLUMNS)}


def is_ok(found: Replay) -> bool:
    """Return whether the simulation came to its proper end."""
    return found.status == Status.OK.label
