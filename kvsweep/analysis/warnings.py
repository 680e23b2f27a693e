"""Results that mislead: each check tells one in a sentence, or finds nothing.

A check looks at cells that ended well and is silent where it is not sure: a warning about ordinary
results would teach people not to read them. To add one, write it and put it into `CHECKS`.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.assumed_blocks import assumed_blocks
from kvsweep.analysis.cells import Cells, cells_of
from kvsweep.analysis.chosen import cells_of_part
from kvsweep.analysis.fast_link import fast_link, fast_tier
from kvsweep.analysis.kept_blocks import all_kept
from kvsweep.analysis.losses import (
    errored,
    horizon,
    rejected,
    timed_out,
    unservable,
    without_numbers,
)
from kvsweep.analysis.no_effect import equal_seeds, idle_tier, never_full
from kvsweep.analysis.one_priority import classless_scorer, constant_priority, one_priority
from kvsweep.analysis.router_memory import short_memory
from kvsweep.analysis.settings import (
    attribute,
    foreign_axes,
    no_attribute_of_a_store,
    sweep_of,
    values_of,
)
from kvsweep.analysis.steadiness import burst, filling, held_back, queue_growth
from kvsweep.analysis.warning_records import ResultWarning, Seen, is_told, seen
from kvsweep.analysis.wording import number
from kvsweep.arguments import checked
from kvsweep.config.memory import BLOCK_SIZE
from kvsweep.config.pools import BOTH_ROLES, pools_of
from kvsweep.dimensions import DIMENSIONS
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.config import Scenario

ATTRIBUTE = "warnings"
"""Attribute of a store: its warnings, a JSON list of `ResultWarning` as objects."""

OF_RATES = ("burst", "filling", "held-back")
"""Kinds of the warnings of rates that are not steady, or not sent."""

UNEQUAL_MEMORY = "unequal-memory"
"""Kind of the warning of block sizes that are compared with as many blocks each."""

# Completed requests per instance from which on their balance means something.
ENOUGH = 10

# Share of a run before its first arrival from which on rates are those of another question.
LATE = 0.1

# Request lists that are looked at for when they begin; of a sweep of many slices not all are.
LISTS = 64


def one_instance(cells: Cells) -> ResultWarning | None:
    """Warn of one instance that does most of the work: the result is that of fewer instances."""
    if cells.scenarios is None:
        return None  # routing to the busiest may be what is wanted
    n = cells.instances
    # With shares s, 1 / (Jain's index x n) is the sum of s^2, at most the largest share: that is
    # more than a half, and more than twice an even share.
    shares = 1 / (cells.number("fairness_instances") * n)
    where = (n > 2) & (shares > np.maximum(0.5, 2 / n))
    if where.any():
        # On an idle cluster it costs nothing, and always-busiest does so on purpose.
        where &= (cells.number("mean_running") + cells.number("mean_waiting")) * n > n
        where &= cells.number("completed") >= ENOUGH * n
        where &= cells.settings(lambda scenario: scenario.cluster.routing) != "always-busiest"
        # Of prefill and decode instances, each serves a part of every request.
        where &= cells.settings(lambda scenario: pools_of(scenario.cluster)[0][0]) == BOTH_ROLES
    found = seen(cells, where, shares)
    if found is None:
        return None
    fairness = number(found.value("fairness_instances"))
    return found.warning(
        "one-instance",
        f"one of {n[found.worst]} instances serves more than half of the requests"
        f"{found.most(f'fairness_instances {fairness}')}: the others idle; {_spread(found)}",
    )


def _spread(found: Seen) -> str:
    scenario = found.cells.scenario(found.worst)
    pools = scenario.cluster.pools if scenario else ()
    if any(pool.max_model_len for pool in pools):
        routing = ", or choose another cluster.routing" * any(pool.instances > 1 for pool in pools)
        return (
            "each request goes to the first of cluster.pools that serves its length: change "
            f"max_model_len or instances there{routing}"
        )
    if scenario and scenario.cluster.routing == "weighted":
        return "give queue-depth a larger weight in cluster.scorers"
    return "choose another cluster.routing"


def late_start(cells: Cells) -> ResultWarning | None:
    """Warn of a trace that begins late, as one that was cut: rates count from time zero."""
    whole = cells.settings(_is_whole_trace, np.bool_)
    if whole is None or not whole.any() or cells.requests is None:
        return None
    lasted = cells.number("makespan_s")
    where = cells.ok & whole & (lasted - cells.number("arrivals_s") > LATE * lasted)
    begins = _begins(cells, where, lasted)
    # What arrives late in long runs does not matter.
    found = seen(cells, where & (begins > LATE * lasted), begins / np.maximum(lasted, 1e-6))
    if found is None:
        return None
    begin = float(begins[found.worst])
    alike = bool((begins[found.where] == begin).all())
    late = f"at {begin:,.4g} s{found.share}" if alike else f"late{found.most(f'{begin:,.4g} s')}"
    return found.warning(
        "late-start",
        f"the trace begins {late}: throughput_rps, goodput_rps, "
        "output_tokens_per_s and mean numbers of requests count from 0 s, and so are too low; "
        f"begin there with workload.slice, from_s = {_as_recorded(found, begin):.10g}, or "
        "workload.warmup = 1",
    )


def _begins(
    cells: Cells, where: NDArray[np.bool_], lasted: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return when the first request of each of these cells arrives, seconds; (grid).

    Of the lists of each workload one is looked at, and of more workloads than `LISTS` those whose
    cells took least.
    """
    begins = np.zeros(cells.ok.shape)
    numbers: dict[Any, int] = {}
    found = cells.settings(lambda scenario: numbers.setdefault(scenario.workload, len(numbers)))
    left = where.copy()
    for _ in range(LISTS):
        worst = seen(cells, left, -lasted)
        if worst is None or found is None or cells.requests is None:
            break
        alike = left & (found == found[worst.worst])
        begins[alike] = cells.requests(worst.worst).arrival_us[0] / 1e6
        left &= ~alike
    return begins


