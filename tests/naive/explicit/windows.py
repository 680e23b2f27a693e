"""Groups of full and sliding attention: what windows have left, and what they hit."""


def blocks_left(window, tokens, block_size):
    """Return how many leading blocks no later token looks at, once `tokens` are computed."""
    return 0 if window is None else max(0, tokens - window + 1) // block_size


def classes(windows):
    """Return the groups of each window, full attention first, then as they first occur."""
    found = {}
    for group, window in enumerate(windows):
        found.setdefault(window, []).append(group)
    return sorted(found.items(), key=lambda each: each[0] is not None)


def find_hits(pool, windows, keys, most, block_size, beyond=0):
    """Return what is cached of a sequence, on which all groups agree.

    Parameters
    ----------
    pool : BlockPool
        Its keys are (group, key).
    windows : list of int or None
        Per group.
    keys : list
        Keys of the sequence's blocks.
    most : int
        Tokens that may be found.
    beyond : int
        Blocks that full attention is asked for beyond, and then does without.

    Returns
    -------
    hits : list of list of block
        Per group; None for blocks left of a window.
    tokens : int
        That they hold.
    longest : int
        Tokens of what the first kind of group has: of full attention, if there is any.
    """

    def present(groups, j):
        """Return the blocks of these groups for key `j` if all of them have it."""
        if j >= len(keys):
            return None
        blocks = [pool.lookup((group, keys[j])) for group in groups]
        return None if None in blocks else blocks

    hits = [[] for _ in windows]
    kinds = classes(windows)
    longest = None
    for window, groups in kinds:
        if window is None:
            j = 0
            while j < most // block_size + beyond and (blocks := present(groups, j)):
                for group, block in zip(groups, blocks, strict=True):
                    hits[group].append(block)
                j += 1
            most = longest = max(0, j - beyond) * block_size
    while True:
        before = most
        for window, groups in kinds:
            if window is not None:
                found = _in_window(present, groups, window, most // block_size, block_size)
                for group, row in zip(groups, found, strict=True):
                    hits[group] = row
                most = len(found[0]) * block_size
                longest = most if longest is None else longest
        if most == before or sum(window is not None for window, _ in kinds) <= 1:
            break
    for window, groups in kinds:
        if window is None:
            for group in groups:
                del hits[group][most // block_size :]
    return hits, len(hits[0]) * block_size, longest


def _in_window(present, groups, window, most, block_size):
    """Return the rightmost run of blocks that is as long as the window, behind None.

    If there is none, the run that begins with the sequence.
    """
    need = -(-(window - 1) // block_size)
    rows = [[None] * most for _ in groups]
    run = 0
    for j in range(most - 1, -1, -1):
        blocks = present(groups, j)
        if blocks is None:
            run = 0
            continue
        for row, block in zip(rows, blocks, strict=True):
            row[j] = block
        run += 1
        if run == need:
            return [[None] * j + row[j : j + run] for row in rows]
    return [row[:run] for row in rows]
