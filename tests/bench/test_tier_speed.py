"""What a CPU tier costs: conversations with none, with moved and with copied blocks, in turns."""

from bench_cases import conversations, conversations_scenario, lanes
from measuring import least_times

from kvsweep.simulate.workspace import allocate_outputs

TIERS = {
    "none": {},
    "watermark": {"cpu_blocks": 2_000, "offload": "watermark", "offload_threshold": 0.5},
    "write-through": {"cpu_blocks": 2_000, "offload": "write-through"},
}


def with_tier(scenario, changes):
    """Return a scenario with a CPU tier."""
    cache = scenario.cache.model_copy(update=changes | {"transfer_bandwidth": 1.0})
    return scenario.model_copy(update={"cache": cache})


def test_cpu_tier(tables, smoke):
    seeds, repeats = (1, 1) if smoke else (10, 8)
    lists = [conversations(seed) for seed in range(seeds)]
    rows = []
    for blocks in (1_000, 400):
        batches = {}
        for name, changes in TIERS.items():
            inputs = lanes(with_tier(conversations_scenario(blocks), changes), lists)
            batches[name] = (inputs, allocate_outputs(inputs))
        times = least_times(batches, repeats)
        for name, (_, outputs) in batches.items():
            assert (outputs.tallies["status"] == 0).all()
            moved, loaded = (outputs.tallies[field].mean() for field in ("offloads", "reloads"))
            us = 1e6 * times[name] / seeds
            ratio = f"{times[name] / times['none']:.2f}"
            rows.append(
                (f"{blocks:,}", name, f"{us:.0f}", ratio, f"{moved:,.0f}", f"{loaded:,.0f}")
            )
    tables.add(
        "Conversations with a CPU tier of 2,000 blocks",
        ("GPU blocks", "tier", "us", "ratio", "blocks to the CPU", "blocks back"),
        rows,
        f"One instance, {seeds} seeds. With a tier each block has a record of its own.",
    )
