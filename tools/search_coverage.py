"""How often the interval of a search holds the cliff: a table of docs/statistics.md.

The truth is the crossing of the mean curve of 2,000 seeds. Every study searches with seeds of its
own, none of which another has, and asks the bootstrap of a grid of 16 of them the same question.

    python tools/search_coverage.py --studies 100       # a look, a minute
    python tools/search_coverage.py                     # the table, about half an hour
    python tools/search_coverage.py --within 600        # as many studies as fit

Columns: case; studies; truth; per cent of studies in which the interval of the search held it, that
of the bootstrap, and the answer of `size`; median widths of search and bootstrap; simulations of
the search (median), the grid, and `size` (median).
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np

import kvsweep
from kvsweep import simulate
from kvsweep.analysis import statistics
from kvsweep.analysis.cliff_scan import Scan, scan_group
from kvsweep.analysis.statistics import Floats
from kvsweep.search.aims import Aim, Found
from kvsweep.search.finding import SEEDS
from kvsweep.search.problem import Problem, find_axis, make_problem
from kvsweep.search.sharing import Job, run, simulated
from kvsweep.search.targets import Target

ROOT = Path(__file__).resolve().parents[1]
RESAMPLES = 500
APART = 10_000  # seeds between the first ones of two studies


@dataclass(frozen=True)
class Case:
    """A cliff of a sweep: what is set, its limit, and the blocks of a grid around it."""

    name: str
    sweep: str
    overrides: tuple[str, ...]
    metric: str
    limit: float
    grid: tuple[float, ...]
    tolerance: float = 0.01


def _steps(start: int, stop: int, step: int) -> tuple[float, ...]:
    return tuple(map(float, range(start, stop + 1, step)))


_H8 = _steps(1600, 2600, 25)
_TALK = _steps(1000, 2600, 50)
_TALKING = ('grid.policy=["reasoning-closed"]',)
_BURST = ('grid.policy=["round-robin"]',)
# A fourth of the requests, so that a thousand studies are an hour.
_SHORT = ("workload.requests=1000", "workload.warmup=250")


def _ratios(start: float, stop: float, count: int) -> tuple[float, ...]:
    return tuple(map(float, np.geomspace(start, stop, count).round().tolist()))


CASES = (
    Case("H8", "h8", _BURST, "preemption_rate", 0.05, _H8),
    Case("H8", "h8", _BURST, "preemption_rate", 0.2, _H8),
    Case("conversations", "reasoning-kv", _TALKING, "preemption_rate", 0.05, _TALK, 0.03),
    Case("H8", "h8", _BURST, "preemption_rate", 0.01, _H8),
    Case("H8", "h8", _BURST, "e2e_mean_ms", 2300.0, _H8),
    Case("conversations", "reasoning-kv", _TALKING, "ttft_p99_ms", 3000.0, _TALK, 0.03),
    Case(
        "steady", "h8-steady", (*_BURST, "workload.rate=[120]"), "preemption_rate", 0.05,
        _ratios(2400, 5400, 13),
    ),
    Case(
        "steady, short", "h8-steady", (*_BURST, *_SHORT, "workload.rate=[80]"),
        "preemption_rate", 0.05, _ratios(1400, 3000, 12), 0.02,
    ),
    Case(
        "conversations, short", "reasoning-kv", (*_TALKING, "workload.requests=250"),
        "preemption_rate", 0.05, _ratios(900, 2600, 12), 0.03,
    ),
)  # fmt: skip


def problem_of(case: Case, aim: Aim) -> Problem:
    """Return the search of a case."""
    path = ROOT / "sweeps" / f"{case.sweep}.toml"
    sweep = kvsweep.load_sweep(path, [*case.overrides, "seed=[0]"])
    axis = find_axis(sweep, "gpu_blocks", "axis")
    target = Target(case.metric, case.limit)
    high = True if aim.shown else None
    return make_problem(sweep, axis, [target], aim, generous_high=high, whole=False)


def curves(problem: Problem, values: tuple[float, ...], seeds: range) -> Floats:
    """Return excesses (seeds, points) of one group."""
    asked = replace(problem, seeds=tuple(seeds))
    return simulated(asked, problem.groups[0], Job(0, values, 0, len(seeds))).excess[:, 0].T


def crossing(problem: Problem, grid: tuple[float, ...], seeds: range) -> float:
    """Return where the mean curve passes the limit; about there it is looked at every 5 blocks."""
    axis = np.array(grid)
    scan = Scan(axis, slice(None, None, -1), 1.0, 0.0, 1, None, 0.95)
    near, _ = scan.crossings(curves(problem, grid, seeds[:200]).mean(axis=0))
    around = tuple(np.round(float(near) + np.arange(-40.0, 41.0, 10.0)).tolist())
    close = replace(scan, axis=np.array(around))
    found, _ = close.crossings(curves(problem, around, seeds).mean(axis=0))
    return float(found)


def bootstrap(problem: Problem, grid: tuple[float, ...], seeds: range) -> tuple[float, float]:
    """Return the interval of the analysis of a grid."""
    counts = statistics.resample_counts(len(seeds), RESAMPLES)
    scan = Scan(np.array(grid), slice(None, None, -1), 1.0, 0.0, len(seeds), counts, 0.95)
    interval = scan_group(scan, curves(problem, grid, seeds), {}).cliff.interval
    assert interval is not None
    return interval.low, interval.high


def search(problem: Problem, first: int) -> Found:
    """Search with seeds from `first` on."""
    seeds = tuple(range(first, first + len(problem.seeds)))
    (found,), _ = run(replace(problem, seeds=seeds), workers=1)
    return found


def study(case: Case, studies: int, truth_seeds: int, within: float) -> str:
    """Return the row of a case, of fewer studies if they take more processor seconds."""
    problem = problem_of(case, Aim(tolerance=case.tolerance))
    shown = problem_of(case, Aim(tolerance=case.tolerance, shown=True))
    truth = crossing(problem, case.grid, range(truth_seeds))
    rows: list[tuple[float, ...]] = []
    begun = time.process_time()
    for number in range(1, studies + 1):
        if rows and time.process_time() - begun > within:
            break
        found = search(problem, number * APART)
        low, high = bootstrap(problem, case.grid, range(number * APART, number * APART + SEEDS))
        sized = search(shown, number * APART)
        rows.append(
            (
                found.low <= truth <= found.high,
                low <= truth <= high,
                sized.answer >= truth,
                found.samples.simulations,
                found.high - found.low,
                high - low,
                sized.samples.simulations,
            )
        )
    held = np.mean(np.array(rows, float)[:, :3], axis=0) * 100.0
    cost = np.median(np.array(rows, float)[:, 3:], axis=0)
    return (
        f"| {case.name}, `{case.metric}` {case.limit:,g} | {len(rows):,} | {truth:,.1f} | "
        f"{held[0]:.1f} | "
        f"{held[1]:.1f} | {held[2]:.1f} | {cost[1]:.1f}, {cost[2]:.1f} | {cost[0]:,.0f} | "
        f"{SEEDS * len(case.grid):,} | {cost[3]:,.0f} |"
    )


positive = click.IntRange(min=1)
names = click.Choice(list(dict.fromkeys(case.name for case in CASES)))


@click.command()
@click.option("--studies", type=positive, default=1000, show_default=True, help="Of each case.")
@click.option(
    "--truth", type=positive, default=2000, show_default=True, help="Seeds taken for the truth."
)
@click.option("--within", default=math.inf, help="Processor seconds for the studies of a case.")
@click.option("--only", type=names, help="Cases of one name.")
def main(studies: int, truth: int, within: float, only: str | None) -> None:
    """Print a row for each case."""
    simulate.warm_up(click.echo)
    for case in CASES:
        if only in (None, case.name):
            click.echo(study(case, studies, truth, within))


if __name__ == "__main__":
    main()
