"""Keys of hybrid caches, speculative decoding, prefill and decode apart, and unequal pools."""

import pytest
from goldens import load, vllm_cases

from kvsweep.config import load_sweep, parse_scenario
from kvsweep.config.choices import choices_of
from kvsweep.config.fleet import fleet, is_explicit
from kvsweep.errors import InputError, did_you_mean

LATENCY = {"beta": [7000, 17, 2]}
GROUPS = [{"kind": "full"}, {"kind": "sliding", "window": 128}]
APART = {"prefill_instances": 1, "decode_instances": 2, "kv_transfer_bandwidth": 1.5}
TABLES = {
    "prefill": {"instances": 2},
    "decode": {"instances": 2},
    "kv_transfer_bandwidth": 1.5,
}
EAGLE = {"tokens": 3, "method": "eagle"}
LENGTHS = {"pools": [{"instances": 1, "max_model_len": n} for n in (90, 600)]}
WHOLE = {"enable_chunked_prefill": False, "max_num_batched_tokens": 512}


def scenario(**sections):
    return parse_scenario({"latency": LATENCY, **sections}, "t.json")


def refused(**sections):
    with pytest.raises(InputError) as caught:
        scenario(**sections)
    message = str(caught.value)
    assert "\n" not in message
    return message.removeprefix("t.json: scenario.")


def test_groups_are_kept_in_order_and_written_as_they_were():
    groups = [GROUPS[1], GROUPS[0], {"kind": "sliding", "window": 5}]
    made = scenario(cache={"groups": groups})
    assert [group.window for group in made.cache.groups] == [128, None, 5]
    assert made.to_trace()["cache"] == {"groups": groups}


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            [{"kind": "slidng", "window": 8}],
            "groups[0].kind: unknown value 'slidng'; allowed: full",
        ),
        ([{"kind": "sliding", "windw": 8}], "groups[0].windw: unknown key; did you mean 'window'?"),
        ([GROUPS[0], {"kind": "sliding"}], "groups[1].window: missing; kind 'sliding' needs it"),
        ([{"kind": "sliding", "window": 1}], "groups[0].window: must be at least 2, got 1"),
        ([{"kind": "sliding", "window": 0}], "groups[0].window: must be at least 2, got 0"),
        ([{"kind": "full", "window": 8}], "groups[0].window: kind 'full' has none; did you mean"),
        ([{"kind": "sliding", "window": 8.0}], "groups[0].window: expected an integer, got 8.0"),
        ("full", "groups: expected a list, got 'full'"),
        (GROUPS * 9, "groups: at most 16 values, got 18"),
    ],
)
def test_a_wrong_group_is_refused_by_its_key(groups, message):
    assert refused(cache={"groups": groups}).startswith(f"cache.{message}")


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"tokens": 3}, "method: missing"),
        (
            {"tokens": 3, "method": "egle"},
            "method: unknown value 'egle'; allowed: draft, eagle; di",
        ),
        ({"tokens": 65, "method": "eagle"}, "tokens: must be at most 64, got 65"),
        (EAGLE | {"acceptance": 1.5}, "acceptance: expected a number from 0 to 1, got 1.5"),
        (EAGLE | {"acceptance": True}, "acceptance: expected a number from 0 to 1, got true"),
        (EAGLE | {"acceptance": [0.9, "x"]}, "acceptance[1]: expected a number from 0 to 1, got"),
        (EAGLE | {"acceptance": [0.5, 0.6]}, "acceptance[1]: 0.6 is more than 0.5 before it"),
        (EAGLE | {"acceptance": []}, "acceptance: expected 1 to 64 shares, by position, got 0"),
        (EAGLE | {"acceptnce": 1}, "acceptnce: unknown key; did you mean 'acceptance'?"),
    ],
)
def test_wrong_drafts_are_refused_by_their_key(table, message):
    found = refused(engine={"speculative": table})
    assert found.startswith(f"engine.speculative.{message}")


