"""A sweep that is explored: its controls follow from the schema, its numbers are those of a run."""

import base64
import json
import re
import shlex
import tomllib
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from exploring import life, listening, save, show
from hypothesis import given
from hypothesis import strategies as st
from sweeping import BASE, CLIFF, GRID, make_sweep, write_sweep

import kvsweep
from kvsweep.analysis.timeline import timeline_of
from kvsweep.config import load_sweep
from kvsweep.config.scenario import Scenario
from kvsweep.config.schema import leaf_keys, types_at
from kvsweep.config.toml_text import document, literal
from kvsweep.explorer import lives, saving
from kvsweep.explorer.hello import hello
from kvsweep.explorer.of_sweep import OfSweep
from kvsweep.explorer.stages import MOST_POINTS, spread, stages
from kvsweep.trace_replay import run_replay

H8 = BASE + GRID.replace("start = 100, stop = 160", "start = 60, stop = 120") + CLIFF


def curve(answer, measure=0, scenario=0):
    return np.array(answer["measures"][measure]["curves"][scenario]["mean"], float)


def keys_of(subject):
    return {control.key: control for control in subject.controls(subject.alongs[0]["name"])}


def test_numbers_are_those_of_a_run_of_the_same_settings(tmp_path):
    file = write_sweep(tmp_path, H8)
    settings = {"policy": "least-loaded", "workload.rate": 1500, "workload.output.mean": 200.5}
    with listening(OfSweep(load_sweep(file))) as page:
        page.ask(show(1, {}, settings))
        answer = page.until("curves", 1)[-1]
    output = "{ dist = 'gaussian', mean = 200.5, std = 50.0, min = 128, max = 512 }"
    overrides = ["policy=least-loaded", "workload.rate=1500", f"workload.output={output}"]
    sweep = load_sweep(file, overrides, seeds=answer["seeds"])
    ds = kvsweep.run(sweep, out=tmp_path / "run.zarr").squeeze("policy", drop=True)
    mean = ds["preemption_rate"].mean("seed").values
    assert curve(answer, 0, 1) == pytest.approx(mean, rel=1e-12)
    (group,) = kvsweep.find_cliff(ds, threshold=0.5).groups
    told = answer["cliff"]["groups"][1]
    assert told["value"] == pytest.approx(group.mean_curve.value, rel=1e-12, nan_ok=False)
    assert (told["low"], told["high"]) == (group.interval.low, group.interval.high)
    late = ds["ttft_ms"].sel(quantile=0.99).mean("seed").values
    assert curve(answer, 1, 1) == pytest.approx(late, rel=1e-12)
    base = load_sweep(file, ["policy=round-robin"], seeds=answer["seeds"])
    other = kvsweep.run(base, out=tmp_path / "base.zarr").squeeze("policy", drop=True)
    found = kvsweep.compare(other, ds, "preemption_rate")
    difference = answer["measures"][0]["difference"]
    assert difference["mean"] == pytest.approx([d.difference for d in found.differences])
    assert difference["low"] == pytest.approx([d.interval.low for d in found.differences])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"workload.rate": -5}, "small.toml: --set workload.rate: must be more than 0, got -5"),
        ({"workload.rate": "x"}, "small.toml: --set workload.rate: expected a number, got 'x'"),
        ({"workload.rate": 2.0**60}, "workload.rate: must be at most 1e+12, got"),
        ({"workload.requests": 2.5}, "workload.requests: expected an integer, got 2.5"),
        ({"workload.requests": True}, "workload.requests: expected an integer, got true"),
        ({"policy": "rr"}, "page: policy: 'rr' cannot be chosen; one of: round-robin, least-"),
        ({"latency.model": "/etc/passwd"}, "page: latency.model: '/etc/passwd' cannot be chosen"),
        ({"workload.trace": "/etc/passwd"}, "page: workload.trace: cannot be set here"),
        ({"cache.gpu_blocks": 100}, "page: cache.gpu_blocks: cannot be set here"),
        ({"__class__": 1}, "page: __class__: cannot be set here"),
        ({"cache.offload_threshold": 0.5}, "cache.offload_threshold: has no effect: needs"),
        ({"workload.rate": "1 # \n[x]"}, "expected a number, got '1 # \\\\n[x]'"),
    ],
)
def test_bad_settings_are_refused_in_one_line_and_open_no_file(tmp_path, settings, told):
    with pytest.raises(kvsweep.InputError) as refused:
        OfSweep(make_sweep(tmp_path, H8)).part(settings, "gpu_blocks")
    assert told.replace("\\\\", "\\") in str(refused.value)


