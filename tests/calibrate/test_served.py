"""Calibration on a server's requests: known coefficients are found again."""

import json
from pathlib import Path

import numpy as np
import pytest
import serving

from kvsweep.calibrate.comparison import (
    ALL,
    FITTED,
    HELD_OUT,
    ComparedRow,
    compare,
    series_errors,
    simulate_series,
)
from kvsweep.calibrate.families import Linear, Roofline, Terms, family_of
from kvsweep.calibrate.load import measured_load, unseen
from kvsweep.calibrate.needed import assumed
from kvsweep.calibrate.presets import kept, kept_words, peak_reference, write_preset
from kvsweep.calibrate.probing import Range
from kvsweep.calibrate.results import calibrate_served
from kvsweep.calibrate.served import read_served, with_delays
from kvsweep.calibrate.simulated import NEVER_S, Simulator
from kvsweep.calibrate.wording import _served_row, served_json, served_text
from kvsweep.config import Latency, parse_scenario
from kvsweep.config.added_terms import Added
from kvsweep.config.preset import Preset, load_preset
from kvsweep.errors import InputError
from kvsweep.trace_replay import run_replay

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


@pytest.mark.long
def test_a_server_that_schedules_ahead_and_starts_slowly_is_found_again(tmp_path):
    """Its settings are held, not fitted, and the preset names them: it lacks them itself."""
    cold = [150_000, 90_000]
    latency = {"beta": serving.BETA, "first_steps_us": cold}
    made = serving.trace(latency, engine={"async_scheduling": True})
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(made)))
    settings = (f"latency.first_steps_us={cold}",)
    found = calibrate_served(path, read_served(path, settings), Linear(), 0.6, {})
    assert found.part.point == pytest.approx(serving.BETA, rel=1e-3)
    assert found.part.latency.first_steps_us == tuple(cold)
    under = "under engine.async_scheduling = true, latency.first_steps_us = [150000, 90000]: ttft"
    assert under in found.preset.fit
    assert "first_steps_us" not in found.preset.coefficients()
    warm = calibrate_served(path, read_served(path, ()), Linear(), 0.6, {})
    assert np.abs(warm.part.simulated.first - found.part.simulated.first).max() > 0.05


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


@pytest.mark.parametrize("instances", [1, 3])
def test_series_are_those_of_all_instances(tmp_path, instances):
    """Under the true coefficients the simulated log is the logged one, summed over instances."""
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(instances=instances), series=True)))
    served = read_served(path, ())
    assert served.series["running"].max() > 5
    series = simulate_series(served, Latency(beta=tuple(serving.BETA)))
    assert set(series) == {"running", "waiting", "kv_cache_pct"}
    assert all(np.allclose(series[name], served.series[name]) for name in series)
    assert max(series_errors(served, series, 5.0).values()) < 1e-9
    assert series_errors(served, series, served.series["t"][-1]) == {}


def test_series_that_were_not_recorded_are_left_out(run, tmp_path):
    document = json.loads(run.read_text())
    log = document["expected"]["timeseries"]
    log["waiting"] = None
    del log["kv_cache_pct"]
    path = tmp_path / "served.json"
    path.write_text(json.dumps(document))
    found = calibrate_served(path, read_served(path, ()), Linear(), 0.6, {})
    assert set(found.series) == set(found.series_errors) == {"running"}
    assert "waiting: off by" not in served_text(found)


def test_settings_given_on_the_command_line_count(run, tmp_path):
    document = json.loads(run.read_text()) | {"scenario": {}}
    path = tmp_path / "served.json"
    path.write_text(json.dumps(document))
    served = read_served(path, ("cache.gpu_blocks=3000", "engine.max_num_seqs=256"))
    assert served.scenario.cache.gpu_blocks == 3000
    told = assumed(served.scenario)
    assert told[0].startswith("engine.max_num_batched_tokens: not in the trace, 2,048 assumed")
    assert told[1].startswith("cache.block_size: not in the trace, 16 assumed")
    assert told[2].startswith("engine.async_scheduling: not in the trace, false assumed")
    assert assumed(read_served(run, ()).scenario) == ()


