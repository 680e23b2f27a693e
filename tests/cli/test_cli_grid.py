import json
import re
import signal
from contextlib import nullcontext
from pathlib import Path

import pytest
from disturbing import comes_to, interrupt, start
from sweeping import BASE, CLIFF, GRID, fake_batch, stand_in, tree, write_sweep

import kvsweep
from kvsweep.cli import progress
from kvsweep.cli.progress import Meter, span
from kvsweep.policies import Status


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    stand_in(monkeypatch)


@pytest.fixture
def file(tmp_path):
    write_sweep(tmp_path, BASE + GRID + CLIFF)
    return "small.toml"


def test_a_sweep_ends_with_its_cliff_and_a_figure(run, file):
    code, out, _ = run("grid", file)
    assert code == 0
    assert "results/small.zarr: 84 ok" in out
    assert "round-robin: preemption_rate passes 0.5 at 132.5 blocks (95% CI" in out
    assert out.endswith("figure: results/small-cliff.png\n")
    assert Path("results/small-cliff.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads(kvsweep.open_results("results/small.zarr").attrs["cliff"])
    assert stored["groups"][0]["mean_curve"]["value"] == 132.5


def test_json_is_all_there_is_on_stdout(run, file):
    code, out, err = run("grid", file, "--json")
    result = json.loads(out)
    assert code == 0
    assert result["status"] == {"ok": 84}
    assert result["incomplete"] == []
    assert result["cliff"]["metric"] == "preemption_rate"
    assert Path(result["figure"]).exists()
    assert "84 of 84 cells" in err


def test_a_run_twice_gives_the_same_output_and_bytes(run, file):
    first = run("grid", file)[1]
    before = tree(Path("results"))
    assert run("grid", file)[1] == first
    assert tree(Path("results")) == before
    assert run("grid", file, "--overwrite")[1] == first
    assert tree(Path("results")) == before


def test_a_sweep_without_a_cliff_ends_with_its_store(run, tmp_path):
    write_sweep(tmp_path, BASE + GRID)
    code, out, _ = run("grid", "small.toml", "--out", "elsewhere/a.zarr")
    assert (code, out) == (0, "elsewhere/a.zarr: 84 ok\n")


def test_keys_and_seeds_can_be_set(run, file):
    code, out, _ = run("grid", file, "--set", "engine.max_num_seqs=64", "--seeds", "2")
    assert code == 0
    assert "28 ok" in out
    sweep = json.loads(kvsweep.open_results("results/small.zarr").attrs["sweep"])
    assert sweep["scenario"]["engine"]["max_num_seqs"] == 64


def test_columns_of_requests_are_stored_when_asked_for(run, file):
    assert run("grid", file, "--requests")[0] == 0
    assert kvsweep.open_results("results/small.zarr")["request_ttft_us"].dims[-1] == "request"


def test_pruning_can_be_switched_off(run, file):
    assert run("grid", file, "--no-prune")[0] == 0
    assert (kvsweep.open_results("results/small.zarr")["pruned"] == 0).all()
    assert run("grid", file, "--overwrite")[0] == 0
    assert (kvsweep.open_results("results/small.zarr")["pruned"] == 1).all()


def test_dry_run_prints_the_size_and_writes_nothing(run, file):
    code, out, _ = run("grid", file, "--dry-run")
    assert code == 0
    assert re.search(r"dimensions +policy 2 x gpu_blocks 7 x seed 6\n", out)
    assert re.search(r"cells +84\n", out)
    assert re.search(r"simulations +84 to do", out)
    assert re.search(r"bytes +[\d,]+ ", out)
    _, out, _ = run("grid", file, "--dry-run", "--workers", "2")
    assert re.search(r"time +about [\d.]+ s \([\d.]+ s to [\d.]+ s\) on 2 workers\n", out)
    assert not Path("results").exists()


def test_dry_run_on_a_scheduler_counts_no_cores_of_this_machine(run, file):
    """It is not asked: how many workers it has then, nobody knows now."""
    where = ("--scheduler", "tcp://127.0.0.1:1")
    size = json.loads(run("grid", file, "--dry-run", "--json", *where)[1])
    assert size["workers"] is None
    assert size["seconds_low"] < size["seconds"] < size["seconds_high"]
    assert "on one worker of the scheduler\n" in run("grid", file, "--dry-run", *where)[1]


def test_dry_run_tells_the_speed_of_a_cpu_tier(run, file):
    assert "transfers" not in run("grid", file, "--dry-run")[1]
    tier = ("--set", "cache.cpu_blocks=50")
    link = ("--set", "cache.link=pcie5-x16", "--set", "cache.kv_bytes_per_token=65536")
    _, out, _ = run("grid", file, "--dry-run", *tier, *link)
    made = "0.848 tokens/us: 55.6 GB/s (pcie5-x16) over 65,536 bytes a token on each GPU"
    assert f"transfers    {made}\n" in out
    faster = ("--set", "cache.transfer_bandwidth=2.5")
    size = json.loads(run("grid", file, "--dry-run", "--json", *tier, *faster)[1])
    assert size["transfers"] == ["2.5 tokens/us"]


def test_dry_run_says_how_many_models_it_does_not_list(run, tmp_path):
    text = '[workload]\nrequests = 5\nrate = 9.0\n[model]\npreset = "llama-3.1-8b"\ngpu = "h100"\n'
    axes = '[grid]\n"model.tp" = [1, 2]\n"model.utilization" = [0.8, 0.85, 0.9]\n'
    file = str(write_sweep(tmp_path, text + axes))
    _, out, _ = run("grid", file, "--dry-run")
    assert out.count("\nmodel        ") == 4
    assert "and 2 more combinations of what it depends on\n" in out
    assert "more combinations" not in run("grid", file, "--dry-run", "--set", "model.tp=[1]")[1]
    stages = ("--set", "grid.engine.pipeline_parallel_size=[1,2]")
    assert "and 7 more combinations" in run("grid", file, "--dry-run", *stages)[1]
    # Of others those count of which the blocks depend.
    tokens = ("--set", "grid.engine.max_num_batched_tokens=[2048,8192]")
    assert "and 7 more combinations" in run("grid", file, "--dry-run", *tokens)[1]
    shares = ("--set", "model.utilization=[0.8, 0.9]")
    assert "and 1 more combination of" in run("grid", file, "--dry-run", *shares)[1]
    rates = ("--set", "grid.workload.rate=[5,9]")
    assert "and 2 more combinations" in run("grid", file, "--dry-run", *rates)[1]


def test_dry_run_counts_what_an_existing_store_lacks(run, file):
    run("grid", file)
    before = tree(Path("results"))
    for options, expected in (((), 0), (("--overwrite",), 84)):
        size = json.loads(run("grid", file, "--dry-run", "--json", *options)[1])
        assert (size["cells"], size["simulations"]) == (84, expected)
    assert tree(Path("results")) == before


def livelocked_batch(variants, seeds, **options):
    """Cells of seed 3 livelock."""
    results = fake_batch(variants, seeds, **options)
    for s, seed in enumerate(seeds):
        if seed == 3:
            results["status"][:, s] = Status.LIVELOCK
            results["status_detail"][:, s] = "repeats every 7 steps"
            results["preemption_rate"][:, s] = float("nan")
    return results


def test_cells_that_did_not_complete_are_named_and_exit_1(run, file, monkeypatch):
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", livelocked_batch)
    code, out, _ = run("grid", file)
    assert code == 1
    assert "results/small.zarr: 14 livelock, 70 ok" in out
    assert "policy=round-robin gpu_blocks=100 seed=3: livelock repeats every 7 steps" in out
    assert "and 4 more" in out
    result = json.loads(run("grid", file, "--json")[1])
    assert result["incomplete"][0] == {
        "cell": {"policy": "round-robin", "gpu_blocks": 100, "seed": 3},
        "status": "livelock",
        "detail": "repeats every 7 steps",
    }
    assert len(result["incomplete"]) == 14


BAD = {
    "unknown key": ("requests = 20", "request = 20", "did you mean 'requests'"),
    "wrong type": ("requests = 20", 'requests = "20"', "expected an integer"),
    "negative": ("requests = 20", "requests = 20\nrate = -1.0", "more than 0"),
    "nan": ("requests = 20", "requests = 20\nrate = nan", "finite"),
    "empty axis": ("seed = { count = 6 }", "seed = []", "at least one"),
    "unknown policy": ('"least-loaded"', '"least-laoded"', "did you mean 'least-loaded'"),
    "block size": ("[latency]", "[cache]\nblock_size = 0\n[latency]", "at least 1"),
    "measure": ('metric = "preemption_rate"', 'metric = "ttft_p98_ms"', "ttft_p9"),
    "no latency": ("beta = [1000, 10, 5]", "", "missing"),
    "too large": (
        "seed = { count = 6 }",
        '"engine.max_num_seqs" = { start = 1, stop = 150, step = 1 }\n'
        '"engine.max_num_batched_tokens" = { start = 201, stop = 300, step = 1 }',
        "grid: 210,000 scenarios",
    ),
    "no trace": ("requests = 20", 'trace = "none.json"', "none.json: cannot read"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_sweeps_are_told_in_one_line_and_nothing_is_written(run, tmp_path, case):
    old, new, message = BAD[case]
    text = BASE + GRID + CLIFF
    assert old in text
    write_sweep(tmp_path, text.replace(old, new))
    code, out, err = run("grid", "small.toml")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


def test_a_store_of_another_sweep_is_refused(run, file):
    run("grid", file)
    code, out, err = run("grid", file, "--set", "cache.block_size=32")
    assert (code, out) == (2, "")
    assert "results/small.zarr: made from another sweep: scenario.cache.block_size is 16" in err


LATE = {
    "a measure by class, without classes": (
        'cliff.metric="ttft_by_class_mean_ms"',
        "cliff.metric: 'ttft_by_class_mean_ms' needs requests of SLO classes",
    ),
    "a measure by round, without rounds": (
        'cliff.metric="ttft_by_round_mean_ms"',
        "needs requests of several rounds",
    ),
    "a column of requests, which are not kept": (
        'cliff.metric="request_ttft_us"',
        "needs the columns of requests (--requests)",
    ),
    "names": ('cliff.metric="request_status"', "'request_status' holds names, not numbers"),
    "status": ('cliff.metric="status"', "'status' holds names, not numbers"),
    "one value": ("cache.gpu_blocks=[2000]", "cliff.along: 'gpu_blocks' has one value"),
}


@pytest.mark.parametrize("case", LATE)
def test_what_the_cliff_needs_is_checked_before_anything_is_simulated(run, file, case):
    setting, message = LATE[case]
    code, out, err = run("grid", file, "--set", setting)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert not Path("results").exists()


def test_a_cliff_is_sought_along_numbers(run, tmp_path):
    text = GRID.replace("seed = {", '"engine.enable_prefix_caching" = [true, false]\nseed = {')
    cliff = CLIFF.replace("gpu_blocks", "enable_prefix_caching")
    write_sweep(tmp_path, BASE + text + cliff)
    code, out, err = run("grid", "small.toml")
    assert (code, out) == (2, "")
    assert "small.toml:22: cliff.along: 'enable_prefix_caching' has values that are no" in err


@pytest.mark.parametrize(
    ("grid_table", "objectives", "message"),
    [
        (GRID, '["steps:min", "steps:max"]', "'steps' is an objective twice"),
        (GRID, '["ttft_by_class_mean_ms:min"]', "needs requests of SLO classes"),
        ("[grid]\nseed = [1]\n", '["steps:min"]', "pareto: has no effect: needs an axis 'policy'"),
    ],
)
def test_what_the_front_needs_is_checked_first(run, tmp_path, grid_table, objectives, message):
    write_sweep(tmp_path, f"{BASE}{grid_table}[pareto]\nobjectives = {objectives}\n")
    code, out, err = run("grid", "small.toml")
    assert (code, out) == (2, "")
    assert message in err
    assert not Path("results").exists()


def test_a_figure_that_kvsweep_did_not_draw_is_kept(run, file):
    Path("results").mkdir()
    Path("results/small-cliff.png").write_text("holiday")
    code, out, _ = run("grid", file)
    assert code == 0
    assert "figure: none: results/small-cliff.png is there and was not drawn by kvsweep" in out
    assert Path("results/small-cliff.png").read_text() == "holiday"
    result = json.loads(run("grid", file, "--json")[1])
    assert result["figure"] is None
    code, _, err = run("plot", "results/small.zarr")
    assert (code, "--overwrite replaces it" in err) == (2, True)
    assert Path("results/small-cliff.png").read_text() == "holiday"


def test_a_figure_that_fails_leaves_the_run_complete(run, file, monkeypatch):
    def fails(*args):
        raise ValueError("Axis limits cannot be NaN or Inf")

    monkeypatch.setattr("kvsweep.plot.plot_cliff", fails)
    code, out, err = run("grid", file)
    assert code == 0
    assert "84 ok" in out
    assert "figure: none: Axis limits cannot be NaN or Inf\n" in out
    assert "Traceback" not in err


def test_a_measure_that_no_cell_has_is_told_and_not_drawn(run, file, monkeypatch):
    """Warnings of NumPy and Matplotlib came first, with lines of the source."""
    monkeypatch.setattr("sweeping.preemption_rate", lambda *_: float("nan"))
    code, out, err = run("grid", file)
    assert code == 0
    assert out.endswith("\nfigure: none: no cell has a value of preemption_rate\n")
    assert "Warning" not in err
    assert run("report", "results/small.zarr")[0] == 0
    page = Path("results/small-report.html").read_text()
    assert "preemption_rate and its cliff: not drawn: no cell has a value" in page
    code, _, err = run("plot", "results/small.zarr")
    assert (code, err) == (2, "kvsweep: no cell has a value of preemption_rate\n")


def test_a_cliff_of_too_many_groups_for_a_figure_is_printed(run, tmp_path):
    many = '"engine.max_num_seqs" = { start = 1, stop = 8, step = 1 }\nseed = { count = 1 }'
    write_sweep(tmp_path, BASE + GRID.replace("seed = { count = 6 }", many) + CLIFF)
    code, out, _ = run("grid", "small.toml")
    assert code == 0
    assert "figure: none: cliff figure: 2 curves in 8 panels do not fit" in out


@pytest.mark.parametrize("blocks", ["[1,268435456]", "[100,268435456]"])
def test_extreme_axes_are_drawn(run, file, blocks):
    code, out, err = run("grid", file, "--set", f"cache.gpu_blocks={blocks}", "--seeds", "2")
    assert (code, "Traceback" in err) == (0, False)
    assert "figure: results/small-cliff.png\n" in out


def test_damaged_cells_are_run_again_and_told(run, file):
    first = run("grid", file)[1]
    before = tree(Path("results"))
    chunk = next(f for f in sorted(Path("results/small.zarr/steps/c").rglob("*")) if f.is_file())
    chunk.write_bytes(b"\0" + chunk.read_bytes()[1:])
    size = json.loads(run("grid", file, "--dry-run", "--json")[1])
    assert 0 < size["simulations"] < 84
    code, out, err = run("show", "results/small.zarr")
    assert (code, out) == (2, "")
    assert "`kvsweep grid SWEEP.toml --out results/small.zarr` runs these cells again" in err
    code, out, err = run("grid", file)
    assert (code, out) == (0, first)
    assert "results/small.zarr: 1 damaged file (steps/c/" in err
    assert tree(Path("results")) == before


def test_a_run_that_has_nothing_to_do_writes_nothing(run, file):
    run("grid", file)
    store = Path("results/small.zarr")
    before = {path: path.stat().st_mtime_ns for path in store.rglob("*")}
    run("grid", file)
    assert {path: path.stat().st_mtime_ns for path in store.rglob("*")} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("plot", "a.zarr", "-o", "s3://bucket/a.png"),
        ("replay", "t.json", "--requests", "gs://bucket/r.csv"),
        ("replay", "t.json", "--steps", "https://host/s.csv"),
        ("calibrate", "small.toml", "--out", "s3://bucket/p.toml"),
        ("calibrate", "small.toml", "--validate", "s3://bucket/p"),
        ("measure", "prefix", "--model", "m", "--out", "s3://bucket/m.zarr"),
        ("measure", "prefix", "--model", "m", "--csv", "s3://bucket/csv"),
        ("measure", "make-model", "s3://bucket/m.gguf"),
    ],
)
def test_what_is_no_store_of_a_sweep_is_not_written_to_an_address(run, file, tmp_path, arguments):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert "://" in err
    assert "an address, not a path" in err
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


@pytest.mark.parametrize("more", [(), ("--dry-run",)])
def test_an_address_that_cannot_be_reached_is_told_in_one_line(run, file, tmp_path, more):
    code, out, err = run("grid", "small.toml", "--out", "nope://bucket/a.zarr", *more)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("kvsweep: nope://bucket/a.zarr: no protocol 'nope'")
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_leaves_a_store_that_goes_on(run, file, number):
    """So does a signal to end, as batch systems send it."""
    with start("grid", "small.toml", "--workers", "1", batches=1) as process:
        comes_to(1, process, "results/small.zarr")
        code, out, err = interrupt(process, number)
    assert (code, out) == (1, "")
    assert "interrupted; the same command goes on with results/small.zarr" in err
    assert "Traceback" not in err
    assert (kvsweep.open_results("results/small.zarr")["status"] == "pending").any()


def test_ctrl_c_tells_that_the_same_command_starts_again_if_it_overwrites(run, file):
    """Who followed "the same command goes on" lost what was simulated."""
    command = ("grid", "small.toml", "--workers", "1", "--overwrite")
    with start(*command, batches=1) as process:
        comes_to(1, process, "results/small.zarr")
        err = interrupt(process, signal.SIGINT)[2]
    told = "interrupted; the same command without --overwrite goes on with results/small.zarr"
    assert err.splitlines()[-1] == told


def test_a_figure_of_a_store_that_is_half_done_says_so(run, file):
    assert run("grid", file, "--shard", "1/2")[0] == 0
    shown = run("show", "results/small.zarr")[2]
    assert "cells have no numbers (" in shown
    assert " pending)" in shown
    code, _, err = run("plot", "results/small.zarr")
    assert code == 0
    assert err == shown.splitlines(keepends=True)[0]


def test_speed_counts_the_cells_since_the_start():
    meter = Meter()
    assert meter.describe(1000, 5000, now=50.0) == ""
    assert meter.describe(3000, 5000, now=52.0) == "1,000 cells/s, 2.0 s left"
    assert meter.describe(3100, 9000, now=4250.0) == "0.5 cells/s, 3 h 16 min left"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (119.4, "119 s"), (125, "2 min 5 s"),
     (7199, "119 min 59 s"), (7500, "2 h 5 min")],
)  # fmt: skip
def test_durations_in_words(seconds, text):
    assert span(seconds) == text


