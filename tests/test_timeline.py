"""Timelines: a request does one thing at a time, as its columns say; their figure and page."""

import json
import pickle
import random
import re
import shutil
import subprocess
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import explicit_traces
import numpy as np
import pytest
from sweeping import BASE
from test_plot import check_layout

import kvsweep
from kvsweep import load_sweep, plot
from kvsweep.analysis import timeline as timelines
from kvsweep.analysis.request_lives import Phase
from kvsweep.analysis.timeline import timeline_of
from kvsweep.cli import main
from kvsweep.config.fleet import is_explicit
from kvsweep.errors import InputError
from kvsweep.plot.timeline_figure import draw_timeline, heading
from kvsweep.plot.timeline_page import draw_page, drawn_data
from kvsweep.records import Event
from kvsweep.trace_replay import run_replay

GOLDENS = Path(__file__).parent / "goldens"
KINDS = (
    "vllm/fuzz_00",
    "vllm/h8_s42_b1500",
    "vllm2/async/fuzz_1031",
    "vllm2/async/real_1002_starving",
    "vllm2/offload/mix_1043",
    "vllm2/offload/real_1001_starving",
    "vllm2/hybrid/fuzz_1008",
    "vllm2/spec/fuzz_1022",
    "vllm2/mix/fuzz_1119",
    "vllm2/tiered/hybrid_12",
    "vllm2/tiered/spec_4",
)
APART = ("vllm2/pd/fuzz_1002", "vllm2/pd/combo_126")


@pytest.fixture(scope="module", params=(*KINDS, *APART))
def replayed(request):
    found = run_replay(GOLDENS / f"{request.param}.json.gz")
    return found, timeline_of(found)


def lives(found, timeline):
    """Yield the position of each request in the list with its segments in order of time."""
    for row, request in enumerate(timeline.rows):
        own = np.flatnonzero(timeline.row == row)
        yield request, own[np.argsort(timeline.start_us[own], kind="stable")]


def test_a_request_does_one_thing_at_a_time_from_arrival_to_end(replayed):
    found, timeline = replayed
    origin = found.requests["arrival_us"].min()
    for request, own in lives(found, timeline):
        start, end = timeline.start_us[own], timeline.end_us[own]
        assert (start < end).all()
        assert (start[1:] == end[:-1]).all()
        if found.requests["finish_us"][request] >= 0:
            assert start[0] + origin == found.requests["arrival_us"][request]
            assert end[-1] + origin == found.requests["finish_us"][request]


def test_phases_are_what_the_columns_of_requests_say(replayed):
    found, timeline = replayed
    origin = found.requests["arrival_us"].min()
    for request, own in lives(found, timeline):
        phase = timeline.phase[own]
        if found.requests["status"][request] == "completed":
            preempted = (phase == Phase.PREEMPTED).sum()
            told = found.requests["preemptions"][request]
            # Of drafts and windows some return, or end by what is in flight, in the same step.
            assert preempted <= told if is_explicit(found.scenario) else preempted == told
            prefills = own[np.isin(phase, (Phase.PREFILL, Phase.AGAIN))]
            first = found.requests["first_token_us"][request] - origin
            if Phase.MOVING in phase:
                assert timeline.start_us[own[phase == Phase.DECODE][0]] < first
            else:
                assert first in timeline.end_us[prefills]
            decodes = int(found.trace.requests.output_tokens[request] > 1)
            assert (phase == Phase.DECODE).sum() >= decodes * (preempted == 0)
        after = {b for a, b in pairwise(phase) if a == Phase.PREEMPTED}
        assert after <= {Phase.AGAIN, Phase.LOADING}
    assert timeline.preemptions == found.requests["preemptions"].sum()


def test_no_instance_uses_more_blocks_than_it_has(replayed):
    found, timeline = replayed
    assert len(timeline.used) == found.scenario.cluster.instances
    for blocks, (times, used) in zip(timeline.blocks, timeline.used, strict=True):
        assert (np.diff(times) >= 0).all()
        assert (used >= 0).all()
        assert used.max() <= blocks
        assert used[-1] == 0


