"""The compiled part of `blocks`: loops over all blocks of all requests of a list.

Names as there. The arrays to write are given by the caller, as compiled code allocates nothing.
(Conversations: 0.3 us per request and 10 without, where most were loops over Python objects.)
"""

import numpy as np

from kvsweep._jit import kernel, leaf
from kvsweep.records import NONE

ROOT = np.int64(0)
# Primes near 2**32, which spread neighbouring numbers over the table (those of xxHash). Times 31
# bits they do not overflow, as compiled code would allow and plain Python would not.
_MIX_STATE = np.int64(2654435761)
_MIX_LABEL = np.int64(2246822519)
_LOW = np.int64(2**31 - 1)


@leaf
def _follow(trie, state, label, count):
    """Return where `label` leads from `state`: the new state `count` if nobody went there.

    The trie is a hash table, less than half full, of (state, label, next state).
    """
    mask = trie.shape[0] - 1
    low = (label ^ (label >> 31)) & _LOW
    mixed = (state * _MIX_STATE) ^ (low * _MIX_LABEL)
    slot = (mixed ^ (mixed >> 29)) & mask
    while trie[slot, 0] != NONE and (trie[slot, 0] != state or trie[slot, 1] != label):
        slot = (slot + 1) & mask
    if trie[slot, 0] == NONE:
        trie[slot, 0] = state
        trie[slot, 1] = label
        trie[slot, 2] = count
    return trie[slot, 2]


@leaf
def _keys_of(tokens, block_size, ahead):
    """Return the keys that end within the first `tokens` of a sequence."""
    return max(tokens - ahead, 0) // block_size


@kernel
def find_branches(bounds, segments, tokens, block_size, ahead, trie, branches, longest):
    """Find the branch of each entry and the most blocks whose keys end in each branch.

    The entries of request ``r`` are ``bounds[r]`` to ``bounds[r + 1] - 1``, its output the last.
    A key ends `ahead` tokens behind its block.
    """
    count = ROOT + 1
    for r in range(bounds.size - 1):
        state = ROOT
        position = 0
        for entry in range(bounds[r], bounds[r + 1]):
            branch = _follow(trie, state, segments[entry], count)
            count = max(count, branch + 1)
            end = position + tokens[entry]
            blocks = _keys_of(end, block_size, ahead) - _keys_of(position, block_size, ahead)
            longest[branch] = max(longest[branch], blocks)
            branches[entry] = branch
            state = _follow(trie, branch, tokens[entry], count)
            count = max(count, state + 1)
            position = end


@kernel
def number_blocks(bounds, tokens, block_size, ahead, branches, lowest, numbers, keys):
    """Write the key of each block, in order of occurrence; return how many there are.

    Block ``j`` that ends in a branch has its number at ``lowest[branch] + j``.
    """
    count = 0
    slot = 0
    for r in range(bounds.size - 1):
        position = 0
        for entry in range(bounds[r], bounds[r + 1]):
            end = position + tokens[entry]
            first = lowest[branches[entry]]
            blocks = _keys_of(end, block_size, ahead) - _keys_of(position, block_size, ahead)
            for place in range(first, first + blocks):
                if numbers[place] == NONE:
                    numbers[place] = count
                    count += 1
                keys[slot] = numbers[place]
                slot += 1
            position = end
    return count


@kernel
def compare_requests(offsets, prompt_blocks, keys, uses, decoded, reusable, shared, twin):
    """Find what each request has in common with others; `uses` and `decoded` begin with zeros.

    They count the requests that have a key, and those that have it beyond their prompt.
    """
    n = prompt_blocks.size
    for r in range(n):
        for slot in range(offsets[r], offsets[r + 1]):
            uses[keys[slot]] += 1
            decoded[keys[slot]] += slot - offsets[r] >= prompt_blocks[r]
    for r in range(n):
        slot = offsets[r]
        while slot < offsets[r + 1] and uses[keys[slot]] > 1:
            own = slot - offsets[r] >= prompt_blocks[r]
            shared[r] = shared[r] or own
            twin[r] = twin[r] or (own and decoded[keys[slot]] > 1)
            slot += 1
        reusable[r] = slot - offsets[r]


@leaf
def _number_extent(key, users, extent_of, counts):
    """Return the number of an extent that begins with `key`; below 0 if it has one user."""
    if users == 1:
        counts[1] += 1
        return -counts[1]
    if extent_of[key] == NONE:
        extent_of[key] = counts[0]
        counts[0] += 1
    return extent_of[key]


@kernel
def divide(begins, ends, keys, uses, extent_of, counts, offsets, numbers, first, end):
    """Divide the keys of slots ``begins[r]`` to ``ends[r] - 1`` of each request into extents.

    Who has a key has those before it. So two neighbours are of the same requests if they are of
    equally many. `uses` and `counts` (shared, private extents) begin with zeros.
    """
    for r in range(begins.size):
        for slot in range(begins[r], ends[r]):
            uses[keys[slot]] += 1
    link = NONE
    for r in range(begins.size):
        offsets[r] = link + 1
        users = 0
        for slot in range(begins[r], ends[r]):
            if uses[keys[slot]] != users:
                link += 1
                users = uses[keys[slot]]
                first[link] = slot - begins[r]
                numbers[link] = _number_extent(keys[slot], users, extent_of, counts)
            end[link] = slot - begins[r] + 1
    offsets[begins.size] = link + 1
    for place in range(link + 1):
        if numbers[place] < 0:
            numbers[place] = counts[0] - 1 - numbers[place]