@pytest.mark.parametrize(
    "setting", ["latency.beta=[1.0,2.0,3.0]", f"latency.model={ROOFLINE}", "latency={beta=[1.0]}"]
)
def test_step_times_are_not_set_but_found(run, setting):
    with pytest.raises(InputError, match="has no effect: step times are what is fitted; --from"):
        read_served(run, (setting,))


def test_what_says_how_the_trace_is_read_is_no_setting(run):
    with pytest.raises(InputError, match="give it as --read failed=leave-out"):
        read_served(run, ("read.failed=leave-out",))


def test_a_good_fit_has_no_problems_and_no_cautions(found):
    assert (found.problems, found.cautions) == ((), ())
    document = served_json(found)
    assert (document["good"], document["problems"], document["cautions"]) == (True, [], [])


def test_a_fit_under_the_wrong_setting_is_called_bad(run):
    """The server had room for 256 requests at once, the simulation is given room for 3."""
    served = read_served(run, ("engine.max_num_seqs=3",))
    found = calibrate_served(run, served, Linear(), 0.6, {})
    assert any("mean, held out, is off by" in problem for problem in found.problems)
    assert found.preset.fit.startswith("BAD FIT (")
    assert "\nbad fit: " in served_text(found)
    assert served_json(found)["good"] is False


@pytest.fixture(scope="module")
def building(tmp_path_factory):
    """Return a measured run whose load grows to the end."""
    path = tmp_path_factory.mktemp("building") / "served.json"
    path.write_text(json.dumps(serving.measured(serving.building())))
    return path


def test_a_fit_says_what_load_it_has_not_seen(building):
    served = read_served(building, ())
    early, *_ = unseen(served, 15.0)
    assert early.startswith("load that the fit has not seen: after 15.0 s up to ")
    assert "requests decode at once, up to then " in early
    assert unseen(served, float(served.last.max())) == ()
    assert unseen(served, 60.0) == ()  # the most has been by then: the rest drains


def test_the_measured_load_is_counted_request_by_request(building):
    served = read_served(building, ())
    times = np.array([served.first[40], served.first[40] - 1e-7, served.last.max() + 1.0])
    load = measured_load(served, times)
    assert load["decoding"][0] == load["decoding"][1] + 1
    assert load["waiting"][0] == load["waiting"][1] - 1
    assert [load[name][2] for name in ("decoding", "waiting", "context")] == [0.0, 0.0, 0.0]


def test_coefficients_that_a_run_does_not_tell_are_held_to_the_preset(building):
    """Few requests at a time: what a request costs drowns in what a step costs."""
    served = read_served(building, ())
    free = calibrate_served(building, served, Linear(), 0.25, {})
    (loose,) = [one for one in free.part.loose if one.name == "beta[2]"]
    assert loose.near is None
    assert any("beta[2] is not told apart from" in caution for caution in free.cautions)
    assert any(c.endswith("name a preset with --from to hold it") for c in free.cautions)
    near = [1.1 * beta for beta in serving.BETA]
    held = calibrate_served(building, served, Linear(near, "as known"), 0.25, {})
    (loose,) = [one for one in held.part.loose if one.name == "beta[2]"]
    assert (loose.near, loose.by) == (pytest.approx(44.0), "as known")
    assert any(": held near 44, as known" in caution for caution in held.cautions)
    off = [abs(fit.part.point[2] / serving.BETA[2] - 1) for fit in (free, held)]
    assert off[0] > 0.5
    assert off[1] < 0.15
    assert held.part.point[0] == pytest.approx(serving.BETA[0], rel=0.01)  # told, so not held
    assert all(abs(row.error) < 0.05 for row in held.part.rows if row.statistic == "mean")