def _as_recorded(found: Seen, begins: float) -> float:
    """Return the seconds of a trace's own clock, rounded down to milliseconds."""
    scenario = found.cells.scenario(found.worst)
    workload = None if scenario is None else scenario.workload
    if workload is not None:
        cut = workload.slice
        begins = begins * (workload.scale or 1) + (cut.from_s if cut else 0)
    return math.floor(1000 * begins + 1e-6) / 1000


def _is_whole_trace(scenario: Scenario) -> bool:
    workload = scenario.workload
    return workload is not None and workload.trace is not None and not workload.warmup


CHECKS = (
    without_numbers,
    unservable,
    rejected,
    timed_out,
    errored,
    horizon,
    queue_growth,
    burst,
    filling,
    held_back,
    late_start,
    assumed_blocks,
    fast_link,
    fast_tier,
    one_instance,
    short_memory,
    never_full,
    equal_seeds,
    idle_tier,
    one_priority,
    constant_priority,
    classless_scorer,
    all_kept,
)


def find_warnings(cells: Cells) -> list[ResultWarning]:
    """Return what misleads in the results of `cells`, the gravest first."""
    return [warning for check in CHECKS if (warning := check(cells))]


def warnings_in(ds: xr.Dataset, *, cliff: bool = False) -> list[ResultWarning]:
    """Return what misleads in the cells of `ds` alone: in the part of a store that is looked at.

    Parameters
    ----------
    ds : xr.Dataset
        Results, or some values of them.
    cliff : bool
        Whether a cliff is told of them.
    """
    return [*find_warnings(cells_of(ds, cliff=cliff)), *_of_block_sizes(ds)]


