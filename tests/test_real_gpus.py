"""The kernel beside vLLM on GPUs: decisions are equal, times are what the pages say."""

import json
from pathlib import Path

import goldens
import numpy as np
import pytest
import real_gpus
from click.testing import CliRunner
from real_gpus import FITTED, HYBRID, TABLES, WITHOUT

from kvsweep.calibrate.step_results import Terms, result_of
from kvsweep.cli import commands
from kvsweep.config.preset import load_preset
from kvsweep.gpu.exchange import Exchange

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {card: (DOCS / f"validation-{card}.md").read_text() for card in TABLES}
MEASURING = " ".join((DOCS / "measuring-gpu.md").read_text().split())
AT_ONCE = {
    "h200": {"burst": None},
    "h100": {"burst": None, "hybrid-burst": HYBRID},
}


@pytest.mark.parametrize("card", AT_ONCE)
def test_every_decision_of_a_real_server_is_the_kernels(card):
    for name, preset in AT_ONCE[card].items():
        steps = preemptions = 0
        for run in real_gpus.runs(card, name, preset):
            for theirs, mine in real_gpus.SAME.items():
                np.testing.assert_array_equal(run.steps[mine], run.measured["steps"][theirs])
            measured = run.measured["requests"]["preemptions"]
            np.testing.assert_array_equal(run.requests["preemptions"], measured)
            steps += len(run.measured["steps"]["decode"])
            preemptions += sum(measured)
        assert f"**all {steps:,} steps**" in " ".join(PAGES[card].split())
        assert f"each of the {preemptions:,} preemptions" in " ".join(PAGES[card].split())


@pytest.mark.parametrize(("card", "most"), [("h200", 0.03), ("h100", 0.05)])
def test_times_of_layers_predict_those_of_a_server(card, most):
    for run in real_gpus.runs(card, "burst"):
        measured, simulated = run.seconds
        assert simulated == pytest.approx(measured, rel=most)
        for until in ("first_token_us", "finish_us"):
            measured, simulated = (part.mean() for part in run.times(until))
            assert simulated == pytest.approx(measured, rel=0.065)


def test_the_cliff_of_a_server_is_where_it_is_simulated():
    preempted = {run.blocks: run.preemptions for run in real_gpus.runs("h200", "open")}
    assert all(min(both) > 140 for blocks, both in preempted.items() if blocks <= 2200)
    assert all(max(both) < 20 for blocks, both in preempted.items() if blocks >= 2600)


def test_the_log_of_a_run_with_room_tells_where_the_cliff_is():
    found = {run.blocks: run for run in real_gpus.runs("h200", "open", FITTED)}
    assert found[3200].preemptions == (0, 0)
    for run in found.values():
        measured, simulated = run.seconds
        assert simulated == pytest.approx(measured, rel=0.02)
        measured, simulated = (part.mean() for part in run.times("finish_us"))
        assert simulated == pytest.approx(measured, rel=0.03 if run.blocks != 2200 else 0.1)


def test_calibrating_with_that_log_fits_it(tmp_path):
    path = tmp_path / "log.json"
    real_gpus.main("h200", "log", "open", "3200", str(path))
    found = CliRunner().invoke(commands, ["calibrate", str(path), "--split", "1", "--json"])
    told = json.loads(found.stdout)
    assert [problem for problem in told["problems"] if "ttft mean" not in problem] == []
    assert told["preset"]["beta"][0] == pytest.approx(
        load_preset(str(FITTED), Path()).beta[0], rel=0.05
    )


def told_apart(preset):
    """Return the coefficients of a preset, of contexts of decodes in computing the sum of both.

    In all but one of the batches that compute for longer than they move data these contexts are
    within the window, so that nothing but the sum is told: SciPy 1.18 finds an eighth of
    ``beta[3]`` in ``window[1]``, and misses the batches held out by as much as 1.17.
    """
    beta, memory, window = (
        list(getattr(preset, key) or ()) for key in ("beta", "memory", "window")
    )
    if window:
        beta[3] += window.pop(1)
    return beta, memory, window


def test_a_hybrid_is_predicted_better_with_a_term_for_its_window():
    ds, window = real_gpus.layers_of_the_hybrid()
    for path, timed in ((WITHOUT, ds), (HYBRID, ds.assign_attrs(window))):
        found = result_of(timed, Terms(0.0, Exchange(0.0, 0.0, "")), draws=2)
        known = load_preset(str(path), Path())
        assert found.chosen == "two-sums"
        errors = np.abs(found.fits["two-sums"].errors)
        assert f"{100 * np.median(errors):.1f} % (median; 9 of 10 to" in known.fit
        for those, these in zip(told_apart(known), told_apart(found.preset), strict=True):
            assert these == pytest.approx(those, rel=0.01)
        assert f"{100 * errors.max():.0f} %" in MEASURING


@pytest.mark.parametrize(("card", "table"), [(card, t) for card in TABLES for t in TABLES[card]])
def test_the_pages_say_what_comes_out(card, table):
    assert "\n".join(TABLES[card][table]()) in PAGES[card]


@pytest.mark.parametrize(
    ("title", "card", "name", "model"),
    [
        ("Llama-3.1-8B", "h100", "burst", "llama-3.1-8b"),
        ("Llama-3.1-8B", "h200", "burst", "llama-3.1-8b"),
        ("Gemma-3-12B", "h100", "hybrid-burst", str(HYBRID.with_name("gemma-3-12b-config.json"))),
    ],
)
def test_blocks_are_estimated_to_two_percent(title, card, name, model):
    measured = goldens.load(name, card)["about"]["blocks"]
    options = "--utilization 0.9 --max-model-len 8192 --max-num-seqs 256"
    arguments = ["blocks", "--model", model, "--gpu", card, *options.split()]
    arguments += ["--max-num-batched-tokens", "8192", "--json"]
    told = json.loads(CliRunner().invoke(commands, arguments).stdout)
    found = told["usable_blocks"]
    assert found == pytest.approx(measured, rel=0.02)
    error = f"{100 * (found / measured - 1):+.1f} %"
    row = f"| {title} | {card.upper()} | {measured:,} | {found:,} | {error} |"
    assert row in PAGES["h100"]
