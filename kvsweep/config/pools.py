"""Clusters of several kinds of instances: prefill and decode apart, or unequal pools."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from kvsweep.config.base import Count, Key, KeyProblem, Name, Section, Tokens, Weight, Whole
from kvsweep.config.coefficients import (
    Betas,
    Experts,
    Window,
    check_experts,
    check_window,
    padded_beta,
    padded_memory,
    told_if_given,
)
from kvsweep.config.members import known_keys, member
from kvsweep.config.preset import load_preset
from kvsweep.limits import MAX_BATCHED_TOKENS, MAX_BLOCKS, MAX_INSTANCES, MAX_SEQS
from kvsweep.policies import Routing, Scorer

if TYPE_CHECKING:
    from kvsweep.config.cluster_section import Cluster

Instances = Annotated[Count, Field(le=MAX_INSTANCES)]
PoolBlocks = Annotated[Count, Field(le=MAX_BLOCKS)]
TierBlocks = Annotated[Whole, Field(le=MAX_BLOCKS)]
OF_BLOCKS = ("gpu_blocks", "cpu_blocks")
"""What a pool may have of its own in a trace, beside its instances."""

ROLES = ("prefill", "decode")
_APART = (
    "kv_transfer_base_us",
    "kv_transfer_bandwidth",
    "pd_handoff_us",
    "prefill_kv_role",
    "pd_uncached_token_threshold",
    "kv_lease_us",
    "kv_heartbeats",
    "kv_load_failure_rate",
    "kv_load_failure_policy",
)
_OF_STEPS = ("beta", "memory", "experts", "window")
BOTH_ROLES = "both"

LEASE_S = 30
"""vLLM's default of ``kv_lease_duration``, seconds (release 0.33.0)."""


