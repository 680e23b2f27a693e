"""From content to block keys: equal keys exactly where token prefixes are equal.

The kernel compares content by these keys alone. What makes them cheap: every entry of a prompt
starts at token 0 of its segment, so a token sequence can be cut into entries in one way only. A
prefix is then told by the entries that it contains whole and by its place in the next one: the
*branch* (whole entries before, segment) and the number of tokens into it. A branch starts at the
same place in every request that takes it, so the blocks that end inside it can be numbered
consecutively, up to the longest entry that any request has there.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.workload.requests import Requests

_ROOT = -1


@dataclass(frozen=True)
class BlockKeys:
    """Content keys of the full blocks of each request.

    Attributes
    ----------
    offsets : int64 (n + 1,)
        Where each request's keys start. Request ``r`` has ``(prompt + output - 1) // block_size``:
        its last sampled token is never stored.
    keys : int32 (total,)
        Keys from 0, dense, numbered as they first occur; so the keys that a request shares with no
        other are consecutive. Equal keys: equal tokens from the start to the end of the block.
    n_keys : int
        Number of distinct keys.
    reusable : int32 (n,)
        Leading keys that some other request has too.
    shared : bool (n,)
        Whether a block with output tokens is among those.
    twin : bool (n,)
        Whether a block with output tokens has the key of another request's block with output
        tokens: both may be filled by decoding at any time.
    """

    offsets: NDArray[np.int64]
    keys: NDArray[np.int32]
    n_keys: int
    reusable: NDArray[np.int32]
    shared: NDArray[np.bool_]
    twin: NDArray[np.bool_]


def resolve_blocks(requests: Requests, block_size: int) -> BlockKeys:
    """Give a key to the content of every full block.

    Parameters
    ----------
    requests : Requests
        A request list.
    block_size : int
        Tokens per block, at least 1.

    Returns
    -------
    BlockKeys
        Keys of blocks by content.
    """
    stored = requests.prompt_tokens + requests.output_tokens - 1
    offsets = np.zeros(len(requests) + 1, np.int64)
    np.cumsum(stored // block_size, out=offsets[1:])
    first_segments = requests.segment_ids[requests.segment_offsets[:-1]]
    ordered = np.sort(first_segments)
    if (ordered[1:] != ordered[:-1]).all():
        # No two requests begin alike, so no two prefixes are equal.
        n = len(requests)
        keys = np.arange(offsets[-1], dtype=np.int32)
        none = np.zeros(n, np.bool_)
        return BlockKeys(offsets, keys, len(keys), np.zeros(n, np.int32), none, none)
    keys = _in_order_of_occurrence(_branch_keys(requests, block_size))
    # A request has a key at most once, so a key counted twice belongs to two requests.
    others = np.concatenate([[0], np.cumsum(np.bincount(keys)[keys] > 1)])
    reusable = np.diff(others[offsets]).astype(np.int32)
    shared = reusable > requests.prompt_tokens // block_size
    twin = _twins(keys, offsets, requests.prompt_tokens // block_size)
    return BlockKeys(offsets, keys, int(keys.max(initial=-1)) + 1, reusable, shared, twin)


@dataclass(frozen=True)
class Extents:
    """Stretches of keys that every request has all or nothing of, as long as can be.

    Attributes
    ----------
    offsets : int64 (n + 1,)
        Where each request's extents start in the other arrays.
    numbers : int64 (total,)
        Extents from 0; those of several requests come first.
    first, end : int64 (total,)
        The blocks of the request that belong to it: `first` to ``end - 1``.
    count, shared : int
        Number of extents, and of those that several requests have.
    """

    offsets: NDArray[np.int64]
    numbers: NDArray[np.int64]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    count: int
    shared: int


def find_extents(offsets: NDArray[np.int64], keys: NDArray[np.int32]) -> Extents:
    """Divide the keys of each request into extents.

    Parameters
    ----------
    offsets, keys : int64 (n + 1,), int32 (total,)
        As of `BlockKeys`.

    Returns
    -------
    Extents
        Extents of all requests.
    """
    # Who has a key has those before it. So two neighbours are of the same requests if they are of
    # equally many.
    uses = np.bincount(keys)[keys]
    begins = np.ones(len(keys), np.bool_)
    begins[1:] = uses[1:] != uses[:-1]
    begins[offsets[:-1][offsets[:-1] < offsets[1:]]] = True
    starts = np.flatnonzero(begins)
    bounds = np.searchsorted(starts, offsets)
    base = np.repeat(offsets[:-1], np.diff(bounds))
    shared = uses[starts] > 1
    common = np.unique(keys[starts[shared]])
    numbers = len(common) + np.cumsum(~shared) - 1
    numbers[shared] = np.searchsorted(common, keys[starts[shared]])
    return Extents(
        offsets=bounds,
        numbers=numbers,
        first=starts - base,
        end=np.append(starts[1:], len(keys)) - base,
        count=len(common) + int((~shared).sum()),
        shared=len(common),
    )


def whole_requests(offsets: NDArray[np.int64]) -> Extents:
    """Return the extents of requests that share no key: all blocks of a request are one."""
    blocks = offsets[1:] - offsets[:-1]
    some = blocks > 0
    bounds = np.zeros(len(offsets), np.int64)
    np.cumsum(some, out=bounds[1:])
    count = int(bounds[-1])
    none = np.zeros(count, np.int64)
    return Extents(bounds, np.arange(count), none, blocks[some], count, 0)


def _twins(
    keys: NDArray[np.int32], offsets: NDArray[np.int64], prompt_blocks: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which requests have a key beyond their prompt's that another one has likewise."""
    owner = np.repeat(np.arange(len(prompt_blocks)), np.diff(offsets))
    decoded = np.arange(len(keys)) - offsets[owner] >= prompt_blocks[owner]
    uses = np.bincount(keys[decoded], minlength=len(keys))
    twin = np.zeros(len(prompt_blocks), np.bool_)
    twin[owner[decoded][uses[keys[decoded]] > 1]] = True
    return twin


