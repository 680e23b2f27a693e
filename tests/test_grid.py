import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweeping import BASE, CLIFF, GRID, make_sweep

from kvsweep import grid
from kvsweep.errors import InputError


@pytest.fixture
def small(tmp_path):
    return grid.plan(make_sweep(tmp_path))


def test_dimensions_follow_the_grid_in_its_order(small):
    assert small.dims == ("policy", "gpu_blocks", "seed")
    assert small.shape == (2, 7, 6)
    assert small.cells == 84


def test_variants_are_all_combinations_of_the_axes_but_the_seed(small):
    found = [(v.cluster.routing, v.cache.gpu_blocks) for v in small.variants]
    blocks = range(100, 161, 10)
    assert found == [(p, b) for p in ("round-robin", "least-loaded") for b in blocks]
    assert small.policies == ("round-robin",) * 7 + ("least-loaded",) * 7


def test_without_a_seed_axis_seed_0_is_run_without_a_dimension(tmp_path):
    text = BASE + '[grid]\n"cache.gpu_blocks" = [100, 200]\n'
    cells = grid.plan(make_sweep(tmp_path, text))
    assert (cells.dims, cells.shape, cells.seeds) == (("gpu_blocks",), (2,), (0,))
    values = np.arange(2 * 1 * 4).reshape(2, 1, 4)
    (task,) = cells.tasks
    assert np.array_equal(cells.arrange(task, values), values[:, 0])


def seconds(tmp_path, **scenario):
    """Return the estimate for a sweep of one block count with some settings."""
    values = "".join(f'"{key}" = [{value}]\n' for key, value in scenario.items())
    return grid.plan(make_sweep(tmp_path, f"{BASE}[grid]\n{values}")).seconds


def test_without_any_axis_there_is_one_cell(tmp_path):
    plan = grid.plan(make_sweep(tmp_path, BASE))
    (task,) = plan.tasks
    assert plan.cells == 1
    assert plan.arrange(task, np.array([[7.0]])).tolist() == 7.0
    assert plan.arrange(task, np.array([[[1, 2]]])).tolist() == [1, 2]


def test_what_costs_more_is_estimated_to_take_longer(tmp_path):
    blocks = {"cache.gpu_blocks": 100}
    plain = seconds(tmp_path, **blocks)
    transfers = {"cache.cpu_blocks": 50, "cache.transfer_bandwidth": 1.0}
    tier = seconds(tmp_path, **blocks, **transfers)
    weighted = {"cluster.routing": '"weighted"'}
    few, many = (
        seconds(tmp_path, **blocks, **weighted, **{"cluster.instances": n}) for n in (2, 64)
    )
    two, eight = (
        seconds(tmp_path, **blocks, **{"engine.pipeline_parallel_size": stages})
        for stages in (2, 8)
    )
    assert plain < few < many
    assert plain < tier
    assert 2 * plain < two < eight


def cut(small, chunks):
    """Return the plan with other chunks."""
    return grid.Plan(**{**vars(small), "chunks": chunks})


def test_tasks_cover_each_cell_once(small):
    count = np.zeros(small.shape, int)
    for task in cut(small, (1, 3, 4)).tasks:
        count[task.region] += 1
    assert (count == 1).all()


@pytest.mark.parametrize(
    "order", ["policy blocks seed", "seed policy blocks", "policy seed blocks"]
)
def test_results_of_a_task_land_at_their_coordinates(tmp_path, order):
    lines = {
        "policy": 'policy = ["round-robin", "least-loaded"]',
        "blocks": '"cache.gpu_blocks" = [100, 110, 120]',
        "seed": "seed = [5, 3, 9, 4]",
    }
    text = BASE + "[grid]\n" + "\n".join(lines[word] for word in order.split())
    cells = cut(grid.plan(make_sweep(tmp_path, text)), (2, 2, 2))
    found = np.full(cells.shape, "", object)
    for task in cells.tasks:
        chosen = cells.variant_indices(task)
        values = np.array(
            [
                [f"{cells.policies[i]} {cells.variants[i].cache.gpu_blocks} {s}" for s in seeds]
                for i in chosen
                for seeds in [cells.seeds_of(task)]
            ],
            object,
        )
        found[task.region] = cells.arrange(task, values)
    axes = {axis.name: axis.values for axis in cells.axes}
    for at in np.ndindex(cells.shape):
        label = {name: axes[name][i] for name, i in zip(cells.dims, at, strict=True)}
        assert found[at] == f"{label['policy']} {label['gpu_blocks']} {label['seed']}"


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    seconds=st.floats(1e-6, 10),
    size=st.integers(8, 10**8),
)
def test_chunks_fit_the_axes_and_bound_time_and_memory(lengths, seconds, size):
    axes = [grid_axis(i, n) for i, n in enumerate(lengths)]
    chunks = grid._chunk_shape(axes, seconds, size)
    assert all(1 <= c <= n for c, n in zip(chunks, lengths, strict=True))
    cells = math.prod(chunks)
    total = seconds * math.prod(lengths)
    longest = max(grid.CHUNK_SECONDS[1], min(total / grid.TASKS_WANTED, grid.LONGEST_SECONDS))
    assert cells == 1 or cells * seconds <= longest * (1 + 1e-9)
    assert cells == 1 or cells * size <= grid.CHUNK_BYTES


