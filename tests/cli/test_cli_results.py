import csv
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from stores import write_store
from sweeping import BASE, CLIFF, GRID, fake_batch, make_sweep, write_sweep

import kvsweep
from kvsweep import store
from kvsweep.analysis.questions import select
from kvsweep.analysis.warning_records import ResultWarning
from kvsweep.analysis.warnings import stored

PARETO = '[pareto]\nobjectives = ["preemption_rate:min", "throughput_rps:max"]\n'


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)


@pytest.fixture
def results(tmp_path):
    write_sweep(tmp_path, BASE + GRID + CLIFF)
    write_store("a.zarr", BASE + GRID + CLIFF)
    return "a.zarr"


def test_show_tells_axes_and_cells(run, results):
    code, out, _ = run("show", results)
    assert code == 0
    assert "84 cells, all ok" in out
    assert "round-robin, least-loaded" in out
    summary = json.loads(run("show", results, "--json")[1])
    assert summary["status"] == {"ok": 84}
    assert [axis["name"] for axis in summary["axes"]] == ["policy", "gpu_blocks", "seed"]


def test_show_looks_at_a_part(run, results):
    code, out, _ = run("show", results, "--at", "policy=least-loaded")
    assert code == 0
    assert "42 cells, all ok" in out
    assert "round-robin" not in out
    assert "no axis 'polic'; did you mean 'policy'" in run("show", results, "--at", "polic=a")[2]


def test_show_warns_of_the_cells_that_it_shows(run, results):
    found = ResultWarning("burst", "told of the whole sweep", cells=1, of=84, worst={})
    store.update_attributes(Path(results), stored([found]))
    assert "told of the whole sweep" in run("show", results)[2]
    _, out, err = run("show", results, "--at", "policy=least-loaded", "--json")
    warnings = json.loads(out)["warnings"]
    assert {warning["of"] for warning in warnings} == {42}
    assert "told of the whole sweep" not in err


def test_show_names_the_one_cell_that_it_shows(run, results):
    choice = ("policy=least-loaded", "gpu_blocks=110", "seed=3")
    options = [part for text in choice for part in ("--at", text)]
    code, out, _ = run("show", results, *options)
    assert code == 0
    assert "\nat policy least-loaded, gpu_blocks 110, seed 3\n\n1 cell, ok\n" in out
    assert "axis" not in out
    told = json.loads(run("show", results, *options, "--json")[1])
    assert told["at"] == {"policy": "least-loaded", "gpu_blocks": 110, "seed": 3}
    assert "\nat seed 3\n\naxis" in run("show", results, "--at", "seed=3")[1]


def test_cliff_finds_what_the_sweep_asks_for(run, results):
    assert "passes 0.5 at 132.5 blocks" in run("cliff", results)[1]


def test_cliff_options_come_before_the_sweep(run, results):
    code, out, _ = run("cliff", results, "--threshold", "1", "--confidence", "0.9", "--json")
    found = json.loads(out)
    assert code == 0
    assert (found["threshold"], found["confidence"]) == (1.0, 0.9)
    assert found["groups"][0]["mean_curve"]["value"] == pytest.approx(122.5)


def test_cliff_ends_with_what_to_start_and_what_breaks_first(run, results):
    out = run("cliff", results)[1]
    found = json.loads(run("cliff", results, "--json")[1])
    group = found["recommendation"]["groups"][0]
    assert group["labels"] == {"policy": "round-robin"}
    assert group["crossing"] == found["groups"][0]["mean_curve"]["value"] == pytest.approx(132.5)
    verdicts = {c["value"]: c["verdict"] for c in group["candidates"]}
    assert verdicts[140] == "within" == verdicts[group["answer"]]
    assert verdicts[130] != "within"
    assert (group["answer"], group["first"], group["first_at"]) == (140, "preemption_rate", 130)
    assert group["served"]["command"].startswith("vllm serve")
    assert "--num-gpu-blocks-override 141" in group["served"]["command"]
    assert out.count("Recommended, at gpu_blocks 140:") == 2
    assert "breaks first: preemption_rate, past its limit at 130" in out


def test_a_part_of_a_store_has_the_recommendation_of_its_own_cells(run, results):
    found = json.loads(run("cliff", results, "--at", "policy=least-loaded", "--json")[1])
    (group,) = found["recommendation"]["groups"]
    assert group["labels"] == {"policy": "least-loaded"}
    assert "least-loaded" in " ".join(group["served"]["notes"])