def test_coefficients_that_many_hollows_fit_are_told(building):
    """The slopes where the search ends tell all of them, and one is seven times too small."""
    found = calibrate_served(building, read_served(building, ()), Linear(), 1.0, {})
    assert found.whole.loose == ()
    (span,) = [one for one in found.whole.ranges if one.name == "beta[4]"]
    assert span.high > 1.35 * span.low
    assert found.whole.point[4] < 0.5 * serving.BETA[4]
    assert {one.name for one in found.whole.ranges}.isdisjoint({"beta[0]", "beta[1]", "beta[3]"})
    (caution,) = [text for text in found.cautions if "beta[4]" in text]
    assert caution.startswith("fit to all: beta[4] is hardly told: ")
    assert caution.endswith("; trust it only for loads like this run's")
    assert "beta[4]" in {one["name"] for one in served_json(found)["fits"]["whole"]["ranges"]}


def test_a_search_goes_on_from_an_end_that_fits_clearly_better(building):
    """Its cost was four times that of another end, and beta[1] a third too large."""
    found = calibrate_served(building, read_served(building, ()), Linear(), 0.5, {})
    assert found.part.point[:2] == pytest.approx(serving.BETA[:2], rel=0.02)
    assert found.part.point[3] == pytest.approx(serving.BETA[3], rel=0.2)


def test_a_known_card_tells_what_a_token_of_context_costs_at_least():
    reference = peak_reference("meta-llama/Llama-3.1-8B", "NVIDIA GeForce RTX 4090")
    # 32 layers, keys and values of 8 heads of 128, 2 bytes each, at 1.008 TB/s.
    assert reference.values[3] == pytest.approx(32 * 2 * 8 * 128 * 2 / 1.008e6)
    assert np.isnan(reference.values[[0, 1, 2, 4]]).all()
    assert peak_reference("Llama-3.1-8B", "Abacus") is None


@pytest.mark.parametrize("name", [ROOFLINE, "gpt-oss-120b/h100/tp1-roofline"])
def test_efficiencies_of_a_roofline_are_found_again(tmp_path, name):
    preset = load_preset(name, Path())
    family = family_of(preset)
    assert isinstance(family, Roofline)
    truth = np.array([0.55, 0.8])
    terms = family.terms(truth[None, :])
    latency = {"beta": terms.beta[0].tolist(), "memory": terms.memory[0].tolist()}
    if terms.experts is not None:
        latency["experts"] = terms.experts[0].tolist()
    if terms.window is not None:
        latency["window"] = terms.window[0].tolist()
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(latency))))
    linked = preset.model_copy(update={"link": "pcie4-x16"})
    found = calibrate_served(path, read_served(path, ()), family, 0.5, {"model": "M"}, linked)
    assert found.preset.link == "pcie4-x16"
    assert "; link: as of the preset of" in found.preset.source
    assert found.whole.point == pytest.approx(truth, rel=1e-3)
    assert found.preset.kind == "roofline"
    assert found.preset.model == "M"
    assert preset.source in found.preset.source
    assert found.preset.device.bandwidth == preset.device.bandwidth


