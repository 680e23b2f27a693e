"""A scenario's settings as the reference's rules need them: read strictly, built into parts."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from kvsweep.config.rules import only_values
from kvsweep.errors import InputError, did_you_mean
from kvsweep.replica.admission import Admission, AlwaysAdmit, RejectAll, TokenBucket
from kvsweep.replica.batch import Batcher, Limits
from kvsweep.replica.block_store import BlockStore
from kvsweep.replica.cluster import Cluster
from kvsweep.replica.instance import Instance
from kvsweep.replica.keys import Keys
from kvsweep.replica.priority import PRIORITIES, SCHEDULERS
from kvsweep.replica.routing import (
    PREFIX_AFFINITY,
    SCORERS,
    AlwaysBusiest,
    LeastLoaded,
    PrefixAffinity,
    RoundRobin,
    Routing,
    Weighted,
)
from kvsweep.replica.step_time import Latency
from kvsweep.replica.switches import Switches, from_mapping
from kvsweep.replica.tiered import TieredStore

ROUTER_BLOCK_SIZE_A = 16
"""Tokens per block of the router's index at commit A, whatever the KV block size."""

DEFAULT_SCORERS = {"prefix-affinity": 3.0, "queue-depth": 2.0, "kv-utilization": 2.0}

_CLUSTER: dict[str, Any] = {
    "instances": 1,
    "routing": "round-robin",
    "scorers": DEFAULT_SCORERS,
    "admission": "always",
    "token_bucket_capacity": None,
    "token_bucket_refill_rate": None,
    "admission_latency_us": 0,
    "routing_latency_us": 0,
    "snapshot_refresh_us": 0,
}
_ENGINE: dict[str, Any] = {
    "rules": "blis",
    "blis": {},
    "horizon_us": None,
    "max_num_seqs": 256,
    "max_num_batched_tokens": 2048,
    "long_prefill_token_threshold": 0,
    "scheduler": "fcfs",
    "priority": "constant",
}
_CACHE: dict[str, Any] = {
    "block_size": 16,
    "gpu_blocks": 2200,
    "cpu_blocks": 0,
    "offload_threshold": 0.8,
    "transfer_bandwidth": 100.0,
    "transfer_base_latency_us": 10,
    "offload": "watermark",
}
_FIXED = only_values("blis")
"""Keys of vLLM's rules that the reference does not have: only these values are accepted.

The list is that of sweep files: it says what the reference lacks, nothing of how it works."""


@dataclass(frozen=True)
class Settings:
    """One scenario, every key present."""

    cluster: dict[str, Any]
    engine: dict[str, Any]
    cache: dict[str, Any]
    latency: Latency
    switches: Switches


def read(scenario: Mapping[str, Any]) -> Settings:
    """Return the settings of a trace's ``scenario``; absent keys have their defaults.

    Raises
    ------
    InputError
        If a key is unknown, a name is not one of the reference's, or the latency is missing.
    """
    known = ["cluster", "engine", "cache", "latency"]
    for name in scenario:
        if name not in known:
            raise InputError(f"scenario.{name}: unknown key{did_you_mean(name, known)}")
    engine = _section(scenario, "engine", _ENGINE)
    cluster = _section(scenario, "cluster", _CLUSTER)
    if engine["rules"] != "blis":
        raise InputError(f"engine.rules: the replica runs 'blis', not {engine['rules']!r}")
    _one_of("engine.scheduler", engine["scheduler"], SCHEDULERS)
    _one_of("engine.priority", engine["priority"], PRIORITIES)
    _one_of("cluster.routing", cluster["routing"], _ROUTINGS)
    _one_of("cluster.admission", cluster["admission"], _ADMISSIONS)
    cache = _section(scenario, "cache", _CACHE)
    _one_of("cache.offload", cache["offload"], ["watermark"])
    for scorer in cluster["scorers"]:
        _one_of("cluster.scorers", scorer, [PREFIX_AFFINITY, *SCORERS])
    return Settings(
        cluster=cluster,
        engine=engine,
        cache=cache,
        latency=_latency(scenario.get("latency") or {}),
        switches=from_mapping(engine["blis"] or {}),
    )


def build(settings: Settings, keys: Keys) -> Cluster:
    """Return the cluster that ``settings`` describe, with nothing in it yet."""
    cluster, engine = settings.cluster, settings.engine
    return Cluster(
        instances=[_instance(settings, keys) for _ in range(cluster["instances"])],
        admission=_ADMISSIONS[cluster["admission"]](cluster),
        routing=_ROUTINGS[cluster["routing"]](settings, keys),
        admission_latency=cluster["admission_latency_us"],
        routing_latency=cluster["routing_latency_us"],
        snapshot_refresh=cluster["snapshot_refresh_us"],
        horizon=engine["horizon_us"],
    )


