"""Groups of layers that keep a recurrent state beside full attention (rules R12.6 to R12.9).

A block of such a group is the state after so many tokens, and only where a chunk ends is there one.
"""

from math import inf

from .tables import Tables


class StateTables(Tables):
    """The blocks of requests of which some groups keep states.

    Attributes
    ----------
    states, checkpoints : list of bool
        Per group, whether it keeps states; whether a chunk may keep the last but one, too.
    longest_chunk : int
        Tokens of the longest chunk.
    drafts : int
        Each draft token has a state of its own, in front of which the request's state stands.
    fresh : set of key
        Keys of states that the schedule under way has published: nobody can use one before its
        end, not even an older block of the same key.
    handed : list of (request, group, block, tokens)
        States behind so many tokens that were published, for a CPU tier to store.
    """

    def __init__(self, pool, engine, cache, role="both"):
        super().__init__(pool, engine, cache, role)
        self.states = [group["kind"] == "state" for group in cache.groups]
        self.checkpoints = [group.get("checkpoint", False) for group in cache.groups]
        limits = engine.max_num_batched_tokens, engine.long_prefill_token_threshold or inf
        self.longest_chunk = min(limits)
        self.drafts = engine.drafts
        self.fresh = set()
        self.tiered = False
        self.handed = []

    def begin(self):
        self.fresh = set()

    def left(self, group, tokens):
        """Return the leading blocks of a group that nobody needs once `tokens` are computed."""
        return max(0, tokens - 1) // self.block_size if self.states[group] and self.caching else 0

    def keeps_states(self, group):
        return self.states[group]

    def pulled_of(self, prompt_tokens):
        """The last token is computed where it is decoded, from the state before it."""
        return max(prompt_tokens - 1, 1)

    def is_keyed_again(self, request, group, place):
        return (group, place) in request.keyed_again

    def most(self, group, tokens):
        """Return the blocks that a group has at a time of a request of so many tokens."""
        if not self.states[group]:
            return self.blocks_for(tokens)
        most = 2 + self.checkpoints[group] if self.caching else 1
        return min(self.blocks_for(tokens), most) + self.drafts

    def _tail(self, group):
        return 1 if self.states[group] else super()._tail(group)

    def find(self, keys, most, beyond=0):
        """Return what all groups have of a sequence: blocks per group, their tokens, the full's."""
        limit = most // self.block_size

        def present(kind, j):
            groups = [group for group, state in enumerate(self.states) if state == kind]
            blocks = [self.pool.lookup((group, keys[j])) for group in groups]
            return None if None in blocks else dict(zip(groups, blocks, strict=True))

        full = 0
        while full < min(limit + beyond, len(keys)) and present(False, full):
            full += 1
        full = hit = max(0, full - beyond)
        while hit > 0 and not present(True, hit - 1):
            hit -= 1
        hits = [[] for _ in self.states]
        for j in range(hit):
            for group, block in present(False, j).items():
                hits[group].append(block)
        if hit:
            for group, block in present(True, hit - 1).items():
                hits[group] = [None] * (hit - 1) + [block]
        return hits, hit * self.block_size, full * self.block_size

    def hits_of_pull(self, request):
        """Return what full attention has, whatever states there are: the last one is pulled.

        If a state is there behind all that, all that have one agree on a place as usual.
        """
        if not self.caching:
            return [[] for _ in self.states], 0
        if self.tiered:  # a connector to a tier needs a state behind all that is hit
            return self.hits(request)
        beyond, most = int(self.drops_last), len(request.known) - 1
        full = self._find_full(request.keys, most, beyond)
        limit, hits = most // self.block_size, []
        for group, state in enumerate(self.states):
            if not state:
                hits.append([self.pool.lookup((group, key)) for key in request.keys[:full]])
                continue
            place = limit
            while place > 0 and not self._has_state(self._alike(group), request.keys[place - 1]):
                place -= 1
            found = self.pool.lookup((group, request.keys[place - 1])) if place else None
            hits.append([None] * (place - 1) + [found] if place else [])
        if any(len(found) > full for found in hits):
            return self.hits(request)
        request.junction = 0
        return hits, full * self.block_size

    def _find_full(self, keys, most, beyond):
        """Return how many blocks of a sequence full attention has."""
        groups = [group for group, state in enumerate(self.states) if not state]
        limit, full = min(most // self.block_size + beyond, len(keys)), 0
        while full < limit and self._has_state(groups, keys[full]):
            full += 1
        return max(0, full - beyond)

    def _has_state(self, groups, key):
        return all(self.pool.lookup((group, key)) is not None for group in groups)

    def _alike(self, group):
        """Return the groups whose states are looked up as one."""
        kind = self.checkpoints[group]
        return [g for g, state in enumerate(self.states) if state and self.checkpoints[g] == kind]

    def split(self, request, n, start):
        """Return how many of `n` tokens a chunk from `start` on has, so that it ends at a block.

        Of the last chunk, the last block that ends within the prompt has a chunk's end, unless it
        is kept from within; and there is one where the blocks end that others have, too.
        """
        size = self.block_size
        goal = max(request.prompt_tokens, len(request.known) - 1)
        if not self.caching or start >= goal:
            return n
        end = start + n
        last = self._last_state(len(request.known))
        inside = end >= goal and all(
            checkpoint and self._keeps(start, end, self._last_state(goal))
            for checkpoint, state in zip(self.checkpoints, self.states, strict=True)
            if state
        )
        if inside:
            last = 0
        if end < goal:
            aligned = end // size * size
            if aligned > start or size <= self.longest_chunk:
                end = aligned
        stops = [last]
        if start % size and not inside:
            stops.append((start // size + 1) * size)
        if start < request.junction < end:
            stops.append(start + (request.junction - start) // size * size)
        end = min([stop for stop in stops if start < stop < end], default=end)
        return max(0, end - start)

    def _last_state(self, tokens):
        """Return where the last state is that a sequence of so many tokens can begin with.

        One token must be left to compute, or the block that a hit does without.
        """
        if self.drops_last:
            return max(tokens // self.block_size - 1, 0) * self.block_size
        return (tokens - 1) // self.block_size * self.block_size

    def _keeps(self, start, end, position):
        """Whether a chunk can keep the state at `position`, within it."""
        size = self.block_size
        beyond = self.blocks_for(end) - 2 > (start - 1) // size
        return start % size == 0 and beyond and start + size <= position < end

    def _keeps_one(self, request, group, start, end):
        """Whether a chunk keeps the last state but one in a group.

        Where it is not to be cached only the chunk does that ends a prefill.
        """
        table, place = request.tables[group], self.blocks_for(end) - 2
        if not self.checkpoints[group] or place < 0:
            return False
        if self.retention == 0 and end < max(request.prompt_tokens, len(request.known) - 1):
            return False
        absent = place >= len(table) - (self.drafts if table else 0) or table[place] is None
        return self._keeps(start, end, self._last_state(end)) and absent

    def need(self, request, tokens, hits, total, *, capped, ahead=0):
        """Return the free blocks that a request takes; more than there are if its hit is fresh."""
        needed = 0
        for group, table in enumerate(request.tables):
            found = hits[group]
            if not self.states[group]:
                needed += max(self.places_for(tokens + ahead) - len(table) - len(found), 0)
            elif not self.caching:
                needed += 0 if table else 1 + self.drafts
            elif found and self.pool.key[found[-1]] in self.fresh:
                return inf
            else:
                more = self.blocks_for(tokens) + self.drafts - len(table) - len(found)
                keeps = self._keeps_one(request, group, total, tokens)
                if not capped:
                    request.keeps[group] = keeps
                    request.kept_end[group] = tokens
                needed += min(more, 1 + keeps + (0 if table else self.drafts))
            needed += sum(block is not None and self.pool.ref[block] == 0 for block in found)
        return needed

    def lacks(self, request, beyond):
        lacks = super().lacks(request, beyond)
        end = len(request.known)
        for group, table in enumerate(request.tables):
            if self.states[group] and self.caching:  # else a request has its only one
                more = self.blocks_for(end) + self.drafts - len(table)
                keeps = self._keeps_one(request, group, request.computed, end)
                lacks += min(more, 1 + keeps + (0 if table else self.drafts))
        return lacks

    def release_left(self, request, tokens):
        """Give back the states before the last one of `tokens` computed tokens."""
        for group, table in enumerate(request.tables):
            left = min(self.left(group, tokens), len(table))
            gone = [block for block in table[:left] if block is not None]
            table[:left] = [None] * left
            self.pool.release(gone)
            self.window_freed += len(gone)

    def extend(self, request, tokens, ahead):
        """Take blocks until each table holds `tokens`: of states those where a chunk ends.

        Who takes none `ahead` has loaded, and gets the states of drafts behind all it loads.
        """
        drafts = self.drafts if ahead else 0
        taken = sum(
            self._extend(request, group, tokens, ahead, drafts) for group in range(len(self.states))
        )
        for table, state in zip(request.tables, self.states, strict=True):
            if state and drafts < self.drafts:
                table.extend(self.pool.take(self.drafts))
                taken += self.drafts
        request.has_states = True
        return taken

    def _extend(self, request, group, tokens, ahead, drafts):
        table = request.tables[group]
        want = self.places_for(tokens + ahead)
        if self.states[group]:
            want = 1 + drafts
            if self.caching:
                want = self.blocks_for(tokens) + drafts
                self._move(request, group, table, want, drafts)
        more = max(want - len(table), 0)
        table.extend(self.pool.take(more))
        return more

    def _move(self, request, group, table, want, drafts):
        """Leave slots empty before the states of a chunk, behind which those of drafts stand."""
        if want <= len(table) and not request.keeps[group]:
            return
        before = len(table)
        between = want - drafts - 1 - request.keeps[group]
        table.extend([None] * (between - before))
        for place in range(max(before - drafts, 0), before):
            if place < between and request.has_states:
                table.append(table[place])
                table[place] = None

    def publish(self, request, tokens):
        before = list(request.published_of)
        super().publish(request, tokens)
        for group, table in enumerate(request.tables):
            if self.states[group]:
                kept, end = self._key_again(request, group)
                for place in range(before[group], request.published_of[group]):
                    block = table[place]
                    if block is not None and self.pool.key[block] is not None:
                        self.fresh.add(self.pool.key[block])
                        tokens = end if place == kept else (place + 1) * self.block_size
                        self._hand(request, group, block, tokens)

    def _key_again(self, request, group):
        """Give the state that a chunk keeps the key of what it is behind; return slot and tokens.

        Where the last block of a hit is dropped that is a block before the slot's own end, unless
        the chunk ends with a block. If nobody can begin with it, it loses the key that it has got.
        """
        if not (self.drops_last and request.keeps[group]):
            return None, 0
        place = self.blocks_for(request.kept_end[group]) - 2
        end = self._last_state(request.kept_end[group])
        block = request.tables[group][place]
        ends = [self._last_state(request.prompt_tokens), request.junction]
        every = 1 if self.retention is None else self.retention // self.block_size
        key = (group, request.keys[end // self.block_size - 1])
        if end not in ends and not (every > 0 and end // self.block_size % every == 0):
            if block is not None and self.pool.key[block] is not None:
                self.pool.evict(block)
        elif block is not None and self.pool.key[block] != key:
            if self.pool.key[block] is not None:
                self.pool.forget(block)
            self.pool.publish(block, key)
        request.keyed_again.add((group, place))
        return place, end

    def _hand(self, request, group, block, tokens):
        if self.tiered:
            self.handed.append((request, group, block, tokens))

    def take_handed(self):
        """Return what was handed over since the last schedule, by request, each group by group."""
        found = {}
        for item in sorted(self.handed, key=lambda item: item[1]):
            found.setdefault(item[0], []).append(item[1:])
        self.handed = []
        return found

    def forget_handed(self, request):
        """Forget what was handed over of a request whose blocks may become another's."""
        self.handed = [item for item in self.handed if item[0] is not request]

    def clear(self, request):
        super().clear(request)
        self.forget_handed(request)
        request.keeps = [False for _ in self.states]
        request.kept_end = [0 for _ in self.states]
        request.keyed_again = set()
        request.has_states = False