def test_where_nothing_is_within_the_threshold_nothing_is_recommended(run, results):
    never = ("--metric", "e2e_mean_ms", "--threshold", "0.001")
    code, out, _ = run("cliff", results, *never)
    found = json.loads(run("cliff", results, *never, "--json")[1])
    assert code == 0
    assert all(group["answer"] is None for group in found["recommendation"]["groups"])
    assert "vllm serve" not in out


def test_a_recommendation_says_which_file_is_missing(run, tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    shipped = Path(kvsweep.__file__).parent / "presets/llama-3.1-8b/h100/tp2.toml"
    (folder / "own.toml").write_text(shipped.read_text())
    text = (BASE + GRID + CLIFF).replace("beta = [1000, 10, 5]", 'model = "own.toml"')
    kvsweep.run(make_sweep(folder, text), out="c.zarr", workers=1)
    code, out, _ = run("cliff", "c.zarr")
    assert code == 0
    assert "passes 0.5 at" in out
    assert "No recommendation: " in out
    assert "own.toml" in out
    assert json.loads(run("cliff", "c.zarr", "--json")[1])["recommendation"] is None


def test_cliff_of_a_sweep_that_asks_for_none_needs_options(run, tmp_path):
    kvsweep.run(make_sweep(tmp_path, BASE + GRID), out="b.zarr", workers=1)
    code, _, err = run("cliff", "b.zarr", "--metric", "steps", "--along", "gpu_blocks")
    assert code == 2
    assert err == "kvsweep: --threshold: missing; the sweep of this store has no [cliff]\n"
    options = ["--metric", "preemption_rate", "--along", "gpu_blocks", "--threshold", "0.5"]
    assert "132.5" in run("cliff", "b.zarr", *options)[1]


def test_pareto_takes_objectives_from_options_or_sweep(run, tmp_path):
    kvsweep.run(make_sweep(tmp_path, BASE + GRID + PARETO), out="b.zarr", workers=1)
    found = json.loads(run("pareto", "b.zarr", "--json")[1])
    assert [o["metric"] for o in found["objectives"]] == ["preemption_rate", "throughput_rps"]
    given = json.loads(run("pareto", "b.zarr", "--objectives", "steps:min", "--json")[1])
    assert [o["metric"] for o in given["objectives"]] == ["steps"]
    assert "front over policy" in run("pareto", "b.zarr")[1]


def test_effects_of_all_axes_or_of_some(run, results):
    code, out, _ = run("effects", results, "--metric", "preemption_rate", "--at", "gpu_blocks=130")
    assert code == 0
    assert out.startswith("Effects on preemption_rate against policy round-robin\n")
    options = ("--metric", "steps", "--factors", "policy", "--order", "1", "--confidence", "0.9")
    found = json.loads(run("effects", results, *options, "--json")[1])
    assert (found["factors"], found["averaged"]) == (["policy"], ["gpu_blocks"])
    assert found["confidence"] == 0.9
    assert len(found["groups"][0]["effects"]) == 1


def test_effects_of_four_levels_of_an_axis(run, results):
    options = ("--metric", "preemption_rate", "--joint", "gpu_blocks=150,140,130,120")
    found = json.loads(run("effects", results, *options, "--json")[1])
    assert [e["together"] for e in found["groups"][0]["effects"]] == [None, None, 120]
    assert found["averaged"] == ["policy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "Missing option '--metric'"),
        (("--metric", "stpes"), "did you mean 'steps'"),
        pytest.param(
            ("--metric", "steps", "--factors", "polcy"),
            "no axis 'polcy'; did you mean 'policy'?",
            marks=pytest.mark.long,
        ),
        (("--metric", "steps", "--joint", "a,b,c,d"), "joint: no level 'a' of policy; one of:"),
        pytest.param(
            ("--metric", "steps", "--joint", "a,b,c,d", "--order", "1"),
            "--order: not with --joint",
            marks=pytest.mark.long,
        ),
        (("--metric", "steps", "--joint", "x=1,2,3,4", "--joint", "1,2,3,4"), "policy and x"),
    ],
)
def test_wrong_effects_are_told_in_one_line(run, results, options, message):
    code, out, err = run("effects", results, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


AXES = ("--metric", "preemption_rate", "--along", "gpu_blocks")
AT = ("--at", "gpu_blocks=130")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("cliff", ()),
        pytest.param("curve", AXES, marks=pytest.mark.long),
        pytest.param(
            "curve", ("--metric", "preemption_rate,steps", *AXES[2:]), marks=pytest.mark.long
        ),
        ("bars", ("--metric", "steps", "--over", "policy", *AT)),
        pytest.param(
            "tradeoff",
            ("--metric", "ttft_p99_ms", "--along", "gpu_blocks", "--against", "steps"),
            marks=pytest.mark.long,
        ),
        pytest.param("heatmap", (*AXES, "--over", "policy"), marks=pytest.mark.long),
        pytest.param(
            "effects", ("--metric", "steps", "--factors", "policy"), marks=pytest.mark.long
        ),
        ("pareto", ("--objectives", "preemption_rate:min,steps:min", "--at", "gpu_blocks=130")),
    ],
)
def test_plot_writes_a_figure_beside_the_store(run, results, kind, options):
    code, out, _ = run("plot", results, kind, *options)
    assert (code, out) == (0, f"a-{kind}.png\n")
    assert Path(f"a-{kind}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("cdf", ("--metric", "ttft_ms", "--threshold", "5")),
        ("attainment", ("--goodput", "ttft:0.5", "tpot:0.1")),
        pytest.param("attainment", (), marks=pytest.mark.long),
    ],
)
def test_plot_draws_shares_of_requests(run, tmp_path, kind, options):
    text = BASE + GRID + "[slo]\nttft_ms = 0.5\n"
    each = kvsweep.run(make_sweep(tmp_path, text), out="each.zarr", keep_requests=True, workers=1)
    assert "request" in each.dims
    words = ("--at", "gpu_blocks=100", "--size", "5x3", "--title", "Shares of requests")
    assert run("plot", "each.zarr", kind, *options, *words, "-o", "s.svg") == (0, "s.svg\n", "")
    text = Path("s.svg").read_text()
    assert "<!-- Shares of requests -->" in text
    assert 'width="360pt" height="216pt"' in text