def test_a_life_is_that_of_a_replay_with_the_same_settings(tmp_path):
    file = write_sweep(tmp_path, H8)
    settings = {"policy": "least-loaded", "workload.rate": 1500}
    with listening(OfSweep(load_sweep(file))) as page:
        page.ask(life(1, settings, 80, seed=2))
        told = page.until("life", 1)[-1]
    cell = ["policy=least-loaded", "workload.rate=1500", "cache.gpu_blocks=80", "seed=2"]
    found = timeline_of(run_replay(file, cell))
    data = told["data"]
    assert found.preemptions > 0
    assert f"{found.preemptions} preemptions, 80 blocks" in told["told"]
    assert data["row"] == found.row.tolist()
    assert data["phase"] == found.phase.tolist()
    assert [1000 * start for start in data["start"]] == pytest.approx(found.start_us)
    assert [used for _, used in data["used"]] == [used.tolist() for _, used in found.used]
    assert told["present"] == sorted(set(data["phase"]))
    assert json.dumps(told, allow_nan=False)


def test_a_life_draws_for_each_request_what_its_seed_draws(tmp_path):
    drafts = "[engine.speculative]\ntokens = 3\nmethod = 'draft'\nacceptance = 0.5\n"
    file = write_sweep(tmp_path, H8.replace("[grid]", f"{drafts}[grid]"))
    part = OfSweep(load_sweep(file)).part({}, "gpu_blocks")
    cell = ["policy=round-robin", "cache.gpu_blocks=80", "seed=2"]
    found = timeline_of(run_replay(file, cell))
    assert part.life(80, 2)["data"]["start"] == pytest.approx(found.start_us / 1000)


def test_lives_that_are_too_many_to_draw_are_refused(tmp_path, monkeypatch):
    subject = OfSweep(load_sweep(write_sweep(tmp_path, H8)))
    part = subject.part({}, "gpu_blocks")
    with pytest.raises(kvsweep.InputError, match=r"page: gpu_blocks has no value 81\.5"):
        part.life(81.5, 0)
    monkeypatch.setattr(lives, "MOST_SEGMENTS", 3)
    with pytest.raises(kvsweep.InputError, match="preemptions, too many to draw here"):
        part.life(80, 0)
    monkeypatch.setattr(lives, "MOST_REQUESTS", 3)
    with pytest.raises(kvsweep.InputError, match="the lives of at most 3 are drawn here"):
        part.life(80, 0)


def test_of_many_steps_the_most_blocks_of_several_are_told(monkeypatch):
    monkeypatch.setattr(lives, "MOST_POINTS", 4)
    few = [0.0, 1.0], [3, 2]
    assert lives.thinned(*few) == few
    times, used = lives.thinned([float(n) for n in range(10)], [1, 5, 2, 2, 9, 0, 0, 1, 0, 0])
    assert times == [0.0, 2.0, 5.0, 7.0]
    assert used == [5, 9, 0, 1]


def test_a_part_of_a_distribution_that_the_file_leaves_to_its_default_can_be_set(tmp_path):
    subject = OfSweep(make_sweep(tmp_path, H8))
    part = subject.part({"workload.output.mean": 300, "workload.output.std": 9.5}, "gpu_blocks")
    drawn = part.scenario(0).workload.output
    assert (drawn.mean, drawn.std, drawn.min, drawn.max) == (300, 9.5, 128, 512)


