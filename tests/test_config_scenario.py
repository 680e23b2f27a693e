"""Scenarios: defaults, strictness, what each rule book has, latencies."""

import json
import re
import subprocess
import sys

import pytest
from pydantic import ValidationError

from kvsweep.config import (
    BLIS_SWITCHES,
    Cache,
    Engine,
    Scenario,
    Workload,
    load_sweep,
    parse_scenario,
    preset_names,
)
from kvsweep.errors import InputError
from kvsweep.policies import (
    RULES,
    Admission,
    Eviction,
    LoadFailure,
    Offload,
    Priority,
    RequestStatus,
    Routing,
    Scheduler,
    Scorer,
    SloClass,
    Status,
    Victim,
)
from kvsweep.replica import routing as replica_routing
from kvsweep.replica import switches as replica_switches

ALPHA = (1601.350510688092, 3.512476196805965, 1805.5430360826988)
BETA = (6910.420479880494, 17.67057489844186, 2.8377471109943855)
FAMILIES = [
    Routing,
    Scorer,
    Scheduler,
    Priority,
    Victim,
    Eviction,
    Offload,
    LoadFailure,
    SloClass,
    Admission,
    Status,
    RequestStatus,
]


def refused(mapping, *overrides):
    with pytest.raises(InputError) as caught:
        parse_scenario(mapping, "t.json", overrides)
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_an_empty_scenario_has_the_documented_defaults():
    assert parse_scenario({}, "t.json").model_dump() == {
        "workload": None,
        "cluster": {
            "instances": 1,
            "routing": "round-robin",
            "scorers": {"prefix-affinity": 3, "queue-depth": 2, "kv-utilization": 2},
            "router_index_blocks": 10_000,
            "sticky_threshold": 0.8,
            "sticky_lead_tokens": 286_704,
            "count_pending": True,
            "admission": "always",
            "token_bucket_capacity": None,
            "token_bucket_refill_rate": None,
            "admission_latency_us": 0,
            "routing_latency_us": 0,
            "snapshot_refresh_us": 0,
            "snapshot_load": False,
            "pools": (),
            **dict.fromkeys(("prefill", "decode", "prefill_instances", "decode_instances")),
            **dict.fromkeys(("prefill_gpu_blocks", "decode_gpu_blocks", "kv_transfer_bandwidth")),
            **dict.fromkeys(("prefill_cpu_blocks", "decode_cpu_blocks")),
            "kv_transfer_base_us": 100,
            "pd_handoff_us": 0,
            "prefill_kv_role": "kv_producer",
            "pd_uncached_token_threshold": None,
            "kv_lease_us": None,
            "kv_heartbeats": True,
            "kv_load_failure_rate": 0.0,
            "kv_load_failure_policy": "fail",
        },
        "engine": {
            "rules": "vllm",
            "max_num_seqs": 256,
            "max_num_batched_tokens": 2048,
            "max_model_len": None,
            "long_prefill_token_threshold": 0,
            "scheduler": "fcfs",
            "priority": "constant",
            "victim": "last",
            "priority_age_ms": 1000.0,
            "preempt_for_urgent": False,
            "async_scheduling": False,
            "pipeline_parallel_size": 1,
            "pipeline_fair_share": False,
            "speculative": None,
            "enable_prefix_caching": True,
            "enable_chunked_prefill": True,
            "reserve_full_prompt": True,
            "watermark": 0.0,
            "blis": {},
            "horizon_us": None,
        },
        "cache": {
            "block_size": 16,
            "gpu_blocks": 2200,
            "gpu_tokens": None,
            "groups": (),
            "prefix_cache_retention_interval": None,
            "eviction": "lru",
            "cpu_blocks": 0,
            "offload": "write-through",
            "offload_threshold": 0.8,
            "offload_block_factor": 1,
            "offload_prompt_only": True,
            "offload_eviction": "lru",
            "transfer_bandwidth": None,
            "link": None,
            "link_gb_per_s": None,
            "kv_bytes_per_token": None,
            "transfer_base_latency_us": 10,
            "transfer_overlap": False,
            "thrashing_window_us": 1_000_000,
        },
        "latency": {
            "model": None,
            "alpha": (0, 0, 0),
            "beta": (0, 0, 0),
            "memory": (),
            "first_steps_us": (),
        },
        "model": None,
        "slo": None,
    }


