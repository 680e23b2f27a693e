"""Entries of the kernel: which lanes each runs, and that it lacks the code of other features.

That each entry decides as the twin does is seen wherever kernel and twin are compared: a trace runs
by the entry of its own features.
"""

import itertools
import os
import random
import subprocess
import sys
from collections import Counter

import batches
import explicit_traces
import numba
import numpy as np
import pytest
import strategies
from numba.core.errors import NumbaError

from kvsweep import _cache, _jit
from kvsweep.config import Workload, parse_scenario
from kvsweep.records import LANE, without
from kvsweep.simulate import entries, kernel_entries
from kvsweep.simulate.lane_records import lane_record
from kvsweep.workload.traces import load_trace

CONNECTED = {"cache": {"cpu_blocks": 50, "offload": "vllm", "transfer_bandwidth": 1.0}}
ASYNC = {"engine": {"async_scheduling": True}}
COLD = {"latency": {"first_steps_us": [2500]}}
TIERED = {"cache": {"cpu_blocks": 50, "transfer_bandwidth": 1.0}}
WINDOW = {"cache": {"groups": [{"kind": "sliding", "window": 64}]}}
CONNECTED_WINDOW = {"cache": {**CONNECTED["cache"], **WINDOW["cache"]}}
STATES = {"cache": {"groups": [{"kind": "state"}, {"kind": "full"}]}}
CONNECTED_STATES = {"cache": {**CONNECTED["cache"], **STATES["cache"]}}
DRAFTED = {"engine": {"speculative": {"tokens": 2, "method": "draft", "acceptance": 0.5}}}
DRAFTED_ASYNC = {"engine": {**DRAFTED["engine"], **ASYNC["engine"]}}
APART = {
    "instances": None,
    "prefill_instances": 1,
    "decode_instances": 1,
    "kv_transfer_bandwidth": 1.0,
}
FEATURES = {
    "none": ({}, "run_batch"),
    "another router and order": (
        {"cluster": {"routing": "least-loaded"}, "engine": {"scheduler": "sjf"}},
        "run_batch",
    ),
    "asynchronous": (ASYNC, "run_async"),
    "a tier": (TIERED, "run_tiered"),
    "a tier, and another victim": ({**TIERED, "engine": {"victim": "random"}}, "run_rare"),
    "another victim": ({"engine": {"victim": "random"}}, "run_rare"),
    "another eviction": ({"cache": {"eviction": "lfu"}}, "run_rare"),
    "slow first steps": (COLD, "run_rare"),
    "few under way": ({"workload": {"concurrency": 3}}, "run_rare"),
    "urgent heads": (
        {"engine": {"scheduler": "priority", "preempt_for_urgent": True}},
        "run_rare",
    ),
    "asynchronous, and another victim": (
        {"engine": {"async_scheduling": True, "victim": "random"}},
        "run_rare",
    ),
    "a connector": (CONNECTED, "run_connected"),
    "a connector, asynchronous": ({**CONNECTED, **ASYNC}, "run_connected_rare"),
    "a window": (WINDOW, "run_groups"),
    "a window, asynchronous": ({**WINDOW, **ASYNC}, "run_groups"),
    "a window, few under way": ({**WINDOW, "workload": {"concurrency": 3}}, "run_groups"),
    "a window, slow first steps": ({**WINDOW, **COLD}, "run_explicit"),
    "states": (STATES, "run_states"),
    "states, slow first steps": ({**STATES, **COLD}, "run_states"),
    "states, asynchronous": ({**STATES, **ASYNC}, "run_states"),
    "a pipeline": ({"engine": {"pipeline_parallel_size": 2}}, "run_pipelines"),
    "a pipeline, slow first steps": (
        {**COLD, "engine": {"pipeline_parallel_size": 2}},
        "run_pipelines_rare",
    ),
    "a pipeline of states, asynchronous": (
        {**STATES, "engine": {"pipeline_parallel_size": 3, "async_scheduling": True}},
        "run_pipelines_rare",
    ),
    "pools": ({"cluster": {"instances": None, "pools": [{"instances": 2}]}}, "run_groups"),
    "drafts": (DRAFTED, "run_drafts"),
    "drafts and a window": ({**WINDOW, **DRAFTED}, "run_explicit"),
    "prefill and decode apart": ({"cluster": APART}, "run_apart"),
    "drafts apart, asynchronous": ({**DRAFTED_ASYNC, "cluster": APART}, "run_apart_rare"),
    "a window, prefill and decode apart": ({**WINDOW, "cluster": APART}, "run_explicit"),
    "leases": ({"cluster": {**APART, "kv_lease_us": 30_000_000}}, "run_apart_rare"),
    "a connector and a window": (CONNECTED_WINDOW, "run_moving"),
    "a connector and drafts, asynchronous": ({**CONNECTED, **DRAFTED_ASYNC}, "run_moving"),
    "a connector, prefill and decode apart": ({**CONNECTED, "cluster": APART}, "run_apart_moving"),
    "a connector of one side, asynchronous, leases": (
        {
            **CONNECTED,
            **ASYNC,
            "cluster": {**APART, "decode_cpu_blocks": 0, "kv_lease_us": 30_000_000},
        },
        "run_apart_moving",
    ),
    "a connector and states, apart": ({**CONNECTED_STATES, "cluster": APART}, "run_apart_moving"),
    "a connector and states": (CONNECTED_STATES, "run_moving_states"),
    "a connector and states, asynchronous, slow first steps": (
        {**CONNECTED_STATES, **ASYNC, **COLD},
        "run_moving_states",
    ),
    "states, prefill and decode apart": ({**STATES, "cluster": APART}, "run_apart_states"),
    "states, leases, asynchronous, slow first steps": (
        {**STATES, **ASYNC, **COLD, "cluster": {**APART, "kv_lease_us": 30_000_000}},
        "run_apart_states",
    ),
}


