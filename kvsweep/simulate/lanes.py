"""From scenarios and requests to the arrays that the kernel reads, and the memory it works in."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..errors import InputError
from ..kernel.calendar import MAX_STEPS, ROW
from ..kernel.memory import workspace_sizes
from ..kernel.tally import DIGITS
from ..limits import MAX_REQUEST_TOKENS, MAX_TIME_US, MAX_TOKENS
from ..policies import Priority, RequestStatus, Scheduler
from ..records import (
    BLOCK,
    CHAIN,
    EVENT,
    EXTENT,
    INSTANCE,
    LANE,
    LRU,
    NEVER,
    NONE,
    PROGRESS,
    REQUEST,
    SCORER,
    STEP,
    TALLY,
    TIER,
    Inputs,
    Outputs,
    Workspace,
)
from ..workload.blocks import BlockKeys, Extents, find_extents, whole_requests
from ..workload.requests import Requests
from .bounding import bound_times, check_workspace
from .layout import lay_out
from .routers import (
    find_prompt_extents,
    reads_prompts,
    router_memory,
    slo_codes,
)

SLO_PRIORITY = {"critical": 0, "standard": 5, "batch": 10, "background": 15}
"""Priority of a class under ``engine.priority = "slo-class"``; unknown or missing class: 5."""

MAX_AGED_US = 2**61
"""Longest time, microseconds, that priority ``age`` may give a request's level."""


@dataclass(frozen=True)
class Prepared:
    """One request list as the kernel reads it.

    Attributes
    ----------
    requests : Requests
        The request list.
    records : REQUEST (n,)
        The same as kernel records; ``key_lo`` counts from the list's own first key slot.
    keys : int32 (slots,)
        Content key per (request, full block).
    n_keys : int
        Number of distinct keys.
    ranked : bool
        Whether some requests are more urgent than others, by priority or class.
    chain : CHAIN (links,)
        The extents of each request, in order; ``chain_lo`` counts from the list's own first.
    n_extents, n_shared : int
        Number of extents, and of those that several requests have.
    """

    requests: Requests
    records: NDArray[Any]
    keys: NDArray[np.int32]
    n_keys: int
    ranked: bool
    chain: NDArray[Any]
    n_extents: int
    n_shared: int


def prepare(requests: Requests, resolved: BlockKeys) -> Prepared:
    """Make the kernel's records of a request list with its block keys.

    Raises
    ------
    InputError
        If a request is too long for the kernel to count its blocks, or a time too long to add.
    """
    _check_lengths(requests)
    records = np.zeros(len(requests), REQUEST)
    records["arrival"] = requests.arrival_us
    records["key_lo"] = resolved.offsets[:-1]
    if resolved.reusable.any():
        extents = find_extents(resolved.offsets[:-1], resolved.offsets[1:], resolved.keys)
    else:
        extents = whole_requests(resolved.offsets)
    records["chain_lo"] = extents.offsets[:-1]
    records["prompt"] = requests.prompt_tokens
    records["output"] = requests.output_tokens
    records["reusable"] = resolved.reusable
    records["shared"] = resolved.shared
    records["twin"] = resolved.twin
    records["think"] = requests.think_us
    records["patience"] = requests.patience_us
    waits = np.flatnonzero(requests.after != NONE)
    records["awaits"][waits] = 1
    records["follower"] = NONE
    records["follower"][requests.after[waits]] = waits
    by_class = class_levels(requests)
    records["priority"] = np.where(requests.has_priority, requests.priority, 0)
    records["class_priority"] = np.where(requests.has_priority, requests.priority, by_class)
    records["slo_class"] = slo_codes(requests)
    return Prepared(
        requests=requests,
        records=records,
        keys=resolved.keys,
        n_keys=int(resolved.n_keys),
        ranked=bool((records["class_priority"] != records["class_priority"][:1]).any()),
        chain=_chain(extents),
        n_extents=extents.count,
        n_shared=extents.shared,
    )


def _check_lengths(requests: Requests) -> None:
    tokens = requests.prompt_tokens + requests.output_tokens
    limited = (
        (tokens, MAX_REQUEST_TOKENS, "tokens, context and output together"),
        (requests.output_tokens, MAX_TOKENS, "output tokens"),
        (requests.arrival_us, MAX_TIME_US, "us to its arrival"),
        (requests.think_us, MAX_TIME_US, "us of thinking"),
        (requests.patience_us, MAX_TIME_US, "us of patience"),
    )
    for values, most, what in limited:
        worst = int(values.argmax())
        if values[worst] > most:
            raise InputError(
                f"request {worst} of the list has {values[worst]:,} {what}, at most {most:,}"
            )


def _chain(extents: Extents) -> NDArray[Any]:
    """Return CHAIN records of the extents of all requests."""
    chain = np.zeros(len(extents.numbers), CHAIN)
    chain["extent"], chain["first"], chain["end"] = extents.numbers, extents.first, extents.end
    return chain


def class_levels(requests: Requests) -> NDArray[np.int64]:
    """Return the priority that each request has by its class."""
    by_name = [SLO_PRIORITY.get(name, 5) for name in requests.slo_names] + [5]
    levels: NDArray[np.int64] = np.array(by_name, np.int64)[requests.slo_class]
    return levels


