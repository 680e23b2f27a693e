"""The kernel beside vLLM on an H200: decisions are equal, times are what the page says."""

from pathlib import Path

import h200
import numpy as np
import pytest

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


@pytest.mark.parametrize("rows", ["burst", "open", "ladder"])
def test_the_page_says_what_comes_out(rows):
    made = h200.ladder_rows() if rows == "ladder" else h200.rows(rows)
    assert "\n".join(made) in PAGE