def test_a_page_goes_by_the_file_as_it_was_when_it_was_opened(tmp_path):
    file = write_sweep(tmp_path, H8)
    subject = OfSweep(load_sweep(file))
    file.write_text("no sweep any more")
    assert subject.part({"workload.requests": 30}, "gpu_blocks").scenario(0).workload.requests == 30


def test_every_scalar_of_a_scenario_can_be_set_but_files_and_kinds_of_tables(tmp_path):
    known = keys_of(OfSweep(make_sweep(tmp_path, H8)))
    scalars = {
        key
        for key in leaf_keys(Scenario)
        if (kinds := set(types_at(Scenario, tuple(key.split(".")))) - {type(None)})
        and kinds <= {int, float, bool, str}
    }
    left = {key for key in scalars - known.keys() if not key.startswith("workload.read.columns.")}
    lists = {"latency.alpha", "latency.first_steps_us"}
    places = ("latency", "cluster.prefill.latency", "cluster.decode.latency")
    lists |= {
        f"{place}.{key}" for place in places for key in ("beta", "memory", "experts", "window")
    }
    files = {"workload.trace", "workload.lengths_from", "model.config", "model.dtype"}
    kinds = {key for key in left if key.startswith(("workload.prompt.", "workload.output."))}
    assert left == lists | files | kinds | {"cache.gpu_blocks", "workload.read.subagent_ids"} & left
    given = {"workload.prompt.mean", "workload.prompt.std", "workload.prompt.min"}
    assert given <= known.keys()  # of the distribution that there is


def test_controls_have_units_meanings_and_ranges_about_their_values(tmp_path):
    for control in keys_of(OfSweep(make_sweep(tmp_path, H8))).values():
        assert control.unit
        assert control.meaning
        if control.kind == "number":
            assert control.low < control.high, control
            if control.value is not None:
                assert control.low <= control.value <= control.high, control
        if control.kind == "choice" and control.value is not None:
            assert control.value in control.choices, control


def test_the_ends_of_sliders_are_within_the_limits_of_the_schema(tmp_path):
    subject = OfSweep(make_sweep(tmp_path, H8))
    for control in keys_of(subject).values():
        if control.kind != "number" or not control.shown:
            continue
        for end in (control.low, control.high):
            value = int(end) if control.whole else end
            assert "must be" not in refusal(subject, {control.key: value})


def refusal(subject, settings):
    """Return why settings are refused, as one key may not go with another; nothing if not."""
    try:
        subject.part(settings, "gpu_blocks")
    except kvsweep.InputError as error:
        return str(error)
    return ""


def test_axes_of_the_sweep_come_first_and_its_own_keys_are_shown(tmp_path):
    controls = OfSweep(make_sweep(tmp_path, H8)).controls("gpu_blocks")
    assert controls[0].key == "policy"
    assert controls[0].choices[:2] == ("round-robin", "least-loaded")
    shown = [control.key for control in controls if control.shown]
    assert shown == ["policy", "workload.requests", "cluster.instances"]


def test_the_sweep_says_along_which_axis_and_at_which_threshold(tmp_path):
    grid = '[grid]\n"workload.rate" = [1.0, 2.0]\n"cache.gpu_blocks" = [100, 120, 140]\n'
    told = hello(OfSweep(make_sweep(tmp_path, BASE + grid + CLIFF)))
    assert [along["name"] for along in told["alongs"]] == ["gpu_blocks", "rate"]
    assert (told["shown"][0], told["threshold"]) == ("preemption_rate", 0.5)
    assert told["controls"]["rate"][0]["key"] == "cache.gpu_blocks"


@pytest.mark.parametrize(
    ("grid", "told"),
    [
        ('policy = ["round-robin"]', "small.toml: grid: no numeric axis of two values or more"),
        ('"cache.gpu_blocks" = [100]', "small.toml: grid: no numeric axis"),
    ],
)
def test_a_sweep_without_a_numeric_axis_is_refused(tmp_path, grid, told):
    with pytest.raises(kvsweep.InputError, match=told):
        OfSweep(make_sweep(tmp_path, BASE + "[grid]\n" + grid))


