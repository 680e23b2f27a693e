"""How often an interval of few seeds holds what it should: the tables of docs/statistics.md.

Many seeds of a sweep are simulated once and taken for the truth. Studies of n of these seeds are
drawn without replacement, each is analysed as kvsweep would, and the share of intervals that hold
the truth is counted, for plain percentile intervals ("before") and for those of kvsweep ("after").

    python tools/interval_coverage.py --studies 200       # a look, some minutes
    python tools/interval_coverage.py                     # the tables, about half an hour
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from tally import Tally

import kvsweep
from kvsweep.analysis import statistics, variables
from kvsweep.analysis.cliff_scan import Scan, find_ratios, scan_group
from kvsweep.analysis.contrasts import DIFFERENCE, RATIO, estimates
from kvsweep.analysis.hypervolume import front_share
from kvsweep.analysis.statistics import Floats, Interval
from kvsweep.errors import InputError
from kvsweep.store import load

ROOT = Path(__file__).resolve().parents[1]
SIZES = (3, 5, 10, 20, 30, 50, 100)
CONFIDENCE = 0.95
RESAMPLES = 500
SKEWED = 2.0  # a mean of values more skewed than this needs many more seeds


@dataclass(frozen=True)
class Population:
    """A sweep whose grid is cut to the neighbourhood of its cliffs, and what is looked for in it.

    `cliffs` lists measures with a threshold; `means` the measures whose bands and effects are
    looked at.
    """

    name: str
    sweep: str
    overrides: tuple[str, ...]
    cliffs: tuple[tuple[str, float], ...]
    means: tuple[str, ...] = ("preemption_rate", "ttft_p99_ms")


POPULATIONS = (
    Population(
        "H8",
        "h8",
        ("cache.gpu_blocks={start = 1600, stop = 2200, step = 25}",),
        (("preemption_rate", 0.01), ("preemption_rate", 0.05), ("preemption_rate", 0.2),
         ("preemption_rate", 0.5), ("e2e_mean_ms", 2300.0), ("ttft_p99_ms", 1000.0)),
    ),
    Population(
        "steady",
        "h8-steady",
        (
            "workload.rate=[120]",
            'cache.gpu_blocks={ start = 2400, stop = 5400, num = 13, scale = "log" }',
        ),
        (("preemption_rate", 0.02), ("preemption_rate", 0.05), ("preemption_rate", 0.2),
         ("ttft_p99_ms", 2000.0)),
    ),
    Population(
        "conversations",
        "reasoning-kv",
        (
            'grid.policy=["reasoning-closed", "throughput-matched"]',
            "cache.gpu_blocks={ start = 1000, stop = 2600, step = 100 }",
        ),
        (("preemption_rate", 0.01), ("preemption_rate", 0.05), ("preemption_rate", 0.2),
         ("ttft_p99_ms", 3000.0)),
    ),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Seeds:
    """A measure of all seeds, (policies, seeds, points), and that of each study of `size` seeds."""

    every: Floats
    studies: list[Floats]
    size: int


def simulate(population: Population, folder: Path, seeds: int) -> dict[str, Floats]:
    """Return (policies, seeds, points) of each measure; ``axis`` is (points,). Kept in a store."""
    path = ROOT / "sweeps" / f"{population.sweep}.toml"
    sweep = kvsweep.load_sweep(path, population.overrides, seeds=seeds)
    ds = load(kvsweep.run(sweep, out=folder / f"{population.name}.zarr"))
    names = {*population.means, *(metric for metric, _ in population.cliffs)}
    found = {"axis": np.asarray(ds["gpu_blocks"].values, np.float64)}
    for name in sorted(names):
        array = variables.get(ds, name).transpose("policy", "seed", "gpu_blocks", ...)
        found[name] = array.values.reshape(array.shape[:3])
    return found


def cliffs(tally: Tally, row: str, axis: Floats, threshold: float, seeds: Seeds) -> None:
    """Count the cliff of the first policy, and the ratio of both policies' cliffs."""
    counts = statistics.resample_counts(seeds.size, RESAMPLES)
    order = slice(None, None, -1)
    scan = Scan(axis, order, 1.0, threshold, seeds.size, counts, CONFIDENCE)
    truth, _ = scan.ranked(seeds.every.mean(axis=1))
    compared = bool(np.isfinite(truth).all() and (seeds.every[0] != seeds.every[1]).any())
    for study in seeds.studies:
        groups = [scan_group(scan, v, {"policy": p}) for p, v in enumerate(study)]
        plain = [scan.ranked(statistics.resample_means(v, counts))[0] for v in study]
        before = statistics.percentile_interval(plain[0], CONFIDENCE)
        after = groups[0].cliff.interval
        if after is not None:
            tally.add(f"cliff, {row}", seeds.size, truth[0], (before, after))
        (ratio,) = find_ratios(scan, groups, ["policy"])
        if compared and ratio.interval is not None and not np.isnan(ratio.interval.low):
            with np.errstate(invalid="ignore"):
                ratios = plain[0] / plain[1]
            before = statistics.percentile_interval(ratios[np.isfinite(ratios)], CONFIDENCE)
            pair = (before, ratio.interval)
            tally.add(f"ratio of cliffs, {row}", seeds.size, truth[0] / truth[1], pair)