def test_the_preset_gives_its_coefficients_and_short_lists_end_in_zeros():
    preset = parse_scenario({"latency": {"model": "llama-3.1-8b/h100/tp2"}}, "t.json")
    assert (preset.latency.alpha, preset.latency.beta) == (ALPHA, BETA)
    short = parse_scenario({"latency": {"alpha": [5], "beta": [1, 2]}}, "t.json")
    assert (short.latency.alpha, short.latency.beta) == ((5, 0, 0), (1, 2, 0))
    none = parse_scenario({"latency": {"alpha": [], "beta": [], "memory": [7]}}, "t.json").latency
    assert (none.alpha, none.beta) == ((0, 0, 0), (0, 0, 0))


def test_context_terms_appear_only_where_they_are_given():
    """One form for each meaning, so that equal scenarios are equal."""
    four = parse_scenario({"latency": {"beta": [1, 2, 0, 0.5]}}, "t.json").latency
    assert (four.beta, four.memory) == ((1, 2, 0, 0.5, 0), ())
    none = {"beta": [1, 2, 3, 0, 0], "memory": [0, 0]}
    assert parse_scenario({"latency": none}, "t.json").latency.beta == (1, 2, 3)
    assert parse_scenario({"latency": none}, "t.json").latency.memory == ()
    roofline = parse_scenario({"latency": {"beta": [1], "memory": [7]}}, "t.json")
    assert roofline.latency.memory == (7, 0, 0, 0, 0)
    again = parse_scenario(roofline.to_trace(), "t.json")
    assert again == roofline


EXPERTS = {"beta": [100, 1, 1], "memory": [50, 1, 1], "experts": [4000, 0.03125]}


def test_experts_are_told_where_there_are_some():
    latency = parse_scenario({"latency": EXPERTS}, "t.json")
    assert latency.latency.experts == (4000, 0.03125)
    assert parse_scenario(latency.to_trace(), "t.json") == latency
    none = parse_scenario({"latency": EXPERTS | {"experts": [0, 0.5]}}, "t.json")
    assert none.latency.experts == ()
    assert "experts" not in none.to_trace()["latency"]


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"experts": [4000]}, r"latency\.experts: two numbers: microseconds of reading all"),
        ({"experts": [4000, 1.0]}, r"latency\.experts: two numbers"),
        ({"experts": [4000, 0.0]}, r"latency\.experts: two numbers"),
        ({"experts": [4000, 0.1, 3]}, r"latency\.experts: two numbers"),
        ({"experts": [-1, 0.1]}, r"latency\.experts"),
        ({"memory": []}, r"latency\.experts: has no effect: added to memory"),
        ({"model": "llama-3.1-8b/h100/tp2"}, r"latency\.\w+: give either model or"),
    ],
)
def test_experts_that_cannot_be_are_refused(changed, told):
    with pytest.raises(InputError, match=told):
        parse_scenario({"latency": EXPERTS | changed}, "t.json")


def test_experts_of_a_pool_are_those_of_its_step_times():
    pools = {"pools": [{"instances": 1, "gpu_blocks": 50, "latency": EXPERTS}]}
    apart = parse_scenario({"cluster": pools, "latency": {"beta": [1]}}, "t.json")
    assert apart.cluster.pools[0].latency.experts == (4000, 0.03125)
    pools["pools"][0]["latency"] = EXPERTS | {"memory": []}
    with pytest.raises(InputError, match=r"latency\.experts: has no effect: added to memory"):
        parse_scenario({"cluster": pools, "latency": {"beta": [1]}}, "t.json")


