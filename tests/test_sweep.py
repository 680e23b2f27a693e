import re

import psutil
import pytest
from distributed import LocalCluster
from disturbing import comes_to, start
from longer import long_but
from stores import written
from sweeping import BASE, GRID, fake_batch, make_sweep, stand_in, start_python, tree, write_sweep

import kvsweep
from kvsweep import grid
from kvsweep.errors import InputError


@pytest.fixture(autouse=True, params=long_but(["threads", "dask"], "threads"))
def quick(request, monkeypatch):
    """Replace the simulator, and cut even small sweeps into several tasks, done by either."""
    if request.param == "dask":
        monkeypatch.setattr("kvsweep.workers.choosing.SMALL", 0.0)
    stand_in(monkeypatch)


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path)


@pytest.fixture
def whole():
    """The store of an uninterrupted run."""
    return written()


def test_run_returns_what_the_store_holds(sweep, tmp_path):
    ds = kvsweep.run(sweep, out=tmp_path / "a.zarr")
    assert ds.identical(kvsweep.open_results(tmp_path / "a.zarr"))
    assert (ds["status"] == "ok").all()


def test_default_store_is_named_after_the_file(sweep, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kvsweep.run(sweep)
    assert (tmp_path / "results" / "small.zarr" / "zarr.json").exists()


@pytest.mark.parametrize("workers", long_but([2, 4], 4))
def test_stores_are_equal_whatever_the_workers(sweep, tmp_path, whole, workers):
    kvsweep.run(sweep, out=tmp_path / "b.zarr", workers=workers)
    assert tree(tmp_path / "b.zarr") == whole


def test_an_existing_scheduler_gives_the_same_store(sweep, tmp_path, whole):
    with LocalCluster(
        n_workers=2,
        threads_per_worker=1,
        processes=False,
        dashboard_address="127.0.0.1:0",  # without, Dask's server has a port that may be taken
        protocol="tcp",
    ) as cluster:
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=cluster.scheduler_address)
    assert tree(tmp_path / "b.zarr") == whole


def test_values_do_not_depend_on_the_chunks(sweep, tmp_path, monkeypatch):
    one = kvsweep.run(sweep, out=tmp_path / "a.zarr")
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (10.0, 10.0))
    assert one.identical(kvsweep.run(sweep, out=tmp_path / "b.zarr"))
    assert tree(tmp_path / "a.zarr") != tree(tmp_path / "b.zarr")


def test_progress_counts_cells_up_to_all(sweep, tmp_path):
    seen = []
    kvsweep.run(sweep, out=tmp_path / "a.zarr", progress=lambda *numbers: seen.append(numbers))
    done = [n for n, _ in seen]
    assert done[0] == 0
    assert done == sorted(set(done))
    assert seen[-1] == (84, 84)


def test_the_kernel_is_ready_before_progress_starts(sweep, tmp_path, monkeypatch):
    def compiles(notify, names):
        if notify:
            notify("compiling")

    monkeypatch.setattr("kvsweep.simulate.warm_up", compiles)
    told = []
    kvsweep.run(
        sweep,
        out=tmp_path / "a.zarr",
        notify=told.append,
        progress=lambda done, total: told.append(done),
    )
    assert told[:2] == ["compiling", 0]
    assert told.count("compiling") == 1


@pytest.mark.slow
def test_a_sweep_of_the_replica_compiles_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("kvsweep.simulate.warm_up", None)  # imported by name elsewhere
    sweep = make_sweep(tmp_path, BASE + '[engine]\nrules = "blis"\n' + GRID)
    assert (kvsweep.run(sweep, out=tmp_path / "a.zarr")["status"] == "ok").all()


def test_a_second_run_simulates_nothing(sweep, tmp_path, monkeypatch):
    first = kvsweep.run(sweep, out=tmp_path / "a.zarr").load()

    def fails(*args, **options):
        raise AssertionError("simulated again")

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fails)
    assert first.identical(kvsweep.run(sweep, out=tmp_path / "a.zarr"))


