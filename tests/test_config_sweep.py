"""Sweep files: axes, policies, overrides, and a line for every mistake."""

import json
import pickle
import shutil
from collections import Counter
from pathlib import Path

import pytest

from kvsweep.config import compose, load_sweep
from kvsweep.config.load import changed
from kvsweep.config.memory import memory_varies
from kvsweep.config.scenario import validate
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.store.identity import describe
from kvsweep.workload.generate import requests_for

H8 = """\
title = "H8"
question = "Where is the cliff?"

[workload]
requests = 200
rate = 2000.0
prompt = { dist = "gaussian", mean = 512, std = 50, min = 256, max = 768 }
output = { dist = "gaussian", mean = 256, std = 50, min = 128, max = 512 }

[cluster]
instances = 4

[latency]
model = "llama-3.1-8b/h100/tp2"

[grid]
policy = ["round-robin", "least-loaded"]
"cache.gpu_blocks" = [{ start = 1000, stop = 2600, step = 25 }, 3000, 5000]
seed = { count = 100 }

[cliff]
metric = "preemption_rate"
along = "gpu_blocks"
threshold = 0.05

[pareto]
objectives = ["ttft_p99_ms:min", "throughput_rps:max"]
"""


@pytest.fixture
def load(tmp_path):
    def load(old="", new="", *overrides, seeds=None, text=H8):
        assert old in text
        path = tmp_path / "h8.toml"
        path.write_text(text.replace(old, new, 1))
        return load_sweep(path, overrides, seeds)

    return load


@pytest.fixture
def refused(load, tmp_path):
    def refused(*arguments, **options):
        with pytest.raises(InputError) as caught:
            load(*arguments, **options)
        message = caught.value.for_command
        assert "\n" not in message
        return message.removeprefix(f"{tmp_path}/")

    return refused


def axes_of(sweep):
    return {axis.name: axis.values for axis in sweep.axes}


def grid(load, *lines, text=H8):
    return load(text=text[: text.index("policy =")] + "\n".join(lines) + "\n")


def test_h8_is_read_as_written(load, tmp_path):
    sweep = load()
    assert (sweep.name, sweep.title, sweep.question) == ("h8", "H8", "Where is the cliff?")
    assert (sweep.text, sweep.base_dir, sweep.rules) == (H8, tmp_path, "vllm")
    assert [axis.key for axis in sweep.axes] == ["policy", "cache.gpu_blocks", "seed"]
    assert axes_of(sweep) == {
        "policy": ("round-robin", "least-loaded"),
        "gpu_blocks": (*range(1000, 2601, 25), 3000, 5000),
        "seed": tuple(range(100)),
    }
    assert (sweep.cliff.metric, sweep.cliff.along, sweep.cliff.threshold) == (
        "preemption_rate",
        "gpu_blocks",
        0.05,
    )
    assert sweep.pareto.objectives == ("ttft_p99_ms:min", "throughput_rps:max")
    scenario = sweep.scenario({"policy": "least-loaded", "gpu_blocks": 3000})
    assert (scenario.cluster.routing, scenario.cache.gpu_blocks) == ("least-loaded", 3000)
    assert (scenario.cluster.instances, scenario.workload.prompt.mean) == (4, 512)
    assert scenario.latency.beta[0] == 6910.420479880494
    by_key = sweep.scenario({"policy": "least-loaded", "cache.gpu_blocks": 3000})
    assert by_key == scenario


def test_every_scenario_of_a_sweep_is_validated_once(load, monkeypatch):
    """Checks, the plan, the description of the store and the warnings share what is built."""
    count = Counter()

    def counted(data, folder):
        count[json.dumps(data, sort_keys=True)] += 1
        return validate(data, folder)

    monkeypatch.setattr(compose, "validate", counted)
    sweep = load("[grid]", '[grid]\n"cache.block_size" = [16, 32]', "grid.policy=['least-loaded']")
    sweep.check()
    found = plan(sweep)
    describe(sweep, "sources")
    memory_varies(sweep)
    assert len(found.variants) == 67 * 2
    base = json.dumps(sweep.base, sort_keys=True)
    assert count.pop(base) == 1, "the base, of which policies and axes make the scenarios"
    assert set(count.values()) == {1}
    assert count.total() == len(found.variants)


def test_values_that_python_takes_for_equal_make_scenarios_of_their_own(load, refused):
    sweep = grid(load, '"engine.watermark" = [0.0, 0.5]')
    assert sweep.scenario({"watermark": 0.0}) is sweep.scenario({"watermark": 0.0})
    for wrong, named in ((False, "false"), ([0.0], "a list")):
        with pytest.raises(InputError, match=f"watermark: expected a number, got {named}"):
            sweep.scenario({"watermark": wrong})


def test_a_point_names_the_axes_that_there_are(load):
    with pytest.raises(InputError, match=r"no axis 'gpu_block'; did you mean 'gpu_blocks'\?"):
        load().scenario({"gpu_block": 1000})


