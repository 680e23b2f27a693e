"""Warnings on the command line: a line each on stderr, a list in JSON."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sweeping import write_sweep

import kvsweep
from kvsweep.analysis.replayed import cell_of_replay
from kvsweep.analysis.warnings import find_warnings
from kvsweep.explorer.of_store import OfStore
from kvsweep.trace_replay import run_replay

SWEEP = """
title = "small"
[workload]
requests = 200
rate = 50.0
prompt = { dist = "constant", value = 64 }
output = { dist = "gaussian", mean = 10, std = 2, min = 2, max = 20 }
[engine]
max_num_seqs = 4
[latency]
beta = [2000, 10, 5]
[grid]
"cache.gpu_blocks" = [10, 20, 40]
seed = { count = 2 }
[cliff]
metric = "preemption_rate"
along = "gpu_blocks"
threshold = 0.05
"""
BUSY = SWEEP.replace("rate = 50.0", "rate = 2000.0")
BURST = SWEEP.replace("rate = 50.0", "rate = 1e6")


@pytest.fixture
def store(run, tmp_path, monkeypatch):
    """Return a function that runs a sweep and returns its store."""
    monkeypatch.chdir(tmp_path)

    def make(text):
        write_sweep(tmp_path, text)
        assert run("grid", "small.toml", "--out", "s.zarr", "--overwrite")[0] == 0
        return "s.zarr"

    return make


def told(err):
    return [line for line in err.splitlines() if line.startswith("warning: ")]


def test_ordinary_sweeps_print_none(run, store):
    path = store(SWEEP)
    for command in (["grid", "small.toml", "--out", path], ["show", path], ["cliff", path]):
        code, _, err = run(*command)
        assert (code, told(err)) == (0, [])
    assert json.loads(run("show", path, "--json")[1])["warnings"] == []


def test_grid_and_show_print_a_line_each_and_give_them_as_json(run, store):
    path = store(BUSY)
    grid = ["grid", "small.toml", "--out", path]
    lines = told(run(*grid)[2])
    assert len(lines) == 1
    assert lines[0].startswith("warning: queues grow to the end in all 6 cells, most at gpu_blocks")
    assert told(run("show", path)[2]) == lines
    for command in (grid, ["show", path]):
        code, out, err = run(*command, "--json")
        (warning,) = json.loads(out)["warnings"]
        assert (code, told(err)) == (0, lines)
        assert lines == [f"warning: {warning['text']}"]
        assert (warning["kind"], warning["cells"], warning["of"]) == ("queue-growth", 6, 6)
        assert set(warning["worst"]) == {"gpu_blocks"}
    assert json.loads(kvsweep.open_results(path).attrs["warnings"]) == [warning]


def test_a_cliff_of_a_burst_is_told_by_every_way_to_ask_for_it(run, store):
    path = store(BURST)
    lines = told(run("show", path)[2])
    assert "the cliff is that of a burst" in lines[0]
    ways = (["cliff", path], ["cliff", path, "--metric", "ttft_p99_ms", "--threshold", "9"])
    for way in ways:
        assert told(run(*way)[2]) == lines
        assert json.loads(run(*way, "--json")[1])["warnings"][0]["kind"] == "burst"


def test_analyses_tell_of_the_part_that_they_look_at(run, store):
    rates = SWEEP.replace("[grid]\n", '[grid]\n"workload.rate" = [50, 2000]\n')
    path = store(rates)
    slow, fast = (told(run("cliff", path, "--at", f"rate={rate}")[2]) for rate in (50, 2000))
    assert slow == []
    assert fast[0].startswith("warning: queues grow to the end in all 6 cells")
    code, out, err = run("effects", path, "--metric", "ttft_mean_ms", "--json")
    assert (code, len(told(err))) == (0, 1)
    assert len(json.loads(out)["warnings"]) == 1


def trace(gap_us, requests=300, blocks=100):
    rows = [
        {"id": i, "arrival_us": i * gap_us, "prompt": [[i, 64]], "output": [1000 + i, 10]}
        for i in range(requests)
    ]
    return {
        "format": "kvsweep-trace/1",
        "scenario": {
            "latency": {"alpha": [0, 0, 0], "beta": [2000, 10, 5]},
            "cache": {"gpu_blocks": blocks},
            "engine": {"max_num_seqs": 4},
        },
        "requests": rows,
    }


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (trace(gap_us=20_000), None),
        (trace(gap_us=1_000), "queues grow to the end (by"),
        (trace(gap_us=1), None),  # a recorded burst is replayed as what it is
        (trace(gap_us=20_000, blocks=4), "requests that can never fit are dropped (300 of 300)"),
    ],
)
def test_replays_have_warnings_too(run, tmp_path, made, expected):
    file = tmp_path / "t.json"
    file.write_text(json.dumps(made))
    code, out, err = run("replay", str(file), "--json")
    texts = [warning["text"] for warning in json.loads(out)["warnings"]]
    assert code == 0
    assert told(err) == [f"warning: {text}" for text in texts]
    assert [text.startswith(expected or "") for text in texts] == ([True] if expected else [])


def test_a_replay_that_did_not_end_well_has_no_numbers_to_warn_of():
    found = run_replay(trace(gap_us=1_000))
    assert find_warnings(cell_of_replay(found))
    assert find_warnings(cell_of_replay(replace(found, status="step_limit"))) == []


def test_numbers_of_warnings_are_plain(run, store):
    """Labels of NumPy would not be JSON."""
    store(BUSY)
    for warning in kvsweep.warnings_of(kvsweep.open_results("s.zarr")):
        assert not any(isinstance(value, np.generic) for value in warning.worst.values())


def test_reports_and_the_explorer_warn_of_the_part_that_they_show(run, store):
    path = store(SWEEP.replace("[grid]\n", '[grid]\n"workload.rate" = [50, 2000]\n'))

    def reported(*options):
        assert run("report", path, *options, "--overwrite")[0] == 0
        return Path("s-report.html").read_text()

    explored = OfStore(kvsweep.open_results(path), "s.zarr")
    growing = "queues grow to the end in"
    assert f"{growing} 6 of 12 cells" in reported()
    for rate, seen in ((50, 0), (2000, 1)):
        assert reported("--at", f"rate={rate}").count(f"{growing} all 6 cells") == seen
        lines = explored.part({"rate": rate}, "gpu_blocks").warnings((), 2)
        assert [line for line in lines if f"{growing} all 6 cells" in line] == lines
        assert len(lines) == seen
    assert "Warnings" not in reported("--at", "rate=50")


@pytest.mark.parametrize("waits", [True, False])
def test_requests_that_wait_for_dropped_ones_are_told(run, tmp_path, waits):
    """Of a lane whose first request never fits the others never arrive: 1 of 1 was dropped."""
    made = trace(gap_us=20_000, requests=6)
    made["requests"][1]["prompt"] = [[1, 6_400]]
    for before, row in enumerate(made["requests"][1:] if waits else ()):
        row["after"] = before
    file = tmp_path / "t.json"
    file.write_text(json.dumps(made))
    code, _, err = run("replay", str(file))
    (warning,) = told(err)
    assert code == 0
    never = ", and 4 of 6 never arrive, as they wait for answers that never come; the longest"
    assert (never in warning) == waits
    assert f"dropped (1 of {2 if waits else 6}): what is measured are the others" in warning
