"""Nothing that is written is without effect: such keys, policies, axes and options are refused."""

import re
from pathlib import Path

import pytest

from kvsweep import replay
from kvsweep.config import load_sweep, parse_scenario
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.trace_replay import run_replay

BASE = """
[workload]
requests = 20
{workload}
[cluster]
instances = 2
{cluster}
[engine]
{engine}
[cache]
gpu_blocks = 500
{cache}
[latency]
beta = [1000, 10, 5]
{rest}
"""
TIER = "transfer_bandwidth = 1.0\n"
SESSIONS = "sessions = {{ rounds = {rounds}, think_time_s = {think}{more} }}"
TRACE = {
    "format": "kvsweep-trace/1",
    "scenario": {"latency": {"beta": [1000, 10, 5]}},
    "requests": [{"id": 0, "arrival_us": 0, "prompt": [[0, 40]], "output": [1, 9]}],
}


def load(tmp_path, *overrides, **parts):
    sections = dict.fromkeys(("workload", "cluster", "engine", "cache", "rest"), "")
    file = tmp_path / "s.toml"
    file.write_text(BASE.format(**sections | parts))
    return load_sweep(file, overrides)


def refused(tmp_path, *overrides, **parts):
    with pytest.raises(InputError) as caught:
        load(tmp_path, *overrides, **parts)
    message = caught.value.for_command.removeprefix(f"{tmp_path}/")
    assert "\n" not in message
    return message


def sessions(rounds=1, think=0, more=""):
    return {"workload": SESSIONS.format(rounds=rounds, think=think, more=more)}


@pytest.mark.parametrize(
    ("parts", "key", "needs"),
    [
        ({"engine": 'priority = "slo-class"'}, "engine.priority", "scheduler 'priority'"),
        (
            {
                "cluster": 'routing = "weighted"\nscorers = { precise-prefix = 1 }',
                "engine": "enable_prefix_caching = false",
            },
            "cluster.scorers",
            "a scorer beside precise-prefix or enable_prefix_caching = true",
        ),
        ({"engine": "priority_age_ms = 5"}, "engine.priority_age_ms", "priority 'age'"),
        ({"engine": "preempt_for_urgent = false"}, "preempt_for_urgent", "scheduler 'priority'"),
        (
            {"engine": "long_prefill_token_threshold = 4096"},
            "engine.long_prefill_token_threshold",
            "a max_num_batched_tokens that is larger",
        ),
        ({"engine": "watermark = 1e-6"}, "engine.watermark", "at least one block"),
        ({"cluster": "scorers = { queue-depth = 1 }"}, "cluster.scorers", "routing 'weighted'"),
        ({"cluster": "snapshot_refresh_us = 5"}, "snapshot_refresh_us", "a scorer of the cache"),
        ({"cluster": "snapshot_load = true"}, "cluster.snapshot_load", "snapshot_refresh_us"),
        ({"cluster": "router_index_blocks = 5"}, "router_index_blocks", "'prefix-affinity'"),
        ({"cluster": "count_pending = false"}, "cluster.count_pending", "looks at the load"),
        ({"cluster": "token_bucket_capacity = 5"}, "token_bucket_capacity", "'token-bucket'"),
        ({"cache": 'offload = "write-through"'}, "cache.offload", "cache.cpu_blocks of more"),
        ({"cache": "transfer_overlap = true"}, "cache.transfer_overlap", "cache.cpu_blocks of"),
        ({"cache": "thrashing_window_us = 5"}, "cache.thrashing_window_us", "cache.cpu_blocks"),
        (
            {"cache": f'{TIER}cpu_blocks = 9\noffload = "write-through"\noffload_threshold = 0.5'},
            "cache.offload_threshold",
            "offload 'watermark'",
        ),
        ({"workload": "cv = 2.0"}, "workload.cv", "arrivals 'gamma' or 'weibull'"),
        (sessions(think=5), "workload.sessions.think_time_s", "sessions of several rounds"),
        (sessions(more=', context = "accumulate"'), "sessions.context", "several rounds"),
        (sessions(more=", truncate = true"), "sessions.truncate", "several rounds"),
        (sessions(3, more=', think_time = "exponential"'), "think_time", "a think_time_s of"),
        (sessions(3, 1, ", reason_ratio = 0.5"), "reason_ratio", "keep_reasoning = false"),
        (
            {"workload": 'prompt = { dist = "constant", value = 50, max = 60 }'},
            "workload.prompt.max",
            "a length above it",
        ),
        (
            {"rest": '[[workload.clients]]\nid = "a"\nrate_fraction = 2.0'},
            "workload.clients[0].rate_fraction",
            "several clients",
        ),
    ],
)
def test_a_key_that_no_cell_reads_is_refused_with_what_it_needs(tmp_path, parts, key, needs):
    message = refused(tmp_path, **parts)
    assert f"{key}: has no effect: needs" in message
    assert needs in message
    assert message.startswith("s.toml:")