def test_sweeps_travel_to_workers(load):
    sweep = load()
    again = pickle.loads(pickle.dumps(sweep))
    assert again == sweep
    point = {"policy": "round-robin", "gpu_blocks": 1000}
    assert again.scenario(point) == sweep.scenario(point)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rate =", "rat =", "h8.toml:6: workload.rat: unknown key; did you mean 'rate'?"),
        ("rate = 2000.0", "rate = nan", "h8.toml:6: workload.rate: must be a finite number, got n"),
        ("rate = 2000.0", "rate = -1", "h8.toml:6: workload.rate: must be more than 0, got -1"),
        ("rate = 2000.0", "rate = '5'", "h8.toml:6: workload.rate: expected a number, got '5'"),
        ("= 200\n", "= 200.0\n", "h8.toml:5: workload.requests: expected an integer, got 200.0"),
        ("= 200\n", "= true\n", "h8.toml:5: workload.requests: expected an integer, got true"),
        ("= 200\n", "= 0\n", "h8.toml:5: workload.requests: must be at least 1, got 0"),
        ("mean = 512", "maen = 512", "h8.toml:7: workload.prompt.maen: unknown key; did you mean"),
        ("mean = 512, ", "", "h8.toml:7: workload.prompt.mean: missing"),
        ("min = 256", "min = 800", "h8.toml:7: workload.prompt.min: 800 is more than max, 768"),
        ('"gaussian", mean = 5', '"gausian", mean = 5', "workload.prompt.dist: unknown value 'ga"),
        ('dist = "gaussian", mean = 5', "mean = 5", "h8.toml:7: workload.prompt.dist: missing; al"),
        ("instances = 4", "instance = 4", "h8.toml:11: cluster.instance: unknown key; did you"),
        ("[cluster]", "[clutser]", "h8.toml:10: clutser: unknown key; did you mean 'cluster'?"),
        ("[cluster]", "[cache]\nblock_size = 0\n[cluster]", "h8.toml:11: cache.block_size: must "),
        ("[cluster]", "cluster = 5", "h8.toml:10: workload.cluster: unknown key"),
        ("tp2", "tp3", "h8.toml:14: latency.model: unknown preset 'llama-3.1-8b/h100/tp3'; did y"),
        ('model = "llama-3.1-8b/h100/tp2"', "", "h8.toml:13: latency: missing; give a model"),
        ('gpu_blocks" =', 'gpu_blokcs" =', "h8.toml:18: grid.cache.gpu_blokcs: unknown key; did "),
        ('"cache.gpu_blocks"', '"gpu_blocks"', "h8.toml:18: grid.gpu_blocks: unknown key; did yo"),
        ('"cache.gpu_blocks"', "cache.gpu_blocks", 'write a dotted key in quotes, as in "cache.'),
        ("start = 1000", "start = 0", "h8.toml:18: grid.cache.gpu_blocks: must be at least 1, go"),
        ("step = 25", "step = 0", "h8.toml:18: grid.cache.gpu_blocks: step: must not be 0"),
        ("step = 25", "step = -25", "grid.cache.gpu_blocks: no values: step leads away from stop"),
        ("step = 25", "step = 0.5", "grid.cache.gpu_blocks: expected an integer, got 1000.0"),
        ("step = 25", "stepp = 25", "unknown key 'stepp' of a range; did you mean 'step'?"),
        (", step = 25", "", "h8.toml:18: grid.cache.gpu_blocks: a range is {start, stop, step}"),
        ("stop = 2600", "stop = inf", "grid.cache.gpu_blocks: stop: must be a finite number, got"),
        ("3000, 5000", "3000, 3000", "h8.toml:18: grid.cache.gpu_blocks: 3000 occurs twice"),
        ("3000, 5000", "3000, 1025", "h8.toml:18: grid.cache.gpu_blocks: 1025 occurs twice"),
        ("3000, 5000", "3000.5", "h8.toml:18: grid.cache.gpu_blocks: expected an integer, got 30"),
        ("3000, 5000", "[3000]", "h8.toml:18: grid.cache.gpu_blocks: expected a list or a range"),
        (
            "3000, 5000",
            "[3000]",
            "numbers, names, true or false, got a list in it; whole lists and tables vary by [pol",
        ),
        (
            "instances = 4",
            "block_size = 32",
            "h8.toml:11: cluster.block_size: unknown key; [cache] has it; allowed: instances, rou",
        ),
        ('title = "H8"', "requests = 5", "h8.toml:1: requests: unknown key; [workload] has it; a"),
        ("instances = 4", "seed = 4", "h8.toml:11: cluster.seed: unknown key; [grid] has it; all"),
        ('"cache.gpu_blocks"', '"engine.gpu_blocks"', "gpu_blocks: unknown key; [cache] has it; "),
        ("3000, 5000", "2024-02-01", "true or false, got 2024-02-01 in it"),
        ("start = 1000, stop", "from = 1000, to", "'from' of a range; a range is {start, stop, "),
        (
            'policy = ["round-robin", "least-loaded"]',
            '"workload.prompt" = [{ dist = "constant", value = 9 }]',
            "h8.toml:17: grid.workload.prompt: holds tables: an axis is one of their keys; whole ",
        ),
        ("requests = 200", "requests = 2024-02-01", "expected an integer, got 2024-02-01"),
        ("3000, 5000", "true", "h8.toml:18: grid.cache.gpu_blocks: expected an integer, got true"),
        ('["round-robin", "least-loaded"]', "[]", "h8.toml:17: grid.policy: no values: an axis n"),
        ("least-loaded", "least-laoded", "h8.toml:17: grid.policy: unknown policy 'least-laoded'"),
        (
            'policy = ["round-robin", "least-loaded"]',
            '"engine.scheduler" = ["fcfs", "reverse-priority"]',
            "h8.toml:17: grid.engine.scheduler: 'reverse-priority': rules 'vllm' has: fcfs, ",
        ),
        ("count = 100", "count = 0", "h8.toml:19: grid.seed: count: must be from 1 to 1000000, g"),
        ("count = 100", "count = 2.5", "h8.toml:19: grid.seed: count: expected an integer, got 2"),
        ("{ count = 100 }", "[1, -1]", "h8.toml:19: grid.seed: a seed is an integer of at least "),
        (
            "{ count = 100 }",
            '[{ until = { metric = "e2e_p99_ms", relative = 0.1 } }]',
            "h8.toml:19: grid.seed: until is for seeds and stands alone: seed = { until = { ...",
        ),
        ("{ count = 100 }", "7", "h8.toml:19: grid.seed: expected a list or a range, got 7"),
        ('along = "gpu', 'along = "cpu', "h8.toml:23: cliff.along: 'cpu_blocks' is no axis to sc"),
        ('along = "gpu_blocks"', 'along = "seed"', "h8.toml:23: cliff.along: 'seed' is no axis"),
        ("threshold = 0.05", "", "h8.toml:21: cliff.threshold: missing"),
        ("threshold = 0.05", "treshold = 0.05", "h8.toml:24: cliff.treshold: unknown key; did yo"),
        ("_rps:max", "_rps:most", "h8.toml:27: pareto.objectives[1]: 'throughput_rps:most' is no"),
        ("[grid]", "[grid", "h8.toml:16: not TOML: "),
    ],
)
def test_mistakes_are_one_line_with_file_line_and_key(refused, old, new, message):
    assert message in refused(old, new)


