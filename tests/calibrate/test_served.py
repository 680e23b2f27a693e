"""Calibration on a server's requests: known coefficients are found again."""

import json
from pathlib import Path

import numpy as np
import pytest
import serving

from kvsweep.calibrate.comparison import ALL, FITTED, HELD_OUT, series_errors, simulate_series
from kvsweep.calibrate.families import Linear, Roofline, family_of
from kvsweep.calibrate.results import calibrate_served
from kvsweep.calibrate.served import read_served
from kvsweep.config import Latency, parse_scenario
from kvsweep.config.latency import load_preset
from kvsweep.errors import InputError

ROOFLINE = "llama-3.1-8b/h100/tp1-roofline"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return the path of a measured run of known coefficients."""
    path = tmp_path_factory.mktemp("served") / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(), series=True)))
    return path


@pytest.fixture(scope="module")
def found(run):
    return calibrate_served(run, read_served(run, ()), Linear(), 0.6, {})


def test_known_coefficients_are_found_again(found):
    for fit in (found.whole, found.part):
        assert fit.point == pytest.approx(serving.BETA, rel=1e-3)


def test_what_was_held_out_is_predicted(found):
    means = {row.metric: row for row in found.part.rows if row.statistic == "mean"}
    assert {row.part for row in found.part.rows} == {FITTED, HELD_OUT, ALL}
    for row in found.part.rows:
        if row.statistic == "mean":
            assert abs(row.error) < 1e-4, row
    fitted, held_out, every = (
        next(r.count for r in found.part.rows if (r.part, r.metric) == (part, "latency"))
        for part in (FITTED, HELD_OUT, ALL)
    )
    assert fitted + held_out == every == 80
    assert means["tpot"].units == "ms"


def test_the_preset_says_where_it_comes_from(found, run):
    assert (found.preset.model, found.preset.hardware) == ("Made-up", "none")
    assert run.name in found.preset.source
    assert "a simulation" in found.preset.source
    assert "first 60 % of the run only, the rest is predicted to ttft " in found.preset.fit


def test_series_are_those_of_the_engine(run):
    """Under the true coefficients the simulated log is the logged one."""
    served = read_served(run, ())
    series = simulate_series(served, Latency(beta=tuple(serving.BETA)))
    assert set(series) == {"running", "waiting", "kv_cache_pct"}
    assert all(np.allclose(series[name], served.series[name]) for name in series)
    assert max(series_errors(served, series, 5.0).values()) < 1e-9
    assert series_errors(served, series, served.series["t"][-1]) == {}


def test_efficiencies_of_a_roofline_are_found_again(tmp_path):
    preset = load_preset(ROOFLINE, Path())
    family = family_of(preset)
    assert isinstance(family, Roofline)
    truth = np.array([0.55, 0.8])
    terms = family.terms(truth[None, :])
    latency = {"beta": terms.beta[0].tolist(), "memory": terms.memory[0].tolist()}
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(latency))))
    found = calibrate_served(path, read_served(path, ()), family, 0.5, {"model": "M"})
    assert found.whole.point == pytest.approx(truth, rel=1e-3)
    assert found.preset.kind == "roofline"
    assert found.preset.model == "M"
    assert preset.source in found.preset.source
    assert found.preset.device.bandwidth == preset.device.bandwidth


def test_a_linear_preset_is_a_starting_point():
    preset = load_preset("llama-3.1-8b/h100/tp2", Path())
    (start,) = family_of(preset).starts(10_000, 1000)
    assert start[:3] == pytest.approx(preset.beta)
    assert (start[3:] > 0).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expected": None}, "expected.measured_us: missing: nothing to calibrate to"),
        (
            {"expected": {"measured_us": {"first_token_ts": [1], "last_token_ts": [2]}}},
            "expected.measured_us.first_token_ts: expected a list of 80 numbers, got a list of 1",
        ),
        ({"scenario": {"engine": {"rules": "blis"}}}, "only 'vllm' is timed"),
        ({"scenario": {"cache": {"gpu_blocks": 20}}}, "was answered by the server, but not with"),
    ],
)
def test_what_cannot_be_calibrated_is_refused(run, tmp_path, change, message):
    path = tmp_path / "served.json"
    path.write_text(json.dumps(json.loads(run.read_text()) | change))
    with pytest.raises(InputError) as caught:
        calibrate_served(path, read_served(path, ()), Linear(), 0.5, {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def edited(run, tmp_path, edit):
    """Return the path of the measured run after `edit` of its ``expected``."""
    document = json.loads(run.read_text())
    edit(document["expected"])
    path = tmp_path / "edited.json"
    path.write_text(json.dumps(document))
    return path


IMPOSSIBLE = {
    "measured_us.first_token_ts[3]": ("soon", -1, True, None, [1], 1e15, 10**400),
    "measured_us.last_token_ts[3]": ("soon", -1, 1e15),
    "measured_us.first_token_ts": (5, None, {}, "now", [1, 2]),
    "measured_us.last_token_ts": (5, None, {}, "now", [1, 2]),
    "timeseries.t[2]": ("soon", -1e10, 1e10, None),
    "timeseries.t": (5, None, "now", {}),
    "timeseries.running": (5, [1], {}),
    "timeseries.kv_cache_pct[0]": ("full", -1, None),
    "timeseries": (5, [1], "t"),
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, values in IMPOSSIBLE.items() for value in values]
)
def test_measured_values_of_wrong_types_are_refused_by_place(run, tmp_path, key, value):
    def edit(expected):
        *path, last = key.replace("]", "").replace("[", ".").split(".")
        for part in path:
            expected = expected[part]
        expected[int(last) if last.isdecimal() else last] = value

    path = edited(run, tmp_path, edit)
    with pytest.raises(InputError) as caught:
        read_served(path, ())
    assert str(caught.value).startswith(f"{path}: expected.{key}: expected a")
    assert len(str(caught.value)) < len(str(path)) + 150


def test_times_that_cannot_be_are_refused_by_place(run, tmp_path):
    def refused(edit):
        with pytest.raises(InputError) as caught:
            read_served(edited(run, tmp_path, edit), ())
        return str(caught.value)

    def early(expected):
        expected["measured_us"]["first_token_ts"][40] = 7

    def late(expected):
        expected["measured_us"]["last_token_ts"][40] = expected["measured_us"]["last_token_ts"][0]

    def at_once(expected):
        expected["measured_us"]["last_token_ts"] = expected["measured_us"]["first_token_ts"]

    def back(expected):
        expected["timeseries"]["t"][3] = expected["timeseries"]["t"][2]

    assert "first_token_ts[40]: 7 is not after the arrival, " in refused(early)
    assert "last_token_ts[40]: " in refused(late)
    assert "no last token is after the first of its request" in refused(at_once)
    assert "timeseries.t[3]: 3 is not after the time before, 3" in refused(back)


def test_a_run_without_a_log_has_no_series(run, tmp_path):
    for log in ({"t": []}, None, {}, {"t": None, "running": None}):
        path = edited(run, tmp_path, lambda expected, log=log: expected.update(timeseries=log))
        assert read_served(path, ()).series == {}


def test_a_log_may_begin_before_the_first_request(run, tmp_path):
    def edit(expected):
        expected["timeseries"]["t"][0] = -3.5

    series = read_served(edited(run, tmp_path, edit), ()).series
    assert series["t"][0] == -3.5


def test_too_short_a_part_is_refused(run):
    with pytest.raises(InputError, match="too few for 5 parameters"):
        calibrate_served(run, read_served(run, ()), Linear(), 0.001, {})


def test_a_trace_of_the_same_scenario_uses_the_preset(found, tmp_path):
    from kvsweep.calibrate.presets import write_preset

    write_preset(found.preset, tmp_path / "made.toml")
    latency = parse_scenario({"latency": {"model": "made.toml"}}, str(tmp_path / "t.json")).latency
    assert latency.beta == found.whole.latency.beta
