"""What misleads is told, where, and what to do; what is ordinary is not."""

import json
import re
from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from sweeping import make_sweep

import kvsweep
from kvsweep.analysis import cells
from kvsweep.analysis.cells import cells_of
from kvsweep.analysis.room import room_text
from kvsweep.analysis.steadiness import BY_CHANCE, GROWTH, WHILE_FILLING, filling
from kvsweep.analysis.warnings import find_warnings, warnings_in, warnings_of, warnings_of_cliff
from kvsweep.cli import main
from kvsweep.config import load_sweep, parse_scenario
from kvsweep.errors import InputError
from kvsweep.plot import plot_cdf
from kvsweep.simulate.backlog import queue_growth
from kvsweep.webpage.one_store import StoreReport

SWEEPS = Path(__file__).parents[1] / "sweeps"

BASE = {
    "workload": """
requests = 400
rate = 20.0
prompt = { dist = "gaussian", mean = 100, std = 30, min = 16, max = 200 }
output = { dist = "gaussian", mean = 20, std = 5, min = 2, max = 40 }
""",
    "cluster": "instances = 4",
    "engine": "max_num_seqs = 8",
    "cache": "gpu_blocks = 200",
    "latency": "beta = [5000, 10, 5]",
    "grid": "seed = { count = 3 }",
}
"""Far below capacity: ordinary in every way."""


def text(**sections):
    parts = BASE | sections
    return 'title = "t"\n' + "".join(f"[{name}]\n{body}\n" for name, body in parts.items())


def workload(**values):
    """Return the workload of `BASE` with other values."""
    body = BASE["workload"]
    for key, value in values.items():
        body, found = re.subn(rf"(?m)^{key} = .*$", f"{key} = {value}", body)
        body += "" if found else f"{key} = {value}\n"
    return body


@pytest.fixture
def warned(tmp_path):
    """Run a sweep and return its warnings by kind."""

    def run(**sections):
        sweep = make_sweep(tmp_path, text(**sections))
        ds = kvsweep.run(sweep, out=tmp_path / "w.zarr", overwrite=True)
        return {warning.kind: warning for warning in warnings_of(ds)}

    return run


CLIFF = 'metric = "preemption_rate"\nalong = "gpu_blocks"\nthreshold = 0.05'
SIZES = '"cache.gpu_blocks" = [20, 30, 200]\nseed = { count = 3 }'


def test_ordinary_results_have_no_warnings(warned):
    assert warned() == {}
    assert warned(grid='"workload.rate" = [5, 20, 80]\nseed = { count = 3 }') == {}
    assert warned(grid=SIZES, cliff=CLIFF) == {}


def test_a_rate_above_capacity_is_told_where_it_is_worst(warned):
    found = warned(grid='"workload.rate" = [20, 100, 800, 1600]\nseed = { count = 3 }')
    assert list(found) == ["queue-growth"]
    warning = found["queue-growth"]
    assert (warning.cells, warning.of, warning.worst) == (6, 12, {"rate": 1600.0})
    assert warning.text.startswith(
        "queues grow to the end in 6 of 12 cells, most at rate 1,600 (by"
    )
    assert "lower the rate" in warning.text


def test_closed_loops_are_never_above_capacity(warned):
    sessions = '{ rounds = 5, think_time_s = 0.01, arrivals = "closed-loop" }'
    assert warned(workload=workload(rate=10_000.0, sessions=sessions)) == {}


def test_a_burst_is_told_where_a_cliff_is_asked_for(warned):
    burst = workload(rate=10_000.0)
    found = warned(workload=burst, grid=SIZES, cliff=CLIFF)
    assert list(found) == ["burst"]
    assert "400 requests arrive within 0.0" in found["burst"].text
    assert "in all 9 cells: the cliff is that of a burst" in found["burst"].text


def test_a_burst_of_several_rates_is_told_with_the_cell_that_it_is_told_of(warned):
    """The shortest time was told as that of all cells, also of those at less of the rate."""
    grid = '"workload.rate" = [6000, 10000]\n' + SIZES
    text = warned(workload=workload(rate=10_000.0), grid=grid, cliff=CLIFF)["burst"].text
    assert re.match(
        r"400 requests arrive within 0\.0\d+ s at rate 10,000, gpu_blocks \d+, where one takes "
        r"[\d.]+ s to serve; all arrive before one is served in all 18 cells: the cliff ",
        text,
    )


def test_a_burst_without_a_cliff_is_told_if_its_requests_wait(warned):
    found = warned(workload=workload(rate=10_000.0))
    assert list(found) == ["burst"]
    assert "latencies are those of a burst" in found["burst"].text
    assert warned(workload=workload(rate=10_000.0, requests=10)) == {}  # a handful is no queue


def test_requests_that_never_fit_are_told_with_what_the_longest_needs(warned):
    found = warned(grid='"cache.gpu_blocks" = [10, 100]\nseed = { count = 2 }')
    assert list(found) == ["unservable"]
    assert re.search(
        r"in 2 of 4 cells, most at gpu_blocks 10 \(\d+ of 400\)", str(found["unservable"])
    )
    assert re.search(
        r"longest needs 1\d blocks \(\d+ tokens\), cache.gpu_blocks is 10$",
        str(found["unservable"]),
    )


def test_requests_longer_than_the_engine_takes_are_told_with_the_longest(warned):
    found = warned(engine="max_num_seqs = 8\nmax_model_len = 150")
    assert re.search(
        r"longest needs 1\d blocks \(\d+ tokens\), engine.max_model_len is 150$",
        found["unservable"].text,
    )


def test_prompts_above_the_budget_are_told_with_the_budget(warned):
    engine = "max_num_seqs = 8\nenable_chunked_prefill = false\nmax_num_batched_tokens = 150"
    found = warned(engine=engine)
    assert "engine.max_num_batched_tokens is 150" in found["unservable"].text


APART = (
    "kv_transfer_bandwidth = 1.0\nprefill = {{ instances = 1{} }}\ndecode = {{ instances = 1{} }}"
)


@pytest.mark.parametrize(
    ("cluster", "there"),
    [
        ("pools = [{ instances = 2, gpu_blocks = 7 }, { instances = 1, gpu_blocks = 8 }]",
         r"needs 1\d blocks \(\d+ tokens\), cluster.pools\[0\].gpu_blocks is 7, "
         r"cluster.pools\[1\].gpu_blocks 8$"),
        ("pools = [{ instances = 2, gpu_blocks = 7 }, { instances = 1 }]",
         r"cluster.pools\[0\].gpu_blocks is 7$"),
        ("pools = [{ instances = 1, max_model_len = 50 }, { instances = 1, max_model_len = 99 }]",
         r"cluster.pools\[1\].max_model_len is 99$"),
        (APART.format(", gpu_blocks = 6", ""), "cluster.prefill.gpu_blocks is 6$"),
        (APART.format("", ", gpu_blocks = 6"), "cluster.decode.gpu_blocks is 6$"),
        ("kv_transfer_bandwidth = 1.0\nprefill_instances = 1\ndecode_instances = 1\n"
         "prefill_gpu_blocks = 6", "cluster.prefill_gpu_blocks is 6$"),
    ],
)  # fmt: skip
def test_requests_that_never_fit_a_pool_are_told_with_what_it_has(warned, cluster, there):
    cache = "" if cluster.startswith("pools") else BASE["cache"]
    assert re.search(there, warned(cluster=cluster, cache=cache)["unservable"].text)