@pytest.mark.parametrize(
    "words",
    [
        ("small.toml", "--goodput", "ttft:2000", "tpot:50"),
        ("--goodput", "ttft:2000", "tpot:50", "small.toml"),
        ("--goodput=ttft:2000", "small.toml", "--goodput", "tpot:50", "--seeds", "1"),
    ],
)
def test_service_levels_are_given_as_to_vllm_bench_serve(run, file, words):
    code, _, _ = run("grid", *words)
    assert code == 0
    scenario = json.loads(kvsweep.open_results("results/small.zarr").attrs["sweep"])["scenario"]
    assert scenario["slo"] == {
        "ttft_ms": 2000.0,
        "tpot_ms": 50.0,
        "e2e_ms": None,
        "classes": {},
    }


def test_a_wrong_service_level_is_told_in_a_line(run, file):
    code, out, err = run("grid", file, "--goodput", "ttft:2000", "tpt:50")
    assert (code, out) == (2, "")
    told = "--goodput tpt:50: unknown level; allowed: ttft, tpot, e2el; did you mean 'tpot'?"
    assert err == f"kvsweep: {told}\n"


def test_seeds_until_an_interval_is_narrow_are_told_before_and_after(run, tmp_path):
    wanted = 'seed = { until = { metric = "e2e_p99_ms", relative = 1e-9, least = 3, most = 4 } }'
    sweep = str(write_sweep(tmp_path, (BASE + GRID).replace("seed = { count = 6 }", wanted)))
    size = json.loads(run("grid", sweep, "--dry-run", "--json")[1])
    assert (size["simulations"], size["until"]["simulations"]) == (42, 56)
    assert "with 4, the most: 56 simulations" in run("grid", sweep, "--dry-run")[1]
    code, out, err = run("grid", sweep, "--out", "u.zarr")
    assert code == 0
    assert "3 seeds: 0 of 14 cells narrow enough; on to 4" in err
    assert "4 seeds, the most: e2e_p99_ms to ± 1e-07 % (95 % confidence) in 0 of 14 cells" in out
    assert "and 4 more" in out
    assert "warning: e2e_p99_ms to ± 1e-07 %" in err
    found = json.loads(run("grid", sweep, "--out", "u.zarr", "--json")[1])
    assert (found["until"]["seeds"], len(found["until"]["open"])) == (4, 14)
    fewer = ("--set", "seed.until.most=3", "--out", "u.zarr", "--dry-run")
    told = "\nseeds        4, as the store has; most = 3 allows no more\n"
    assert told in run("grid", sweep, *fewer)[1]


