"""Crowded lanes of a few hundred requests decide alike with logs, one step a run, and without.

Twins are compared with logs, so here is what holds runs of many steps to them, at a size at which
they matter.
"""

import batches
import pytest

from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs

SEEDS = range(6)
GROUPS = {"cache": {"groups": [{"kind": "full"}, {"kind": "sliding", "window": 128}]}}
DRAFTS = {"tokens": 3, "method": "draft", "acceptance": 0.7}
EAGLE = {"engine": {"speculative": DRAFTS | {"method": "eagle"}}}
ROLES = {"prefill_instances": 2, "decode_instances": 2, "kv_transfer_bandwidth": 0.381}
APART = {"cluster": ROLES | {"instances": None}}
LEASES = {"cluster": {"kv_lease_us": 2_000_000, "kv_heartbeats": True}}
ASYNC = {"engine": {"async_scheduling": True}}
CONTEXT = {"latency": {"beta": [6910.0, 17.67, 2.84, 0.0002, 0.0001], "model": None}}
PRIORITY = {"engine": {"scheduler": "priority"}}
VLLM = {"cache": {"offload": "vllm"}}
ARC = {"cache": {"offload": "vllm", "offload_eviction": "arc"}}
OUTPUTS_TOO = {"cache": {"offload": "vllm", "offload_prompt_only": False}}
WATERMARK = {"cache": {"offload": "watermark", "offload_threshold": 0.5}}
WRITE_THROUGH = {"cache": {"offload": "write-through"}}

H8 = {
    "workload": {
        "requests": 200,
        "prompt": {"dist": "gaussian", "mean": 512, "std": 50, "min": 256, "max": 768},
        "output": {"dist": "gaussian", "mean": 256, "std": 50, "min": 128, "max": 512},
    },
    "cluster": {"instances": 4},
}
SESSIONS = {
    "workload": {
        "requests": 300,
        "rate": 4.0,
        "prompt": {"dist": "constant", "value": 128},
        "output": {"dist": "constant", "value": 256},
        "sessions": {"rounds": 5, "think_time_s": 2.0, "arrivals": "closed-loop"},
    },
    "engine": {"max_num_seqs": 32},
    "cluster": {"instances": 1},
}
TIER = {"cache": {"cpu_blocks": 600, "transfer_bandwidth": 0.4}}

FEATURES = {
    "groups": [GROUPS],
    "groups, async": [GROUPS, ASYNC],
    "groups, priority": [GROUPS, PRIORITY],
    "groups, context": [GROUPS, CONTEXT],
    "drafts": [{"engine": {"speculative": DRAFTS}}],
    "drafts, async": [{"engine": {"speculative": DRAFTS}}, ASYNC],
    "drafts, groups": [{"engine": {"speculative": DRAFTS}}, GROUPS],
    "EAGLE": [EAGLE],
    "apart": [APART],
    "apart, async": [APART, ASYNC],
    "leases": [APART, LEASES],
    "usual": [],
    "async": [ASYNC],
    "async, context": [ASYNC, CONTEXT],
    "async, priority": [ASYNC, PRIORITY],
}
"""What a crowded burst of H8 is changed by, by name."""
TIERS = {
    "watermark": [WATERMARK],
    "write-through": [WRITE_THROUGH],
    "prompts": [VLLM],
    "prompts, async": [VLLM, ASYNC],
    "arc": [ARC],
    "arc, async": [ARC, ASYNC],
    "outputs too": [OUTPUTS_TOO],
    "outputs too, async": [OUTPUTS_TOO, ASYNC],
    "groups": [GROUPS],
    "drafts": [{"engine": {"speculative": DRAFTS}}],
    "async": [ASYNC],
}
"""What sessions are changed by, by name: they look up what was said before."""
LOGS = {"tally log_steps", "tally log_events", "tally log_transfers"}
MAY_DIFFER = LOGS | {"tally itl_entries", "tally shortages"}
"""How much is logged, kept and tried."""


def compare(scenario):
    """Run lanes with logs and without, and compare all that they leave."""
    inputs = batches.lanes_of(scenario, SEEDS)
    plain, logged = (allocate_outputs(inputs, keep_requests=True) for _ in range(2))
    run_lanes(inputs, plain)
    inputs.lanes["log"] = 1
    run_lanes(inputs, logged)
    assert (plain.tallies["status"] == 0).all()
    assert plain.tallies["evictions"].max() > 0
    for lane in range(len(SEEDS)):
        found = [batches.lane_results(inputs, each, lane) for each in (plain, logged)]
        assert (found[0]["tally shortages"] > 0) == (found[1]["tally shortages"] > 0)
        assert set(batches.differing(*found)) <= MAY_DIFFER, lane


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [2100, 1000])
@pytest.mark.parametrize("name", FEATURES)
def test_bursts(name, blocks):
    compare(batches.scenario(H8, {"cache": {"gpu_blocks": blocks}}, *FEATURES[name]))


@pytest.mark.slow
@pytest.mark.parametrize("blocks", [1000, 400])
@pytest.mark.parametrize("name", TIERS)
def test_sessions(name, blocks):
    tier = TIER if any("offload" in each.get("cache", {}) for each in TIERS[name]) else {}
    compare(batches.scenario(SESSIONS, {"cache": {"gpu_blocks": blocks}}, tier, *TIERS[name]))


@pytest.mark.parametrize("blocks", [1000, 400])
@pytest.mark.parametrize("name", ["prompts", "prompts, async", "arc", "outputs too, async"])
def test_pools_that_are_alike_leave_what_one_cluster_leaves(name, blocks):
    """With a tier one engine moves runs of blocks, and the other blocks that have identities."""
    changes = [SESSIONS, TIER, *TIERS[name], {"cache": {"gpu_blocks": blocks}}]
    pools = {"cluster": {"instances": None, "pools": [{"instances": 1}]}}
    found = []
    for more in ({}, pools):
        inputs = batches.lanes_of(batches.scenario(*changes, more), SEEDS)
        outputs = allocate_outputs(inputs, keep_requests=True)
        run_lanes(inputs, outputs)
        assert (outputs.tallies["status"] == 0).all()
        assert outputs.tallies["reloads"].min() > 0
        found.append([batches.lane_results(inputs, outputs, lane) for lane in range(len(SEEDS))])
    for pair in zip(*found, strict=True):
        assert set(batches.differing(*pair)) <= MAY_DIFFER