def test_acceptance_by_position_or_by_the_chance_of_each_next_draft():
    def reached(tokens, acceptance):
        table = EAGLE | {"tokens": tokens, "acceptance": acceptance}
        return scenario(engine={"speculative": table}).engine.speculative.reached()

    assert reached(3, 0.5) == (0.5, 0.25, 0.125)
    assert reached(2, [0.8, 0.6, 0.3]) == (0.8, 0.6)
    assert reached(3, [0.8]) == (0.8, 0.0, 0.0)


def test_no_drafted_tokens_are_no_speculation():
    """An axis of drafts may begin with none."""
    made = scenario(engine={"speculative": EAGLE | {"tokens": 0}})
    assert not is_explicit(made)
    assert "engine" not in made.to_trace()


def test_roles_are_the_same_in_tables_and_in_four_keys():
    tables = {
        "prefill": {"instances": 1, "gpu_blocks": 70},
        "decode": {"instances": 2},
        "kv_transfer_bandwidth": 1.5,
    }
    made = scenario(cluster=tables, cache={"gpu_blocks": 50})
    keys = scenario(cluster=APART | {"prefill_gpu_blocks": 70}, cache={"gpu_blocks": 50})
    assert fleet(made) == fleet(keys)
    assert (
        made.to_trace()["cluster"]
        == keys.to_trace()["cluster"]
        == APART | {"prefill_gpu_blocks": 70}
    )
    assert [(pool.role, pool.instances, pool.gpu_blocks) for pool in fleet(made)] == [
        ("prefill", 1, 70),
        ("decode", 2, 50),
    ]
    assert sum(pool.instances for pool in fleet(made)) == made.cluster.instances == 3


def test_a_role_takes_from_the_cluster_how_its_instances_are_chosen():
    own = {"routing": "weighted", "scorers": {"queue-depth": 1.0}}
    cluster = TABLES | {"routing": "least-loaded", "decode": {"instances": 2} | own}
    made = scenario(cluster=cluster)
    prefill, decode = choices_of(made.cluster)
    assert (prefill.role, prefill.instances, prefill.routing) == ("prefill", 2, "least-loaded")
    assert (decode.routing, decode.scorers) == ("weighted", {"queue-depth": 1.0})
    assert decode.own == {"routing", "scorers"}
    assert choices_of(parse_scenario(made.to_trace(), "t").cluster) == (prefill, decode)


def test_a_routing_between_one_instance_has_no_effect(tmp_path):
    apart = "prefill = { instances = 1, %s }\ndecode = { instances = 2 }"
    for own, message in (
        ('routing = "least-loaded"', r"cluster\.prefill\.routing: has no effect: needs several"),
        ("scorers = { queue-depth = 1 }", r"prefill\.scorers: has no effect: needs routing 'weigh"),
    ):
        sections = f"[cluster]\nkv_transfer_bandwidth = 2.0\n{apart % own}"
        with pytest.raises(InputError, match=message):
            load_sweep(sweep_of(tmp_path, "seed = [1]", sections))


def test_a_pool_takes_from_the_sections_what_it_leaves_out():
    own = {"instances": 2, "max_num_seqs": 8, "latency": {"beta": [100, 1, 1]}}
    made = scenario(cluster={"pools": [own, {"instances": 1, "gpu_blocks": 9}]})
    first, second = fleet(made)
    assert (first.max_num_seqs, first.gpu_blocks, first.beta) == (8, 2200, (100, 1, 1))
    assert (second.max_num_seqs, second.gpu_blocks, second.beta) == (256, 9, (7000, 17, 2))
    assert "instances" not in made.to_trace()["cluster"]