def test_plot_draws_a_level_in_a_pareto(run, results):
    words = ("pareto", "--at", "gpu_blocks=100", "--level", "throughput_rps=1", "-o", "p.svg")
    assert run("plot", results, *words)[0] == 0
    assert "<!-- level 1 -->" in Path("p.svg").read_text()


def test_plot_tells_in_json_what_it_wrote(run, results):
    told = json.loads(run("plot", results, "cliff", "--json")[1])
    assert told == {"store": "a.zarr", "kind": "cliff", "figure": "a-cliff.png"}


def test_plot_draws_how_the_cliff_moves(run, tmp_path):
    text = BASE + GRID.replace("seed = {", '"engine.max_num_seqs" = [8, 16]\nseed = {') + CLIFF
    kvsweep.run(make_sweep(tmp_path, text), out="b.zarr", workers=1)
    code, out, _ = run("plot", "b.zarr", "trend", "--over", "max_num_seqs", "-o", "t.svg")
    assert (code, out) == (0, "t.svg\n")
    assert "<svg" in Path("t.svg").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("curve", "--metric", "steps"), "--along: missing"),
        pytest.param(("effects",), "--metric: missing", marks=pytest.mark.long),
        pytest.param(("heatmap", *AXES), "--over: missing", marks=pytest.mark.long),
        (("cliff", "-o", "figure.jpg"), "figure.jpg: figures are written as .png, .svg or .pdf"),
        pytest.param(
            ("cliff", "--metric", "stpes"), "did you mean 'steps'", marks=pytest.mark.long
        ),
        (("clif",), "'clif' is not one of"),
        (("cdf", "--metric", "ttft_ms"), "`kvsweep grid --requests` stores"),
        (("attainment",), "kvsweep: --goodput: missing; the sweep has no [slo]"),
        (("attainment", "--goodput", "ttft:5"), "`kvsweep grid --requests` stores"),
        (("pareto", "--threshold", "3"), "--threshold: has no effect on this kind of figure"),
        pytest.param(
            ("cliff", "--over", "policy"),
            "--over: has no effect on this kind of figure, cliff",
            marks=pytest.mark.long,
        ),
        pytest.param(
            ("prefix", "--at", "policy=a"),
            "--at: has no effect on this kind of figure, prefix",
            marks=pytest.mark.long,
        ),
        (("pareto", *AT, "--level", "steps"), "expected MEASURE=NUMBER, as ttft_p99_ms=2000"),
        (("pareto", *AT, "--level", "steps=3"), "kvsweep: --level: 'steps' is not drawn"),
        (("pareto", *AT, "--level", "steps=3", "--level", "steps=4"), "steps is given twice"),
        (("cliff", "--size", "7"), "--size 7: expected WIDTHxHEIGHT in inches, as 7x4"),
        pytest.param(
            ("cliff", "--size", "700x4"), "are not 1 to 100 inches each way", marks=pytest.mark.long
        ),
    ],
)
def test_wrong_figures_are_told_in_one_line(run, results, arguments, message):
    code, out, err = run("plot", results, *arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_part_of_a_store_can_be_looked_at(run, results):
    out = run("cliff", results, "--at", "policy=least-loaded", "--at", "seed=2")[1]
    assert "preemption_rate passes 0.5 at 132 blocks (no seeds: no interval)" in out
    assert "round-robin" not in out


@pytest.mark.parametrize("value", ["30", "30.0", "3e1"])
def test_at_takes_a_number_as_people_write_it(run, tmp_path, value):
    text = BASE + GRID.replace("seed = {", '"workload.rate" = [30, 40.5]\nseed = {') + CLIFF
    kvsweep.run(make_sweep(tmp_path, text), out="c.zarr", workers=1)
    code, out, _ = run("cliff", "c.zarr", "--at", f"rate={value}", "--at", "seed=2", "--json")
    assert code == 0
    assert "40.5" not in out


@pytest.mark.parametrize("value", ["true", "True", "1"])
def test_at_takes_a_switch_as_a_sweep_file_has_it(value):
    ds = xr.Dataset(
        {"status": (("caching", "seed"), [["a", "b"], ["c", "d"]])},
        coords={"caching": [False, True], "seed": [0, 1]},
    )
    assert select(ds, [f"caching={value}"])["status"].values.tolist() == ["c", "d"]
    with pytest.raises(kvsweep.InputError, match="the store has no such value"):
        select(ds, ["caching=2"])


@pytest.mark.parametrize(
    ("choice", "cell"),
    [
        ("policy=1.0", "a"),
        ("policy=1e3", "c"),
        ("seed=1234567890123456789", "b"),
        ("seed=1000000000000000", "a"),
        ("seed=1e15", "a"),
        ("rate=7", "a"),
        ("rate=7.0", "a"),
    ],
)
def test_names_and_numbers_are_chosen_as_they_are_shown(choice, cell):
    ds = xr.Dataset(
        {"status": (("policy", "seed", "rate"), np.reshape([*"abcd"], (2, 2, 1)))},
        coords={"policy": ["1.0", "1e3"], "seed": [10**15, 1234567890123456789], "rate": [7.0]},
    )
    assert select(ds, [choice])["status"].values.ravel()[0] == cell


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ("polcy=round-robin", "no axis 'polcy'; did you mean 'policy'?"),
        ("gpu_blocks=1000", "the store has no such value; did you mean '160'?"),
        ("gpu_blocks=12", "the store has no such value; did you mean '100'?"),
        ("gpu_blocks=131", "--at gpu_blocks=131: the store has no such value; did you mean '130'?"),
        ("seed=", "one of: 0, 1, 2, 3, 4, 5"),
    ],
)
def test_parts_that_are_not_there_are_told(run, results, choice, message):
    code, _, err = run("cliff", results, "--at", choice)
    assert code == 2
    assert message in err


