"""Explicit lanes beside usual ones with the same requests: ratios of times taken in turns.

Usage: ``PYTHONPATH=. python tests/bench/explicit.py [seeds] [repeats] [part of a name]``
"""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from bench_cases import LATENCY, generated, h8_scenario, lanes
from measuring import times_in_turns

from kvsweep.config.scenario import validate
from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.workload.acceptance import with_acceptance

BLOCKS = (5000, 2100)
GROUPS = [{"kind": "full"}, {"kind": "sliding", "window": 128}]
KEPT = {"prefix_cache_retention_interval": 0}
DRAFTS = {"tokens": 3, "method": "draft", "acceptance": 0.7}
APART = {"prefill_instances": 2, "decode_instances": 2, "kv_transfer_bandwidth": 0.381}
LEASES = {"kv_lease_us": 2_000_000, "kv_heartbeats": True}
STATES = [{"kind": "state"}] * 3 + [{"kind": "full"}]
TIER = {"cpu_blocks": 40_000, "offload": "vllm", "transfer_bandwidth": 0.8}
CLOSED = {"workload": {"concurrency": 64}}
FEATURES = {
    "two groups": {"cache": {"groups": GROUPS}},
    "two full groups": {"cache": {"groups": [{"kind": "full"}] * 2}},
    "two groups, async": {"cache": {"groups": GROUPS}, "engine": {"async_scheduling": True}},
    "two groups kept": {"cache": {"groups": GROUPS} | KEPT},
    "two groups kept, async": {
        "cache": {"groups": GROUPS} | KEPT,
        "engine": {"async_scheduling": True},
    },
    "states": {"cache": {"groups": STATES, "block_size": 528}},
    "states, async": {
        "cache": {"groups": STATES, "block_size": 528},
        "engine": {"async_scheduling": True},
    },
    "states kept, async": {
        "cache": {"groups": STATES, "block_size": 528} | KEPT,
        "engine": {"async_scheduling": True},
    },
    "pipeline": {"engine": {"pipeline_parallel_size": 2}},
    "pipeline, async": {"engine": {"pipeline_parallel_size": 2, "async_scheduling": True}},
    "drafts": {"engine": {"speculative": DRAFTS}},
    "drafts, async": {"engine": {"speculative": DRAFTS, "async_scheduling": True}},
    "EAGLE": {"engine": {"speculative": DRAFTS | {"method": "eagle"}}},
    "two groups, closed": CLOSED
    | {"cache": {"groups": GROUPS}, "engine": {"async_scheduling": True}},
    "drafts, closed": CLOSED | {"engine": {"speculative": DRAFTS, "async_scheduling": True}},
    "apart": {"cluster": APART},
    "apart, async": {"cluster": APART, "engine": {"async_scheduling": True}},
    "apart, drafts": {"cluster": APART, "engine": {"speculative": DRAFTS}},
    "apart, async drafts": {
        "cluster": APART,
        "engine": {"speculative": DRAFTS, "async_scheduling": True},
    },
    "apart, groups": {"cluster": APART, "cache": {"groups": GROUPS}},
    "apart, async groups": {
        "cluster": APART,
        "cache": {"groups": GROUPS},
        "engine": {"async_scheduling": True},
    },
    "apart, states": {"cluster": APART, "cache": {"groups": STATES, "block_size": 528} | KEPT},
    "apart, async states": {
        "cluster": APART,
        "cache": {"groups": STATES, "block_size": 528} | KEPT,
        "engine": {"async_scheduling": True},
    },
    "leases": {"cluster": APART | LEASES},
    "two groups, tier": {"cache": {"groups": GROUPS} | TIER},
    "two groups, async tier": {
        "cache": {"groups": GROUPS} | TIER,
        "engine": {"async_scheduling": True},
    },
    "states, tier": {"cache": {"groups": STATES, "block_size": 528} | TIER},
    "states, async tier": {
        "cache": {"groups": STATES, "block_size": 528} | KEPT | TIER,
        "engine": {"async_scheduling": True},
    },
    "drafts, tier": {"cache": TIER, "engine": {"speculative": DRAFTS}},
    "apart, tier": {"cluster": APART, "cache": TIER},
    "apart, async tier": {"cluster": APART, "cache": TIER, "engine": {"async_scheduling": True}},
    "apart, tier to prefill": {"cluster": APART | {"decode_cpu_blocks": 0}, "cache": TIER},
    "apart, states, tier": {
        "cluster": APART,
        "cache": {"groups": STATES, "block_size": 528} | TIER,
    },
}
"""Keys of the scenario that make lanes explicit, by name.

In a closed loop, asynchronously, the lanes without the feature are one too.
"""


