"""One simulation against one offline replay of NVIDIA's Dynamo, the fastest peer there is.

Needs `KVSWEEP_DYNAMO`, a Python whose environment has ``ai-dynamo-runtime``; `KVSWEEP_MOONCAKE` is
the conversation trace of Mooncake (JSON lines, plain or gzipped), without which only H8 is run.
"""

import gzip
import json
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from bench_cases import generated, h8_scenario, lanes
from measuring import least_time, time_lanes

from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.workload.traces import load_trace

PEER = os.environ.get("KVSWEEP_DYNAMO")
TRACE = os.environ.get("KVSWEEP_MOONCAKE")
WORKER = Path(__file__).resolve().parent / "dynamo_peer.py"

IN_A_SWEEP = 200
"""Simulations of H8 in one call of the kernel, as a task of a sweep has them."""

pytestmark = pytest.mark.skipif(
    PEER is None, reason="KVSWEEP_DYNAMO names no Python with ai-dynamo-runtime"
)


def replayed(traces, workers, blocks, repeats):
    """Return the peer's least processor times by trace (seconds), its hit rates and release."""
    asked = {"traces": [str(t) for t in traces], "workers": workers, "blocks": blocks}
    run = subprocess.run(
        [PEER, WORKER],
        input=json.dumps(asked | {"repeats": repeats}) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(run.stdout.splitlines()[-1])
    return np.min(found["seconds"], axis=0), found["prefix_hit_rate"], found["release"]


def as_mooncake(requests, path):
    """Write a request list without prefixes in common as Mooncake's JSON lines."""
    ids = iter(range(10**9))
    rows = []
    for arrival, prompt, output in zip(
        requests.arrival_us, requests.prompt_tokens, requests.output_tokens, strict=True
    ):
        row = {"timestamp": arrival / 1000, "input_length": int(prompt)}
        hashes = [next(ids) for _ in range(-(-int(prompt) // 512))]
        rows.append(json.dumps(row | {"output_length": int(output), "hash_ids": hashes}))
    path.write_text("\n".join(rows) + "\n")
    return path


def plain(trace, folder):
    """Return the path of a trace that is not compressed."""
    if Path(trace).suffix != ".gz":
        return Path(trace)
    path = folder / "trace.jsonl"
    path.write_bytes(gzip.decompress(Path(trace).read_bytes()))
    return path


def row(name, times, peer):
    """Return a row: ours per further simulation and from the file on, the peer's, ratios."""
    kernel, whole = times
    return (
        name,
        f"{1e6 * kernel:,.0f} us",
        f"{1e3 * whole:,.1f} ms",
        f"{1e3 * peer:,.1f} ms",
        f"{peer / kernel:.0f}",
        f"{peer / whole:.0f}",
    )


def test_against_the_fastest_peer(tables, smoke, tmp_path):
    seeds, repeats = (2, 1) if smoke else (8, 5)
    scenario = h8_scenario(2_100)
    lists = generated(scenario, range(seeds))
    files = [as_mooncake(one, tmp_path / f"{i}.jsonl") for i, one in enumerate(lists)]

    def simulate(paths, scenario):
        inputs = lanes(scenario, [load_trace(path).requests for path in paths])
        run_lanes(inputs, allocate_outputs(inputs))

    peer, _, release = replayed(files, 4, 2_100, repeats)
    # A call costs 0.4 ms whatever the number of lanes: half of the time of 8 of them.
    many = generated(scenario, range(seeds if smoke else IN_A_SWEEP))
    kernel, _ = time_lanes(lanes(scenario, many), repeats)
    whole = least_time(lambda: simulate(files, scenario), repeats) / seeds
    rows = [row("H8, 4 instances", (kernel, whole), peer.mean())]
    if TRACE and not smoke:
        big = h8_scenario(27_000, instances=8)
        path = plain(TRACE, tmp_path)
        requests = load_trace(path).requests
        peer, hits, _ = replayed([path], 8, 27_000, 2)
        kernel, outputs = time_lanes(lanes(big, [requests]), repeats)
        whole = least_time(lambda: simulate([path], big), 2)
        found = outputs.tallies["hit_tokens"].sum() / requests.prompt_tokens.sum()
        assert abs(found - hits[0]) < 0.01
        rows.append(row("Mooncake's conversations, 8 instances", (kernel, whole), peer[0]))
    assert all(float(one[4]) > 1 for one in rows)
    tables.add(
        f"One simulation against one offline replay of ai-dynamo-runtime {release}",
        ("requests", "kernel", "from the file on", "replay", "ratio", "ratio, from the file on"),
        rows,
        "Processor time of one thread. Both read the same file, route in turn, cache prefixes in "
        "blocks of 16 tokens (2,100 for H8, 27,000 for Mooncake's trace) and batch 256 requests in "
        "2,048 tokens; their shares of cached prompt tokens are alike within a point. The kernel's "
        "time is that of one more simulation in a sweep. What differs: the replay takes its step "
        "times from a polynomial and writes more statistics, the kernel decides as vLLM 0.33.0 in "
        f"every detail. H8: mean of {seeds} seeds, for the kernel of {len(many)}.",
    )