def test_a_mistake_in_one_of_several_clients_has_its_own_line(refused):
    clients = """\
[[workload.clients]]
id = "a"
[[workload.clients]]
id = "b"
rate_fraction = 0
[cluster]"""
    message = refused("[cluster]", clients)
    assert message.startswith("h8.toml:14: workload.clients[1].rate_fraction: must be more than 0")
    clients = clients.replace("rate_fraction = 0", "sessions = { rounds = 5 }")
    message = refused("[cluster]", clients)
    assert message.startswith("h8.toml:14: workload.clients[1].sessions.think_time_s: missing")
    clients = clients.replace("sessions = { rounds = 5 }", "").replace('"b"', '"a"')
    assert "h8.toml:13: workload.clients[1].id: 'a' occurs twice" in refused("[cluster]", clients)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ('arrivals = "gamma"', "workload.arrivals: 'gamma' needs cv (standard deviation / mean)"),
        ('arrivals = "possion"', "workload.arrivals: unknown value 'possion'; allowed: poisson"),
        ("warmup = 200", "workload.warmup: 200 leaves none of 200 requests to measure"),
        ('trace = "t.json"', "workload.output: a trace brings its own requests"),
        ("sessions = 5", "workload.sessions: expected a table, got 5"),
        (
            "sessions = { rounds = 0, think_time_s = 5 }",
            "workload.sessions.rounds: must be at least 1, got 0",
        ),
        (
            "sessions = { rounds = 2, think_time_s = -1 }",
            "workload.sessions.think_time_s: must be at least 0, got -1",
        ),
        (
            "sessions = { rounds = 2, think_time_s = 5, arrivals = 'open' }",
            "workload.sessions.arrivals: unknown value 'open'; allowed: fixed, closed-loop",
        ),
        (
            "sessions = { rounds = 2, think_time_s = 5, contxt = 'accumulate' }",
            "workload.sessions.contxt: unknown key; did you mean 'context'?",
        ),
        (
            "sessions = { rounds = 2, think_time_s = 5, keep_reasoning = false }",
            "workload.sessions.keep_reasoning: has no effect: needs several rounds, context "
            "'accumulate' and a reason_ratio of more than 0",
        ),
        (
            "sessions = { rounds = 2, think_time_s = 5, reason_ratio = 1.5 }",
            "workload.sessions.reason_ratio: must be at most 1, got 1.5",
        ),
    ],
)
def test_workload_mistakes(refused, lines, message):
    assert message in refused("[cluster]", f"{lines}\n[cluster]")


def test_client_mistakes(refused):
    head = '[[workload.clients]]\nid = "a"\n'
    message = refused("[cluster]", f"{head}prefix_len = 9\n[cluster]")
    assert message == "h8.toml:12: workload.clients[0].prefix_len: needs prefix_group"
    message = refused("[cluster]", f'{head}arrivals = "weibull"\n[cluster]')
    assert "workload.clients[0].arrivals: 'weibull' needs cv" in message


@pytest.mark.parametrize(
    ("spec", "values"),
    [
        ("{ start = 10, stop = 30, step = 10 }", (10, 20, 30)),
        ("{ start = 10, stop = 35, step = 10 }", (10, 20, 30)),
        ("{ start = 30, stop = 10, step = -10 }", (30, 20, 10)),
        ("{ start = 10, stop = 20, num = 5 }", (10, 12, 15, 18, 20)),
        ("{ start = 10, stop = 1000, num = 3, scale = 'log' }", (10, 100, 1000)),
        ("{ start = 10, stop = 10, num = 1 }", (10,)),
        ("[7, { start = 10, stop = 12, step = 1 }, 3]", (7, 10, 11, 12, 3)),
    ],
)
def test_ranges_of_block_counts(load, spec, values):
    axes = axes_of(grid(load, f'"cache.gpu_blocks" = {spec}'))
    assert axes == {"gpu_blocks": values}
    assert all(type(v) is int for v in axes["gpu_blocks"])


def test_ranges_of_rates_are_floats_without_rounding_dust(load):
    axes = axes_of(grid(load, '"workload.rate" = [{ start = 0.1, stop = 0.7, step = 0.1 }, 5]'))
    assert axes == {"rate": (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 5.0)}
    axes = axes_of(grid(load, '"workload.rate" = { start = 1, stop = 2, num = 5 }'))
    assert axes == {"rate": (1.0, 1.25, 1.5, 1.75, 2.0)}
    assert all(type(v) is float for v in axes["rate"])


def test_any_scalar_can_be_an_axis_and_names_grow_until_they_differ(load):
    sweep = grid(
        load,
        '"workload.prompt.mean" = [100, 200]',
        '"workload.output.mean" = [50]',
        '"engine.enable_prefix_caching" = [true, false]',
        '"engine.scheduler" = ["fcfs", "sjf"]',
        '"latency.model" = ["llama-3.1-8b/h100/tp2"]',
    )
    names = ["prompt_mean", "output_mean", "enable_prefix_caching", "scheduler", "model"]
    assert list(axes_of(sweep)) == names
    scenario = sweep.scenario(
        {"prompt_mean": 200, "output_mean": 50, "enable_prefix_caching": False, "scheduler": "sjf"}
    )
    assert (scenario.workload.prompt.mean, scenario.workload.output.mean) == (200, 50)
    assert (scenario.engine.enable_prefix_caching, scenario.engine.scheduler) == (False, "sjf")


