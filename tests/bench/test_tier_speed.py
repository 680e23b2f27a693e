"""What a CPU tier costs: the same requests without one, and with one of each kind, in turns."""

from pathlib import Path

from bench_cases import conversations, conversations_scenario, generated, lanes
from measuring import least_times

from kvsweep.config.scenario import validate
from kvsweep.simulate.workspace import allocate_outputs

AMPLE, STARVING = 40_000, 2_000
VLLM = {"offload": "vllm"}
TIERS = {
    "watermark": {"offload": "watermark", "offload_threshold": 0.5},
    "write-through": {"offload": "write-through"},
    "vllm, prompts": VLLM,
    "vllm, prompts, arc": VLLM | {"offload_eviction": "arc"},
    "vllm, outputs too": VLLM | {"offload_prompt_only": False},
}


def sessions_scenario(blocks):
    """Return H10's conversations, in a closed loop (sweeps/h10-sessions.toml)."""
    return validate(
        {
            "workload": {
                "requests": 2500,
                "warmup": 500,
                "rate": 2.0,
                "prompt": {"dist": "constant", "value": 128},
                "output": {"dist": "constant", "value": 256},
                "sessions": {"rounds": 5, "think_time_s": 5.0, "arrivals": "closed-loop"},
            },
            "engine": {"max_num_seqs": 32, "max_num_batched_tokens": 2048},
            "cache": {"gpu_blocks": blocks},
            "latency": {"model": "llama-3.1-8b/h100/tp2"},
        },
        Path(),
    )


def with_tier(scenario, changes):
    """Return a scenario with a CPU tier."""
    cache = scenario.cache.model_copy(update=changes | {"transfer_bandwidth": 0.4})
    return scenario.model_copy(update={"cache": cache})


def rows_of(scenario, lists, blocks, repeats):
    """Return a row for no tier, and one for each kind of tier, ample and starving."""
    batches = {("none", 0): lanes(scenario, lists)}
    for size in (AMPLE, STARVING):
        for name, changes in TIERS.items():
            tiered = with_tier(scenario, changes | {"cpu_blocks": size})
            batches[name, size] = lanes(tiered, lists)
    runs = {key: (inputs, allocate_outputs(inputs)) for key, inputs in batches.items()}
    times = least_times(runs, repeats)
    for (name, size), (_, outputs) in runs.items():
        assert (outputs.tallies["status"] == 0).all()
        moved, loaded = (outputs.tallies[field].mean() for field in ("offloads", "reloads"))
        us = f"{1e6 * times[name, size] / len(lists):.0f}"
        ratio = f"{times[name, size] / times['none', 0]:.2f}"
        yield f"{blocks:,}", name, f"{size:,}", us, ratio, f"{moved:,.0f}", f"{loaded:,.0f}"


def add(tables, title, scenario_of, lists_of, counts, smoke):
    """Add a table of a workload, for some sizes of the GPU's cache."""
    seeds, repeats = (1, 1) if smoke else (5, 6)
    rows = []
    for blocks in counts[:1] if smoke else counts:
        scenario = scenario_of(blocks)
        rows += rows_of(scenario, lists_of(scenario, range(seeds)), blocks, repeats)
    tables.add(
        title,
        ("GPU blocks", "tier", "CPU blocks", "us", "ratio", "blocks to the CPU", "blocks back"),
        rows,
        f"One instance, {seeds} seeds.",
    )


def test_conversations_with_a_tier(tables, smoke):
    def lists_of(_, seeds):
        return [conversations(seed) for seed in seeds]

    title = "Conversations with a CPU tier"
    add(tables, title, conversations_scenario, lists_of, (5_000, 1_000, 400), smoke)


def test_sessions_with_a_tier(tables, smoke):
    title = "H10's sessions with a CPU tier"
    add(tables, title, sessions_scenario, generated, (1_000, 3_000), smoke)