def _usual(seed):
    return strategies.random_trace(random.Random(seed), 20, asynchronous=True)


def _connected(seed):
    return strategies.random_trace(random.Random(seed), 20, asynchronous=True, offload=True)


def _explicit(feature):
    return lambda seed: explicit_traces.random_trace(random.Random(seed), (feature,), 20)


KINDS = {
    "usual": (("run_batch", "run_async", "run_tiered"), _usual),
    "a connector": (("run_connected",), _connected),
    "groups": (("run_groups",), _explicit("groups")),
    "pools": (("run_groups",), _explicit("pools")),
    "drafts": (("run_drafts",), _explicit("drafts")),
    "roles": (("run_apart",), _explicit("roles")),
    "leases": (("run_apart_rare",), _explicit("leases")),
    "pipelines": (("run_pipelines",), _explicit("pipeline")),
}
"""Entries that are left out where a few will do, and random traces that they run."""


@pytest.fixture(autouse=True)
def all_entries(monkeypatch):
    """What is tested here is which of all entries run a lane, though workers may share a few."""
    monkeypatch.setattr(entries, "ENTRIES", entries.ALL)


@pytest.mark.parametrize("feature", FEATURES)
def test_each_feature_has_its_entry(feature):
    changes, name = FEATURES[feature]
    assert kernel_entries([batches.scenario(changes)]) == (name,)


@pytest.mark.parametrize(
    ("features", "names"),
    [
        (("none", "asynchronous"), ("run_async",)),
        (("none", "a tier"), ("run_tiered",)),
        (("asynchronous", "a tier"), ("run_async", "run_tiered")),
        (("none", "a connector"), ("run_batch", "run_connected")),
        (("a connector", "a tier", "none"), ("run_tiered", "run_connected")),
        (("a connector", "a connector, asynchronous"), ("run_connected_rare",)),
        (("a window", "drafts"), ("run_groups", "run_drafts")),
        (("a window", "leases", "none"), ("run_batch", "run_groups", "run_apart_rare")),
        (("prefill and decode apart", "leases"), ("run_apart_rare",)),
        (("a window", "drafts and a window", "none"), ("run_batch", "run_explicit")),
        (("a window", "a connector and a window"), ("run_groups", "run_moving")),
        (("states", "a connector and states"), ("run_moving_states", "run_states")),
        (("states", "states, prefill and decode apart"), ("run_apart_states",)),
    ],
)
def test_a_sweep_compiles_the_fewest_entries(features, names):
    """Who has fewer features runs by the entry that the others need."""
    assert kernel_entries([batches.scenario(FEATURES[name][0]) for name in features]) == names


@pytest.mark.parametrize("feature", FEATURES)
def test_few_entries_run_all_lanes(feature):
    lanes = np.array([lane_record(batches.scenario(FEATURES[feature][0]))], LANE)
    few = [entry for entry in entries.ALL if entry.name in entries.FEW]
    assert any(entry.covers(lanes)[0] for entry in few)