def bands(tally: Tally, row: str, seeds: Seeds) -> None:
    """Count the band of the mean of the first policy, every point a row of its own."""
    counts = statistics.resample_counts(seeds.size, RESAMPLES)
    skew, truth = _skewness(seeds.every[0]), seeds.every[0].mean(axis=0)
    for study in seeds.studies:
        _, low, high = statistics.mean_band(study[0], counts, CONFIDENCE)
        plain = np.sort(statistics.resample_means(study[0], counts), axis=0)
        tail = int((1.0 - CONFIDENCE) / 2.0 * RESAMPLES)
        for point in np.flatnonzero(~np.isnan(skew)):
            before = Interval(plain[tail, point], plain[-1 - tail, point], CONFIDENCE)
            after = Interval(low[point], high[point], CONFIDENCE)
            kind = "mean where skewed" if abs(skew[point]) > SKEWED else "mean"
            tally.add(f"{kind}, {row}", seeds.size, truth[point], (before, after))


def effects(tally: Tally, row: str, seeds: Seeds) -> None:
    """Count the difference and the ratio of the policies, at the point with the least skewness."""
    counts = statistics.resample_counts(seeds.size, RESAMPLES)
    point = _point(seeds)
    if point is None:
        return
    for scale, told in ((DIFFERENCE, "difference"), (RATIO, "ratio")):
        if scale.logarithmic and (seeds.every[:, :, point] <= 0.0).any():
            continue  # seeds without a ratio are left out, so that it is not one of all seeds
        change = np.log if scale.logarithmic else np.positive
        first, second = change(seeds.every[:, :, point])
        truth = float((second - first).mean())
        for study in seeds.studies:
            values = study[:, :, point]
            (found,) = estimates(values, [0], CONFIDENCE, scale)
            own = change(values)
            spread = statistics.resample_means((own[1] - own[0])[:, None], counts)[:, 0]
            before = statistics.percentile_interval(spread, CONFIDENCE)
            if found.interval is not None:
                low, high = change(np.array([found.interval.low, found.interval.high]))
                after = Interval(float(low), float(high), CONFIDENCE)
                tally.add(f"{told} of policies, {row}", seeds.size, truth, (before, after))


def fronts(tally: Tally, row: str, seeds: Seeds) -> None:
    """Count how often a policy made just as good has 2.5 % of the resamples or more."""
    counts = statistics.resample_counts(seeds.size, RESAMPLES)
    point = _point(seeds)
    if point is None:
        return
    level = seeds.every[:, :, point].mean(axis=1)[:, None]
    for study in seeds.studies:
        values = (study[:, :, point] - level)[:, :, None]
        shares = [front_share(means(values, counts))[0]
                  for means in (statistics.resample_means, statistics.student_means)]  # fmt: skip
        held = (float(shares[0] >= 0.025), float(shares[1] >= 0.025))
        tally.count(f"share on the front, {row}", seeds.size, held)


def _point(seeds: Seeds) -> int | None:
    """Return where the difference of the policies is least skewed; None where there is none."""
    skew = np.abs(_skewness(seeds.every[0] - seeds.every[1]))
    return None if np.isnan(skew).all() else int(np.nanargmin(skew))


def _skewness(values: Floats) -> Floats:
    """Skewness of each point over the seeds, NaN where all are equal."""
    away = values - values.mean(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        skew: Floats = (away**3).mean(axis=0) / (away**2).mean(axis=0) ** 1.5
    return np.where(values.std(axis=0) > 1e-9 * np.abs(values.mean(axis=0)), skew, np.nan)


@click.command()
@click.option("--seeds", type=click.IntRange(min=max(SIZES)), default=2000, show_default=True,
              help="Simulated, taken for the truth.")  # fmt: skip
@click.option("--studies", type=click.IntRange(min=1), default=1000, show_default=True,
              help="Drawn for each size.")  # fmt: skip
@click.option("--folder", type=click.Path(path_type=Path), default=Path("results/coverage"),
              show_default=True, help="Of the simulated stores.")  # fmt: skip
@click.option("--only", type=click.Choice([population.name for population in POPULATIONS]),
              help="One population.")  # fmt: skip
def main(seeds: int, studies: int, folder: Path, only: str | None) -> None:
    """Print the tables: before, after."""
    for population in POPULATIONS:
        if only in (None, population.name):
            click.echo(f"{population.name}\n")
            try:
                found = simulate(population, folder, seeds)
            except InputError as problem:
                raise click.ClickException(str(problem)) from None
            for line in look(population, found, studies).tables():
                click.echo(line)
            click.echo()


def look(population: Population, found: dict[str, Floats], studies: int) -> Tally:
    """Draw the studies of every size and analyse them."""
    tally = Tally()
    rng = np.random.default_rng(20_260_101)
    for size in SIZES:
        every = found[population.means[0]].shape[1]
        chosen = [rng.choice(every, size, replace=False) for _ in range(studies)]
        drawn = {k: Seeds(v, [v[:, which] for which in chosen], size)
                 for k, v in found.items() if k != "axis"}  # fmt: skip
        for metric, threshold in population.cliffs:
            row = f"`{metric}` {threshold:,g}"
            cliffs(tally, row, found["axis"], threshold, drawn[metric])
        for metric in population.means:
            for kind in (bands, effects, fronts):
                kind(tally, f"`{metric}`", drawn[metric])
    return tally


if __name__ == "__main__":
    main()