def test_requests_that_share_a_lane_follow_each_other(replayed):
    _, timeline = replayed
    for lane in np.unique(timeline.lane):
        rows = np.flatnonzero(timeline.lane == lane)
        assert len(np.unique(timeline.instance[rows])) == 1
        own = np.isin(timeline.row, rows)
        order = np.argsort(timeline.start_us[own], kind="stable")
        assert (timeline.start_us[own][order][1:] >= timeline.end_us[own][order][:-1]).all()


def test_loads_of_a_cpu_tier_are_phases_of_their_own():
    timeline = timeline_of(run_replay(GOLDENS / "vllm2/offload/real_1001_starving.json.gz"))
    assert Phase.LOADING in timeline.phase


@pytest.mark.parametrize("name", APART)
def test_requests_move_from_the_end_of_their_prefill_to_a_decode_instance(name):
    found = run_replay(GOLDENS / f"{name}.json.gz")
    timeline = timeline_of(found)
    moved = sum(Phase.MOVING in timeline.phase[own] for _, own in lives(found, timeline))
    pulls = found.events["request"][found.events["kind"] == Event.PULL]
    assert moved == len(np.unique(pulls)) > 0
    for _, own in lives(found, timeline):
        for a, b in pairwise(timeline.phase[own]):
            assert (a == Phase.MOVING) <= (b in (Phase.DECODE, Phase.PREFILL, Phase.AGAIN))


@pytest.mark.parametrize("name", APART)
def test_finished_prefills_keep_their_blocks_until_they_have_moved(name):
    timeline = timeline_of(run_replay(GOLDENS / f"{name}.json.gz"))
    moving = np.flatnonzero(timeline.phase == Phase.MOVING)
    assert len(moving)
    for segment in moving:
        times, used = timeline.used[timeline.instance[timeline.row[segment]]]
        start, end = timeline.start_us[segment], timeline.end_us[segment]
        first = np.searchsorted(times, start, side="right") - 1
        assert (used[first : np.searchsorted(times, end)] > 0).all()


CELL = ["cache.gpu_blocks=60", "seed=0"]
GRID = '[grid]\n"cache.gpu_blocks" = [60, 90]\nseed = { count = 2 }\n'


@pytest.fixture
def sweep(tmp_path):
    (tmp_path / "small.toml").write_text(BASE + GRID)
    return tmp_path / "small.toml"


def test_a_cell_of_a_sweep_is_replayed_and_several_are_refused(sweep):
    assert len(timeline_of(run_replay(sweep, CELL)).rows) == 20
    with pytest.raises(InputError, match=r"by --set cache.gpu_blocks=60 --set seed=0$"):
        run_replay(sweep)
    with pytest.raises(InputError, match="which a sweep does itself"):
        run_replay(sweep, CELL, ["format=csv"])
    loud = sweep.rename(sweep.with_suffix(".TOML"))
    assert len(timeline_of(run_replay(loud, CELL)).rows) == 20


def test_rules_without_a_log_of_decisions_are_refused(sweep):
    with pytest.raises(InputError, match="rules 'blis' log no decisions"):
        plot.plot_timeline(sweep, [*CELL, "engine.rules=blis"])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("style", ["column", "slide"])
@pytest.mark.parametrize("more", [[], ["cluster.instances=1"], ["cluster.instances=6"]])
def test_the_figure_names_what_is_in_it(sweep, more, style, dark):
    with plot.look(style, dark=dark):
        figure = plot.plot_timeline(sweep, [*CELL, *more])
        texts = check_layout(pickle.loads(pickle.dumps(figure)))
    assert "Life of the requests of small.toml" in texts
    assert {"time (s)", "all 60", "decode"} <= set(texts)
    several = more != ["cluster.instances=1"]
    assert ("instance 1" in texts) == several


MODEL = '[model]\npreset = "llama-3.1-8b"\nkv_gib = 0.5\n'
POOLS = "pools = [{ instances = 2, gpu_blocks = 70 }, { instances = 1, gpu_blocks = 30 }, "
POOLS += "{ instances = 1, gpu_blocks = 28 }, { instances = 1 }]"


