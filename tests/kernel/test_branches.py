"""Each policy has a branch of its own: one without is never silently another."""

import copy

import naive
import pytest
import twin

from kvsweep import policies
from kvsweep.policies import (
    Admission,
    Eviction,
    LoadFailure,
    Offload,
    Priority,
    Routing,
    Scheduler,
    Scorer,
    Status,
    TierEviction,
    Victim,
)
from kvsweep.records import LaneStatus
from kvsweep.simulate import logged

UNKNOWN = 99
FAMILIES = {
    Routing: ("cluster", "routing"),
    Scorer: ("cluster", "scorers"),
    Admission: ("cluster", "admission"),
    Scheduler: ("engine", "scheduler"),
    Priority: ("engine", "priority"),
    Eviction: ("cache", "eviction"),
    Victim: ("engine", "victim"),
    Offload: ("cache", "offload"),
    TierEviction: ("cache", "offload_eviction"),
    LoadFailure: ("cluster", "kv_load_failure_policy"),
}
"""Table and key of each family of policies."""

MEMBERS = [member for family in FAMILIES for member in family]
HERE = [member for member in MEMBERS if "vllm" in member.rules]
ELSEWHERE = [member for member in MEMBERS if "vllm" not in member.rules]
ROWS = [
    {"id": i, "arrival_us": 40 * i, "prompt": [[0, 8], [1 + i % 2, 9]], "output": [9 + i, 6]}
    for i in range(12)
]
SCENARIO = {
    "engine": {"scheduler": "priority", "max_num_seqs": 2, "priority_age_ms": 0.1},
    "cache": {"block_size": 4, "gpu_blocks": 16, "cpu_blocks": 8, "transfer_bandwidth": 1.0},
    "cluster": {
        "instances": 2,
        "routing": "weighted",
        "scorers": {"queue-depth": 1},
        "token_bucket_capacity": 60,
        "token_bucket_refill_rate": 100_000,
    },
    "latency": {"beta": [50, 0, 0]},
}


APART = {
    "engine": {"max_num_seqs": 2},
    "cache": {"block_size": 4, "gpu_blocks": 16},
    "cluster": {
        "prefill_instances": 1,
        "decode_instances": 1,
        "kv_transfer_bandwidth": 1.0,
        "kv_lease_us": 500,
    },
    "latency": {"beta": [50, 0, 0]},
}


def a_failing_trace(name):
    """Return a trace some of whose pulls fail, with the policy `name` for these."""
    scenario = copy.deepcopy(APART)
    scenario["cluster"]["kv_load_failure_policy"] = name
    rows = [row | {"pull_fails": row["id"] % 3 == 0} for row in ROWS]
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def a_trace(family, name):
    """Return a trace whose scenario has the policy `name` in place of its family's."""
    if family is LoadFailure:
        return a_failing_trace(name)
    table, key = FAMILIES[family]
    scenario = copy.deepcopy(SCENARIO)
    scenario[table][key] = {name: 1} if family is Scorer else name
    if family is TierEviction:
        scenario["cache"]["offload"] = "vllm"
    if (family, name) != (Scheduler, "priority") and family is Scheduler:
        del scenario["engine"]["priority_age_ms"]
    slo = ("critical", "batch", "background", "standard")
    rows = [row | {"slo_class": slo[i % 4]} for i, row in enumerate(ROWS)]
    return {"format": "kvsweep-trace/1", "scenario": scenario, "requests": rows}


def run_forced(family, code, monkeypatch):
    """Run the kernel with a code of a policy that no scenario can have."""
    build = logged.build_inputs

    def build_forced(*arguments, **options):
        inputs = build(*arguments, **options)
        if family is Scorer:
            inputs.scorers["code"] = code
        else:
            inputs.lanes[FAMILIES[family][1]] = code
        return inputs

    monkeypatch.setattr(logged, "build_inputs", build_forced)
    return twin.run_kernel(a_trace(Routing, "weighted"))


def test_no_family_of_policies_is_left_out():
    kinds = [
        policies._Policy,
        *policies._Policy.__subclasses__(),
        *policies._Reader.__subclasses__(),
    ]
    assert set(FAMILIES) == {kind for kind in kinds if len(kind) > 0}


@pytest.mark.parametrize("member", HERE, ids=str)
def test_kernel_and_twin_have_a_branch_for_each_policy(member):
    """A member that is added without one stops the kernel's lane, and the twin raises."""
    assert list(twin.differences(a_trace(type(member), member.label))) == []


@pytest.mark.parametrize("member", ELSEWHERE, ids=str)
def test_the_kernel_stops_at_a_policy_of_the_other_rules(member, monkeypatch):
    found = run_forced(type(member), member, monkeypatch)
    assert found.outputs.tallies[0]["status"] == LaneStatus.UNKNOWN_POLICY


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_the_kernel_stops_at_an_unknown_policy(family, monkeypatch):
    found = run_forced(family, UNKNOWN, monkeypatch)
    assert found.outputs.tallies[0]["status"] == LaneStatus.UNKNOWN_POLICY
    assert found.status is Status.FAILED
    assert "no branch" in found.detail


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_the_twin_stops_at_an_unknown_policy(family, monkeypatch):
    """Even if its scenario let the name pass."""
    monkeypatch.setattr(naive.scenario, "_one_of", lambda *_: None)
    with pytest.raises((KeyError, ValueError), match="nonsense"):
        naive.simulate(a_trace(family, "nonsense"))