@pytest.mark.parametrize("command", ["show", "pareto", "verify", "report"])
def test_a_sweep_in_place_of_a_store_is_named_as_such(run, results, command):
    code, _, err = run(command, "small.toml")
    made = "`kvsweep grid small.toml` makes one"
    assert (code, err) == (2, f"kvsweep: small.toml: is a sweep, not a store; {made}\n")


@pytest.mark.parametrize(
    ("command", "wanted"),
    [
        (("size",), "sweep"),
        (("cliff", "--search"), "sweep"),
        (("grid",), "sweep"),
        (("replay",), "trace"),
        (("trace", "info"), "trace"),
    ],
)
def test_a_store_in_place_of_a_file_is_named_as_such(run, results, command, wanted):
    code, _, err = run(*command, results)
    assert (code, err) == (2, f"kvsweep: a.zarr: is a store, not a {wanted}\n")


@pytest.mark.parametrize("choice", ["gpu_blocks", "", "policy:least-loaded"])
def test_a_choice_without_an_equals_sign_says_what_is_expected(run, results, choice):
    assert f"--at {choice}: expected AXIS=VALUE\n" in run("show", results, "--at", choice)[2]


@pytest.mark.parametrize("command", ["show", "cliff", "pareto", "plot"])
def test_unreadable_stores_are_told_in_one_line(run, results, command):
    chunk = next(f for f in sorted(Path(results, "steps", "c").rglob("*")) if f.is_file())
    chunk.write_bytes(b"rubbish")
    for path in (results, "none.zarr"):
        code, out, err = run(command, path)
        assert (code, out) == (2, "")
        assert f"kvsweep: {path}: " in err
        assert err.count("\n") == 1