def test_a_latency_file_is_found_beside_the_trace_and_checked(tmp_path):
    text = 'model = "m"\nhardware = "h"\nkind = "linear"\nalpha = [1]\nbeta = [2]\n'
    (tmp_path / "my.toml").write_text(f'{text}source = "s"\nfit = "f"\n')
    (tmp_path / "bad.toml").write_text(text)
    trace = str(tmp_path / "t.json")
    latency = parse_scenario({"latency": {"model": "my.toml"}}, trace).latency
    assert (latency.alpha, latency.beta) == ((1, 0, 0), (2, 0, 0))
    with pytest.raises(InputError, match=r"latency\.model: .*bad\.toml: source: "):
        parse_scenario({"latency": {"model": "bad.toml"}}, trace)


def test_every_preset_loads_and_says_where_it_comes_from():
    assert "llama-3.1-8b/h100/tp2" in preset_names()
    for name in preset_names():
        assert any(parse_scenario({"latency": {"model": name}}, "t.json").latency.beta)


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        (
            {"cache": {"gpu_blokcs": 5}},
            "t.json: scenario.cache.gpu_blokcs: unknown key; did you mean 'gpu_blocks'?",
        ),
        (
            {"chache": {}},
            "t.json: scenario.chache: unknown key; a trace's scenario has: cluster, engine, cache, "
            "latency; did you mean 'cache'?",
        ),
        ({"cache": {"block_size": 0}}, "scenario.cache.block_size: must be at least 1, got 0"),
        ({"cache": {"block_size": 10**9}}, "cache.block_size: must be at most 262144, got"),
        ({"cache": {"gpu_blocks": 0}}, "scenario.cache.gpu_blocks: must be at least 1, got 0"),
        ({"cache": {"gpu_blocks": 1.5}}, "gpu_blocks: expected an integer, got 1.5"),
        ({"cache": {"gpu_blocks": 2.0}}, "gpu_blocks: expected an integer, got 2.0"),
        ({"cache": {"gpu_blocks": True}}, "gpu_blocks: expected an integer, got true"),
        ({"cache": {"gpu_blocks": "9"}}, "gpu_blocks: expected an integer, got '9'"),
        ({"cache": 5}, "scenario.cache: expected a table, got 5"),
        ({"cache": {"offload_threshold": 1.5}}, "must be at most 1, got 1.5"),
        (
            {"cache": {"eviction": "lrfu"}},
            f"eviction 'lrfu'; allowed: {', '.join(Eviction.labels())}; did you mean 'lru'",
        ),
        ({"cache": {"offload": "never"}}, "unknown offload 'never'; allowed: watermark, write-thr"),
        ({"engine": {"watermark": 1.0}}, "scenario.engine.watermark: must be less than 1, got 1.0"),
        ({"engine": {"watermark": float("nan")}}, "must be a finite number, got nan"),
        ({"engine": {"watermark": -0.1}}, "must be at least 0, got -0.1"),
        ({"engine": {"watermark": False}}, "expected a number, got false"),
        ({"engine": {"enable_prefix_caching": 1}}, "expected true or false, got 1"),
        ({"engine": {"scheduler": "fifo"}}, "unknown scheduler 'fifo'; allowed: fcfs, priority"),
        ({"cluster": {"routing": "round_robin"}}, "unknown routing 'round_robin'; allowed: round-"),
        ({"cluster": {"scorers": {"queue": 1.0}}}, "scenario.cluster.scorers.queue: unknown score"),
        ({"latency": {"alpha": [1, 2, 3, 4]}}, "latency.alpha: at most 3 values, got 4"),
        ({"latency": {"beta": [1, 2, 3, 4, 5, 6]}}, "latency.beta: at most 5 values, got 6"),
        ({"latency": {"beta": [1, -2]}}, "latency.beta[1]: must be at least 0, got -2"),
        (
            {"latency": {"first_steps_us": [1] * 5}},
            "latency.first_steps_us: at most 4 values, got 5",
        ),
        (
            {"latency": {"model": "llama-3.1-8b/h100/tp2", "beta": [1]}},
            "latency.beta: give either model or alpha and beta",
        ),
        (
            {"latency": {"model": "llama-3.1-8b/h100/tp4"}},
            "unknown preset 'llama-3.1-8b/h100/tp4'; did you mean 'llama-3.1-",
        ),
        (
            {"latency": {"model": "none.toml"}},
            "latency.model: none.toml: cannot read: No such fil",
        ),
        ({"workload": {"rate": 1.0}}, "scenario.workload: unknown key; a trace's scenario has"),
    ],
)
def test_a_wrong_scenario_is_refused_by_key(mapping, message):
    assert message in refused(mapping)