def test_what_every_client_has_of_its_own_is_without_effect_in_the_workload(tmp_path):
    own = '[[workload.clients]]\nid = "a"\nprompt = { dist = "constant", value = 50 }'
    workload = 'prompt = { dist = "constant", value = 60 }'
    message = refused(tmp_path, workload=workload, rest=own)
    assert "workload.prompt.dist: has no effect: needs a client that has none of its own" in message
    load(tmp_path, workload=workload, rest=f'{own}\n[[workload.clients]]\nid = "b"')


def test_with_one_instance_there_is_nothing_to_route(tmp_path):
    one = {"cluster": 'routing = "least-loaded"'}
    load(tmp_path, **one)
    message = refused(tmp_path, "cluster.instances=1", "cluster.routing=weighted", **one)
    assert message.startswith("s.toml: --set cluster.routing: has no effect: needs cluster.inst")
    axis = '[grid]\npolicy = ["round-robin", "least-loaded"]'
    message = refused(tmp_path, "cluster.instances=1", rest=axis)
    assert "grid.policy: has no effect: needs cluster.instances of more than 1" in message
    load(tmp_path, "cluster.instances=1", "policy=round-robin", rest=axis)


def test_a_key_that_one_cell_reads_is_fine(tmp_path):
    threshold = f'{TIER}offload = "watermark"\noffload_threshold = 0.5'
    load(tmp_path, cache=threshold, rest='[grid]\n"cache.cpu_blocks" = [0, 50]')
    load(tmp_path, engine="priority_age_ms = 5", rest=AGES)
    rare = '[grid]\n"cache.cpu_blocks" = [0, 50]\n"cache.offload" = ["write-through", "watermark"]'
    load(tmp_path, cache=f"{TIER}offload_threshold = 0.5", rest=rare)


@pytest.mark.parametrize(
    ("parts", "axis"),
    [
        (sessions(3, 1, ", keep_reasoning = false"), '"workload.sessions.reason_ratio" = [0, 0.3]'),
        (
            sessions(3, 1, ", keep_reasoning = false, reason_ratio = 0.3"),
            '"workload.sessions.context" = ["accumulate", "independent"]',
        ),
        (
            sessions(3, 1, ', think_time = "exponential"'),
            '"workload.sessions.think_time_s" = [0, 1]',
        ),
        (sessions(3, 1, ", truncate = false"), '"workload.sessions.rounds" = [1, 3]'),
        ({"workload": "cv = 2.0"}, '"workload.arrivals" = ["poisson", "gamma"]'),
        ({"engine": 'priority = "age"'}, '"engine.scheduler" = ["fcfs", "priority"]'),
        ({"engine": "preempt_for_urgent = true"}, '"engine.scheduler" = ["sjf", "priority"]'),
        (
            {"engine": "reserve_full_prompt = false"},
            '"engine.enable_chunked_prefill" = [true, false]',
        ),
        ({"cluster": 'routing = "least-loaded"'}, '"cluster.instances" = [1, 2]'),
        ({"cluster": "scorers = { queue-depth = 1 }"}, 'policy = ["round-robin", "weighted"]'),
        (
            {"cluster": 'routing = "least-loaded"\nsnapshot_load = true'},
            '"cluster.snapshot_refresh_us" = [0, 500]',
        ),
        (
            {"cluster": "token_bucket_capacity = 500\ntoken_bucket_refill_rate = 9000"},
            '"cluster.admission" = ["always", "token-bucket"]',
        ),
        ({"cache": f"{TIER}transfer_overlap = true"}, '"cache.cpu_blocks" = [0, 50]'),
    ],
)
def test_an_axis_may_begin_where_another_key_has_no_effect(tmp_path, parts, axis):
    """0, "none" or off is what the other values are compared with."""
    sweep = load(tmp_path, rest=f"[grid]\n{axis}", **parts)
    assert len(list(sweep.probes())) == 2


