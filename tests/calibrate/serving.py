"""A made-up server: requests simulated under known step times, as a trace with measured times."""

import random

import numpy as np

from kvsweep.trace_replay import run_replay
from kvsweep.workload.traces import FORMAT

BETA = [15000.0, 80.0, 40.0, 0.15, 0.01]


ENGINE = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}


def trace(latency=None, count=80, gpu_blocks=3000, instances=1):
    """Return a trace of bursts of one to some twenty requests of all lengths, 8 s apart."""
    rng = random.Random(5)
    rows, burst, left = [], 0, 3
    for i in range(count):
        if left == 0:
            burst, left = burst + 1, rng.choice((1, 3, 8, 22))
        left -= 1
        prompt, output = int(20 * 150 ** rng.random()), rng.randint(5, 250)
        row = {"id": i, "arrival_us": 8_000_000 * burst}
        rows.append(row | {"prompt": [[i, prompt]], "output": [10_000 + i, output]})
    return _document(rows, latency or {"beta": BETA}, gpu_blocks, instances)


def building(count=160):
    """Return a trace whose requests come faster and faster, so that the load grows to the end."""
    rng = random.Random(3)
    rows = []
    for i in range(count):
        prompt, output = rng.randint(200, 1500), rng.randint(100, 400)
        row = {"id": i, "arrival_us": int(60e6 * (i / count) ** 0.4)}
        rows.append(row | {"prompt": [[i, prompt]], "output": [10_000 + i, output]})
    return _document(rows, {"beta": BETA}, 20_000, 1)


def _document(rows, latency, gpu_blocks, instances):
    cache = {"gpu_blocks": gpu_blocks, "block_size": 16}
    scenario = {"cache": cache, "engine": ENGINE, "cluster": {"instances": instances}}
    return {"format": FORMAT, "scenario": scenario | {"latency": latency}, "requests": rows}


def measured(made, series=False):
    """Return the trace with what the simulation gives as measured times, and no latencies."""
    found = run_replay(made)
    scenario = {key: value for key, value in made["scenario"].items() if key != "latency"}
    times = {
        f"{name}_token_ts": found.requests[column].tolist()
        for name, column in (("first", "first_token_us"), ("last", "finish_us"))
    }
    expected = {"measured_us": times}
    if series:
        cache, cluster = (made["scenario"][key] for key in ("cache", "cluster"))
        expected["timeseries"] = _log(found, cache["gpu_blocks"], cluster["instances"])
    about = {"model": "Made-up", "hardware": "none", "source": "a simulation"}
    return made | {"scenario": scenario, "expected": expected, "about": about}


def _log(found, gpu_blocks, instances):
    """Log all instances every second, as a server does, straight from the steps."""
    times = np.arange(1.0, found.requests["finish_us"].max() / 1e6)
    log = {"t": times.tolist(), "running": [], "waiting": [], "kv_cache_pct": []}
    queued, finish = found.requests["queued_us"], found.requests["finish_us"]
    blocks = instances * gpu_blocks
    for time in 1e6 * times:
        ends = found.steps["start_us"] + found.steps["duration_us"]
        (now,) = np.nonzero((found.steps["start_us"] <= time) & (time < ends))
        running = sum(int(found.steps["running"][i]) for i in now)
        used = sum(gpu_blocks - int(found.steps["free_blocks"][i]) for i in now)
        log["running"].append(running)
        log["waiting"].append(int((queued <= time).sum() - (finish <= time).sum()) - running)
        log["kv_cache_pct"].append(100 * used / blocks)
    return log