def test_a_design_is_refused(tmp_path):
    design = '[design]\nsamples = 4\n"workload.rate" = { from = 10, to = 20 }\n'
    with pytest.raises(kvsweep.InputError, match="the points of a design are in no order"):
        OfSweep(make_sweep(tmp_path, BASE + design))


def test_a_saved_file_is_the_same_sweep_wherever_it_lies(tmp_path):
    (tmp_path / "fast.toml").write_text(
        'model = "m"\nhardware = "h"\nsource = "s"\nfit = "f"\nkind = "linear"\nbeta = [1, 2, 3]'
    )
    text = H8.replace("beta = [1000, 10, 5]", 'model = "fast.toml"')
    text += (
        '\n[policies.mine]\n"cluster.routing" = "weighted"\ncluster.scorers = { queue-depth = 2 }\n'
    )
    text = text.replace('"least-loaded"]', '"mine"]')
    subject = OfSweep(make_sweep(tmp_path, text))
    settings = {"policy": "mine", "workload.rate": 1500, "workload.prompt.std": 40}
    with listening(subject) as page:
        page.ask(show(1, settings))
        seeds = page.until("curves", 1)[-1]["seeds"]
        page.ask(save("toml"))
        saved = page.until("saved", 0)[-1]
        page.ask(save("command"))
        command = page.until("saved", 0)[-1]["text"]
    assert saved["name"] == "small-explored.toml"
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    again = load_sweep(write_sweep(elsewhere, saved["text"], saved["name"]))
    made = json.dumps(subject.changed(settings, "gpu_blocks").to_dict())
    whole = made.replace('"fast.toml"', json.dumps(str(tmp_path / "fast.toml")))
    assert again.to_dict() == json.loads(whole)
    first, second = (shlex.split(line) for line in command.splitlines())
    overrides = [first[n + 1] for n, word in enumerate(first) if word == "--set"]
    by_command = load_sweep(first[2], overrides, int(first[first.index("--seeds") + 1]))
    assert by_command.to_dict() == subject.changed(settings, "gpu_blocks", seeds).to_dict()
    assert second[:3] == ["kvsweep", "cliff", first[first.index("--out") + 1]]


POLICIES = """
[policies.small]
"cache.block_size" = 8

[policies.large]
"cache.block_size" = 32

[policies.spare]
"cache.block_size" = 64
"""
ALL = H8.replace('["round-robin", "least-loaded"]', '["small", "large", "spare"]') + POLICIES


@pytest.mark.parametrize("policy", ["small", "spare"])
def test_a_saved_file_has_no_policy_that_it_does_not_run(tmp_path, policy):
    subject = OfSweep(make_sweep(tmp_path, ALL))
    text = subject.toml({"policy": policy}, "gpu_blocks")
    again = load_sweep(write_sweep(tmp_path, text, "saved.toml"))
    assert list(again.policies) == [policy]
    assert subject.toml({"policy": "round-robin"}, "gpu_blocks").count("policies") == 0


def test_policies_that_an_option_has_left_idle_stay_so(tmp_path):
    options = ['policy=["small", "large"]', 'policies.large={"cache.block_size"=16}']
    subject = OfSweep(make_sweep(tmp_path, ALL, overrides=options))
    for policy, size in (("small", 8), ("large", 16)):
        made = subject.changed({"policy": policy}, "gpu_blocks")
        assert made.scenario({"policy": policy}).cache.block_size == size


def test_what_options_had_set_is_in_the_command_too(tmp_path):
    sweep = make_sweep(tmp_path, H8, overrides=["workload.requests=30", "seed=[3, 5, 8]"])
    with listening(OfSweep(sweep)) as page:
        page.ask(show(1, {"workload.rate": 1500}))
        page.until("curves", 1, done=False)
        page.ask(save("command"))
        command = page.until("saved", 0)[-1]["text"]
    assert "--set workload.requests=30 " in command
    assert "--set workload.rate=1500 " in command
    assert "--set 'seed=[3, 5, 8" in command