def test_a_roofline_of_a_named_model_is_fitted_and_written_as_one(tmp_path):
    """Its shape is a name: the fit must not lose it, nor the term of its experts."""
    start = load_preset("deepseek-v3/h200/tp8-roofline", Path())
    family = family_of(start)
    assert isinstance(family, Roofline)
    terms = family.terms(np.array([[0.65, 0.72], [0.65, 0.36]]))
    assert terms.memory[0].tolist() == pytest.approx(start.coefficients()["memory"])
    token = start.coefficients()["memory"][1] - start.coefficients()["memory"][3]  # exchanged
    kept = np.array([0, token, token, 0, 0])
    assert terms.memory[1] - kept == pytest.approx(2 * (terms.memory[0] - kept))
    assert tuple(terms.experts[0]) == pytest.approx(start.coefficients()["experts"])
    assert tuple(terms.experts[1]) == pytest.approx((2 * terms.experts[0, 0], 1 / 32))
    about = start.model_dump(include={"model", "hardware", "kind", "source", "fit"})
    write_preset(Preset(**about, **family.tables(np.array([0.5, 0.6]))), tmp_path / "p.toml")
    found = load_preset("p.toml", tmp_path)
    assert found.shape_of == "deepseek-v3"
    assert found.device.flops_8bit == start.device.flops_8bit
    assert found.coefficients()["beta"][1] - token == pytest.approx(
        (start.coefficients()["beta"][1] - token) * 0.65 / 0.5
    )
    assert peak_reference("gpt-oss-120b", "H200 SXM, one device").values[3] == pytest.approx(
        18 * 2 * 8 * 64 * 2 / 4.8e6
    )


def test_a_fit_keeps_what_times_do_not_tell_of_the_preset_it_starts_from():
    """A CPU tier needs the link and the bytes of a token."""
    preset = load_preset("llama-3.1-8b/h100/tp2", Path())
    told = {"link": "pcie4-x16", "kv_bytes_per_token": 131072.0, "tp": 2}
    assert kept(preset.model_copy(update=told)) == told
    bare = dict.fromkeys(told)
    assert kept(preset.model_copy(update=bare)) == kept(None) == {}
    assert kept_words(None) is kept_words(preset.model_copy(update=bare)) is None


def test_delays_of_the_preset_that_it_starts_from_hold_and_are_kept(tmp_path):
    """No fit finds them: without, what a client waits for went into the steps."""
    alpha = (9000.0, 4.0, 30_000.0)
    made = serving.measured(serving.trace({"beta": serving.BETA, "alpha": alpha}, count=40))
    times = made["expected"]["measured_us"]
    for key, values in times.items():
        times[key] = [value + 30_000 for value in values]
    path = tmp_path / "served.json"
    path.write_text(json.dumps(made))
    start = load_preset("llama-3.1-8b/h100/tp2", Path())
    beta = tuple(1.05 * value for value in serving.BETA)
    start = start.model_copy(update={"alpha": alpha, "beta": beta})
    found = calibrate_served(path, read_served(path, ()), family_of(start), 1.0, {}, start)
    assert found.preset.alpha == found.whole.latency.alpha == alpha
    assert found.whole.point == pytest.approx(serving.BETA, rel=1e-2)
    assert "; alpha" in found.preset.source
    for own in ([1.0, 0.0, 0.0], [0, 0, 0]):
        served = read_served(path, (f"latency.alpha={own}",))
        assert with_delays(served, alpha).scenario.latency.alpha == tuple(own)


def test_a_linear_preset_is_a_starting_point():
    preset = load_preset("llama-3.1-8b/h100/tp2", Path())
    starts = family_of(preset).starts(10_000, 1000)
    assert starts[:, :3] == pytest.approx(np.tile(preset.beta, (len(starts), 1)))
    none, *shared = starts[:, 3:].tolist()
    assert max(none) < 1e-4
    assert min(shared)[0] >= 0.5  # 5 % of the time of a token are contexts
    assert min(row[1] for row in shared) > 1e-5
    known = (15000.0, 80.0, 40.0, 0.15, 0.01)
    assert Linear(known).starts(10_000, 1000).tolist() == [list(known)]


@pytest.mark.parametrize("lacks", [(0.0, 0.0), (3.9e-7, 2.2e-7)])
def test_terms_that_a_starting_point_lacks_are_fitted(run, lacks):
    """They began at next to nothing, where searches ended, and stayed; others took their part."""
    start = Linear((1.05 * serving.BETA[0], 0.95 * serving.BETA[1], serving.BETA[2], *lacks))
    found = calibrate_served(run, read_served(run, ()), start, 1.0, {})
    assert found.whole.point == pytest.approx(serving.BETA, rel=0.03)