def _places_for(seats: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the places to keep for running lists: those behind the end move with it."""
    rows: NDArray[np.int64] = -(-seats // ROW) + 1
    return rows * ROW


def _step_limits(requests: NDArray[Any], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return for each list a number of steps of one instance that only a livelock takes.

    Under fcfs and sjf every step computes a token of the oldest unfinished request, so the known
    tokens of all requests bound the steps. The priority scheduler can livelock: requests of equal
    priority and arrival may preempt each other in turns (found by the naive twin; it takes
    prefills over several steps, no reservation and no cache).
    """
    tokens = requests["prompt"] + requests["output"]
    limits: NDArray[np.int64] = 2 * np.add.reduceat(tokens, first) + 1000
    return limits


def _check_ages(lanes: NDArray[Any], largest: NDArray[np.int64]) -> None:
    """Check that aged priorities, in microseconds, stay far inside 64 bits; `largest` per lane."""
    by_priority = lanes["scheduler"] == Scheduler.PRIORITY
    aged = by_priority & (lanes["priority"] == Priority.AGE)
    if (largest[aged] > MAX_AGED_US // lanes["age"][aged]).any():
        raise InputError(
            f"engine.priority_age_ms: times the largest priority ({largest[aged].max()}) it must be"
            f" at most {MAX_AGED_US / 1000:.3g} ms"
        )


def _join(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate records; as bytes, as NumPy compares the fields of any two dtypes (20 us)."""
    return np.concatenate([part.view(np.uint8) for part in parts]).view(parts[0].dtype)


def build_inputs(
    scenarios: Sequence[Scenario],
    lists: Sequence[Prepared],
    which: NDArray[np.int64],
    *,
    prune: bool = True,
) -> Inputs:
    """Lay out a batch of lanes: every scenario with every one of its request lists.

    Parameters
    ----------
    scenarios : sequence of Scenario
        The variants.
    lists : sequence of Prepared
        Distinct request lists.
    which : int64 (n_seeds, n_variants)
        Request list of each lane; lane ``s * n_variants + v`` runs variant ``v``, so that lanes
        of one request list are neighbours and find it in the processor's cache.
    prune : bool
        Let lanes repeat the run of an earlier scenario that differs only in having fewer blocks,
        if that run shows that more make no difference.
    """
    sizes = np.array([len(item.records) for item in lists])
    key_sizes = np.array([len(item.keys) for item in lists])
    request_lo = np.concatenate([[0], np.cumsum(sizes)])
    key_lo = np.concatenate([[0], np.cumsum(key_sizes)])
    chain_lo = np.concatenate([[0], np.cumsum([len(item.chain) for item in lists])])
    requests = _join([item.records for item in lists])
    requests["key_lo"] += np.repeat(key_lo[:-1], sizes)
    requests["chain_lo"] += np.repeat(chain_lo[:-1], sizes)
    laid = lay_out(tuple(scenarios))
    lanes = np.tile(laid.lanes, len(which))
    chosen = which.ravel()
    like = laid.like if prune else np.full(len(scenarios), NONE)
    starts = np.arange(len(which))[:, None] * len(scenarios)
    # Equal scenarios may have different requests: a trace's name can depend on the policy.
    known = (like != NONE) & (which == which[:, like])
    lanes["like"] = np.where(known, like + starts, NONE).ravel()
    lanes["request_lo"] = request_lo[chosen]
    lanes["requests"] = sizes[chosen]
    lanes["places"] = _places_for(np.minimum(lanes["max_num_seqs"], lanes["requests"]))
    for field in ("n_keys", "n_extents", "n_shared"):
        lanes[field] = np.array([getattr(item, field) for item in lists])[chosen]

    def largest(values: NDArray[Any]) -> NDArray[Any]:
        """Return the largest value of each lane's list; a list is never empty."""
        most: NDArray[Any] = np.maximum.reduceat(values, request_lo[:-1])
        return most[chosen]

    for flag, field in (("shares", "shared"), ("twins", "twin"), ("closed_loop", "awaits")):
        lanes[flag] = largest(requests[field])
    lanes["twins"] |= lanes["eager"]
    lanes["impatient"] = largest(requests["patience"]) >= 0
    # Every urgent request may make others begin anew.
    again = 1 + sizes[chosen] * lanes["preempt_for_urgent"]
    limits = np.minimum(_step_limits(requests, request_lo[:-1])[chosen], MAX_STEPS) * again
    lanes["step_limit"] = np.minimum(limits, MAX_STEPS)
    bound_times(
        lanes, largest(requests["prompt"] + requests["output"]), largest(requests["prompt"])
    )
    _check_ages(lanes, largest(np.abs(requests["class_priority"])))
    lanes["out_lo"] = np.concatenate([[0], np.cumsum(sizes[chosen])[:-1]])
    keys = np.concatenate([item.keys for item in lists])
    chain = _join([item.chain for item in lists])
    prompts = _lay_out_prompts(requests, lanes, lists, chosen)
    return Inputs(requests, keys, chain, prompts, lanes, laid.scorers)


def _lay_out_prompts(
    requests: NDArray[Any],
    lanes: NDArray[Any],
    lists: Sequence[Prepared],
    chosen: NDArray[np.int64],
) -> NDArray[Any]:
    """Find the prompt extents of the lists that some router reads; return them as CHAIN records.

    Sets what `requests` and `lanes` say of them; `chosen` is the list of each lane.
    """
    chains = [np.zeros(1, CHAIN)]  # never empty
    placed = 1
    readers = reads_prompts(lanes)
    for number in np.unique(chosen[readers]):
        users = readers & (chosen == number)
        first = lanes[users][0]
        item = lists[number]
        extents = find_prompt_extents(item.records, item.keys, int(first["block_size"]))
        lanes["n_prompt"][users] = extents.count
        lanes["prompt_shared"][users] = extents.shared
        lo = first["request_lo"]
        requests["prompt_lo"][lo : lo + len(item.records)] = placed + extents.offsets[:-1]
        chains.append(_chain(extents))
        placed += len(chains[-1])
    return _join(chains)


def _blank_instance() -> NDArray[Any]:
    blank = np.zeros(1, INSTANCE)
    lists = ("lru_head", "lru_tail", "wait_head", "wait_tail", "inbox_head", "inbox_tail")
    for name in (*lists, "spare", "tier_spare"):
        blank[name] = NONE
    for name in ("next_due", "retry"):
        blank[name] = NEVER
    blank["stale"] = 1
    return blank


def _blank_progress() -> NDArray[Any]:
    blank = np.zeros(1, PROGRESS)
    times = ("queued", "scheduled", "first_token", "finish", "last_token")
    for name in (*times, "cached", "instance", "fills"):
        blank[name] = NONE
    blank["status"] = RequestStatus.NOT_ARRIVED
    return blank


def allocate_workspace(inputs: Inputs, itl_entries: int) -> Workspace:
    """Allocate memory for the largest lane; untouched pages of it cost nothing."""
    needs = {name: int(each.max()) for name, each in workspace_sizes(inputs.lanes).items()}
    check_workspace(needs)
    sizes = {name: max(1, most) for name, most in needs.items()}
    return Workspace(
        blank_instance=_blank_instance(),
        blank_progress=_blank_progress(),
        **router_memory(sizes),
        blank_extent=np.zeros(1, EXTENT),
        progress=np.empty(sizes["progress"], PROGRESS),
        instances=np.zeros(sizes["instances"], INSTANCE),
        extents=np.empty(sizes["extents"], EXTENT),
        blocks=np.empty(sizes["blocks"], BLOCK),
        lru=np.empty(sizes["lru"], LRU),
        table=np.empty(len(inputs.keys), np.int32),
        prefix=np.empty(sizes["prefix"], np.int32),
        tier=np.empty(sizes["tier"], TIER),
        tier_table=np.empty(sizes["tier_table"], np.int32),
        running=np.empty(sizes["running"], np.int64),
        due=np.empty(sizes["due"], np.int32),
        phases=np.empty(sizes["phases"], np.int64),
        heap=np.empty(sizes["heap"], np.int64),
        coming=np.empty(sizes["coming"], np.int64),
        itl_time=np.empty(itl_entries, np.int64),
        itl_weight=np.empty(itl_entries, np.int64),
        itl_order=np.empty(2 * itl_entries, np.int64),
        itl_digits=np.empty(DIGITS, np.int64),
        itl_plain=np.empty(sizes["itl_plain"], np.int64),
    )


def allocate_outputs(
    inputs: Inputs, *, keep_requests: bool = False, steps: int = 0, events: int = 0
) -> Outputs:
    """Allocate the results of a batch; `steps` and `events` are the room of the logs."""
    lanes = inputs.lanes
    slots = int(lanes["requests"].sum(dtype=np.int64))
    kept = slots if keep_requests else 0
    return Outputs(
        tallies=np.zeros(len(lanes), TALLY),
        peak_blocks=np.full((len(lanes), lanes["instances"].max()), NONE, np.int32),
        completed=np.zeros((len(lanes), lanes["instances"].max()), np.int32),
        outcomes=np.zeros((len(lanes), len(RequestStatus)), np.int32),
        ttft=np.empty(slots, np.int64),
        e2e=np.empty(slots, np.int64),
        delay=np.empty(slots, np.int64),
        tpot=np.empty(slots, np.float64),
        preemptions=np.empty(kept, np.int32),
        request_status=np.empty(kept, np.int8),
        progress=np.empty(kept, PROGRESS),
        steps=np.empty(steps, STEP),
        events=np.empty(events, EVENT),
    )


EMPTY = Inputs(
    requests=np.zeros(1, REQUEST),
    keys=np.zeros(1, np.int32),
    chain=np.zeros(1, CHAIN),
    prompts=np.zeros(1, CHAIN),
    lanes=np.zeros(1, LANE),
    scorers=np.zeros(1, SCORER),
)
"""Inputs of the kernel's types whose lanes are not meant to run: for compiling."""