def test_blocks_are_those_of_the_pools(tmp_path):
    text = BASE.replace("instances = 2", POOLS) + MODEL + "[grid]\nseed = [0]\n"
    (tmp_path / "pools.toml").write_text(text)
    timeline = timeline_of(run_replay(tmp_path / "pools.toml"))
    assert timeline.blocks == (70, 70, 30, 28, 255)
    limits = {text for text in check_layout(draw_timeline(timeline)) if text.startswith("all ")}
    assert limits == {  # of 28 blocks there is no room
        "all 255 (0.5 GiB per GPU) of 1 instance",
        "all 70 (0.14 GiB per GPU) of 2 instances",
        "all 30 (0.06 GiB per GPU) of 1 instance",
    }
    told = "70 blocks (0.14 GiB per GPU) on 2 instances, 30 blocks (0.06 GiB per GPU) on 1 instance"
    assert told in heading(timeline)[1]


def test_blocks_of_one_of_several_groups_have_no_known_memory(tmp_path):
    groups = "groups = [{ kind = 'full' }, { kind = 'sliding', window = 64 }]\n"
    text = f"{BASE}{MODEL}[cache]\ngpu_blocks = 300\n{groups}[grid]\nseed = [0]\n"
    (tmp_path / "groups.toml").write_text(text)
    assert timeline_of(run_replay(tmp_path / "groups.toml")).block_gib is None


def test_a_long_list_is_packed_into_rows_and_drawn(sweep):
    more = ["workload.requests=400", "workload.rate=20.0", "cache.gpu_blocks=200", "seed=0"]
    timeline = timeline_of(run_replay(sweep, more))
    assert timeline.is_long
    assert timeline.lane.max() < 60
    check_layout(draw_timeline(timeline))


def crosses(panel):
    (line,) = (line for line in panel.lines if line.get_marker() == "x")
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


def test_requests_that_never_end_are_marked_where_they_ended(sweep):
    found = run_replay(sweep, ["cache.gpu_blocks=30", "seed=0"])
    timeline = timeline_of(found)
    assert len(timeline.lost) > 0
    figure = draw_timeline(timeline)
    x, y = crosses(figure.axes[0])
    requests = timeline.rows[timeline.lost]
    arrival = found.requests["arrival_us"]
    never_in = found.requests["status"][requests] == "dropped_unservable"
    assert never_in.any()
    at = arrival[requests[never_in]] - arrival.min()
    assert len(np.unique(at)) > 1
    assert x[never_in] == pytest.approx(at / 1e6)
    assert y.tolist() == timeline.lost.tolist()
    assert "not completed" in check_layout(figure)
    data = drawn_data(timeline)
    assert data["lost"] == timeline.lost.tolist()
    assert data["lost_at"] == pytest.approx((timeline.lost_us / 1000).tolist())


def test_a_request_that_was_dropped_after_all_others_had_ended_is_in_view(sweep):
    timeline = timeline_of(run_replay(sweep, ["cache.gpu_blocks=30", "seed=0"]))
    assert timeline.last_us >= timeline.lost_us.max()


def test_requests_that_never_arrived_have_no_cross(sweep):
    found = run_replay(sweep, ["cache.gpu_blocks=30", "seed=0"])
    timeline = timeline_of(found)
    first = replace(
        timeline, lost_us=np.where(timeline.lost == timeline.lost[0], -1, timeline.lost_us)
    )
    x, _ = crosses(draw_timeline(first).axes[0])
    assert len(x) == len(timeline.lost) - 1


def test_short_requests_over_a_long_time_are_seen(sweep):
    more = ["cluster.instances=1", "workload.rate=0.001", *CELL]
    panel = draw_timeline(timeline_of(run_replay(sweep, more))).axes[0]
    whole = np.diff(panel.get_xlim())[0]
    assert panel.collections
    for bars in panel.collections:
        widths = [np.ptp(path.vertices[:, 0]) for path in bars.get_paths()]
        assert min(widths) > 0.001 * whole