def test_a_client_of_a_list_can_be_an_axis(load, refused):
    text = H8.replace("[cluster]", '[[workload.clients]]\nid = "a"\nslo_class = "batch"\n[cluster]')
    key = '"workload.clients.0.slo_class"'
    sweep = grid(load, f'{key} = ["batch", "critical"]', text=text)
    # `slo_class` is a dimension of the results.
    assert list(axes_of(sweep)) == ["0_slo_class"]
    scenario = sweep.scenario({"0_slo_class": "critical"})
    assert scenario.workload.clients[0].slo_class == "critical"
    message = refused(text=text.replace('"cache.gpu_blocks" =', '"workload.clients.3.cv" ='))
    assert message == "h8.toml:21: grid.workload.clients.3.cv: workload.clients has no 3"


POLICIES = """
[policies.urgent]
engine.scheduler = "priority"
engine.priority = "slo-class"
[policies.plain]
"cluster.routing" = "least-loaded"
"workload.prompt.mean" = 300
"""


def test_policies_bundle_keys_nested_or_quoted(load):
    text = H8.replace('["round-robin", "least-loaded"]', '["urgent", "plain", "round-robin"]')
    sweep = load("[cliff]", f"{POLICIES}[cliff]", text=text)
    assert sweep.policies == {
        "urgent": {"engine.scheduler": "priority", "engine.priority": "slo-class"},
        "plain": {"cluster.routing": "least-loaded", "workload.prompt.mean": 300},
    }
    urgent = sweep.scenario({"policy": "urgent", "gpu_blocks": 1000})
    assert (urgent.engine.scheduler, urgent.cluster.routing) == ("priority", "round-robin")
    plain = sweep.scenario({"policy": "plain", "gpu_blocks": 1000})
    assert (plain.engine.scheduler, plain.cluster.routing) == ("fcfs", "least-loaded")
    assert (plain.workload.prompt.mean, plain.workload.prompt.std) == (300, 50)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"priority"', '"urgent"', "h8.toml:23: policies.urgent.engine.scheduler: unknown schedul"),
        ('"least-loaded"\n', '"most"\n', "h8.toml:26: policies.plain.cluster.routing: unknown rou"),
        (
            'mean" = 300',
            'mean" = -1',
            "h8.toml:27: policies.plain.workload.prompt.mean: must be ",
        ),
        ('mean" = 300', 'meen" = 1', "h8.toml:27: policies.plain.workload.prompt.meen: unknown k"),
        ("engine.s", "egnine.s", "h8.toml:23: policies.urgent.egnine: expected a key of a sectio"),
        ("engine.scheduler =", "engine.schedule =", "policies.urgent.engine.schedule: unknown key"),
        ('"workload.prompt.mean"', '"cache.gpu_blocks"', "policy 'plain' sets this key too"),
    ],
)
def test_policy_mistakes_are_located_in_the_policy(refused, old, new, message):
    text = H8.replace('["round-robin", "least-loaded"]', '["urgent", "plain"]')
    assert old in POLICIES
    policies = POLICIES.replace(old, new, 1)
    assert message in refused("[cliff]", f"{policies}[cliff]", text=text)


def test_a_routing_of_the_other_rules_is_refused_on_the_policy_axis(load, refused):
    message = refused('"least-loaded"', '"prefix-affinity"')
    assert "h8.toml:17: grid.policy: 'prefix-affinity': rules 'vllm' has: round-robin" in message
    assert "called 'prompt-affinity' here" in message
    policies = load('"least-loaded"', '"prompt-affinity"').axes[0].values
    assert policies == ("round-robin", "prompt-affinity")
    blis = '[engine]\nrules = "blis"\n[cluster]'
    text = H8.replace("[cluster]", blis)
    assert load('"least-loaded"', '"prefix-affinity"', text=text).rules == "blis"


def test_an_unknown_policy_lists_the_routings_of_the_rule_books_in_use(refused):
    vllm, blis = "weighted, prompt-affinity, always-busiest", "weighted, always-busiest, prefix-aff"
    wrong = ('["round-robin", "least-loaded"]', '["round-robbing"]')
    assert vllm in (message := refused(*wrong))
    assert "prefix-affinity" not in message
    assert blis in (message := refused(*wrong, text=f'{H8}[engine]\nrules = "blis"\n'))
    assert "prompt-affinity" not in message
    both = H8.replace("[grid]", '[grid]\n"engine.rules" = ["vllm", "blis"]')
    assert "prompt-affinity, always-busiest, prefix-affinity" in refused(*wrong, text=both)


def test_a_policy_that_no_axis_names_is_checked_and_refused(refused):
    message = refused("[cliff]", f"{POLICIES}[cliff]")
    assert "h8.toml:22: policies.urgent: has no effect: grid.policy does not name" in message
    policies = POLICIES.replace('"priority"', '"urgent"')
    message = refused("[cliff]", f"{policies}[cliff]")
    assert "h8.toml:23: policies.urgent.engine.scheduler: unknown scheduler 'urgent'" in message


def test_a_combination_that_is_not_valid_is_refused_at_its_cell(load):
    sweep = grid(
        load, '"engine.max_num_seqs" = [64, 512]', '"engine.max_num_batched_tokens" = [512, 256]'
    )
    with pytest.raises(InputError, match=r"h8\.toml:18: grid\.engine\.max_num_batched_tokens: "):
        sweep.scenario({"max_num_seqs": 512, "max_num_batched_tokens": 256})