def test_an_interrupted_run_goes_on(sweep, tmp_path, whole):
    def interrupts(done, total):
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", progress=interrupts)
    assert (kvsweep.open_results(tmp_path / "b.zarr")["status"] == "pending").any()
    seen = []
    kvsweep.run(sweep, out=tmp_path / "b.zarr", progress=lambda done, total: seen.append(done))
    assert seen[0] > 42
    assert tree(tmp_path / "b.zarr") == whole


def test_a_task_that_fails_once_is_tried_again(sweep, tmp_path, monkeypatch, whole):
    failed = []

    def fails_once(variants, seeds, **options):
        if seeds[0] not in failed:
            failed.append(seeds[0])
            raise OSError("no memory")
        return fake_batch(variants, seeds, **options)

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fails_once)
    kvsweep.run(sweep, out=tmp_path / "b.zarr")
    assert tree(tmp_path / "b.zarr") == whole


def test_a_task_that_always_fails_costs_its_own_cells_only(sweep, tmp_path, monkeypatch, whole):
    def fails(variants, seeds, **options):
        if 3 in seeds:
            raise OSError("no memory")
        return fake_batch(variants, seeds, **options)

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fails)
    ds = kvsweep.run(sweep, out=tmp_path / "b.zarr")
    lost = ds.sel(seed=3)
    assert (lost["status"] == "failed").all()
    assert (lost["status_detail"] == "OSError: no memory").all()
    assert lost["preemption_rate"].isnull().all()
    assert (ds["status"] == "ok").any()
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    kvsweep.run(sweep, out=tmp_path / "b.zarr")
    assert tree(tmp_path / "b.zarr") == whole


def test_bad_input_met_by_a_worker_ends_the_run(sweep, tmp_path, monkeypatch):
    def fails(*args, **options):
        raise InputError("trace-3.json: truncated")

    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fails)
    with pytest.raises(InputError, match="truncated"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr")


BEGUN = []


def counting_batch(variants, seeds, **options):
    BEGUN.append(seeds)
    return fake_batch(variants, seeds, **options)


@pytest.mark.slow
def test_few_tasks_are_in_flight(sweep, tmp_path, monkeypatch):
    """Results that wait for the writer are bounded by the workers, not by the sweep."""
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (2e-5, 2e-5))
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", counting_batch)
    BEGUN.clear()
    ahead = []
    tasks = len(grid.plan(sweep).tasks)
    written = iter(range(tasks + 1))
    kvsweep.run(
        sweep,
        out=tmp_path / "a.zarr",
        workers=1,
        progress=lambda done, total: ahead.append(len(BEGUN) - next(written)),
    )
    assert len(BEGUN) == tasks > 10
    assert max(ahead) <= 3


