"""What the recorder reads and writes, and what it refuses."""

import copy
import gzip
from types import SimpleNamespace

import pytest
from record_vllm import building, traces
from record_vllm.cases import make_case
from record_vllm.features import FEATURES
from record_vllm.requests import check_failures, read_requests, token_id
from record_vllm.scenario import Link, read_scenario

from kvsweep.errors import InputError


def scenario(**sections):
    return {
        "engine": {"max_num_seqs": 4, "max_num_batched_tokens": 32},
        "cache": {"block_size": 4, "gpu_blocks": 10},
        "latency": {"alpha": [100.0, 1.0, 0.0], "beta": [1000.0, 10.0, 1.0]},
    } | sections


def request(number=0, **more):
    entry = {"id": number, "arrival_us": 10, "prompt": [[1, 5], [2, 3]], "output": [3, 4]}
    return entry | more


def trace(*requests, **sections):
    return {
        "format": traces.FORMAT,
        "scenario": scenario(**sections),
        "requests": list(requests) or [request()],
    }


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_saved_trace_is_the_one_that_is_loaded(tmp_path, name):
    traces.save(tmp_path / name, trace())
    assert traces.load(tmp_path / name) == trace()
    first = (tmp_path / name).read_bytes()
    traces.save(tmp_path / name, trace())
    assert (tmp_path / name).read_bytes() == first  # no time of writing in it


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"[]", "format: expected 'kvsweep-trace/1', got a list"),
        (b'{"format": "kvsweep-trace/2"}', "format: expected 'kvsweep-trace/1'"),
        (b'{"format": ', "malformed JSON"),
        (gzip.compress(b"{}", mtime=0)[:-6], "truncated or damaged"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_line(tmp_path, content, told):
    path = tmp_path / "trace.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"trace\.json") as caught:
        traces.load(path)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_trace_without_a_recording_is_refused_where_one_is_needed():
    with pytest.raises(InputError, match=r"x\.json: expected: missing"):
        traces.recording_of(trace(), "x.json")


def test_defaults_are_those_of_vllm():
    found = read_scenario(scenario(engine={}), "x")
    assert (found.max_num_seqs, found.max_num_batched_tokens) == (256, 2048)
    assert found.enable_chunked_prefill
    assert found.enable_prefix_caching
    assert not found.async_scheduling
    assert found.groups[0].window is None
    assert found.offload is None


def test_times_are_whole_microseconds():
    found = read_scenario(scenario(latency={"alpha": [100.9, 1.5, 0], "beta": [7.9, 1, 0]}), "x")
    assert found.queue_us(10, 3) == 10 + 105
    assert found.step_us(2, 100) == 9


@pytest.mark.parametrize(
    ("section", "values", "told"),
    [
        ("engine", {"max_num_sequences": 4}, "engine.max_num_sequences: unknown key; did you mean"),
        ("engine", {"rules": "blis"}, "engine.rules: expected 'vllm', got 'blis'"),
        ("engine", {"watermark": 2}, "engine.watermark: expected a number from 0 to 1, got 2"),
        ("engine", {"watermark": True}, "engine.watermark: expected a number"),
        ("engine", {"max_num_seqs": 4, "max_num_batched_tokens": 3}, "is less than max_num_seqs"),
        ("engine", {"pipeline_parallel_size": 65}, "pipeline_parallel_size: expected an integer"),
        ("engine", {"speculative": {"tokens": 2}}, "speculative.method: missing"),
        ("cache", {"gpu_blocks": 0}, "cache.gpu_blocks: expected an integer from 1 to"),
        ("cache", {}, "cache.gpu_blocks: missing"),
        ("cache", {"gpu_blocks": 9, "cpu_blocks": 9}, "cache.cpu_blocks: unknown key"),
        ("cache", {"gpu_blocks": 9, "offload": "watermark"}, "cache.offload: expected 'vllm'"),
        ("cache", {"gpu_blocks": 9, "groups": [{"kind": "sliding"}]}, "groups[0].window: missing"),
        ("cluster", {"instances": 4}, "cluster.instances: expected an integer from 1 to 1"),
        ("latency", {"alpha": [0, 0, 0], "beta": [1, 2]}, "latency.beta: expected 3 numbers"),
        ("latency", {"model": "x"}, "latency.alpha: missing"),
        ("router", {}, "scenario.router: unknown key"),
        ("engine", [], "scenario.engine: expected an object, got a list"),
    ],
)
def test_what_the_recorder_would_ignore_or_get_wrong_is_refused(section, values, told):
    with pytest.raises(InputError) as caught:
        read_scenario(scenario(**{section: values}), "trace.json")
    assert str(caught.value).startswith("trace.json: scenario")
    assert told in str(caught.value)


def test_each_side_has_a_tier_of_its_own_or_that_of_all_or_none():
    cluster = {"prefill_instances": 1, "decode_instances": 1, "prefill_cpu_blocks": 0}
    cache = {"gpu_blocks": 9, "offload": "vllm", "cpu_blocks": 7}
    found = read_scenario(scenario(cluster=cluster, cache=cache), "x")
    tiers = [found.of_role(role).offload for role in ("prefill", "decode")]
    assert [tier and tier.cpu_blocks for tier in tiers] == [None, 7]
    with pytest.raises(InputError, match=r"cluster\.decode_cpu_blocks"):
        read_scenario(scenario(cluster=cluster | {"decode_cpu_blocks": 9}), "x")


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"engine": {"speculative": {"tokens": 2, "method": "draft"}}}, "engine.speculative"),
        ({"cache": {"gpu_blocks": 9, "offload": "vllm", "cpu_blocks": 9}}, "cache.offload"),
        ({"cluster": {"prefill_instances": 1, "decode_instances": 1}}, "cluster.prefill_instances"),
    ],
)
def test_drafts_offload_and_disaggregation_are_refused_beside_a_pipeline(sections, told):
    read_scenario(scenario(**sections), "x")
    values = scenario(**sections)
    values["engine"] = values["engine"] | {"pipeline_parallel_size": 2}
    with pytest.raises(InputError) as caught:
        read_scenario(values, "x")
    assert f"x: scenario.{told}: not with engine.pipeline_parallel_size" in str(caught.value)