AGES = """
[policies.plain]
engine.scheduler = "priority"
engine.priority = "constant"
[policies.age]
engine.scheduler = "priority"
engine.priority = "age"
[grid]
policy = ["plain", "age"]
"""


def test_an_axis_without_effect_everywhere_is_refused(tmp_path):
    axis = '[grid]\n"cache.offload_threshold" = [0.2, 0.8]'
    assert "grid.cache.offload_threshold: has no effect" in refused(tmp_path, rest=axis)
    load(tmp_path, cache=f'{TIER}cpu_blocks = 5\noffload = "watermark"', rest=axis)


def test_a_policy_is_strict_about_what_it_sets_but_for_defaults(tmp_path):
    tier = "[policies.off]\ncache.cpu_blocks = 0\n{more}\n[policies.on]\ncache.cpu_blocks = 50\n"
    tier += f'cache.offload = "watermark"\ncache.{TIER}'
    grid = '[grid]\npolicy = ["off", "on"]'
    load(tmp_path, rest=tier.format(more="cache.offload_threshold = 0.8") + grid)
    message = refused(tmp_path, rest=tier.format(more="cache.offload_threshold = 0.3") + grid)
    assert "s.toml:17: policies.off.cache.offload_threshold: has no effect" in message


def test_policies_that_are_not_run_are_refused(tmp_path):
    unused = "[policies.spare]\ncache.block_size = 32\n"
    message = refused(tmp_path, rest=unused)
    assert "policies.spare: has no effect: grid.policy does not name 'spare'" in message
    message = refused(tmp_path, rest=f'{unused}[grid]\npolicy = ["round-robin"]')
    assert "policies.spare: has no effect" in message
    # One that the file's axis names may be left out by an option, but not changed as well.
    both = f'{unused}[policies.main]\ncache.block_size = 8\n[grid]\npolicy = ["main", "spare"]'
    load(tmp_path, "policy=main", rest=both)
    message = refused(tmp_path, "policy=main", "policies.spare.cache.block_size=64", rest=both)
    assert message.startswith("s.toml: --set policies.spare.cache.block_size: has no effect")


def test_an_option_must_reach_a_cell(tmp_path):
    axis = '[grid]\npolicy = ["round-robin", "least-loaded"]'
    message = refused(tmp_path, "cluster.routing=weighted", rest=axis)
    assert message == (
        "s.toml: --set cluster.routing: reaches no cell: every policy (round-robin, least-loaded) "
        "sets it; use --set policies.NAME.KEY=VALUE, or --set policy=NAME with other policies"
    )
    every = "[policies.a]\ncache.block_size = 8\n[policies.b]\ncache.block_size = 32\n"
    axis = '[grid]\npolicy = ["a", "b"]'
    message = refused(tmp_path, "cache.block_size=16", rest=every + axis)
    assert "--set cache.block_size: reaches no cell: every policy (a, b) sets it" in message
    one = every.replace("cache.block_size = 32", "cache.gpu_blocks = 99")
    load(tmp_path, "cache.block_size=16", rest=one + axis)


def test_an_option_that_sets_a_part_of_a_value_must_have_an_effect_too(tmp_path):
    scorer = "cluster.scorers.queue-depth=9"
    needs = "has no effect: needs routing 'weighted'"
    assert f"--set cluster.scorers.queue-depth: {needs}" in refused(tmp_path, scorer)
    weighted = 'routing = "weighted"\nscorers = { queue-depth = 1, load-balance = 1 }'
    assert load(tmp_path, scorer, cluster=weighted).base["cluster"]["scorers"]["queue-depth"] == 9
    policies = """[policies.a]
cluster.routing = "weighted"
cluster.scorers = { load-balance = 1 }
[policies.b]
cluster.routing = "weighted"
cluster.scorers = { queue-depth = 1 }
[grid]
policy = ["a", "b"]"""
    assert "every policy (a, b) sets it" in refused(tmp_path, scorer, rest=policies)
    with pytest.raises(InputError, match=re.escape(f"--set {scorer[:27]}: {needs}")):
        parse_scenario(TRACE["scenario"], "t.json", [scorer])


def test_the_base_is_checked_though_every_policy_sets_the_key_again(tmp_path):
    axis = '[grid]\npolicy = ["round-robin", "least-loaded"]'
    message = refused(tmp_path, "cluster.routing=magic", rest=axis)
    assert "--set cluster.routing: unknown routing 'magic'; allowed: round-robin" in message
    message = refused(tmp_path, cluster='routing = "magic"', rest=axis)
    assert message.startswith("s.toml:7: cluster.routing: unknown routing 'magic'")
    every = "[policies.a]\ncache.block_size = 8\n[grid]\npolicy = ['a']"
    assert "cache.block_size: expected an" in refused(tmp_path, "cache.block_size=x", rest=every)


