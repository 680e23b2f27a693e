"""``kvsweep size``, and ``kvsweep cliff --search``: searches instead of grids."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, Several, json_option, print_json
from kvsweep.cli.progress import Display
from kvsweep.cli.terminal import echo

if TYPE_CHECKING:
    from kvsweep.search.problem import Problem

# Cells without a result, or a search that was ended by Ctrl-C.
INCOMPLETE = 1


def search_options(command: Any) -> Any:
    """Add the options that say how far a search goes."""
    for option in (
        click.option("--workers", type=int, metavar="N", help="Threads [all processors]."),
        click.option("--budget", type=int, metavar="N", help="Simulations of a group [2000]."),
        click.option("--max-seeds", type=int, metavar="N", help="Seeds of a value [128]."),
        click.option(
            "--tolerance", type=float, metavar="P", help="Half width of the interval [0.01]."
        ),
    ):
        command = option(command)
    return command


@click.command(
    cls=Command,
    short_help="Find the least blocks or instances, or the highest rate.",
    examples=(
        "kvsweep size sweeps/h8.toml --find blocks --target 'ttft_p99_ms<=1500'",
        "kvsweep size chat.toml",
        "kvsweep size sweeps/h8.toml --find instances --set 'cache.gpu_blocks=[2600]' "
        "--goodput ttft:1000 tpot:50",
        "kvsweep size sweeps/h8-steady.toml --find rate --between 20:400 --set workload.rate=[100] "
        "--target 'ttft_p99_ms<=2000' --target 'tpot_p99_ms<=50' --json",
    ),
)
@click.argument("file", metavar="SWEEP.toml", type=click.Path(path_type=Path))
@click.option(
    "--find",
    type=click.Choice(["blocks", "instances", "rate"]),
    help="The smallest cache, the fewest instances, or the highest rate [that of [size]].",
)
@click.option(
    "--target", "targets", multiple=True, metavar="M<=X", help="What is to be kept [the levels]."
)
@click.option(
    "--goodput",
    cls=Several,
    multiple=True,
    metavar="NAME:MS ...",
    help="Service levels, as vllm bench serve has them: of ttft, tpot, e2el.",
)
@click.option("--attainment", type=float, metavar="P", help="Requests that keep them [0.99].")
@click.option("--between", metavar="LOW:HIGH", help="Range [that of the axis, or wide].")
@click.option("--confidence", type=float, metavar="P", help="Of the answer [0.95].")
@search_options
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key.")
@json_option
def size(
    file: Path,
    find: str | None,
    targets: tuple[str, ...],
    goodput: tuple[str, ...],
    attainment: float | None,
    between: str | None,
    settings: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> int:
    """Find the least that keeps service levels: blocks or instances, or the highest rate.

    For every combination of the sweep's other axes it is searched with few simulations, more where
    it is close. The answer was simulated and is shown to keep every limit, in the mean over seeds.
    What is asked for may stand in the sweep's [size] table; options come first.
    """
    from kvsweep.config.service_levels import goodput_overrides
    from kvsweep.search.ranges import KINDS
    from kvsweep.search.wanted import load_for_size, size_problem, told_by_table, with_size_table

    sweep, find = load_for_size(file, [*settings, *goodput_overrides(goodput, settings)], find)
    workers = given.pop("workers")
    given |= {"targets": targets, "between": between, "attainment": attainment}
    asked = with_size_table(sweep, find, given)
    targets, between, attainment = (asked.pop(k) for k in ("targets", "between", "attainment"))
    with told_by_table(sweep, given):
        aim = _aim(asked, shown=True)
        problem = size_problem(
            sweep, find, targets, between, attainment, aim, levels_asked=bool(goodput)
        )
    return _answer(problem, KINDS[find].goal, workers, as_json)


def search_cliff(file: Path, given: dict[str, Any], as_json: bool) -> int:
    """Find a cliff by a search in a sweep; `given` are the options of ``kvsweep cliff``."""
    from kvsweep.config import load_sweep

    sweep = load_sweep(file, given.pop("settings"))
    from kvsweep.search.wanted import cliff_problem

    asked = {key: given.pop(key) for key in ("metric", "along", "threshold")}
    workers = given.pop("workers")
    if given["tolerance"] is None and given["max_seeds"] is None:
        from kvsweep.search.wanted import seeds_like_the_grid

        given["max_seeds"] = seeds_like_the_grid(sweep)
    problem = cliff_problem(sweep, asked, _aim(given, shown=False))
    return _answer(problem, "crossing", workers, as_json)


def _aim(given: dict[str, Any], *, shown: bool) -> Any:
    from kvsweep.search.aims import Aim

    return Aim(shown=shown, **{key: value for key, value in given.items() if value is not None})


def _answer(problem: Problem, goal: str, workers: int | None, as_json: bool) -> int:
    from kvsweep.cli.dry_run import tell_models
    from kvsweep.search.answer import answer_of
    from kvsweep.search.sharing import run
    from kvsweep.search.text import search_text
    from kvsweep.search.wanted import units_of
    from kvsweep.workers.choosing import check_workers

    check_workers(workers, False, None)
    tell_models(problem.sweep)
    with Display("simulations", known_end=False) as display:
        found, interrupted = run(problem, workers=workers, progress=display, notify=display.notify)
    answer = answer_of(problem, goal, units_of(problem), found, interrupted)
    if as_json:
        print_json(answer.to_dict())
    else:
        echo(search_text(answer))
    return INCOMPLETE if interrupted else 0