APART = {"prefill_instances": 1, "decode_instances": 1, "kv_transfer_bandwidth": 1.0}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"expected": None}, "expected.measured_us: missing: nothing to calibrate to"),
        (
            {"expected": {"measured_us": {"first_token_ts": [1], "last_token_ts": [2]}}},
            "expected.measured_us.first_token_ts: expected a list of 80 numbers, got a list of 1",
        ),
        ({"scenario": {"engine": {"rules": "blis"}}}, "only 'vllm' is timed"),
        (
            {"scenario": {"cluster": {"pools": [{"instances": 2}]}}},
            "served.json: cluster.pools: the step times of one kind of instance are fitted",
        ),
        (
            {"scenario": {"cluster": APART}},
            "served.json: cluster: prefill and decode apart: the step times of one kind",
        ),
        (
            {"scenario": {"cache": {"gpu_blocks": 20}, "engine": serving.ENGINE}},
            "served.json: request 0 was answered by the server, but not with",
        ),
        (
            {"scenario": {"engine": serving.ENGINE}},
            "cache.gpu_blocks: missing, and times depend on it: the server's KV blocks without "
            "vLLM's null block, which `kvsweep blocks --log FILE` tells",
        ),
        (
            {"scenario": {"cache": {"gpu_blocks": 3000}}},
            "engine.max_num_seqs: missing, and times depend on it",
        ),
    ],
)
def test_what_cannot_be_calibrated_is_refused(run, tmp_path, change, message):
    path = tmp_path / "served.json"
    path.write_text(json.dumps(json.loads(run.read_text()) | change))
    with pytest.raises(InputError) as caught:
        calibrate_served(path, read_served(path, ()), Linear(), 0.5, {})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_request_that_no_step_times_answer_is_told_with_its_causes(run, tmp_path):
    document = json.loads(run.read_text())
    for request in document["requests"]:
        request["patience_us"] = 1
    path = tmp_path / "served.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"served\.json: request \d+ was .* leave patience_us out"):
        calibrate_served(path, read_served(path, ()), Linear(), 0.5, {})


def test_candidates_that_lose_requests_are_bad_and_no_end_of_the_search(run):
    """Steps of many days are no answer; the next candidate may be one."""
    simulator = Simulator(read_served(run, ()))
    points = np.array([5 * [1e300], serving.BETA])
    endless, right = simulator(Linear().terms(points))
    assert endless.last.max() == NEVER_S
    with pytest.raises(InputError, match="the simulation takes too long; are the times in the uni"):
        endless.check_served()
    right.check_served()


def test_a_server_that_is_very_slow_is_found_again(tmp_path):
    slower = 1000
    made = serving.measured(serving.trace(count=40))
    for request in made["requests"]:
        request["arrival_us"] *= slower
    for times in made["expected"]["measured_us"].values():
        times[:] = [slower * time for time in times]
    path = tmp_path / "served.json"
    path.write_text(json.dumps(made))
    found = calibrate_served(path, read_served(path, ()), Linear(), 0.6, {})
    assert found.whole.point[:2] == pytest.approx(slower * np.array(serving.BETA[:2]), rel=0.05)


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

    def half_at_once(expected):
        times = expected["measured_us"]
        times["last_token_ts"][:41] = times["first_token_ts"][:41]

    def back(expected):
        expected["timeseries"]["t"][3] = expected["timeseries"]["t"][2]

    assert "first_token_ts[40]: 7 is not after the arrival, " in refused(early)
    assert "last_token_ts[40]: " in refused(late)
    assert "no last token is after the first of its request" in refused(at_once)
    assert "of 80 requests with several output tokens only 39 have their la" in refused(
        half_at_once
    )
    assert "timeseries.t[3]: 3 is not after the time before, 3" in refused(back)


