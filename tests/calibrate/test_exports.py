"""Results of other tools as measurements: what was simulated is found again from each."""

import json

import numpy as np
import pytest
import serving
from test_cli_calibrate import run
from workload import exports

from kvsweep.calibrate.served import read_served
from kvsweep.errors import InputError
from kvsweep.trace_replay import run_replay

SETTINGS = ("cache.gpu_blocks=3000", "engine.max_num_seqs=256", "engine.async_scheduling=false")
FORMATS = {
    "vllm-bench": exports.bench,
    "aiperf": exports.aiperf,
    "inference-perf": exports.inference_perf,
    "csv": exports.table,
}


@pytest.fixture(scope="module")
def simulated():
    """Simulate a run, and return its rows as tools would have seen them."""
    made = serving.trace(count=40)
    found = run_replay(made).requests
    rows = []
    for i, entry in enumerate(made["requests"]):
        start = entry["arrival_us"]
        first, last = (
            float(found[key][i] - start) / 1e6 for key in ("first_token_us", "finish_us")
        )
        row = {
            "arrival": start / 1e6,
            "prompt": entry["prompt"][0][1],
            "output": entry["output"][1],
        }
        rows.append(row | {"first": first, "last": last})
    return rows


@pytest.mark.parametrize("name", FORMATS)
def test_known_latencies_are_recovered_from_each_format(tmp_path, capsys, simulated, name):
    path = tmp_path / ("log.csv" if name == "csv" else "result.json")
    path.write_text(FORMATS[name](simulated))
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    assert run(path, "--json", "--split", "1", *options) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["good"]
    beta = document["preset"]["beta"]
    np.testing.assert_allclose(beta[:2], serving.BETA[:2], rtol=0.05)


@pytest.mark.parametrize("name", FORMATS)
def test_what_a_result_does_not_know_of_its_server_is_asked_for(tmp_path, simulated, name):
    path = tmp_path / "result"
    path.write_text(FORMATS[name](simulated))
    with pytest.raises(InputError, match=r"cache.gpu_blocks: missing, and times depend on it"):
        read_served(path, ())


def test_files_without_times_of_tokens_are_refused(tmp_path, simulated, capsys):
    path = tmp_path / "result"
    for text in (exports.burstgpt(simulated), exports.qwen(simulated)):
        path.write_text(text)
        with pytest.raises(InputError, match=r"nothing to calibrate to: .* no times of tokens"):
            read_served(path, SETTINGS)
    path.write_text(exports.bench(simulated))
    with pytest.raises(InputError, match=r"nothing to calibrate to: read.arrivals is 'at-once'"):
        read_served(path, SETTINGS, ("arrivals=at-once",))


def test_options_of_reading_reach_calibrate_and_are_refused_for_trials(tmp_path, capsys):
    path = tmp_path / "log.csv"
    path.write_text("ts,in,out,t1,t2\n1,2,3,4,5\n")
    assert run(path, "--read", "columns.arrival=ts") == 2
    assert "no column prompt_tokens: read.columns.prompt" in capsys.readouterr().err
    folder = tmp_path / "trials"
    folder.mkdir()
    (folder / "x_a1_b2.csv").write_text("condition,ttft_ms\nhit,1\n")
    assert run(folder, "--read", "format=csv") == 2
    assert "--read: only for a trace of a server" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["log.csv", "log_a10_b20.csv"])
def test_a_log_that_looks_like_trials_is_a_log(tmp_path, capsys, simulated, name):
    """Its name may end so, and it may have a column of conditions: it has arrivals."""
    path = tmp_path / name
    header, *rows = exports.table(simulated).splitlines()
    lines = [f"{header},condition", *(f"{row},warm" for row in rows)]
    path.write_text("\n".join(lines))
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    assert run(path, "--split", "1", *options) == 0


def test_how_a_log_is_read_says_that_it_is_one(tmp_path, capsys):
    path = tmp_path / "log_a10_b20.csv"
    path.write_text("ts,condition\n1,2\n")
    assert run(path) == 2
    assert "1: missing column ttft_ms" in capsys.readouterr().err
    assert run(path, "--read", "format=csv") == 2
    assert "no column arrival: read.columns.arrival" in capsys.readouterr().err


def test_a_fit_says_which_requests_of_its_log_it_does_without(tmp_path, capsys, simulated):
    """They loaded the server that was measured, and the fit took others' steps to be longer."""
    header, *rows = exports.table(simulated).splitlines()
    at = header.split(",").index("output_tokens")
    failed = rows[0].split(",")
    failed[at] = ""
    path = tmp_path / "log.csv"
    path.write_text("\n".join([header, *rows, ",".join(failed)]))
    options = [word for setting in SETTINGS for word in ("--set", setting)]
    run(path, "--read", "failed=leave-out", "--split", "1", *options)
    told = f"caution: without 1 of {len(rows) + 1} requests, which failed"
    assert told in capsys.readouterr().out
