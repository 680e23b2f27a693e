"""Blocks of requests with one table for each group; all groups share one pool."""

from .windows import blocks_left, find_hits


class Tables:
    """The blocks of an engine's requests.

    Attributes
    ----------
    windows : list of int or None
        Per group; None: full attention.
    longest : int or float
        Tokens of the longest request; beyond it no token has a place.
    in_flight_tokens : int
        Tokens that batches on their way may hold at once.
    window_freed : int
        Blocks given back because their window had left them.
    drops_last : bool
        Whether a request does without the last block that it hits.
    retention : int or None
        Tokens between the places at which windows and states keep what a hit needs that ends
        there, 0: there are none but the end of the prompt and a junction; None: they keep all.
    """

    def __init__(self, pool, engine, cache, role="both"):
        self.pool = pool
        self.block_size = cache.block_size
        self.caching = engine.enable_prefix_caching
        self.windows = cache.windows
        self.longest = engine.longest
        self.in_flight_tokens = engine.depth * engine.max_num_batched_tokens
        self.window_freed = 0
        self.drops_last = engine.looks_ahead and role != "both"
        self.retention = cache.prefix_cache_retention_interval

    def begin(self):
        """Begin a schedule."""

    def left(self, group, tokens):
        """Return the leading blocks of a group that nobody needs once `tokens` are computed."""
        return blocks_left(self.windows[group], tokens, self.block_size)

    def keeps_states(self, group):
        """Whether the blocks of a group are states."""
        return False

    def is_keyed_again(self, request, group, place):
        """Whether a block has another key than that of the tokens which end in its slot."""
        return False

    def pulled_of(self, prompt_tokens):
        """Return how many tokens of a prompt a prefill instance computes for another."""
        return prompt_tokens

    def take_handed(self):
        """Return the states that a CPU tier is to store, by request."""
        return {}

    def forget_handed(self, request):
        """Let no state be stored of a request that has finished."""

    def split(self, request, n, start):
        """Return how many of `n` tokens from `start` on a chunk has."""
        return n

    def find(self, keys, most, beyond=0):
        """Return the cached blocks of a sequence, per group, their tokens, and the first class's.

        Those are of full attention, if there is any, which is asked for blocks `beyond`, without
        which it does.
        """
        return find_hits(self.pool, self.windows, keys, most, self.block_size, beyond)

    def blocks_for(self, tokens):
        return -(-tokens // self.block_size)

    def places_for(self, tokens):
        """Return the blocks that have places for so many tokens, drafts to come among them."""
        return self.blocks_for(min(tokens, self.longest))

    def most(self, group, tokens):
        """Return the most blocks that a group plans for a request of so many tokens."""
        window = self.windows[group]
        need = self.blocks_for(tokens)
        if window is None:
            return need
        return min(need, self.blocks_for(window - 1 + self.in_flight_tokens) + 1)

    def hits(self, request):
        """Return the cached blocks that a request may use, per group, and their tokens.

        Where other requests have the same blocks beyond, but not in all groups, it notes the end
        of those.
        """
        request.junction = 0
        if not self.caching:
            return [[] for _ in self.windows], 0
        beyond = int(self.drops_last and len(self.windows) > 1)
        hits, tokens, longest = self.find(request.keys, len(request.known) - 1, beyond)
        request.junction = longest if longest > tokens else 0
        if self.drops_last and tokens and not beyond:
            hits, tokens = [found[:-1] for found in hits], tokens - self.block_size
        return hits, tokens

    def hits_of_pull(self, request):
        """Return what a request may use if the rest of its prompt is pulled."""
        return self.hits(request)

    def need(self, request, tokens, hits, total, *, capped, ahead=0):
        """Return the free blocks that a request takes to hold `tokens`, of which `total` are there.

        And `ahead` places more, for drafts.
        Hits that nobody uses are free until then, and so are among them.
        """
        needed = 0
        for group, table in enumerate(request.tables):
            want = self.most(group, tokens) if capped else self.places_for(tokens + ahead)
            if table:
                needed += max(want - len(table), 0)
                continue
            left = self.left(group, total)
            needed += max(want - max(left, len(hits[group])), 0)
            used = [block for block in hits[group][left:] if block is not None]
            needed += sum(self.pool.ref[block] == 0 for block in used)
        return needed

    def lacks(self, request, beyond):
        """Return the blocks that a request will still take for what it knows and `beyond` that."""
        tokens = len(request.known) + beyond
        return sum(
            max(self.most(group, tokens) - len(table), 0)
            for group, table in enumerate(request.tables)
            if not self.keeps_states(group)
        )

    def release_left(self, request, tokens):
        """Give back the blocks that windows have left once `tokens` are computed."""
        for group, table in enumerate(request.tables):
            left = min(self.left(group, tokens), len(table))
            gone = []
            while left > 0 and table[left - 1] is not None:
                left -= 1
                gone.append(table[left])
                table[left] = None
            self.pool.release(gone[::-1])
            self.window_freed += len(gone)

    def use(self, request, hits, total):
        """Begin the tables of a request with cached blocks; return how many it uses."""
        used = 0
        for group, found in enumerate(hits):
            left = self.left(group, total)
            there = [block for block in found[left:] if block is not None]
            self.pool.touch(there)
            used += len(there)
            request.tables[group] = [None] * left + found[left:]
            request.published_of[group] = len(request.tables[group])
        return used

    def extend(self, request, tokens, ahead):
        """Take blocks until each table holds `tokens`, and drafts `ahead`; return how many."""
        taken = 0
        for table in request.tables:
            more = max(self.places_for(tokens + ahead) - len(table), 0)
            table.extend(self.pool.take(more))
            taken += more
        return taken

    def _tail(self, group):
        """Return the last blocks that a group needs of a hit, None: all."""
        window = self.windows[group]
        return None if window is None else self.blocks_for(window - 1)

    def is_kept(self, request, group, block):
        """Whether a group keeps a block in the cache: one that a hit needs which ends somewhere.

        That is at the last block that a repeated prompt hits, at the junction, or at a multiple of
        the interval.
        """
        tail = self._tail(group)
        if tail is None or self.retention is None:
            return True
        ends = [*self._replayed(request.prompt_tokens), request.junction // self.block_size]
        every = self.retention // self.block_size
        kept = every > 0 and (tail >= every or block % every >= every - tail)
        return kept or any(end - tail <= block < end for end in ends)

    def _replayed(self, tokens):
        """Return at which blocks a repeated prompt may end its hit.

        Where the last block is dropped that is one before; and the prompt may be repeated with
        more behind it.
        """
        if not self.drops_last:
            return [(tokens - 1) // self.block_size]
        return [max((end // self.block_size) - 1, 0) for end in (tokens - 1, tokens)]

    def publish(self, request, tokens):
        """Make the full blocks of the first `tokens` findable that have a key, and are kept."""
        if not self.caching:
            return
        full = min(tokens // self.block_size, len(request.keys))
        for group, table in enumerate(request.tables):
            for j in range(request.published_of[group], full):
                if table[j] is not None and self.is_kept(request, group, j):
                    self.pool.publish(table[j], (group, request.keys[j]))
            request.published_of[group] = max(request.published_of[group], full)

    def release(self, request):
        """Give all blocks of a request back, group by group."""
        for table in request.tables:
            self.pool.release([block for block in table if block is not None])
        self.clear(request)

    def release_at_once(self, request):
        """Give them back as one, the last group first."""
        blocks = [block for table in request.tables for block in table if block is not None]
        self.pool.release(blocks)
        self.clear(request)

    def clear(self, request):
        """Let a request begin without blocks."""
        request.tables = [[] for _ in self.windows]
        request.published_of = [0 for _ in self.windows]