class StepTimes(Section):
    """Step times of a pool, as in ``[latency]``; queueing and overhead are those of ``[latency]``.

    Attributes
    ----------
    model : str or None
        Preset or TOML file that the coefficients come from.
    beta, memory, experts, window : tuple of float
        As in `kvsweep.config.latency.Latency`.
    """

    model: Annotated[Name | None, Key("1", "preset of the step times")] = None
    beta: Annotated[Betas, Key("us", "coefficient of the step time")] = ()
    memory: Annotated[Betas, Key("us", "coefficient of moving data in a step")] = ()
    experts: Annotated[Experts, Key("us", "reading all experts, and a token's share of them")] = ()
    window: Annotated[
        Window, Key("us", "sliding window, tokens, and each token of the context inside of it")
    ] = ()

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, dict) or not isinstance(given.get("model"), str):
            return given
        for key in _OF_STEPS:
            if key in given:
                raise KeyProblem((key,), "give either model or beta")
        folder = (info.context or {}).get("base_dir", Path())
        found = load_preset(given["model"], folder).coefficients()
        return given | {key: found[key] for key in _OF_STEPS if key in found}

    @model_serializer(mode="wrap")
    def _tell(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return told_if_given(dump(self))

    @field_validator("beta")
    @classmethod
    def _pad_beta(cls, beta: tuple[float, ...]) -> tuple[float, ...]:
        return padded_beta(beta)

    @field_validator("memory")
    @classmethod
    def _pad_memory(cls, memory: tuple[float, ...]) -> tuple[float, ...]:
        return padded_memory(memory)

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.beta:
            raise KeyProblem(("beta",), "missing; give beta or model")
        check_experts(self.experts, self.memory)
        check_window(self.window, self.memory)
        return self


class Pool(Section):
    """Instances that are alike; what a pool leaves out it takes from the scenario's sections.

    Attributes
    ----------
    instances : int
        How many.
    gpu_blocks, max_num_seqs, max_num_batched_tokens : int or None
        As in ``[cache]`` and ``[engine]``.
    latency : StepTimes or None
        How long their steps take.
    """

    instances: Annotated[Instances, Key("1", "instances of a pool")]
    gpu_blocks: Annotated[PoolBlocks | None, Key("block", "usable KV blocks per instance")] = None
    max_num_seqs: Annotated[
        Annotated[Count, Field(le=MAX_SEQS)] | None, Key("request", "largest batch")
    ] = None
    max_num_batched_tokens: Annotated[
        Annotated[Count, Field(le=MAX_BATCHED_TOKENS)] | None,
        Key("token", "token budget of a step"),
    ] = None
    latency: StepTimes | None = None


class RolePool(Pool):
    """The instances that only prefill, or only decode.

    Attributes
    ----------
    cpu_blocks : int or None
        Blocks of the CPU tier of each, 0: it has none; None: as in ``[cache]``.
    routing, scorers : str, dict or None
        How one of them is chosen for a request, as in ``[cluster]``; None: as there.
    """

    cpu_blocks: Annotated[
        TierBlocks | None, Key("block", "blocks of the CPU tier per instance of a pool")
    ] = None

    routing: Annotated[
        Annotated[str, member(Routing)] | None,
        Key("1", "routing of requests to instances of a pool"),
    ] = None
    scorers: Annotated[
        Annotated[dict[str, Weight], known_keys(Scorer.labels(), "scorer", Scorer)] | None,
        Key("1", "weight in weighted routing to a pool"),
    ] = None


class UnequalPool(Pool):
    """One of several pools that all serve whole requests.

    Attributes
    ----------
    max_model_len : int or None
        The longest request, prompt and output, that the pool serves; None: any. A router chooses
        among the instances of the first pool that serves requests as long as the one in question.
    """

    max_model_len: Annotated[Tokens | None, Key("token", "longest request of a pool")] = None


def check_pools(cluster: Cluster) -> None:
    """Check that the pools of a cluster are of one kind, and all there.

    Raises
    ------
    KeyProblem
        Naming the key that is too much or missing.
    """
    _check_roles(cluster)
    given = cluster.model_fields_set
    if cluster.pools and has_roles(cluster):
        raise KeyProblem(("pools",), "give either pools or prefill and decode")
    if (cluster.pools or has_roles(cluster)) and "instances" in given:
        where = "pools" if cluster.pools else "prefill and decode"
        raise KeyProblem(("instances",), f"has no effect: {where} have their own instances")
    _check_lengths(cluster.pools)
    count = sum(pool.instances for _, pool in pools_of(cluster))
    if count > MAX_INSTANCES:
        raise KeyProblem(
            ("pools",) if cluster.pools else ("prefill",),
            f"{count:,} instances in all pools together, at most {MAX_INSTANCES:,}",
        )


def _check_roles(cluster: Cluster) -> None:
    for role in ROLES:
        table = getattr(cluster, role)
        for key in ("instances", *OF_BLOCKS):
            flat = f"{role}_{key}"
            if table is not None and getattr(cluster, flat) is not None:
                raise KeyProblem((flat,), f"give either {flat} or {role} = {{ {key} = ... }}")
    there = {role: _role(cluster, role) is not None for role in ROLES}
    if any(there.values()) and not all(there.values()):
        (lacking,) = (role for role in ROLES if not there[role])
        message = (
            f"missing; prefill and decode apart need {lacking}_instances or {lacking} = {{...}}"
        )
        raise KeyProblem((lacking,), message)
    for role in ROLES:
        for key in OF_BLOCKS:
            if not there[role] and getattr(cluster, f"{role}_{key}") is not None:
                raise KeyProblem((f"{role}_{key}",), f"needs {role}_instances")
    for key in _APART:
        if key in cluster.model_fields_set and not any(there.values()):
            raise KeyProblem((key,), "has no effect: needs prefill and decode apart")
    if all(there.values()) and cluster.kv_transfer_bandwidth is None:
        message = "missing; tokens per microsecond from prefill to decode instances"
        raise KeyProblem(("kv_transfer_bandwidth",), message)
    if cluster.kv_load_failure_rate > 0 and cluster.kv_lease_us is None:
        message = "needs kv_lease_us: without, the blocks of a pull that fails are kept for ever"
        raise KeyProblem(("kv_load_failure_rate",), message)


def _check_lengths(pools: tuple[UnequalPool, ...]) -> None:
    lengths = [pool.max_model_len for pool in pools]
    if all(length is None for length in lengths):
        return
    for i, (length, longer) in enumerate(pairwise(lengths)):
        if length is None:
            raise KeyProblem(("pools", i, "max_model_len"), "missing; only the last may have none")
        if longer is not None and longer <= length:
            raise KeyProblem(
                ("pools", i + 1, "max_model_len"), f"{longer} is not more than {length} before it"
            )


def has_roles(cluster: Cluster) -> bool:
    """Return whether some instances only prefill and others only decode."""
    return any(_role(cluster, role) is not None for role in ROLES)


def _role(cluster: Cluster, role: str) -> RolePool | None:
    """Return the pool of a role, however it was spelled."""
    instances = getattr(cluster, f"{role}_instances")
    if instances is None:
        pool: RolePool | None = getattr(cluster, role)
        return pool
    blocks = {key: getattr(cluster, f"{role}_{key}") for key in OF_BLOCKS}
    return RolePool(instances=instances, **blocks)


def in_flat_keys(dumped: dict[str, Any]) -> dict[str, Any]:
    """Return a dumped cluster as traces have it if its roles differ in nothing but their blocks."""
    plain = {"instances", *OF_BLOCKS}
    if not all(set(dumped.get(role, {})) <= plain for role in ROLES):
        return dumped
    flat = {key: value for key, value in dumped.items() if key not in ROLES}
    for role in ROLES:
        flat |= {f"{role}_{key}": value for key, value in dumped.get(role, {}).items()}
    return flat


def pools_of(cluster: Cluster) -> tuple[tuple[str, Pool], ...]:
    """Return the pools of a cluster with their roles, those that prefill first.

    A cluster of equal instances is one pool, of role ``both``.
    """
    if has_roles(cluster):
        found = [(role, _role(cluster, role)) for role in ROLES]
        return tuple((role, pool) for role, pool in found if pool is not None)
    if cluster.pools:
        return tuple((BOTH_ROLES, pool) for pool in cluster.pools)
    return ((BOTH_ROLES, Pool(instances=cluster.instances)),)