@pytest.mark.parametrize(
    ("cluster", "message"),
    [
        (
            {"prefill_instances": 1},
            "decode: missing; prefill and decode apart need decode_instances",
        ),
        (APART | {"prefill": {"instances": 1}}, "prefill_instances: give either prefill_instances"),
        (APART | {"instances": 3}, "instances: has no effect: prefill and decode have their own"),
        (
            APART | {"routing": "nearest"},
            "routing: unknown routing 'nearest'; allowed: round-robin",
        ),
        (
            APART | {"routing": "weighted", "scorers": {}},
            "scorers: routing 'weighted' needs a weig",
        ),
        (
            TABLES | {"decode": {"instances": 2, "routing": "nearest"}},
            "decode.routing: unknown routing 'nearest'; allowed: round-robin",
        ),
        (
            TABLES | {"decode": {"instances": 2, "scorers": {"queue": 1}}},
            "decode.scorers.queue: unknown scorer; allowed: prefix-affinity",
        ),
        (
            TABLES | {"prefill": {"instances": 2, "routing": "weighted", "scorers": {}}},
            "prefill.scorers: routing 'weighted' needs a weight above 0",
        ),
        (
            {"pd_uncached_token_threshold": 3},
            "pd_uncached_token_threshold: has no effect: needs pr",
        ),
        ({"prefill_instances": 1, "decode_instances": 1}, "kv_transfer_bandwidth: missing; tokens"),
        ({"pd_handoff_us": 3}, "pd_handoff_us: has no effect: needs prefill and decode apart"),
        ({"kv_lease_us": 3}, "kv_lease_us: has no effect: needs prefill and decode apart"),
        ({"kv_heartbeats": True}, "kv_heartbeats: has no effect: needs prefill and decode apart"),
        (APART | {"kv_lease_us": 0}, "kv_lease_us: must be at least 1, got 0"),
        (APART | {"kv_load_failure_rate": 0.1}, "kv_load_failure_rate: needs kv_lease_us: without"),
        (
            APART | {"kv_lease_us": 9, "kv_load_failure_rate": 1.1},
            "kv_load_failure_rate: must be at most 1, got 1.1",
        ),
        (
            APART | {"kv_load_failure_policy": "retry"},
            "kv_load_failure_policy: unknown load failure 'retry'; allowed: fail, recompute",
        ),
        ({"decode_gpu_blocks": 3}, "decode_gpu_blocks: needs decode_instances"),
        (
            APART | {"prefil_gpu_blocks": 3},
            "prefil_gpu_blocks: unknown key; did you mean 'prefill_",
        ),
        (APART | {"pools": [{"instances": 1}]}, "pools: give either pools or prefill and decode"),
        ({"pools": [{"gpu_blocks": 1}]}, "pools[0].instances: missing"),
        ({"pools": [{"instances": 1, "max_num_seqs": 4096}]}, "pools[0]: max_num_batched_tokens ("),
        (
            {"pools": [{"instances": 1, "max_model_len": 9}] * 2},
            "pools[1].max_model_len: 9 is not more than 9 before it",
        ),
        (
            {"pools": [{"instances": 1}, {"instances": 1, "max_model_len": 9}]},
            "pools[0].max_model_len: missing; only the last may have none",
        ),
        ({"pools": [{"instances": 1, "latency": {}}]}, "pools[0].latency.beta: missing; give beta"),
        (
            {"pools": [{"instances": 1, "latency": {"model": "llama-3.1-8b/h100/tp3"}}]},
            "pools[0].latency.model: unknown preset 'llama-3.1-8b/h100/tp3'; did you mean '",
        ),
    ],
)
def test_wrong_pools_are_refused_by_their_key(cluster, message):
    assert refused(cluster=cluster).startswith(f"cluster.{message}")


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"cache": {"groups": GROUPS, "cpu_blocks": 9, "transfer_bandwidth": 1.0}},
            "cache.offload: with cache.groups there is only offload = 'vllm'",
        ),
        (
            {
                "engine": {"speculative": EAGLE},
                "cache": {"cpu_blocks": 9, "transfer_bandwidth": 1.0, "offload": "watermark"},
            },
            "cache.offload: with engine.speculative there is only offload = 'vllm'",
        ),
        (
            {"cluster": LENGTHS, "engine": {"long_prefill_token_threshold": 91}},
            "engine.long_prefill_token_threshold: 91 is more than cluster.pools[0].max_model_len",
        ),
        (
            {"cluster": LENGTHS, "engine": WHOLE},
            "cluster.pools[1].max_model_len: 600 is more than max_num_batched_tokens (512), which",
        ),
        (
            {"cluster": LENGTHS, "engine": {"max_model_len": 599}},
            "cluster.pools[1].max_model_len: 600 is more than engine.max_model_len (599)",
        ),
        (
            {"engine": WHOLE | {"max_model_len": 513}},
            "engine.max_model_len: 513 is more than max_num_batched_tokens (512), which vLLM",
        ),
        (
            {"engine": {"max_model_len": 90, "long_prefill_token_threshold": 91}},
            "engine.long_prefill_token_threshold: 91 is more than engine.max_model_len (90)",
        ),
        (
            {"engine": {"rules": "blis", "max_model_len": 90}},
            "engine.max_model_len: rules 'blis' has requests of any length",
        ),
        (
            {"cluster": APART, "engine": WHOLE | {"long_prefill_token_threshold": 513}},
            "engine.long_prefill_token_threshold: 513 is more than max_num_batched_tokens (512), ",
        ),
        (
            {"cluster": APART, "cache": {"groups": GROUPS[1:]}, "engine": {"speculative": EAGLE}},
            "engine.speculative.method: 'eagle', but with prefill and decode apart",
        ),
        (
            {"cache": {"groups": GROUPS, "gpu_tokens": 9000}},
            "cache.gpu_tokens: with several groups",
        ),
        ({"cache": {"groups": GROUPS}, "engine": {"rules": "blis"}}, "cache.groups: rules 'blis'"),
        (
            {"engine": {"speculative": EAGLE, "rules": "blis"}},
            "engine.speculative: rules 'blis' has no drafts",
        ),
        (
            {"engine": {"speculative": EAGLE, "long_prefill_token_threshold": 3}},
            "engine.long_prefill_token_threshold: 3 cuts a decode with 3 drafts, which",
        ),
        (
            {"engine": {"speculative": EAGLE, "long_prefill_token_threshold": 1}},
            "engine.long_prefill_token_threshold: 1 cuts a decode with 3 drafts, which",
        ),
        (
            {
                "engine": {
                    "speculative": {"tokens": 4, "method": "draft"},
                    "max_num_batched_tokens": 5,
                    "max_num_seqs": 5,
                }
            },
            "engine.speculative.tokens: a decode with 4 drafts takes 6 tokens of a step",
        ),
    ],
)
def test_combinations_without_rules_are_refused(sections, message):
    assert refused(**sections).startswith(message)