def test_overrides_replace_keys_and_axes(load):
    sweep = load(
        "",
        "",
        "workload.rate=100",
        "cache.gpu_blocks=2000",
        "engine.scheduler=sjf",
        'title="Other"',
        "cliff.threshold=0.1",
    )
    assert sweep.title == "Other"
    assert axes_of(sweep)["gpu_blocks"] == (2000,)
    assert sweep.cliff.threshold == 0.1
    scenario = sweep.scenario({"policy": "round-robin", "gpu_blocks": 2000})
    assert (scenario.workload.rate, scenario.engine.scheduler) == (100, "sjf")
    assert axes_of(load("", "", "cache.gpu_blocks=[5, 6]"))["gpu_blocks"] == (5, 6)
    assert axes_of(load("", "", "seed=7"))["seed"] == (7,)
    assert axes_of(load("", "", "policy=least-loaded"))["policy"] == ("least-loaded",)
    assert axes_of(load(seeds=3))["seed"] == (0, 1, 2)
    assert axes_of(load("seed = { count = 100 }\n", "", seeds=2))["seed"] == (0, 1)


@pytest.mark.parametrize(
    "override",
    [
        'grid."workload.rate"=[5, 6]',
        "grid.'workload.rate'=[5, 6]",
        "grid.workload.rate=[5, 6]",  # as a shell hands on double quotes that nothing quotes
    ],
)
def test_an_axis_is_added_by_its_key_quoted_as_in_the_file_or_not(load, override):
    sweep = load("", "", override)
    assert axes_of(sweep)["rate"] == (5.0, 6.0)
    assert axes_of(sweep)["gpu_blocks"] == axes_of(load())["gpu_blocks"]


def test_quoted_keys_replace_axes_ranges_policies_and_keys_of_sections(load):
    assert axes_of(load("", "", 'grid."cache.gpu_blocks"=[5, 6]'))["gpu_blocks"] == (5, 6)
    text = H8.replace('["round-robin", "least-loaded"]', '["a"]')
    text = text.replace("[grid]\n", "[policies.a.cluster]\nrouting = 'round-robin'\n[grid]\n")
    overrides = 'policies.a."cluster.routing"=least-loaded', '"workload.requests"=7'
    sweep = load("", "", *overrides, text=text)
    assert sweep.policies["a"] == {"cluster.routing": "least-loaded"}
    assert sweep.base["workload"]["requests"] == 7
    design = "[design]\nsamples = 2\n'workload.rate' = { from = 10.0, to = 20.0 }\n[grid]\n"
    sweep = load("[grid]\n", design, "design.workload.rate.to=30.0")
    assert sweep.design.ranges["workload.rate"]["to"] == 30.0


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("cache.gpu_blokcs=5", "h8.toml: --set cache.gpu_blokcs: unknown key; did you mean"),
        ("gpu_blocks=5", "--set gpu_blocks: unknown key; did you mean 'cache.gpu_blocks'?"),
        ("cache.gpu_blocks=0", "h8.toml: --set cache.gpu_blocks: must be at least 1, got 0"),
        ("cache.block_size=0", "h8.toml: --set cache.block_size: must be at least 1, got 0"),
        ("cache.block_size=1\nx=2", "--set cache.block_size: expected an integer, got '1\\nx=2'"),
        ("workload.prompt=5", "h8.toml: --set workload.prompt: expected a table, got 5"),
        ("workload.prompt.std=x", "--set workload.prompt.std: expected a number, got 'x'"),
        ("workload.rate.x=1", "--set workload.rate.x: workload.rate has no 'x'"),
        ("cache.gpu_blocks", "--set cache.gpu_blocks: expected KEY=VALUE, as in cache.gpu_blo"),
        ("=5", "--set =5: expected KEY=VALUE"),
        ("#'=1", "--set #': unknown key"),
        ('#"=1', '--set #": unknown key'),
        # Keys and distributions by half their name.
        ("rate=5", "--set rate: unknown key; did you mean 'workload.rate'?"),
        ("instnces=5", "--set instnces: unknown key; did you mean 'cluster.instances'?"),
        ("x.y=5", "--set x.y: unknown key; a key begins with its section: workload, cluster, "),
        ('workload.prompt={dist="lognormal"}', "is 'pareto-lognormal' with mix_weight = 0"),
        ('workload.prompt={dist="normal"}', "did you mean 'gaussian'?"),
        # Numbers and nesting that no reader takes.
        ("cache.gpu_blocks=" + 5000 * "9", "--set cache.gpu_blocks: a number of thousands of dig"),
        (
            "cache.block_size=0x" + 5000 * "f",
            "at most 262144, got an integer of 20000 bits",
        ),
        ("cache.block_size=" + 3000 * "[", "--set cache.block_size: the value is nested too dee"),
        ("cache." + "x." * 5000 + "y=1", "unknown key; expected one as in cache.gpu_blocks=2000"),
        ("cache..gpu_blocks=1", "--set cache..gpu_blocks: unknown key; expected one as in"),
        ("cache.gpu_blocks={start=0.5, stop=1e308, step=1e-9}", "stop: must be from -9.22337e+18"),
        ("cache.gpu_blocks={start=0.5, stop=5, step=1e-9}", "more than 1000000 values"),
        ("workload.rate=[5, 6]", "rate: expected one value, got a list; several are an axis: "),
        ("workload.rate=[5, 6]", "an axis: --set 'grid.workload.rate=[5, 6]'"),
        ("engine.scheduler={start=1}", "engine.scheduler: expected one value, got a table; sev"),
        ('grid."workload.rtae"=[5]', '--set grid."workload.rtae": unknown key; did you mean'),
        ('grid."workload.rate=[5]', '--set grid."workload.rate: unknown key'),
        ("seed=[9223372036854775808]", "--set seed: a seed is at most 9223372036854775807"),
    ],
)
def test_override_mistakes_name_the_override(refused, override, message):
    assert message in refused("", "", override)
    assert "--seeds: count: must be from 1" in refused(seeds=0)
    assert "h8.toml: --seeds: grid" in refused("", "", "grid=2", seeds=3)


def test_a_sweep_needs_a_workload_and_a_latency(refused):
    assert "workload: missing; a sweep needs a workload" in refused(text="[latency]\nalpha = [1]\n")
    assert "latency: missing; give a model" in refused(text="[workload]\nrate = 5.0\n")


