"""Searches over the cells of a sweep: the same as its grid, whoever simulates, however shared."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from sweeping import CLIFF, make_sweep

from kvsweep.analysis.cells import Cells
from kvsweep.analysis.cliff import find_cliff
from kvsweep.analysis.warnings import warnings_of
from kvsweep.errors import InputError
from kvsweep.search import sharing
from kvsweep.search.aims import Aim
from kvsweep.search.answer import answer_of
from kvsweep.search.misleading import CHECKS, READ
from kvsweep.search.of_store import answer_from
from kvsweep.search.sharing import jobs_of, run
from kvsweep.search.text import recommendation_text, search_text
from kvsweep.search.wanted import cliff_problem, load_for_size, size_problem
from kvsweep.sweep import run as run_grid

SWEEPS = Path(__file__).parents[2] / "sweeps"

SMALL = """
[workload]
requests = 60
rate = 500.0

[cluster]
instances = 2

[latency]
model = "llama-3.1-8b/h100/tp2"

[grid]
policy = ["round-robin", "least-loaded"]
"cache.gpu_blocks" = { start = 600, stop = 1800, step = 50 }
seed = { count = 40 }
"""

NO_GRID = SMALL.partition("[grid]")[0]


def sized(tmp_path, text=SMALL, find="blocks", conditions=("preemption_rate<=0.05",), **options):
    aim = Aim(shown=True, **options)
    return size_problem(make_sweep(tmp_path, text), find, conditions, None, None, aim)


def test_a_search_finds_the_cliff_of_the_grid(tmp_path):
    sweep = make_sweep(tmp_path, SMALL + CLIFF.replace("0.5", "0.05"))
    cliff = find_cliff(run_grid(sweep, out=tmp_path / "grid.zarr"), threshold=0.05)
    problem = cliff_problem(sweep, {}, Aim())
    found, interrupted = run(problem)
    assert not interrupted
    assert len(found) == len(cliff.groups) == 2
    for each, group in zip(found, cliff.groups, strict=True):
        assert each.low <= group.mean_curve.value <= each.high
        assert each.samples.simulations < 0.35 * 25 * 40


def test_what_is_found_does_not_depend_on_the_threads(tmp_path):
    problem = sized(tmp_path)
    one, three = (run(problem, workers=n)[0] for n in (1, 3))
    assert [f.samples.simulations for f in one] == [f.samples.simulations for f in three]
    assert [(f.crossing, f.low, f.high, f.answer) for f in one] == [
        (f.crossing, f.low, f.high, f.answer) for f in three
    ]


@pytest.mark.parametrize("shares", [1, 2, 3, 8])
def test_what_is_asked_for_is_simulated_once(shares):
    ask = {100.0: (0, 16), 200.0: (0, 16), 300.0: (3, 5), 400.0: (7, 8)}
    done = [
        (value, seed)
        for job in jobs_of(0, ask, shares)
        for value in job.values
        for seed in range(job.first, job.last)
    ]
    assert sorted(done) == [(v, s) for v, (a, b) in ask.items() for s in range(a, b)]


def test_the_answer_was_simulated_and_keeps_every_limit(tmp_path):
    conditions = ("preemption_rate<=0.05", "e2e_p99_ms<=6000")
    problem = sized(tmp_path, conditions=conditions)
    answer = answer_of(problem, "smallest", "block", *run(problem))
    for group in answer.groups:
        best = next(c for c in group.candidates if c.value == group.answer)
        assert best.verdict == "within"
        assert all(m.mean <= m.limit for m in best.measures)
        assert group.served.command.startswith("vllm serve meta-llama/Llama-3.1-8B ")
        assert f"--num-gpu-blocks-override {group.answer + 1} " in group.served.command
        assert group.first in ("preemption_rate", "e2e_p99_ms")
        assert all(margin.room > 0.0 for margin in group.margins)


def test_blocks_that_drop_requests_are_never_an_answer(tmp_path):
    """Dropped requests leave no preemptions: of few enough blocks every measure looks fine."""
    text = NO_GRID + '\n[grid]\n"cache.gpu_blocks" = [8, 2000]\n'
    problem = sized(tmp_path, text)
    (found,), _ = run(problem)
    assert found.answer > 500
    group = answer_of(problem, "smallest", "block", [found], False).groups[0]
    assert group.candidates[0].verdict == "no value"


DROPPING = (
    NO_GRID
    + """
