"""``kvsweep show``, ``cliff``, ``pareto`` and ``effects``: read a store and print."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, Listed, json_option, print_json, warn
from kvsweep.cli.measure import open_prefix, print_prefix
from kvsweep.cli.measure_gpu import print_steps
from kvsweep.cli.outputs import StorePath
from kvsweep.cli.quick_xarray import leave_dask
from kvsweep.cli.search import search_cliff, search_options
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.analysis.cliff_records import Cliff
    from kvsweep.search.answer_records import SearchAnswer

store_argument = click.argument("store", metavar="STORE", type=StorePath())
at_option = click.option(
    "--at", multiple=True, metavar="AXIS=VALUE", help="Look at this value of an axis only."
)
objectives_option = click.option(
    "--objectives",
    cls=Listed,
    metavar="M:min,M:max,...",
    help="Measures and their goals [the sweep's].",
)


def effects_options(command: Any) -> Any:
    """Add the options that say which effects to find."""
    for option in (
        click.option(
            "--joint",
            multiple=True,
            metavar="[AXIS=]BASE,A,B,AB",
            help="What A and B do apart and together, by four levels of an axis [policy].",
        ),
        click.option("--order", type=int, metavar="N", help="Of the interactions [2]."),
        click.option(
            "--factors",
            cls=Listed,
            metavar="AXIS,...",
            help="The others are averaged over [all].",
        ),
    ):
        command = option(command)
    return command


def cliff_options(command: Any) -> Any:
    """Add the options of a cliff; what is not given comes from the sweep's own ``[cliff]``."""
    for option in (
        click.option("--confidence", type=float, metavar="P", help="Of the intervals [0.95]."),
        click.option("--threshold", type=float, metavar="X", help="Limit [the sweep's]."),
        click.option("--along", metavar="AXIS", help="Axis to scan [the sweep's]."),
        click.option("--metric", metavar="M", help="Measure, as ttft_p99_ms [the sweep's]."),
    ):
        command = option(command)
    return command


@click.command(
    cls=Command,
    short_help="Summarise a store: axes, status, headline measures.",
    examples=(
        "kvsweep show results/h8.zarr",
        "kvsweep show results/h8.zarr --at policy=least-loaded",
        "kvsweep show results/h8.zarr --json",
    ),
)
@store_argument
@at_option
@json_option
def show(store: Where, at: tuple[str, ...], as_json: bool) -> int | None:
    """Summarise a store: axes, status of cells, headline measures; findings of a measurement."""
    from kvsweep import report
    from kvsweep.analysis.warnings import warnings_in, warnings_of
    from kvsweep.gpu.step_store import FORMAT as STEPS
    from kvsweep.llama.dataset import FORMAT
    from kvsweep.store import refuse_damaged, stored_format

    form = stored_format(store)
    if at and form in (STEPS, FORMAT):
        raise InputError("--at: has no effect on a store of measurements")
    if form == STEPS:
        return print_steps(store, as_json)
    if form == FORMAT:
        print_prefix(open_prefix(store), {}, as_json)
        return None
    refuse_damaged(store)
    ds = read(store, at)
    warnings = warnings_in(ds) if at else warnings_of(ds)
    if as_json:
        print_json(report.summary(ds) | {"warnings": [asdict(warning) for warning in warnings]})
    else:
        echo(report.summary_text(ds).rstrip())
    warn(warnings)
    return None


@click.command(
    cls=Command,
    short_help="Find where a measure passes a threshold, with an interval.",
    examples=(
        "kvsweep cliff results/h8.zarr",
        "kvsweep cliff results/h8.zarr --threshold 0.01 --confidence 0.99",
        "kvsweep cliff results/h8.zarr --metric ttft_p99_ms --along gpu_blocks --threshold 500",
        "kvsweep cliff sweeps/h8.toml --search",
        "kvsweep cliff sweeps/h8.toml --search --tolerance 0.003 --set policy=least-loaded",
    ),
)
@click.argument("store", metavar="STORE|SWEEP.toml", type=StorePath())
@click.option("--search", is_flag=True, help="Search in a sweep file; no store is needed.")
@search_options
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change the sweep.")
@at_option
@cliff_options
@json_option
def cliff(
    store: Where, search: bool, at: tuple[str, ...], as_json: bool, **given: Any
) -> int | None:
    """Find where a measure passes a threshold along an axis, with an interval.

    It ends with the cells around the cliff, the flags of `vllm serve` and the margin. In the
    results of a grid, or with --search in a sweep file, from far fewer simulations.
    """
    if search:
        if at:
            raise InputError("--at: not with --search; --set narrows the sweep")
        return search_cliff(Path(str(store)), given, as_json)
    given = _without_search(store, given)
    from kvsweep import report
    from kvsweep.analysis.questions import cliff_of
    from kvsweep.analysis.warnings import warnings_of_cliff
    from kvsweep.search.text import recommendation_text

    ds = read(store, at)
    found = cliff_of(ds, given)
    warnings = warnings_of_cliff(ds, found.along, store)
    advice, why_not = _recommended(ds, found, store)
    if as_json:
        told = advice.to_dict() if advice else None
        result = found.to_dict() | {"recommendation": told}
        print_json(result | {"warnings": [asdict(warning) for warning in warnings]})
    else:
        echo(report.cliff_text(found).rstrip())
        if memory := report.cliff_memory(ds, found):
            echo(memory)
        if text := recommendation_text(advice) if advice else why_not:
            echo(f"\n{text}")
    warn(warnings)
    return None