HALVES = ("two groups", "two groups, async", "apart, groups", "apart, async groups")
"""Features of which a block has half of the layers: the same memory has twice as many of them."""


def h8_with(blocks, more):
    """Return H8's scenario with more keys."""
    document = h8_scenario(blocks).model_dump(exclude_unset=True)
    document["latency"] = LATENCY
    for section, keys in more.items():
        document[section] = document.get(section, {}) | keys
    if "prefill_instances" in document["cluster"]:
        del document["cluster"]["instances"], document["cluster"]["routing"]
    return validate(document, Path())


def batch_of(scenario, lists):
    """Return inputs and outputs of one lane per request list."""
    drafts = scenario.engine.speculative
    inputs = lanes(scenario, [with_acceptance(each, drafts, 0) for each in lists])
    return inputs, allocate_outputs(inputs)


@dataclass(frozen=True)
class Cost:
    """What a feature costs: means of a lane, as microseconds or counted, and ratios."""

    blocks: int
    usual_blocks: int
    usual_us: float
    us: float
    ratio: float
    usual_steps: float
    steps: float
    preemptions: float
    taken: float

    @property
    def per_step(self):
        """Return the ratio of the times of a step."""
        return self.ratio * self.usual_steps / self.steps


def cost_of(more, lists, repeats, blocks, usual_blocks):
    """Measure a feature beside lanes without it, in turns."""
    # Scheduled as the lanes that it is compared with; only the feature differs.
    usual = h8_with(usual_blocks, {k: more[k] for k in CLOSED if k in more})
    batches = {"usual": batch_of(usual, lists), "explicit": batch_of(h8_with(blocks, more), lists)}
    times = times_in_turns(batches, repeats)
    found = {key: 1e6 * each.min() / len(lists) for key, each in times.items()}
    steps = {key: outputs.tallies["steps"].mean() for key, (_, outputs) in batches.items()}
    tallies = batches["explicit"][1].tallies
    assert (tallies["status"] == 0).all()
    ratio = float(np.median(times["explicit"] / times["usual"]))
    means = (tallies[field].mean() for field in ("preemptions", "blocks_taken"))
    return Cost(blocks, usual_blocks, *found.values(), ratio, *steps.values(), *map(float, means))


def costs(lists, repeats, names, counts):
    """Yield the name and the cost of each feature, for each count of blocks."""
    for name in names:
        for blocks in counts:
            yield name, cost_of(FEATURES[name], lists, repeats, blocks, blocks)
            if name in HALVES:
                yield name, cost_of(FEATURES[name], lists, repeats, 2 * blocks, blocks)


def main(seeds=60, repeats=15, part=""):
    lists = generated(h8_scenario(BLOCKS[0]), range(seeds))
    print("                    blocks        us of a lane           ratio    steps of a lane")
    print(
        "feature             expl.  usual   usual explicit  lane  per step  usual  expl. preempted"
        "  taken"
    )
    names = [name for name in FEATURES if part in name]
    for name, cost in costs(lists, repeats, names, BLOCKS):
        print(
            f"{name:18} {cost.blocks:6} {cost.usual_blocks:6} {cost.usual_us:7.1f} {cost.us:8.1f}"
            f" {cost.ratio:6.2f} {cost.per_step:9.2f} {cost.usual_steps:6.0f} {cost.steps:6.0f}"
            f" {cost.preemptions:11.1f} {cost.taken:7.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), *sys.argv[3:])
