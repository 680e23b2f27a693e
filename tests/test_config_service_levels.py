"""Service levels in a sweep file and on the command line: what they mean, what is refused."""

import numpy as np
import pytest
from sweeping import BASE, make_sweep

from kvsweep import grid, run, verify
from kvsweep.analysis.variables import HIGHER_IS_BETTER
from kvsweep.config import Scenario, load_sweep, parse_scenario
from kvsweep.config.axes import about, dimension_names
from kvsweep.config.schema import leaf_keys
from kvsweep.config.service_levels import ServiceLevels, goodput_overrides, levels_given
from kvsweep.dimensions import LEVELS
from kvsweep.errors import InputError
from kvsweep.metrics import LEVEL_VARIABLES, VARIABLES
from kvsweep.store import layout

CLIENTS = """
[[workload.clients]]
id = "a"
slo_class = "critical"
[[workload.clients]]
id = "b"
slo_class = "batch"
"""
SLO = "\n[slo]\nttft_ms = 200\ntpot_ms = 5.5\n[slo.classes.batch]\nttft_ms = 900\ne2e_ms = 4000.0\n"


def refused(tmp_path, text, *overrides):
    with pytest.raises(InputError) as caught:
        grid.plan(make_sweep(tmp_path, text, overrides=overrides))
    message = str(caught.value).removeprefix(f"{tmp_path}/")
    assert "\n" not in message
    return message


def test_a_class_takes_from_all_what_it_leaves_out(tmp_path):
    slo = make_sweep(tmp_path, BASE + CLIENTS + SLO).scenario({}).slo
    assert slo.of_class("batch") == (900.0, 5.5, 4000.0)
    assert slo.of_class("critical") == slo.of_class("") == (200.0, 5.5, None)


def test_the_levels_of_a_sweep_are_those_that_any_scenario_gives():
    plain, one, other = (
        Scenario.model_validate({"slo": slo} if slo else {})
        for slo in ({}, {"tpot_ms": 5}, {"classes": {"batch": {"ttft_ms": 7}}})
    )
    assert levels_given([plain]) == ()
    assert levels_given([plain, one]) == ("tpot",)
    assert levels_given([other, one]) == ("ttft", "tpot")


@pytest.mark.parametrize(
    ("slo", "message"),
    [
        ("", "slo: give at least one of ttft_ms, tpot_ms, e2e_ms"),
        ("ttft = 5", "slo.ttft: unknown key; did you mean 'ttft_ms'?"),
        ("e2el_ms = 5", "slo.e2el_ms: unknown key; did you mean 'e2e_ms'?"),
        ("ttft_ms = -1", "slo.ttft_ms: must be more than 0, got -1"),
        ("ttft_ms = 0", "slo.ttft_ms: must be more than 0, got 0"),
        ("tpot_ms = nan", "slo.tpot_ms: must be a finite number, got nan"),
        ("tpot_ms = inf", "slo.tpot_ms: must be a finite number, got inf"),
        ("tpot_ms = true", "slo.tpot_ms: expected a number, got true"),
        ('tpot_ms = "50"', "slo.tpot_ms: expected a number, got '50'"),
        ("tpot_ms = [50]", "slo.tpot_ms: expected a number, got a list"),
        ("e2e_ms = 1e12", "slo.e2e_ms: must be at most 100000000000, got 1000000000000.0"),
        ("e2e_ms = 1e-9", "slo.e2e_ms: must be at least 0.001, got 1e-09"),
        ("classes = {}", "slo: give at least one of ttft_ms"),
        ("classes = { batch = {} }", "slo.classes.batch: give at least one of ttft_ms"),
        ("classes = { batch = 5 }", "slo.classes.batch: expected a table, got 5"),
        ("classes = { batch = { ttfd_ms = 5 } }", "slo.classes.batch.ttfd_ms: unknown key; did"),
        ("classes = { batch = { ttft_ms = 0 } }", "slo.classes.batch.ttft_ms: must be more"),
        (
            "classes = { bacth = { ttft_ms = 5 } }",
            "slo.classes.bacth: no request is of this class; there are: critical, batch; did you "
            "mean 'batch'?",
        ),
    ],
)
def test_what_is_no_level_is_refused(tmp_path, slo, message):
    assert message in refused(tmp_path, f"{BASE}{CLIENTS}\n[slo]\n{slo}\n")