def test_a_base_that_only_policies_complete_stays_possible(tmp_path):
    bucket = '[policies.a]\ncluster.token_bucket_refill_rate = 5.0\n[grid]\npolicy = ["a"]'
    cluster = 'admission = "token-bucket"\ntoken_bucket_capacity = 100'
    assert load(tmp_path, cluster=cluster, rest=bucket).policies == {
        "a": {"cluster.token_bucket_refill_rate": 5.0}
    }


def test_what_an_option_makes_idle_in_the_file_is_fine(tmp_path):
    tier = {"cache": f'{TIER}cpu_blocks = 50\noffload = "watermark"\noffload_threshold = 0.5'}
    load(tmp_path, "cache.cpu_blocks=0", **tier)
    message = refused(tmp_path, "cache.cpu_blocks=0", "cache.offload_threshold=0.4", **tier)
    assert message.startswith("s.toml: --set cache.offload_threshold: has no effect")


@pytest.mark.parametrize("table", ["grid", "policies", "workload", "cluster", "cache", "latency"])
def test_an_option_that_is_an_empty_table_is_refused(tmp_path, table):
    message = refused(tmp_path, f"{table}={{}}", rest="[grid]\nseed = [1, 2]")
    assert message.startswith(f"--set {table}: an empty table sets nothing; set a key")


def test_an_option_of_the_whole_grid_is_a_table(tmp_path):
    assert load(tmp_path, "grid={seed=[1, 2]}").axes[0].values == (1, 2)
    assert "--set grid: expected a table, got 5" in refused(tmp_path, "grid=5")


def test_options_that_undo_each_other_are_refused(tmp_path):
    twice = ("cache.block_size=8", "cache.block_size=16")
    assert refused(tmp_path, *twice).startswith("--set cache.block_size: given twice")
    whole = ("workload.prompt.mean=5", 'workload.prompt={dist="constant", value=9}')
    assert refused(tmp_path, *whole).startswith("--set workload.prompt: given twice")
    load(tmp_path, 'workload.prompt={dist="gaussian", mean=9, std=1}', "workload.prompt.mean=5")
    with pytest.raises(InputError, match=r"^seeds: overrides seed gives the seeds too"):
        load_sweep(tmp_path / "s.toml", ["seed=3"], seeds=2)


def test_a_policy_sets_a_key_once(tmp_path):
    twice = '[policies.a]\ncache.block_size = 8\n"cache.block_size" = 9\n[grid]\npolicy = ["a"]'
    assert "sets 'cache.block_size' a second time" in refused(tmp_path, rest=twice)


def test_a_front_needs_policies(tmp_path):
    pareto = '[pareto]\nobjectives = ["e2e_mean_ms:min", "throughput_rps:max"]'
    assert "pareto: has no effect: needs an axis 'policy'" in refused(tmp_path, rest=pareto)


def test_a_replay_refuses_idle_options_and_takes_traces_as_they_were_recorded():
    full = TRACE["scenario"] | {"cache": {"offload_threshold": 0.9}}
    assert parse_scenario(full, "t.json").cache.offload_threshold == 0.9
    with pytest.raises(InputError, match=r"t.json: --set cache.offload: has no effect: needs cac"):
        parse_scenario(full, "t.json", ["cache.offload=write-through"])


@pytest.mark.parametrize("source", ["dict", "mooncake", "azure"])
def test_a_replay_without_latencies_is_refused_like_a_sweep(tmp_path, source):
    file = tmp_path / "trace"
    file.write_text(
        {
            "mooncake": '{"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}',
            "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,9,5\n",
            "dict": "",
        }[source]
    )
    trace = TRACE | {"scenario": {}} if source == "dict" else file
    with pytest.raises(InputError, match=r"latency: missing; give a model, as in model = 'llama-"):
        replay(trace)
    found = run_replay(trace, ["latency.beta=[1000, 10, 5]"])
    assert found.steps["duration_us"].min() > 1000
    assert replay(trace, ["latency.model=llama-3.1-8b/h100/tp2"]).ttft_us.min() > 1000


def test_every_sweep_of_the_project_writes_only_what_has_an_effect():
    files = sorted((Path(__file__).parents[1] / "sweeps").rglob("*.toml"))
    assert len(files) > 20
    for path in files:
        load_sweep(path)


