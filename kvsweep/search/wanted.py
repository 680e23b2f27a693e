"""Searches as they are asked for: by options, and else by the sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvsweep.analysis.questions import check_threshold
from kvsweep.analysis.variables import HIGHER_IS_BETTER
from kvsweep.config import load_sweep
from kvsweep.config.axes import SEED, about
from kvsweep.config.compose import parts_of
from kvsweep.config.effects_of_keys import unread
from kvsweep.config.fleet import has_pools
from kvsweep.config.overrides import with_overrides
from kvsweep.config.source import read_source
from kvsweep.errors import InputError
from kvsweep.metrics import attainment_name, out_of_range
from kvsweep.search.aims import Aim
from kvsweep.search.finding import SEEDS
from kvsweep.search.problem import Problem, check_drawn, find_axis, make_problem, with_axis
from kvsweep.search.ranges import KINDS, check_read, find_key, find_range
from kvsweep.search.targets import Target, check_limit, check_metric, parse_target

if TYPE_CHECKING:
    from kvsweep.config import Sweep

SEVERAL = 2
"""Instances of a sweep that does not have them as an axis, while it is read."""

COMPLIANCE = 0.99
"""Share of the requests that are to keep their service levels, if none is asked for."""


def load_for_size(file: Path, settings: Sequence[str], find: str | None) -> tuple[Sweep, str]:
    """Read the sweep of a search; what only several instances read has an effect in one of them.

    Parameters
    ----------
    file, settings
        As for `load_sweep`.
    find : str or None
        One of `KINDS`; None if the sweep's ``[size]`` is to say it.

    Returns
    -------
    Sweep, str
        And what is to be found.
    """
    values = with_overrides(read_source(file), settings, None).values
    if find is None:
        table = values.get("size")
        find = table.get("find") if isinstance(table, dict) else None
    (key, *_) = KINDS["instances"].keys
    if find == "instances" and not any(text.partition("=")[0] == key for text in settings):
        grid = values.get("grid", {})
        if not isinstance(grid, dict) or key not in grid:
            return _with_several(file, settings, key), find
    sweep = load_sweep(file, settings)
    if find is None:
        raise InputError(
            f"--find: missing; give it, or [size] with find in {sweep.source.label}: one of "
            f"{', '.join(KINDS)}"
        )
    return sweep, find


def _with_several(file: Path, settings: Sequence[str], key: str) -> Sweep:
    """Read a sweep, with several instances if it must have them; messages name no such setting."""
    try:
        sweep = load_sweep(file, settings)
    except InputError as error:
        with suppress(InputError):
            return load_sweep(file, [*settings, f"{key}={SEVERAL}"])
        raise error from None
    if any(has_pools(scenario) for scenario in sweep.probes()):
        raise InputError(
            f"{sweep.source.label}: --find instances: pools, and prefill and decode, have "
            "instances of their own; their numbers may be axes of a grid"
        )
    return sweep


def with_size_table(sweep: Sweep, find: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked for: options that are given, and else the sweep's ``[size]``.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    find : str
        What is to be found; a range in the table is of what the table finds.
    given : mapping
        Options by the table's keys; None or empty is what was not given.
    """
    table = sweep.size.model_dump() if sweep.size else {}
    if table.get("find") not in (None, find):
        table["between"] = None
    if table.get("between"):
        table["between"] = ":".join(f"{end:.15g}" for end in table["between"])
    return {key: table.get(key, value) if value in (None, ()) else value
            for key, value in given.items()}  # fmt: skip


@contextmanager
def told_by_table(sweep: Sweep, given: Mapping[str, Any]) -> Iterator[None]:
    """Name keys of ``[size]`` where a message names options that were not given."""
    try:
        yield
    except InputError as error:
        message = str(error)
        for option, key in _OPTIONS.items():
            has_key = sweep.size and getattr(sweep.size, key) not in (None, ())
            if message.startswith(option) and has_key and given.get(key) in (None, ()):
                message = message.removeprefix(option).removeprefix(":").strip()
                raise sweep.source.error(("size", key), message) from None
        raise


_OPTIONS = {
    "--target": "targets",
    "--attainment": "attainment",
    "--between": "between",
    "--find": "find",
}
"""What options are called in the table."""


def check_aim(aim: Aim) -> Aim:
    """Refuse a search that can never end, or never begin.

    Raises
    ------
    InputError
        Naming the option.
    """
    least = 0.5 if aim.shown else 0.0
    if not least < aim.confidence < 1.0:
        raise InputError(
            f"--confidence: {aim.confidence!r} is not between {least:g} and 1 (0.95 is usual)"
        )
    if not 0.0 < aim.tolerance < 1.0:
        raise InputError(f"--tolerance: {aim.tolerance!r} is not between 0 and 1 (0.01 is usual)")
    for name, value in (("--max-seeds", aim.max_seeds), ("--budget", aim.budget)):
        if value < 1:
            raise InputError(f"{name}: {value} is no positive number")
    if aim.max_seeds > 100_000:
        raise InputError(f"--max-seeds: {aim.max_seeds:,}; at most 100,000 are possible")
    return aim


def seeds_like_the_grid(sweep: Sweep) -> int:
    """Return the most seeds of a search of which neither seeds nor tolerance are given.

    More than the grid has tell what its interval cannot, and cost more than a search saves.
    """
    there = next((len(axis.values) for axis in sweep.axes if axis.key == SEED), 1)
    return min(max(there, SEEDS), Aim.max_seeds)