def test_a_pipeline_has_a_step_on_its_way_for_each_stage():
    def steps(**engine):
        return read_scenario(scenario(engine=engine), "x").steps_in_flight

    assert (steps(), steps(async_scheduling=True)) == (1, 2)
    assert steps(pipeline_parallel_size=4) == 4
    assert steps(pipeline_parallel_size=4, async_scheduling=True) == 5


def test_a_release_that_runs_a_pipeline_otherwise_is_refused():
    found = read_scenario(
        scenario(engine={"pipeline_parallel_size": 4, "async_scheduling": True}), "x"
    )

    def check(in_flight, **scheduler):
        taken = SimpleNamespace(
            max_num_running_reqs=found.max_num_seqs,
            max_num_scheduled_tokens=found.max_num_batched_tokens,
            num_spec_tokens=0,
            **scheduler,
        )
        config = SimpleNamespace(**in_flight)
        building._check(taken, found, config)

    five = {"max_concurrent_batches": 5}
    check(five, use_v2_model_runner=True, decode_stagger=4)
    with pytest.raises(InputError, match="steps between decodes: vLLM took 1 for 4"):
        check(five, use_v2_model_runner=False, decode_stagger=4)
    with pytest.raises(InputError, match="steps in flight: vLLM took 4 for 5"):
        check({"max_concurrent_batches": 4}, use_v2_model_runner=True, decode_stagger=4)
    with pytest.raises(InputError, match="steps in flight: vLLM took None for 5"):
        check({}, use_v2_model_runner=True, decode_stagger=4)


