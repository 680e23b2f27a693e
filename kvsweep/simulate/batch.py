"""A batch: scenarios, each with its request lists, as the arrays that the kernel reads."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..config import Scenario
from ..records import CHAIN, NONE, Inputs
from .lane_records import lay_out, set_prompt_extents, set_request_lists, set_smaller_pools
from .list_records import NONE_ACCEPTED, Prepared, chain_records
from .routers import find_prompt_extents, reads_prompts


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
    keys, first_keys = _join_keys(lists)
    requests, first = _join_requests(lists, first_keys)
    chosen = which.ravel()
    laid = lay_out(tuple(scenarios))
    lanes = np.tile(laid.lanes, len(which))
    set_request_lists(lanes, lists, chosen, requests, first)
    set_smaller_pools(lanes, laid.like if prune else np.full(len(scenarios), NONE), which)
    prompts = _lay_out_prompts(requests, lanes, lists, chosen)
    chain = _join([item.chain for item in lists])
    accepted = np.concatenate([item.accepted for item in lists])
    return Inputs(
        requests, keys, chain, prompts, lanes, laid.scorers, laid.groups, laid.pools, accepted
    )


def _join_requests(
    lists: Sequence[Prepared], first_keys: NDArray[np.int64]
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the REQUEST records of all lists, and where each list begins."""
    sizes = np.array([len(item.records) for item in lists])
    requests = _join([item.records for item in lists])
    requests["chain_lo"] += np.repeat(_starts([len(item.chain) for item in lists]), sizes)
    if first_keys.any():
        requests["key_lo"] += np.repeat(first_keys, sizes)
    if any(item.accepted is not NONE_ACCEPTED for item in lists):
        requests["accepted_lo"] += np.repeat(_starts([len(item.accepted) for item in lists]), sizes)
    return requests, _starts(sizes)


def _join_keys(lists: Sequence[Prepared]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the keys of all lists, and where those of each begin.

    Lists without common content just count, and so have the beginning of the longest one's: of 200
    lists of H8 to copy them, and to find other keys in the cache for each, took 7 us a cell.
    """
    counts = [item.n_keys == len(item.keys) for item in lists]
    longest = max(
        (item.keys for item, just_counts in zip(lists, counts, strict=True) if just_counts),
        key=len,
        default=np.empty(0, np.int32),
    )
    others = [item.keys for item, just_counts in zip(lists, counts, strict=True) if not just_counts]
    first = np.zeros(len(lists), np.int64)
    first[~np.array(counts)] = len(longest) + _starts([len(keys) for keys in others])
    return np.concatenate([longest, *others]), first


def _starts(sizes: NDArray[np.int64] | Sequence[int]) -> NDArray[np.int64]:
    """Return where each of some parts begins when they stand one after the other."""
    return np.concatenate([[0], np.cumsum(sizes[:-1], dtype=np.int64)])


def _join(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate records; as bytes, as NumPy compares the fields of any two dtypes (20 us)."""
    return np.concatenate([part.view(np.uint8) for part in parts]).view(parts[0].dtype)


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
        size, ahead = int(first["block_size"]), int(first["ahead"])
        extents = find_prompt_extents(item.records, item.keys, size, ahead)
        set_prompt_extents(lanes, users, extents)
        lo = first["request_lo"]
        requests["prompt_lo"][lo : lo + len(item.records)] = placed + extents.offsets[:-1]
        chains.append(chain_records(extents))
        placed += len(chains[-1])
    return _join(chains)