def test_a_batch_that_one_step_cannot_decode_is_refused_as_in_vllm():
    sentence = r"max_num_batched_tokens \(64\) must be at least max_num_seqs \(256\), as in vLLM"
    with pytest.raises(InputError, match=rf"engine\.max_num_batched_tokens: {sentence}"):
        parse_scenario({"engine": {"max_num_batched_tokens": 64}}, "t.json")
    assert "engine.max_num_seqs: " in refused({"engine": {"max_num_seqs": 4096}})
    parse_scenario({"engine": {"max_num_batched_tokens": 64, "max_num_seqs": 64}}, "t.json")
    parse_scenario({"engine": {"rules": "blis", "max_num_batched_tokens": 64}}, "t.json")


def test_a_threshold_beyond_what_a_step_takes_whole_is_refused_as_in_vllm():
    whole = {"enable_chunked_prefill": False, "max_num_batched_tokens": 512}
    message = refused({"engine": whole | {"long_prefill_token_threshold": 513}})
    assert message.endswith(
        "engine.long_prefill_token_threshold: 513 is more than max_num_batched_tokens (512), "
        "which vLLM refuses without chunked prefill"
    )
    for engine in (
        whole | {"long_prefill_token_threshold": 512},
        whole | {"long_prefill_token_threshold": 513, "enable_chunked_prefill": True},
    ):
        parse_scenario({"engine": engine}, "t.json")


@pytest.mark.parametrize(
    ("section", "key", "value", "has"),
    [
        ("engine", "scheduler", "priority-fcfs", "fcfs, priority, sjf"),
        ("engine", "priority", "slo-based", "constant, slo-class"),
        ("cluster", "routing", "prefix-affinity", "it is called 'prompt-affinity' here"),
        ("engine", "blis", {"visit_evicted": True}, "no switches of the reference simulator"),
        ("engine", "horizon_us", 5, "no horizon"),
    ],
)
def test_what_only_the_replica_has_is_refused_under_vllm_rules(section, key, value, has):
    given = {section: {key: value}}
    message = refused(given)
    assert f"scenario.{section}.{key}: " in message
    assert "rules 'vllm' has" in message
    assert has in message
    engine = given.get("engine", {}) | {"rules": "blis"}
    parse_scenario(given | {"engine": engine}, "t.json")


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [
        ("engine", "scheduler", "priority"),
        ("engine", "enable_prefix_caching", False),
        ("engine", "enable_chunked_prefill", False),
        ("engine", "reserve_full_prompt", False),
        ("engine", "watermark", 0.1),
        ("engine", "async_scheduling", True),
        ("cache", "eviction", "lfu"),
        ("cache", "offload", "write-through"),
        ("cluster", "scorers", {"precise-prefix": 1.0}),
        ("cluster", "routing", "prompt-affinity"),
        ("cluster", "router_index_blocks", 5),
        ("cluster", "count_pending", False),
        ("cluster", "snapshot_load", True),
    ],
)
def test_what_only_vllm_has_is_refused_under_blis_rules(section, key, value):
    given = {"engine": {"rules": "blis"}}
    message = refused(given | {section: given.get(section, {}) | {key: value}})
    assert f"scenario.{section}.{key}: " in message
    assert "rules 'blis' has" in message
    parse_scenario({section: {key: value}}, "t.json")


def test_the_old_name_of_prompt_affinity_is_refused_with_what_to_write_instead():
    message = refused({"cluster": {"routing": "prefix-affinity"}})
    assert "'prompt-affinity'" in message
    assert "'weighted' with scorers = { precise-prefix = 3, queue-depth = 2 }" in message
    # The scorer of that name stays.
    scorers = {"prefix-affinity": 3, "queue-depth": 2}
    parse_scenario({"cluster": {"routing": "weighted", "scorers": scorers}}, "t.json")
    blis = {"engine": {"rules": "blis"}, "cluster": {"routing": "prompt-affinity"}}
    assert "did you mean 'prefix-affinity'?" in refused(blis)


