"""Valid sweeps at the edges of what is allowed, small enough to run."""

import random

TIMES = (0, 1, 7, 10**3, 10**6, 10**10, 10**14)
COEFFICIENTS = (0.0, 1e-9, 0.3, 1.0, 17.6, 1e4, 1e7, 1e9)


def extreme(rng: random.Random):
    """Return the sections of a sweep without a grid; some are refused for what they would take."""
    workload = _workload(rng)
    if rng.random() < 0.1:
        return _of_the_replica(rng)
    found = {
        "workload": workload,
        "cluster": _cluster(rng),
        "engine": _engine(rng, bool(workload.get("clients"))),
        "cache": _cache(rng),
        "latency": _latency(rng),
    }
    # Refused together with either of the two.
    if "cpu_blocks" not in found["cache"] and not found["engine"].get("preempt_for_urgent"):
        found["engine"]["async_scheduling"] = rng.random() < 0.5
    return found


def _of_the_replica(rng):
    """What rules 'blis' have, and few steps: the replica takes a millisecond for a request."""
    lengths = {"dist": "constant", "value": rng.choice((1, 16, 99))}
    return {
        "workload": {"requests": rng.choice((2, 9)), "prompt": lengths, "output": lengths},
        "cluster": {"instances": 2, "routing": rng.choice(("round-robin", "weighted"))},
        "engine": {"rules": "blis", "max_num_seqs": rng.choice((1, 256))},
        "cache": {
            "gpu_blocks": rng.choice((20, 2000)),
            "cpu_blocks": rng.choice((1, 500)),
            "transfer_base_latency_us": rng.choice(TIMES),
            "transfer_bandwidth": rng.choice((1e-6, 0.01, 1e12)),
        },
        "latency": {"alpha": [rng.choice(COEFFICIENTS) for _ in range(3)], "beta": [1.0, 1e4, 1e7]},
    }


def _workload(rng):
    workload = {
        "requests": rng.choice((1, 2, 3, 17, 60)),
        "rate": rng.choice((1e-6, 1e-3, 1.0, 50.0, 2000.0, 1e9, 1e12)),
        "prompt": _lengths(rng),
        "output": _lengths(rng),
    }
    if rng.random() < 0.3:
        cv = rng.choice((1e-6, 0.1, 2.0, 20.0, 1000.0))
        workload |= {"arrivals": rng.choice(("gamma", "weibull")), "cv": cv}
    if rng.random() < 0.4:
        workload["sessions"] = _sessions(rng)
    if rng.random() < 0.3:
        workload["clients"] = [
            {"id": "a", "slo_class": "critical", "prefix_group": "p", "prefix_len": 40},
            {"id": "b", "rate_fraction": rng.choice((1e-9, 1e9)), "slo_class": "batch"},
        ]
    return workload


def _lengths(rng):
    return rng.choice(
        (
            {"dist": "constant", "value": rng.choice((1, 2, 16, 500, 5000))},
            {"dist": "gaussian", "mean": rng.choice((0, 1, 60)), "std": rng.choice((0, 1, 900))},
            {"dist": "exponential", "mean": rng.choice((1e-9, 30.0, 300.0))},
            {"dist": "empirical", "values": [1, 999], "weights": [1e9, 1e-9]},
            _tail(rng),
        )
    )


def _tail(rng):
    shape = {"alpha": rng.choice((0.01, 1.5, 1e6)), "xm": 5.0, "mu": 2.0}
    mixed = {"sigma": rng.choice((0.0, 20.0)), "mix_weight": rng.choice((0.0, 0.5, 1.0))}
    return {"dist": "pareto-lognormal", **shape, **mixed, "max": 3000}


def _sessions(rng):
    sessions = {"rounds": rng.choice((2, 3, 40)), "think_time_s": rng.choice((0, 1e-6, 5.0, 1e5))}
    if rng.random() < 0.5:
        sessions["arrivals"] = "closed-loop"
    if rng.random() < 0.3:
        sessions["patience_s"] = rng.choice((1e-9, 0.1, 1e8))
    return sessions


def _cluster(rng):
    cluster = {"instances": rng.choice((2, 3, 50))}
    cluster["routing"] = rng.choice(("round-robin", "least-loaded", "weighted", "always-busiest"))
    if rng.random() < 0.2:
        bucket = {"token_bucket_capacity": rng.choice((1e-9, 100.0, 1e15))}
        bucket["token_bucket_refill_rate"] = rng.choice((1e-9, 1e15))
        cluster |= {"admission": "token-bucket", **bucket}
    if rng.random() < 0.2:
        cluster |= {"admission_latency_us": rng.choice(TIMES)}
    if rng.random() < 0.1:
        cluster |= {"routing_latency_us": rng.choice(TIMES)}
    return cluster


def _engine(rng, classes):
    seqs = rng.choice((1, 2, 8, 256, 2**20))
    engine = {
        "max_num_seqs": seqs,
        "max_num_batched_tokens": rng.choice((seqs, 2048 + seqs, 2**30)),
    }
    engine["scheduler"] = rng.choice(("fcfs", "sjf", "priority"))
    if engine["scheduler"] == "priority" and classes:
        engine["priority"] = rng.choice(("slo-class", "age"))
        engine["preempt_for_urgent"] = rng.random() < 0.5
        if engine["priority"] == "age":
            engine["priority_age_ms"] = rng.choice((0.001, 1e9))
    engine["enable_chunked_prefill"] = rng.random() < 0.8
    engine["watermark"] = rng.choice((0.0, 0.99))
    return engine


def _cache(rng):
    cache = {
        "block_size": rng.choice((1, 2, 16, 64, 4096, 2**18)),
        "gpu_blocks": rng.choice((120, 1000, 2**20)),
        "eviction": rng.choice(("lru", "lfu")),
    }
    if rng.random() < 0.4:
        cache |= {
            "cpu_blocks": rng.choice((1, 50, 2**20)),
            "offload": rng.choice(("watermark", "write-through")),
            "transfer_base_latency_us": rng.choice(TIMES),
            "transfer_bandwidth": rng.choice((1e-6, 0.01, 100.0, 1e12)),
        }
    return cache


def _latency(rng):
    latency = {
        "alpha": [rng.choice(COEFFICIENTS) for _ in range(3)],
        "beta": [rng.choice(COEFFICIENTS) for _ in range(rng.choice((1, 3, 3, 5)))],
    }
    if rng.random() < 0.2:
        latency["memory"] = [rng.choice(COEFFICIENTS) for _ in range(4)]
    return latency
