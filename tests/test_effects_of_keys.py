"""Every key of a scenario changes what is simulated, or the table of effects says why not.

Each leaf key is set to other values in several contexts. Where all of them give the same results,
to the last bit, the table must say so; where some give others, it must not. (A key may matter too
rarely for a small run to show it: for those the reverse is not asked, and they are listed.)
"""

from functools import cache
from itertools import product

import numpy as np
import pytest
from longer import long_but
from pydantic import ValidationError

from kvsweep.config import Scenario
from kvsweep.config.base import KeyProblem
from kvsweep.config.compose import parts_of, set_at
from kvsweep.config.effects_of_keys import RULES, unread
from kvsweep.config.schema import leaf_keys
from kvsweep.config.workload import Client
from kvsweep.simulate import simulate_batch

CLIENTS = [
    {"id": "a", "slo_class": "critical", "prefix_group": "p", "prefix_len": 33},
    {"id": "b", "rate_fraction": 0.5, "slo_class": "batch", "prefix_group": "q"},
]
TURNS = {"rounds": 3, "think_time_s": 0.02}
BASE = {
    "workload": {
        "requests": 60,
        "rate": 1500.0,
        "prompt": {"dist": "gaussian", "mean": 60, "std": 30, "min": 5, "max": 90},
        "output": {"dist": "exponential", "mean": 30, "min": 5, "max": 90},
    },
    "cluster": {"instances": 3},
    "engine": {"max_num_seqs": 6, "max_num_batched_tokens": 64},
    "cache": {"block_size": 8, "gpu_blocks": 80},
    "latency": {"alpha": [300, 1, 7], "beta": [900, 11, 23]},
}
# Changes of the base: what makes keys matter, and what takes their effect away.
CONTEXTS = {
    "plain": {},
    "one instance": {"cluster.instances": 1, "cluster.routing": "weighted"},
    "a pipeline": {"engine.pipeline_parallel_size": 3, "engine.async_scheduling": True},
    "weighted": {"cluster.routing": "weighted", "workload.clients": CLIENTS},
    "weighted, stale": {
        "cluster.routing": "weighted",
        "cluster.snapshot_refresh_us": 50_000,
        "cluster.router_index_blocks": 6,
        "workload.clients": CLIENTS,
    },
    "weighted by blocks": {
        "cluster.routing": "weighted",
        "cluster.scorers": {"precise-prefix": 1},
        "workload.clients": CLIENTS,
    },
    "sticky": {
        "cluster.routing": "sticky",
        "cluster.sticky_threshold": 0.3,
        "cluster.sticky_lead_tokens": 150,
        "workload.sessions": TURNS,
    },
    "least loaded, stale": {
        "cluster.routing": "least-loaded",
        "cluster.snapshot_refresh_us": 50_000,
        "cluster.snapshot_load": True,
    },
    "tier": {
        "cache.cpu_blocks": 60,
        "cache.offload": "watermark",
        "cache.offload_threshold": 0.3,
        "cache.transfer_bandwidth": 100.0,
        "workload.sessions": TURNS,
    },
    "tier, written through": {
        "cache.cpu_blocks": 60,
        "cache.offload": "write-through",
        "cache.transfer_bandwidth": 100.0,
        "workload.sessions": TURNS,
    },
    "tier, as vLLM has it": {
        "cache.cpu_blocks": 30,
        "cache.offload": "vllm",
        "cache.transfer_bandwidth": 0.05,
        "workload.sessions": TURNS,
    },
    "tier, linked": {
        "cache.cpu_blocks": 60,
        "cache.link": "pcie4-x16",
        "cache.kv_bytes_per_token": 5e6,
        "workload.sessions": TURNS,
    },
    "tier, linked at a speed": {
        "cache.cpu_blocks": 60,
        "cache.link_gb_per_s": 20.0,
        "cache.kv_bytes_per_token": 5e6,
        "workload.sessions": TURNS,
    },
    "bucket": {
        "cluster.admission": "token-bucket",
        "cluster.token_bucket_capacity": 500.0,
        "cluster.token_bucket_refill_rate": 9000.0,
    },
    "priority": {"engine.scheduler": "priority", "workload.clients": CLIENTS},
    "priority by age": {
        "engine.scheduler": "priority",
        "engine.priority": "age",
        "engine.priority_age_ms": 30.0,
        "workload.clients": CLIENTS,
    },
    "gamma": {"workload.arrivals": "gamma", "workload.cv": 2.0},
    "limited": {"workload.concurrency": 14, "workload.rate": 1000.0},
    "limited, all at once": {"workload.concurrency": 14, "workload.rate": None},
    "limited, of clients": {
        "workload.concurrency": 14,
        "workload.rate": None,
        "workload.clients": CLIENTS,
    },
    "limited, of one client": {
        "workload.concurrency": 14,
        "workload.rate": None,
        "workload.clients": [CLIENTS[0] | {"arrivals": "gamma", "cv": 2.0}],
    },
    "short of blocks": {"cache.gpu_blocks": 26, "cluster.instances": 2},
    "clients of their own": {
        "workload.clients": [
            {
                "id": "a",
                "prompt": {"dist": "constant", "value": 40},
                "output": {"dist": "empirical", "values": [20, 30]},
                "arrivals": "gamma",
                "cv": 2.0,
                "sessions": TURNS,
            }
        ],
    },
    "clients of one round": {
        "workload.clients": [CLIENTS[0] | {"sessions": {"rounds": 1, "think_time_s": 0}}],
    },
    "one round": {"workload.sessions": {"rounds": 1, "think_time_s": 0}},
    "conversations": {"workload.sessions": TURNS},
    "reasoning kept": {"workload.sessions": TURNS | {"reason_ratio": 0.5}},
    "reasoning dropped": {
        "workload.sessions": TURNS | {"reason_ratio": 0.5, "keep_reasoning": False}
    },
    "no chunks": {"engine.enable_chunked_prefill": False, "engine.max_num_batched_tokens": 128},
    "nothing cached": {"engine.enable_prefix_caching": False},
    "thresholds": {"engine.long_prefill_token_threshold": 500},
    "replica": {"engine.rules": "blis", "cluster.routing": "weighted"},
    "replica, one instance": {"engine.rules": "blis", "cluster.instances": 1},
    "replica, tier": {
        "engine.rules": "blis",
        "cache.cpu_blocks": 60,
        "cache.gpu_blocks": 110,
        "cache.offload_threshold": 0.2,
        "workload.sessions": TURNS,
    },
}
# Of an engine of its own, which these small runs leave alone.
POOLS = {
    "cluster.pools": [
        {
            **{"instances": 1, "gpu_blocks": 90, "max_num_seqs": 3, "max_num_batched_tokens": 32},
            "latency": {"beta": [900, 9, 2]},
            "max_model_len": 500,
        }
    ],
}
SIDES = {
    "cluster.prefill": {"instances": 1, "cpu_blocks": 20},
    "cluster.decode": {"instances": 1, "cpu_blocks": 0},
    "cluster.kv_transfer_bandwidth": 1.0,
    "cache.offload": "vllm",
    "cache.transfer_bandwidth": 1.0,
}
VALUES = {
    "workload.requests": (61,),
    "workload.rate": (100.0,),
    "workload.arrivals": ("constant",),
    "workload.cv": (0.5, 3.0),
    "workload.warmup": (10,),
    "workload.concurrency": (4, 50),
    "workload.prompt.mean": (40.0,),
    "workload.prompt.std": (3.0,),
    "workload.prompt.min": (6, 50),
    "workload.prompt.max": (89, 50),
    "workload.output.mean": (20.0,),
    "workload.output.min": (6, 25),
    "workload.output.max": (89, 25),
    "workload.sessions.rounds": (4,),
    "workload.sessions.think_time_s": (0.05, 0.2),
    "workload.sessions.think_time": ("exponential",),
    "workload.sessions.context": ("independent",),
    "workload.sessions.arrivals": ("closed-loop",),
    "workload.sessions.patience_s": (0.001,),
    "workload.sessions.reason_ratio": (0.2, 0.9),
    "workload.sessions.keep_reasoning": (True, False),
    "workload.sessions.truncate": (False,),
    "workload.clients.0.rate_fraction": (0.1,),
    "workload.clients.0.slo_class": ("gold",),
    "workload.clients.0.prefix_group": ("q",),
    "workload.clients.0.prefix_len": (80,),
    "workload.clients.0.prompt": ({"dist": "constant", "value": 13},),
    "workload.clients.0.prompt.min": (41, 5),
    "workload.clients.0.prompt.max": (30, 500),
    "workload.clients.0.output": ({"dist": "constant", "value": 13},),
    "workload.clients.0.output.min": (25, 5),
    "workload.clients.0.output.max": (25, 500),
    "workload.clients.0.arrivals": ("constant",),
    "workload.clients.0.cv": (0.5,),
    "workload.clients.0.sessions": (TURNS | {"rounds": 2},),
    "workload.clients.0.sessions.think_time": ("exponential",),
    "workload.clients.0.sessions.context": ("independent",),
    "workload.clients.0.sessions.truncate": (False,),
    "workload.clients.0.sessions.patience_s": (0.001,),
    "cluster.instances": (2,),
    "cluster.routing": ("least-loaded", "always-busiest", "weighted", "sticky"),
    "cluster.scorers": ({"load-balance": 1}, {"kv-utilization": 1}),
    "cluster.router_index_blocks": (1, 100),
    "cluster.sticky_threshold": (0.9,),
    "cluster.sticky_lead_tokens": (0, 5),
    "cluster.count_pending": (False,),
    "cluster.admission": ("reject-all",),
    "cluster.token_bucket_capacity": (50.0, 200.0),
    "cluster.token_bucket_refill_rate": (10.0,),
    "cluster.admission_latency_us": (777,),
    "cluster.routing_latency_us": (777,),
    "cluster.snapshot_refresh_us": (5_000, 200_000),
    "cluster.snapshot_load": (True, False),
    "engine.rules": ("blis",),
    "engine.max_num_seqs": (3,),
    "engine.max_num_batched_tokens": (32, 200),
    "engine.max_model_len": (60, 600),
    "engine.long_prefill_token_threshold": (10, 600),
    "engine.scheduler": ("sjf",),
    "engine.priority": ("slo-class", "constant", "age"),
    "engine.victim": ("least-computed-first", "random"),
    "engine.priority_age_ms": (1.0, 1000.0),
    "engine.preempt_for_urgent": (True, False),
    "engine.async_scheduling": (True,),
    "engine.pipeline_parallel_size": (2,),
    "engine.pipeline_fair_share": (True, False),
    "engine.enable_prefix_caching": (False,),
    "engine.enable_chunked_prefill": (False, True),
    "engine.reserve_full_prompt": (False,),
    "engine.watermark": (0.2, 0.01),
    "cache.block_size": (4,),
    "cache.gpu_blocks": (60,),
    "cache.eviction": ("lfu",),
    "cache.cpu_blocks": (30,),
    "cache.offload": ("write-through", "watermark"),
    "cache.offload_threshold": (0.1, 0.5, 1.0),
    "cache.offload_block_factor": (2,),
    "cache.offload_prompt_only": (False,),
    "cache.offload_eviction": ("arc",),
    "cache.transfer_bandwidth": (0.01,),
    "cache.link": ("nvlink-c2c",),
    "cache.link_gb_per_s": (5.0,),
    "cache.kv_bytes_per_token": (1e7,),
    "cache.transfer_base_latency_us": (777,),
    "cache.transfer_overlap": (True,),
    "cache.thrashing_window_us": (1, 10**9),
    "latency.alpha": ([1, 2, 3],),
    "latency.beta": ([500, 20, 3],),
    "latency.memory": ([2000, 1, 1],),
    "latency.first_steps_us": ([0, 5000],),
}
# What the base and its contexts do not show, and why.
ELSEWHERE = {
    "workload.trace": "a trace brings all its requests: test_traces",
    **dict.fromkeys(
        (
            *("workload.slice.from_s", "workload.slice.to_s", "workload.slice.length_s"),
            *("workload.clip.prompt", "workload.clip.output", "workload.repeat"),
            *("workload.repeat_spread_s", "workload.loop", "workload.copies", "workload.scale"),
            *("workload.limit", "workload.lengths_from"),
        ),
        "of traces: test_bending",
    ),
    **dict.fromkeys(
        (key for key in leaf_keys(Scenario) if key.startswith("workload.read.")),
        "how a trace is read: test_formats and its siblings",
    ),
    "workload.clients": "its keys are walked",
    "workload.clients.id": "a name, of the request columns",
    "latency.experts": "beside latency.memory: kernel/test_experts",
    "latency.window": "several numbers, of which one is no time: kernel/test_windows",
    "cache.gpu_tokens": "stands for gpu_blocks: test_config_memory",
    **dict.fromkeys(
        (
            key
            for key in leaf_keys(Scenario)
            if key.startswith(("cluster.pools", "cluster.prefill", "cluster.decode"))
            or key.startswith(("cluster.kv_", "cluster.pd_", "engine.speculative"))
            or key in ("cache.groups", "cache.prefix_cache_retention_interval")
        ),
        "of the explicit engine: test_config_explicit",
    ),
    "engine.blis": "switches of the replica: test_defects",
    "engine.horizon_us": "refused but for the replica: test_replica_cells",
    "latency.model": "stands for the others: test_config_scenario",
    **dict.fromkeys(
        (key for key in leaf_keys(Scenario) if key.startswith("model.")),
        "decide keys of the cache and of latencies: test_config_served_model",
    ),
    **dict.fromkeys(
        (key for key in leaf_keys(Scenario) if key.startswith("slo.")),
        "judge what was simulated: test_config_service_levels",
    ),
    **dict.fromkeys(
        (
            f"{owner}.{key}"
            for owner in ("workload.prompt", "workload.output")
            for key in (
                *("dist", "value", "alpha", "xm", "mu", "sigma", "mix_weight", "values", "weights"),
                "std",
            )
        ),
        "parameters that a distribution must have, or draws by: test_lengths",
    ),
}
# Too rare to be sure of in so few requests: the table may say that they matter where none shows.
RARE = {
    "workload.clients.0.prefix_group",  # of one client a name
    "cluster.count_pending",
    "cluster.snapshot_refresh_us",
    "cluster.snapshot_load",
    "cluster.router_index_blocks",
    "cluster.sticky_threshold",
    "cluster.sticky_lead_tokens",
    "cluster.scorers",
    "cluster.routing",
    "cluster.token_bucket_refill_rate",
    "engine.priority",
    "engine.victim",
    "engine.preempt_for_urgent",
    "engine.pipeline_parallel_size",  # synchronously one step may take all who come, whole prompts
    "engine.reserve_full_prompt",
    "engine.watermark",
    "engine.enable_prefix_caching",
    "engine.scheduler",
    "cache.eviction",
    "cache.cpu_blocks",
    "cache.offload",
    "cache.offload_threshold",
    "cache.transfer_overlap",
    "cache.thrashing_window_us",
    "cache.block_size",
    "workload.sessions.truncate",
    "workload.sessions.patience_s",
    "engine.max_model_len",
    "engine.long_prefill_token_threshold",
}