@pytest.mark.parametrize(("key", "values"), [("beta", [1, 2, 3, 4]), ("memory", [1])])
def test_the_replica_has_no_context_terms(key, values):
    given = {"latency": {"beta": [1], key: values}}
    message = refused({"engine": {"rules": "blis"}} | given)
    assert f"scenario.latency.{key}: rules 'blis' has no context terms" in message


def test_the_replica_has_no_slow_first_steps():
    given = {"engine": {"rules": "blis"}, "latency": {"beta": [1], "first_steps_us": [5]}}
    message = "scenario.latency.first_steps_us: rules 'blis' has no slow first steps"
    assert message in refused(given)


def test_slow_first_steps_go_with_a_preset_and_into_a_trace():
    latency = {"model": "llama-3.1-8b/h100/tp2", "first_steps_us": [184_000, 130_000]}
    made = parse_scenario({"latency": latency}, "t.json")
    assert made.latency.first_steps_us == (184_000, 130_000)
    again = parse_scenario(made.to_trace(), "t.json").latency
    assert (again.beta, again.first_steps_us) == (BETA, (184_000, 130_000))


@pytest.mark.parametrize(("key", "value"), [("priority", "age"), ("preempt_for_urgent", True)])
def test_urgency_needs_the_priority_scheduler(key, value):
    option = f"engine.{key}={value}".lower()
    for scheduler in ("fcfs", "sjf"):
        message = refused({"engine": {"scheduler": scheduler}}, option)
        assert f"engine.{key}: " in message
        assert "has no effect: needs scheduler 'priority'" in message
    assert "rules 'blis' has" in refused({"engine": {"rules": "blis", key: value}})
    found = parse_scenario({"engine": {"scheduler": "priority", key: value}}, "t.json")
    assert getattr(found.engine, key) == value


CPU_TIER = {"cpu_blocks": 5, "transfer_bandwidth": 9.0}


@pytest.mark.parametrize(
    ("key", "more"),
    [
        ("engine.preempt_for_urgent", {"engine": {"preempt_for_urgent": True}}),
        ("cache.cpu_blocks", {"cache": CPU_TIER}),
        ("cache.cpu_blocks", {"cache": CPU_TIER | {"offload": "watermark"}}),
    ],
)
def test_what_has_no_rule_under_asynchronous_scheduling_is_refused(key, more):
    engine = {"scheduler": "priority", "async_scheduling": True} | more.get("engine", {})
    message = refused(more | {"engine": engine})
    assert f"{key}: " in message
    assert "needs engine.async_scheduling = false" in message
    parse_scenario(more | {"engine": engine | {"async_scheduling": False}}, "t.json")


def test_only_the_connector_keeps_what_the_gpu_does_not():
    """vLLM's hashes blocks for a connector even where prefix caching is off."""
    off = {"engine": {"enable_prefix_caching": False}}
    parse_scenario(off | {"cache": CPU_TIER | {"offload": "vllm"}}, "t.json")
    message = refused(off | {"cache": CPU_TIER | {"offload": "watermark"}})
    assert "scenario.cache.cpu_blocks: offload 'watermark' needs" in message
    assert "engine.enable_prefix_caching = true" in message


@pytest.mark.parametrize("age", [0.0, 0.0005, 2e9, -1.0])
def test_an_age_is_a_microsecond_to_eleven_days(age):
    engine = {"scheduler": "priority", "priority": "age", "priority_age_ms": age}
    assert "engine.priority_age_ms: " in refused({"engine": engine})


def test_policies_that_need_parameters_say_so():
    blis = {"engine": {"rules": "blis"}}
    message = refused(blis | {"cluster": {"admission": "token-bucket"}})
    assert "cluster.token_bucket_capacity: missing; admission 'token-bucket' needs it" in message
    weighted = {"routing": "weighted", "scorers": {"queue-depth": 0}}
    assert "cluster.scorers: " in refused(blis | {"cluster": weighted})