def _recommended(ds: xr.Dataset, found: Cliff, store: Where) -> tuple[SearchAnswer | None, str]:
    """Return what the cells around a cliff recommend, or else why nothing can be said."""
    from kvsweep.search.of_store import answer_from

    try:
        return answer_from(ds, found, store), ""
    except InputError as error:
        return None, f"No recommendation: {error} (looked for from here and in sweeps/)"


def _without_search(store: Where, given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a cliff in a store; refuse those of a search."""
    known = ("metric", "along", "threshold", "confidence")
    for key, value in given.items():
        if key not in known and value not in (None, ()):
            option = "--set" if key == "settings" else f"--{key.replace('_', '-')}"
            raise InputError(f"{option}: only with --search, in a sweep file")
    if store.suffix.lower() == ".toml":
        raise InputError(f"{store}: is a sweep, not a store; --search looks for its cliff")
    return {key: given[key] for key in known}


@click.command(
    cls=Command,
    short_help="Find the policies that no other one beats in everything.",
    examples=(
        "kvsweep pareto results/h8.zarr",
        "kvsweep pareto results/h8.zarr --objectives e2e_p99_ms:min,throughput_rps:max",
        "kvsweep pareto results/h8.zarr --at gpu_blocks=2000",
    ),
)
@store_argument
@at_option
@objectives_option
@json_option
def pareto(store: Where, at: tuple[str, ...], objectives: str | None, as_json: bool) -> None:
    """Find the policies that no other policy beats in every objective."""
    from kvsweep import report
    from kvsweep.analysis.questions import front_of
    from kvsweep.analysis.warnings import warnings_in

    ds = read(store, at)
    front = front_of(ds, objectives)
    warnings = warnings_in(ds)
    if as_json:
        print_json(front.to_dict() | {"warnings": [asdict(warning) for warning in warnings]})
    else:
        echo(report.pareto_text(front).rstrip())
    warn(warnings)


@click.command(
    cls=Command,
    short_help="Find what each factor does, and what they do together.",
    examples=(
        "kvsweep effects results/joint-kv-factors.zarr --metric ttft_p99_ms",
        "kvsweep effects results/h8.zarr --metric preemption_rate --factors policy --at "
        "gpu_blocks=2000",
        "kvsweep effects results/joint-kv-ten.zarr --metric ttft_p99_ms --joint "
        "static,slo-scorer,slo-priority,full",
    ),
)
@store_argument
@click.option("--metric", metavar="M", required=True, help="Measure, as ttft_p99_ms.")
@effects_options
@click.option("--confidence", type=float, metavar="P", help="Of the intervals [0.95].")
@at_option
@json_option
def effects(store: Where, metric: str, at: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Find what each factor does to a measure, and what they do together beyond that.

    Every axis is a factor, its first level the reference. Differences and ratios are taken within
    seeds, so intervals are those of paired samples. Of a sweep with a [design] of method "saltelli"
    the parameters' sensitivity indices are found instead.
    """
    from kvsweep import report
    from kvsweep.analysis.effect_records import Effects
    from kvsweep.analysis.questions import effects_of
    from kvsweep.analysis.warnings import warnings_in
    from kvsweep.report.sensitivity import sensitivity_text

    ds = read(store, at)
    found = effects_of(ds, metric, given)
    warnings = warnings_in(ds)
    if as_json:
        print_json(found.to_dict() | {"warnings": [asdict(warning) for warning in warnings]})
    elif isinstance(found, Effects):
        echo(report.effects_text(found).rstrip())
    else:
        echo(sensitivity_text(found))
    warn(warnings)


def read(
    store: Where, at: Sequence[str] = (), own: Sequence[str] = (), option: str = ""
) -> xr.Dataset:
    """Open a store, or the part of it named by ``--at``; what is used of it is read then.

    `own` chooses further, as `option` of one of two stores does.

    Raises
    ------
    InputError
        If there is no such store, axis or value.
    """
    from kvsweep.analysis.questions import select
    from kvsweep.store import open_results

    leave_dask()
    return select(select(open_results(str(store)), at), own, option)
