"""vLLM's OffloadingConnector for several groups: each has its own chunks, all share the tier.

A chunk of a group is `offload_block_factor` of its blocks; its key is the number of the group and
the key of the last of them.
"""

from dataclasses import dataclass

from ..offload.connector import Connector, Entry, Job, Work
from ..offload.manager import BEING_WRITTEN


def up(tokens, size):
    """Return how many pieces of a size hold so many tokens."""
    return -(-tokens // size)


@dataclass(eq=False)
class TieredEntry(Entry):
    """What the connector knows of a request.

    Attributes
    ----------
    keys : list of list
        Per group the keys of its chunks.
    next : list of int
        Per group its first chunk that was not offered yet.
    blocks : list of list
        Per group its blocks on the GPU; None where there is none, or where it has become another's.
    done : bool
        Whether it has finished.
    """

    done: bool = False

    def place(self, key):
        """Return what a request's chunks stand in order by."""
        return self.position[key], key[0]


class TieredConnector(Connector):
    """The copies of one engine with groups, or with drafts.

    Attributes
    ----------
    windows : list of int or None
        Per group; of a group of states that of its last block.
    states : list of bool
        Per group, whether it keeps states; they are stored as they are handed over.
    head : int or None
        The group with the layers of an EAGLE head, which may still write to the last chunk of a
        decoding request: the first one of full attention.
    """

    def __init__(self, cache, engine):
        super().__init__(cache, engine.enable_prefix_caching)
        self.states = [group["kind"] == "state" for group in cache.groups] or [False]
        self.windows = [
            1 if state else window for state, window in zip(self.states, cache.windows, strict=True)
        ]
        self.retention = cache.prefix_cache_retention_interval
        self.head = self.windows.index(None) if engine.eagle else None

    def _entry(self, request):
        """Return what is known of a request, with the keys of all its full chunks."""
        if request not in self.entries:
            empty = [[[] for _ in self.windows] for _ in range(2)]
            self.entries[request] = TieredEntry(
                keys=empty[0], next=[0 for _ in self.windows], blocks=empty[1]
            )
        entry = self.entries[request]
        for group, keys in enumerate(entry.keys):
            first = self.factor * (len(keys) + 1)
            for last in range(first, len(request.keys) + 1, self.factor):
                key = (group, request.keys[last - 1])
                keys.append(key)
                entry.position[key] = last * self.block_size
        return entry

    def match(self, request, local):
        """Return the tokens that can be loaded beyond `local` ones on the GPU; None: ask later."""
        entry = self._entry(request)
        entry.blocks = [[] for _ in self.windows]
        entry.next = [0 for _ in self.windows]
        found = None if entry.jobs else self._find(entry, len(request.known), local)
        if found and self._are_being_loaded(entry, local, found):
            found = None
        if found is None:
            self.later.append(request)
        return found

    def _find(self, entry, most, local):
        """Return the tokens beyond `local` that all groups have; None: some are being written.

        Full attention first, then windows, the widest first. A group that has less sends all back
        to those with windows, as they may not have what they need before that place.
        """
        slide = sorted(
            (g for g, window in enumerate(self.windows) if window is not None),
            key=lambda g: -up(self.windows[g], self.chunk),
        )
        full = [g for g, window in enumerate(self.windows) if window is None]
        most -= bool(slide)
        if any(self.states):
            most -= most % self.chunk
        tokens, waits, popped = 0, False, False
        groups = full + slide
        while groups:
            slid, again = False, []
            for group in groups:
                keys = entry.keys[group]
                most = min(most, len(keys) * self.chunk)
                if most - local < self.chunk:
                    return 0
                pops = group == self.head and not popped
                hits = self._hits(group, keys, most, local, pops)
                if hits == 0:
                    return 0
                if hits is None:
                    waits = True
                else:
                    popped |= pops
                    most = min(most, self.chunk * (local // self.chunk + hits - pops))
                if most - local < self.chunk:
                    return 0
                if most - local < tokens:
                    popped &= group == self.head
                    if waits:
                        waits, again = False, full + slide
                    elif slid and not again:
                        again = slide
                slid |= self.windows[group] is not None
                tokens = most - local
            groups = again
        return None if waits else tokens

    def _hits(self, group, keys, most, local, pops):
        """Return how many chunks from `local` on a group has, up to `most` tokens.

        With a window: up to the end of the last stretch that is long enough. None: some of it is
        being written. With `pops` one chunk more is looked for, with which the caller does without.
        """
        ahead = min(most + self.chunk, len(keys) * self.chunk) if pops else most
        end = min(up(ahead, self.chunk), len(keys))
        keys = keys[local // self.chunk : end]
        if self.windows[group] is None:
            return self._run(keys)
        right = min(most, (end - pops) * self.chunk)
        return self._stretch(
            keys,
            up(self.windows[group], self.chunk) + pops,
            self._chunks_needed(group, right) + pops,
        )

    def _run(self, keys):
        count, waits = 0, False
        for key in keys:
            if key not in self.manager.chunks:
                break
            count += 1
            waits |= self.manager.chunks[key] == BEING_WRITTEN
        return None if waits else count

    def _stretch(self, keys, need, need_at_end):
        run, waits = 0, False
        for j in range(len(keys) - 1, -1, -1):
            if keys[j] in self.manager.chunks:
                run += 1
                waits |= self.manager.chunks[keys[j]] == BEING_WRITTEN
            else:
                run, waits, need_at_end = 0, False, need
            if run == need_at_end:
                return None if waits else j + run
        return None if waits else run

    def _chunks_needed(self, group, tokens):
        """Return the last chunks of so many tokens that a window looks at: at their end, too."""
        window = self.windows[group]
        if self.states[group]:
            return 1
        beyond = window - 1 + -tokens % self.chunk
        return max(up(window, self.chunk), up(beyond, self.chunk))

    def _are_being_loaded(self, entry, local, found):
        """Whether chunks of it will soon be on the GPU anyway."""
        for group, keys in enumerate(entry.keys):
            keys = keys[local // self.chunk : up(local + found, self.chunk)]
            if self.windows[group] is not None:
                keys = keys[-self._chunks_needed(group, local + found) :]
            present = [key for key in keys if key in self.manager.chunks]
            if self._being_loaded(present):
                return True
        return False

    def load(self, request, local, tokens):
        """Load `tokens` beyond `local` into the blocks of a request that are new."""
        entry = self.entries[request]
        end = up(local + tokens, self.chunk)
        keys, count = [], 0
        for group, table in enumerate(request.tables):
            last = up(local + tokens, self.block_size)
            fresh = range(local // self.block_size, last)
            first = next((j for j in fresh if table[j] is not None), last)
            if first < last:
                keys += entry.keys[group][first // self.factor : end]
            count += last - first
            entry.next[group] = end
        self.manager.read(keys, entry)
        self._add(Job("load", request, keys, count * self.block_size), self.loads)

    def build(self, scheduled, admitted, taken, preempted, handed):
        """Return the work of the step just scheduled; nothing of it counts as computed yet.

        `taken` has per running request the blocks of each group that it got in this step, `handed`
        per request the states that were cached.
        """
        before = {}
        for request in scheduled:
            entry = self._entry(request)
            if request in admitted:
                before[request] = [0 for _ in self.windows]
                entry.blocks = [list(table) for table in request.tables]
            else:
                before[request] = [len(blocks) for blocks in entry.blocks]
                for blocks, new in zip(entry.blocks, taken[request], strict=True):
                    blocks += new
                    self.touched.update(new)
        self._forget_taken(before)
        flush = {job for request in preempted for job in self._entry(request).jobs}
        flush -= set(self.loads)
        for block in self.touched:
            flush.update(self.pending.get(block, ()))
        work = Work(self.loads, [], flush)
        for request, states in handed.items():
            self._store_states(request, states, work)
        for request, n in scheduled.items():
            self._offer(request, request.computed + n, work)
        for request in self.finished:
            self._offer(request, max(request.prompt_tokens, len(request.known) - 1), work)
        for request in self.finished:
            self.manager.finish(self._entry(request))
        self.finished = []
        return work

    def _forget_taken(self, before):
        """Forget blocks that a window had left, and that have become another's in this step."""
        for request, entry in self.entries.items():
            for group, blocks in enumerate(entry.blocks):
                if self.windows[group] is None:
                    continue
                end = before[request][group] if request in before else len(blocks)
                for j in range(entry.next[group] * self.factor, end):
                    if blocks[j] in self.touched:
                        blocks[j] = None

    def _end(self, entry, group, tokens, request):
        """Return the first chunk of a group that may not be stored yet."""
        chunks = tokens // self.chunk
        if group == self.head and tokens > request.prompt_tokens and not entry.done:
            chunks = max(0, chunks - 1)
        return min(chunks, len(entry.blocks[group]) // self.factor, len(entry.keys[group]))

    def _offer(self, request, tokens, work):
        """Store the chunks of the first `tokens` that were not offered yet, all or none."""
        entry = self._entry(request)
        tokens = min(tokens, len(request.known))
        if self.prompt_only:
            tokens = min(tokens, request.prompt_tokens)
        ends = [self._end(entry, group, tokens, request) for group in range(len(self.windows))]
        offered = [
            (group, j)
            for group, end in enumerate(ends)
            if not self.states[group]
            for j in range(entry.next[group], end)
            if self._is_of_use(request, group, j, self._blocks(entry, group, j))
        ]
        keys = [entry.keys[group][j] for group, j in offered]
        new = self.manager.store(keys, entry) if keys else []
        if new is None:
            self.refused.append(request)
            return
        if new:
            chunks = [place for place in offered if entry.keys[place[0]][place[1]] in new]
            self._store(request, entry, new, chunks, work)
        entry.next = [max(pair) for pair in zip(entry.next, ends, strict=True)]

    def _store_states(self, request, states, work):
        """Store states where chunks end, a copy each; who finds no room is not asked again."""
        entry = self._entry(request)
        limit = request.prompt_tokens if self.prompt_only else len(request.known)
        for group, block, tokens in states:
            if tokens > limit or tokens % self.chunk:
                continue
            key = entry.keys[group][tokens // self.chunk - 1]
            new = self.manager.store([key], entry)
            if new is None:
                self.refused.append(request)
            elif new:
                job = Job("store", request, [key], self.block_size, [block])
                job.kept = []
                self._add(job, work.stores)
                self.pending.setdefault(block, set()).add(job)

    def _blocks(self, entry, group, chunk):
        return entry.blocks[group][chunk * self.factor : (chunk + 1) * self.factor]

    def _is_of_use(self, request, group, chunk, blocks):
        """Whether a hit may need a chunk, and all of its blocks that it may need are there."""
        first = chunk * self.factor
        needed = [self._may_need(request, group, first + j) for j in range(self.factor)]
        whole = all(block is not None for block, need in zip(blocks, needed, strict=True) if need)
        return blocks[-1] is not None and any(needed) and whole

    def _may_need(self, request, group, block):
        """Whether a hit needs a block that ends at a chunk; or, if told, at some of them."""
        window = self.windows[group]
        if window is None:
            return True
        tail = up(window - 1, self.block_size)
        every, ends = self.factor, []
        if self.retention is not None:
            every = self.retention // self.block_size
            ends = [request.prompt_tokens - 1, request.junction]
        kept = every > 0 and (tail >= every or block % every >= every - tail)
        last = [end // self.chunk * self.factor for end in ends]
        return kept or any(end - tail <= block < end for end in last)

    def _store(self, request, entry, keys, chunks, work):
        """Store chunks; what windows have left may become another's before their request ends."""
        blocks = {False: [], True: []}
        for group, chunk in chunks:
            there = [b for b in self._blocks(entry, group, chunk) if b is not None]
            blocks[self.windows[group] is not None] += there
        size = self.block_size * (len(blocks[False]) + len(blocks[True]))
        job = Job("store", request, keys, size, blocks[False] + blocks[True])
        job.kept = blocks[False]
        self._add(job, work.stores)
        for block in blocks[True]:
            self.pending.setdefault(block, set()).add(job)
        if request in self.finished:
            self._protect(job)
            if self.touched.intersection(job.kept):
                work.flush.add(job)

    def finish(self, request):
        self._entry(request).done = True
        super().finish(request)
