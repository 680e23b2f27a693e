"""From the cliff in a store to what is handed on, as a search has it: nothing is simulated."""

from __future__ import annotations

from dataclasses import replace
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis import variables
from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.seed_order import by_seed
from kvsweep.config.axes import SEED
from kvsweep.errors import InputError
from kvsweep.policies import Status
from kvsweep.search.aims import Aim, Found
from kvsweep.search.answer import answer_of
from kvsweep.search.finding import shown
from kvsweep.search.problem import Labels, Problem, is_whole
from kvsweep.search.samples import Reading, Samples
from kvsweep.search.space import Space
from kvsweep.search.targets import Target
from kvsweep.store import FOLDERS, restored_sweep

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.analysis.cliff_records import Cliff, GroupCliff
    from kvsweep.search.answer_records import SearchAnswer


def answer_from(ds: xr.Dataset, cliff: Cliff, store: Where) -> SearchAnswer | None:
    """Return what the cells of a store say about a cliff: candidates, the answer, the server.

    Parameters
    ----------
    ds : xr.Dataset
        The store, or the part of it in which the cliff was found.
    cliff : Cliff
        From `kvsweep.find_cliff`.
    store : path or Address
        Where it is, for messages.

    Returns
    -------
    SearchAnswer or None
        None if the cliff is not along an axis of the sweep, in a group of its axes (along the
        rounds of a conversation, say): no scenario stands for such a value.
    """
    failure: InputError | None = None
    for folder in FOLDERS:
        problem = _problem(ds, cliff, store, folder)
        if problem is None:
            return None
        found = [_found(ds, cliff, problem, group) for group in cliff.groups]
        try:
            return answer_of(problem, "crossing", cliff.along_units, found, interrupted=False)
        except InputError as error:  # a preset that is in another folder
            failure = error
    assert failure is not None
    raise failure


def _problem(ds: xr.Dataset, cliff: Cliff, store: Where, folder: Path) -> Problem | None:
    sweep = restored_sweep(ds.attrs, store, folder)
    axes = {axis.name: axis for axis in sweep.axes if axis.name != SEED}
    named = {name for group in cliff.groups for name in group.labels}
    if cliff.along not in axes or not named <= axes.keys():
        return None
    axis = axes[cliff.along]
    # Of what --at has chosen one value is left.
    fixed = {name: ds[name].item() for name in axes if name in ds.coords and name not in ds.dims}
    values = [float(value) for value in cliff.axis]
    there = np.sort(np.atleast_1d(ds[SEED].values)) if SEED in ds.coords else ()
    seeds = tuple(int(seed) for seed in there)
    return Problem(
        sweep=sweep,
        axis=axis,
        groups=tuple({**fixed, **_typed(group.labels)} for group in cliff.groups),
        targets=(Target(cliff.metric, cliff.threshold, cliff.past == "above"),),
        space=Space(min(values), max(values), is_whole(axis.key), cliff.generous == "high"),
        oriented=True,
        unclear=0.0,
        aim=Aim(confidence=cliff.confidence, max_seeds=max(1, len(seeds))),
        seeds=seeds or (0,),
        whole=False,
    )


def _typed(labels: Labels) -> Labels:
    return {name: value.item() if isinstance(value, np.generic) else value
            for name, value in labels.items()}  # fmt: skip


def _found(ds: xr.Dataset, cliff: Cliff, problem: Problem, group: GroupCliff) -> Found:
    """Return a group's cells as if a search had asked for them."""
    array = variables.get(ds, cliff.metric).sel(group.labels)
    if SEED not in array.dims:
        array = array.expand_dims(SEED)
    (target,) = problem.targets
    excess = target.excess(array.transpose(cliff.along, SEED).values)
    excess = excess[:, _simulated(ds, cliff.along, group.labels)]
    samples = Samples(problem.space)
    for value, seeds in zip(array[cliff.along].values, excess, strict=True):
        samples.add(float(value), seeds[None])
    samples.dropping |= _dropping(ds, cliff.along, group.labels)
    crossing, interval = group.mean_curve, group.interval
    seeds, t = excess.shape[1], problem.aim.t(excess.shape[1])
    place = samples.space.depth(crossing.value)
    found = Found(
        samples=samples,
        outcome=crossing.outcome,
        crossing=crossing.value,
        low=interval.low if interval else nan,
        high=interval.high if interval else nan,
        seeds=seeds,
        t=t if interval else 0.0,
        answer=nan,
        stopped="tolerance",
        back=(),
    )
    if crossing.outcome not in (Outcome.CROSSES, Outcome.NEVER):
        return found
    reading = Reading(place, nan, nan, (nan, nan))
    aim = replace(problem.aim, max_seeds=seeds)
    return replace(found, answer=shown(samples, aim, reading))


def _simulated(ds: xr.Dataset, along: str, labels: Labels) -> NDArray[np.bool_]:
    """Return the seeds of which no cell is still to be simulated, all if there is none; (seeds,).

    The others of a store that is half done tell nothing, least of all that a value fails.
    """
    if "status" not in ds or SEED not in ds["status"].dims:
        return np.ones(ds.sizes.get(SEED, 1), np.bool_)
    status = by_seed(ds["status"]).sel(labels).transpose(along, SEED)
    pending = variables.in_words(status, status.values) == Status.PENDING.label
    done: NDArray[np.bool_] = ~pending.any(axis=0)
    return done if done.any() else np.ones_like(done)


def _dropping(ds: xr.Dataset, along: str, labels: Labels) -> set[float]:
    """Return the values of the axis at which a seed drops requests that can never fit."""
    if "dropped_unservable" not in ds:
        return set()
    dropped = variables.get(ds, "dropped_unservable").sel(labels) > 0
    some = dropped.any([dim for dim in dropped.dims if dim != along])
    return set(map(float, some[along].values[some.values]))
