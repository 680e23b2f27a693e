"""vLLM's free blocks, compiled: what one cache finds of requests that come one after the other.

Each request is alone. Unlike `stack`, it has several blocks of the same content side by side, as
vLLM does. This file is compiled by itself: it takes nothing of other files but the decorators.
"""

import numpy as np

from kvsweep._jit import kernel, leaf

NOTHING = np.int64(-1)


@leaf
def _unlink(after, before, block):
    after[before[block]] = after[block]
    before[after[block]] = before[block]


@leaf
def _link(after, before, block, behind):
    """Put a block among the free ones, next after `behind`."""
    after[block] = after[behind]
    before[block] = behind
    before[after[behind]] = block
    after[behind] = block


@leaf
def _forget(key, newer, older, oldest, newest, block):
    """Let a block that is taken lose its content."""
    content = key[block]
    if content != NOTHING:
        if older[block] != NOTHING:
            newer[older[block]] = newer[block]
        else:
            oldest[content] = newer[block]
        if newer[block] != NOTHING:
            older[newer[block]] = older[block]
        else:
            newest[content] = older[block]
        key[block] = NOTHING


@leaf
def _publish(key, newer, older, oldest, newest, block, content):
    key[block] = content
    older[block] = newest[content]
    newer[block] = NOTHING
    if newest[content] != NOTHING:
        newer[newest[content]] = block
    else:
        oldest[content] = block
    newest[content] = block


@kernel
def count_in_pool(
    offsets, keys, most, partial, after, before, key, newer, older, oldest, newest, table
):
    """Return the blocks that requests, one after the other, find in the cache of an instance.

    Parameters
    ----------
    offsets, keys : int64, int32
        Of `workload.blocks.BlockKeys`.
    most : int64 (n,)
        Blocks that a request may take from the cache.
    partial : bool (n,)
        Whether it has a last block that does not become full.
    after, before : int64 (capacity + 1,)
        Neighbours among the free blocks, which are all, in the order in which they are taken; the
        last entry is both ends.
    key : int64 (capacity,)
        Content of each block: -1.
    newer, older : int64 (capacity,)
        Neighbours among the blocks of one content: -1.
    oldest, newest : int64 (keys,)
        Blocks of each content: -1.
    table : int64 (capacity,)
        Room for the blocks of a request.
    """
    ends = key.shape[0]
    hits = np.int64(0)
    for r in range(most.shape[0]):
        full = offsets[r + 1] - offsets[r]
        found = np.int64(0)
        while found < most[r] and oldest[keys[offsets[r] + found]] != NOTHING:
            found += 1
        hits += found
        for j in range(found):
            table[j] = oldest[keys[offsets[r] + j]]
            _unlink(after, before, table[j])
        for j in range(found, full + partial[r]):
            table[j] = after[ends]
            _unlink(after, before, table[j])
            _forget(key, newer, older, oldest, newest, table[j])
            if j < full:
                content = keys[offsets[r] + j]
                _publish(key, newer, older, oldest, newest, table[j], content)
        if partial[r]:
            _link(after, before, table[full], ends)
        for back in range(full):
            _link(after, before, table[full - 1 - back], before[ends])
    return hits