def test_switches_are_those_of_the_replica():
    assert set(BLIS_SWITCHES) == set(replica_switches.describe())
    assert set(Scorer.labels_of("blis")) == {
        replica_routing.PREFIX_AFFINITY,
        *replica_routing.SCORERS,
    }
    engine = {"rules": "blis", "blis": {"visit_evicted": False}}
    assert parse_scenario({"engine": engine}, "t.json").engine.blis == {"visit_evicted": False}
    wrong = {"rules": "blis", "blis": {"visit_evictd": False}}
    assert "engine.blis.visit_evictd: unknown switch; " in refused({"engine": wrong})
    wrong = {"rules": "blis", "blis": {"visit_evicted": 1}}
    assert "engine.blis.visit_evicted: expected true or false" in refused({"engine": wrong})


def test_overrides_of_a_replay_win_and_name_themselves():
    given = {"cache": {"gpu_blocks": 10}}
    scenario = parse_scenario(given, "t.json", ["cache.gpu_blocks=20", "engine.scheduler=sjf"])
    assert (scenario.cache.gpu_blocks, scenario.engine.scheduler) == (20, "sjf")
    assert given == {"cache": {"gpu_blocks": 10}}
    assert "--set cache.gpu_blocks: must be at least 1" in refused({}, "cache.gpu_blocks=0")
    assert "workload.requests: unknown key" in refused({}, "workload.requests=5")


def test_a_scenario_written_to_a_trace_reads_back_the_same():
    given = {
        "engine": {"rules": "blis", "blis": {"visit_evicted": False}, "horizon_us": 9},
        "cluster": {"instances": 4, "routing": "weighted", "scorers": {"load-balance": 1.0}},
        "latency": {"model": "llama-3.1-8b/h100/tp2"},
    }
    scenario = parse_scenario(given, "t.json")
    written = json.loads(json.dumps(scenario.to_trace()))
    assert written["latency"] == {"alpha": list(ALPHA), "beta": list(BETA)}
    assert "cache" not in written
    again = parse_scenario(written, "t.json")
    assert again.model_dump(exclude={"latency": {"model"}}) == scenario.model_dump(
        exclude={"latency": {"model"}}
    )


def test_scenarios_are_immutable_and_workloads_can_be_dictionary_keys():
    with pytest.raises(ValidationError):
        Scenario().cache.gpu_blocks = 5
    assert hash(Workload()) == hash(Workload(requests=200))
    assert Cache(gpu_blocks=5) != Cache(gpu_blocks=6)
    with pytest.raises(ValidationError):
        Engine(max_num_seq=5)


@pytest.mark.parametrize("family", FAMILIES)
def test_names_and_codes_go_both_ways_and_every_member_is_explained(family):
    for member in family:
        assert family.from_name(member.label) is member
        assert family(int(member)) is member
        assert member.doc.endswith(".")
    assert len(set(family.labels())) == len(family)
    with pytest.raises(InputError, match=r"^unknown .* 'nonsense'; allowed: "):
        family.from_name("nonsense")


@pytest.mark.parametrize("rules", RULES)
@pytest.mark.parametrize(
    ("section", "key", "family"),
    [
        ("cluster", "routing", Routing),
        ("cluster", "admission", Admission),
        ("engine", "scheduler", Scheduler),
        ("engine", "priority", Priority),
        ("cache", "offload", Offload),
        ("cluster", "scorers", Scorer),
    ],
)
def test_an_unknown_name_lists_what_the_rule_book_has(rules, section, key, family):
    name = {"nonsense": 1} if family is Scorer else "nonsense"
    engine = {"engine": {"rules": rules}}
    message = refused(engine | {section: engine.get(section, {}) | {key: name}})
    listed = re.search(r"allowed: ([\w, -]+)", message)[1]
    assert tuple(listed.split(", ")) == family.labels_of(rules)


def test_importing_the_configuration_loads_nothing_heavy():
    code = "import sys, kvsweep.config; print(*{n.split('.')[0] for n in sys.modules})"
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()
    assert not {"numpy", "numba", "scipy", "xarray", "dask", "zarr"} & set(loaded)
    assert load_sweep.__module__.startswith("kvsweep.config")