def scenario_of(changes):
    """Return a scenario of the base with changes, or None if it is refused."""
    data = {}
    for section, table in BASE.items():
        for key, value in table.items():
            set_at(data, (section, key), value)
    data = _copied(data)
    if {"cluster.pools", "cluster.prefill"} & changes.keys():
        del data["cluster"]["instances"]
    for key, value in changes.items():
        try:
            set_at(data, parts_of(key, data), _copied(value))
        except KeyError:
            return None
    try:
        return Scenario.model_validate(data)
    except (ValidationError, KeyProblem):
        return None


def _copied(value):
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _frozen(value):
    if isinstance(value, dict):
        return tuple((key, _frozen(inner)) for key, inner in value.items())
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


@cache
def _results(text):
    scenario = Scenario.model_validate_json(text)
    with np.errstate(all="ignore"):
        found = simulate_batch(
            [scenario], [0], entropy=1, policies=[None], base_dir=None, keep_requests=True
        )
    return {name: (str(a.dtype), a.shape, repr(a.tolist())) for name, a in found.items()}


def results_of(scenario):
    """Return all result arrays of a scenario, as text that compares."""
    return _results(scenario.model_dump_json(exclude_unset=True))


@pytest.mark.parametrize(
    "context",
    long_but(
        CONTEXTS,
        *("plain", "weighted", "tier", "priority", "limited", "conversations"),
        *("clients of their own", "replica, one instance"),
    ),
)
def test_a_key_matters_or_the_table_says_that_it_does_not(context):
    changes = CONTEXTS[context]
    usual = scenario_of(changes)
    assert usual is not None
    wrong = {}
    for key, values in VALUES.items():
        if key.startswith("workload.clients.0") and not usual.workload.clients:
            continue
        made = [scenario_of({**changes, key: value}) for value in values]
        others = [scenario for scenario in made if scenario and scenario != usual]
        path = parts_of(key, usual.model_dump(mode="json"))
        read = [unread(scenario, path) is None for scenario in (usual, *others)]
        equal = [results_of(other) == results_of(usual) for other in others]
        if others and all(equal) and all(read) and key not in RARE:
            wrong[key] = "changes nothing, and the table does not say so"
        if not any(read) and not all(equal):
            wrong[key] = "changes results, and the table says that it does not"
    assert wrong == {}