TRACED = """
[workload]
trace = "t.jsonl"
[latency]
model = "llama-3.1-8b/h100/tp2"
[cache]
gpu_blocks = 100
[grid]
seed = [0]
"""


def test_before_the_first_cells_a_trace_that_is_read_is_told(run, file, tmp_path, monkeypatch):
    """If that takes long; Dask, or the kernel, may take longer to load than a sweep to plan."""
    told = []
    monkeypatch.setattr(progress, "waiting", lambda what: nullcontext(told.append(what)))
    assert run("grid", file)[0] == 0
    assert told == []
    line = {"timestamp": 0, "input_length": 9, "output_length": 5, "hash_ids": [1]}
    (tmp_path / "t.jsonl").write_text(json.dumps(line))
    assert run("grid", str(write_sweep(tmp_path, TRACED)), "--out", "t.zarr")[0] == 0
    assert told == ["preparing the sweep, which reads t.jsonl"]


def test_dry_run_says_what_step_times_of_a_model_with_states_are(run, tmp_path):
    path = tmp_path / "s.toml"
    model = '[model]\npreset = "{}"\ngpu = "h100"\ntp = 4\n'
    caution = (
        "caution      step times are computed; of the one model with states that was measured, "
        "prompts took 14 to 27 % longer\n"
    )
    for name, said in (("qwen3-next-80b-a3b", True), ("llama-3.1-70b", False)):
        path.write_text(f"[workload]\nrequests = 2\nrate = 1.0\n{model.format(name)}")
        code, out, err = run("grid", str(path), "--dry-run")
        assert (code, err) == (0, "")
        assert (caution in out) == said