def warnings_of_cliff(
    ds: xr.Dataset, along: str, store: Where | None = None
) -> list[ResultWarning]:
    """Return what misleads in a cliff of `ds`: also what only a run of the sweep could tell.

    Whether a rate is steady is told by the sessions of the scenarios; of a whole store, along the
    axis that its sweep asks for, it is stored.

    Parameters
    ----------
    ds : xr.Dataset
        Results, or some values of them.
    along : str
        The axis that was scanned.
    store : path or Address, optional
        Where they are stored: then a part of them, or another axis, is judged by the scenarios of
        the sweep, which are built again.
    """
    found = warnings_in(ds, cliff=True)
    known = _of_rates(ds, along, store)
    if known is None:
        return found
    told = {each.kind: each for each in known}
    kept = [each for each in found if each.kind not in OF_RATES or each.kind in told]
    return [told.pop(each.kind, each) for each in kept] + list(told.values())


def _of_rates(ds: xr.Dataset, along: str, store: Where | None) -> list[ResultWarning] | None:
    """Return the warnings of rates that a run would tell of a cliff; None: it is not known."""
    if foreign_axes(ds):  # what is stored is of one of several stores
        return None
    asked = sweep_of(ds).get("cliff") or {}
    whole = all(each.dims for each in ds["status"].coords.values())
    if whole and asked.get("along") == along and ATTRIBUTE in ds.attrs:
        return [each for each in _known(ds) if each.kind in OF_RATES]
    cells = None if store is None else cells_of_part(ds, along, store)
    if cells is None:
        return None
    return [warning for check in (burst, filling, held_back) if (warning := check(cells))]


def _of_block_sizes(ds: xr.Dataset) -> list[ResultWarning]:
    """Return what is stored of block sizes that are compared, if cells of `ds` differ in theirs.

    It is of the sweep, whose scenarios are not known here.
    """
    kept = [each for each in _known(ds) if each.kind == UNEQUAL_MEMORY]
    sizes = set(np.asarray(values_of(ds, BLOCK_SIZE)).ravel().tolist()) if kept else ()
    return kept if len(sizes) > 1 else []


def _known(ds: xr.Dataset) -> list[ResultWarning]:
    """Return the warnings that are stored with a sweep."""
    entries = attribute(ds, ATTRIBUTE, [])
    if not all(map(is_told, entries)):
        raise no_attribute_of_a_store(ATTRIBUTE)
    return [ResultWarning(**entry) for entry in entries]


@checked
def warnings_of(ds: xr.Dataset) -> list[ResultWarning]:
    """Return the warnings about the results of a sweep.

    Parameters
    ----------
    ds : xr.Dataset
        A store opened by `kvsweep.open_results`, or what `kvsweep.run` returned. Those that were
        stored with it, about the whole sweep; without them, and of several stores that
        ``xr.concat`` has put together first, those that `ds` itself shows.

    Returns
    -------
    list of ResultWarning
        The gravest first; empty if nothing misleads. ``str`` of one is its sentence.

    Raises
    ------
    InputError
        If `ds` is no result of a sweep, or the store is damaged.

    Examples
    --------
    >>> import kvsweep
    >>> [w.kind for w in kvsweep.warnings_of(kvsweep.open_results("results/small.zarr"))]
    ['burst']
    """
    if "status" not in ds or not DIMENSIONS.keys().isdisjoint(ds["status"].dims):
        raise InputError("warnings_of: needs the results of a sweep")
    if ATTRIBUTE not in ds.attrs:
        return find_warnings(cells_of(ds))
    if not foreign_axes(ds):
        return _known(ds)
    shown = find_warnings(cells_of(ds, cliff=bool(sweep_of(ds).get("cliff"))))
    kinds = {each.kind for each in shown}
    return [*shown, *(each for each in _known(ds) if each.kind not in kinds)]


def stored(found: Sequence[ResultWarning]) -> dict[str, str]:
    """Return the attribute of a store that holds warnings."""
    return {ATTRIBUTE: json.dumps([asdict(warning) for warning in found], allow_nan=False)}
