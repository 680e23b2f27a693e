"""Small valid files of every format that is read, and what must hold of what comes out."""

import gzip
import io
import json
import random

import numpy as np
import pytest
from workload import exports

from kvsweep import limits

_CSV_TRIAL = "{},{},{},{},{}"


def own_trace(rng):
    """Return a kvsweep-trace/1 of some conversations, clients and classes."""
    rows = []
    for i in range(rng.randint(1, 8)):
        row = {"id": i, "arrival_us": 700 * i, "prompt": [[i // 2, 90], [100 + i, 30]]}
        row["output"] = [200 + i, rng.randint(1, 40)]
        optional = {"slo_class": "batch", "priority": -3, "session": i // 2, "round": i % 2}
        optional |= {"client": "c", "patience_us": 10**6}
        row |= {key: optional[key] for key in optional if rng.random() < 0.4}
        if i % 2 and rng.random() < 0.5:
            row |= {"after": i - 1, "think_us": 50}
        rows.append(row)
    document = {"format": "kvsweep-trace/1", "about": {"source": "made up"}}
    document["scenario"] = {"cache": {"gpu_blocks": 60}, "latency": {"beta": [1000, 5.5, 20]}}
    return json.dumps(document | {"requests": rows}, indent=rng.choice((None, 1))).encode()


def mooncake_lines(rng):
    """Return lines of Mooncake's."""
    lines = []
    for i in range(rng.randint(1, 8)):
        tokens = rng.randint(1, 1600)
        line = {"timestamp": rng.choice((30 * i, 30.5 * i)), "input_length": tokens}
        line |= {"output_length": rng.randint(1, 40), "hash_ids": list(range(-(-tokens // 512)))}
        lines.append(json.dumps(line))
    return "\n".join(lines).encode()


def azure_rows(rng):
    """Return Azure's CSV."""
    zone = rng.choice(("", "+00:00"))
    rows = [
        f"2023-11-16 18:17:{i:02}.{rng.randrange(10**7):07}{zone},{rng.randint(1, 900)},"
        f"{rng.randint(1, 40)}"
        for i in range(rng.randint(1, 8))
    ]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]).encode()


def made(write):
    """Return a maker of the file of another tool, of up to eight rows."""
    return lambda rng: write(exports.rows_of(rng, rng.randint(1, 8))).encode()


def weka_lines(rng):
    """Return sessions of coding agents."""
    return exports.sessions(rng).encode()


def parquet_rows(rng):
    """Return a Parquet file."""
    pa, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    rows = exports.rows_of(rng, rng.randint(1, 8))
    names = {"arrival_s": "arrival", "prompt_tokens": "prompt", "output_tokens": "output"}
    columns = {name: [row[key] for row in rows] for name, key in names.items()}
    file = io.BytesIO()
    parquet.write_table(pa.table(columns), file)
    return file.getvalue()


def served_run(rng):
    """Return a trace with measured times and a log."""
    document = json.loads(own_trace(rng))
    first, last = [], []
    for row in document["requests"]:
        arrival = row["arrival_us"]
        if "after" in row:  # it arrives when that has been answered
            arrival = max(arrival, last[row["after"]] + row.get("think_us", 0))
        first.append(arrival + 5000)
        last.append(first[-1] + 7000.5)
    times = {"first_token_ts": first, "last_token_ts": last}
    log = {
        "t": [0.5, 1, 2],
        "running": [1, 2, 0],
        "waiting": [0, 0, 0],
        "kv_cache_pct": [5.5, 9, 0],
    }
    document["scenario"].setdefault("engine", {})["max_num_seqs"] = 64
    document["scenario"].setdefault("cache", {})["gpu_blocks"] = 900
    document["expected"] = {"measured_us": times, "timeseries": log}
    return json.dumps(document).encode()


def prefix_trials(rng):
    """Return the CSV of one size of `kvsweep measure prefix`."""
    rows = ["condition,ttft_ms,prompt_tokens,throughput_tok_s,completion_tokens"]
    for _ in range(rng.randint(1, 6)):
        rows.append(_CSV_TRIAL.format(rng.choice(("hit", "miss")), 28.5, 90, 41.5, 50))
    return "\n".join(rows).encode()


def preset(rng):
    """Return a preset, linear or a roofline."""
    text = 'model = "m"\nhardware = "h"\nsource = "s"\nfit = "f"\n'
    if rng.random() < 0.5:
        return (text + 'kind = "linear"\nalpha = [5.5]\nbeta = [9, 1, 2, 0.5, 0.25]\n').encode()
    text += 'kind = "roofline"\n[shape]\nlayers = 2\nhidden = 8\nheads = 4\nkv_heads = 2\n'
    text += "ffn = 16\nvocab = 100\n[device]\nflops = 1e9\nbandwidth = 1e6\noverhead_us = 7\n"
    return (text + "compute_efficiency = 0.5\ntp = 2\n").encode()


def sweep(rng):
    """Return a sweep, with some of everything that TOML has."""
    lines = ['title = "T"', "[workload]", "requests = 20", "rate = 2_000.5 # 1/s"]
    lines += ['prompt = { dist = "constant", value = 64 }', "[[workload.clients]]", 'id = "a"']
    lines += ["[grid]", '"cache.gpu_blocks" = { start = 100, stop = 200, step = 50 }', "seed = [0,"]
    lines += ["  1]", "[policies.x]", "cluster.routing = '''", "weighted'''", "at = 2020-01-01"]
    return "\n".join(lines[: rng.randint(2, len(lines))]).encode()


def packed(make):
    """Return a maker of the gzipped file."""
    return lambda rng: gzip.compress(make(rng), 1, mtime=0)


def check_requests(requests):
    """Assert all that the class promises, within the limits."""
    n = len(requests)
    ends = requests.segment_offsets
    assert 1 <= n <= limits.MAX_REQUESTS
    assert (np.diff(requests.arrival_us) >= 0).all()
    for name, low, high in (
        ("arrival_us", 0, limits.MAX_TIME_US),
        ("output_tokens", 1, limits.MAX_TOKENS),
        ("segment_tokens", 1, limits.MAX_TOKENS),
        ("prompt_tokens", 1, limits.MAX_REQUEST_TOKENS),
        ("segment_ids", 0, 2**53),
        ("output_segment", 0, 2**54),
        ("priority", -(2**53), 2**53),
        ("session", -1, 2**53),
        ("round", -1, limits.MAX_ROUNDS - 1),
        ("think_us", 0, limits.MAX_TIME_US),
        ("patience_us", -1, limits.MAX_TIME_US),
        ("slo_class", -1, len(requests.slo_names) - 1),
        ("client", -1, len(requests.client_names) - 1),
    ):
        values = getattr(requests, name)
        assert len(values) == (ends[-1] if name.startswith("segment_") else n), name
        assert low <= values.min() <= values.max() <= high, name
    assert ends[0] == 0
    assert (np.diff(ends) >= 1).all()
    assert (np.add.reduceat(requests.segment_tokens, ends[:-1]) == requests.prompt_tokens).all()
    total = requests.prompt_tokens + requests.output_tokens
    assert total.max() <= limits.MAX_REQUEST_TOKENS
    follows = requests.after[requests.after >= 0]
    assert len(set(follows.tolist())) == len(follows)
    assert (requests.after < np.arange(n)).all()
    latest = int(requests.arrival_us[-1]) + sum(requests.think_us.tolist())
    assert latest <= limits.MAX_TOTAL_US


def seeded(name, number):
    """Return the generator of one input: the same for ever."""
    return random.Random(f"{name} {number}")