def test_the_longest_needs_blocks_of_all_groups(warned):
    cache = "gpu_blocks = 15\ngroups = [{ kind = 'full' }, { kind = 'sliding', window = 32 }]"
    found = warned(cache=cache, engine="max_num_seqs = 8\nmax_num_batched_tokens = 16")
    blocks, tokens = map(
        int, re.findall(r"needs (\d+) blocks \((\d+) tok", found["unservable"].text)[0]
    )
    assert blocks == -(-tokens // 16) + 4  # of the window's 31 tokens and a step's 16, and one more


def test_requests_rejected_at_the_door_are_told(warned):
    bucket = "token_bucket_capacity = 1000\ntoken_bucket_refill_rate = "
    admission = 'admission = "token-bucket"\n' + bucket
    assert list(warned(cluster=f"{admission}500")) == ["rejected"]
    assert warned(cluster=f"{admission}100000") == {}


def test_requests_that_fail_are_told(warned):
    keys = "kv_transfer_bandwidth = 1.0\nkv_lease_us = 1000000\nkv_load_failure_rate = "
    apart = "prefill_instances = 1\ndecode_instances = 1\n"
    assert "errored" in warned(cluster=f"{apart}{keys}0.2")
    assert "errored" not in warned(cluster=f"{apart}{keys}0.001")


def test_clients_that_give_up_are_told(warned):
    sessions = "{{ rounds = 2, think_time_s = 0.1, patience_s = {} }}"
    hurried = workload(rate=300.0, sessions=sessions.format(0.2))
    patient = workload(rate=20.0, sessions=sessions.format(100.0))
    assert "timed-out" in warned(workload=hurried)
    assert warned(workload=patient) == {}


def test_a_horizon_that_cuts_requests_off_is_told(warned):
    engine = 'rules = "blis"\nmax_num_seqs = 8\nhorizon_us = '
    options = {
        "workload": workload(requests=50),
        "latency": "alpha = [0, 0, 1]\nbeta = [5000, 10, 5]",
    }
    found = warned(engine=engine + "1_000_000", **options)
    assert "horizon" in found
    assert warned(engine=engine + "100_000_000", **options) == {}


def test_one_instance_that_gets_most_is_told_with_the_scorers(warned):
    """All prompts begin alike, so that the index sends each of them where the first one went."""
    clients = '[{ id = "a", prefix_group = "a", prefix_len = 64 }]'
    cluster = 'instances = 4\nrouting = "weighted"\nscorers = { prefix-affinity = 1.0 }'
    busy = workload(rate=80.0, clients=clients)
    found = warned(workload=busy, cluster=cluster)
    assert "one-instance" in found
    assert "one of 4 instances serves more than half" in found["one-instance"].text
    assert "queue-depth" in found["one-instance"].text
    assert "one-instance" not in warned(
        workload=busy, cluster=cluster.replace("1.0", "1.0, queue-depth = 1.0")
    )


def test_a_router_that_forgets_what_is_cached_is_told_with_the_blocks_it_needs(warned):
    cluster = 'instances = 4\nrouting = "weighted"\nrouter_index_blocks = {}\n'
    cluster += "scorers = {{ prefix-affinity = 1.0, queue-depth = 1.0 }}"
    found = warned(cluster=cluster.format(50))["short-memory"]
    assert "remembers 50 blocks of an instance that caches up to 200" in found.text
    assert "cluster.router_index_blocks to 200" in found.text
    assert "short-memory" not in warned(cluster=cluster.format(200))
    precise = cluster.replace("prefix-affinity = 1.0, ", "").replace("router_index_blocks = {}", "")
    assert "short-memory" not in warned(cluster=precise.format())


def test_a_short_memory_is_that_of_the_role_whose_scorers_ask(warned):
    scorers = 'routing = "weighted", scorers = { prefix-affinity = 1.0, queue-depth = 1.0 }'
    cluster = "router_index_blocks = 50\nkv_transfer_bandwidth = 100.0\n"
    cluster += f"prefill = {{ instances = 2, gpu_blocks = 90, {scorers} }}\n"
    cluster += "decode = { instances = 2, gpu_blocks = 3000 }"
    found = warned(cluster=cluster, cache="")["short-memory"]
    assert "remembers 50 blocks of an instance that caches up to 90" in found.text
    assert "short-memory" not in warned(cluster=cluster.replace("= 50", "= 90"), cache="")


def test_a_short_memory_is_enough_for_caches_that_never_fill(warned):
    cluster = 'instances = 4\nrouting = "weighted"\nrouter_index_blocks = 150'
    assert "short-memory" not in warned(cluster=cluster, cache="gpu_blocks = 100000")


def test_caches_are_full_whatever_the_instances_of_other_cells(warned):
    cluster = 'routing = "weighted"\nrouter_index_blocks = 20\n'
    cluster += "scorers = { prefix-affinity = 1.0, queue-depth = 1.0 }"
    grid = '"cluster.instances" = [2, 4]\nseed = { count = 3 }'
    found = warned(cluster=cluster, cache="gpu_blocks = 100000", grid=grid)["short-memory"]
    assert (found.cells, found.of) == (6, 6)


def test_routing_to_the_busiest_does_what_it_is_for(warned):
    busy = workload(rate=80.0)
    assert "one-instance" not in warned(
        workload=busy, cluster='instances = 4\nrouting = "always-busiest"'
    )


def test_an_idle_cluster_may_use_one_instance(warned):
    """Requests come one by one, and the first of equal instances gets each."""
    lone = workload(rate=0.5)
    assert warned(workload=lone, cluster='instances = 4\nrouting = "least-loaded"') == {}


def test_sizes_above_any_need_are_told_with_what_is_used(warned):
    cold = "enable_prefix_caching = false"
    found = warned(
        engine=cold, grid='"cache.gpu_blocks" = [2000, 3000, 4000]\nseed = { count = 2 }'
    )
    assert list(found) == ["never-full"]
    assert re.search(
        r"2,000 to 4,000 makes no difference.*at most \d+ blocks", str(found["never-full"])
    )


def test_sizes_that_no_request_fits_into_are_not_too_large(warned):
    found = warned(grid='"cache.gpu_blocks" = [1, 2]\nseed = { count = 2 }')
    assert list(found) == ["unservable"]


def test_sizes_of_which_one_is_needed_are_not_told(warned):
    cold = "enable_prefix_caching = false"
    assert (
        warned(engine=cold, grid='"cache.gpu_blocks" = [20, 3000, 4000]\nseed = { count = 2 }')
        == {}
    )


def test_seeds_that_repeat_nothing_are_told(warned):
    """Constant gaps and lengths are the same for all seeds."""
    same = 'requests = 50\nrate = 10.0\narrivals = "constant"\n' + "\n".join(
        f'{name} = {{ dist = "constant", value = 32 }}' for name in ("prompt", "output")
    )
    found = warned(workload=same)
    assert list(found) == ["equal-seeds"]
    assert found["equal-seeds"].text.startswith("all 3 seeds give the same numbers")
    assert warned(workload=same, grid="seed = [7]") == {}


TIER = "gpu_blocks = 60\ncpu_blocks = 500\ntransfer_bandwidth = 1.0\noffload = "


def test_a_tier_that_is_never_read_is_told(warned):
    found = warned(cache=f'{TIER}"write-through"')
    assert list(found) == ["idle-tier"]
    assert "in all 3 cells" in found["idle-tier"].text
    assert found["idle-tier"].text.endswith("take fewer gpu_blocks or prompts that recur")
    other = warned(cache=f'{TIER}"watermark"')["idle-tier"].text
    assert other.endswith("or cache.offload = 'write-through'")


def test_a_tier_that_is_read_is_not_told(warned):
    sessions = "{ rounds = 4, think_time_s = 0.5 }"
    used = warned(workload=workload(sessions=sessions, rate=10.0), cache=f'{TIER}"write-through"')
    assert "idle-tier" not in used


# --- which shipped sweeps are warned about: a golden list ----------------------------------------

SHIPPED = {
    "h8-steady rate=[40,80] gpu_blocks=[2500,6400]": [],
    "h8-steady rate=[200] gpu_blocks=[400,6400]": ["queue-growth"],
    "h8 gpu_blocks=[2000,2200]": ["burst"],
    "h10-core gpu_blocks=[1700,2000]": ["burst", "fast-tier"],  # 13 TB/s, as published
    "h10-confound": ["burst", "fast-tier"],
    "h10-link transfer_bandwidth=[0.1,1]": [],
    "h377": [],
    "joint-kv rate=[100] gpu_blocks=[2000]": ["queue-growth"],
    "joint-kv rate=[5] gpu_blocks=[2000]": [],
    "prefix-invalidation": [],
    "reasoning-kv gpu_blocks=[2000,5000]": [],
    "reasoning-kv gpu_blocks=[100,5000]": ["unservable", "queue-growth"],
    "reasoning-kv-caching gpu_blocks=[600,2000]": [],
    'slo rate=[4,16] policy=["budget-1024"]': [],
    "reasoning-kv-rate rate=[2,16] gpu_blocks=[5000]": [],
}
"""A sweep and what of it is run: which warnings it gives."""

KEYS = {
    "rate": "workload.rate",
    "gpu_blocks": "cache.gpu_blocks",
    "transfer_bandwidth": "cache.transfer_bandwidth",
    "policy": "policy",
}


@pytest.mark.parametrize("case", [pytest.param(case, marks=pytest.mark.long) for case in SHIPPED])
def test_shipped_sweeps_have_these_warnings(case, tmp_path):
    name, *changes = case.split()
    overrides = [f"{KEYS[key]}={value}" for key, value in (text.split("=") for text in changes)]
    seeds = None if name == "prefix-invalidation" else 2
    sweep = load_sweep(SWEEPS / f"{name}.toml", overrides, seeds=seeds)
    ds = kvsweep.run(sweep, out=tmp_path / "s.zarr")
    assert [warning.kind for warning in warnings_of(ds)] == SHIPPED[case]


# --- the measure and its limit, on queues without an engine --------------------------------------


def cell(**values):
    """Return a dataset of one setting with a row of seeds for each value."""
    known = {"injected": 1000.0, "completed": 1000.0, "peak_blocks": 5.0, "makespan_s": 60.0}
    seeds = len(next(iter(values.values())))
    columns = {n: ("seed", np.broadcast_to(v, seeds).copy()) for n, v in (known | values).items()}
    columns["peak_blocks"] = (("seed", "instance"), np.full((seeds, 1), 5.0))
    columns["status"] = ("seed", np.full(seeds, "ok", object))
    return xr.Dataset(columns, coords={"seed": np.arange(seeds)})


def mm1_growth(load, n, lists, rng):
    """Return the growth of queues with random service, by Lindley's recursion."""
    arrival = np.cumsum(rng.exponential(1.0, (lists, n)), axis=1)
    service = rng.exponential(load, (lists, n))
    delay = np.zeros((lists, n))
    for i in range(1, n):
        gap = arrival[:, i] - arrival[:, i - 1]
        delay[:, i] = np.maximum(0.0, delay[:, i - 1] + service[:, i - 1] - gap)
    micro = [np.rint(1e6 * column).astype(np.int64) for column in (arrival, delay)]
    return queue_growth(*micro, np.arange(lists))


@pytest.mark.parametrize("n", [200, 1000, 4000])
def test_queues_below_capacity_are_left_alone_and_those_above_are_told(n):
    rng = np.random.default_rng(n)
    limit = GROWTH + WHILE_FILLING / np.sqrt(n) + BY_CHANCE / np.sqrt(n)
    assert (mm1_growth(0.9, n, 1000, rng) > limit).mean() <= 0.005
    above = (mm1_growth(1.2, n, 300, rng) > limit).mean()
    assert above > {200: 0.1, 1000: 0.4, 4000: 0.95}[n]


def test_more_seeds_tell_a_smaller_growth():
    assert find_warnings(cells_of(cell(queue_growth=[0.15]))) == []
    found = find_warnings(cells_of(cell(queue_growth=[0.14, 0.15, 0.16, 0.15])))
    assert [warning.kind for warning in found] == ["queue-growth"]


def test_seeds_that_differ_are_averaged():
    assert find_warnings(cells_of(cell(queue_growth=[0.3, -0.2, 0.1, -0.1]))) == []


def test_cells_without_numbers_are_counted_and_left_out():
    ds = cell(queue_growth=[0.9, 0.9, 0.9])
    ds["status"].values[:] = ["ok", "livelock", "step_limit"]
    kinds = {warning.kind: warning for warning in find_warnings(cells_of(ds))}
    assert str(kinds["no-numbers"]).startswith(
        "2 of 3 cells have no numbers (1 livelock, 1 step_limit)"
    )
    assert (kinds["no-numbers"].cells, kinds["no-numbers"].of) == (2, 3)
    assert (kinds["queue-growth"].cells, kinds["queue-growth"].of) == (1, 1)


# --- where they are kept --------------------------------------------------------------------------


def test_warnings_are_kept_with_the_store_and_equal_sweeps_keep_equal_ones(tmp_path):
    sweep = make_sweep(tmp_path, text(workload=workload(rate=2000.0)))
    stores = [
        kvsweep.run(sweep, out=tmp_path / name, workers=n) for name, n in (("a", 1), ("b", 2))
    ]
    again = kvsweep.run(sweep, out=tmp_path / "a")
    stored = {ds.attrs["warnings"] for ds in (*stores, again)}
    assert len(stored) == 1
    assert [entry["kind"] for entry in json.loads(stored.pop())] == ["queue-growth"]
    assert kvsweep.warnings_of(kvsweep.open_results(tmp_path / "a")) == warnings_of(stores[0])
    assert (tmp_path / "a/zarr.json").read_bytes() == (tmp_path / "b/zarr.json").read_bytes()


def test_a_sweep_without_warnings_says_so(tmp_path):
    ds = kvsweep.run(make_sweep(tmp_path, text()), out=tmp_path / "a")
    assert ds.attrs["warnings"] == "[]"


def test_a_part_of_a_store_without_stored_ones_is_looked_at(tmp_path):
    grid = '"workload.rate" = [20, 1600]\nseed = { count = 3 }'
    ds = kvsweep.run(make_sweep(tmp_path, text(grid=grid)), out=tmp_path / "a")
    del ds.attrs["warnings"]
    assert [len(warnings_of(ds.sel(rate=rate))) for rate in (20, 1600)] == [0, 1]


def test_what_is_no_sweep_has_no_warnings():
    with pytest.raises(InputError, match="needs the results of a sweep"):
        warnings_of(xr.Dataset({"x": ("y", [1.0])}))


@pytest.mark.parametrize(
    ("begins", "more", "told"),
    [(100.0, "", True), (0.5, "", False), (100.0, "warmup = 1\n", False)],
)
def test_a_trace_that_begins_late_is_told_with_a_way_out(warned, tmp_path, begins, more, told):
    """Mooncake's times, of which somebody has cut the first off."""
    lines = [
        {"timestamp": 1000 * begins + 100 * i, "input_length": 100, "output_length": 20,
         "hash_ids": [i]}
        for i in range(100)
    ]  # fmt: skip
    (tmp_path / "cut.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = warned(workload=f'trace = "cut.jsonl"\n{more}', grid="seed = [0]")
    assert ("late-start" in found) == told
    if told:
        assert "the trace begins at 100 s: throughput_rps" in found["late-start"].text
        window = f'trace = "cut.jsonl"\nslice = {{ from_s = {int(begins)}, to_s = 200 }}\n'
        assert warned(workload=window, grid="seed = [0]") == {}


@pytest.mark.parametrize(
    ("more", "from_s"),
    [("scale = 0.5", 100), ("scale = 2", 100), ("slice = { from_s = 40.5 }", 100), ("", 100)],
)
def test_the_begin_of_a_trace_is_told_by_its_own_clock(warned, tmp_path, more, from_s):
    lines = [
        {"timestamp": 100_000 + 100 * i, "input_length": 9, "output_length": 9, "hash_ids": [i]}
        for i in range(100)
    ]
    (tmp_path / "cut.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = warned(workload=f'trace = "cut.jsonl"\n{more}\n', grid="seed = [0]")
    assert f"with workload.slice, from_s = {from_s}, or" in found["late-start"].text


def test_a_trace_that_begins_late_is_told_beside_cells_that_last_long(warned, tmp_path):
    """Of an overloaded cell the begin is a small part."""
    lines = [
        {"timestamp": 5000 + 100 * i, "input_length": 400, "output_length": 400, "hash_ids": [i]}
        for i in range(100)
    ]
    (tmp_path / "cut.jsonl").write_text("\n".join(map(json.dumps, lines)))
    grid = '"engine.max_num_seqs" = [256, 1]\nseed = [0]'
    found = warned(workload='trace = "cut.jsonl"\n', grid=grid)
    assert (found["late-start"].cells, found["late-start"].of) == (1, 2)


def test_where_no_cell_has_numbers_there_are_no_others_to_speak_of():
    ds = cell(queue_growth=[0.9, 0.9])
    ds["status"].values[:] = ["failed", "failed"]
    (warning,) = find_warnings(cells_of(ds))
    assert str(warning) == "none of 2 cells has numbers (2 failed)"


@pytest.mark.parametrize(
    "part",
    [
        lambda ds: ds.transpose(),
        lambda ds: ds.isel(instance=0),
        lambda ds: ds.drop_vars("peak_blocks"),
        lambda ds: ds.assign(queue_growth=ds["queue_growth"].transpose()),
    ],
)
def test_parts_of_a_dataset_and_other_orders_of_its_axes_have_the_same_warnings(part):
    """Of those all but the whole in its order ended with errors of NumPy's and xarray's."""
    growth = np.zeros((3, 4))
    growth[2] = 0.9
    dims, cells = ("rate", "seed"), dict.fromkeys(("injected", "completed"), 1000.0)
    columns = {name: (dims, np.full((3, 4), value)) for name, value in cells.items()}
    columns |= {"queue_growth": (dims, growth), "makespan_s": (dims, np.full((3, 4), 60.0))}
    columns["peak_blocks"] = ((*dims, "instance"), np.full((3, 4, 1), 5.0))
    columns["status"] = (dims, np.full((3, 4), "ok", object))
    ds = xr.Dataset(columns, coords={"rate": [1, 2, 4], "seed": [0, 1, 2, 3]})
    whole = find_warnings(cells_of(ds))
    assert (whole[0].kind, whole[0].cells, whole[0].worst) == ("queue-growth", 4, {"rate": 4})
    assert find_warnings(cells_of(part(ds)))[0] == whole[0]


@pytest.mark.parametrize(
    ("blocks", "told"),
    [
        (29_204, "raise what is too small: engine.max_model_len is 32,768"),
        (2_047, "raise what is too small: cache.gpu_blocks is 2,047, engine.max_model_len 32,768"),
    ],
)
def test_blocks_with_room_for_the_longest_request_are_not_told_to_be_too_few(blocks, told):
    """A search knows no requests: `kvsweep size` named 29,204 blocks of 16 tokens beside 32,768."""
    engine, cache = {"max_model_len": 32_768}, {"gpu_blocks": blocks}
    scenario = parse_scenario({"engine": engine, "cache": cache}, "t.json")
    assert room_text(scenario, None) == told


# --- requests that are few for their rate --------------------------------------------------------


def few_for_their_rate(seconds, **values):
    """Return cells of 1,000 requests of 5 s each that arrive within some time."""
    spans = [seconds, seconds + 0.01, seconds + 0.02]
    known = {"arrivals_s": spans, "e2e_mean_ms": 6000.0, "scheduling_delay_mean_ms": 1000.0}
    return cell(**(known | values))


@pytest.mark.parametrize(("seconds", "told"), [(26.0, []), (20.0, ["filling"]), (4.9, ["burst"])])
def test_a_cluster_that_fills_up_is_told_where_a_cliff_is_asked_for(seconds, told):
    """1,000 requests were said to keep 63 requests/s on an H100, of which 8,000 keep 53."""
    found = find_warnings(cells_of(few_for_their_rate(seconds), cliff=True))
    assert [warning.kind for warning in found] == told
    if told == ["filling"]:
        assert found[0].text == (
            "1,000 requests arrive within 20 s, where one takes 5 s to serve; so few in all 3 "
            "cells: the cluster fills up for 25% of that time, so that a steady rate is harder to "
            "keep than this; take more requests, or let the first be workload.warmup"
        )


def test_a_comparison_of_clusters_that_fill_up_is_not_told():
    assert find_warnings(cells_of(few_for_their_rate(20.0))) == []


def test_queues_that_grow_are_told_before_a_cluster_that_fills_up():
    found = find_warnings(cells_of(few_for_their_rate(20.0, queue_growth=[0.5] * 3), cliff=True))
    assert [warning.kind for warning in found] == ["queue-growth"]


def test_a_warmup_lets_the_cluster_fill_up():
    """Of 1,250 requests within 25 s the first 250 take the 5 s that it takes to serve one."""
    scenarios = np.empty(1, object)
    scenarios[0] = SimpleNamespace(workload=SimpleNamespace(warmup=250), cluster=None)
    ds = few_for_their_rate(24.0)
    assert filling(cells_of(ds, cliff=True)) is not None
    assert filling(cells_of(ds, cliff=True, scenarios=scenarios)) is None


def test_a_cache_of_windows_that_keeps_all_is_told_where_prefixes_are_hit(warned):
    windows = 'gpu_blocks = 2000\ngroups = [{ kind = "full" }, { kind = "sliding", window = 64 }]'
    rounds = workload(sessions="{ rounds = 3, think_time_s = 0.5 }", rate=5.0)
    told = warned(workload=rounds, cache=windows)["all-kept"].text
    assert told.startswith("windows and states keep all their blocks in the prefix cache")
    assert "prefix_cache_retention_interval, 0 as vLLM does or 16 to keep all" in told
    for interval in (0, 16):
        kept = f"{windows}\nprefix_cache_retention_interval = {interval}"
        assert "all-kept" not in warned(workload=rounds, cache=kept)
    assert "all-kept" not in warned(cache=windows)  # nothing is hit


@pytest.mark.parametrize(
    ("axes", "sweep", "told"),
    [
        ({}, {"grid": {}}, 3),
        ({}, {"grid": {}, "scenario": {"workload": {"warmup": 250}}}, 0),
        ({"warmup": [250, 0]}, {"grid": {"workload.warmup": [250, 0]}}, 3),
        (
            {"policy": ["b", "a"]},
            {"grid": {"policy": ["a", "b"]}, "policies": {"b": {"workload.warmup": 250}}},
            3,
        ),
    ],
)
def test_the_warmup_of_a_stores_sweep_counts(axes, sweep, told):
    """`kvsweep cliff STORE` asked for a warmup that the sweep had, and `kvsweep grid` did not."""
    ds = few_for_their_rate(24.0).expand_dims(axes).assign_attrs(sweep=json.dumps(sweep))
    found = filling(cells_of(ds, cliff=True))
    assert (found.cells if found else 0) == told
    assert found is None or found.worst.get("warmup", 0) == 0
    assert found is None or found.worst.get("policy", "a") == "a"


def test_unequal_memory_is_told_of_the_cells_that_are_looked_at(tmp_path):
    """`kvsweep cliff` and `effects` compared block sizes without the warning that `show` has."""
    grid = '"cache.block_size" = [8, 16]\n"cache.gpu_blocks" = [100, 200]\nseed = { count = 2 }'
    ds = kvsweep.run(make_sweep(tmp_path, text(grid=grid, cache="")), out=tmp_path / "a.zarr")
    kinds = [
        [warning.kind for warning in warnings_in(part) if warning.kind == "unequal-memory"]
        for part in (ds, ds.sel(gpu_blocks=200), ds.sel(block_size=8), ds.sel(block_size=[16]))
    ]
    assert kinds == [["unequal-memory"], ["unequal-memory"], [], []]
    policies = "[policies.a]\ncache.block_size = 8\n[policies.b]\ncache.block_size = 16\n"
    grid = 'policy = ["b", "a"]\n"cache.gpu_blocks" = [100, 200]\nseed = { count = 2 }'
    sweep = make_sweep(tmp_path, text(cache="", grid=f"{grid}\n{policies}"))
    ds = kvsweep.run(sweep, out=tmp_path / "b.zarr")
    for part, told in ((ds, 1), (ds.sel(policy="a"), 0), (ds.sel(policy=["b"]), 0)):
        assert sum(warning.kind == "unequal-memory" for warning in warnings_in(part)) == told


NAMED = 'model = "llama-3.1-8b/h100/tp2"'


@pytest.mark.parametrize(
    ("sections", "told"),
    [
        ({"cache": "", "latency": NAMED}, True),
        ({"cache": "block_size = 32", "latency": NAMED}, True),
        ({"cache": "gpu_blocks = 2200", "latency": NAMED}, False),
        ({"cache": "gpu_tokens = 35200", "latency": NAMED}, False),
        ({"cache": "", "latency": NAMED, "grid": '"cache.gpu_blocks" = [900, 2200]'}, False),
        ({"cache": ""}, False),  # steps of no GPU that is named
    ],
)
def test_a_cache_that_nobody_has_sized_is_told_where_a_gpu_is_named(warned, sections, told):
    found = warned(**sections)
    assert ("assumed-blocks" in found) == told
    if told:
        sized = "2,200 blocks (70,400" if "32" in sections["cache"] else "2,200 blocks (35,200"
        assert found["assumed-blocks"].text.startswith(f"{sized} tokens) in all 3 cells are the")
        assert "latency.model 'llama-3.1-8b/h100/tp2'" in found["assumed-blocks"].text


def test_a_replay_without_blocks_tells_whose_they_are(tmp_path):
    from kvsweep.analysis.replayed import cell_of_replay
    from kvsweep.trace_replay import run_replay

    trace = tmp_path / "t.jsonl"
    lines = [
        {"timestamp": 10 * i, "input_length": 100, "output_length": 9, "hash_ids": [i]}
        for i in range(20)
    ]
    trace.write_text("\n".join(map(json.dumps, lines)))
    for more, told in (([], True), (["cache.gpu_blocks=500"], False)):
        found = run_replay(trace, [f"latency.{NAMED}".replace(" ", ""), *more])
        kinds = [warning.kind for warning in find_warnings(cell_of_replay(found))]
        assert ("assumed-blocks" in kinds) == told


def test_a_link_between_roles_that_no_server_has_is_told_with_its_unit(warned):
    """As of tokens per millisecond: 25 GB/s are 0.381 tokens of 65,536 bytes in a microsecond."""
    roles = "prefill_instances = 2\ndecode_instances = 2\nkv_transfer_bandwidth = "
    known = {"latency": 'model = "llama-3.1-8b/h100/tp2"', "workload": workload(requests=50)}
    found = warned(cluster=f"{roles}380.0", **known)["fast-link"]
    assert found.text.startswith("each GPU sends 24,904 GB/s from prefill to decode in all 3 cells")
    assert "over the 65,536 bytes of a token: 0.381 of 25 GB/s" in found.text
    assert "fast-link" not in warned(cluster=f"{roles}0.381", **known)
    assert "fast-link" not in warned(cluster=f"{roles}13.7", **known)  # NVLink: 900 GB/s
    groups = "gpu_blocks = 200\ngroups = [{ kind = 'full' }, { kind = 'sliding', window = 32 }]"
    half = warned(cluster=f"{roles}760.0", cache=groups, **known)["fast-link"]
    assert "sends 24,904 GB/s" in half.text
    assert "over the 32,768 bytes of a token: 0.763 of 25 GB/s" in half.text
    assert "fast-link" not in warned(cluster=f"{roles}380.0")  # bytes of a token are not known


def test_links_between_roles_of_our_sweeps_and_pages_are_some_that_servers_have():
    """Of 10 tokens in a microsecond: 655 GB/s with the 65,536 bytes of Llama-3.1-8B on two GPUs."""
    files = [*SWEEPS.rglob("*.toml"), *(SWEEPS.parent / "docs").glob("*.md")]
    told = re.compile(r"kv_transfer_bandwidth\"? ?= ?([\d.]+)")
    found = {(file.name, one) for file in files for one in told.findall(file.read_text("utf-8"))}
    assert len(found) > 8
    assert [each for each in found if not 0 < float(each[1]) <= 10] == []


def test_a_cpu_tier_that_no_server_has_is_told_with_its_unit(warned):
    """PCIe 4 moves 0.378 tokens of 65,536 bytes in a microsecond; the reference has 100."""
    known = {"latency": 'model = "llama-3.1-8b/h100/tp2"', "workload": workload(requests=50)}

    def of(speed, rules="", groups=""):
        cache = f"gpu_blocks = 200\ncpu_blocks = 100\n{speed}\n{groups}"
        return warned(cache=cache, engine=f"max_num_seqs = 8\n{rules}", **known)

    found = of("transfer_bandwidth = 380.0")
    assert "fast-link" not in found
    told = found["fast-tier"].text
    assert told.startswith("each GPU moves 24,904 GB/s to and from the memory of its CPU in all 3")
    assert "cache.transfer_bandwidth is in tokens per microsecond" in told
    assert "over the 65,536 bytes of a token: 0.378 of 24.8 GB/s" in told
    for usual in ("transfer_bandwidth = 0.4", "link = 'nvlink-c2c'"):
        assert "fast-tier" not in of(usual)
    told = of("link_gb_per_s = 24800.0")["fast-tier"].text
    assert told.endswith("cache.link_gb_per_s is in 10^9 bytes per second")
    assert "fast-tier" not in of("", rules="rules = 'blis'")
    assert "fast-tier" not in warned(**known)  # no tier


def test_cells_that_were_spread_over_instances_are_refused():
    """As ``xr.broadcast`` and tables of pandas leave them: it ended in a traceback."""
    (ds,) = xr.broadcast(cell(queue_growth=[0.5] * 3))
    with pytest.raises(InputError, match="warnings_of: needs the results of a sweep"):
        warnings_of(ds)


def test_priorities_by_class_without_classes_are_told(warned, tmp_path):
    """They are as 'constant', which nothing told: a trace's classes count as well as clients'."""
    grid = '"engine.priority" = ["slo-class", "constant"]\nseed = { count = 2 }'
    urgent = {"engine": 'max_num_seqs = 8\nscheduler = "priority"', "grid": grid}
    few = workload(requests=50)
    found = warned(**urgent, workload=few)
    assert list(found) == ["one-priority"]
    assert found["one-priority"].text.startswith("engine.priority 'slo-class' gives all requests")
    assert (found["one-priority"].cells, found["one-priority"].of) == (2, 4)
    client = '[[workload.clients]]\nid = "{}"\nrate_fraction = 0.5\nslo_class = "{}"\n'
    for other, kinds in (("batch", []), ("critical", ["one-priority"])):
        clients = client.format("a", "critical") + client.format("b", other)
        assert list(warned(**urgent, workload=few + clients)) == kinds
    for own, kinds in (({}, ["one-priority"]), ({"slo_class": "batch"}, [])):
        requests = [
            {"id": i, "arrival_us": 100_000 * i, "prompt": [[i, 40]], "output": [100 + i, 5]}
            | (own if i else {})
            for i in range(50)
        ]
        trace = tmp_path / "t.json"
        trace.write_text(json.dumps({"format": "kvsweep-trace/1", "requests": requests}))
        one = urgent | {"grid": '"engine.priority" = ["slo-class"]'}
        assert list(warned(**one, workload=f"trace = '{trace}'")) == kinds


def test_a_rate_that_is_never_sent_is_told_where_a_cliff_is_asked_for(warned):
    grid = '"workload.rate" = [1, 5000]\nseed = { count = 3 }'
    cliff = 'metric = "ttft_p99_ms"\nalong = "rate"\nthreshold = 1000'
    found = warned(workload=workload(concurrency=2), grid=grid, cliff=cliff)
    assert list(found) == ["held-back"]
    assert (found["held-back"].cells, found["held-back"].worst) == (3, {"rate": 5000.0})
    assert "are sent each second, not 5,000" in found["held-back"].text
    assert "held-back" not in warned(workload=workload(concurrency=2), grid=grid)


@pytest.mark.parametrize("arrivals", ["fixed", "closed-loop"])
def test_few_sessions_are_told_where_a_grid_has_a_cliff_along_a_rate(warned, arrivals):
    """All had begun before one was over, of which a search told; a grid judged by a request."""
    sessions = f'{{ rounds = 4, think_time_s = 60.0, arrivals = "{arrivals}" }}'
    of = workload(requests=160, sessions=sessions)
    axes = '"workload.rate" = [1.0, 40.0]\nseed = { count = 3 }'
    cliff = 'metric = "tpot_p99_ms"\nalong = "{}"\nthreshold = 20.0'
    sections = {"workload": of, "cache": "gpu_blocks = 4000", "grid": axes}
    found = warned(**sections, cliff=cliff.format("rate"))
    assert list(found) == ["burst"]
    assert "where a session lasts 18" in found["burst"].text
    assert "all arrive before one is over in all 6 cells: the cliff" in found["burst"].text
    # Where a cliff is along sizes loads are as they are asked for, as in a search.
    blocks = '"cache.gpu_blocks" = [200, 4000]\nseed = { count = 3 }'
    found = warned(**sections | {"grid": blocks}, cliff=cliff.format("gpu_blocks"))
    assert not any("session" in each.text for each in found.values())


def test_few_sessions_of_a_trace_are_told_along_its_scale(warned, tmp_path):
    requests = [
        {"id": 4 * s + r, "arrival_us": s * 10**6 + r, "prompt": [[s, 30]], "output": [r, 5]}
        | ({"after": 4 * s + r - 1, "think_us": 10**6} if r else {})
        for s in range(50)
        for r in range(4)
    ]
    trace = tmp_path / "t.json"
    trace.write_text(json.dumps({"format": "kvsweep-trace/1", "requests": requests}))
    grid = '"workload.scale" = [1.0, 10.0, 100.0]\n"cache.gpu_blocks" = [400, 500]'
    cliff = 'metric = "tpot_p99_ms"\nalong = "scale"\nthreshold = 20.0'
    found = warned(workload=f"trace = '{trace}'", grid=grid, cliff=cliff)
    assert (found["filling"].cells, found["filling"].worst["scale"]) == (4, 100.0)
    assert "where a session lasts 3." in found["filling"].text


def test_a_cliff_in_a_whole_store_tells_what_its_run_told_of_the_rate(warned, tmp_path):
    sessions = '{ rounds = 4, think_time_s = 60.0, arrivals = "closed-loop" }'
    axes = '"workload.rate" = [1.0, 40.0]\nseed = { count = 3 }'
    cliff = 'metric = "tpot_p99_ms"\nalong = "rate"\nthreshold = 20.0'
    told = warned(workload=workload(requests=160, sessions=sessions), grid=axes, cliff=cliff)
    ds = kvsweep.open_results(tmp_path / "w.zarr")
    assert {each.kind: each for each in warnings_of_cliff(ds, "rate")} == told
    assert "burst" not in {each.kind for each in warnings_of_cliff(ds, "seed")}
    assert "burst" not in {each.kind for each in warnings_of_cliff(ds.isel(seed=0), "rate")}


CLIENTS = "".join(
    f'[[workload.clients]]\nid = "{name}"\nrate_fraction = 0.5\nslo_class = "{name}"\n'
    for name in ("critical", "batch")
)


def test_classes_that_a_scheduler_by_constant_priorities_ignores_are_told(warned, tmp_path):
    """It went by arrival without a word, whatever the classes of clients."""
    few = workload(requests=50)
    engine = 'max_num_seqs = 8\nscheduler = "priority"'
    for clients in ("", CLIENTS):
        found = warned(engine=engine, workload=few + clients)
        assert list(found) == ["one-priority"]
        assert found["one-priority"].text.startswith(
            "engine.scheduler 'priority' goes by arrival alone in all 3 cells, as engine.priority"
        )
    by_class = f'{engine}\npriority = "slo-class"'
    assert list(warned(engine=by_class, workload=few + CLIENTS)) == []
    compared = '"engine.priority" = ["constant", "slo-class"]\nseed = { count = 2 }'
    assert list(warned(engine=engine, workload=few + CLIENTS, grid=compared)) == []
    for own, kinds in (({}, ["one-priority"]), ({"priority": 3}, [])):
        requests = [
            {"id": i, "arrival_us": 100_000 * i, "prompt": [[i, 40]], "output": [100 + i, 5]}
            | (own if i else {})
            for i in range(50)
        ]
        trace = tmp_path / "t.json"
        trace.write_text(json.dumps({"format": "kvsweep-trace/1", "requests": requests}))
        one = {"engine": engine, "grid": '"engine.max_num_seqs" = [8]'}
        assert list(warned(**one, workload=f"trace = '{trace}'")) == kinds


def test_a_scorer_by_class_without_classes_is_told(warned):
    """'kv-pressure-slo' was as 'kv-pressure' without a word, where it has no class to weigh by."""
    weighted = 'instances = 4\nrouting = "weighted"\nscorers = { kv-pressure-slo = 1.0 }'
    tier = "gpu_blocks = 200\ncpu_blocks = 50\ntransfer_bandwidth = 10.0"
    found = warned(cluster=weighted, cache=tier, workload=workload(requests=50))
    assert "in all 3 cells: it weighs transfers by SLO class" in found["classless-scorer"].text
    urgent = CLIENTS.replace('class = "batch"', 'class = "critical"')
    own = re.sub("slo_class.*", 'slo_class = "own"', CLIENTS)
    for clients, told in ((CLIENTS, False), (urgent, False), (own, True)):
        found = warned(cluster=weighted, cache=tier, workload=workload(requests=50) + clients)
        assert ("classless-scorer" in found) == told
    without = weighted.replace("kv-pressure-slo", "kv-pressure")
    assert "classless-scorer" not in warned(cluster=without, cache=tier)


def test_the_command_that_a_warning_names_is_one(warned, capsys):
    """`kvsweep blocks MODEL` was told, which the command refuses."""
    latency = 'model = "llama-3.1-8b/h100/tp2"'
    found = warned(cache="", latency=latency, workload=workload(requests=20))
    command = re.search("`kvsweep (.*?)`", found["assumed-blocks"].text)[1]
    with pytest.raises(SystemExit) as ended:
        main(command.replace("MODEL", "llama-3.1-8b").replace("GPU", "h100").split())
    assert ended.value.code == 0
    assert "usable" in capsys.readouterr().out


def test_where_all_requests_are_dropped_nothing_is_said_to_be_measured(warned):
    """60 of 60 were dropped, and "what is measured are the others"."""
    few = workload(requests=20)
    one = warned(workload=few, cache="gpu_blocks = 1")["unservable"].text
    assert "dropped in all 3 cells (at most 20 of 20): nothing is measured; the longest" in one
    for blocks, told in (
        ([1, 200], "dropped in 3 of 6 cells, most at gpu_blocks 1 (20 of 20): nothing is measured "
         "there; "),
        ([1, 7], "(20 of 20): what is measured are the others, of which the worst has none; "),
    ):  # fmt: skip
        grid = f'"cache.gpu_blocks" = {blocks}\nseed = {{ count = 3 }}'
        assert told in warned(workload=few, cache="", grid=grid)["unservable"].text


@pytest.mark.parametrize("along", ["rate", "model"])
def test_stores_that_were_put_together_are_warned_of_together(tmp_path, along):
    """What is stored is of the first: of one whose queues grow nothing was said behind it."""
    runs = [
        kvsweep.run(
            make_sweep(tmp_path, text(grid=f'"workload.rate" = [{rate}]\nseed = {{ count = 3 }}')),
            out=tmp_path / str(rate),
        )
        for rate in (20, 1600)
    ]
    assert [[w.kind for w in warnings_of(ds)] for ds in runs] == [[], ["queue-growth"]]
    if along == "model":
        runs = [ds.isel(rate=0, drop=True).expand_dims(model=[n]) for n, ds in enumerate(runs)]
    for pair in (runs, runs[::-1]):
        both = xr.concat(pair, along, combine_attrs="override")
        (found,) = warnings_of(both)
        assert (found.kind, found.cells, found.of) == ("queue-growth", 3, 6)
        assert warnings_of_cliff(both, along) == warnings_in(both, cliff=True)


def test_warm_ups_of_stores_that_were_put_together_are_not_those_of_the_first(tmp_path):
    """Beside a store without one, curves of the other had its warm-up in them."""
    runs = []
    for warmup in (0, 80, 80):
        sweep = make_sweep(tmp_path, text(workload=BASE["workload"] + f"warmup = {warmup}"))
        out = tmp_path / f"{len(runs)}"
        runs.append(kvsweep.run(sweep, out=out, keep_requests=True))
    model = xr.Variable("model", ["8b", "70b"])
    plot_cdf(xr.concat(runs[1:], model, combine_attrs="override"), "ttft_ms")
    for pair in (runs[:2], runs[1::-1]):
        both = xr.concat(pair, model, combine_attrs="override")
        with pytest.raises(InputError, match=r"another workload\.warmup than the attributes tell"):
            plot_cdf(both, "ttft_ms")


def test_an_idle_tier_of_the_decode_side_is_told_where_one_pays(warned):
    sides = "prefill = { instances = 1, cpu_blocks = 0 }\ndecode = { instances = 1 }\n"
    found = warned(cache=f'{TIER}"vllm"', cluster=f"{sides}kv_transfer_bandwidth = 10.0")
    told = "take a tier of the prefill side, as a decode instance pulls before it loads"
    assert found["idle-tier"].text.endswith(told)


def test_priorities_that_age_without_classes_are_told(warned):
    """All age alike: 'age' was first come, first served, without a word."""
    engine = 'max_num_seqs = 8\nscheduler = "priority"\npriority = "age"\npriority_age_ms = 50.0'
    few = workload(requests=50)
    found = warned(engine=engine, workload=few)
    assert list(found) == ["one-priority"]
    assert found["one-priority"].text.startswith(
        "engine.priority 'age' gives all requests the same priority in all 3 cells, as all are of "
        "one SLO class, or of none, and age alike: it is as 'constant'; give clients"
    )
    assert list(warned(engine=engine, workload=few + CLIENTS)) == []


def test_a_cliff_in_a_part_of_a_store_is_judged_by_its_sessions(warned, tmp_path):
    """`kvsweep cliff STORE --at` took single requests for what the cluster fills up with."""
    sessions = '{ rounds = 4, think_time_s = 60.0, arrivals = "closed-loop" }'
    axes = '"workload.rate" = [1.0, 40.0]\n"cache.gpu_blocks" = [3000, 4000]\nseed = { count = 3 }'
    cliff = 'metric = "tpot_p99_ms"\nalong = "rate"\nthreshold = 20.0'
    of = workload(requests=160, sessions=sessions)
    told = warned(workload=of, grid=axes, cliff=cliff)["burst"]
    part = kvsweep.open_results(tmp_path / "w.zarr").sel(gpu_blocks=4000)
    found = {each.kind: each for each in warnings_of_cliff(part, "rate", tmp_path / "w.zarr")}
    assert (told.cells, found["burst"].cells) == (12, 6)
    assert "where a session lasts 18" in found["burst"].text
    page = " ".join(islice(StoreReport(tmp_path / "w.zarr", part, "a").sections(), 3))
    assert "where a session lasts 18" in page
    one = part.isel(seed=0)
    found = {each.kind: each for each in warnings_of_cliff(one, "rate", tmp_path / "w.zarr")}
    assert (found["burst"].cells, found["burst"].of) == (2, 2)
    blocks = kvsweep.open_results(tmp_path / "w.zarr").sel(rate=40.0)
    found = warnings_of_cliff(blocks, "gpu_blocks", tmp_path / "w.zarr")
    assert not any("session" in each.text for each in found)


def test_what_several_checks_ask_for_is_read_once_unless_it_is_large(warned, tmp_path, monkeypatch):
    """A variable of a small grid took 5 ms each time, of which there were 27."""
    warned()
    ds = kvsweep.open_results(tmp_path / "w.zarr")
    read = []

    def noted(ds, name, ok):
        read.append(name)
        return variable(ds, name, ok)

    variable = cells._variable
    monkeypatch.setattr(cells, "_variable", noted)
    find_warnings(cells_of(ds))
    assert len(read) == len(set(read)) > 3
    monkeypatch.setattr(cells, "KEPT", 5)
    few = cells_of(ds)
    read.clear()
    for name in ("injected", "injected", "completed", "injected"):
        assert not few.number(name).flags.writeable
    assert read == ["injected", "completed", "injected"]


def test_an_instance_that_gets_most_by_the_lengths_of_pools_is_told_with_these(warned):
    """All requests fit the first pool, whatever the routing."""
    pools = "pools = [{{ instances = 1, max_model_len = {} }}, {{ instances = {} }}]\n"
    busy = workload(rate=80.0)
    text = warned(workload=busy, cluster=pools.format(5000, 2))["one-instance"].text
    assert "change max_model_len or instances there, or choose another cluster.routing" in text
    alone = pools.format(5000, 1).replace("}]", ", max_model_len = 6000 }, { instances = 1 }]")
    text = warned(workload=busy, cluster=alone)["one-instance"].text
    assert text.endswith("serves its length: change max_model_len or instances there")


def test_a_replay_of_a_trace_is_not_told_to_have_a_table_that_it_refuses(warned, tmp_path):
    from kvsweep.analysis.replayed import cell_of_replay
    from kvsweep.trace_replay import run_replay

    trace = tmp_path / "t.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n0,100,9\n1,100,9\n")
    found = run_replay(trace, ["latency.model=llama-3.1-8b/h100/tp2"])
    (alone,) = find_warnings(cell_of_replay(found))
    assert alone.text.endswith("`kvsweep blocks --model MODEL --gpu GPU` tells it")
    with pytest.raises(InputError, match=r"model\.gpu: unknown key; sections here"):
        run_replay(trace, ["latency.model=llama-3.1-8b/h100/tp2", "model.gpu=h100"])
    assert warned(cache="", latency=NAMED)["assumed-blocks"].text.endswith("or a [model] table")


@pytest.mark.parametrize(
    ("others", "told"),
    [
        ([0.0], "the trace begins at 60 s in 1 of 2 cells: throughput_rps"),
        ([0.0, 30.0], "the trace begins late in 2 of 3 cells, most at a.jsonl (60 s): "),
    ],
)
def test_of_several_traces_those_that_begin_late_are_told(warned, tmp_path, others, told):
    """Nothing was, beside one whose last answers take longer than its requests come."""
    for name, begins in zip("abc", (60.0, *others), strict=False):
        lines = [
            {"timestamp": 1000 * (begins + i * (begins > 0)), "input_length": 100,
             "output_length": 5 if begins else 400, "hash_ids": [i]}
            for i in range(20)
        ]  # fmt: skip
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)))
    names = [f"{name}.jsonl" for name in "abc"[: 1 + len(others)]]
    grid = f'"workload.trace" = {json.dumps(names)}\nseed = [0]'
    found = warned(workload='trace = "a.jsonl"\n', grid=grid)
    assert found["late-start"].text.startswith(told)
    assert "with workload.slice, from_s = 60, or" in found["late-start"].text
    assert found["late-start"].worst == {"trace": "a.jsonl"}