def test_the_blocks_in_use_of_each_instance_are_named(sweep):
    timeline = timeline_of(run_replay(sweep, CELL))
    legend = draw_timeline(timeline).axes[1].get_legend()
    assert [text.get_text() for text in legend.get_texts()] == ["instance 0", "instance 1"]
    assert drawn_data(timeline)["lines"] == ["instance 0", "instance 1"]
    alone = timeline_of(run_replay(sweep, ["cluster.instances=1", *CELL]))
    assert draw_timeline(alone).axes[1].get_legend() is None
    assert drawn_data(alone)["lines"] == []


def test_the_page_is_whole_and_shows_text_as_text(tmp_path):
    name = "<script>alert(1)<!--.toml"
    (tmp_path / name).write_text(BASE + GRID)
    page = draw_page(timeline_of(run_replay(tmp_path / name, CELL)))
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert" not in page
    assert page.count("<script") == page.count("</script>") == 2
    assert not re.findall(r"(?:src|href)=|url\(|@import", page)
    assert [url for url in re.findall(r"https?://[^\"'\s]+", page) if "w3.org" not in url] == []
    data = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])
    assert len(data["ids"]) == 20
    assert "srcdoc" in page._repr_html_()


CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_draws_the_page_without_an_error(sweep, tmp_path):
    (tmp_path / "life.html").write_text(
        plot.timeline_page(sweep, ["cache.gpu_blocks=36", "seed=0"])
    )
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=2000"]
    found = subprocess.run(
        [CHROMIUM, *options, f"--user-data-dir={tmp_path}", "--dump-dom", "life.html"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    assert {"p2", "p3"} <= set(re.findall(r'class="phase (p\d)"', found))
    assert found.count('class="used') == 2
    assert 'class="lost"' in found
    assert "not completed" in found
    assert ">instance 1</text>" in found
    assert "Point at a bar to ask." in found


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code or 0


@pytest.mark.parametrize("suffix", ["html", "png", "svg"])
def test_the_command_writes_a_timeline_and_keeps_what_is_there(sweep, tmp_path, capsys, suffix):
    out = tmp_path / f"life.{suffix}"
    cell = [word for setting in CELL for word in ("--set", setting)]
    assert run("replay", sweep, *cell, "--timeline", out) == 0
    before = out.read_bytes()
    assert run("replay", sweep, *cell, "--timeline", out) == 2
    assert "is there already; --overwrite replaces it" in capsys.readouterr().err
    assert run("replay", sweep, *cell, "--timeline", out, "--overwrite") == 0
    assert out.read_bytes() == before


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--timeline", "life.gif"], "is written as .html, .png, .svg or .pdf"),
        (["--timeline", "nowhere/life.png"], "there is no folder 'nowhere'"),
        (["--dark"], "--dark: has no effect without --timeline"),
        (["--timeline", "a.html", "--dark"], "--dark: has no effect on a page, which is dark"),
        (["--overwrite"], "--overwrite: has no effect without --timeline"),
    ],
)
def test_a_timeline_that_cannot_be_is_told_before_anything_runs(sweep, capsys, options, told):
    assert run("replay", sweep, *options) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert told in line


@pytest.mark.parametrize("number", range(20))
def test_lives_are_whole_where_steps_of_a_pipeline_overlap(tmp_path, number):
    rng = random.Random(f"lives/{number}")
    drawn = explicit_traces.random_trace(rng, ("pipeline",), 25)
    (tmp_path / "t.json").write_text(json.dumps(drawn))
    found = run_replay(tmp_path / "t.json")
    both = found, timeline_of(found)
    test_a_request_does_one_thing_at_a_time_from_arrival_to_end(both)
    test_no_instance_uses_more_blocks_than_it_has(both)
    test_requests_that_share_a_lane_follow_each_other(both)


DRAFTS = "[engine.speculative]\ntokens = 3\nmethod = 'draft'\nacceptance = 0.5\n"
FAILURES = "kv_transfer_bandwidth = 5.0\nkv_lease_us = 1_000_000\nkv_load_failure_rate = 0.4\n"
APART_BASE = BASE.replace(
    "instances = 2\n", f"prefill_instances = 1\ndecode_instances = 1\n{FAILURES}"
)