def test_keys_of_leases_have_no_effect_without_a_lease(tmp_path):
    apart = "[cluster]\nprefill_instances = 1\ndecode_instances = 1\nkv_transfer_bandwidth = 2.0\n"
    for key in ("kv_heartbeats = false", 'kv_load_failure_policy = "recompute"'):
        with pytest.raises(InputError, match=r"has no effect: needs cluster\.kv_lease_us"):
            load_sweep(sweep_of(tmp_path, "seed = [1]", apart + key))
    load_sweep(sweep_of(tmp_path, "seed = [1]", f"{apart}kv_lease_us = 9\n{key}"))


def sweep_of(tmp_path, grid, sections=""):
    text = (
        "[workload]\nrequests = 10\nrate = 5.0\n[latency]\nbeta = [7000, 17, 2]\n"
        f"{sections}\n[grid]\n{grid}\n"
    )
    path = tmp_path / "s.toml"
    path.write_text(text)
    return path


def test_they_are_axes_of_a_grid(tmp_path):
    sections = (
        '[engine]\nspeculative = { tokens = 3, method = "eagle", acceptance = 0.7 }\n'
        '[cache]\ngroups = [{ kind = "full" }, { kind = "sliding", window = 64 }]'
    )
    grid = (
        '"engine.speculative.tokens" = [0, 2]\n"engine.speculative.acceptance" = [0.5, 0.9]\n'
        '"cache.groups.1.window" = [32, 128]'
    )
    sweep = load_sweep(sweep_of(tmp_path, grid, sections))
    assert [axis.name for axis in sweep.axes] == ["tokens", "acceptance", "window"]
    made = sweep.scenario({"tokens": 2, "acceptance": 0.9, "window": 32})
    assert made.engine.drafts == 2
    assert made.cache.groups[1].window == 32
    apart = (
        "[cluster]\nprefill = { instances = 1 }\ndecode = { instances = 1, gpu_blocks = 500 }\n"
        "kv_transfer_bandwidth = 2.0"
    )
    grid = '"cluster.prefill.instances" = [1, 2]\n"cluster.decode.gpu_blocks" = [100, 200]'
    sweep = load_sweep(sweep_of(tmp_path, grid, apart))
    found = sweep.scenario({"instances": 2, "gpu_blocks": 100})
    assert [(pool.instances, pool.gpu_blocks) for pool in fleet(found)] == [(2, 2200), (1, 100)]


