"""Ideas 6 to 10: routing, scheduling and offloading together. Hypotheses without results."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import KERNEL, REPAIRED, SEEING, THREE, Column, repairing
from kvsweep.studies.explained_rows import Measure, able, make_row, mean, names
from kvsweep.studies.ideas_claims import claims
from kvsweep.studies.ideas_runs import (
    CONFIGURATIONS,
    SEEDS,
    SIZES,
    WEIGHTS,
    idea6,
    run_means,
    runs,
)
from kvsweep.studies.records import Cell, Report, Row, Table
from kvsweep.studies.runs import Case

_REPAIRS = (repairing("D0"), repairing("D1"), repairing("D7"), repairing("D0", "D1"))
# Workload and seed whose failures are taken apart.
_EXAMINED = (("a", 42), ("b", 123))


def report(bench: Bench) -> Report:
    """Run the ten configurations and idea 6's baseline."""
    for workload, seeds in SEEDS.items():
        chosen = [c for name in CONFIGURATIONS for c in runs(workload, name, seeds)]
        bench.load(chosen, THREE)
    for workload, seed in _EXAMINED:
        bench.load([c for n in CONFIGURATIONS for c in runs(workload, n, (seed,))], _REPAIRS)
    sixth = [
        chosen
        for workload in SEEDS
        for policy in WEIGHTS
        for n in SIZES
        for chosen in idea6(workload, policy, n)
    ]
    bench.load(sixth, THREE)
    bench.load([c for w in SEEDS for c in runs(w, "full-offload")], (SEEING,))
    return Report(
        name="ideas",
        title="Ideas 6 to 10: routing, scheduling and offloading under KV pressure",
        story=_STORY,
        tables=(
            *(_ends(bench, w, s) for w, s in _EXAMINED),
            *map(partial(_results, bench), "ab"),
            _sixth(bench),
        ),
        claims=claims(bench),
    )


def _end(chosen: Case, bench: Bench, column: Column) -> Cell:
    """Return how many requests completed, or how the run fails to end."""
    run = bench.run(chosen, column)
    if run.status == "ok":
        return run.completed
    words = {"livelock": f"livelock at {run.completed}", "failed": f"crash at {run.completed}"}
    return words.get(run.status, "not available")


def _ends(bench: Bench, workload: str, seed: int) -> Table:
    rows = tuple(
        make_row(
            bench,
            Measure(label, partial(_end, runs(workload, name, (seed,))[0]), decimals=0),
            THREE,
            _REPAIRS,
        )
        for name, label in CONFIGURATIONS.items()
    )
    note = (
        "A livelock is proven: the same state comes back and no request gets any further. The "
        "crash is D7: after a reload the second try of an allocation starts behind its end. "
        "The last column names the repairs that, on their own, let the run end."
    )
    title = f"Ideas: requests completed of 500, workload {workload.upper()}, seed {seed}"
    return Table(title, "First runs of the proposed matrix.", names(THREE), rows, (note,))


def _results(bench: Bench, workload: str) -> Table:
    rows = []
    for name, label in CONFIGURATIONS.items():
        for column in able(bench, runs(workload, name), (REPAIRED, KERNEL)):
            found = run_means(bench, workload, name, column)
            cells = {key: f"{value:,.{digits}f}" for key, (value, digits) in found.items()}
            under = ", vLLM rules" if column is KERNEL else ""
            rows.append(Row(f"{label}{under}", None, cells, 0))
    seeds = ", ".join(map(str, SEEDS[workload]))
    title = f"Ideas: results with the reference repaired, workload {workload.upper()}"
    source = f"Means over seeds {seeds}; times in ms; critical and batch are p99 of TTFT."
    return Table(title, source, tuple(rows[0].cells), tuple(rows))


def _sixth(bench: Bench) -> Table:
    rows: Sequence[Row] = [
        make_row(
            bench,
            Measure(
                f"{workload.upper()}, {n:,} blocks, {policy}",
                mean(idea6(workload, policy, n), lambda run: run.ttft_mean_ms),
                decimals=1,
            ),
            THREE,
        )
        for workload in ("a", "b")
        for n in SIZES
        for policy in WEIGHTS
    ]
    title = "Idea 6: mean TTFT as the cache shrinks, with 3,000 CPU blocks, ms"
    return Table(
        title, "Workload A: seed 42; B: mean of seeds 42, 123, 456.", names(THREE), tuple(rows)
    )


_STORY = (
    "Ideas 6 to 10 propose ten configurations and hypotheses, and report no result. Run as "
    "proposed on the reference, most configurations with 2,000 blocks never end: the leaked cache "
    "(D0) stops completing requests after a few seconds. Those with a CPU tier crash (D7) or end "
    "the same way. With the allocator repaired all ten end. Workload A starts 100 conversations "
    "per second, far beyond capacity; B starts 7, which is moderate pressure.",
    "The scorers that are to see transfers and thrashing cannot: the reference charges a transfer "
    "to the step in which it happens, and has cleared it before the router looks (D9). So "
    "kv-pressure-slo equals kv-pressure in every request of every run; configuration 7 is 5, and "
    "8 is 6, as shipped and repaired.",
)