@pytest.mark.parametrize(
    ("scenarios", "threshold"), [(({}, {"workload.rate": 1500}), 0.5), (({},), None)]
)
def test_figures_are_drawn_of_what_is_shown(tmp_path, scenarios, threshold):
    with listening(OfSweep(make_sweep(tmp_path, H8))) as page:
        page.ask(show(1, *scenarios, threshold=threshold))
        page.until("curves", 1, done=False)
        page.ask(save("svg"))
        saved = page.until("saved", 0)[-1]
    assert saved["name"] == "small-preemption_rate.svg"
    assert saved["base64"].startswith("PD94bWwg")  # <?xml


def test_a_trace_has_one_seed_and_no_interval(tmp_path):
    lines = "timestamp,input_length,output_length"
    rows = [f'{{"timestamp": {n}, "input_length": 900, "output_length": 90}}' for n in range(20)]
    assert lines
    (tmp_path / "trace.jsonl").write_text("\n".join(rows).replace("}", ', "hash_ids": [1, 2]}'))
    text = H8.replace("requests = 20", 'trace = "trace.jsonl"')
    with listening(OfSweep(make_sweep(tmp_path, text))) as page:
        page.ask(show(1))
        answer = page.until("curves", 1)[-1]
    assert answer["seeds"] == 1
    assert set(answer["measures"][0]["curves"][0]["low"]) == {None}
    assert any("one seed: no intervals" in note for note in answer["notes"])


def test_long_axes_are_thinned_with_both_ends_and_the_command_says_so(tmp_path):
    text = H8.replace("step = 10", "step = 1").replace("stop = 120", "stop = 500")
    subject = OfSweep(make_sweep(tmp_path, text))
    values = subject.part({}, "gpu_blocks").along.values
    assert len(values) == MOST_POINTS
    assert (values[0], values[-1]) == (60, 500)
    (told,) = (t for t in subject.overrides({}, "gpu_blocks") if t.startswith("cache.gpu_blocks="))
    assert told.count(",") == MOST_POINTS - 1


@given(st.integers(1, 300), st.integers(1, 128), st.one_of(st.none(), st.floats(1e-6, 10)))
def test_stages_grow_to_all_points_and_seeds(points, seeds, cost):
    found = list(stages(points, seeds, cost))
    assert found[-1].points == tuple(range(points))
    assert found[-1].seeds == seeds
    for before, after in pairwise(found):
        assert set(before.points) <= set(after.points)
        assert before.seeds <= after.seeds
    assert {0, points - 1} <= set(spread(points, 20))


TABLES = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(-(2**62), 2**62),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(st.characters(codec="utf-8")),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=3),
    ),
    max_leaves=8,
)


@given(TABLES)
def test_what_is_written_as_toml_is_read_as_the_same(value):
    assert tomllib.loads(f"x = {literal(value)}") == {"x": value}
    assert tomllib.loads(document({"a": 1, "t": {"x": value}})) == {"a": 1, "t": {"x": value}}


@pytest.mark.parametrize(
    ("more", "there"),
    [
        ("", "engine.pipeline_parallel_size"),
        ('[model]\npreset = "llama-3.1-8b"\n', "model.pp"),
        ('[model]\npreset = "llama-3.1-8b"\npp = 2\n', "model.pp"),
        (
            '[model]\npreset = "llama-3.1-8b"\n[engine]\npipeline_parallel_size = 2\n',
            "engine.pipeline_parallel_size",
        ),
    ],
)
def test_the_stages_of_a_pipeline_have_one_control_and_it_can_be_moved(tmp_path, more, there):
    subject = OfSweep(make_sweep(tmp_path, H8 + more))
    stages = {"engine.pipeline_parallel_size", "model.pp"}
    assert there in keys_of(subject).keys() & stages
    assert not more or keys_of(subject).keys() & stages == {there}
    assert refusal(subject, {there: 3}) == ""


