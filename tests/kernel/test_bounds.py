"""Times and memory of a simulation: refused beforehand, or ended with a status that says why."""

import pytest

from kvsweep import replay
from kvsweep.config import load_sweep, parse_scenario
from kvsweep.errors import InputError
from kvsweep.grid import plan
from kvsweep.limits import MAX_STEP_US, MAX_TIME_US
from kvsweep.nominal import SECONDS_PER_REQUEST
from kvsweep.policies import Status
from kvsweep.records import LaneStatus
from kvsweep.simulate.logged import run_single
from kvsweep.workload.traces import load_trace

LATE = "simulated time beyond what can be added up: is the rate or a latency wrong?"


def trace(*arrivals, scenario=None, prompt=40, output=9, **more):
    rows = [
        {"id": i, "arrival_us": at, "prompt": [[2 * i, prompt]], "output": [2 * i + 1, output]}
        for i, at in enumerate(arrivals)
    ]
    rows = [row | {key: values[i] for key, values in more.items()} for i, row in enumerate(rows)]
    latency = {"latency": {"beta": [1000, 10, 5]}}
    return {"format": "kvsweep-trace/1", "scenario": latency | (scenario or {}), "requests": rows}


SPEED = {"transfer_bandwidth": 1.0}


def run(given):
    loaded = load_trace(given)
    return run_single(parse_scenario(loaded.scenario, "trace"), loaded.requests)


@pytest.mark.parametrize(
    ("latency", "message"),
    [
        ({"beta": [1e12]}, "latency: a step of this workload may take 1e+12 us, at most 4,294"),
        ({"beta": [1, 1e9, 1]}, "latency: a step of this workload may take 9.8e+10 us"),
        ({"beta": [1, 1, 1, 1e12]}, "latency: a step of this workload"),
        ({"beta": [1], "memory": [1e12]}, "latency: a step of this workload"),
        ({"beta": [1], "memory": [1], "experts": [1e12, 0.1]}, "latency: a step of this workload"),
        ({"beta": [1], "window": [2, 1e11]}, "are simulated: beta, memory, window, first_steps_us"),
        ({"beta": [1], "memory": [1], "window": [9, 0, 0, 0, 1e11]}, "latency: a step of this"),
        ({"beta": [1], "first_steps_us": [0, 10**13]}, "latency: a step of this workload"),
        ({"alpha": [1, 1e12], "beta": [1]}, "0.5 s"),
        ({"alpha": [0, 1e12, 0], "beta": [1]}, "latency.alpha: the longest prompt waits"),
    ],
)
def test_times_that_no_server_has_are_refused_at_the_latency(latency, message):
    given = trace(0, 5, scenario={"latency": latency}, prompt=4000 if "alpha" in latency else 40)
    if message == "0.5 s":
        message = "latency.alpha: the longest prompt waits 4e+15 us"
    with pytest.raises(InputError) as caught:
        run(given)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("latency", "least"),
    [
        ({"beta": [0, 0, 0]}, "0"),
        ({"beta": [0.4, 9, 0.5]}, "0.9"),
        ({"beta": [0, 9, 0], "memory": [0.5, 0.4, 0]}, "0.5"),
        ({"beta": [0, 0.5, 9], "memory": [0, 9, 0.4]}, "0.5"),
    ],
)
def test_steps_of_no_time_are_refused(latency, least):
    with pytest.raises(InputError, match=f"latency: a step may take {least} us, of which"):
        replay(trace(0, 5, scenario={"latency": latency}))


def test_steps_of_a_microsecond_are_simulated():
    of_experts = {"beta": [0], "memory": [0, 0.001], "experts": [4000, 0.03]}
    for latency in ({"beta": [1, 0, 0]}, {"beta": [0, 9, 9], "memory": [0, 0, 9]}, of_experts):
        assert replay(trace(0, 5, scenario={"latency": latency})).attrs["status"] == "ok"


def test_slow_transfers_are_refused_where_there_is_a_tier():
    cache = {"transfer_bandwidth": 1e-6, "block_size": 4, "gpu_blocks": 5000}
    slow = {"cache": cache}
    assert run(trace(0, prompt=15_000, scenario=slow)).status is Status.OK
    slow = {"cache": cache | {"cpu_blocks": 5}}
    with pytest.raises(InputError, match=r"a step of this workload may take .* cache.transfer_"):
        run(trace(0, prompt=15_000, scenario=slow))


def test_the_longest_step_is_simulated_to_the_microsecond():
    longest = {"latency": {"beta": [MAX_STEP_US]}}
    found = run(trace(0, 5, scenario=longest))
    assert found.status is Status.OK
    assert found.outputs.progress["finish"].tolist() == [9 * MAX_STEP_US, 10 * MAX_STEP_US]


def test_arrivals_up_to_the_limit_are_simulated():
    found = run(trace(0, MAX_TIME_US))
    assert found.status is Status.OK
    assert found.outputs.e2e.tolist() == [9440, 9440]
    assert found.outputs.delay.tolist() == [0, 0]