@pytest.mark.parametrize(
    "arguments",
    [
        ("grid", "small.toml", "--out=~/a.zarr"),
        ("grid", "small.toml", "--dry-run", "--out=~/a.zarr"),
        ("merge", "a.zarr", "--out=~/b.zarr"),
        ("replay", "t.json", "--requests=~/r.csv"),
        ("calibrate", "small.toml", "--out=~/p.toml"),
    ],
)
def test_a_tilde_that_no_shell_replaced_makes_no_folder_of_that_name(
    run, file, tmp_path, monkeypatch, arguments
):
    """Bash leaves it behind a `=`; who then deletes the folder `~` deletes another one."""
    monkeypatch.setenv("HOME", "/home/me")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    whole = arguments[-1].replace("~", "/home/me").partition("=")[2]
    assert err.endswith(f": a folder '~' would be made; write {whole}\n")
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


def test_a_run_says_how_many_models_it_does_not_tell(run, tmp_path):
    model = '[model]\npreset = "qwen3-32b"\ngpu = "h100"\n'
    text = re.sub(r"\[latency\]\n.*\n", "", BASE) + model
    axes = '"model.tp" = [2, 4, 8]\n"model.utilization" = [0.8, 0.85, 0.9, 0.92]'
    write_sweep(tmp_path, f"{text}[grid]\n{axes}\nseed = [1]\n")
    code, _, err = run("grid", "small.toml")
    assert code == 0, err
    told = [line for line in err.splitlines() if line.startswith("model: ")]
    assert len(told) == 7
    assert told[-1] == "model: and 6 more combinations of what it depends on"