def test_scenarios_of_blocks_of_other_bytes_have_no_gib_in_common(tmp_path):
    """Below both curves stood the memory of A, and in their figure."""
    text = H8 + '[model]\npreset = "llama-3.1-8b"\n'
    sizes = {"cache.block_size": 16}, {"cache.block_size": 32}
    with listening(OfSweep(make_sweep(tmp_path, text))) as page:
        page.ask(show(1, *sizes))
        apart = page.until("curves", 1, done=False)[-1]
        page.ask(save("svg"))
        drawn = page.until("saved", 0)[-1]["base64"]
        page.ask(show(2, sizes[0], sizes[0] | {"workload.rate": 1500}))
        alike = page.until("curves", 2, done=False)[-1]
    assert [group["gib"] for group in apart["cliff"]["groups"]] == [2 / 1024, 4 / 1024]
    assert apart["axis"]["gib"] is None
    assert "GiB" not in base64.b64decode(drawn).decode()
    assert alike["axis"]["gib"] == 2 / 1024


@pytest.mark.parametrize(
    ("key", "values", "names"),
    [
        (
            "engine.enable_prefix_caching",
            (False, True),
            ["A: enable_prefix_caching false", "B: enable_prefix_caching true"],
        ),
        (
            "engine.max_model_len",
            (None, 4096),
            ["A: max_model_len not set", "B: max_model_len 4096"],
        ),
        ("policy", ("one", "two"), ["A: policy one", "B: policy two"]),
    ],
)
def test_figures_name_scenarios_by_settings_as_a_sweep_file_has_them(key, values, names):
    """A figure had `enable_prefix_caching True`, and None of what a file does not say."""
    control = SimpleNamespace(key=key, value=values[0])
    subject = SimpleNamespace(controls=lambda along: (control,))
    asked = SimpleNamespace(along="gpu_blocks", scenarios=({}, {key: values[1]}))
    assert saving._names(subject, SimpleNamespace(show=asked)) == names


@pytest.mark.parametrize(
    ("measure", "others", "told"),
    [
        ("goodput_rps", [], "'goodput_rps' needs slo.ttft_ms or slo.tpot_ms or slo.e2e_ms"),
        ("slo_attainment", [{"slo.ttft_ms": 5.0}], "'slo_attainment' needs slo.ttft_ms or"),
        ("slo_tpot_attainment", [], "'slo_tpot_attainment' needs slo.tpot_ms"),
    ],
)
def test_measures_of_levels_that_a_scenario_lacks_are_refused_in_one_line(
    tmp_path, capsys, measure, others, told
):
    """They are offered, as levels can be set on the page: it was a traceback, of a KeyError."""
    with listening(OfSweep(make_sweep(tmp_path, H8))) as page:
        page.ask(show(1, {}, *others, measures=["preemption_rate", measure]))
        refused = page.until("refused", 1)[-1]["text"]
        page.ask(show(2, {"slo.ttft_ms": 5.0}, measures=["slo_attainment"], threshold=None))
        assert page.until("curves", 2)[-1]["measures"][0]["name"] == "slo_attainment"
    assert refused.startswith(f"page: measure {told}")
    assert "Traceback" not in capsys.readouterr().err


def test_requests_of_a_trace_that_are_left_out_are_told(tmp_path):
    rows = "".join(f"{i},32,{4 if i % 2 else ''}\n" for i in range(10))
    (tmp_path / "t.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    workload = '[workload]\ntrace = "t.csv"\nread = { failed = "leave-out" }\n\n'
    text = re.sub(r"\[workload\]\n.*?\n\n", workload, BASE, count=1, flags=re.DOTALL)
    sweep = make_sweep(tmp_path, text + '[grid]\n"cache.gpu_blocks" = [100, 120]\n')
    with listening(OfSweep(sweep)) as page:
        page.ask(show(1, {}))
        notes = page.until("curves", 1)[-1]["notes"]
    assert any(note.startswith("t.csv: without 5 of 10 requests, which failed") for note in notes)