def test_drafts_of_a_sweep_need_an_acceptance_and_it_needs_drafts(tmp_path):
    drafts = '[engine]\nspeculative = { tokens = 3, method = "eagle" }'
    with pytest.raises(InputError, match=r"engine\.speculative\.acceptance: missing; a number"):
        load_sweep(sweep_of(tmp_path, "seed = [1]", drafts))
    none = '[engine]\nspeculative = { tokens = 0, method = "eagle", acceptance = 0.5 }'
    with pytest.raises(InputError, match=r"acceptance: has no effect: needs engine\.speculative"):
        load_sweep(sweep_of(tmp_path, '"engine.speculative.acceptance" = [0.5, 0.6]', none))


@pytest.mark.parametrize("group", ["hybrid", "spec", "mix", "pd", "pipeline"])
def test_recorded_scenarios_are_read_and_written_as_they_are(group):
    for name in vllm_cases(f"vllm2/{group}"):
        given = load(name, f"vllm2/{group}")["scenario"]
        made = parse_scenario(given, name)
        assert is_explicit(made)
        again = parse_scenario(made.to_trace(), name)
        assert (again.engine, again.cache) == (made.engine, made.cache)
        assert fleet(again) == fleet(made)


@pytest.mark.parametrize(
    ("cluster", "key"),
    [
        ({"pools": [{"instances": 2000, "gpu_blocks": 10**6}]}, "cluster.pools[0].gpu_blocks"),
        (
            TABLES | {"decode": {"instances": 2000, "gpu_blocks": 10**6}},
            "cluster.decode.gpu_blocks",
        ),
        (
            APART | {"decode_instances": 2000, "decode_gpu_blocks": 10**6},
            "cluster.decode_gpu_blocks",
        ),
    ],
)
def test_too_many_blocks_are_told_by_the_key_of_their_pool(cluster, key):
    assert refused(cluster=cluster).startswith(f"{key}: 1,000,000 blocks on each of 2,00")


STATES = [{"kind": "state"}, {"kind": "state"}, {"kind": "full"}]


def test_groups_of_states_are_kept_in_order():
    groups = [{"kind": "full"}, {"kind": "state", "checkpoint": True}]
    assert scenario(cache={"groups": groups}).to_trace()["cache"] == {"groups": groups}
    assert is_explicit(scenario(cache={"groups": STATES}))


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (STATES[:2], "cache.groups: only states: there must be a group of kind 'full', too"),
        ([*GROUPS, STATES[0]], "cache.groups: states beside sliding windows: no rule"),
        ([STATES[0], GROUPS[0], STATES[0]], "cache.groups: groups of states stand together"),
        ([{"kind": "state", "window": 9}, GROUPS[0]], "cache.groups[0].window: kind 'state' has"),
        ([{"kind": "full", "checkpoint": True}], "cache.groups[0].checkpoint: kind 'full' has"),
        (
            [{"kind": "state", "checkpoint": True}, STATES[0], GROUPS[0]],
            "cache.groups: checkpoint must be the same in all groups of states",
        ),
        ([{"kind": "state", "checkpoint": 1}, GROUPS[0]], "cache.groups[0].checkpoint: expected"),
    ],
)
def test_wrong_groups_of_states_are_refused(groups, message):
    assert refused(cache={"groups": groups}).startswith(message)