def _branch_keys(requests: Requests, block_size: int) -> NDArray[np.int64]:
    """Return a key for each full block, dense but in the order of branches."""
    branch, tokens, request = _branches(requests)
    end = np.cumsum(tokens)
    start = end - tokens
    # Places within the request: entries of a request are neighbours.
    first = np.searchsorted(request, request, side="left")
    base = start[first]
    before = (start - base) // block_size
    blocks = (end - base) // block_size - before
    longest = np.zeros(branch.max(initial=-1) + 1, np.int64)
    np.maximum.at(longest, branch, blocks)
    lowest = np.cumsum(longest) - longest
    # A block's key is its branch's lowest plus its place among the entry's blocks.
    keys: NDArray[np.int64] = np.arange(blocks.sum())
    keys += np.repeat(lowest[branch] - (np.cumsum(blocks) - blocks), blocks)
    return keys


def _branches(
    requests: Requests,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return branch, tokens and request of every entry, the output's stored tokens included."""
    branch_of: dict[tuple[int, int], int] = {}
    chain_of: dict[tuple[int, int], int] = {}
    branches: list[int] = []
    bounds = requests.segment_offsets.tolist()
    segments = requests.segment_ids.tolist()
    tokens = requests.segment_tokens.tolist()
    outputs = requests.output_segment.tolist()
    for i, output in enumerate(outputs):
        chain = _ROOT
        for k in range(bounds[i], bounds[i + 1]):
            branch = branch_of.setdefault((chain, segments[k]), len(branch_of))
            chain = chain_of.setdefault((branch, tokens[k]), len(chain_of))
            branches.append(branch)
        branches.append(branch_of.setdefault((chain, output), len(branch_of)))
    ends = requests.segment_offsets[1:]
    all_tokens = np.insert(requests.segment_tokens, ends, requests.output_tokens - 1)
    counts = np.diff(requests.segment_offsets) + 1
    return np.array(branches), all_tokens, np.repeat(np.arange(len(requests)), counts)


def _in_order_of_occurrence(keys: NDArray[np.int64]) -> NDArray[np.int32]:
    """Renumber dense keys as they first occur."""
    total = len(keys)
    first = np.empty(keys.max(initial=-1) + 1, np.int64)
    # The last assignment to an element stays, so go backwards.
    first[keys[::-1]] = np.arange(total - 1, -1, -1)
    is_first = np.zeros(total, np.bool_)
    is_first[first] = True
    rank = np.cumsum(is_first, dtype=np.int32) - np.int32(1)
    return rank[first[keys]]