def grid_axis(i, length):
    name = "seed" if i == 0 else f"axis{i}"
    return grid.Axis(name, name, tuple(range(length)))


def test_seeds_are_divided_before_variants():
    axes = [grid_axis(1, 10), grid_axis(0, 100)]
    assert grid._chunk_shape(axes, 0.1, 8) == (10, 1)
    assert grid._chunk_shape(axes, 0.2, 8) == (5, 1)


def test_large_sweeps_have_enough_tasks_for_many_workers(tmp_path):
    text = BASE.replace("requests = 20", "requests = 200") + GRID.replace(
        "count = 6", "count = 2000"
    )
    assert len(grid.plan(make_sweep(tmp_path, text)).tasks) >= 16


def test_tasks_of_dear_sweeps_grow_up_to_a_minute():
    """An hour on 1,600 cores is 96,000 tasks of a minute, which one process can follow."""
    axes = [grid_axis(1, 134), grid_axis(0, 100_000)]
    sizes = {seconds: math.prod(grid._chunk_shape(axes, seconds, 8)) for seconds in (1e-4, 0.01, 1)}
    lasting = {seconds: seconds * size for seconds, size in sizes.items()}
    assert 0.9 < lasting[1e-4] <= 1
    assert 12 < lasting[0.01] < 13.5
    assert 30 < lasting[1] <= 60


def test_the_largest_cluster_sets_the_length_of_instance(tmp_path):
    text = BASE + '[grid]\n"cluster.instances" = [1, 5, 3]\n'
    extra = grid.plan(make_sweep(tmp_path, text)).extra
    assert extra == {"quantile": (0.5, 0.9, 0.95, 0.99), "instance": (0, 1, 2, 3, 4)}


def test_the_longest_list_sets_the_length_of_request(tmp_path):
    text = BASE + '[grid]\n"workload.requests" = [10, 30, 20]\n'
    cells = grid.plan(make_sweep(tmp_path, text), keep_requests=True)
    assert cells.extra["request"] == tuple(range(30))


def test_sessions_and_classes_bring_dimensions_of_their_own(tmp_path):
    text = BASE.replace(
        "requests = 20", "requests = 20\nsessions = { rounds = 3, think_time_s = 1 }"
    )
    for name, slo_class in (("a", "batch"), ("b", "critical"), ("c", "gold")):
        text += f'[[workload.clients]]\nid = "{name}"\nslo_class = "{slo_class}"\n'
    cells = grid.plan(make_sweep(tmp_path, text + GRID))
    assert cells.extra["round"] == (0, 1, 2)
    assert cells.extra["slo_class"] == ("critical", "batch", "gold")
    names = [variable.name for variable in cells.variables]
    assert {"ttft_by_class_ms", "injected_by_round"} <= set(names)
    assert "request_ttft_us" not in names


def test_every_trace_is_read_before_anything_is_simulated(tmp_path):
    trace = '{"format": "kvsweep-trace/1", "requests": []}'
    (tmp_path / "trace-0.json").write_text(trace[:-3])
    text = BASE.replace("requests = 20", 'trace = "trace-{seed}.json"') + "[grid]\nseed = [0]\n"
    with pytest.raises(InputError, match=r"trace-0\.json"):
        grid.plan(make_sweep(tmp_path, text))


@pytest.mark.parametrize("metric", ["preemption_rate", "ttft_p99_ms", "tpot_p99_ms", "steps"])
def test_a_cliff_may_ask_for_any_measure(tmp_path, metric):
    text = BASE + GRID + CLIFF.replace("preemption_rate", metric)
    assert grid.plan(make_sweep(tmp_path, text)).cells == 84


@pytest.mark.parametrize("asked", ["tpot", "tpot_p99", "tpot_mean", "tpot_p9_ms"])
def test_a_time_per_token_is_not_taken_for_a_time_to_the_first(tmp_path, asked):
    text = BASE + GRID + CLIFF.replace("preemption_rate", asked)
    with pytest.raises(InputError, match=r"did you mean 'tpot_"):
        grid.plan(make_sweep(tmp_path, text))


@pytest.mark.parametrize(
    "analysis",
    [
        CLIFF.replace("preemption_rate", "preemtion_rate"),
        '[pareto]\nobjectives = ["ttft_p99_ms:min", "preemtion_rate:max"]',
    ],
)
def test_an_unknown_measure_is_told_with_its_line(tmp_path, analysis):
    with pytest.raises(InputError, match=r"small\.toml:\d+: .*did you mean 'preemption_rate'"):
        grid.plan(make_sweep(tmp_path, BASE + GRID + analysis))