def test_a_run_of_single_tokens_is_refused(run, tmp_path):
    document = json.loads(run.read_text())
    for request in document["requests"]:
        request["output"][1] = 1
    path = tmp_path / "served.json"
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"all requests have one output token, .*: measure with"):
        read_served(path, ())


def test_a_run_without_a_log_has_no_series(run, tmp_path):
    for log in ({"t": []}, None, {}, {"t": None, "running": None}):
        path = edited(run, tmp_path, lambda expected, log=log: expected.update(timeseries=log))
        assert read_served(path, ()).series == {}


def test_a_series_of_another_name_is_refused(run, tmp_path):
    def edit(expected):
        expected["timeseries"]["kv_cache"] = expected["timeseries"].pop("kv_cache_pct")

    hint = r"expected\.timeseries\.kv_cache: unknown key; did you mean 'kv_cache_pct'\?.*: null$"
    with pytest.raises(InputError, match=hint):
        read_served(edited(run, tmp_path, edit), ())

    def add(expected):
        expected["timeseries"] |= {"gen_throughput": [], "runing": []}

    assert "running" in read_served(edited(run, tmp_path, add), ()).series

    def replaced(expected):
        expected["timeseries"]["prefix_cache_pct"] = expected["timeseries"].pop("kv_cache_pct")

    assert "kv_cache_pct" not in read_served(edited(run, tmp_path, replaced), ()).series

    def said(expected):
        edit(expected)
        expected["timeseries"]["kv_cache_pct"] = None

    assert "kv_cache_pct" not in read_served(edited(run, tmp_path, said), ()).series


def test_a_log_may_begin_before_the_first_request(run, tmp_path):
    def edit(expected):
        expected["timeseries"]["t"][0] = -3.5

    series = read_served(edited(run, tmp_path, edit), ()).series
    assert series["t"][0] == -3.5


def test_too_short_a_part_is_refused(run, tmp_path):
    with pytest.raises(InputError, match=r"too few for 5 parameters, .*; a larger --split") as end:
        calibrate_served(run, read_served(run, ()), Linear(), 0.001, {})
    assert str(end.value).startswith(f"{run}: only ")
    short = serving.measured(serving.trace(count=4))
    (tmp_path / "short.json").write_text(json.dumps(short))
    served = read_served(tmp_path / "short.json", ())
    with pytest.raises(InputError, match=r"short\.json: only 8 times .*; measure more requests$"):
        calibrate_served(tmp_path / "short.json", served, Linear(), 1.0, {})


def test_a_trace_of_the_same_scenario_uses_the_preset(found, tmp_path):
    from kvsweep.calibrate.presets import write_preset

    write_preset(found.preset, tmp_path / "made.toml")
    latency = parse_scenario({"latency": {"model": "made.toml"}}, str(tmp_path / "t.json")).latency
    assert latency.beta == found.whole.latency.beta


def test_a_part_of_the_run_that_was_not_streamed_is_a_bad_fit(run, tmp_path):
    """Its times between tokens are 0, of which no error is a share: it ended with a traceback."""
    made = json.loads(run.read_text())
    times = made["expected"]["measured_us"]
    until = np.quantile(times["last_token_ts"], 0.3)
    pairs = zip(times["first_token_ts"], times["last_token_ts"], strict=True)
    times["last_token_ts"] = [first if last <= until else last for first, last in pairs]
    path = tmp_path / "served.json"
    path.write_text(json.dumps(made))
    found = calibrate_served(path, read_served(path, ()), Linear(), 0.3, {})
    told = "tpot mean, fitted, is 0 as measured: last tokens came with the first"
    assert any(problem.startswith(told) for problem in found.problems)
    assert told in served_text(found)
    rows = json.loads(json.dumps(served_json(found), allow_nan=False))["fits"]["part"]["rows"]
    assert [row["error"] for row in rows if row["real"] == 0] == [None] * 4


