"""vLLM's OffloadingConnector, scheduler side: what is loaded and stored, and what must be awaited.

A chunk is `offload_block_factor` blocks of the GPU; its key is that of the last of them.
"""

from dataclasses import dataclass, field

from .manager import BEING_WRITTEN, Manager, Owner


@dataclass(eq=False)
class Job:
    """A copy, ``load`` to the GPU or ``store`` to the CPU, of chunks of a request.

    `blocks` are those that a store reads, `kept` those of them that its request keeps until it
    finishes; `end_us` is known once it is submitted.
    """

    kind: str
    request: object
    keys: list
    tokens: int
    blocks: list = field(default_factory=list)
    kept: list = field(default_factory=list)
    end_us: int | None = None


@dataclass
class Work:
    """What a step asks of the device: loads and stores that it creates, copies that it awaits."""

    loads: list = field(default_factory=list)
    stores: list = field(default_factory=list)
    flush: set = field(default_factory=set)


@dataclass(eq=False)
class Entry(Owner):
    """What the connector knows of a request besides what the manager remembers.

    Attributes
    ----------
    keys : list
        Keys of its chunks.
    next : int
        Its first chunk that was not offered yet.
    blocks : list
        Its blocks on the GPU.
    jobs : list of Job
        Its copies that are not reported.
    """

    keys: list = field(default_factory=list)
    next: int = 0
    blocks: list = field(default_factory=list)
    jobs: list = field(default_factory=list)


class Connector:
    """The copies of one engine.

    Attributes
    ----------
    pending : dict
        Block -> stores that still read it though its request has finished.
    later, refused : list of request
        Told in this schedule to ask again, and refused a store.
    finished : list of request
        Since the last schedule.
    """

    def __init__(self, cache, caching):
        self.block_size, self.factor = cache.block_size, cache.offload_block_factor
        self.chunk = self.block_size * self.factor
        self.prompt_only = cache.offload_prompt_only
        self.caching = caching
        self.manager = Manager(cache.cpu_blocks, cache.offload_eviction)
        self.entries = {}
        self.pending = {}
        self.finished = []
        self.unreported = 0
        self.begin()

    def begin(self):
        """Forget what the last schedule did."""
        self.touched, self.loads, self.later, self.refused = set(), [], [], []

    def _entry(self, request):
        """Return what is known of a request, with the keys of all its full chunks."""
        entry = self.entries.setdefault(request, Entry())
        for last in range(self.factor * (len(entry.keys) + 1), len(request.keys) + 1, self.factor):
            key = request.keys[last - 1]
            entry.keys.append(key)
            entry.position[key] = last * self.block_size
        return entry

    def match(self, request, local):
        """Return the tokens that can be loaded beyond `local` ones on the GPU; None: ask later."""
        entry = self._entry(request)
        entry.blocks, entry.next = [], 0
        if entry.jobs:
            self.later.append(request)
            return None
        first = local // self.chunk
        if len(entry.keys) * self.chunk - local < self.chunk:
            return 0
        found = []
        for key in entry.keys[first:]:
            if key not in self.manager.chunks:
                break
            found.append(key)
        tokens = (first + len(found)) * self.chunk - local
        if not found or (tokens < self.chunk and not self._being_written(found)):
            return 0
        if self._being_written(found) or self._being_loaded(found):
            self.later.append(request)
            return None
        return tokens

    def _being_written(self, keys):
        return any(self.manager.chunks[key] == BEING_WRITTEN for key in keys)

    def _being_loaded(self, keys):
        """Whether blocks with these keys will soon be on the GPU anyway."""
        return self.caching and any(self.manager.chunks[key] > 0 for key in keys)

    def load(self, request, local, tokens):
        """Load `tokens` beyond `local` into the blocks of a request."""
        entry = self.entries[request]
        first, end = local // self.chunk, (local + tokens) // self.chunk
        keys = entry.keys[first:end]
        entry.next = end
        self.manager.read(keys, entry)
        self._add(Job("load", request, keys, tokens), self.loads)

    def _add(self, job, jobs):
        jobs.append(job)
        self.entries[job.request].jobs.append(job)
        self.unreported += 1

    def build(self, scheduled, admitted, taken, preempted):
        """Return the work of the step just scheduled; nothing of it counts as computed yet.

        Parameters
        ----------
        scheduled : dict
            Request -> tokens, in order.
        admitted : list of request
        taken : dict
            Running request -> blocks that it got in this step.
        preempted : list of request
        """
        for request in scheduled:
            entry = self._entry(request)
            if request in admitted:
                entry.blocks = list(request.table)
            else:
                entry.blocks += taken[request]
                self.touched.update(taken[request])
        flush = {job for request in preempted for job in self._entry(request).jobs}
        for block in self.touched:
            flush.update(self.pending.get(block, ()))
        work = Work(self.loads, [], flush)
        for request, n in scheduled.items():
            self._offer(request, request.computed + n, work)
        for request in self.finished:
            self._offer(request, max(request.prompt_tokens, len(request.known) - 1), work)
        for request in self.finished:
            self.manager.finish(self._entry(request))
        self.finished = []
        return work

    def _offer(self, request, tokens, work):
        """Store the chunks of the first `tokens` that were not offered yet, all or none."""
        entry = self._entry(request)
        tokens = min(tokens, len(request.known))
        if self.prompt_only:
            tokens = min(tokens, request.prompt_tokens)
        end = min(tokens // self.chunk, len(entry.blocks) // self.factor, len(entry.keys))
        if end <= entry.next:
            return
        new = self.manager.store(entry.keys[entry.next : end], entry)
        if new is None:
            self.refused.append(request)
            return
        if new:
            blocks = [
                block
                for chunk in range(entry.next, end)
                if entry.keys[chunk] in new
                for block in entry.blocks[chunk * self.factor : (chunk + 1) * self.factor]
            ]
            job = Job("store", request, new, len(blocks) * self.block_size, blocks)
            self._add(job, work.stores)
            if request in self.finished:
                self._protect(job)
                if self.touched.intersection(blocks):
                    work.flush.add(job)
        entry.next = end

    def _protect(self, job):
        for block in job.blocks:
            self.pending.setdefault(block, set()).add(job)

    def finish(self, request):
        """Note that a request has finished: its blocks are free, its stores still read them."""
        self.finished.append(request)
        for job in self._entry(request).jobs:
            self._protect(job)

    def report(self, jobs):
        """Note that copies are complete; return the requests that were loaded."""
        for job in jobs:
            self.entries[job.request].jobs.remove(job)
            self.unreported -= 1
            if job.kind == "load":
                self.manager.was_read(job.keys)
            else:
                self.manager.written(job.keys)
            for block in job.blocks:
                if job in self.pending.get(block, ()):
                    self.pending[block].remove(job)
        return [job.request for job in jobs if job.kind == "load"]