@pytest.mark.parametrize("command", ["show", "verify", "cliff"])
def test_a_store_of_a_newer_version_is_told_to_be_that(run, results, command):
    store.update_attributes(Path(results), {"format": "kvsweep-store/11"})
    code, out, err = run(command, results)
    assert (code, out) == (2, "")
    assert err.startswith("kvsweep: a.zarr: made by a newer kvsweep, whose format")
    assert err.count("\n") == 1


def test_a_store_of_something_else_is_refused(run, results):
    store.update_attributes(Path(results), {"format": "other"})
    assert run("show", results)[::2] == (
        2,
        "kvsweep: a.zarr: is no store of kvsweep (attribute `format` is not 'kvsweep-store/2')\n",
    )


TRACE = {
    "format": "kvsweep-trace/1",
    "scenario": {"latency": {"beta": [1000, 10, 5]}, "cache": {"gpu_blocks": 8}},
    "requests": [
        {"id": 0, "arrival_us": 5, "prompt": [[0, 20]], "output": [1, 3]},
        {"id": 1, "arrival_us": 9, "prompt": [[2, 900]], "output": [3, 2]},
    ],
}


@pytest.fixture
def trace(tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(TRACE))
    return "trace.json"


def test_replay_writes_requests_and_steps(run, trace):
    code, out, _ = run("replay", trace, "--requests", "r.csv", "--steps", "s.csv")
    assert code == 0
    assert "2: 1 completed, 1 dropped_unservable" in out
    with open("r.csv", newline="") as file:
        first, second = csv.DictReader(file)
    assert first["arrival_us"] == "5"
    assert int(first["finish_us"]) > int(first["first_token_us"]) > 5
    assert (second["status"], second["finish_us"]) == ("dropped_unservable", "")
    with open("s.csv", newline="") as file:
        steps = list(csv.DictReader(file))
    assert [row["prefill_tokens"] for row in steps] == ["20", "0", "0"]
    assert int(steps[0]["start_us"]) + int(steps[0]["duration_us"]) == int(first["first_token_us"])


def test_replay_summary_as_json(run, trace):
    code, out, _ = run("replay", trace, "--set", "cache.gpu_blocks=100", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["request_status"] == {"completed": 2}
    assert found["ttft_mean_ms"] > 0


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        (json.dumps(TRACE)[:-40], (), "truncated"),
        (json.dumps(TRACE).replace("[1, 3]", "[1]"), (), "output"),
        (json.dumps(TRACE), ("--set", "cache.gpu_blokcs=3"), "gpu_blocks"),
        (json.dumps(TRACE), ("--requests", "no/folder.csv"), "no/folder.csv: cannot be written"),
    ],
)
def test_bad_replays_are_told_in_one_line(run, trace, content, options, message):
    Path(trace).write_text(content)
    code, out, err = run("replay", trace, *options)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_front_without_policies_is_refused_with_what_takes_another_axis(run, tmp_path):
    kvsweep.run(
        make_sweep(tmp_path, f'{BASE}[grid]\n"cache.gpu_blocks" = [100, 130]\n'), out="b.zarr"
    )
    code, _, err = run("pareto", "b.zarr")
    assert code == 2
    assert "the store has no axis 'policy', whose members compete" in err
    assert "pareto_front(ds, over=AXIS)" in err


