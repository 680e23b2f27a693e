"""What a simulation may take: memory, and times of which no sum leaves 64 bits.

Each number has a limit of its own; here are those of products. What depends on the request list is
bounded in plain arithmetic on numbers or arrays alike, so that a plan can ask before it runs
anything and the kernel's batches can ask for all lanes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kvsweep.config.base import KeyProblem
from kvsweep.config.coefficients import ALPHAS, padded, step_fields
from kvsweep.config.fleet import InstancePool, fleet, key_of
from kvsweep.errors import InputError
from kvsweep.limits import (
    MAX_CELL_TOKENS,
    MAX_CLUSTER_BLOCKS,
    MAX_CONTEXT,
    MAX_DRAWN,
    MAX_FIRST_STEPS,
    MAX_REPLICA_BLOCKS,
    MAX_STEP_US,
    MAX_TIME_US,
)
from kvsweep.policies import Offload

if TYPE_CHECKING:
    from kvsweep.config.scenario import Scenario
    from kvsweep.config.schema import KeyPath
    from kvsweep.config.workload import Workload

_LAST_CLOCK_BITS = 47
_SUM_BITS = 62


def check_products(scenario: Scenario) -> None:
    """Check that a cluster of such instances fits the memory and the kernel's indices.

    Raises
    ------
    KeyProblem
        Naming the key of the instance's part, and both numbers.
    """
    instances, cache = scenario.cluster.instances, scenario.cache
    products = (
        (("cache", "block_size"), cache.block_size, MAX_CELL_TOKENS, "tokens"),
        (*_most(scenario, "gpu_blocks"), MAX_CLUSTER_BLOCKS, "blocks"),
        (*_most(scenario, "cpu_blocks"), MAX_CLUSTER_BLOCKS, "blocks"),
    )
    for key, each, most, what in products:
        if scenario.engine.rules == "blis" and what == "blocks":
            most = MAX_REPLICA_BLOCKS
        if instances * each > most:
            raise KeyProblem(
                key,
                f"{each:,} {what} on each of {instances:,} instances: together at most {most:,}",
            )


def _most(scenario: Scenario, key: str) -> tuple[KeyPath, int]:
    """Return the most blocks that an instance has, behind the key that says so."""
    blocks = [getattr(pool, key) for pool in fleet(scenario)]
    return key_of(scenario, blocks.index(max(blocks)), key), max(blocks)


def check_draws(workload: Workload) -> None:
    """Check that the requests of a workload can be drawn and composed in a memory of some GiB.

    Raises
    ------
    KeyProblem
        At ``requests`` or ``clients``.
    """
    clients = workload.clients or (None,)
    sessions = [(c.sessions if c else None) or workload.sessions for c in clients]
    rounds = [min(s.rounds, workload.requests) if s else 1 for s in sessions]
    # With truncation a client draws sessions of twice as many requests, up to a whole last one.
    doubled = [1 + (s is not None and s.truncate and s.rounds > 1) for s in sessions]
    drawn = sum(workload.requests * n for n in doubled)
    if drawn > MAX_DRAWN:
        raise KeyProblem(
            ("clients",) if workload.clients else ("requests",),
            f"{len(clients):,} clients draw {drawn:,} requests, at most {MAX_DRAWN:,}",
        )
    if workload.requests * max(rounds) > MAX_CONTEXT:
        raise KeyProblem(
            ("requests",),
            f"{workload.requests:,} requests in sessions of {max(rounds):,} rounds: the product "
            f"must be at most {MAX_CONTEXT:,}",
        )


def longest_step(
    of: Mapping[str, Any] | Any, requests: Any, longest: Any, smaller: Callable[[Any, Any], Any]
) -> Any:
    """Return microseconds that no step of a lane exceeds, as float64.

    Parameters
    ----------
    of : mapping or LANE
        Coefficients and sizes by the names of the LANE record.
    requests : int or array
        Requests of the list.
    longest : int or array
        Tokens of the longest of them, context and output together.
    smaller : callable
        `min` for numbers, `numpy.minimum` for arrays.

    Notes
    -----
    A step has at most one chunk of each seat and no more tokens than the budget; no token has more
    context than the longest request. A roofline is less than the sum of both its sides, and what a
    first step takes longer at most that of all first steps. Every admission may transfer all of the
    longest request.
    """
    seats = smaller(of["max_num_seqs"], requests) * 1.0
    tokens = smaller(of["max_tokens"], seats * longest)
    time: Any = of["beta0"] + of["memory0"] + of["experts"]
    for kind in ("beta", "memory"):
        time = time + of[f"{kind}1"] * tokens + of[f"{kind}2"] * seats
        time = time + (of[f"{kind}3"] + of[f"{kind}5"]) * seats * longest
        time = time + (of[f"{kind}4"] + of[f"{kind}6"]) * tokens * longest
    for step in range(MAX_FIRST_STEPS):
        time = time + of[f"first_step{step}"]
    transfer = (
        of["transfer_base"]
        + 1.0
        + longest * (1 + of["more_groups"] + of["states"]) / of["bandwidth"]
    )
    time = time + (of["cpu_blocks"] > 0) * seats * transfer
    return time + (of["connects"] + of["moves"]) * _backlog(of, requests * 1.0, longest, smaller)


def _backlog(of: Mapping[str, Any] | Any, requests: Any, longest: Any, smaller: Any) -> Any:
    """Return microseconds after which no copy of a CPU tier as vLLM has it is under way.

    A step may stall for all stores, a request wait for all loads. Each store writes a block of the
    tier at least, each load fills blocks of the GPU; neither copies more than there is.
    """
    most = requests * longest * (1 + of["more_groups"] + of["states"])
    room = of["cpu_blocks"] * 1.0 * of["chunk_tokens"] + of["gpu_blocks"] * 1.0 * of["block_size"]
    copies = smaller(of["cpu_blocks"] * 1.0, most) + requests
    return copies * (of["transfer_base"] + 1.0) + smaller(room, 2.0 * most) / of["bandwidth"]


def _check_shortest(scenario: Scenario, pools: list[dict[str, Any]]) -> None:
    """Refuse latencies that let a step end when it begins.

    That would leave open what comes before what, and the kernel's order of such steps and of
    arrivals is not the twin's. No step is shorter than that of a single token without context.

    Raises
    ------
    InputError
        At ``latency``.
    """
    least = min(map(_shortest, pools))
    if least < 1 and scenario.engine.rules == "vllm":
        latency = scenario.latency
        if latency.model_fields_set and not latency.tells_steps:
            raise InputError(f"latency: {latency.without_steps()}")
        raise InputError(
            f"latency: a step may take {least:.3g} us, of which the whole microseconds count; at "
            "least 1 us is simulated: are beta and memory microseconds?"
        )


def _shortest(of: Mapping[str, Any]) -> float:
    """Return the microseconds of a step of one token without context."""
    moving = of["memory0"] + min(of["memory1"], of["memory2"]) + of["one_expert"]
    least: float = of["beta0"] + max(min(of["beta1"], of["beta2"]), moving)
    return least


def last_clock(of: Mapping[str, Any] | Any, requests: Any, longest: Any, smaller: Any) -> Any:
    """Return microseconds up to which a lane may run: so long that all its sums fit 64 bits.

    The sums and why they stay below 2**63, T being this time, at least 2**32, and a step at most
    `MAX_STEP_US`, 2**32 (so no time of the kernel's is beyond 2 T):

    - Used blocks times time, of all instances: blocks in use, at most those of the cluster and
      those that all seats can hold, times T and a step: 2**62 + 2**62.
    - Delays, times to first and last token and inter-token gaps, the gaps of one request lying one
      after the other: each request's sum is at most T, a step and the overhead ``alpha[2]``, which
      is at most T (`complain`), so twice the number of requests divides.
    - Times of queue entries and of arrivals that completions make are at most T and some of
      `MAX_TIME_US` each, which is less than 2**47.
    """
    seats = smaller(of["max_num_seqs"] * of["instances"], requests)
    held = seats * (longest // of["block_size"] + 1)
    used = smaller(of["gpu_blocks"] * of["instances"], held)
    # The larger of two numbers, by the smaller of what they divide.
    return smaller(
        smaller(2**_LAST_CLOCK_BITS, 2**_SUM_BITS // (used + 1)),
        2**_SUM_BITS // (2 * requests),
    )


def check_times(scenario: Scenario, requests: int, longest: int, prompt: int) -> None:
    """Refuse latencies that give a step, a queueing delay or an overhead no server has.

    Parameters
    ----------
    scenario : Scenario
        Under any rules.
    requests, longest, prompt : int
        Requests of its list; tokens of the longest one, and of the longest prompt.

    Raises
    ------
    InputError
        At ``latency``, or at the keys of the transfers.
    """
    pools = [_lane_numbers(scenario, pool) for pool in fleet(scenario)]
    _check_shortest(scenario, pools)
    for of in pools:
        complain(
            longest_step(of, requests, longest, min),
            of["alpha0"] + of["alpha1"] * prompt,
            of["alpha2"],
            last_clock(of, requests, longest, min),
        )


def complain(step: float, delay: float, overhead: float, clock: float) -> None:
    """Raise the InputError that the longest times of a lane deserve, if any."""
    if step > MAX_STEP_US:
        raise InputError(
            f"latency: a step of this workload may take {step:.3g} us, at most {MAX_STEP_US:,} "
            "(71 minutes) are simulated: beta, memory, window, first_steps_us and "
            "cache.transfer_* are microseconds"
        )
    if delay > MAX_TIME_US:
        raise InputError(
            f"latency.alpha: the longest prompt waits {delay:.3g} us for its place in the queue, "
            f"at most {MAX_TIME_US:.3g} us are simulated"
        )
    if overhead > clock:
        raise InputError(
            f"latency.alpha: alpha[2] is {overhead:.3g} us, at most {clock:.3g} us are simulated "
            "with so many requests"
        )


def _lane_numbers(scenario: Scenario, pool: InstancePool) -> dict[str, Any]:
    """Return what the bounds need of the instances of a pool by the names of the LANE record.

    With drafts each decode is as many tokens as it verifies.
    """
    cache, latency = scenario.cache, scenario.latency
    numbers: dict[str, Any] = {
        f"alpha{term}": coefficient
        for term, coefficient in enumerate(padded(latency.alpha, ALPHAS))
    } | step_fields(pool)
    for kind in ("beta", "memory"):
        for term in (2, 3, 5):
            numbers[f"{kind}{term}"] *= 1 + scenario.engine.drafts
    _, share = pool.experts or (0.0, 0.0)
    numbers["one_expert"] = numbers["experts"] * share
    for step, extra in enumerate(
        (*latency.first_steps_us, *(0,) * MAX_FIRST_STEPS)[:MAX_FIRST_STEPS]
    ):
        numbers[f"first_step{step}"] = extra
    return numbers | {
        "max_num_seqs": pool.max_num_seqs,
        "max_tokens": pool.max_num_batched_tokens,
        "transfer_base": cache.transfer_base_latency_us,
        "bandwidth": cache.transfer_bandwidth or 1.0,  # None only where nothing is moved
        "cpu_blocks": pool.cpu_blocks,
        "connects": cache.cpu_blocks > 0 and cache.offload == Offload.VLLM.label,
        "moves": 0,
        "more_groups": max(0, len(cache.groups) - 1),
        "states": 0,  # among those
        "chunk_tokens": cache.block_size * cache.offload_block_factor,
        "gpu_blocks": pool.gpu_blocks,
        "block_size": cache.block_size,
        "instances": scenario.cluster.instances,
    }