def test_a_class_that_there_is_not_is_told_where_it_is_named(tmp_path):
    text = BASE + CLIENTS
    option = refused(tmp_path, text, "slo.classes.chat.ttft_ms=5")
    assert "small.toml: --set slo.classes.chat.ttft_ms: no request is of this class" in option
    axis = refused(tmp_path, text + '[grid]\n"slo.classes.chat.ttft_ms" = [5, 6]\n')
    assert axis.startswith("small.toml:21: grid.slo.classes.chat.ttft_ms: no request is of")


def test_levels_of_classes_need_requests_of_classes(tmp_path):
    text = BASE + "\n[slo.classes.batch]\nttft_ms = 5\n"
    assert "of this class; no request has a class" in refused(tmp_path, text)


def test_measures_need_their_levels(tmp_path):
    cliff = '[cliff]\nmetric = "{}"\nalong = "gpu_blocks"\nthreshold = 0.9\n'
    blocks = '\n[grid]\n"cache.gpu_blocks" = [100, 200]\n'
    message = refused(tmp_path, BASE + blocks + cliff.format("slo_e2e_attainment"))
    assert "cliff.metric: 'slo_e2e_attainment' needs slo.e2e_ms" in message
    message = refused(tmp_path, BASE + blocks + cliff.format("goodput_rps"))
    assert "'goodput_rps' needs slo.ttft_ms or slo.tpot_ms or slo.e2e_ms" in message
    given = make_sweep(
        tmp_path, BASE + blocks + cliff.format("goodput_rps") + SLO[: SLO.index("[slo.")]
    )
    assert {"goodput_rps", "slo_ttft_attainment"} <= set(layout.names(grid.plan(given)))
    assert "slo_e2e_attainment" not in layout.names(grid.plan(given))


def test_a_sweep_without_levels_is_what_it_was(tmp_path):
    sweep = make_sweep(tmp_path)
    plan = grid.plan(sweep, keep_requests=True)
    names = set(layout.names(plan))
    assert not names & {variable.name for variable in LEVEL_VARIABLES}
    assert "request_tpot_us" not in names
    assert "slo" not in sweep.to_dict()["scenario"]
    judged = make_sweep(tmp_path, overrides=["slo.tpot_ms=50"])
    assert "request_tpot_us" in layout.names(grid.plan(judged, keep_requests=True))
    assert judged.to_dict()["scenario"]["slo"]["tpot_ms"] == 50.0
    assert plan.bytes < grid.plan(judged, keep_requests=True).bytes


def test_no_axis_is_called_like_a_variable(tmp_path):
    keys = [*leaf_keys(Scenario), "slo.classes.batch.e2e_ms"]
    for key in keys:
        assert dimension_names([key])[key] not in VARIABLES, key
    assert dimension_names(["slo.ttft_ms"]) == {"slo.ttft_ms": "slo_ttft_ms"}
    assert about("slo.ttft_ms").unit == "ms"
    assert about("slo.classes.batch.tpot_ms") == (
        "ms",
        "class: batch: time per output token after the first of a good request, at most",
    )


def test_levels_are_axes_and_more_time_is_never_worse(tmp_path):
    axis = '\n[grid]\n"slo.ttft_ms" = [2, 30, 60, 5000]\nseed = { count = 2 }\n'
    ds = run(make_sweep(tmp_path, BASE + axis), out=tmp_path / "s.zarr")
    share = ds["slo_attainment"].transpose("slo_ttft_ms", "seed").values
    assert ds["slo_ttft_ms"].attrs["units"] == "ms"
    assert (np.diff(share, axis=0) >= 0).all()
    assert (share[-1] == 1).all()
    assert (share[0] < 1).all()
    assert (ds["goodput_rps"] <= ds["throughput_rps"]).all()
    once = grid.plan(make_sweep(tmp_path, BASE + "\n[grid]\nseed = { count = 2 }\n"))
    assert grid.plan(make_sweep(tmp_path, BASE + axis)).seconds == once.seconds