def test_a_figure_of_another_kind_is_refused_before_anything_is_drawn(run, results, monkeypatch):
    module = sys.modules["kvsweep.cli.plot"]  # by its name the command is found
    monkeypatch.setattr(module, "draw", lambda *_: pytest.fail("was drawn"))
    code, _, err = run("plot", results, "cliff", "-o", "figure.jpg")
    assert code == 2
    assert err == "kvsweep: --out figure.jpg: figures are written as .png, .svg or .pdf\n"


def test_a_threshold_of_another_kind_of_measure_is_not_taken(run, results, tmp_path):
    """Milliseconds, and shares of which more is better, were compared with the sweep's limit."""
    told = "kvsweep: --threshold: missing; that of the sweep, 0.5, is one of preemption_rate\n"
    sweep = str(write_sweep(tmp_path, BASE + GRID + CLIFF, "own.toml"))
    for command in (("cliff", results), ("cliff", sweep, "--search"), ("plot", results, "cliff")):
        for metric in ("ttft_p99_ms", "prefix_hit_rate"):
            assert run(*command, "--metric", metric) == (2, "", told)
    for more in (("prefix_hit_rate", "--threshold", "0.1"), ("priority_inversion_rate",)):
        assert run("cliff", results, "--metric", *more)[0] == 0


def test_a_store_of_another_command_is_not_said_to_be_none(run, results):
    """A grid's, given to `calibrate`, was told to be no store of kvsweep."""
    _, out, err = run("calibrate", results)
    told = "is a store of another kind, not one that `kvsweep measure prefix` makes"
    assert (out, err.partition(" (")[0]) == ("", f"kvsweep: a.zarr: {told}")


def test_an_axis_by_its_dotted_key_and_one_that_is_given_twice_are_told(run, results):
    told = run("show", results, "--at", "cluster.policy=least-loaded")[2]
    assert ": no axis 'cluster.policy'; did you mean 'policy'?" in told
    told = run("show", results, "--at", "gpu_blocks=110", "--at", "gpu_blocks=120")[2]
    assert told == "kvsweep: --at gpu_blocks=120: 'gpu_blocks' is 110 already; give it once\n"
    told = run("cliff", results, "--along", "workload.gpu_blocks")[2]
    assert "did you mean 'gpu_blocks'?" in told


def test_blanks_in_lists_of_names_do_not_count(run, results):
    plain = run("effects", results, "--metric", "steps", "--factors", "policy,gpu_blocks")
    assert plain[0] == 0
    assert run("effects", results, "--metric", "steps", "--factors", "policy, gpu_blocks") == plain
    levels = kvsweep.open_results("a.zarr")["gpu_blocks"].values[:4]
    joint = f"gpu_blocks={', '.join(map(str, levels))}"
    assert run("effects", results, "--metric", "steps", "--joint", joint)[0] == 0
    metrics = "preemption_rate, throughput_rps"
    options = ("--metric", metrics, "--along", "gpu_blocks", "-o", "c.png")
    assert run("plot", results, "curve", *options)[0] == 0


@pytest.mark.parametrize("rules", ["vllm", "blis"])
def test_steps_of_a_replay_have_no_free_blocks_afterwards_where_none_are_logged(run, trace, rules):
    """They were 0, as of a cache that is full."""
    chosen = ("--set", f"engine.rules={rules}")
    assert run("replay", trace, *chosen, "--steps", "s.csv")[0] == 0
    with open("s.csv", newline="") as file:
        steps = list(csv.DictReader(file))
    assert {row["free_after"] for row in steps} == {""}
    assert all(row["free_blocks"] for row in steps)


def test_steps_of_a_replay_with_windows_have_the_free_blocks_afterwards(run, trace):
    groups = 'cache.groups=[{kind="sliding", window=16}, {kind="full"}]'
    assert run("replay", trace, "--set", groups, "--steps", "s.csv")[0] == 0
    with open("s.csv", newline="") as file:
        assert [row["free_after"] for row in csv.DictReader(file)][-1] == "8"


def test_a_number_with_all_its_digits_is_that_very_number():
    """Of 0.3 and 0.1 + 0.2 in one store the first was looked at, whichever was asked for."""
    values = [0.3, 0.1 + 0.2, 7.0]
    cells = ("rate", np.array(["ok"] * 3))
    ds = xr.Dataset({"status": cells}, coords={"rate": values})
    chosen = [select(ds, [f"rate={value!r}"])["rate"].item() for value in values]
    assert chosen == values
    assert select(ds, ["rate=0.30"])["rate"].item() == 0.3
    assert select(ds.isel(rate=[1, 2]), ["rate=0.3"])["rate"].item() == 0.1 + 0.2