def _instance(settings: Settings, keys: Keys) -> Instance:
    engine = settings.engine
    limits = Limits(
        max_num_seqs=engine["max_num_seqs"],
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        long_prefill_token_threshold=engine["long_prefill_token_threshold"],
    )
    return Instance(
        batcher=Batcher(_store(settings, keys), limits, settings.switches),
        latency=settings.latency,
        priority=PRIORITIES[engine["priority"]],
        scheduler=SCHEDULERS[engine["scheduler"]],
    )


def _store(settings: Settings, keys: Keys) -> BlockStore:
    cache = settings.cache
    if cache["cpu_blocks"] == 0:
        return BlockStore(cache["gpu_blocks"], cache["block_size"], settings.switches, keys)
    return TieredStore(
        cache["gpu_blocks"],
        cache["block_size"],
        settings.switches,
        keys,
        capacity=cache["cpu_blocks"],
        threshold=cache["offload_threshold"],
        bandwidth=cache["transfer_bandwidth"],
        base_latency_us=cache["transfer_base_latency_us"],
    )


def _prefix_affinity(settings: Settings, keys: Keys) -> Routing:
    by_block = settings.switches.router_uses_kv_blocks
    return PrefixAffinity(keys, settings.cache["block_size"] if by_block else None)


def _weighted(settings: Settings, keys: Keys) -> Routing:
    by_block = settings.switches.router_uses_kv_blocks
    block_size = settings.cache["block_size"] if by_block else ROUTER_BLOCK_SIZE_A
    cluster = settings.cluster
    return Weighted(cluster["scorers"], keys, block_size, cluster["instances"])


_ROUTINGS: dict[str, Callable[[Settings, Keys], Routing]] = {
    "round-robin": lambda settings, keys: RoundRobin(),
    "least-loaded": lambda settings, keys: LeastLoaded(),
    "weighted": _weighted,
    "prefix-affinity": _prefix_affinity,
    "always-busiest": lambda settings, keys: AlwaysBusiest(),
}


def _token_bucket(cluster: dict[str, Any]) -> Admission:
    capacity, refill = cluster["token_bucket_capacity"], cluster["token_bucket_refill_rate"]
    if capacity is None or refill is None:
        raise InputError(
            "cluster.admission: token-bucket needs token_bucket_capacity and "
            "token_bucket_refill_rate"
        )
    return TokenBucket(capacity, refill)


_ADMISSIONS: dict[str, Callable[[dict[str, Any]], Admission]] = {
    "always": lambda cluster: AlwaysAdmit(),
    "token-bucket": _token_bucket,
    "reject-all": lambda cluster: RejectAll(),
}


def _section(scenario: Mapping[str, Any], name: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """Return a section with its defaults filled in; keys of vLLM's rules must be at theirs."""
    fixed = _FIXED.get(name, {})
    given = scenario.get(name) or {}
    for key, value in given.items():
        if key in fixed:
            if value != fixed[key]:
                raise InputError(
                    f"{name}.{key}: the reference has no such rule; rules = 'blis' takes "
                    f"{fixed[key]!r} only"
                )
        elif key not in defaults:
            raise InputError(f"{name}.{key}: unknown key{did_you_mean(key, list(defaults))}")
    return defaults | {key: value for key, value in given.items() if key in defaults}


def _one_of(key: str, name: str, known: Any) -> None:
    if name not in known:
        names = list(known)
        raise InputError(
            f"{key}: {name!r} is not in the reference; allowed: {', '.join(names)}"
            f"{did_you_mean(name, names)}"
        )


def _latency(section: Mapping[str, Any]) -> Latency:
    """Return the coefficients; those of terms that the reference lacks must be 0."""
    if "alpha" not in section or "beta" not in section:
        raise InputError("latency: alpha and beta are needed")
    for key in ("memory", "experts", "window", "first_steps_us"):
        if section.get(key):
            raise InputError(f"latency.{key}: the reference has no such times")
    alpha, beta = (tuple(float(x) for x in section[k]) for k in ("alpha", "beta"))
    if len(alpha) != 3 or len(beta) < 3 or any(beta[3:]):
        raise InputError(
            "latency: the reference takes three coefficients in alpha and three in beta"
        )
    return Latency((alpha[0], alpha[1], alpha[2]), (beta[0], beta[1], beta[2]))
