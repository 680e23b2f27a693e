"""Scenarios and requests that the reference does not have are refused in one line."""

import pytest
from replica_cases import LATENCY, request, scenario

from kvsweep.config import parse_scenario, rules
from kvsweep.errors import InputError
from kvsweep.replica import run
from kvsweep.replica import scenario as replica_scenario

ONE = [request(0, (0, 16), (1, 1))]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (scenario({"visit_evictd": True}), r"engine\.blis\.visit_evictd: .*'visit_evicted'"),
        (scenario({"visit_evicted": 1}), r"engine\.blis\.visit_evicted: expected true or false"),
        (scenario(engine={"rules": "vllm"}), r"engine\.rules: the replica runs 'blis'"),
        (scenario(engine={"scheduler": "sfj"}), r"engine\.scheduler: 'sfj'.*did you mean 'sjf'"),
        (scenario(engine={"watermark": 0.1}), r"engine\.watermark: the reference has no such rule"),
        (scenario(cache={"gpu_block": 9}), r"cache\.gpu_block: unknown key.*'gpu_blocks'"),
        (scenario(cluster={"routing": "random"}), r"cluster\.routing: 'random'"),
        (scenario(cluster={"scorers": {"kv": 1}}), r"cluster\.scorers: 'kv'"),
        (scenario(cluster={"admission": "token-bucket"}), r"needs token_bucket_capacity"),
        ({"engine": {}}, r"latency: alpha and beta are needed"),
        ({"latency": {**LATENCY, "beta": [1, 2, 3, 4]}}, r"latency: .*three in beta"),
        (
            {"latency": {**LATENCY, "first_steps_us": [9]}},
            r"latency\.first_steps_us: the reference",
        ),
        ({"latency": {**LATENCY, "memory": [9]}}, r"latency\.memory: the reference has no such"),
        ({"latency": {**LATENCY, "experts": [9, 0.1]}}, r"latency\.experts: the reference has no"),
        ({**scenario(), "worklod": {}}, r"scenario\.worklod: unknown key"),
    ],
)
def test_bad_scenario(bad, message):
    with pytest.raises(InputError, match=message) as caught:
        run(bad, ONE)
    assert "\n" not in str(caught.value)


def test_bad_request_is_named():
    with pytest.raises(InputError, match=r"requests\[1\]: .*output"):
        run(scenario(), [*ONE, {"arrival_us": 0, "prompt": [[0, 1]]}])


def test_vllm_keys_at_their_defaults_are_accepted():
    engine = {
        "watermark": 0.0,
        "async_scheduling": False,
        "enable_prefix_caching": True,
        "reserve_full_prompt": True,
    }
    assert run(scenario(engine=engine, cache={"offload": "watermark"}), ONE).status == "ok"


def test_what_sweep_files_refuse_under_these_rules_is_refused_here_too():
    fixed = rules.only_values("blis")
    assert {"thrashing_window_us", "link"} <= set(fixed["cache"])
    for section, keys in fixed.items():
        for key, only in keys.items():
            assert run(scenario(**{section: {key: only}}), ONE).status == "ok"
            other = not only if isinstance(only, bool) else 123
            with pytest.raises(InputError, match=rf"{section}\.{key}: the reference has no such"):
                run(scenario(**{section: {key: other}}), ONE)
    with pytest.raises(InputError, match=r"cache\.offload: 'write-through' is not in the refer"):
        run(scenario(cache={"offload": "write-through"}), ONE)


def test_a_key_that_is_left_out_is_what_it_is_in_a_sweep_file():
    default = parse_scenario({"engine": {"rules": "blis"}}, "here").model_dump()
    for section, keys in (
        ("cluster", replica_scenario._CLUSTER),
        ("engine", replica_scenario._ENGINE),
        ("cache", replica_scenario._CACHE),
    ):
        for key, value in keys.items():
            # Sweep files name their rules, and whoever has a CPU tier names its bandwidth.
            if key not in ("rules", "transfer_bandwidth"):
                assert default[section][key] == value, (section, key)