def of_trace(tmp_path, more="", rest=""):
    """A sweep of a trace all of whose requests arrive at once."""
    rows = "".join(f"{i},100,10\n" for i in range(8))
    (tmp_path / "t.csv").write_text(f"arrival,prompt_tokens,output_tokens\n{rows}")
    parts = {"workload": f'trace = "t.csv"\nread = {{ time_unit = "s" }}\n{more}', "rest": rest}
    text = BASE.replace("requests = 20\n", "")
    file = tmp_path / "s.toml"
    file.write_text(text.format(**dict.fromkeys(("cluster", "engine", "cache"), "") | parts))
    return file


AT_ONCE = ['workload.read.arrivals="at-once"']


def test_no_rate_of_a_trace_is_scaled_that_has_none(tmp_path):
    from kvsweep.search.aims import Aim
    from kvsweep.search.wanted import size_problem

    said = "workload.scale: has no effect: needs arrivals that are not all at once"
    scaled = of_trace(tmp_path, rest='[grid]\n"workload.scale" = [1, 2]\n')
    load_sweep(scaled)
    with pytest.raises(InputError, match=said):
        load_sweep(scaled, AT_ONCE)
    spread = of_trace(tmp_path, "repeat = 2", '[grid]\n"workload.scale" = [1, 2]\n')
    load_sweep(spread, AT_ONCE)
    plain = load_sweep(of_trace(tmp_path), AT_ONCE)
    with pytest.raises(InputError, match=f"--find rate: {said}"):
        size_problem(plain, "rate", ("preemption_rate<=0.1",), None, None, Aim())


def test_sessions_on_lanes_have_no_times_to_be_bent(tmp_path):
    """Those on a lane begin when it is free, whatever the scale or the window."""
    path = tmp_path / "s.toml"

    def load(more, read="lanes = 2"):
        path.write_text(of_trace(tmp_path, more).read_text().replace('time_unit = "s"', read))
        load_sweep(path)

    for key in ("scale = 2.0", "slice = { to_s = 5 }"):
        load(key, "sessions_per_s = 2")
        with pytest.raises(InputError, match=r"needs arrivals that are not all at once, nor on re"):
            load(key)
    load("scale = 2.0\nrepeat = 2")


def test_a_sweep_needs_no_latency_where_all_pools_have_their_own(tmp_path):
    pools = """
[[cluster.pools]]
instances = 1
gpu_blocks = 500
latency = { beta = [5000, 10, 10] }
"""
    path = tmp_path / "s.toml"
    path.write_text(f"[workload]\nrequests = 20\nrate = 5.0\n{pools * 2}\n[grid]\nseed = [0]\n")
    assert plan(load_sweep(path)).cells == 1
    path.write_text(path.read_text().replace("latency = {", "# ", 1))
    with pytest.raises(InputError, match=r"latency: missing; give a model"):
        plan(load_sweep(path))


def test_where_prefill_and_decode_are_apart_several_of_a_role_are_what_routing_needs(tmp_path):
    """`cluster.instances` alone was named, which is refused there."""
    path = tmp_path / "s.toml"

    def apart(prefill):
        path.write_text(
            "[workload]\nrequests = 20\nrate = 5.0\n[cache]\ngpu_blocks = 500\n"
            '[latency]\nbeta = [1000, 10, 5]\n[cluster]\nrouting = "least-loaded"\n'
            f"decode_instances = 1\nkv_transfer_bandwidth = 1.0\nprefill_instances = {prefill}\n"
            "[grid]\nseed = [0]\n"
        )
        load_sweep(path)

    apart(2)
    with pytest.raises(InputError, match=r"than 1 \(or several of a role that has no routing of"):
        apart(1)


@pytest.mark.parametrize("key", ['routing = "least-loaded"', "sticky_threshold = 0.5"])
def test_a_routing_of_a_pool_of_one_instance_needs_more_in_the_pools(tmp_path, key):
    """`cluster.instances`, which alone was named, is refused beside pools."""
    parts = dict.fromkeys(("workload", "engine", "cache", "rest"), "")
    text = BASE.format(cluster=f"pools = [{{ instances = 1 }}]\n{key}", **parts)
    (tmp_path / "s.toml").write_text(text.replace("\ninstances = 2", ""))
    with pytest.raises(InputError, match=r"has no effect: needs .*, or in cluster\.pools\)"):
        load_sweep(tmp_path / "s.toml")