def test_few_entries_are_there_if_asked_for():
    show = "from kvsweep.simulate import entries; print(*(e.name for e in entries.ENTRIES))"
    done = subprocess.run(
        [sys.executable, "-c", show],
        env=os.environ | {"KVSWEEP_FEW_ENTRIES": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert tuple(done.stdout.split()) == entries.FEW


def test_the_replica_needs_none():
    assert kernel_entries([batches.scenario({"engine": {"rules": "blis"}})]) == ()


def test_scenarios_need_what_their_lanes_need():
    """Many are told apart by a few of their keys: all those that decide are among them."""
    scenarios = []
    for seed in range(300):
        trace = strategies.random_trace(
            random.Random(seed), 3, asynchronous=True, beyond=True, offload=seed % 4 == 0
        )
        settings = load_trace(trace).scenario
        workload = settings.pop("workload", None)
        scenario = parse_scenario(settings, "trace")
        if workload:
            scenario = scenario.model_copy(update={"workload": Workload(**workload)})
        scenarios.append(scenario)
    scenarios += [
        batches.scenario(FEATURES[name][0])
        for name in (
            *("a window", "pools", "states", "drafts", "drafts and a window"),
            *("prefill and decode apart", "leases"),
            *("a pipeline", "a pipeline of states, asynchronous"),
            *("a connector and a window", "a connector and drafts, asynchronous"),
            *("a connector and states", "a connector and states, asynchronous, slow first steps"),
            *("a connector, prefill and decode apart", "a connector and states, apart"),
            "a connector of one side, asynchronous, leases",
            *("states, prefill and decode apart", "states, leases, asynchronous, slow first steps"),
        )
    ]
    kinds = {}
    for item in scenarios:
        found = [entry.name for entry in entries.needed_for(np.array([lane_record(item)], LANE))]
        assert kinds.setdefault(entries._kind(item), found) == found
    assert {name for found in kinds.values() for name in found} == {
        entry.name for entry in entries.ENTRIES
    }


@pytest.mark.long
def test_a_batch_of_all_features_is_as_each_alone():
    """Lanes of one batch run by several entries, more than the few that other tests need."""
    traces = [
        strategies.random_trace(
            random.Random(seed), 20, asynchronous=True, beyond=False, offload=seed % 3 == 0
        )
        for seed in range(24)
    ]
    inputs, outputs = batches.run(traces)
    used = {entries.needed_for(inputs.lanes[k : k + 1])[0].name for k in range(len(traces))}
    assert len(used) >= 3
    for lane, trace in enumerate(traces):
        alone = batches.lane_results(*batches.run([trace]), 0)
        assert batches.differing(batches.lane_results(inputs, outputs, lane), alone) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_an_entry_of_more_features_decides_alike(kind, monkeypatch):
    """Lanes of a kind, each run by every entry that covers it."""
    names, draw = KINDS[kind]
    compared = Counter()
    for seed in range(60):
        trace = draw(seed)
        lanes = batches.inputs_of([trace]).lanes
        covering = [entry for entry in entries.ALL if entry.covers(lanes)[0]]
        found = []
        for entry in covering:
            monkeypatch.setattr(entries, "ENTRIES", (entry,))
            found.append(batches.lane_results(*batches.run([trace]), 0))
        for other in found[1:]:
            assert batches.differing(found[0], other) == [], seed
        compared[covering[0].name] += len(found) - 1
    assert all(compared[name] > 0 for name in names)


def test_compiling_unannounced_is_told(monkeypatch, caplog):
    """Where nobody knew beforehand which entries would be needed."""
    ran = []

    class Absent:
        loaded = cached = False
        absent = ()
        message = "compiling the kernel"

        def covers(self, lanes):
            return np.ones(len(lanes), bool)

        def __call__(self, *args):
            ran.append(args)

    monkeypatch.setattr(entries, "ENTRIES", (Absent(),))
    inputs = batches.inputs_of(batches.random_traces([1]))
    entries.run(inputs, None, None, np.arange(1))
    assert caplog.messages == ["compiling the kernel"]
    assert len(ran) == 1


def test_messages_say_what_is_compiled():
    said = [entry.message for entry in entries.ENTRIES]
    assert len(set(said)) == len(said)
    assert f"(first run only, about {_cache.seconds} s)" in said[0]
    assert f"about {_cache.seconds + 30} s" in said[5], "CPU offload has more code"


@pytest.fixture
def small():
    """A record of two fields, as an array of it with both, and without the first."""
    kind = np.dtype([("extra", "i8"), ("kept", "i8")], align=True)
    values = np.array([(3, 7)], kind)
    return values, values.view(without(kind, ["extra"]))


@_jit.leaf
def _missing(record):
    return record["no field of it"]


@_jit.leaf
def _read(record):
    if record["extra"] > 0:
        return _missing(record)
    record["extra"] = 5
    return record["kept"] + record["extra"]


def test_code_of_an_absent_field_is_not_even_typed(small, monkeypatch):
    """A field that is absent is 0, what is set there is dropped, and the branch with it."""
    monkeypatch.setattr(_cache, "folder", None)
    _jit.may_lack("extra")
    values, narrow = small

    def run(values):
        return _read(values[0])

    assert _jit.kernel(run)(narrow) == 7
    assert values.tolist() == [(3, 7)], "nothing is set"
    with pytest.raises(NumbaError):
        _jit.kernel(run)(values)


def test_no_entry_takes_the_lanes_of_another_for_its_own():
    """To numba a record is of the kind of one that lacks its last fields, and of no other."""
    kinds = [numba.from_dtype(entry.lane) for entry in entries.ENTRIES]
    for one, other in itertools.permutations(kinds, 2):
        assert one.can_convert_to(None, other) is None


def test_fields_that_are_left_stay_where_they_are(small):
    values, narrow = small
    assert narrow.dtype.names == ("kept",)
    assert narrow.dtype.itemsize == values.dtype.itemsize
    narrow["kept"] = 8
    assert values["kept"] == [8]