def test_a_local_cluster_is_not_reachable_from_the_network(sweep, tmp_path):
    ports = []

    def look(done, total):
        ports.extend(
            c.laddr.ip for c in psutil.Process().net_connections() if c.status == psutil.CONN_LISTEN
        )

    kvsweep.run(sweep, out=tmp_path / "a.zarr", progress=look)
    assert set(ports) <= {"127.0.0.1"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": "2"}, "workers: expected an integer of 64 bits, got '2'"),
        ({"workers": True}, "workers: expected an integer of 64 bits, got True"),
        ({"workers": 1.5}, "workers: expected an integer of 64 bits, got 1.5"),
        ({"workers": 0}, "^workers: must be at least 1, not 0"),
        ({"scheduler": "tcp://127.0.0.1:1", "workers": 2}, "^scheduler: cannot be used with"),
        ({"scheduler": "nonsense://x"}, "^scheduler nonsense://x: no scheduler"),
    ],
)
def test_wrong_cluster_options_write_nothing(sweep, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        kvsweep.run(sweep, out=tmp_path / "a.zarr", **options)
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.slow
@pytest.mark.long  # test_faults_of_a_machine kills a run sooner
@pytest.mark.parametrize("quick", ["threads"], indirect=True)  # not seen by other processes
@pytest.mark.parametrize("parts_done", [1, 4])
def test_a_killed_run_goes_on_to_the_same_bytes(sweep, tmp_path, whole, parts_done):
    file = write_sweep(tmp_path, BASE + GRID)
    out = tmp_path / "b.zarr"
    command = ("grid", str(file), "--out", str(out), "--workers", "1")
    with start(*command, batches=parts_done) as process:
        comes_to(parts_done, process, out)
        process.kill()
    assert (kvsweep.open_results(out)["status"] == "pending").any()
    kvsweep.run(sweep, out=out, workers=2)
    assert tree(out) == whole


SMALL = """
import sys
import kvsweep.simulate, sweeping
from kvsweep.cli.quick_xarray import leave_dask

leave_dask()  # as a command does
kvsweep.simulate.simulate_batch = sweeping.fake_batch
kvsweep.simulate.warm_up = lambda *_: None
ds = kvsweep.run(kvsweep.load_sweep({file!r}), out={out!r})
kvsweep.find_cliff(ds, threshold=0.5)
print(*{{"dask", "scipy.linalg", "scipy.optimize", "scipy.stats"}} & set(sys.modules))
rate = ds["preemption_rate"]
chunked = rate.chunk(seed=2)
print(type(chunked.data).__module__, (chunked.compute() == rate).all().item())
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("quick", ["threads"], indirect=True)  # not seen by other processes
def test_a_small_sweep_loads_neither_dask_nor_scipy_but_its_results_may(tmp_path):
    file = write_sweep(tmp_path, BASE + GRID)
    with start_python(SMALL.format(file=str(file), out=str(tmp_path / "a.zarr"))) as process:
        out, errors = process.communicate()
    assert not errors
    assert out.splitlines() == ["", "dask.array.core True"]


@pytest.mark.parametrize("sweep", ["sweeps/h8.toml", None, 5])
def test_what_is_no_sweep_is_told(sweep):
    with pytest.raises(InputError, match=r"^sweep: expected what load_sweep\(path\) returns, got "):
        kvsweep.run(sweep)


def test_a_run_tells_which_requests_of_a_trace_are_left_out(tmp_path, caplog):
    """The command told it, a run in Python did not: half of a log looked like all of it."""
    rows = "".join(f"{i},32,{4 if i % 2 else ''}\n" for i in range(10))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    workload = '[workload]\ntrace = "t.csv"\nread = { failed = "leave-out" }\n\n'
    text = re.sub(r"\[workload\]\n.*?\n\n", workload, BASE, count=1, flags=re.DOTALL)
    lines = []
    sweep = make_sweep(tmp_path, text + "[grid]\nseed = [0]\n")
    kvsweep.run(sweep, out=tmp_path / "a.zarr", notify=lines.append)
    told = [line for line in lines if line.startswith("trace: ")]
    assert told == [
        "trace: t.csv: without 5 of 10 requests, which failed, or were of a warm-up or of "
        "subagents (docs/traces.md)"
    ]
    kvsweep.run(sweep, out=tmp_path / "a.zarr")
    assert [line for line in caplog.messages if line.startswith("trace: ")] == told


def test_of_many_traces_that_leave_requests_out_the_rest_is_counted(tmp_path, monkeypatch):
    """Beyond the tenth nothing was said of any."""
    counts = {f"{i}.csv": (1, 4) for i in range(12)}
    monkeypatch.setattr("kvsweep.analysis.planned.left_out", lambda sweep: counts)
    lines = []
    kvsweep.run(make_sweep(tmp_path), out=tmp_path / "a.zarr", notify=lines.append)
    told = [line for line in lines if line.startswith("trace: ")]
    assert len(told) == 11
    assert told[9].startswith("trace: 9.csv: without 1 of 4 requests")
    assert told[10] == "trace: and 2 files more of which some are left out"
