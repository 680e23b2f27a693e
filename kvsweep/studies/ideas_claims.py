"""The hypotheses of ideas 6 to 10, tested with the reference repaired."""

from __future__ import annotations

from collections.abc import Callable

from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import KERNEL, REPAIRED, SEEING, THREE, Column
from kvsweep.studies.explained_rows import able, mean, number
from kvsweep.studies.ideas_runs import SEEDS, SIZES, WEIGHTS, idea6, run_means, runs
from kvsweep.studies.records import Claim
from kvsweep.studies.runs import Case


def claims(bench: Bench) -> tuple[Claim, ...]:
    """Test the hypotheses."""
    return (
        _signals(bench),
        _on_snapshot(),
        _priority(bench),
        _compound(bench),
        _loses_to_round_robin(bench),
        _kv_heavy(bench),
        _offloading(bench),
    )


def _in(bench: Bench, needed: list[Case], test: Callable[[Column], bool]) -> dict[str, bool]:
    """Return a test's outcome with the reference repaired, and on the kernel if it can."""
    return {c.name: test(c) for c in able(bench, needed, (REPAIRED, KERNEL))}


def _signals(bench: Bench) -> Claim:
    pairs = [
        (one, other)
        for workload in SEEDS
        for names in (("kv-pressure", "slo-scorer"), ("slo-priority", "full"))
        for one, other in zip(*(runs(workload, name) for name in names), strict=True)
    ]

    def differs(column: Column) -> bool:
        return any(
            bench.run(one, column).fingerprint != bench.run(other, column).fingerprint
            for one, other in pairs
        )

    columns = able(bench, [one for one, _ in pairs], THREE)
    blind, seeing = (
        run_means(bench, "b", "full-offload", column)["critical"][0]
        for column in (REPAIRED, SEEING)
    )
    return Claim(
        "Scorers that see transfers under way and thrashing, by SLO class or not, route better "
        "(H7-1, H9-1, H9-2).",
        "Ideas 7 and 9",
        "in some run kv-pressure-slo routes otherwise than kv-pressure",
        {column.name: differs(column) for column in columns},
        why=f"In all {len(pairs)} pairs of runs every request is treated alike: configuration 7 "
        "is 5, and 8 is 6. The signal is zero whenever a router looks (D9). Were it visible, the "
        f"p99 of critical requests in configuration 9 would be {seeing:,.0f} instead of "
        f"{blind:,.0f} ms on workload B.",
        hypothesis=True,
    )


def _on_snapshot() -> Claim:
    return Claim(
        "PendingTransferLatency and KVThrashingRate are on the router's snapshot.",
        "Key background finding",
        "the fields are in the reference's sources",
        {"sources of the reference, all branches": False},
        why="They are in none of the 74 commits that touch the files concerned; the runs here have "
        "them added as proposed.",
    )


def _cut(bench: Bench, column: Column, workload: str) -> float:
    """Return by what share SLO priority lowers the critical requests' p99 of TTFT."""
    without, given = (
        run_means(bench, workload, name, column)["critical"][0]
        for name in ("kv-pressure", "slo-priority")
    )
    return 1 - given / without


def _priority(bench: Bench) -> Claim:
    needed = [c for w in SEEDS for name in ("kv-pressure", "slo-priority") for c in runs(w, name)]
    cuts = [f"{100 * _cut(bench, REPAIRED, w):.0f} % on workload {w.upper()}" for w in SEEDS]
    return Claim(
        "Under KV pressure, SLO priority lowers the p99 of TTFT of critical requests by 20 to 40 % "
        "(H8-1).",
        "Idea 8",
        "configuration 6 has it at least 20 % below configuration 5, on both workloads",
        _in(bench, needed, lambda c: all(_cut(bench, c, w) >= 0.2 for w in SEEDS)),
        why=f"By {' and '.join(cuts)}, at the cost of batch requests.",
        hypothesis=True,
    )


def _compound(bench: Bench) -> Claim:
    needed = [c for w in SEEDS for name in ("slo-priority", "full") for c in runs(w, name)]

    def better(column: Column) -> bool:
        return all(
            run_means(bench, w, "full", column)["critical"][0]
            < run_means(bench, w, "slo-priority", column)["critical"][0]
            for w in SEEDS
        )

    return Claim(
        "Routing by pressure and SLO priority together gain more than each alone (H8-2).",
        "Ideas 8 and 10",
        "configuration 8 has a lower p99 of critical TTFT than configuration 6",
        _in(bench, needed, better),
        why="They are the same runs, see above.",
        hypothesis=True,
    )


def _ttft(bench: Bench, column: Column, workload: str, policy: str, blocks: int) -> float:
    return number(
        mean(idea6(workload, policy, blocks), lambda run: run.ttft_mean_ms)(bench, column)
    )


def _sixth_cases() -> list[Case]:
    return [
        chosen
        for workload in SEEDS
        for policy in WEIGHTS
        for n in SIZES
        for chosen in idea6(workload, policy, n)
    ]


def _loses_to_round_robin(bench: Bench) -> Claim:
    def loses(column: Column) -> bool:
        return all(
            any(
                _ttft(bench, column, w, "round-robin", n) < _ttft(bench, column, w, "static", n)
                for n in SIZES[1:]
            )
            for w in SEEDS
        )

    at_1000 = [
        f"{_ttft(bench, REPAIRED, w, 'round-robin', 1000):,.0f} ms round-robin and "
        f"{_ttft(bench, REPAIRED, w, 'static', 1000):,.0f} ms static on workload {w.upper()}"
        for w in SEEDS
    ]
    return Claim(
        "Static cache-aware weights beat round-robin with an ample cache and lose to it under "
        "pressure (H6-1).",
        "Idea 6",
        "on both workloads round-robin has the lower mean TTFT at some smaller cache",
        _in(bench, _sixth_cases(), loses),
        why=f"The lead shrinks with the cache. At 1,000 blocks: {', '.join(at_1000)}.",
        hypothesis=True,
    )


def _kv_heavy(bench: Bench) -> Claim:
    def better(column: Column) -> bool:
        return all(
            _ttft(bench, column, w, "kv-heavy", 2000) < _ttft(bench, column, w, "static", 2000)
            for w in SEEDS
        )

    return Claim(
        "Weights that favour free blocks beat the default under pressure (H6-2).",
        "Idea 6",
        "kv-heavy has a lower mean TTFT than static at 2,000 blocks, on both workloads",
        _in(bench, _sixth_cases(), better),
        hypothesis=True,
    )


def _offloading(bench: Bench) -> Claim:
    pairs = (("full", "full-offload"), ("static", "static-offload"))
    needed = [c for w in SEEDS for pair in pairs for name in pair for c in runs(w, name)]

    def faster(column: Column) -> bool:
        return all(
            run_means(bench, w, tiered, column)["TTFT mean"][0]
            < run_means(bench, w, single, column)["TTFT mean"][0]
            for w in SEEDS
            for single, tiered in pairs
        )

    return Claim(
        "CPU offloading helps under pressure (assumed by configurations 9 and 10).",
        "Idea 10",
        "both have a lower mean TTFT with the CPU tier, on both workloads",
        _in(bench, needed, faster),
        why="Reloads lengthen the steps of everybody in the batch, and count as hits whether they "
        "are used or not.",
        hypothesis=True,
    )