ROOFLINE = """
model = "m"
hardware = "h"
kind = "roofline"
source = "s"
fit = "f"
[shape]
layers = 2
hidden = 8
heads = 4
kv_heads = 2
ffn = 16
vocab = 100
[device]
flops = 1e9
bandwidth = 1e6
compute_efficiency = 0.5
overhead_us = 7
tp = 2
"""


def test_a_roofline_counts_flops_and_bytes(tmp_path):
    (tmp_path / "r.toml").write_text(ROOFLINE)
    latency = parse_scenario({"latency": {"model": "r.toml"}}, str(tmp_path / "t.json")).latency
    layer = 2 * 8 * (8 + 4) + 3 * 8 * 16  # queries and output, keys and values, gated MLP
    weights, output, kv = 2 * layer, 8 * 100, 2 * 2 * 4 * 2
    flop, byte = 1e6 / (1e9 * 0.5 * 2), 1e6 / (1e6 * 2)
    token, context = 2 * weights * flop, 4 * 2 * 8 * flop
    decode = token + 2 * output * flop
    assert latency.alpha == (0, 0, 0)
    assert latency.beta == pytest.approx((7, token, decode, context, context))
    moved = (2 * (weights + output), kv, kv, kv, 0)
    assert latency.memory == pytest.approx([amount * byte for amount in moved])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[shape]", "[shap]"), "r.toml:7: shap: unknown key; did you mean 'shape'?"),
        (("vocab", "words"), "r.toml:13: shape.words: unknown key; allowed: layers, hidden, "),
        (('kind = "roofline"', 'kind = "linear"'), "kind: 'linear' needs 'beta'"),
        (("fit =", "beta = [1]\nfit ="), "kind: 'roofline' has no 'beta'"),
        (("fit =", "memory = [1]\nfit ="), "kind: 'roofline' needs 'beta'"),
        (("fit =", "beta = [1]\nmemory = [1]\nfit ="), "kind: 'roofline' has no 'shape'"),
        (("fit =", "added.host_us = 1\nfit ="), "added.host_us: unknown key; "),
        (("compute_efficiency = 0.5", "compute_efficiency = 1.5"), "device.compute_efficiency: "),
        (
            ("compute_efficiency = 0.5", "compute_efficiency = 0.0"),
            "r.toml:17: device.compute_efficiency: must be at least 1e-06, got 0.0",
        ),
        (("tp = 2", "bandwidth_efficiency = 0"), "device.bandwidth_efficiency: must be at least"),
        (("1e9", "1e-320"), "r.toml:15: device.flops: 9.99989e-321 is too little: FLOP/s or bytes"),
        (("1e9", "989.4"), "device.flops: 989.4 is too little: FLOP/s or bytes/s, as 989.4e12"),
        (("1e6", "3350"), "r.toml:16: device.bandwidth: 3350 is too little: FLOP/s or bytes/s"),
        (("1e6", "nan"), "r.toml:16: device.bandwidth: must be a finite number, got nan"),
        (("tp = 2", f"tp = {2**63}"), "r.toml: device.tp: an integer must have at most 64 bits"),
        (("tp = 2", "tp = " + "9" * 5000), "r.toml: an integer of more than 4,300 digits"),
    ],
)
def test_a_roofline_is_complete_and_nothing_else(tmp_path, change, message):
    (tmp_path / "r.toml").write_text(ROOFLINE.replace(*change))
    with pytest.raises(InputError) as caught:
        parse_scenario({"latency": {"model": "r.toml"}}, str(tmp_path / "t.json"))
    assert message in str(caught.value)