def test_a_sweep_without_a_grid_is_one_cell(load):
    sweep = load(text="[workload]\n[latency]\nbeta = [1]\n")
    assert sweep.axes == ()
    assert sweep.scenario({}).workload.requests == 200
    assert sweep.title == "h8"


def test_the_canonical_form_tells_sweeps_apart_and_nothing_else(load):
    first = load().to_dict()
    assert json.loads(json.dumps(first, allow_nan=False)) == first
    respelled = H8.replace("2000.0", "2e3").replace("mean = 512, std = 50", "std=50.0,mean=512.0")
    listed = str(list(range(100)))
    same = load(
        "{ count = 100 }", listed, text=f"# a comment\n{respelled}[engine]\nmax_num_seqs=256"
    )
    assert same.to_dict() == first
    other = load("instances = 4", "instances = 5").to_dict()
    assert other["scenario"].pop("cluster") != first["scenario"].pop("cluster")
    assert other == first
    assert "gpu_blocks" not in first["scenario"]["cache"]
    assert load("5000]", "5001]").to_dict()["grid"] != first["grid"]


def test_rules_name_all_rule_books_of_the_cells(load):
    assert grid(load, '"engine.rules" = ["vllm", "blis"]').rules == "blis,vllm"


def test_sweep_files_of_the_project_load():
    files = sorted((Path(__file__).parents[1] / "sweeps").rglob("*.toml"))
    for path in files:
        load_sweep(path)


def test_clients_cut_their_sessions_alike(refused):
    clients = """\
[[workload.clients]]
id = "a"
sessions = { rounds = 2, think_time_s = 1 }
[[workload.clients]]
id = "b"
[[workload.clients]]
id = "c"
sessions = { rounds = 2, think_time_s = 1, truncate = false }
[cluster]"""
    assert "clients[2].sessions.truncate: must be the same for all" in refused("[cluster]", clients)


def test_scenarios_have_in_common_what_is_the_same(load):
    """Each of 154,722 had all sections for itself, 8 kB."""
    first, *others = plan(load()).variants
    assert len(others) == 133
    for name in ("workload", "engine", "latency"):
        assert all(getattr(other, name) is getattr(first, name) for other in others)
    assert len({id(variant.cluster) for variant in [first, *others]}) < 5
    assert len({variant.cache.gpu_blocks for variant in [first, *others]}) == 67


def test_sections_that_differ_in_what_is_given_are_not_the_same(load):
    """What a file gives of a section may count, also where it is the default."""
    policies = """[policies.a]
engine.max_num_seqs = 256
[policies.b]
engine.max_num_batched_tokens = 2048
[grid]
policy = ["a", "b"]"""
    sweep = load('[grid]\npolicy = ["round-robin", "least-loaded"]', policies)
    a, b = (sweep.scenario({"policy": name}) for name in "ab")
    assert a.engine == b.engine
    assert a.engine.model_fields_set != b.engine.model_fields_set


SHIPPED = Path(compose.__file__).parents[1] / "presets/llama-3.1-8b/h100/tp2.toml"


