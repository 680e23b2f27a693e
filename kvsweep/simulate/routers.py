"""Routers: their scorers, the extents of prompts that they read, and the memory they work in."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..config.choices import Choice, choices_of
from ..config.cluster_section import Cluster
from ..policies import BLOCKS, CACHE, INDEX, TOKENS, Routing, Scorer
from ..records import NODE, NONE, ROUTER, SCORER, SENT, SNAPSHOT
from ..workload.blocks import Extents, find_extents


def scorers_of(choice: Choice) -> tuple[Scorer, ...]:
    """Return the scorers that decide, in order; none unless the routing is weighted."""
    if not choice.is_weighted:
        return ()
    return tuple(Scorer.from_name(name) for name in choice.scorers)


def reads_of(*choices: Choice) -> frozenset[str]:
    """Return what routing reads, of `kvsweep.policies.Routing.reads`."""
    found: frozenset[str] = frozenset()
    for choice in choices:
        scored = (scorer.reads for scorer in scorers_of(choice))
        found = found.union(Routing.from_name(choice.routing).reads, *scored)
    return found


def routing_fields(cluster: Cluster) -> dict[str, Any]:
    """Return the fields of LANE that say what routers read and keep."""
    choices = choices_of(cluster)
    reads = reads_of(*choices)
    keep = any(choice.routing == Routing.PROMPT_AFFINITY.label for choice in choices)
    return {
        "routing": Routing.from_name(cluster.routing),
        "scorers": sum(len(scorers_of(choice)) for choice in choices),
        "homes": keep * max(len(choices), len(cluster.pools)),
        "reads_state": len(reads - {INDEX}) > 0,  # the router's own index needs no instance
        "sees_cache": CACHE in reads,
        "sees_blocks": BLOCKS in reads,
        "indexes": INDEX in reads,
        "counts_tokens": TOKENS in reads,
        "sticky_threshold": cluster.sticky_threshold,
        "sticky_lead": cluster.sticky_lead_tokens,
    }


def scorer_table(scenarios: Sequence[Scenario]) -> NDArray[Any]:
    """Return SCORER records, those of each scenario together and weighing 1 in sum.

    There is one more, so that the table is never empty.
    """
    rows: list[tuple[int, float]] = []
    for choice in (each for item in scenarios for each in choices_of(item.cluster)):
        scorers = scorers_of(choice)
        if scorers:
            weights = np.array(list(choice.scorers.values()))
            # Added up one by one, as inference-sim does.
            shares = weights / np.cumsum(weights)[-1]
            rows += zip(scorers, shares.tolist(), strict=True)
    return np.array([*rows, (0, 0.0)], SCORER)


def reads_prompts(lanes: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which lanes route by the content of prompts."""
    reads: NDArray[np.bool_] = (lanes["homes"] > 0) | (lanes["indexes"] != 0)
    return reads


def find_prompt_extents(
    records: NDArray[Any], keys: NDArray[np.int32], block_size: int, ahead: int = 0
) -> Extents:
    """Divide the full blocks of each prompt into extents.

    Parameters
    ----------
    records, keys : REQUEST (n,), int32 (slots,)
        A request list, as of `list_records.Prepared`.
    block_size, ahead : int
        Tokens per block, and tokens behind it that its key covers too.
    """
    begins = np.ascontiguousarray(records["key_lo"])
    return find_extents(begins, begins + (records["prompt"] - ahead) // block_size, keys)


def router_memory(sizes: Mapping[str, int]) -> dict[str, NDArray[Any]]:
    """Return the router's part of a workspace, by field; `sizes` as of `workspace_sizes`."""
    blank = np.zeros(1, SNAPSHOT)
    blank["oldest"] = blank["newest"] = NONE
    return {
        "blank_snapshot": blank,
        "router": np.zeros(1, ROUTER),
        "snapshots": np.zeros(sizes["snapshots"], SNAPSHOT),
        "sent": np.empty(sizes["sent"], SENT),
        "answered": np.empty(sizes["answered"], np.int64),
        "nodes": np.empty(sizes["nodes"], NODE),
        "known": np.zeros(sizes["known"], np.int64),
        "holders": np.empty(sizes["holders"], np.int64),
    }
