"""From content to block keys: equal keys exactly where token prefixes are equal.

The kernel compares content by these keys alone. What makes them cheap: every entry of a prompt
starts at token 0 of its segment, so a token sequence can be cut into entries in one way only. A
prefix is then told by the entries that it contains whole and by its place in the next one: the
*branch* (whole entries before, segment) and the number of tokens into it. A branch starts at the
same place in every request that takes it, so the blocks that end inside it can be numbered
consecutively, up to the longest entry that any request has there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kvsweep.errors import InputError
from kvsweep.limits import MAX_KEYS
from kvsweep.records import NONE
from kvsweep.workload.numbering import (
    compare_requests,
    divide,
    find_branches,
    number_blocks,
)
from kvsweep.workload.requests import Requests, rows

MOST_COUNTED = 1 << 20
"""Numbers in a row that are kept for the keys of lists whose blocks are all different."""


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


def resolve_blocks(requests: Requests, block_size: int, ahead: int = 0) -> BlockKeys:
    """Give a key to the content of every full block.

    Parameters
    ----------
    requests : Requests
        A request list.
    block_size : int
        Tokens per block, at least 1.
    ahead : int
        Tokens of the next block that are part of a key: 1 with EAGLE, whose layers look at them.
        The key exists once they are known, so a block with the last stored token may have one.

    Returns
    -------
    BlockKeys
        Keys of blocks by content.

    Raises
    ------
    InputError
        If there are more than `MAX_KEYS` full blocks.
    """
    return resolve_all([requests], block_size, ahead)[0]


def resolve_all(lists: Sequence[Requests], block_size: int, ahead: int = 0) -> list[BlockKeys]:
    """Give keys to the blocks of lists of equally many requests, as `resolve_blocks` to each.

    Of H8's lists 40 together take 3 us each, one alone 15.

    Raises
    ------
    InputError
        If there are more than `MAX_KEYS` full blocks in a list.
    """
    stored = rows(lists, "prompt_tokens") + rows(lists, "output_tokens")
    stored -= 1
    offsets = np.zeros((len(lists), stored.shape[1] + 1), np.int64)
    (stored // block_size).cumsum(axis=1, out=offsets[: len(stored), 1:])
    offsets[len(stored) :] = offsets[0]
    counts = offsets[:, -1].tolist()
    if max(counts) > MAX_KEYS:
        raise InputError(
            f"cache.block_size: the request list fills {max(counts):,} blocks of {block_size} "
            f"tokens, at most {MAX_KEYS:,} can be told apart: give fewer requests or larger blocks"
        )
    # No two prefixes of these are equal.
    unshared = np.zeros(stored.shape[1], np.int32)
    none = np.zeros(stored.shape[1], np.bool_)
    return [
        BlockKeys(own, _counted(blocks), blocks, unshared, none, none)
        if apart
        else _compared(requests, block_size, ahead, own)
        for requests, own, blocks, apart in zip(
            lists, offsets, counts, _begin_apart(lists), strict=True
        )
    ]


def _compared(
    requests: Requests, block_size: int, ahead: int, offsets: NDArray[np.int64]
) -> BlockKeys:
    """Give keys to requests that may have blocks in common."""
    keys, count = _number(requests, block_size, int(offsets[-1]), ahead)
    reusable = np.zeros(len(requests), np.int32)
    shared, twin = np.zeros((2, len(requests)), np.bool_)
    uses, decoded = np.zeros((2, count), np.int32)
    prompt_blocks = (requests.prompt_tokens - ahead) // block_size
    compare_requests(offsets, prompt_blocks, keys, uses, decoded, reusable, shared, twin)
    return BlockKeys(offsets, keys, count, reusable, shared, twin)


def _begin_apart(lists: Sequence[Requests]) -> Iterator[bool]:
    """Tell of each list whether no two requests begin with the same segment."""
    known: dict[tuple[int, int], bool] = {}  # lists that are drawn together have the same ones
    for requests in lists:
        place = id(requests.segment_ids), id(requests.segment_offsets)
        if place not in known:
            first = requests.segment_ids[requests.segment_offsets[:-1]]
            if not (first[1:] > first[:-1]).all():  # drawn ones are numbered in order
                first.sort()
            known[place] = bool((first[1:] != first[:-1]).all())
        yield known[place]


_counting = np.arange(0, dtype=np.int32)


def _counted(n: int) -> NDArray[np.int32]:
    """Return the numbers 0 to n - 1, which cannot be written to: the beginning of those kept."""
    global _counting
    kept = _counting
    if len(kept) < n:
        if n > MOST_COUNTED:
            return np.arange(n, dtype=np.int32)
        kept = np.arange(min(2 * n, MOST_COUNTED), dtype=np.int32)
        kept.flags.writeable = False
        _counting = kept
    return kept[:n]


def _number(
    requests: Requests, block_size: int, blocks: int, ahead: int
) -> tuple[NDArray[np.int32], int]:
    """Return the key of each of the `blocks` full blocks of all requests, and their number."""
    # The output is the last entry; its last token is never stored, but may be looked ahead at.
    ends = requests.segment_offsets[1:]
    bounds = requests.segment_offsets + np.arange(len(requests) + 1)
    segments = np.insert(requests.segment_ids, ends, requests.output_segment)
    tokens = np.insert(requests.segment_tokens, ends, requests.output_tokens - 1 + ahead)
    entries = len(segments)
    trie = np.full((1 << (4 * entries).bit_length(), 3), NONE)
    branches = np.empty(entries, np.int64)
    longest = np.zeros(2 * entries + 1, np.int64)
    find_branches(bounds, segments, tokens, block_size, ahead, trie, branches, longest)
    lowest = np.cumsum(longest) - longest
    numbers = np.full(int(longest.sum()), NONE)
    keys = np.empty(blocks, np.int32)
    count = number_blocks(bounds, tokens, block_size, ahead, branches, lowest, numbers, keys)
    return keys, count


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


def find_extents(
    begins: NDArray[np.int64], ends: NDArray[np.int64], keys: NDArray[np.int32]
) -> Extents:
    """Divide the keys of each request into extents.

    Parameters
    ----------
    begins, ends : int64 (n,)
        Those of request ``r`` are ``begins[r]`` to ``ends[r] - 1`` of `keys`.
    keys : int32 (total,)
        Keys of `BlockKeys`.

    Returns
    -------
    Extents
        Extents of all requests.
    """
    n_keys = int(keys.max(initial=-1)) + 1
    most = int((ends - begins).sum())
    counts = np.zeros(2, np.int64)
    offsets = np.empty(len(begins) + 1, np.int64)
    numbers, first, end = np.empty((3, most), np.int64)
    uses, extent_of = np.zeros(n_keys, np.int32), np.full(n_keys, NONE)
    divide(begins, ends, keys, uses, extent_of, counts, offsets, numbers, first, end)
    links = int(offsets[-1])
    return Extents(
        offsets=offsets,
        numbers=numbers[:links],
        first=first[:links],
        end=end[:links],
        count=int(counts.sum()),
        shared=int(counts[0]),
    )


def whole_requests(offsets: NDArray[np.int64]) -> Extents:
    """Return the extents of requests that share no key: all blocks of a request are one."""
    blocks = offsets[1:] - offsets[:-1]
    if not blocks.all():
        some = blocks > 0
        bounds = np.concatenate([[0], np.cumsum(some)])
        blocks = blocks[some]
    else:
        bounds = np.arange(len(offsets))
    count = len(blocks)
    return Extents(bounds, np.arange(count), np.zeros(count, np.int64), blocks, count, 0)