def test_files_of_a_sweep_are_looked_for_where_it_was_loaded(tmp_path, monkeypatch):
    """Whatever the process works in by then; names stay relative where nothing moved."""
    text = '[workload]\ntrace = "t.csv"\n[latency]\nmodel = "p.toml"\n[grid]\nseed = [0]\n'
    for name, tokens in (("here", 10), ("there", 20)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "s.toml").write_text(text)
        (folder / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n0,100,{tokens}\n")
    shutil.copy(SHIPPED, tmp_path / "here" / "p.toml")
    monkeypatch.chdir(tmp_path / "here")
    sweep = load_sweep("s.toml")
    restored = pickle.loads(pickle.dumps(sweep))
    assert sweep.base_dir == Path()
    monkeypatch.chdir(tmp_path / "there")
    for moved in (sweep, restored, changed(sweep, ["cache.block_size=32"]), sweep.with_seeds(2)):
        scenario = moved.scenario({})
        requests = requests_for(scenario.workload, 0, base_dir=moved.base_dir)
        assert requests.output_tokens.tolist() == [10]
    with pytest.raises(InputError, match=r"p\.toml: cannot read"):
        load_sweep("s.toml")


def test_a_part_of_a_list_as_messages_write_it_is_told_as_keys_have_it(tmp_path):
    text = 'latency.model = "llama-3.1-8b/h100/tp2"\ncache.gpu_blocks = 500\n'
    text += 'workload.clients = [{ id = "a" }, { id = "b" }]\n'
    for key in ("workload.clients[1].rate_fraction", "workload.clients.1.rate_fraction"):
        (tmp_path / "s.toml").write_text(f'{text}[grid]\n"{key}" = [1.0, 2.0]\nseed = [0]\n')
        if "[" in key:
            with pytest.raises(InputError, match=r"unknown key; did you mean 'clients\.1'\?"):
                load_sweep(tmp_path / "s.toml")
    assert load_sweep(tmp_path / "s.toml").axes


def test_a_bundle_with_the_name_of_a_routing_has_it(load, refused):
    """By the name alone a policy sets the routing; a bundle of that name would not."""
    bundle = "[policies.least-loaded]\ncache.block_size = 32\n"
    assert refused("[grid]", f"{bundle}[grid]") == (
        "h8.toml:16: policies.least-loaded: has the name of a routing, but the routing is "
        "'round-robin': add cluster.routing = 'least-loaded', or choose another name"
    )
    own = f'{bundle}cluster.routing = "least-loaded"\n'
    axes = [
        ("[grid]", f"{own}[grid]"),
        ("instances = 4", f'instances = 4\nrouting = "least-loaded"\n{bundle}'),
    ]
    for old, new in axes:
        sweep = load(old, new)
        assert sweep.scenario({"policy": "least-loaded"}).cluster.routing == "least-loaded"
    assert load("[grid]", f'{bundle}[grid]\n"cluster.routing" = ["weighted"]', text=BY_NAME)


BY_NAME = H8.replace('["round-robin", "least-loaded"]', '["least-loaded"]').replace(
    "instances = 4", "instances = 4\nscorers = { queue-depth = 1 }"
)


def test_a_client_of_a_list_that_is_missing_is_told(refused):
    """It was taken for a table, of which a list was expected."""
    axis = '[grid]\n"workload.clients.0.rate_fraction" = [0.1, 0.2]'
    assert refused("[grid]", axis) == (
        "h8.toml:17: grid.workload.clients.0.rate_fraction: workload.clients has no '0'"
    )


def test_a_share_is_not_asked_for_in_per_cent(tmp_path):
    (tmp_path / "h8.toml").write_text(H8.replace("preemption_rate", "prefix_hit_rate"))
    share = "cliff.threshold: prefix_hit_rate is a share, from 0 to 1"
    for given, hint in (("50", ": did you mean 0.5?"), ("101", "")):
        sweep = load_sweep(tmp_path / "h8.toml", [f"cliff.threshold={given}"])
        with pytest.raises(InputError) as refused:
            plan(sweep)
        assert str(refused.value).endswith(share + hint)
    plan(load_sweep(tmp_path / "h8.toml", ["cliff.threshold=1"]))


def test_a_policy_holds_no_axis(refused):
    message = refused("[grid]", "[policies.round-robin]\nseed = 3\n[grid]")
    assert message == "h8.toml:17: policies.round-robin.seed: is an axis of [grid]"


BARE = "[workload]\nrequests = 20\n[latency]\nbeta = [1000, 10, 5]\n[grid]\nseed = [0]\n"


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("workload.output.mean", 300, "workload.output.dist: missing; allowed: gaussian"),
        ("workload.sessions.rounds", 3, "workload.sessions.think_time_s: missing"),
        ("latency.alpha.0", 5, "latency.alpha has no '0'"),
        ("cache.groups.0.kind", '"full"', "cache.groups has no '0'"),
    ],
)
def test_a_key_in_a_table_that_the_file_lacks_is_named(tmp_path, key, value, told):
    file = tmp_path / "bare.toml"
    file.write_text(f'{BARE}"{key}" = [{value}]\n')
    with pytest.raises(InputError) as refused:
        load_sweep(file)
    assert str(refused.value).startswith(f"{file}:7: grid.{key}: {told}")
    file.write_text(BARE)
    with pytest.raises(InputError) as refused:
        load_sweep(file, [f"{key}={value}"])
    assert f"bare.toml: overrides: {key}: {told}" in str(refused.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("workload.read.format", "csv"),
        ("engine.blis.visit_evicted", "true"),
        ("model.kv_gib", "4"),
    ],
)
def test_a_table_that_an_axis_alone_makes_is_blamed_on_it(tmp_path, key, value):
    file = tmp_path / "bare.toml"
    written = f'"{value}"' if value == "csv" else value
    file.write_text(f'{BARE}"{key}" = [{written}]\n')
    with pytest.raises(InputError) as refused:
        load_sweep(file)
    table = key.rpartition(".")[0]
    assert str(refused.value).startswith(f"{file}:7: grid.{key}: {table}: ")
    file.write_text(BARE)
    with pytest.raises(InputError) as refused:
        load_sweep(file, [f"{key}={value}"])
    assert f"bare.toml: overrides: {key}: {table}: " in str(refused.value)


@pytest.mark.parametrize("several", ["[100, 200]", "{ start = 100, stop = 200, step = 50 }"])
def test_several_values_outside_the_grid_are_told_to_be_an_axis(tmp_path, several):
    file = tmp_path / "bare.toml"
    file.write_text(f"{BARE}[cache]\ngpu_blocks = {several}\n")
    with pytest.raises(InputError) as refused:
        load_sweep(file)
    told = "cache.gpu_blocks: expected an integer, got a "
    assert str(refused.value).startswith(f"{file}:8: {told}")
    assert str(refused.value).endswith('; several are an axis of [grid]: "cache.gpu_blocks" = ...')


def test_a_range_of_one_value_is_rounded_as_those_of_several_are(tmp_path):
    file = tmp_path / "bare.toml"
    for ends in ("start = 100.0, stop = 100.0, num = 1", "start = 100.0, stop = 200.0, num = 2"):
        file.write_text(f'{BARE}"cache.gpu_blocks" = {{ {ends} }}\n')
        values = next(a for a in load_sweep(file).axes if a.name == "gpu_blocks").values
        assert [(type(value), value) for value in values[:1]] == [(int, 100)]


def test_a_key_like_those_of_sections_and_pools_is_taken_for_that_of_the_section(tmp_path):
    """`blocks` was taken for `cluster.prefill.gpu_blocks`, and what few sweeps have."""
    file = tmp_path / "bare.toml"
    file.write_text(BARE)
    for key, meant in (("blocks", "cache.gpu_blocks"), ("max_num_seq", "engine.max_num_seqs")):
        with pytest.raises(InputError, match=rf"{key}: unknown key; did you mean '{meant}'\?"):
            load_sweep(file, [f"{key}=3"])


def test_seeds_at_equal_distances_are_whole_numbers(tmp_path):
    file = tmp_path / "bare.toml"
    file.write_text(BARE.replace("[0]", "{ start = 0, stop = 9, num = 4 }"))
    (seeds,) = (axis.values for axis in load_sweep(file).axes)
    assert [(type(seed), seed) for seed in seeds] == [(int, 0), (int, 3), (int, 6), (int, 9)]