def test_latencies_of_requests_that_wait_count_from_the_answers(tmp_path):
    """Their `arrival_us` is only a place in the list: mean TTFT was seconds, its error hidden."""
    made = serving.trace()
    for row in made["requests"][1::2]:
        row |= {"after": row["id"] - 1, "think_us": 400_000}
    path = tmp_path / "served.json"
    document = serving.measured(made)
    path.write_text(json.dumps(document))
    served = read_served(path, ())
    replayed = run_replay(made).requests
    assert served.arrival == pytest.approx(replayed["arrival_us"] / 1e6)
    slower = 1.1 * np.array([serving.BETA])
    (simulated,) = Simulator(served)(Terms(slower, None))
    rows = compare(served, simulated.first, simulated.last, 1e9)
    (ttft,) = (
        row for row in rows if (row.part, row.metric, row.statistic) == (ALL, "ttft", "mean")
    )
    assert ttft.real == pytest.approx(replayed["ttft_us"].mean() / 1e6)
    other = run_replay(
        made | {"scenario": made["scenario"] | {"latency": {"beta": slower[0].tolist()}}}
    )
    assert ttft.simulated == pytest.approx(other.requests["ttft_us"].mean() / 1e6)
    document["requests"][1]["think_us"] = 10**9
    path.write_text(json.dumps(document))
    with pytest.raises(
        InputError, match=r"first_token_ts\[1\]: .*\(last_token_ts\[0\] and think_us"
    ):
        read_served(path, ())


def test_short_times_are_written_with_as_many_digits():
    """Of a TTFT of 20 ms two were, beside an error in hundredths of a per cent."""
    row = ComparedRow(ALL, "ttft", "s", "mean", 3, 0.0205, 0.02104)
    assert _served_row(row, ALL)[4:] == ("0.02050", "0.02104", "+2.63%")
    row = ComparedRow(ALL, "tpot", "ms", "mean", 3, 31.0125, 0.0)
    assert _served_row(row, ALL)[4:] == ("31.012", "0.000", "-100.00%")


def test_nothing_is_drawn_to_a_term_at_which_a_search_went_to_nothing():
    known = Linear((6000.0, 20.0, 5.0, 0.0, 4e-7)).reference().values
    assert known[:3].tolist() == [6000.0, 20.0, 5.0]
    assert np.isnan(known[3:]).all()


def test_terms_that_a_starting_point_lacks_may_be_none(tmp_path):
    """From shared ones alone a search ended at 0.002 and 0.0035 us a token."""
    truth = [*serving.BETA[:3], 0.0, 0.0]
    made = serving.building()
    made["scenario"]["latency"] = {"beta": truth}
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(made)))
    start = Linear((1.05 * truth[0], 0.95 * truth[1], *truth[2:]))
    found = calibrate_served(path, read_served(path, ()), start, 1.0, {})
    assert found.whole.point[:3] == pytest.approx(truth[:3], rel=0.01)
    assert (found.whole.point[3:] < 2e-4).all()


def test_a_preset_of_a_pipeline_names_its_stages(tmp_path):
    """Its step times are those of all stages together."""
    made = serving.trace({"beta": serving.BETA}, engine={"pipeline_parallel_size": 2})
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(made)))
    found = calibrate_served(path, read_served(path, ()), Linear(), 1.0, {})
    assert found.part.point == pytest.approx(serving.BETA, rel=1e-2)
    assert "under engine.pipeline_parallel_size = 2: ttft" in found.preset.fit


def test_a_coefficient_that_the_preset_lacks_is_told_so(building):
    """The remedy was to name a preset with --from, beside which it stood."""
    served = read_served(building, ())
    near = [*(1.1 * beta for beta in serving.BETA[:2]), 0.0, *serving.BETA[3:]]
    found = calibrate_served(building, served, Linear(near, "as known"), 0.25, {})
    told = [caution for caution in found.cautions if "held by nothing" in caution]
    assert told
    assert all(text.endswith("the preset of --from has no such term") for text in told)


