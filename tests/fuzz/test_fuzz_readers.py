"""Readers of files under mutated inputs: a checked result, or one line that names the file.

KVSWEEP_FUZZ is the number of inputs of each reader, 60 without it; with -rP pytest prints how many
were accepted.
"""

import os

import numpy as np
import pytest
from workload import exports

from fuzz.mutations import mutate
from fuzz.samples import (
    azure_rows,
    check_requests,
    made,
    mooncake_lines,
    own_trace,
    packed,
    parquet_rows,
    prefix_trials,
    preset,
    seeded,
    served_run,
    sweep,
    weka_lines,
)
from fuzz.servers import KINDS, made_server, server
from kvsweep.calibrate.prefix_trials import read_prefix
from kvsweep.calibrate.served import read_served
from kvsweep.config import parse_scenario
from kvsweep.config.source import read_source
from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.trace_replay import run_replay
from kvsweep.workload.traces import load_trace

pytestmark = pytest.mark.slow

COUNT = int(os.environ.get("KVSWEEP_FUZZ", "60"))
REPLAYED = max(2, COUNT // 30)
LONGEST = 1000  # characters of a message besides the file's name, twice


def trace(path):
    found = load_trace(path)
    check_requests(found.requests)
    return found


def served(path):
    found = read_served(path, ())
    check_requests(found.requests)
    assert (found.first > found.arrival).all()
    assert (found.last >= found.first).all()
    assert np.isfinite(found.last).all()
    for values in found.series.values():
        assert len(values) == len(found.series["t"])
        assert np.isfinite(values).all()
    return found


def sessions(path):
    found = load_trace(path, Reading(lanes=2, subagents="in-turn"))
    check_requests(found.requests)
    return found


def timed(path):
    found = read_served(path, ("cache.gpu_blocks=900", "engine.max_num_seqs=64"))
    check_requests(found.requests)
    assert (found.first > found.arrival).all()
    assert (found.last >= found.first).all()
    assert np.isfinite(found.last).all()
    return found


def prefix(path):
    found = read_prefix(path)
    assert found.trials
    for trial in found.trials:
        assert 0 < trial.ttft_ms < np.inf
        assert trial.token_ms > 0 or np.isnan(trial.token_ms)
        assert trial.prompt >= 1
        assert trial.computed >= 1
    return found


def latencies(path):
    found = parse_scenario({"latency": {"model": path.name}}, str(path.parent / "t.json")).latency
    assert np.isfinite([*found.alpha, *found.beta, *found.memory]).all()
    return found


def settings(path):
    found = read_source(path)
    assert all(1 <= line <= found.text.count("\n") + 1 for line in found.lines.values())
    assert all((key,) in found.lines for key in found.values)
    return found


READERS = {
    "own trace": (own_trace, trace, "f.json"),
    "own trace, packed": (packed(own_trace), trace, "f.json.gz"),
    "Mooncake's": (mooncake_lines, trace, "f.jsonl"),
    "Mooncake's, packed": (packed(mooncake_lines), trace, "f.jsonl.gz"),
    "Azure's": (azure_rows, trace, "f.csv"),
    "Azure's, packed": (packed(azure_rows), trace, "f.csv.gz"),
    "Qwen-Bailian's": (made(exports.qwen), trace, "f.jsonl"),
    "BurstGPT's": (made(exports.burstgpt), trace, "f.csv"),
    "BurstGPT's, packed": (packed(made(exports.burstgpt)), trace, "f.csv.gz"),
    "Weka's": (weka_lines, sessions, "f.jsonl"),
    "vllm bench": (made(exports.bench), trace, "f.json"),
    "vllm bench, timed": (made(exports.bench), timed, "f.json"),
    "aiperf": (made(exports.aiperf), trace, "f.jsonl"),
    "aiperf, timed": (made(exports.aiperf), timed, "f.jsonl"),
    "inference-perf": (made(exports.inference_perf), trace, "f.json"),
    "inference-perf, timed": (made(exports.inference_perf), timed, "f.json"),
    "table": (made(exports.table), trace, "f.csv"),
    "table, timed": (made(exports.table), timed, "f.csv"),
    "JSON lines": (made(exports.json_lines), trace, "f.jsonl"),
    "JSON lines, timed": (made(exports.json_lines), timed, "f.jsonl"),
    "Parquet": (parquet_rows, trace, "f.parquet"),
    "served": (served_run, served, "f.json"),
    "prefix": (prefix_trials, prefix, "f_a40_b20.csv"),
    "preset": (preset, latencies, "f.toml"),
    "sweep": (sweep, settings, "f.toml"),
    **{kind: (made_server(kind), server, file) for kind, (_, file) in KINDS.items()},
}


def read(path, reader):
    """Return what `reader` makes of a file, or None if it refuses it as it should."""
    try:
        return reader(path)
    except InputError as error:
        told = str(error)
        assert str(path) in told
        assert told.isprintable()
        assert len(told) < 2 * len(str(path)) + LONGEST
        return None


@pytest.mark.parametrize("name", READERS)
def test_valid_files_are_read(tmp_path, name):
    make, reader, file = READERS[name]
    for number in range(10):
        (tmp_path / file).write_bytes(make(seeded(name, number)))
        reader(tmp_path / file)


@pytest.mark.parametrize("name", READERS)
def test_mutated_files_are_read_right_or_refused_in_one_line(tmp_path, name):
    make, reader, file = READERS[name]
    path = tmp_path / file
    accepted = 0
    for number in range(COUNT):
        rng = seeded(name, number)
        content = mutate(rng, make(rng))
        path.write_bytes(content)
        try:
            accepted += read(path, reader) is not None
        except BaseException as error:
            error.add_note(f"{name} {number}: {content[:2000]!r}")
            raise
    assert COUNT < 60 or 0 < accepted < COUNT
    print(f"{name}: {COUNT} inputs, {accepted} accepted")


@pytest.mark.parametrize("name", [name for name in READERS if READERS[name][1] is trace])
def test_mutated_traces_that_are_accepted_run(tmp_path, name):
    make, reader, file = READERS[name]
    path = tmp_path / file
    ran = number = 0
    while ran < REPLAYED:
        number += 1
        rng = seeded(f"{name}, replayed", number)
        path.write_bytes(mutate(rng, make(rng)))
        found = read(path, reader)
        if found is None or found.requests.prompt_tokens.max() > 10**5:
            continue
        if found.requests.output_tokens.max() > 10**4:
            continue
        try:
            replay = run_replay(path, ("latency.beta=[1000, 5, 20]", "cache.gpu_blocks=400"))
        except InputError:
            continue  # of the scenario, which is no matter of the readers
        assert replay.status == "ok", replay.status_detail
        finished = replay.requests["finish_us"]
        assert (finished >= replay.requests["arrival_us"])[finished >= 0].all()
        ran += 1
