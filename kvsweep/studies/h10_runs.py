"""The cells of H10."""

from __future__ import annotations

from kvsweep.studies.runs import Case, case

SEEDS = (42, 123, 456)
SIZES = (0, 100, 250, 500, 1000)
BANDWIDTHS = (10, 50, 100, 500, 1000)
CONFOUND = {
    "single": "single tier",
    "offload-0_8": "CPU 500, offload 0.8",
    "offload-1_0": "CPU 500, offload 1.0",
}
ROUTINGS = ("least-loaded", "round-robin")


def core(cpu_blocks: int, seed: int) -> Case:
    """Return a cell of experiment 1."""
    return case("h10-core", seed, cpu_blocks=cpu_blocks)


def size(cpu_blocks: int) -> Case:
    """Return a cell of experiment 2."""
    return case("h10-cpu-size", 42, cpu_blocks=cpu_blocks)


def bandwidth(tokens_per_us: int) -> Case:
    """Return a cell of experiment 3."""
    return case("h10-bandwidth", 42, transfer_bandwidth=tokens_per_us)


def confound(policy: str, routing: str) -> Case:
    """Return a cell of the corrected confound matrix."""
    return case("h10-confound", 42, policy=policy, routing=routing)


def all_cases() -> list[Case]:
    """Return every cell."""
    return [
        *(core(n, seed) for n in (0, 500) for seed in SEEDS),
        *map(size, SIZES),
        *map(bandwidth, BANDWIDTHS),
        *(confound(name, routing) for name in CONFOUND for routing in ROUTINGS),
    ]