@pytest.mark.parametrize("text", [BASE + DRAFTS, APART_BASE])
def test_a_replayed_cell_draws_for_each_request_what_its_sweep_draws(tmp_path, text):
    grid = "[grid]\nseed = { start = 1, stop = 3, step = 1 }\n"
    (tmp_path / "drawn.toml").write_text(text + grid)
    sweep = load_sweep(tmp_path / "drawn.toml")
    stored = kvsweep.run(sweep, out=tmp_path / "d.zarr", keep_requests=True)
    for seed in (1, 3):
        found = run_replay(tmp_path / "drawn.toml", [f"seed={seed}"]).requests
        cell = stored.sel(seed=seed)
        for name in ("finish_us", "status"):
            assert found[name].tolist() == cell[f"request_{name}"].values.tolist()


def test_the_totals_of_a_replayed_cell_leave_its_warm_up_out_as_its_store_does(tmp_path, capsys):
    text = BASE.replace("requests = 20", "requests = 20\nwarmup = 8") + "[cache]\ngpu_blocks = 90\n"
    file = tmp_path / "warm.toml"
    file.write_text(f"{text}[grid]\nseed = [0]\n")
    cell = kvsweep.run(load_sweep(file), out=tmp_path / "w.zarr").isel(seed=0)
    with pytest.raises(SystemExit):
        main(["replay", str(file), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["preemptions"] == int(cell["preemptions"]) > 0
    for name in ("ttft_mean_ms", "e2e_mean_ms"):
        assert found[name] == pytest.approx(float(cell[name]))
    assert (found["requests"], found["warmup"]) == (20, 8)
    with pytest.raises(SystemExit):
        main(["replay", str(file)])
    told = "warm-up      the first 8, left out of preemptions and means\n"
    assert told in capsys.readouterr().out


@pytest.mark.parametrize(("decode", "told"), [("tp2", False), ("tp1", True)])
def test_the_memory_of_blocks_is_told_where_all_instances_have_as_much(tmp_path, decode, told):
    text = BASE.replace("instances = 2\n", "kv_transfer_bandwidth = 1.0\n").replace(
        "[latency]\nbeta = [1000, 10, 5]", '[latency]\nmodel = "llama-3.1-8b/h100/tp1"'
    )
    own = f'{{ instances = 1, latency = {{ model = "llama-3.1-8b/h100/{decode}" }} }}'
    sides = "[cluster.prefill]\ninstances = 1\n[grid]\nseed = [0]\n"
    text = text.replace("kv_transfer_bandwidth", f"decode = {own}\nkv_transfer_bandwidth")
    (tmp_path / "apart.toml").write_text(text + sides)
    found = timeline_of(run_replay(tmp_path / "apart.toml"))
    assert ("GiB per GPU" in heading(found)[1]) is told


@pytest.mark.timeout(60)
@pytest.mark.parametrize("count", [0, 7, 300_000])
def test_what_is_kept_for_moves_is_found_without_a_look_at_each_for_each_rest(count):
    """With 300,000 moves, and as many rests between steps, it had taken minutes."""
    rng = np.random.default_rng(count)
    start = 10 * np.arange(count)
    steps = {
        "instance": np.zeros(count, np.int64),
        "start_us": start,
        "duration_us": rng.integers(1, 10, count),
        "free_blocks": np.full(count, 60),
        "free_after": np.full(count, 80),
    }
    begins = rng.integers(0, 10 * count + 1, count)
    moves = np.stack([begins, begins + rng.integers(1, 40, count)], axis=1)
    found = SimpleNamespace(steps=steps)
    times, used = timelines._used(found, 0, 100, moves, 0)
    assert (np.diff(times) >= 0).all()
    rests = start + steps["duration_us"]
    for rest in rests[:: max(1, count // 50)]:
        last = moves[moves[:, 0] <= rest, 1].max(initial=0)
        now = used[np.searchsorted(times, rest, side="right") - 1]
        assert now == (20 if last > rest else 0)
