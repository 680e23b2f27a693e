"""The compiled part of `hits`: one pass over a request list for every capacity, or for one.

Requests are one after the other, each alone. They have links, the extents of `workload.blocks`: of
a request, those from ``bounds[r]`` to ``bounds[r + 1] - 1``, in order of their place in it. The
arrays to write are given by the caller, as compiled code allocates nothing. This file is compiled
by itself: it takes nothing of other files but the decorators.
"""

import numpy as np

from kvsweep._jit import kernel, leaf

NOTHING = np.int64(-1)


@leaf
def _add(tree, at, amount):
    """Add to the number at a place of a Fenwick tree, from 1 on."""
    while at < tree.shape[0]:
        tree[at] += amount
        at += at & -at


@leaf
def _sum_to(tree, at):
    """Return the sum of the numbers up to and at a place."""
    total = np.int64(0)
    while at > 0:
        total += tree[at]
        at &= at - 1
    return total


@kernel
def count_by_capacity(bounds, numbers, sizes, worth, partial, tree, last, steps, remade):
    """Count hits under LRU by the least number of blocks that gives them.

    A block is there if it, the blocks used since and, at each time, a partial block beside them fit
    together. Blocks used since are those of larger places in the `tree`: who is used gets a new
    place, the last extent of a request first, as vLLM frees it.

    Parameters
    ----------
    bounds, numbers : int64
        Links of each request; their extents.
    sizes, worth : int64 (links,)
        Blocks of each link; how many of them a request takes from the cache if they are there.
    partial : bool (n,)
        Whether a request has a last block that does not become full.
    tree : int32 (links + 1,)
        Zeros.
    last : int64 (extents,)
        Place of each extent; zeros: nobody had it yet.
    steps : int64
        Changes, from capacity to capacity, of the hits that need just so many blocks. Zeros.
    remade : int64 (2,)
        Zero and the largest number: they become the blocks that are made again though another of
        the same content may be there, and the least capacity for which one is.
    """
    count = np.int64(0)
    total = np.int64(0)
    # Places below this one had as many blocks above them when a partial block was last there.
    unchanged = np.int64(0)
    for r in range(bounds.shape[0] - 1):
        oldest = tree.shape[0] + np.int64(0)
        for link in range(bounds[r], bounds[r + 1]):
            place = last[numbers[link]]
            oldest = min(oldest, place)
            if place > 0:
                need = total - _sum_to(tree, place) + 1
                need += place < unchanged
                steps[need] += 1
                steps[need + worth[link]] -= 1
                if worth[link] < sizes[link]:
                    remade[0] += sizes[link] - worth[link]
                    remade[1] = min(remade[1], need + worth[link])
        for back in range(bounds[r + 1] - bounds[r]):
            link = bounds[r + 1] - 1 - back
            place = last[numbers[link]]
            if place > 0:
                _add(tree, place, -sizes[link])
            else:
                total += sizes[link]
            count += 1
            _add(tree, count, sizes[link])
            last[numbers[link]] = count
        if partial[r]:
            unchanged = tree.shape[0] + np.int64(0)
        else:
            unchanged = min(unchanged, oldest)


@kernel
def find_next_uses(bounds, numbers, worth, coming, follows):
    """Find the next link with the same extent, if something of it is taken from the cache there.

    `coming`, by extent, and `follows`, by link, begin with -1.
    """
    for back in range(bounds[bounds.shape[0] - 1]):
        link = bounds[bounds.shape[0] - 1] - 1 - back
        following = coming[numbers[link]]
        if following != NOTHING and worth[following] > 0:
            follows[link] = following
        coming[numbers[link]] = link


@leaf
def _push(heap, count, value):
    """Put a value among the `count` of a heap whose first one is the largest."""
    at = count
    while at > 0 and heap[(at - 1) >> 1] < value:
        heap[at] = heap[(at - 1) >> 1]
        at = (at - 1) >> 1
    heap[at] = value


@leaf
def _pop(heap, count):
    """Take the largest of `count` values off the heap."""
    value = heap[count - 1]
    at = np.int64(0)
    child = np.int64(1)
    while child < count - 1:
        if child + 1 < count - 1 and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= value:
            break
        heap[at] = heap[child]
        at = child
        child = 2 * at + 1
    heap[at] = value


@kernel
def count_optimum(bounds, worth, follows, needs, capacity, kept, heap):
    """Return the most blocks that any policy finds in a cache of `capacity` blocks (Belady's).

    What is used again last makes room first. Who uses a block uses the blocks before it, so of one
    request the later links go first: those of larger numbers, whatever the request.

    Parameters
    ----------
    bounds, worth, follows : int64
        As of `count_by_capacity` and `find_next_uses`.
    needs : int64 (n,)
        Blocks that each request holds in the end; none more than `capacity`.
    kept : int64 (links,)
        Zeros: blocks that are there for a coming link.
    heap : int64 (links,)
        Room for the coming links of which blocks may be there.
    """
    hits = np.int64(0)
    total = np.int64(0)
    count = np.int64(0)
    for r in range(bounds.shape[0] - 1):
        for link in range(bounds[r], bounds[r + 1]):
            hits += kept[link]
            total -= kept[link]
            kept[link] = 0
        excess = total - (capacity - needs[r])
        while excess > 0:
            link = heap[0]
            freed = min(kept[link], excess)
            kept[link] -= freed
            total -= freed
            excess -= freed
            if kept[link] == 0:
                _pop(heap, count)
                count -= 1
        for link in range(bounds[r], bounds[r + 1]):
            coming = follows[link]
            if coming != NOTHING:
                kept[coming] = worth[coming]
                total += worth[coming]
                _push(heap, count, coming)
                count += 1
    return hits