@pytest.mark.parametrize("closed_loop", [False, True])
@pytest.mark.parametrize("instances", [1, 3])
def test_a_lane_that_runs_too_long_ends_with_a_status(closed_loop, instances):
    # Steps of 71 minutes, 9 days of them for each of a million tokens.
    slow = {"latency": {"beta": [MAX_STEP_US]}, "cluster": {"instances": instances}}
    more = {"output": 2**17}
    count = 2 * instances
    rows = trace(*range(count), scenario=slow, **more)
    if closed_loop:
        rows["requests"][-1] |= {"after": 0, "think_us": 5}
    rows["scenario"]["cache"] = {"gpu_blocks": 2**24}
    found = run(rows)
    assert (found.status, found.detail) == (Status.FAILED, LATE)
    assert found.outputs.tallies[0]["status"] == LaneStatus.TIME_LIMIT
    for name in ("used_time", "itl_sum", "delay_sum", "ttft_sum", "e2e_sum", "makespan"):
        assert found.outputs.tallies[0][name] >= 0
    assert found.outputs.progress["last_token"].max() <= 2**47 + 2**32


def test_a_chain_of_thinkers_ends_with_the_status():
    rows = trace(0, 0, 0)
    for i in (1, 2):
        rows["requests"][i] |= {"after": i - 1, "think_us": MAX_TIME_US}
    found = run(rows)
    assert (found.status, found.detail) == (Status.FAILED, LATE)


def test_queue_entries_too_late_to_begin_end_with_the_status():
    late = {"latency": {"alpha": [0, 9.9e11, 0], "beta": [10]}}
    found = run(trace(MAX_TIME_US, prompt=100, scenario=late))
    assert (found.status, found.detail) == (Status.FAILED, LATE)


def test_a_gap_that_cannot_be_sorted_ends_with_the_status():
    # The second request takes all blocks of the first for more than six days.
    cache = {"block_size": 1, "gpu_blocks": 1100}
    engine = {"scheduler": "priority", "max_num_seqs": 2}
    slow = {"latency": {"beta": [2e9]}, "cache": cache, "engine": engine}
    rows = trace(0, 4 * 10**9, scenario=slow, output=900, priority=[5, 0])
    rows["requests"][1]["output"][1] = 1000
    found = run(rows)
    assert found.outputs.progress["preemptions"].tolist() == [1, 0]
    assert (found.status, found.detail) == (Status.FAILED, LATE)


def test_an_overhead_too_long_to_add_up_is_refused():
    overhead = {"latency": {"alpha": [0, 0, 1e12], "beta": [10]}}
    assert run(trace(0, scenario=overhead)).outputs.e2e.tolist() == [10**12 + 90]


@pytest.mark.parametrize(
    ("cluster", "cache", "message"),
    [
        ({"instances": 500}, {"block_size": 2**18}, "262,144 tokens on each of 500 instances"),
        ({"instances": 8}, {"gpu_blocks": 2**28}, "268,435,456 blocks on each of 8 instances"),
        ({"instances": 8}, {"cpu_blocks": 2**28} | SPEED, "268,435,456 blocks on each of 8"),
    ],
)
def test_clusters_that_no_machine_holds_are_refused(cluster, cache, message):
    given = trace(0, scenario={"cluster": cluster, "cache": cache})
    with pytest.raises(InputError, match=message):
        run(given)


def test_memory_is_told_in_gib():
    scenario = {
        "cluster": {"instances": 2**16},
        "cache": {"block_size": 1, "gpu_blocks": 2**14},
        "engine": {"scheduler": "sjf"},
    }
    rows = trace(*range(2000), scenario=scenario, prompt=2000, output=2)
    with pytest.raises(InputError, match=r"about [\d,]+ GiB, at most 64 GiB .* most of it for blo"):
        run(rows)


def test_more_blocks_than_keys_are_refused():
    rows = trace(*range(40), scenario={"cache": {"block_size": 1}}, prompt=2**23, output=2)
    with pytest.raises(InputError, match=r"cache.block_size: the request list fills 335,544,3"):
        run(rows)


def sweep(tmp_path, *overrides, rest=""):
    file = tmp_path / "s.toml"
    file.write_text(f"[workload]\nrequests = 20\n[latency]\nbeta = [1000, 10, 5]\n{rest}")
    return load_sweep(file, overrides)


def test_a_plan_refuses_latencies_before_anything_is_written(tmp_path):
    with pytest.raises(InputError, match=r"s.toml: latency: a step of this workload may take"):
        plan(sweep(tmp_path, "latency.beta=[1, 1e8]"))
    # The cell that breaks the limit need not be the first.
    axis = '[grid]\n"engine.max_num_batched_tokens" = [256, 100_000]'
    plan(sweep(tmp_path, "latency.beta=[1, 1e7]", "engine.max_num_batched_tokens=256", rest=axis))
    with pytest.raises(InputError, match=r"latency: a step of this workload may take"):
        plan(sweep(tmp_path, "latency.beta=[1, 1e7]", rest=axis))


def test_a_plan_looks_at_no_more_requests_than_it_must(tmp_path):
    """A list of 16 million requests is not drawn, and the plan knows its length all the same."""
    cells = plan(sweep(tmp_path, "workload.requests=16_000_000"))
    assert cells.seconds > 16e6 * SECONDS_PER_REQUEST["vllm"]


def test_too_many_cells_or_tasks_are_refused(tmp_path):
    axes = '[grid]\n"cache.gpu_blocks" = { start = 1000, stop = 1199, step = 1 }\n'
    seeds = "seed = { count = 1_000_000 }"
    with pytest.raises(InputError, match="200,000,000 cells, at most 100,000,000 make a sweep"):
        sweep(tmp_path, rest=axes + seeds)
    many = sweep(tmp_path, "workload.requests=10_000_000", rest=axes + "seed = { count = 400_000 }")
    with pytest.raises(InputError, match=r"80,000,000 cells in .* tasks, at most 1,000,000"):
        plan(many)