@pytest.mark.parametrize("key", sorted(RARE - {"workload.clients.0.prefix_group"}))
def test_what_matters_rarely_does_so_in_some_context(key):
    pairs = (
        (scenario_of(changes), scenario_of({**changes, key: value}))
        for changes, value in product(CONTEXTS.values(), VALUES[key])
    )
    assert any(other and results_of(usual) != results_of(other) for usual, other in pairs)


def test_every_key_of_a_scenario_is_walked_somewhere():
    known = {key.replace(".0", "") for key in VALUES} | set(ELSEWHERE)
    walked = {*leaf_keys(Scenario), *leaf_keys(Client, "workload.clients.")}
    nested = {key for key in walked if key.startswith("workload.clients.")}
    plain = walked - nested
    assert plain <= known
    # Of clients: what is theirs alone; the tables that the workload has too are walked there.
    tables = ("prompt", "output", "sessions")
    own = {key for key in nested if key.split(".")[2] not in tables}
    assert own <= known
    assert set(RULES) <= known | {f"workload.{table}" for table in tables} | nested | {
        f"workload.clients.{table}" for table in tables
    }


@pytest.mark.parametrize("key", [key for key in VALUES if key.replace(".0", "") in RULES])
def test_every_rule_of_the_table_says_no_in_one_context_and_yes_in_another(key):
    said = set()
    for changes, value in product((*CONTEXTS.values(), POOLS, SIDES), VALUES[key]):
        scenario = scenario_of({**changes, key: value})
        if scenario:
            said.add(unread(scenario, parts_of(key, scenario.model_dump(mode="json"))) is None)
    assert said == {True, False}