def test_blocks_of_a_request_that_could_run_alone():
    found = read_scenario(scenario(), "x")  # 10 blocks of 4 tokens
    assert found.can_ever_run(30, 11)  # the last token of an output needs no room
    assert not found.can_ever_run(30, 12)


def test_a_window_keeps_few_blocks_of_a_long_request():
    groups = [{"kind": "sliding", "window": 4}]
    engine = {"max_num_seqs": 1, "max_num_batched_tokens": 4}
    cache = {"block_size": 4, "gpu_blocks": 3, "groups": groups}
    assert read_scenario(scenario(engine=engine, cache=cache), "x").can_ever_run(1000, 1000)
    slow = engine | {"async_scheduling": True}  # two steps in flight
    assert not read_scenario(scenario(engine=slow, cache=cache), "x").can_ever_run(1000, 1000)


def test_without_chunks_a_step_is_the_longest_request():
    engine = {"max_num_seqs": 1, "max_num_batched_tokens": 20, "enable_chunked_prefill": False}
    found = read_scenario(scenario(engine=engine), "x")
    assert found.can_ever_run(15, 5)
    assert not found.can_ever_run(15, 6)
    assert not found.is_short_enough(15, 6)


def test_tokens_stand_for_content():
    (first,) = read_requests(trace(request(prompt=[[1, 2], [0, 1]])), "x")
    assert first.prompt_ids() == [token_id(1, 0), token_id(1, 1), token_id(0, 0)]
    assert first.output_ids(2, 2) == [token_id(3, 2), token_id(3, 3)]
    assert token_id(0, 2**24 - 1) < token_id(1, 0)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        (request(after=0), r"requests\[1\].*after"),
        (request(patience_us=5), r"requests\[1\]\.patience_us: not for the recorder"),
        (request(accepted=[-1]), r"requests\[1\]\.accepted: expected a list of integers"),
        (request(output=[3, 0]), r"requests\[1\]\.output"),
        (3, r"requests\[1\]: expected an object"),
    ],
)
def test_requests_that_need_a_client_or_are_malformed_are_refused(entry, told):
    if isinstance(entry, dict):
        entry["id"] = 1
    with pytest.raises(InputError, match=told):
        read_requests(trace(request(), entry), "x")


@pytest.mark.parametrize("feature", FEATURES)
def test_random_cases_are_valid_and_the_same_each_time(feature):
    for seed in range(25):
        case = make_case(feature, seed)
        assert case == copy.deepcopy(make_case(feature, seed))
        found = read_scenario(case["scenario"], "case")
        requests = read_requests(case, "case")
        fits = [found.can_ever_run(r.prompt_tokens, r.output_tokens) for r in requests]
        assert sum(fits) > len(fits) / 2
        assert (found.disaggregation is not None) == feature.startswith("pd")
    assert make_case(feature, 1) != make_case(feature, 2)


def test_random_cases_reach_the_feature_of_their_name():
    found = [read_scenario(make_case("offload", s)["scenario"], "x") for s in range(40)]
    assert all(case.offload for case in found)
    assert {case.async_scheduling for case in found} == {True, False}
    assert {case.offload.eviction for case in found} == {"lru", "arc"}
    assert Link(10, 100.0) in {case.offload.link for case in found}


def test_random_pipelines_have_all_kinds_of_engines():
    found = [read_scenario(make_case("pipeline", s)["scenario"], "x") for s in range(80)]
    assert {case.pipeline_parallel_size for case in found} == {2, 3, 4, 5, 8}
    for name in ("async_scheduling", "enable_chunked_prefill", "enable_prefix_caching"):
        assert {getattr(case, name) for case in found} == {True, False}
    windows = [case for case in found if any(group.window for group in case.groups)]
    assert 0 < len(windows) < len(found) / 2
    states = [read_scenario(make_case("pipeline-state", s)["scenario"], "x") for s in range(20)]
    assert all(case.has_states and case.pipeline_parallel_size > 1 for case in states)


