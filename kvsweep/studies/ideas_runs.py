"""The cells of ideas 6 to 10 and their means."""

from __future__ import annotations

from collections.abc import Sequence

from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import Column
from kvsweep.studies.runs import Case, Run, case

SEEDS: dict[str, tuple[int, ...]] = {"a": (42, 123), "b": (42, 123, 456)}
"""Seeds of each workload's request lists."""

CONFIGURATIONS = {
    "rr-normal": "1 round-robin, ample cache",
    "rr-low": "2 round-robin",
    "static": "3 static",
    "kv-heavy": "4 kv-heavy",
    "kv-pressure": "5 kv-pressure",
    "slo-priority": "6 kv-pressure, SLO priority",
    "slo-scorer": "7 kv-pressure-slo",
    "full": "8 kv-pressure-slo, SLO priority",
    "full-offload": "9 as 8, CPU tier",
    "static-offload": "10 as 3, CPU tier",
}
SIZES = (132139, 5000, 2000, 1000)
WEIGHTS = ("round-robin", "static", "kv-heavy")


def runs(workload: str, policy: str, seeds: Sequence[int] | None = None) -> list[Case]:
    """Return the cells of a configuration."""
    chosen = SEEDS[workload] if seeds is None else seeds
    return [case(f"ideas-{workload}", seed, policy=policy) for seed in chosen]


def idea6(workload: str, policy: str, gpu_blocks: int) -> list[Case]:
    """Return the cells of a point of idea 6's baseline."""
    seeds = (42,) if workload == "a" else SEEDS[workload]
    return [case(f"idea6-{workload}", seed, policy=policy, gpu_blocks=gpu_blocks) for seed in seeds]


def run_means(
    bench: Bench, workload: str, policy: str, column: Column
) -> dict[str, tuple[float, int]]:
    """Return the means over seeds of a configuration, each with the digits to show."""
    found = [bench.run(chosen, column) for chosen in runs(workload, policy)]

    def average(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    return {
        "TTFT mean": (average([run.ttft_mean_ms for run in found]), 1),
        "TTFT p99": (average([run.ttft_p99_ms for run in found]), 0),
        "critical": (average([class_p99(run, "critical") for run in found]), 0),
        "batch": (average([class_p99(run, "batch") for run in found]), 0),
        "preemptions": (average([run.preemptions for run in found]), 0),
        "hit rate": (average([run.hit_rate for run in found]), 3),
    }


def class_p99(run: Run, slo_class: str) -> float:
    """Return the p99 of TTFT of an SLO class, milliseconds."""
    return dict(run.ttft_p99_by_class)[slo_class]