[grid]
"cache.gpu_blocks" = [40, 2000]
seed = { count = 3 }

[cliff]
metric = "ttft_p99_ms"
along = "gpu_blocks"
threshold = 1e6
"""
)


def test_a_cliff_recommends_no_value_that_drops_requests(tmp_path):
    """The measures of the rest keep the limit everywhere, which is said; no such server is."""
    problem = cliff_problem(make_sweep(tmp_path, DROPPING), {}, Aim(max_seeds=3))
    (group,) = answer_of(problem, "crossing", "block", *run(problem)).groups
    assert group.outcome == "never"
    assert (group.candidates[0].value, group.candidates[0].verdict) == (40, "drops")
    assert group.answer != 40
    assert {c.verdict for c in group.candidates if c.value == 2000} == {"within"}


def test_the_cells_of_a_grid_that_drop_requests_are_not_recommended(tmp_path):
    ds = run_grid(make_sweep(tmp_path, DROPPING), out=tmp_path / "grid.zarr")
    cliff = find_cliff(ds, metric="ttft_p99_ms", along="gpu_blocks", threshold=1e6)
    answer = answer_from(ds, cliff, tmp_path / "grid.zarr")
    (group,) = answer.groups
    assert [(c.value, c.verdict) for c in group.candidates] == [(40, "drops"), (2000, "within")]
    assert group.answer == 2000
    assert "drops: requests that can never fit are missing" in recommendation_text(answer)


def test_instances_and_rates_have_a_range_of_their_own(tmp_path):
    problem = sized(tmp_path, NO_GRID, "instances", ("ttft_p99_ms<=400",))
    (found,), _ = run(problem)
    assert (problem.space.low, problem.space.high) == (1.0, 64.0)
    assert found.answer == int(found.answer)
    problem = sized(tmp_path, NO_GRID, "rate", ("ttft_p99_ms<=400",))
    assert (problem.space.low, problem.space.high) == (500.0 / 16, 500.0 * 16)
    assert not problem.space.generous_high


@pytest.mark.parametrize("workers", [1, 3])
def test_an_answer_that_misleads_is_told_as_a_grid_tells_it(tmp_path, workers):
    """60 requests at 8,000 a second are all there before one is served: that is no steady rate."""
    problem = sized(tmp_path, NO_GRID, "rate", ("ttft_p99_ms<=1e5",))
    found, _ = run(problem, workers=workers)
    (group,) = answer_of(problem, "highest", "request/s", found, False).groups
    (warning,) = group.warnings
    text = NO_GRID + f"\n[grid]\n'workload.rate' = [{group.answer}]\nseed = {{ count = 16 }}\n"
    ds = run_grid(make_sweep(tmp_path, text), out=tmp_path / "grid.zarr")
    told = {w.kind: w.text for w in warnings_of(ds)}
    assert warning.kind == "burst"
    assert warning.text == told["burst"]
    assert f"warning: {warning.text}" in search_text(
        answer_of(problem, "highest", "request/s", found, False)
    )


def test_an_answer_that_does_not_mislead_has_no_warning(tmp_path):
    text = NO_GRID.replace("rate = 500.0", "rate = 2.0")
    problem = sized(tmp_path, text, "blocks", ("ttft_p99_ms<=1000",))
    (found,), _ = run(problem)
    assert found.answer > 0
    assert found.warnings == ()


def test_the_checks_of_an_answer_read_nothing_that_is_not_kept():
    class Strict(dict):
        def get(self, name):
            return self[name]

    ones = Strict({name: np.ones(3) for name in READ})
    cells = Cells({"seed": range(3)}, np.ones(3, bool), dict, ones.get, scenarios=np.array([None]))
    cells.__dict__["instances"] = np.full(3, 1e-9)
    for check in CHECKS:
        check(cells)


def test_a_trace_that_is_the_same_for_every_seed_needs_one(tmp_path):
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    rows += [f"2023-11-16 18:00:{i / 20:010.7f},{400 + 37 * i % 300},60" for i in range(80)]
    (tmp_path / "azure.csv").write_text("\n".join(rows) + "\n")
    workload = '[workload]\ntrace = "azure.csv"\n\n[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    problem = sized(tmp_path, workload, "blocks", ("preemption_rate<=0",))
    (found,), _ = run(problem)
    assert problem.aim.max_seeds == 1
    assert found.crossing <= found.answer
    group = answer_of(problem, "smallest", "block", [found], False).groups[0]
    assert group.low is None
    assert group.high is None


def test_a_trace_whose_copies_are_drawn_is_searched_with_several_seeds(tmp_path):
    rows = "".join(f"2023-11-16 18:17:{i:02}.0,500,20\n" for i in range(20))
    (tmp_path / "azure.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    latency = '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    for repeat, seeds in ((1, 1), (2, 128)):
        workload = f'[workload]\ntrace = "azure.csv"\nrepeat = {repeat}\n\n{latency}'
        text = workload + '[grid]\n"cache.gpu_blocks" = [100, 900]\nseed = [0]\n'
        problem = sized(tmp_path, text.replace("repeat = 1\n", ""))
        assert len(problem.seeds) == problem.aim.max_seeds == seeds


def test_an_interrupt_leaves_what_is_known(tmp_path, monkeypatch):
    problem = sized(tmp_path)
    real, calls = sharing.simulated, []

    def counting(*arguments):
        calls.append(arguments)
        return real(*arguments)

    def interrupting(futures, *arguments):
        if len(calls) > 6:
            raise KeyboardInterrupt
        return waiting(futures, *arguments)

    waiting = sharing.wait
    monkeypatch.setattr(sharing, "simulated", counting)
    monkeypatch.setattr(sharing, "wait", interrupting)
    found, interrupted = run(problem, workers=1)
    assert interrupted
    assert {each.stopped for each in found} == {"interrupted"}
    answer = answer_of(problem, "smallest", "block", found, interrupted)
    assert any(group.candidates for group in answer.groups)


def test_service_levels_are_kept_by_the_share_of_requests_asked_for(tmp_path):
    sweep = make_sweep(tmp_path, NO_GRID + "\n[slo]\nttft_ms = 300\n")
    problem = size_problem(sweep, "instances", (), None, 0.9, Aim(shown=True))
    (found,), _ = run(problem)
    (target,) = problem.targets
    assert str(target) == "slo_attainment >= 0.9"
    assert float(target.value(found.samples.excess[found.answer]).mean()) >= 0.9


@pytest.mark.parametrize(
    ("find", "conditions", "between", "message"),
    [
        ("blocks", (), None, "--target: missing; give what is to be kept"),
        ("blocks", ("ttft_p99<=3",), None, "no measure 'ttft_p99' of a cell; did you mean 'ttft_"),
        ("blocks", ("ttft_p99_ms",), None, "expected MEASURE<=LIMIT"),
        ("blocks", ("ttft_p99_ms<=nan",), None, "not a finite number"),
        ("blocks", ("ttft_p99_ms>=3",), None, "did you mean <=?"),
        ("blocks", ("throughput_rps<=3",), None, "did you mean >=?"),
        ("blocks", ("ttft_p99_ms<=3", "ttft_p99_ms<=4"), None, "given twice"),
        ("blocks", ("slo_attainment>=0.9",), None, "needs slo.ttft_ms or"),
        ("blocks", ("slo_attainment>=90",), None, "is a share, from 0 to 1: did you mean 0.9"),
        ("blocks", ("ttft_p99_ms<=3",), "5", "expected LOW:HIGH, two whole numbers"),
        ("blocks", ("ttft_p99_ms<=3",), "7:3", "expected LOW:HIGH"),
        ("instances", ("ttft_p99_ms<=3",), "1:1e9", "expected LOW:HIGH"),
        ("rate", ("ttft_p99_ms<=3",), "-1:5", "two numbers above 0"),
    ],
)
def test_what_makes_no_sense_is_refused(tmp_path, find, conditions, between, message):
    sweep = make_sweep(tmp_path, SMALL)
    with pytest.raises(InputError) as error:
        size_problem(sweep, find, conditions, between, None, Aim(shown=True))
    assert message in str(error.value)


def test_a_share_of_requests_has_one_limit(tmp_path):
    sweep = make_sweep(tmp_path, NO_GRID + "\n[slo]\nttft_ms = 300\n")
    with pytest.raises(InputError, match="--attainment: slo_attainment is a target too, with its"):
        size_problem(sweep, "blocks", ("slo_attainment>=0.9",), "600:900", 0.95, Aim(shown=True))


def test_instances_of_pools_are_not_searched_and_no_setting_is_blamed():
    """Several instances are set to read the sweep, by nobody who asked."""
    with pytest.raises(InputError, match="--find instances: pools, and prefill and decode, have"):
        load_for_size(SWEEPS / "disaggregated.toml", [], "instances")
    sweep, _ = load_for_size(SWEEPS / "disaggregated.toml", ['policy=["together"]'], "instances")
    assert not any(scenario.cluster.prefill_instances for scenario in sweep.probes())
    with pytest.raises(InputError, match=r"overrides: cluster\.instances: has no effect"):
        load_for_size(SWEEPS / "disaggregated.toml", ["cluster.instances=3"], "instances")


@pytest.mark.parametrize(
    ("aim", "message"),
    [
        (Aim(shown=True, confidence=0.4), "--confidence: 0.4 is not between 0.5 and 1"),
        (Aim(confidence=1.0), "--confidence: 1.0"),
        (Aim(tolerance=0.0), "--tolerance: 0.0"),
        (Aim(tolerance=np.nan), "--tolerance: nan"),
        (Aim(max_seeds=0), "--max-seeds: 0"),
        (Aim(budget=-1), "--budget: -1"),
    ],
)
def test_a_search_that_cannot_end_is_refused(tmp_path, aim, message):
    sweep = make_sweep(tmp_path, SMALL + CLIFF)
    with pytest.raises(InputError) as error:
        cliff_problem(sweep, {}, aim)
    assert message in str(error.value)


def test_a_cliff_needs_an_axis_of_numbers_with_a_range(tmp_path):
    sweep = make_sweep(tmp_path, SMALL)
    asked = {"metric": "preemption_rate", "threshold": 0.05}
    with pytest.raises(InputError, match="--along: missing"):
        cliff_problem(sweep, asked, Aim())
    with pytest.raises(InputError, match="no axis 'blocks' to search along; did you mean"):
        cliff_problem(sweep, {**asked, "along": "blocks"}, Aim())
    one = make_sweep(tmp_path, SMALL, overrides=["cache.gpu_blocks=1000"])
    with pytest.raises(InputError, match="one value, 1000; a search needs a range"):
        cliff_problem(one, {**asked, "along": "gpu_blocks"}, Aim())


IN_A_LIST = """
[workload]
requests = 60
rate = 20.0