def test_a_preset_that_is_none_is_refused_though_every_policy_names_another(tmp_path):
    file = tmp_path / "bare.toml"
    text = BARE.replace("beta = [1000, 10, 5]", 'model = "nonsense"') + 'policy = ["a"]\n'
    file.write_text(f'{text}[policies.a]\nlatency.model = "llama-3.1-8b/h100/tp2"\n')
    with pytest.raises(InputError, match=r"toml:4: latency\.model: unknown preset 'nonsense'"):
        load_sweep(file)


@pytest.mark.parametrize(
    ("new", "place", "told"),
    [
        ('{ ttft_p99_ms = "min" }', "", "expected a list, got a table"),
        ('[{ metric = "ttft_p99_ms", goal = "min" }]', "[0]", "expected a string, got a table"),
        ('"ttft_p99_ms:min"', "", "expected a list, got 'ttft_p99_ms:min'"),
    ],
)
def test_objectives_of_another_type_are_answered_with_their_form(refused, new, place, told):
    old = '["ttft_p99_ms:min", "throughput_rps:max"]'
    form = "; as ['ttft_p99_ms:min', 'throughput_rps:max']"
    assert refused(old, new) == f"h8.toml:27: pareto.objectives{place}: {told}{form}"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "policy=[a, b]",
            r"""--set policy: \[a, b\] is not TOML; .*: 'policy=\["a", "b"\]' keeps them""",
        ),
        (
            "workload.prompt={dist=constant}",
            r"--set workload.prompt: .*'workload.prompt=\{ name = \"a\" \}'",
        ),
    ],
)
def test_a_list_whose_quotes_the_shell_took_away_is_told_so(text, told):
    """Its brackets were part of a name: "unknown policy '[a, b]'"."""
    with pytest.raises(InputError, match=told):
        compose.parse_override(text)
    key, kept = compose.parse_override(
        text.replace("[a, b]", '"[a, b]"').replace("{dist=constant}", "'{x}'")
    )
    assert key == text.partition("=")[0]
    assert kept in ("[a, b]", "{x}")


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("a\\u0000", "has a NUL in its name; choose another"),
        ("", "has no name that could be read; choose another"),
        (" ", "has no name that could be read; choose another"),
    ],
)
def test_a_policy_has_a_name_that_can_be_stored_and_read(load, name, told):
    """All cells of "a" and "a NUL" were simulated before both turned out to be "a"."""
    bundle = f'[policies."{name}"]\nengine.max_num_seqs = 8\n[grid]\npolicy = ["{name}", "sticky"]'
    with pytest.raises(InputError, match=rf"h8[.]toml:\d+: policies[.].*: {told}$"):
        load('[grid]\npolicy = ["round-robin", "least-loaded"]', bundle)


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("decode.gpu_blocks", "cluster.decode.gpu_blocks"),
        ("decode.latency.model", "cluster.decode.latency.model"),
        ("pools.0.gpu_blocks", "cluster.pools.0.gpu_blocks"),
        ("groups.0.window", "cache.groups.0.window"),
        ("prompt.mean", "workload.prompt.mean"),
        ("speculative.tokens", "engine.speculative.tokens"),
    ],
)
def test_a_key_that_lacks_its_section_alone_is_meant_with_it(refused, key, meant):
    """`cache.gpu_blocks` was meant by `decode.gpu_blocks`, which changes the other side."""
    assert refused("", "", f"{key}=5") == f"--set {key}: unknown key; did you mean {meant!r}?"


@pytest.mark.parametrize(
    ("key", "table"),
    [
        ("engine.speculative.tokens", "grid"),
        ("cluster.decode.latency.model", "grid"),
        ("cache.gpu_blocks", "grid"),
        ("workload.prompt.mean", "design"),
    ],
)
def test_a_deep_key_without_its_quotes_is_told_to_its_end(refused, key, table):
    """`as in "engine.speculative"` was told, which is no axis."""
    value = "{ from = 5, to = 9 }" if table == "design" else "{ start = 5, stop = 9, step = 1 }"
    design = f"[design]\nsamples = 2\n{key} = {value}\n[grid]\n"
    new = design if table == "design" else f"[grid]\n{key} = {value}\n"
    text = H8.replace('"cache.gpu_blocks" =', '"engine.max_num_seqs" =')
    assert f'write a dotted key in quotes, as in "{key}"' in refused("[grid]\n", new, text=text)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("cache.groups", "[{}]", "cache.groups[0].kind: missing; allowed: full, sliding, state"),
        ("cache.groups", "[{kind = 'sliding'}]", "window: missing; kind 'sliding' needs it"),
        ("workload.prompt", "{dist = 'gaussian'}", "prompt.mean: missing; mean length (token)"),
        ("cluster.pools", "[{}]", "cluster.pools[0].instances: missing; instances of a pool"),
        ("engine.speculative", "{tokens = 2}", "method: missing; allowed: draft, eagle"),
        ("workload.sessions", "{}", "sessions.rounds: missing; requests of a session (request)"),
    ],
)
def test_what_is_missing_is_told_with_its_values_or_its_meaning(tmp_path, key, value, told):
    section, name = key.split(".")
    text = "[workload]\nrate = 5.0\n" if section == "workload" else f"[{section}]\n"
    (tmp_path / "s.toml").write_text(f"{text}{name} = {value}\n[latency]\nbeta = [1000]\n[grid]\n")
    with pytest.raises(InputError) as refused:
        load_sweep(tmp_path / "s.toml")
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("method", "meant"), [("mtp", "eagle"), ("eagle3", "eagle"), ("draft_model", "draft")]
)
def test_names_of_drafts_in_the_command_of_vllm_are_known(tmp_path, method, meant):
    drafts = f'speculative = {{ tokens = 2, method = "{method}", acceptance = 0.5 }}'
    (tmp_path / "s.toml").write_text(f"[engine]\n{drafts}\n[latency]\nbeta = [1000]\n[grid]\n")
    with pytest.raises(InputError) as refused:
        load_sweep(tmp_path / "s.toml")
    assert str(refused.value).endswith(f"allowed: draft, eagle; did you mean {meant!r}?")
