"""Fits to step times of a device whose coefficients are known."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from fake_steps import FLOPS, HEAD_US, LAYER, LAYERS, MOVED, FakeSteps, PresetSteps

from kvsweep.calibrate.families import family_of
from kvsweep.calibrate.step_fit import fit_steps
from kvsweep.calibrate.step_models import LINEAR, ROOFLINE, TWO_SUMS, step_times
from kvsweep.calibrate.step_results import Terms, preset_text, result_of
from kvsweep.calibrate.step_wording import step_text
from kvsweep.config import Latency
from kvsweep.config.preset import Preset, load_preset
from kvsweep.errors import InputError
from kvsweep.gpu.batches import Ranges, plan
from kvsweep.gpu.counts import step_counts
from kvsweep.gpu.exchange import Exchange
from kvsweep.gpu.measuring import measure_steps
from kvsweep.gpu.shard import shard_of
from kvsweep.sizing.shapes import load_config

PLAN = plan(Ranges(2048, 256, 8192, 100_000), trials=5, rungs=5, seed=0)
TRUE = LAYERS * LAYER + HEAD_US
RATES = (300.0, 6e8, 2.5e6)  # overhead in us, FLOP/us, bytes/us
ONE_GPU = Exchange(0.0, 0.0, "")


@pytest.fixture(scope="module")
def linear():
    return measure_steps(FakeSteps(noise=0.02), PLAN)


def test_known_coefficients_are_recovered(linear):
    fit = fit_steps(step_times(linear), LINEAR, draws=50)
    np.testing.assert_allclose(fit.beta, TRUE, rtol=0.05)
    low, high = np.array(fit.low), np.array(fit.high)
    assert (low <= fit.beta).all()
    assert (high >= fit.beta).all()
    assert ((low <= TRUE) & (high >= TRUE)).sum() >= 4  # 95 % each, of five
    assert (high - low < 0.2 * TRUE).all()
    assert fit.error < 0.02


def test_a_pause_of_the_machine_does_not_move_them(linear):
    disturbed = linear.copy(deep=True)
    disturbed["time_us"].values[0, ::4, 0] *= 5  # one trial of five of every fourth batch
    disturbed["time_us"].values[0, 3] *= 3  # all of one batch
    fit = fit_steps(step_times(disturbed), LINEAR, draws=10)
    np.testing.assert_allclose(fit.beta, TRUE, rtol=0.1)


def test_a_known_roofline_is_recovered_and_predicts_better_than_a_line():
    ds = measure_steps(FakeSteps(noise=0.02, rates=RATES), PLAN)
    fit = fit_steps(step_times(ds), ROOFLINE, draws=50)
    overhead, computing, moving = fit.values
    assert overhead == pytest.approx(300.0, rel=0.2)
    assert computing == pytest.approx(600.0, rel=0.03)  # TFLOP/s
    assert moving == pytest.approx(2500.0, rel=0.1)  # GB/s
    ends = zip(fit.low, fit.values, fit.high, strict=True)
    assert all(low <= value <= high for low, value, high in ends)
    assert fit.error < 0.02 < fit_steps(step_times(ds), LINEAR, draws=2).error


def test_rates_of_attention_that_are_others_than_those_of_products_are_found_by_two_free_sums():
    ds = measure_steps(FakeSteps(noise=0.02, rates=RATES, attention=2.0), PLAN)
    found = result_of(ds, Terms(None, ONE_GPU), draws=5)
    assert found.chosen == TWO_SUMS
    assert found.preset.kind == "roofline"
    assert found.fits[TWO_SUMS].error < 0.02
    assert found.fits[ROOFLINE].error > 2 * found.fits[TWO_SUMS].error
    free = found.fits[TWO_SUMS]
    assert free.beta[1] == pytest.approx(FLOPS[1] / RATES[1], rel=0.05)
    assert free.beta[4] == pytest.approx(2 * FLOPS[4] / RATES[1], rel=0.1)
    assert free.memory[3] == pytest.approx(2 * MOVED[3] / RATES[2], rel=0.1)


def test_a_card_that_behaves_as_its_roofline_preset_gives_its_efficiencies_back():
    """As docs/measuring-gpu.md tells: the fit counts FLOPs and bytes as the preset does."""
    preset = load_preset("llama-3.1-8b/rtx4090/tp1-roofline", Path())
    config, where, _ = load_config("llama-3.1-8b")
    card = PresetSteps(preset, *step_counts(shard_of(config, where, 1), weight_bytes=2.0))
    ranges = Ranges(2048, 256, 8192, 41392)
    times = step_times(measure_steps(card, plan(ranges, trials=1, rungs=6, seed=0)))
    fit = fit_steps(times, ROOFLINE, draws=2)
    _, computing, moving = fit.values
    assert computing / 165.2 == pytest.approx(preset.device.compute_efficiency, rel=1e-3)
    assert moving / 1008 == pytest.approx(preset.device.bandwidth_efficiency, rel=1e-3)
    assert fit.error < 1e-3
    assert 0.05 < fit_steps(times, LINEAR, draws=2).error < 0.08  # what the form of a line costs


@pytest.mark.parametrize("kind", [ROOFLINE, TWO_SUMS])
def test_a_mixture_of_experts_gives_back_what_reading_all_of_them_takes(kind):
    """Of 128 experts, 4 of them for each token: no sum over tokens has that curve."""
    byte, flop = 1 / 4e6, 1 / 5e8  # us
    moved = [2e9, 7e4, 2e6, 2e4, 0.0]
    preset = Preset(
        model="m",
        hardware="h",
        kind="roofline",
        beta=(3000.0, 3e9 * flop, 4e9 * flop, 1e5 * flop, 1e5 * flop),
        memory=tuple(byte * each for each in moved),
        experts=(1.2e11 * byte, 4 / 128),
        source="s",
        fit="f",
    )
    of_all = [moved[0] + 1.2e11, *moved[1:]]
    card = PresetSteps(preset, [0.0, 3e9, 4e9, 1e5, 1e5], of_all)
    card.attributes |= {"experts_share": 4 / 128, "experts_bytes": 1.2e11}
    ds = measure_steps(card, plan(Ranges(2048, 256, 8192, 100_000), trials=1, rungs=6, seed=0))
    found = result_of(ds, Terms(0.0, ONE_GPU), kind, draws=2)
    assert found.fits[kind].error < 0.005
    assert found.fits[LINEAR].error > 0.1
    assert found.preset.experts == (pytest.approx(30_000, rel=0.01), 4 / 128)
    assert len(found.preset.memory) == 5
    written = tomllib.loads(preset_text(found.preset))
    assert written["experts"] == list(found.preset.experts)
    assert f"{kind}  experts[0]" in step_text(found) or kind == ROOFLINE
    unknown = ds.assign_attrs(experts_share=0.0)
    assert "experts" not in preset_text(
        result_of(unknown, Terms(0.0, ONE_GPU), kind, draws=2).preset
    )
    assert fit_steps(step_times(unknown), kind, draws=2).error > 0.1


def test_a_sum_that_is_never_the_larger_one_is_said_not_to_be_told():
    fast = measure_steps(FakeSteps(noise=0.0, rates=(300.0, 6e8, 1e12)), PLAN)
    fit = fit_steps(step_times(fast), ROOFLINE, draws=2)
    assert re.fullmatch(r"moving data takes longer in \d of \d+ batches: its .* told", fit.note)


def test_nothing_is_fitted_to_what_is_held_out(linear):
    other = linear.copy(deep=True)
    other["time_us"].values[:, other["held_out"].values > 0] *= 7
    one, two = (fit_steps(step_times(ds), LINEAR, draws=2) for ds in (linear, other))
    assert one.beta == two.beta
    assert two.error == pytest.approx(6 / 7, abs=0.02)


def test_a_preset_says_measured_on_what_and_how_well_it_predicts(linear):
    preset = result_of(linear, Terms(None, ONE_GPU), LINEAR, draws=5).preset
    assert (preset.kind, preset.model, preset.tp) == ("linear", "fake", 2)
    assert preset.hardware == "Fake GPU, tensor parallel 2"
    assert preset.source.startswith("measured: `kvsweep measure gpu` at 20")
    assert "on Fake GPU" in preset.source
    assert "PyTorch 9.9" in preset.source
    assert "host_overhead_us: inference-sim's TOverheadMicros, not measured" in preset.source
    held_out = int(linear["held_out"].sum())
    assert preset.fit.startswith(f"linear: {held_out} held-out batches are predicted to ")
    assert "95 % intervals: beta[0] " in preset.fit
    assert preset.gpu_token_bytes == 131072 / 2


@pytest.mark.parametrize("kind", [LINEAR, ROOFLINE, TWO_SUMS])
def test_a_preset_loads_as_others_do_with_its_added_terms(linear, kind, tmp_path):
    terms = Terms(400.0, Exchange(30.0, 0.25, "given"))
    found = result_of(linear, terms, kind, draws=2)
    path = tmp_path / "here.toml"
    path.write_text(preset_text(found.preset))
    assert load_preset("here.toml", tmp_path) == found.preset
    latency = Latency.model_validate({"model": "here.toml"}, context={"base_dir": tmp_path})
    fit = found.fits[kind]
    added = np.array([430.0, 0.25, 0.25, 0.0, 0.0])
    np.testing.assert_allclose(latency.beta, np.array(fit.beta) + added, rtol=1e-4)
    if kind != LINEAR:
        added[0] = 0.0  # what a step waits for beside both sums is in the first
        np.testing.assert_allclose(latency.memory, np.array(fit.memory) + added, rtol=1e-4)
    else:
        assert latency.memory == ()


def test_an_added_term_is_edited_in_the_file(linear, tmp_path):
    text = preset_text(result_of(linear, Terms(None, ONE_GPU), LINEAR, draws=2).preset)
    assert "host_overhead_us = 500.0\n" in text
    for name, value in (("a", 500.0), ("b", 2000.0)):
        changed = text.replace("host_overhead_us = 500.0", f"host_overhead_us = {value}")
        (tmp_path / f"{name}.toml").write_text(changed)
    a, b = (load_preset(f"{name}.toml", tmp_path).coefficients()["beta"][0] for name in ("a", "b"))
    assert b - a == pytest.approx(1500.0)


def test_a_measured_preset_is_where_a_calibration_begins_or_says_why_not(linear):
    terms = Terms(400.0, ONE_GPU)
    line, roofline = (result_of(linear, terms, kind, draws=2) for kind in (LINEAR, ROOFLINE))
    (start,) = family_of(line.preset).starts(10_000, 1000)
    assert start[0] == pytest.approx(line.fits[LINEAR].beta[0] + 400.0, rel=1e-4)
    with pytest.raises(InputError, match="--from: a roofline of measured sums; start from"):
        family_of(roofline.preset)


def test_steps_that_are_badly_predicted_are_called_a_bad_fit(linear):
    other = linear.copy(deep=True)
    other["time_us"].values[:, other["held_out"].values > 0] *= 2
    found = result_of(other, Terms(None, ONE_GPU), draws=2)
    assert found.problems[0].startswith("held-out steps are off by 5")
    assert found.preset.fit.startswith("BAD FIT (held-out steps are off by 5")


def test_missing_timings_are_told(linear):
    part = linear.copy(deep=True)
    part["position"].values[0, 0, 0] = -1
    with pytest.raises(InputError, match=r"1 of \d+ timings are missing; the same command goes on"):
        result_of(part, Terms(None, ONE_GPU))


def test_the_preset_measured_on_a_processor_predicts_to_within_a_tenth():
    """Kept in docs/measurements: a measurement of step times, not one that a test could repeat."""
    folder = Path(__file__).parents[2] / "docs" / "measurements" / "epyc-steps"
    preset = load_preset("preset.toml", folder)
    error = float(re.search(r"are predicted to ([\d.]+) % \(median", preset.fit)[1])
    assert error < 10
    summary = (folder / "summary.txt").read_text()
    assert f"linear, in the preset: 16 held-out batches are predicted to {error:g} %" in summary
    assert all(f"{value:.4g}" in summary for value in preset.beta)


def windowed_card(flop, byte):
    """Return a device that computes and moves what 18 layers have in all, 18 in a window of 512."""
    each, token = 18 * 4 * 64 * 64, 18 * 2048
    flops, moved = [0.0, 4e9, 5e9, each, each], [8e9, 2 * token, 2 * token, token, 0.0]
    preset = Preset(
        model="m",
        hardware="h",
        kind="roofline",
        beta=(3000.0, *(flop * one for one in flops[1:])),
        memory=tuple(byte * one for one in moved),
        window=(512, flop * each, flop * each, byte * token, 0),
        source="s",
        fit="f",
    )
    full = np.array([0, each, each, 0, 0]) * 511
    read = np.array([0, 0, token, 0, 0]) * 511
    card = PresetSteps(preset, flops + full, moved + read)
    card.attributes |= {
        "window": 512,
        "window_flops": [each, each],
        "window_bytes": [token, 0.0],
    }
    return card, preset


@pytest.mark.parametrize("kind", [ROOFLINE, TWO_SUMS])
def test_a_window_gives_back_what_a_token_inside_takes(kind):
    card, preset = windowed_card(1 / 5e8, 1 / 5e5)
    ranges = Ranges(2048, 256, 8192, 100_000)
    ds = measure_steps(card, plan(ranges, trials=1, rungs=6, seed=0))
    found = result_of(ds, Terms(0.0, ONE_GPU), kind, draws=2)
    assert found.fits[kind].error < 0.005
    window, _, _, moved, _ = found.preset.window
    assert (window, moved) == (512, pytest.approx(preset.window[3], rel=0.05))
    assert found.preset.memory[3] == pytest.approx(preset.memory[3], rel=0.05)
    assert (len(found.preset.beta), len(found.preset.memory)) == (5, 5)
    assert tomllib.loads(preset_text(found.preset))["window"] == list(found.preset.window)
    assert f"{kind}  window[3]" in step_text(found) or kind == ROOFLINE
    line = result_of(ds, Terms(0.0, ONE_GPU), LINEAR, draws=2)
    assert line.preset.window[3:] == (0, 0)
    unknown = ds.assign_attrs(window=0)  # as measurements of before have it
    without = fit_steps(step_times(unknown), kind, draws=2)
    assert np.abs(without.errors).max() > 5 * np.abs(found.fits[kind].errors).max()


def test_a_window_that_no_request_outgrows_has_no_times_of_its_own():
    card, _ = windowed_card(1 / 5e8, 1 / 5e5)
    ds = measure_steps(card, plan(Ranges(512, 64, 512, 9000), trials=1, rungs=4, seed=0))
    times = step_times(ds)
    assert times.window == 0
    found = result_of(ds, Terms(0.0, ONE_GPU), ROOFLINE, draws=2)
    assert np.abs(found.fits[ROOFLINE].errors).max() < 0.001
    assert found.preset.beta[0] == pytest.approx(3000, rel=0.01)
    assert found.preset.memory[3] == pytest.approx(2 * 18 * 2048 / 5e5, rel=0.01)
    assert fit_steps(times, LINEAR, draws=2).names == tuple(f"beta[{i}]" for i in range(5))


def test_folded_tables_repeat_all_that_says_the_row(linear, monkeypatch):
    monkeypatch.setattr("kvsweep.report.folding.width_of_terminal", lambda: 40)
    lines = step_text(result_of(linear, Terms(0.0, ONE_GPU), LINEAR, draws=2)).splitlines()
    assert sum(line.startswith("fit ") and "coefficient" in line for line in lines) > 1
    assert sum(line.lstrip().startswith("prefill") for line in lines) > 1
    assert all(line.split().count("after") == 2 for line in lines if "prefill" in line.split())


@pytest.mark.parametrize("memory", ["[5000.0]", "[5000.0, 0.0, 0.0, 0.0, 0.0]"])
def test_what_is_added_of_a_token_is_added_to_terms_that_a_preset_leaves_out(tmp_path, memory):
    """Missing coefficients are 0: an exchange was lost where data are moved."""
    path = tmp_path / "edited.toml"
    path.write_text(
        'model = "m"\nhardware = "h"\nkind = "roofline"\nsource = "s"\nfit = "f"\n'
        f"beta = [100.0]\nmemory = {memory}\n[added]\nallreduce_token_us = 1.5\n"
    )
    found = load_preset(str(path), Path()).coefficients()
    assert found["beta"] == (100.0, 1.5, 1.5, 0.0, 0.0)
    assert found["memory"] == (5000.0, 1.5, 1.5, 0.0, 0.0)