[latency]
model = "llama-3.1-8b/h100/tp2"

[cluster]
pools = [{ instances = 1, gpu_blocks = 200 }, { instances = 1, gpu_blocks = 2000 }]

[grid]
"cluster.pools.0.gpu_blocks" = [150, 901, 2000]
seed = { count = 20 }
"""


def test_a_search_runs_along_whole_numbers_in_a_list(tmp_path):
    sweep = make_sweep(tmp_path, IN_A_LIST)
    asked = {"metric": "preemption_rate", "threshold": 0.05, "along": "gpu_blocks"}
    problem = cliff_problem(sweep, asked, Aim(max_seeds=20))
    assert problem.space.integer
    (found,), _ = run(problem)
    assert 150 < found.crossing < 2000


def test_of_a_rate_at_which_nothing_happens_the_highest_is_the_answer(tmp_path):
    text = SMALL + '\n"workload.rate" = [1.0, 4.0]\n'
    fixed = ["cache.gpu_blocks=[100000]", 'policy=["round-robin"]']
    sweep = make_sweep(tmp_path, text, overrides=fixed)
    asked = {"metric": "preemption_rate", "threshold": 0.05, "along": "rate"}
    (found,), _ = run(cliff_problem(sweep, asked, Aim(max_seeds=3)))
    assert (found.outcome.value, found.answer) == ("never", 4.0)


def test_groups_of_a_store_without_a_recommendation_are_named(tmp_path):
    """They were left out of the text, though their curves cross the threshold."""
    text = DROPPING.replace("[40, 2000]", '[1000, 1500, 2000]\n"workload.rate" = [5, 10]')
    ds = run_grid(make_sweep(tmp_path, text), out=tmp_path / "grid.zarr").load()
    times = ds["ttft_p99_ms"]
    spread = xr.DataArray([-2.0, 0.0, 2.0], dims="seed")
    level = xr.DataArray([9.0, 3.0, 1.0], dims="gpu_blocks") + spread * (ds["rate"] == 10)
    ds["ttft_p99_ms"] = (times * 0 + level).transpose(*times.dims)
    cliff = find_cliff(ds, metric="ttft_p99_ms", along="gpu_blocks", threshold=4.0)
    answer = answer_from(ds, cliff, tmp_path / "grid.zarr")
    assert [group.answer for group in answer.groups] == [1500, None]
    told = "no value of the grid is shown to keep ttft_p99_ms <= 4, with 95 % confidence"
    assert recommendation_text(answer).endswith(f"No recommendation for rate 10: {told}")
    cliff = find_cliff(ds.sel(rate=10), metric="ttft_p99_ms", along="gpu_blocks", threshold=4.0)
    answer = answer_from(ds.sel(rate=10), cliff, tmp_path / "grid.zarr")
    assert recommendation_text(answer).endswith(f"No recommendation for rate 10: {told}")


def test_what_breaks_first_far_away_is_told_in_whole_per_cents(tmp_path):
    """A value of three times the answer was `2e+02 %` from it."""
    problem = sized(tmp_path, max_seeds=3)
    found, _ = run(problem)
    answer = answer_of(problem, "smallest", "block", found, False)
    group = answer.groups[0]
    group = replace(group, first="preemption_rate", first_at=3 * group.answer)
    text = search_text(replace(answer, groups=(group,)))
    assert f"past its limit at {group.first_at:,}, 200 % from here" in text


def test_a_search_begins_at_the_end_at_which_the_scan_of_a_grid_does(tmp_path):
    """The smallest pools serve one request at a time, and preempt nobody."""
    text = SMALL.replace("{ start = 600, stop = 1800, step = 50 }", "[40, 65, 90, 115, 140]")
    text = text.replace("count = 40", "count = 3").replace("rate = 500.0", "rate = 20.0")
    text = text.replace("[cluster]", "output = { dist = 'constant', value = 64 }\n[cluster]")
    sweep = make_sweep(tmp_path, text + CLIFF.replace("0.5", "0.05"))
    cliff = find_cliff(run_grid(sweep, out=tmp_path / "grid.zarr"), threshold=0.05)
    assert (cliff.generous, cliff.groups[0].spearman > 0) == ("high", True)
    found, _ = run(cliff_problem(sweep, {}, Aim(max_seeds=3)))
    assert all(each.samples.space.generous_high for each in found)


def test_a_store_that_is_half_done_recommends_by_the_seeds_that_it_has(tmp_path):
    """Seeds that are not simulated yet are no failures of the values."""
    sweep = make_sweep(tmp_path, SMALL.replace("count = 40", "count = 8"))
    ds = run_grid(sweep, out=tmp_path / "grid.zarr").load()
    late = ds.seed >= 6
    half = ds.assign(status=ds["status"].where(~late, "pending"))
    few = ds.sel(seed=range(6))
    answers = [
        answer_from(some, find_cliff(some, threshold=0.05), tmp_path / "grid.zarr")
        for some in (half, few)
    ]
    found, expected = ([group.answer for group in answer.groups] for answer in answers)
    assert found == expected
    assert None not in found
    assert {c.seeds for group in answers[0].groups for c in group.candidates} == {6}
    last = half["gpu_blocks"] == half["gpu_blocks"].max()
    failed = half.assign(status=half["status"].where(~(last & (half.seed == 0)), "failed"))
    answer = answer_from(failed, find_cliff(failed, threshold=0.05), tmp_path / "grid.zarr")
    assert all(
        c.verdict == "no value" for g in answer.groups for c in g.candidates if c.value == 1800
    )


def test_why_no_value_keeps_all_requests_is_told(tmp_path):
    """Of every value some request is longer than the server takes."""
    text = NO_GRID + "[engine]\nmax_model_len = 100\n"
    problem = sized(tmp_path, text, "blocks", ("ttft_p99_ms<=1000",))
    found, _ = run(problem)
    answer = answer_of(problem, "smallest", "blocks", found, False)
    (warning,) = answer.groups[0].warnings
    assert warning.kind == "unservable"
    assert "requests that can never fit are dropped in all 16 cells" in search_text(answer)
    assert warning.text.endswith("raise what is too small: engine.max_model_len is 100")
    cut = text.replace("max_model_len = 100", "max_model_len = 100000")
    problem = sized(tmp_path, cut, "blocks", ("ttft_p99_ms<=0.001",))
    (nowhere,), _ = run(problem)
    assert nowhere.warnings == ()


def test_an_interrupt_after_some_searches_have_ended_leaves_what_is_known(tmp_path, monkeypatch):
    """Whose search had ended was told to end again, which ended the command as a bug."""
    problem = sized(tmp_path)
    ended, whole = [], sharing._Driver._watched

    def watched(driver, number, found):
        ended.append(number)
        return whole(driver, number, found)

    def interrupting(futures, *arguments):
        if ended:
            raise KeyboardInterrupt
        done, left = waiting(futures, *arguments)
        return set(list(done)[:1]), left  # else all may end before anybody waits again

    waiting = sharing.wait
    monkeypatch.setattr(sharing._Driver, "_watched", watched)
    monkeypatch.setattr(sharing, "wait", interrupting)
    found, interrupted = run(problem, workers=1)
    assert interrupted
    assert len(found) == len(problem.groups) > 1
    assert {each.stopped for each in found} > {"interrupted"}


@pytest.mark.parametrize(("find", "rate"), [("rate", 4.0), ("instances", 64.0)])
def test_a_burst_that_waits_for_nothing_is_no_steady_rate_either(tmp_path, find, rate):
    """All 60 run at once: of a rate that brings 60 while one is served nothing was simulated."""
    text = NO_GRID.replace("500.0", f"{rate}\n\n[cache]\ngpu_blocks = 20000")
    (found,), _ = run(sized(tmp_path, text, find, ("tpot_p99_ms<=1000",)))
    (warning,) = found.warnings
    assert warning.kind == "burst"
    assert "all arrive before one is served in all 16 cells: latencies are those" in warning.text


@pytest.mark.parametrize(("metric", "limit"), [("preemption_rate", -1.0), ("slo_attainment", 99.0)])
def test_a_threshold_that_no_measure_passes_is_not_searched(tmp_path, metric, limit):
    """It ran, and told that it holds nowhere."""
    sweep = make_sweep(tmp_path, SMALL + "\n[slo]\nttft_ms = 300\n")
    asked = {"metric": metric, "along": "gpu_blocks", "threshold": limit}
    with pytest.raises(InputError, match=f"--threshold: {metric} is"):
        cliff_problem(sweep, asked, Aim())
    with pytest.raises(InputError, match="ttft_p99_ms is never below 0"):
        size_problem(sweep, "blocks", ("ttft_p99_ms<=-3",), None, None, Aim(shown=True))


@pytest.mark.parametrize(("find", "rate"), [("rate", 4.0), ("instances", 64.0)])
def test_a_rate_that_is_never_sent_is_told(tmp_path, find, rate):
    """Of two under way at once any rate was kept, and nothing said that it was not sent."""
    text = NO_GRID.replace("500.0", f"{rate}\nconcurrency = 2\n\n[cache]\ngpu_blocks = 20000")
    (found,), _ = run(sized(tmp_path, text, find, ("tpot_p99_ms<=1000",)))
    (warning,) = found.warnings
    assert warning.kind == "held-back"
    assert "workload.concurrency lets 2 be under way" in warning.text
    assert "are sent each second, not 64, and" in warning.text
    slow = text.replace(f"rate = {rate}", "rate = 0.01")
    (found,), _ = run(sized(tmp_path, slow, "instances", ("tpot_p99_ms<=1000",)))
    assert found.warnings == ()
    (found,), _ = run(
        sized(tmp_path, slow.replace("rate = 0.01\n", ""), "instances", ("tpot_p99_ms<=1000",))
    )
    assert found.warnings == ()


@pytest.mark.parametrize("arrivals", ["fixed", "closed-loop"])
def test_few_sessions_for_their_rate_are_told(tmp_path, arrivals):
    """133 conversations a second were "kept" by a server of 5, as none was over when all had begun.

    Each lasts three minutes of pauses; how long one request takes says nothing of that.
    """
    rounds = f'sessions = {{ rounds = 4, think_time_s = 60.0, arrivals = "{arrivals}" }}'
    text = NO_GRID.replace("500.0", f"4.0\n{rounds}\n\n[cache]\ngpu_blocks = 20000")
    (found,), _ = run(sized(tmp_path, text, "rate", ("tpot_p99_ms<=1000",)))
    (warning,) = found.warnings
    assert warning.kind == "burst"
    assert "where a session lasts 18" in warning.text
    assert "all arrive before one is over in all 16 cells: latencies are those" in warning.text
    short = text.replace("= 60.0", "= 0.1").replace("rate = 4.0", "rate = 0.05")
    (found,), _ = run(sized(tmp_path, short, "instances", ("tpot_p99_ms<=1000",)))
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("gap_us", "kind"), [(10**5, "filling"), (10**7, "filling"), (10**8, None)]
)
def test_few_sessions_of_a_trace_are_told(tmp_path, gap_us, kind):
    """Of a trace whose requests wait for answers nothing was told: 300 times its rate was kept."""
    requests = [
        {"id": 4 * s + r, "arrival_us": s * gap_us + r, "prompt": [[s, 30]], "output": [r, 5]}
        | ({"after": 4 * s + r - 1, "think_us": 30 * 10**6} if r else {})
        for s in range(20)
        for r in range(4)
    ]
    requests.sort(key=lambda one: one["arrival_us"])
    trace = {"format": "kvsweep-trace/1", "scenario": {}, "requests": requests}
    (tmp_path / "t.json").write_text(json.dumps(trace))
    text = '[workload]\ntrace = "t.json"\n\n[cache]\ngpu_blocks = 20000\n'
    text += '[latency]\nmodel = "llama-3.1-8b/h100/tp2"\n'
    (found,), _ = run(sized(tmp_path, text, "instances", ("tpot_p99_ms<=1000",)))
    assert [warning.kind for warning in found.warnings] == ([kind] if kind else [])
    assert all("where a session lasts 90 s" in warning.text for warning in found.warnings)


def test_few_sessions_are_told_where_a_rate_is_searched_for_a_cliff(tmp_path):
    """As where a rate is sized: it is of conversations that have all begun before one is over."""
    rounds = 'sessions = { rounds = 4, think_time_s = 60.0, arrivals = "closed-loop" }'
    text = NO_GRID.replace("500.0", f"4.0\n{rounds}\n\n[cache]\ngpu_blocks = 20000")
    grid = '\n[grid]\n"workload.rate" = [4.0, 400.0]\nseed = { count = 16 }\n'
    wanted = {"metric": "tpot_p99_ms", "along": "rate", "threshold": 20.0}
    (found,), _ = run(cliff_problem(make_sweep(tmp_path, text + grid), wanted, Aim()))
    (warning,) = found.warnings
    assert warning.kind == "burst"
    assert "where a session lasts 18" in warning.text
    assert "the cliff is that of a burst" in warning.text


def test_a_store_that_is_half_done_may_have_its_seeds_in_any_order(tmp_path):
    sweep = make_sweep(tmp_path, SMALL.replace("count = 40", "count = 4"))
    ds = run_grid(sweep, out=tmp_path / "grid.zarr").load()
    half = ds.assign(status=ds["status"].where(ds.seed < 3, "pending"))
    found, turned = (
        answer_from(some, find_cliff(some, threshold=0.05), tmp_path / "grid.zarr").to_dict()
        for some in (half, half.isel(seed=[3, 1, 2, 0]))
    )
    assert turned == found
    assert {c["seeds"] for group in found["groups"] for c in group["candidates"]} == {3}