@pytest.mark.parametrize(
    "arguments",
    [
        ("grid", "small.toml", "--out", "-"),
        ("replay", "t.json", "--requests", "-"),
        ("from-vllm", "-o", "-", "vllm", "serve", "qwen3-8b"),
    ],
)
def test_no_file_of_the_name_of_standard_output_is_made(run, file, tmp_path, arguments):
    """Other tools write there; `rm -` then removes nothing."""
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.endswith("-: a file '-' would be made; standard output is '/dev/stdout'\n")
    assert [p.name for p in tmp_path.iterdir()] == ["small.toml"]


def test_dry_run_tells_the_speed_from_prefill_to_decode(run, tmp_path):
    text = "[workload]\nrequests = 5\nrate = 9.0\n[cluster]\nprefill_instances = 1\n"
    text += "decode_instances = 1\nkv_transfer_bandwidth = 0.381\n[grid]\nseed = [0]\n[latency]\n"
    (tmp_path / "a.toml").write_text(f'{text}model = "llama-3.1-8b/h100/tp2"\n')
    told = "0.381 tokens/us from prefill to decode"
    assert f"transfers    {told}: 24.97 GB/s of each GPU\n" in run("grid", "a.toml", "--dry-run")[1]
    (tmp_path / "a.toml").write_text(f"{text}beta = [5000, 10, 5]\n")
    size = json.loads(run("grid", "a.toml", "--dry-run", "--json")[1])
    assert size["transfers"] == [told]


