"""Which requests run in a step, and how many tokens each: the reference's two phases."""

from collections import deque
from dataclasses import dataclass, field

from kvsweep.replica.block_store import BlockStore
from kvsweep.replica.request import Request
from kvsweep.replica.switches import Switches


@dataclass(frozen=True)
class Limits:
    """What a step may hold: requests, tokens, prompt tokens per request (0 = no limit)."""

    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill_token_threshold: int


@dataclass(slots=True)
class Grants:
    """What one step has granted so far.

    ``prefill`` and ``decode`` are sums over all grants, those to requests evicted later included.
    """

    budget: int
    prefill: int = 0
    decode: int = 0
    evicted: set[int] = field(default_factory=set)


class Batcher:
    """Wait queue and running batch of one instance, and how requests move between them.

    Attributes
    ----------
    waiting : deque of Request
        The wait queue; a preempted request goes to its front.
    running : list of Request
        The batch, in order of admission; the last one is preempted first.
    preemptions : int
        Evictions from the batch so far.
    """

    def __init__(self, store: BlockStore, limits: Limits, switches: Switches) -> None:
        self.store = store
        self.limits = limits
        self.switches = switches
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.preemptions = 0

    def form(self, now: int) -> Grants:
        """Grant tokens for the step at ``now``: running requests first, then the wait queue.

        Nothing is admitted in a step that evicted something.
        """
        grants = Grants(self.limits.max_num_batched_tokens)
        self._serve_running(grants)
        if not grants.evicted:
            self._admit_waiting(now, grants)
        return grants

    def _serve_running(self, grants: Grants) -> None:
        """Serve the batch in order, until the budget or the memory ends.

        The loop runs over the batch as it was at the start of the step: requests evicted on the
        way are still served, unless ``visit_evicted`` is off (D1).
        """
        for request in tuple(self.running):
            if grants.budget <= 0:
                return
            if not self.switches.visit_evicted and request.index in grants.evicted:
                continue
            rest = request.prompt_tokens - request.progress
            tokens = self._chunk(rest, grants.budget) if rest > 0 else 1
            if not self._ensure(request, tokens, grants):
                return
            grants.budget -= tokens
            request.granted = tokens
            if rest > 0:
                request.computed += tokens
                grants.prefill += tokens
            else:
                grants.decode += tokens

    def _chunk(self, rest: int, budget: int) -> int:
        """Return how many of ``rest`` prompt tokens a request gets."""
        threshold = self.limits.long_prefill_token_threshold
        if 0 < threshold < rest:
            rest = threshold
        return min(rest, budget)

    def _ensure(self, request: Request, tokens: int, grants: Grants) -> bool:
        """Allocate the request's next tokens, evicting from the batch's tail until it works.

        Returns False if the request itself was evicted or nobody is left to evict.
        """
        while not self.store.allocate(request, request.progress, request.progress + tokens):
            if not self.running:
                return False
            evicted = self._evict_last(grants)
            if evicted is request:
                return False
        return True

    def _evict_last(self, grants: Grants) -> Request:
        """Preempt the last request of the batch: it starts again from the front of the queue."""
        request = self.running.pop()
        request.progress = 0
        request.computed = 0
        request.preemptions += 1
        request.state = "queued"
        self.preemptions += 1
        self.store.release(request)
        self.waiting.appendleft(request)
        grants.evicted.add(request.index)
        return request

    def _admit_waiting(self, now: int, grants: Grants) -> None:
        """Admit from the head of the queue; the first that does not fit ends it."""
        while (
            self.waiting
            and grants.budget > 0
            and len(self.running) < self.limits.max_num_seqs
            and self._admit(self.waiting[0], now, grants)
        ):
            self.running.append(self.waiting.popleft())

    def _admit(self, request: Request, now: int, grants: Grants) -> bool:
        """Allocate the uncached part of a waiting request's prompt; False if it does not fit."""
        block_size = self.store.block_size
        cached = self.store.cached_prefix(request)
        if self.switches.min_one_new and len(cached) * block_size >= request.prompt_tokens:
            cached = cached[:-1]
        done = len(cached) * block_size
        tokens = self._chunk(request.prompt_tokens - done, grants.budget)
        hits_before = self.store.hits
        if not self.store.allocate(request, done, done + tokens, cached):
            return False
        request.record_admission(now, len(cached), self.store.hits - hits_before)
        request.state = "running"
        request.computed = done + tokens
        request.granted = tokens
        grants.budget -= tokens
        grants.prefill += tokens
        return True