def test_the_range_of_a_large_coefficient_is_written_out():
    told = Range("beta[0]", 4863.31, 12345.6).told()
    assert told.startswith("beta[0] is hardly told: 4,860 to 12,300, and maybe beyond, ")
    assert ": 1.24e-06 to 0.5, " in Range("beta[3]", 1.2357e-6, 0.5).told()


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ({"max_model_len": 400}, "the scenario's engine.max_model_len = 400: it has "),
        (
            {"enable_chunked_prefill": False, "max_num_batched_tokens": 300},
            "the scenario's engine.enable_chunked_prefill = false: its ",
        ),
    ],
)
def test_the_setting_that_a_request_is_too_long_for_is_named(run, tmp_path, engine, message):
    scenario = {"cache": {"gpu_blocks": 3000}, "engine": serving.ENGINE | engine}
    path = tmp_path / "served.json"
    path.write_text(json.dumps(json.loads(run.read_text()) | {"scenario": scenario}))
    with pytest.raises(InputError, match=message):
        calibrate_served(path, read_served(path, ()), Linear(), 0.5, {})


def test_hardware_is_known_by_the_name_that_its_driver_has():
    """Of data centers' cards only a preset's own words were known, "H100 SXM, one device"."""
    byte = 2 * 8 * 128 * 2  # keys and values of a layer
    alone = peak_reference("meta-llama/Llama-3.1-8B", "H100 SXM, one device")
    assert alone.values[3] == pytest.approx(32 * byte / 3.35e6)
    for name in ("NVIDIA H100 80GB HBM3", "H100", "1 x H100", "nvidia h100, one device"):
        found = peak_reference("meta-llama/Llama-3.1-8B-Instruct", name)
        assert (found.values[3], found.source) == (alone.values[3], alone.source)
    four = peak_reference("Llama-3.1-70B", "NVIDIA H100 80GB HBM3, tensor parallel 4")
    assert four.values[3] == pytest.approx(80 * byte / 4 / 3.35e6)
    assert peak_reference("Llama-3.1-70B", "4 x H100").values[3] == four.values[3]
    assert peak_reference("Llama-3.1-8B", "RTX 4090") is not None
    assert peak_reference("Llama-3.1-70B", "H100") is None  # one does not hold it
    assert peak_reference("Llama-3.1-8B", "2 x GeForce RTX 4090") is None
    assert peak_reference("Llama-3.1-8B", "NVIDIA H100 PCIe") is None  # another memory


def test_what_a_roofline_adds_is_fitted_with_and_kept(tmp_path):
    """A host of 6 ms a step went into the efficiencies, and the fitted preset had none."""
    added = Added(host_overhead_us=6000.0, allreduce_step_us=50.0, allreduce_token_us=0.5)
    start = load_preset(ROOFLINE, Path()).model_copy(update={"added": added})
    family = family_of(start)
    known = np.array([[start.device.compute_efficiency, start.device.bandwidth_efficiency]])
    terms, told = family.terms(known), start.coefficients()
    assert terms.beta[0].tolist() == pytest.approx(told["beta"])
    assert terms.memory[0].tolist() == pytest.approx(told["memory"])
    truth = np.array([0.55, 0.8])
    terms = family.terms(truth[None, :])
    latency = {"beta": terms.beta[0].tolist(), "memory": terms.memory[0].tolist()}
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(latency))))
    found = calibrate_served(path, read_served(path, ()), family, 1, {}, start)
    assert found.whole.point == pytest.approx(truth, rel=1e-3)
    assert found.preset.added == added
    write_preset(found.preset, tmp_path / "p.toml")
    written = load_preset("p.toml", tmp_path).coefficients()
    assert written["beta"] == pytest.approx(tuple(latency["beta"]), rel=1e-3)