def test_dry_run_tells_the_speed_of_a_tier_in_gb_of_each_gpu(run, tmp_path):
    """0.4 tokens/us were taken for PCIe 5; of each of two GPUs they are what PCIe 4 has."""
    text = "[workload]\nrequests = 5\nrate = 9.0\n[cache]\ncpu_blocks = 50\n"
    text += "transfer_bandwidth = 0.4\n[grid]\nseed = [0]\n[latency]\n"
    text += 'model = "llama-3.1-8b/h100/tp2"\n'
    (tmp_path / "a.toml").write_text(text)
    told = "0.4 tokens/us: 26.21 GB/s of each GPU"
    assert f"transfers    {told}\n" in run("grid", "a.toml", "--dry-run")[1]
    two = 'groups = [{ kind = "full" }, { kind = "full" }]\noffload = "vllm"\ngpu_blocks = 400\n'
    (tmp_path / "a.toml").write_text(text.replace("cpu_blocks", f"{two}cpu_blocks"))
    size = json.loads(run("grid", "a.toml", "--dry-run", "--json")[1])
    assert size["transfers"] == ["0.4 tokens/us: 13.11 GB/s of each GPU"]


def test_dry_run_tells_the_speed_from_prefill_to_decode_without_a_link_of_the_preset(run, tmp_path):
    """The bytes of a token are the preset's, whatever links the GPU to its CPU."""
    text = "[workload]\nrequests = 5\nrate = 9.0\n[cluster]\nprefill_instances = 1\n"
    text += "decode_instances = 1\nkv_transfer_bandwidth = 0.381\n[grid]\nseed = [0]\n"
    preset = 'model = "own"\nhardware = "card"\nkind = "linear"\nsource = "me"\nfit = "all"\n'
    preset += "beta = [5000, 10, 5]\nkv_bytes_per_token = 131072\ntp = 2\n"
    (tmp_path / "own.toml").write_text(preset)
    (tmp_path / "a.toml").write_text(f'{text}[latency]\nmodel = "own.toml"\n')
    told = "0.381 tokens/us from prefill to decode: 24.97 GB/s of each GPU"
    assert json.loads(run("grid", "a.toml", "--dry-run", "--json")[1])["transfers"] == [told]