def test_an_empty_folder_is_refused_with_a_remedy(run, tmp_path):
    """It was no store, as there was no zarr.json in it, and no word what to do."""
    Path("empty").mkdir()
    told = "empty: is no store of kvsweep but an empty folder: remove it, or name another"
    assert run("show", "empty") == (2, "", f"kvsweep: {told}\n")
    sweep = write_sweep(tmp_path, BASE + GRID)
    code, _, err = run("grid", str(sweep), "--out", "empty")
    assert (code, told in err) == (2, True)
    Path("empty/mine").touch()
    assert "there is no zarr.json in it; name another" in run("show", "empty")[2]


def test_lists_of_options_that_are_given_twice_count_together(run, results):
    """The first list was lost without a word, and with it an objective or a factor."""
    goals = ("--objectives", "preemption_rate:min", "--objectives", "steps:min")
    found = json.loads(run("pareto", results, *goals, "--json")[1])
    assert [each["metric"] for each in found["objectives"]] == ["preemption_rate", "steps"]
    factors = ("--factors", "policy", "--factors", "gpu_blocks")
    found = json.loads(run("effects", results, "--metric", "steps", *factors, "--json")[1])
    assert found["factors"] == ["policy", "gpu_blocks"]


@pytest.mark.parametrize("command", [("cliff",), ("plot", "cliff")])
def test_a_measure_never_passes_what_it_never_has(run, results, command):
    """A cliff at -1 preemptions was told to lie above all that was swept."""
    name, *kind = command
    code, _, err = run(name, results, *kind, "--threshold", "-1")
    assert (code, err) == (2, "kvsweep: --threshold: preemption_rate is never below 0\n")
    told = ("--metric", "queue_growth", "--threshold", "-0.1")
    assert run("cliff", results, *told)[0] == 0


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("curve", "--metric", "steps", "--along", "gpu_blocks"), "steps is never below 0"),
        (("bars", "--metric", "steps", "--over", "policy"), "steps is never below 0"),
        (("tradeoff", "--metric", "ttft_p99_ms", "--along", "gpu_blocks"), "never below 0"),
        (("heatmap", "--metric", "steps", "--along", "gpu_blocks", "--over", "policy"), "below 0"),
    ],
)
def test_a_line_where_a_measure_never_is_is_refused(run, results, words, problem):
    """It was drawn below 0, as if something could keep it."""
    code, _, err = run("plot", results, *words, "--threshold", "-1")
    assert (code, err.startswith("kvsweep: --threshold: ")) == (2, True)
    assert problem in err


def test_a_level_that_a_measure_never_has_is_refused(run, results):
    goals = ("--objectives", "ttft_p99_ms:min,prefix_hit_rate:max")
    for level, problem in (
        ("ttft_p99_ms=-5", "ttft_p99_ms is never below 0"),
        ("prefix_hit_rate=90", "prefix_hit_rate is a share, from 0 to 1: did you mean 0.9?"),
    ):
        code, _, err = run("plot", results, "pareto", *goals, "--level", level)
        assert (code, err) == (2, f"kvsweep: --level {level}: {problem}\n")
    share = ("--metric", "prefix_hit_rate", "--threshold", "90")
    assert run("cliff", results, *share)[2].startswith("kvsweep: --threshold: prefix_hit_rate is a")


@pytest.mark.parametrize("level", ["ttft_p99_ms<=5", "ttft_p99_ms>=5", "=5", "ttft_p99_ms=inf"])
def test_a_level_of_another_form_is_told_its_form(run, results, level):
    """`ttft_p99_ms<=5`, as `kvsweep size` takes it, was a measure 'ttft_p99_ms<'."""
    code, _, err = run("plot", results, "pareto", "--level", level)
    assert code == 2
    assert f"--level {level}: expected MEASURE=NUMBER, as ttft_p99_ms=2000" in err


def test_a_level_may_have_blanks_about_its_sign(run, results):
    goals = ("--objectives", "ttft_p99_ms:min,throughput_rps:max", "--at", "gpu_blocks=100")
    assert (
        run("plot", results, "pareto", *goals, "--level", "ttft_p99_ms = 5", "-o", "p.svg")[0] == 0
    )
