"""The kernel beside vLLM on an H200: decisions are equal, times are what the page says."""

import json
from pathlib import Path

import h200
import numpy as np
import pytest
from click.testing import CliRunner

from kvsweep.cli import commands
from kvsweep.config.preset import load_preset

PAGE = (Path(__file__).parents[1] / "docs" / "validation-h200.md").read_text()


def test_every_decision_of_a_real_server_is_the_kernels():
    steps = preemptions = 0
    for run in h200.runs("burst"):
        for theirs, mine in h200.SAME.items():
            np.testing.assert_array_equal(run.steps[mine], run.measured["steps"][theirs])
        measured = run.measured["requests"]["preemptions"]
        np.testing.assert_array_equal(run.requests["preemptions"], measured)
        steps += len(run.measured["steps"]["decode"])
        preemptions += sum(measured)
    assert f"**all {steps:,} steps**" in " ".join(PAGE.split())
    assert f"each of the {preemptions:,} preemptions" in PAGE


def test_times_of_layers_predict_those_of_a_server():
    for run in h200.runs("burst"):
        measured, simulated = run.seconds
        assert simulated == pytest.approx(measured, rel=0.03)
        for until in ("first_token_us", "finish_us"):
            measured, simulated = (part.mean() for part in run.times(until))
            assert simulated == pytest.approx(measured, rel=0.065)


def test_the_cliff_of_a_server_is_where_it_is_simulated():
    preempted = {run.blocks: run.preemptions for run in h200.runs("open")}
    assert all(min(both) > 140 for blocks, both in preempted.items() if blocks <= 2200)
    assert all(max(both) < 20 for blocks, both in preempted.items() if blocks >= 2600)


def test_the_log_of_a_run_with_room_tells_where_the_cliff_is():
    found = {run.blocks: run for run in h200.runs("open", h200.FITTED)}
    assert found[3200].preemptions == (0, 0)
    for run in found.values():
        measured, simulated = run.seconds
        assert simulated == pytest.approx(measured, rel=0.02)
        measured, simulated = (part.mean() for part in run.times("finish_us"))
        assert simulated == pytest.approx(measured, rel=0.03 if run.blocks != 2200 else 0.1)


def test_calibrating_with_that_log_fits_it(tmp_path):
    path = tmp_path / "log.json"
    h200.main(["log", "open", "3200", str(path)])
    found = CliRunner().invoke(commands, ["calibrate", str(path), "--split", "1", "--json"])
    told = json.loads(found.stdout)
    assert [problem for problem in told["problems"] if "ttft mean" not in problem] == []
    assert told["preset"]["beta"][0] == pytest.approx(
        load_preset(str(h200.FITTED), Path()).beta[0], rel=0.05
    )


TABLES = {
    "burst": lambda: h200.rows("burst"),
    "open": lambda: h200.rows("open"),
    "single steps": h200.ladder_rows,
    "from a log": lambda: h200.rows("open", h200.FITTED),
}


@pytest.mark.parametrize("table", TABLES)
def test_the_page_says_what_comes_out(table):
    assert "\n".join(TABLES[table]()) in PAGE