@pytest.mark.parametrize("wait", [("--wait", "-5"), ("--wait", "nan"), ("--wait", "5")])
def test_dry_run_refuses_the_wait_that_a_run_refuses(run, file, wait):
    """It took no notice of --wait."""
    told = run("grid", file, *wait)
    assert told[0] == 2
    assert run("grid", file, "--dry-run", *wait) == told


def test_dry_run_refuses_to_overwrite_what_a_run_refuses(run, file, tmp_path):
    """It told the size of a run that would end before it begins."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("mine")
    (tmp_path / "list").write_text("mine")
    for out in ("notes", "list", "list/a.zarr"):
        told = run("grid", file, "--overwrite", "--out", str(tmp_path / out))
        assert told[0] == 2
        assert run("grid", file, "--dry-run", "--overwrite", "--out", str(tmp_path / out)) == told
    new = run("grid", file, "--dry-run", "--overwrite", "--out", str(tmp_path / "new.zarr"))
    assert new[0] == 0


def test_runs_and_dry_runs_tell_which_requests_of_a_log_are_left_out(run, tmp_path):
    """Only `kvsweep trace` and `replay` did: a log with few outputs looked like a light load."""
    rows = "".join(f"{i},32,{4 if i % 2 else ''}\n" for i in range(10))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    read = 'trace = "t.csv"\nread = { failed = "leave-out" }\n'
    text = re.sub(r"(\[workload\]\n).*?\n\n", rf"\1{read}\n", BASE, count=1, flags=re.DOTALL)
    write_sweep(tmp_path, text + "[grid]\nseed = [0]\n")
    told = "t.csv: without 5 of 10 requests, which failed, or were of a warm-up"
    assert f"trace        {told}" in run("grid", "small.toml", "--dry-run")[1]
    size = json.loads(run("grid", "small.toml", "--dry-run", "--json")[1])
    assert [line.startswith(told) for line in size["traces"]] == [True]
    assert f"trace: {told}" in run("grid", "small.toml")[2]


@pytest.mark.parametrize(
    ("own", "told"),
    [
        (
            'model = "llama-3.1-8b/h100/tp1"',
            "49.94 GB/s of each GPU of prefill, 24.97 GB/s of each GPU of decode",
        ),
        ('model = "llama-3.1-8b/h100/tp2"', "24.97 GB/s of each GPU"),
        ("beta = [5000, 10, 5]", "24.97 GB/s of each GPU of decode"),
    ],
)
def test_dry_run_tells_whose_gpus_the_link_from_prefill_to_decode_has(run, tmp_path, own, told):
    """Of one GPU the link was told at half its speed, as if it were one of two."""
    text = "[workload]\nrequests = 5\nrate = 9.0\n[cluster]\nkv_transfer_bandwidth = 0.381\n"
    text += f"[cluster.prefill]\ninstances = 1\nlatency = {{ {own} }}\n[cluster.decode]\n"
    text += 'instances = 1\n[grid]\nseed = [0]\n[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    (tmp_path / "a.toml").write_text(text)
    size = json.loads(run("grid", "a.toml", "--dry-run", "--json")[1])
    assert size["transfers"] == [f"0.381 tokens/us from prefill to decode: {told}"]


@pytest.mark.parametrize(("tier", "told"), [("", True), (", cpu_blocks = 0", False)])
def test_dry_run_tells_the_speed_of_a_tier_beside_other_gpus_too(run, tmp_path, tier, told):
    """Tokens that have twice the bytes on a GPU of prefill take twice the link at that speed."""
    text = "[workload]\nrequests = 5\nrate = 9.0\n[cache]\ncpu_blocks = 50\ngpu_blocks = 2000\n"
    text += 'offload = "vllm"\n[grid]\nseed = [0]\n[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    text += "[cluster]\n"
    text += "kv_transfer_bandwidth = 0.381\ndecode = { instances = 1 }\nprefill = { instances = 1"
    text += f'{tier}, latency = {{ model = "llama-3.1-8b/h100/tp1" }} }}\n'
    (tmp_path / "a.toml").write_text(text)
    size = json.loads(run("grid", "a.toml", "--dry-run", "--json")[1])
    usual = "0.848 tokens/us: 55.6 GB/s (pcie5-x16) over 65,536 bytes a token on each GPU"
    more = ", 111.2 GB/s of each GPU of prefill" if told else ""
    assert size["transfers"][0] == f"{usual}{more}"
