"""A search over the cells of a sweep: the axis, the groups, and what is to be kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any

from kvsweep.analysis.cliff import UNCLEAR
from kvsweep.asked import check_levels
from kvsweep.config.axes import (
    POLICY,
    SAMPLE,
    SEED,
    Axis,
    dimension_names,
    more_is_generous,
    number_kind,
    tells_its_end,
)
from kvsweep.config.scenario import Scenario
from kvsweep.errors import InputError, did_you_mean
from kvsweep.search.aims import Aim
from kvsweep.search.space import Space
from kvsweep.search.targets import Target
from kvsweep.survey import survey
from kvsweep.workload.generate import requests_for

if TYPE_CHECKING:
    from kvsweep.config import Sweep
    from kvsweep.workload.requests import Requests

Labels = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What is searched for: for each combination of the other axes, a value of one axis.

    Attributes
    ----------
    sweep : Sweep
        With `axis` among its axes.
    axis : Axis
        What is searched along; its values are the ends of the range.
    groups : tuple of dict
        Combinations of the other axes but the seed.
    targets : tuple of Target
        What is to be kept.
    space : Space
        The range.
    oriented : bool
        Whether its generous end is known.
    unclear : float
        If it is not: the rank correlation below which it is that of `space`, as in a grid.
    aim : Aim
        When it is done.
    seeds : tuple of int
        As many as may be needed: those of the sweep, and further ones.
    whole : bool
        Whether cells that drop requests count as past: those would be left out of the measures.
    """

    sweep: Sweep
    axis: Axis
    groups: tuple[Labels, ...]
    targets: tuple[Target, ...]
    space: Space
    oriented: bool
    unclear: float
    aim: Aim
    seeds: tuple[int, ...]
    whole: bool

    def scenario(self, group: Labels, value: float) -> Scenario:
        """Return the scenario of a group at a value."""
        return self.sweep.scenario({**group, self.axis.name: self.typed(value)})

    def trace(self, group: Labels, value: float) -> Requests | None:
        """Return the request list of the first seed at a value, where it is a trace's."""
        workload = self.scenario(group, value).workload
        if workload is None or workload.trace is None:
            return None
        folder, policy = self.sweep.base_dir, group.get(POLICY)
        return requests_for(workload, self.seeds[0], self.sweep.entropy, policy, folder)

    def typed(self, value: float) -> int | float:
        """Return a value as the axis has it."""
        return int(value) if self.space.integer else float(value)


def find_axis(sweep: Sweep, name: str, where: str) -> Axis:
    """Return the numeric axis of a name or key.

    Raises
    ------
    InputError
        If the sweep has none; `where` names the option or key.
    """
    axes = {axis.name: axis for axis in sweep.axes if axis.key not in (POLICY, SEED, SAMPLE)}
    axis = axes.get(name) or next((a for a in axes.values() if a.key == name), None)
    if axis is None:
        check_drawn(sweep, name, where)
        hint = did_you_mean(name, list(axes)) or f"; one of: {', '.join(axes) or 'none'}"
        raise InputError(f"{sweep.source.label}: {where}: no axis {name!r} to search along{hint}")
    if not all(type(value) in (int, float) for value in axis.values):
        raise InputError(f"{sweep.source.label}: {where}: {name!r} has values that are no numbers")
    return axis


def check_drawn(sweep: Sweep, name: str, where: str) -> None:
    """Refuse to search along what ``[design]`` draws: its points have a value of it each.

    Raises
    ------
    InputError
        If it is the name or key of a parameter of the design; `where` names the option.
    """
    for key in sweep.design.ranges if sweep.design else ():
        if name in (key, key.rpartition(".")[2]):
            raise InputError(
                f"{sweep.source.label}: {where}: {name!r} is drawn by [design]; a search needs it "
                "as an axis of [grid]"
            )


def with_axis(sweep: Sweep, key: str, values: tuple[int | float, ...]) -> tuple[Sweep, Axis]:
    """Return a sweep with an axis of these values, and the axis; it may have it already."""
    others = [axis for axis in sweep.axes if axis.key != key]
    name = dimension_names([*(axis.key for axis in others), key])[key]
    axis = Axis(key, name, values)
    return replace(sweep, axes=(*others, axis)), axis


def is_whole(key: str) -> bool:
    """Whether the values of a key are whole numbers."""
    return number_kind(key) is int


def make_problem(
    sweep: Sweep,
    axis: Axis,
    targets: Sequence[Target],
    aim: Aim,
    *,
    generous_high: bool | None,
    whole: bool,
) -> Problem:
    """Lay out a search; the scenarios at both ends of each group are built, and so checked.

    Parameters
    ----------
    sweep, axis
        The axis is one of the sweep's.
    targets, aim
        What is to be kept, and how sure.
    generous_high : bool or None
        Which end keeps the limits; None if the measure is to tell.
    whole : bool
        Whether no request may be dropped.

    Raises
    ------
    InputError
        If a scenario or its request list is not valid.
    """
    low, high = float(min(axis.values)), float(max(axis.values))
    if low == high:
        remedy = "" if generous_high is None else "; or give --between LOW:HIGH"
        raise InputError(
            f"{sweep.source.label}: grid.{axis.key}: one value, {low:.15g}; a search needs a "
            f"range, its first value and its last{remedy}"
        )
    others = [a for a in sweep.axes if a.key != SEED and a.name != axis.name]
    combinations = product(*(a.values for a in others))
    groups = tuple(dict(zip([a.name for a in others], c, strict=True)) for c in combinations)
    aim = aim if varies(sweep, groups) else replace(aim, max_seeds=1)
    known = next((a.values for a in sweep.axes if a.key == SEED), (0,))
    if has_file_by_seed(sweep, groups):  # nobody knows of further ones
        aim = replace(aim, max_seeds=min(aim.max_seeds, len(known)))
    seeds = (*known, *range(max(known) + 1, max(known) + 1 + aim.max_seeds))[: aim.max_seeds]
    high_keeps = more_is_generous(axis.key) if generous_high is None else generous_high
    space = Space(low, high, is_whole(axis.key), high_keeps)
    problem = Problem(
        sweep=sweep,
        axis=axis,
        groups=groups,
        targets=tuple(targets),
        space=space,
        oriented=generous_high is not None,
        unclear=UNCLEAR if tells_its_end(axis.key) else 0.0,
        aim=aim,
        seeds=seeds,
        whole=whole,
    )
    ends = [(g, problem.scenario(g, end)) for g in groups for end in space.ends]
    policies = [g.get(POLICY) for g, _ in ends]
    scenarios = [scenario for _, scenario in ends]
    lists = survey(sweep, scenarios, policies, seeds[:1])
    classes = sorted({name for found in lists for name in found.slo_classes})
    check_levels(sweep, scenarios, {"slo_class": classes})
    return problem


def varies(sweep: Sweep, groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether another seed is another list of requests: a trace is not, unless it is repeated."""
    workloads = (sweep.scenario(group).workload for group in groups)
    return any(not w.trace or "{seed}" in w.trace or w.repeat > 1 for w in workloads if w)


def has_file_by_seed(sweep: Sweep, groups: Sequence[Mapping[str, Any]]) -> bool:
    """Whether each seed has a trace of its own, so that there are as many as there are files."""
    workloads = (sweep.scenario(group).workload for group in groups)
    return any("{seed}" in (w.trace or "") for w in workloads if w)