@pytest.mark.parametrize(
    ("sections", "message"),
    [
        (
            {"engine": {"speculative": EAGLE}, "cache": {"block_size": 3}},
            "engine.speculative.tokens: 3 fill a block of states",
        ),
        (
            {
                "engine": {
                    "speculative": {"tokens": 2, "method": "draft", "acceptance": 0.5},
                    "max_num_batched_tokens": 64,
                    "max_num_seqs": 8,
                },
                "cache": {"block_size": 64},
            },
            "engine.max_num_batched_tokens: 64 is a block of states, and a draft model takes one",
        ),
        ({"engine": WHOLE}, "engine.enable_chunked_prefill: false, but vLLM needs chunks"),
        (
            {"cache": {"cpu_blocks": 9, "transfer_bandwidth": 1.0}},
            "cache.offload: with cache.groups there is only",
        ),
    ],
)
def test_what_was_not_recorded_beside_states_is_refused(sections, message):
    cache = {"groups": STATES, **sections.pop("cache", {})}
    assert refused(cache=cache, **sections).startswith(message)


KEPT = "prefix_cache_retention_interval"


def test_what_windows_keep_in_the_cache_ends_with_blocks():
    for interval in (0, 16, 64):
        made = scenario(cache={"groups": GROUPS, KEPT: interval})
        assert made.cache.prefix_cache_retention_interval == interval
        assert made.to_trace()["cache"] == {"groups": GROUPS, KEPT: interval}
    assert scenario(cache={"groups": GROUPS}).cache.prefix_cache_retention_interval is None
    message = refused(cache={"groups": GROUPS, KEPT: 24})
    assert message.startswith(f"cache.{KEPT}: 24 is no multiple of block_size (16)")
    assert f"cache.{KEPT}: must be at least 0" in refused(cache={"groups": GROUPS, KEPT: -16})
    replica = refused(engine={"rules": "blis"}, cache={KEPT: 0})
    assert replica == f"cache.{KEPT}: rules 'blis' has a cache that keeps all blocks"


def test_what_windows_keep_has_no_effect_without_windows_or_caching(tmp_path):
    grid = f'"cache.{KEPT}" = [0, 16]'
    windows = '[cache]\ngroups = [{ kind = "full" }, { kind = "sliding", window = 64 }]'
    assert len(load_sweep(sweep_of(tmp_path, grid, windows)).axes) == 1
    for sections in ("", f"{windows}\n[engine]\nenable_prefix_caching = false"):
        with pytest.raises(InputError, match="has no effect: needs enable_prefix_caching = true"):
            load_sweep(sweep_of(tmp_path, grid, sections))


def test_a_number_too_long_to_be_written_is_like_no_word(tmp_path):
    assert did_you_mean(16**5000, ["fcfs"]) == ""
    sweep = sweep_of(tmp_path, 'policy = ["a"]', "[policies.a]\n")
    with pytest.raises(InputError, match=r"unknown policy an integer of 20,?000 bits; allowed"):
        load_sweep(sweep, (f"grid.policy=[0x{'f' * 5000}]",))


def test_the_kv_role_of_prefill_instances_matters_asynchronously_alone(tmp_path):
    both = "[cluster]\nkv_transfer_bandwidth = 1.0\nprefill = { instances = 1 }\n"
    both += 'decode = { instances = 1 }\nprefill_kv_role = "kv_both"\n'
    grid = '"cache.gpu_blocks" = [100, 200]'
    made = load_sweep(sweep_of(tmp_path, grid, both + "[engine]\nasync_scheduling = true"))
    assert made.scenario(made.first_point).cluster.prefill_kv_role == "kv_both"
    with pytest.raises(InputError, match="prefill_kv_role: has no effect: needs engine"):
        load_sweep(sweep_of(tmp_path, grid, both))
    known = "cluster.prefill_kv_role: .*'kv_consumer'; allowed: kv_producer, kv_both"
    with pytest.raises(InputError, match=known):
        load_sweep(sweep_of(tmp_path, grid, both.replace("kv_both", "kv_consumer")))
    message = refused(cluster={"instances": 2, "prefill_kv_role": "kv_both"})
    assert message.endswith("has no effect: needs prefill and decode apart")
