"""What models and clusters of today cost: lanes with a feature beside usual ones, in turns."""

from bench_cases import generated, h8_scenario
from explicit import BLOCKS, FEATURES, costs
from tables import processor


def test_explicit_lanes(tables, smoke):
    seeds, repeats = (1, 1) if smoke else (60, 9)
    names, counts = (["two groups"], BLOCKS[:1]) if smoke else (FEATURES, BLOCKS)
    lists = generated(h8_scenario(BLOCKS[0]), range(seeds))
    rows = [
        (
            name, f"{cost.blocks:,}", f"{cost.usual_blocks:,}", f"{cost.usual_us:.1f}",
            f"{cost.us:.1f}", f"{cost.ratio:.2f}", f"{cost.per_step:.2f}",
            f"{cost.preemptions:.1f}",
        )
        for name, cost in costs(lists, repeats, names, counts)
    ]  # fmt: skip
    tables.add(
        "Models and clusters of today, H8",
        ("feature", "blocks", "usual's", "usual, us", "us", "ratio", "per step", "preemptions"),
        rows,
        f"{seeds} seeds, on {processor()}. Usual lanes have one group, no drafts, no roles and no "
        "tier, and are synchronous where the feature is not a closed loop; what each feature is "
        "says tests/bench/explicit.py. Two groups of the same memory have twice as many blocks.",
    )