NAMED = """
model = "m"
hardware = "h"
kind = "roofline"
shape_of = "gpt-oss-120b"
source = "s"
fit = "f"
[device]
flops = 1e12
bandwidth = 1e12
tp = 2
"""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("120b", "120"), "r.toml:5: shape_of: unknown model 'gpt-oss-120'; allowed: "),
        (("120b", "120"), "did you mean 'gpt-oss-120b'?"),
        (('"gpt-oss-120b"', '"gemma-4-26b"'), "shape_of: step times are not computed of gemma-4"),
        (("gpt-oss-120b", "deepseek-v3.2"), "shape_of: step times are not computed of deepseek"),
        (("tp = 2", "tp = 3"), "device.tp: 3; vLLM wants the 64 attention heads"),
        (("tp = 2", "flops_8bit = 2e12"), "device.flops_8bit: has no effect: gpt-oss-120b is not"),
        (("fit =", "step_tokens = 8\nfit ="), "r.toml:7: step_tokens: not needed: each step reads"),
        (("fit =", "experts = [9, 0.5]\nfit ="), "experts: has no effect: the shape tells"),
        (('"roofline"', '"linear"\nbeta = [1]'), "kind: 'linear' has no 'shape_of'"),
        (
            (
                "[device]",
                "[shape]\nlayers = 1\nhidden = 8\nheads = 1\nkv_heads = 1\nffn = 8\n"
                "vocab = 9\n[device]",
            ),
            "shape_of: give either shape or shape_of",
        ),
    ],
)
def test_a_roofline_of_a_named_shape_has_no_key_that_does_nothing(tmp_path, change, message):
    (tmp_path / "r.toml").write_text(NAMED.replace(*change))
    with pytest.raises(InputError) as caught:
        parse_scenario({"latency": {"model": "r.toml"}}, str(tmp_path / "t.json"))
    assert message in str(caught.value)


def test_keys_of_a_named_shape_are_refused_beside_a_shape_of_ones_own(tmp_path):
    (tmp_path / "r.toml").write_text(ROOFLINE.replace("tp = 2", "flops_8bit = 2e9"))
    with pytest.raises(InputError, match=r"device\.flops_8bit: has no effect without"):
        parse_scenario({"latency": {"model": "r.toml"}}, str(tmp_path / "t.json"))


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("scale=2", "; a key begins with its section: cluster, engine, cache, latency"),
        ("workload.scale=2", "; sections here: cluster, engine, cache, latency"),
        ("seed=3", "; sections here: cluster, engine, cache, latency"),
        ("grid.seed=3", "; sections here: cluster, engine, cache, latency"),
        ("gpu_blocks=3", "; did you mean 'cache.gpu_blocks'?"),
    ],
)
def test_hints_for_the_scenario_of_a_trace_name_what_it_may_have(override, hint):
    with pytest.raises(InputError) as told:
        parse_scenario({}, "t.json", [override])
    assert str(told.value) == f"--set {override.partition('=')[0]}: unknown key{hint}"


@pytest.mark.parametrize(
    ("section", "key", "given", "meant"),
    [
        ("cache", "eviction", "LRU", "lru"),
        ("engine", "victim", "Least-Computed-First", "least-computed-first"),
        ("latency", "model", "Llama-3.1-8B/H100/TP2", "llama-3.1-8b/h100/tp2"),
    ],
)
def test_what_was_meant_is_told_whatever_the_capitals(section, key, given, meant):
    assert f"; did you mean {meant!r}?" in refused({section: {key: given}})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (
            "llama-3.1-8b",
            "7 begin with 'llama-3.1-8b'; `kvsweep presets llama-3.1-8b` lists them, or",
        ),
        (
            "llama-3.1-8b/h100/",
            "3 begin with 'llama-3.1-8b/h100'; `kvsweep presets llama-3.1-8b/h100` lists",
        ),
        (
            "meta-llama/Llama-3.1-8B",
            "; 7 begin with 'llama-3.1-8b'; `kvsweep presets llama-3.1-8b` lists",
        ),
        ("none", "unknown preset 'none'; `kvsweep presets` lists all, or give a path"),
    ],
)
def test_a_preset_without_its_gpu_leads_to_those_of_its_model(given, told):
    """It was led to one of them, of any GPU: llama-3.1-8b to that of an H200."""
    assert told in refused({"latency": {"model": given}})


def test_what_sends_a_trace_in_a_closed_loop_is_told_of_a_replay():
    with pytest.raises(InputError) as told:
        parse_scenario({}, "t.json", ["workload.concurrency=2"])
    hint = "a trace comes as it was recorded; in a sweep with workload.trace clients send it"
    assert str(told.value) == f"--set workload.concurrency: unknown key; {hint}"