def test_a_store_is_not_continued_with_other_levels(tmp_path):
    store = tmp_path / "s.zarr"
    run(make_sweep(tmp_path, BASE, overrides=["slo.ttft_ms=100"]), out=store)
    for overrides in ([], ["slo.ttft_ms=101"], ["slo.ttft_ms=100", "slo.tpot_ms=5"]):
        with pytest.raises(InputError, match=r"made from another sweep: scenario\.slo"):
            run(make_sweep(tmp_path, BASE, overrides=overrides), out=store)


def test_more_of_every_measure_is_better():
    assert {variable.name for variable in LEVEL_VARIABLES} <= HIGHER_IS_BETTER
    assert {f"{name}_ms" for name in LEVELS} == set(ServiceLevels.model_fields) - {"classes"}


@pytest.mark.parametrize(
    ("texts", "overrides"),
    [
        (["ttft:2000", "tpot:50"], ["slo.ttft_ms=2000.0", "slo.tpot_ms=50.0"]),
        (["e2el:1e3"], ["slo.e2e_ms=1000.0"]),
        (["e2e:0.5"], ["slo.e2e_ms=0.5"]),
        ([], []),
    ],
)
def test_goodput_has_the_syntax_of_vllm_bench_serve(texts, overrides):
    assert list(goodput_overrides(texts)) == overrides


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (["ttft"], "--goodput ttft: expected NAME:MS, as in ttft:2000 tpot:50"),
        (["ttft:"], "--goodput ttft:: expected NAME:MS"),
        ([":5"], "--goodput :5: expected NAME:MS"),
        (["itl:5"], "--goodput itl:5: unknown level; allowed: ttft, tpot, e2el"),
        (["tpt:5"], "did you mean 'tpot'?"),
        (["ttft:5", "ttft:6"], "--goodput ttft:6: ttft is given twice"),
        (["e2e:5", "e2el:6"], "--goodput e2el:6: e2el is given twice"),
        (["ttft:0"], "--goodput ttft:0: must be milliseconds, 0.001 to 1e+11, got '0'"),
        (["ttft:-5"], "must be milliseconds"),
        (["ttft:nan"], "must be milliseconds"),
        (["ttft:inf"], "must be milliseconds"),
        (["ttft:2s"], "must be milliseconds"),
        (["ttft:5:6"], "must be milliseconds"),
    ],
)
def test_what_is_no_goodput_is_refused(texts, message):
    with pytest.raises(InputError) as caught:
        list(goodput_overrides(texts))
    assert message in str(caught.value)


def test_a_trace_has_no_levels_of_its_own():
    with pytest.raises(
        InputError, match=r"t\.json: scenario\.slo: unknown key; a trace's scenario has"
    ):
        parse_scenario({"slo": {"ttft_ms": 5}}, "t.json")
    assert "slo" not in Scenario.model_validate({"slo": {"ttft_ms": 5}}).to_trace()


def test_a_policy_may_set_levels(tmp_path):
    file = tmp_path / "p.toml"
    file.write_text(
        BASE
        + '[policies.strict]\nslo.ttft_ms = 1\n[policies.loose]\n"slo.ttft_ms" = 99999\n'
        + '[grid]\npolicy = ["strict", "loose", "round-robin"]\n'
    )
    ds = run(load_sweep(file), out=tmp_path / "p.zarr")
    found = ds["slo_attainment"].values.tolist()
    assert found[:2] == [0.0, 1.0]
    assert np.isnan(found[2])


def test_cells_with_and_without_levels_are_found_as_they_were(tmp_path):
    text = BASE + '[policies.strict]\nslo.ttft_ms = 1\n[grid]\npolicy = ["strict", "round-robin"]\n'
    ds = run(make_sweep(tmp_path, text), out=tmp_path / "s.zarr", keep_requests=True)
    assert np.isfinite(ds["request_tpot_us"]).all()
    found = verify(tmp_path / "s.zarr", folder=tmp_path)
    assert len(found.simulated) == 2
    assert found.ok
