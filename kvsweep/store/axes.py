"""What the coordinates of a store are called and measured in."""

from __future__ import annotations

Label = tuple[str, str]
"""Meaning and unit; the unit of pure numbers and of names is 1."""

_LENGTHS = {
    "min": ("smallest length", "token"),
    "max": ("largest length", "token"),
    "mean": ("mean length", "token"),
    "std": ("standard deviation of the length", "token"),
    "value": ("length", "token"),
    "alpha": ("shape of the Pareto tail of the length", "1"),
    "xm": ("smallest length in the Pareto tail", "token"),
    "mu": ("mean of the logarithm of the length", "1"),
    "sigma": ("standard deviation of the logarithm of the length", "1"),
    "mix_weight": ("share of lengths in the Pareto tail", "1"),
}

AXES: dict[str, Label] = {
    "policy": ("policy", "1"),
    "seed": ("seed of the request list", "1"),
    "workload.requests": ("length of the request list", "request"),
    "workload.rate": ("arrival rate of the cluster", "request/s"),
    "workload.cv": ("coefficient of variation of the gaps between arrivals", "1"),
    "workload.concurrency": ("requests under way at once, at most", "request"),
    "workload.warmup": ("first requests left out of the measures", "request"),
    "workload.sessions.rounds": ("requests of a session", "request"),
    "workload.sessions.think_time_s": ("time between two rounds of a session", "s"),
    "workload.sessions.patience_s": ("time after which a client gives a request up", "s"),
    "workload.sessions.reason_ratio": ("share of each output that is thinking", "1"),
    "cluster.instances": ("engine instances", "1"),
    "cluster.router_index_blocks": ("blocks the router remembers of each instance", "block"),
    "cluster.token_bucket_capacity": ("prompt tokens that the bucket holds", "token"),
    "cluster.token_bucket_refill_rate": ("rate at which the bucket fills", "token/s"),
    "cluster.admission_latency_us": ("time that each admission takes", "us"),
    "cluster.routing_latency_us": ("time that each routing takes", "us"),
    "cluster.snapshot_refresh_us": ("age of the router's figures, at most", "us"),
    "engine.max_num_seqs": ("largest batch", "request"),
    "engine.max_num_batched_tokens": ("token budget of a step", "token"),
    "engine.long_prefill_token_threshold": ("tokens of one request in a step, at most", "token"),
    "engine.priority_age_ms": ("age that makes a request one level more urgent", "ms"),
    "engine.watermark": ("share of the blocks kept free at admissions", "1"),
    "engine.horizon_us": ("end of the simulation", "us"),
    "cache.block_size": ("tokens per block", "token"),
    "cache.gpu_blocks": ("usable KV blocks per instance", "block"),
    "cache.gpu_tokens": ("tokens that fit into the KV cache of an instance", "token"),
    "cache.cpu_blocks": ("blocks of the CPU tier per instance", "block"),
    "cache.offload_threshold": ("share of blocks in use above which cached ones move", "1"),
    "cache.transfer_bandwidth": ("tokens moved between GPU and CPU", "token/us"),
    "cache.link_gb_per_s": ("link between GPU and CPU, each direction", "GB/s"),
    "cache.kv_bytes_per_token": ("bytes of a token's keys and values on one GPU", "byte"),
    "cache.transfer_base_latency_us": ("fixed part of a transfer", "us"),
    "cache.thrashing_window_us": ("a block back from the CPU sooner is thrashing", "us"),
    **{
        f"workload.{part}.{key}": (f"{part}s: {meaning}", unit)
        for part in ("prompt", "output")
        for key, (meaning, unit) in _LENGTHS.items()
    },
}
"""Of the axes with numbers, by key."""

# Of the coordinates that variables have beyond the grid's own.
EXTRA = {
    "quantile": "quantile",
    "instance": "position of the engine instance",
    "round": "round of a session",
    "slo_class": "SLO class, the most urgent first",
    "request": "position in the request list",
}


def label_of(key: str) -> Label:
    """Return meaning and unit of an axis; one of names or switches is called by its key."""
    return AXES.get(key, (key, "1"))