def cliff_problem(sweep: Sweep, given: Mapping[str, Any], aim: Aim) -> Problem:
    """Return the search for the cliff that options ask for and, where they are silent, the sweep.

    Parameters
    ----------
    sweep : Sweep
        The sweep.
    given : mapping
        ``metric``, ``along``, ``threshold``; None is what was not given.
    aim : Aim
        How far.

    Raises
    ------
    InputError
        If something is missing or not there.
    """
    own = sweep.cliff.model_dump() if sweep.cliff else {}
    asked = own | {key: value for key, value in given.items() if value is not None}
    for key in ("metric", "along", "threshold"):
        if key not in asked:
            raise InputError(f"--{key}: missing; {sweep.source.label} has no [cliff]")
    check_metric(asked["metric"], sweep.rules.split(","), "--metric")
    if own and given.get("threshold") is None:
        check_threshold(own, asked["metric"], lambda name: Target(name, 0.0).units)
    check_limit(float(asked["threshold"]), "--threshold")
    if problem := out_of_range(asked["metric"], float(asked["threshold"])):
        raise InputError(f"--threshold: {problem}")
    at_most = asked["metric"] not in HIGHER_IS_BETTER
    target = Target(asked["metric"], float(asked["threshold"]), at_most)
    axis = find_axis(sweep, asked["along"], "--along")
    _check_levels(sweep, [target], "--metric")
    return make_problem(sweep, axis, [target], check_aim(aim), generous_high=None, whole=False)


def size_problem(
    sweep: Sweep,
    find: str,
    conditions: Sequence[str],
    between: str | None,
    compliance: float | None,
    aim: Aim,
    *,
    levels_asked: bool = False,
) -> Problem:
    """Return the search for the least that keeps what is to be kept.

    Parameters
    ----------
    sweep : Sweep
        The sweep; an axis of what is searched gives its range.
    find : str
        One of `KINDS`.
    conditions : sequence of str
        ``ttft_p99_ms<=2000`` each; empty: the sweep's service levels.
    between : str or None
        ``LOW:HIGH``, the range.
    compliance : float or None
        Share of the requests that are to keep their service levels.
    aim : Aim
        How far.
    levels_asked : bool
        Whether service levels are asked for beside the conditions: by an option, not by the sweep.

    Raises
    ------
    InputError
        If something is missing or not there.
    """
    kind = KINDS[find]
    targets = _targets(sweep, conditions, compliance, levels_asked)
    key = find_key(sweep, kind, find)
    check_drawn(sweep, key, f"--find {find}")
    _check_capacity(sweep, key)
    check_read(sweep, key, find)
    values = find_range(sweep, key, between)
    searched, axis = with_axis(sweep, key, values)
    return make_problem(
        searched,
        axis,
        targets,
        check_aim(aim),
        generous_high=kind.generous_high,
        whole=True,
    )


def units_of(problem: Problem) -> str:
    """Return the unit of the axis of a search."""
    return about(problem.axis.key).unit


def _check_capacity(sweep: Sweep, key: str) -> None:
    """Refuse to search blocks that pools have themselves, or that follow from tokens.

    Tokens are those of the sweep, or of its block sizes.
    """
    if key == "cache.gpu_blocks" and any(unread(s, parts_of(key)) for s in sweep.probes()):
        raise InputError(
            f"{sweep.source.label}: --find blocks: cache.gpu_blocks has no effect where all pools "
            "have their own blocks; leave gpu_blocks out of those that are to have what is found"
        )
    if key == "cache.gpu_blocks" and any(s.cache.gpu_tokens is not None for s in sweep.probes()):
        raise InputError(
            f"{sweep.source.label}: --find blocks: cache.gpu_tokens decides the blocks here, also "
            "where cache.block_size is an axis; give cache.gpu_blocks instead"
        )


def _targets(
    sweep: Sweep, conditions: Sequence[str], compliance: float | None, levels_asked: bool
) -> list[Target]:
    rules = sweep.rules.split(",")
    targets = [parse_target(text, rules) for text in conditions]
    metrics = [target.metric for target in targets]
    for metric in metrics:
        if metrics.count(metric) > 1:
            raise InputError(f"--target {metric}: given twice")
    has_levels = any(scenario.slo is not None for scenario in sweep.probes())
    if compliance is not None and not 0.0 < compliance <= 1.0:
        raise InputError(f"--attainment: {compliance!r} is not above 0 and at most 1")
    # Where a target is of service levels, those that are asked for are its.
    levels_asked = levels_asked and not any(target.levels for target in targets)
    if compliance is not None or levels_asked or (has_levels and not targets):
        if not has_levels:
            raise InputError("--attainment: needs service levels: [slo], or --goodput ttft:2000")
        if attainment_name() in metrics:
            name = attainment_name()
            raise InputError(f"--attainment: {name} is a target too, with its own limit; give one")
        share = COMPLIANCE if compliance is None else compliance
        targets.append(Target(attainment_name(), share, at_most=False))
    if not targets:
        raise InputError(
            "--target: missing; give what is to be kept, as in --target 'ttft_p99_ms<=2000' or "
            "--goodput ttft:2000 tpot:50 (or [slo] in the sweep)"
        )
    _check_levels(sweep, targets, "--target")
    return targets


def _check_levels(sweep: Sweep, targets: Sequence[Target], where: str) -> None:
    """Refuse measures of service levels that a scenario does not have."""
    for target in targets:
        levels = target.levels
        for scenario in sweep.probes() if levels else ():
            slo = scenario.slo
            if slo is None or (len(levels) == 1 and levels[0] not in slo.given):
                wanted = " or ".join(f"slo.{name}_ms" for name in levels)
                raise InputError(f"{where}: {target.metric!r} needs {wanted}")