def test_pulls_fail_with_leases():
    lease = {"kv_lease_us": 900, "kv_load_failure_policy": "recompute"}
    apart = {"prefill_instances": 1, "decode_instances": 1}
    found = read_scenario(scenario(cluster=apart | lease), "x").disaggregation
    assert (found.lease_us, found.heartbeats) == (900, True)
    other = read_scenario(scenario(cluster=apart | {"kv_heartbeats": False}), "x").disaggregation
    assert (other.lease_us, other.heartbeats) == (None, False)
    assert found.recomputes
    with pytest.raises(InputError, match=r"cluster\.kv_load_failure_policy: .*fail"):
        read_scenario(scenario(cluster=apart | lease | {"kv_load_failure_policy": "f"}), "x")
    requests = read_requests(trace(request(pull_fails=True)), "x")
    check_failures(found, requests)
    with pytest.raises(InputError, match=r"requests\[0\]\.pull_fails: .* cluster\.kv_lease_us"):
        check_failures(read_scenario(scenario(cluster=apart), "x").disaggregation, requests)


def test_random_leases_are_renewed_or_not_and_end_early_or_late():
    cases = [make_case("pd-lease", seed) for seed in range(60)]
    found = [read_scenario(case["scenario"], "x") for case in cases]
    layouts = [case.disaggregation for case in found]
    assert {layout.heartbeats for layout in layouts} == {True, False}
    assert {layout.recomputes for layout in layouts} == {True, False}
    steps = [one.disaggregation.lease_us / one.beta[0] for one in found]
    assert min(steps) < 10 < 100 < max(steps)
    failing = [any(request["pull_fails"] for request in case["requests"]) for case in cases]
    assert set(failing) == {True, False}


def test_what_windows_keep_ends_with_blocks():
    def kept(interval):
        cache = {"block_size": 4, "gpu_blocks": 9, "prefix_cache_retention_interval": interval}
        return read_scenario(scenario(cache=cache), "x").retention

    assert [kept(interval) for interval in (None, 0, 8)] == [None, 0, 8]
    with pytest.raises(InputError, match="retention_interval: 6 is no multiple of block_size, 4"):
        kept(6)


def test_a_head_beside_offload_and_windows_alone_is_refused():
    cache = {"block_size": 4, "gpu_blocks": 9, "offload": "vllm", "cpu_blocks": 9}
    engine = {"max_num_seqs": 1, "max_num_batched_tokens": 20}
    engine["speculative"] = {"tokens": 2, "method": "eagle"}
    assert read_scenario(scenario(engine=engine, cache=cache), "x").drafts == 2
    cache["groups"] = [{"kind": "sliding", "window": 8}, {"kind": "full"}, {"kind": "full"}]
    assert read_scenario(scenario(engine=engine, cache=cache), "x").head == 1
    cache["groups"] = [{"kind": "sliding", "window": 8}]
    with pytest.raises(InputError, match=r"method: 'eagle', beside a connector and windows alone"):
        read_scenario(scenario(engine=engine, cache=cache), "x")


def test_prefill_instances_may_have_both_roles_of_vllm():
    apart = {"prefill_instances": 1, "decode_instances": 1}
    usual = read_scenario(scenario(cluster=apart), "x").disaggregation
    assert usual.prefill_kv_role == "kv_producer"
    cases = [make_case("pd-lease-both", seed)["scenario"] for seed in range(4)]
    found = [read_scenario(case, "x") for case in cases]
    assert {case.disaggregation.prefill_kv_role for case in found} == {"kv_both"}
    assert all(case.async_scheduling for case in found)
    with pytest.raises(InputError, match=r"cluster\.prefill_kv_role: .*kv_producer"):
        read_scenario(scenario(cluster=apart | {"prefill_kv_role": "kv_consumer"}), "x")
