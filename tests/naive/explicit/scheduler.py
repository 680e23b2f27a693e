"""A scheduler of requests with several tables, drafts, and prompts that come from elsewhere."""

from dataclasses import dataclass, field
from math import inf

from ..scheduler import Decision, Scheduler
from ..victims import choose_victim
from ..waiting import Tried, waiting_queue
from .states import StateTables
from .tables import Tables


@dataclass
class ExplicitDecision(Decision):
    """What one call of `schedule` decided.

    Attributes
    ----------
    inputs : int
        Input slots left: of each request its tokens, and with a draft model one more.
    slot : int
        That one.
    share : int or float
        Requests that it may serve, at most.
    drafts, returns : dict
        Per scheduled request with any: drafts to verify; per sampling one: tokens it will get.
    padded : set
        Requests with dummy drafts, none of which is accepted.
    prefills_go_on : bool
        Whether a running request was scheduled in the middle of its prefill.
    pulls : list of (request, tokens)
        Whose prompt's blocks are pulled, and how many tokens of new blocks.
    verified : list of [id, drafts, accepted]
        Once its output is processed.
    """

    inputs: int = 0
    slot: int = 0
    share: float = inf
    drafts: dict = field(default_factory=dict)
    returns: dict = field(default_factory=dict)
    padded: set = field(default_factory=set)
    prefills_go_on: bool = False
    pulls: list = field(default_factory=list)
    verified: list = field(default_factory=list)

    @property
    def room(self):
        """Tokens that the next request may have, at most."""
        return min(self.budget, self.inputs - self.slot) if len(self.scheduled) < self.share else 0

    def give(self, request, n):
        super().give(request, n)
        self.inputs -= n + self.slot

    def take_back(self, request):
        if request in self.scheduled:
            self.inputs += self.scheduled[request] + self.slot
            self.drafts.pop(request, None)
        super().take_back(request)


class ExplicitScheduler(Scheduler):
    """Running and waiting requests, and on decode instances those whose prompts come.

    Attributes
    ----------
    role : str
        ``both``, ``prefill`` or ``decode``; ``tiered`` with a CPU tier (`naive.tiered`).
    hold : queue
        Requests that hold blocks without running; it goes before `waiting`.
    loading, loaded : set
        Those whose blocks are on their way, and those of them whose blocks have come.
    prefills : list
        Requests that load, or have loaded or run and not computed all that they know.
    held : dict
        On prefill instances: finished requests whose blocks are not pulled yet.
    finished : bool
        Whether somebody has finished since the last schedule.
    calls : int
        Schedules made so far, empty ones included.
    loads : bool
        Whether copies may fill blocks, in no order with steps on their way, or vLLM takes it so.
    owed : list of request
        On decode instances: those that are done, and whose blocks the batch on its way writes to.
    """

    def __init__(self, engine, cache, keys, role="both"):
        super().__init__(engine, cache, keys)
        self.role = role
        self.loads = role in ("decode", "tiered")
        tables = StateTables if cache.has_states else Tables
        self.tables = tables(self.pool, engine, cache, role)
        self.hold = waiting_queue(engine.scheduler, self.urgency)
        self.loading, self.loaded = set(), set()
        self.prefills = []
        self.held = {}
        self.finished = False
        self.calls = 0
        self.owed = []

    @property
    def waits(self):
        return len(self.waiting) + len(self.hold)

    @property
    def busy(self):
        return bool(self.running or self.waits or self.held or self.finished)

    def servable(self, request):
        """Whether the request can ever finish here, alone."""
        tokens = min(request.longest + 2 * self.engine.drafts, self.engine.longest)
        groups = range(len(self.tables.windows))
        if self.role == "decode" and self._to_begin(request) > self.pool.usable:
            return False
        if sum(self.tables.most(group, tokens) for group in groups) > self.pool.usable:
            return False
        return request.longest + 1 <= self.engine.longest

    def held_blocks(self, keys):
        """Return how many of `keys` a request that begins with them would hit, in all groups."""
        _, tokens, *_ = self.tables.find(keys, len(keys) * self.block_size)
        return tokens // self.block_size

    def enqueue(self, request):
        self.tables.clear(request)
        super().enqueue(request)

    def schedule(self, now):
        alone = len(self.running) + self.waits <= 1
        threshold = 0 if alone else self.engine.long_prefill_token_threshold
        budget = self.engine.max_num_batched_tokens
        decision = ExplicitDecision(now, budget, threshold)
        decision.inputs, decision.slot = budget, self.engine.draft_slot
        if self.engine.pipeline_fair_share:
            requests = len(self.running) + len(self.waiting)
            decision.share = -(-requests // self.engine.pipeline_parallel_size)
        self.tables.begin()
        self.calls += 1
        self._schedule_running(decision)
        if not decision.preempted:
            self._schedule_waiting(decision)
        self._account(decision)
        self.finished = False
        return decision

    def _schedule_running(self, decision):
        k = 0
        while k < len(self.running) and decision.room > 0:
            request = self.running[k]
            n = min(decision.capped(request.uncomputed + request.drafts), decision.room)
            if self.engine.drafts:
                n = min(n, self.engine.longest - 1 - request.computed)
            n = self.tables.split(request, n, request.computed)
            if request.last_token_in_flight or self.calls < request.eligible or n == 0:
                k += 1
                continue
            while not self._allocate(request, n, decision.now):
                index = choose_victim(self, request)
                if not self._may_preempt(self.running[index]):
                    return
                victim = self.running.pop(index)
                k -= index < k
                self._preempt(victim, decision)
                if victim is request:
                    break
            else:
                self._give(request, n, decision)
                k += 1

    def _give(self, request, n, decision):
        """Schedule a running request; what exceeds the tokens to compute are drafts."""
        decision.prefills_go_on |= request.unfinished_prefill
        drafts = n - request.uncomputed
        if request.drafts and drafts > 0:
            decision.drafts[request] = min(request.drafts, drafts)
        request.drafts = 0
        decision.give(request, n)

    def _may_preempt(self, victim):
        """Where loads come, blocks that a batch on its way writes to stay."""
        return not (self.loads and victim.in_flight)

    def _preempt(self, victim, decision):
        known = len(victim.known)
        done_before = max(victim.done_before, min(victim.computed, known))
        super()._preempt(victim, decision)
        victim.done_before = done_before
        victim.drafts = 0
        self._end_prefill(victim)

    def _end_prefill(self, request):
        if request in self.prefills:
            self.prefills.remove(request)

    def _schedule_waiting(self, decision):
        """Try the heads of `hold`, then of `waiting`; who must wait is passed by others."""
        passed = []
        while decision.room > 0 and self._has_seat():
            queue = self.hold if len(self.hold) else self.waiting
            if not len(queue):
                break
            request = queue.head()
            if not any(request.tables) and request.impatient(decision.now):
                decision.timed_out.append(queue.pop())
                continue
            tried = self._try(request, queue, decision)
            if tried is Tried.ENDS:
                break
            if tried is Tried.PASSED:
                passed.append(queue.pop())
        for request in reversed(passed):
            (self.hold if request.computed or request in self.loading else self.waiting).put_back(
                request
            )

    def _try(self, request, queue, decision):
        """Admit the head of a queue, or begin to pull for it."""
        if self._must_wait(request):
            return Tried.PASSED
        self._use_load(request)
        looks = request.computed == 0
        pulls = self._may_pull(request)
        if pulls:
            hits, local = self.tables.hits_of_pull(request)
            if local < self.tables.pulled_of(request.prompt_tokens):
                return self._pull(request, hits, local, decision)
        hits, local = self.tables.hits(request) if looks else ([[] for _ in request.tables], 0)
        n = len(request.known) - request.computed - local
        padded = self._is_padded(request, n, local, decision)
        if padded:
            n = 1 + self.engine.drafts
            if n > decision.room:
                return Tried.ENDS
        n = decision.capped(n)
        if not self.engine.enable_chunked_prefill and n > decision.room:
            return Tried.ENDS
        total = request.computed + local
        n = self.tables.split(request, min(n, decision.room), total)
        if n == 0:
            return Tried.ENDS
        if padded and n != 1 + self.engine.drafts:  # it cannot be cut
            n, padded = 1, False
        if not self._seat(request, total + n, hits, total):
            return Tried.ENDS
        self.tables.publish(request, min(total + n, len(request.known)))
        if looks:
            self._count_hits(request, local)
        if pulls:
            decision.pulls.append((request, 0))
            request.pulled = True
        self.running.append(queue.pop())
        request.computed = total
        decision.admitted.append((request, total))
        decision.give(request, n)
        if padded:
            decision.drafts[request] = self.engine.drafts
            decision.padded.add(request)
        if n < len(request.known) - total and request not in self.prefills:
            self.prefills.append(request)
        return Tried.ADMITTED

    def _must_wait(self, request):
        """Whether a request waits for its blocks, or for the output of a batch that has it."""
        return request in self.loading or (request.stale and self.role != "prefill")

    def _may_pull(self, request):
        """Whether a prefill instance has the blocks of a request's prompt."""
        return request.computed == 0 and self.role == "decode" and not request.pulled

    def _is_padded(self, request, n, local, decision):
        """Whether a request with one token left gets dummy drafts, as the others of the batch.

        Not beside a prefill that goes on, nor alone if nothing of it was computed before.
        """
        if not self.engine.drafts or n != 1 or decision.prefills_go_on:
            return False
        computed = request.computed + local
        if computed + 1 + self.engine.drafts >= self.engine.longest:
            return False
        running = len(decision.scheduled) > len(decision.admitted)
        return running or computed > 0

    def _use_load(self, request):
        """Publish what was pulled; the last known token is computed in any case."""
        if request in self.loaded:
            self.loaded.remove(request)
            self.tables.publish(request, request.computed)
            request.computed -= request.computed == len(request.known)
            if request.pull_fails and not request.computed:
                self._release(request, None)

    def _pull(self, request, hits, local, decision):
        """Take blocks for the rest of the prompt, which a prefill instance has."""
        total = self.tables.pulled_of(request.prompt_tokens)
        if not self._seat(request, total, hits, total, self._reserved()):
            return Tried.ENDS
        self._count_hits(request, local)
        decision.pulls.append((request, self._to_pull(total, hits) * self.block_size))
        request.pulled = True
        request.computed = total
        self.loading.add(request)
        self.prefills.append(request)
        return Tried.PASSED

    def _reserved(self):
        """Return the blocks that unfinished prefills will still need, which no pull may take.

        With drafts each needs those of its first verification, too, and so will who pulls.
        """
        beyond = self.engine.verification
        return self._to_verify() + sum(self.tables.lacks(r, beyond) for r in self.prefills)

    def _to_verify(self):
        """Return the blocks that a first verification takes in all groups."""
        groups = range(len(self.tables.windows))
        keep = sum(not self.tables.keeps_states(group) for group in groups)
        return self.blocks_for(self.engine.verification) * keep

    def _to_pull(self, tokens, hits):
        """Return the blocks of a prompt of so many tokens that are pulled, those in windows."""
        return sum(
            1
            if self.tables.keeps_states(group)
            else self.blocks_for(tokens) - max(self.tables.left(group, tokens), len(found))
            for group, found in enumerate(hits)
        )

    def _to_begin(self, request):
        """Return the blocks that must be free at once for a pull: with states those of drafts."""
        groups = range(len(self.tables.windows))
        states = sum(map(self.tables.keeps_states, groups))
        pulls = self._to_pull(self.tables.pulled_of(request.prompt_tokens), [[] for _ in groups])
        return pulls + states * self.engine.drafts + self._to_verify()

    def _seat(self, request, tokens, hits, total, reserved=None):
        """Give a waiting request its hits and blocks for `tokens`; or nothing, and return False.

        `reserved` blocks must stay free if what fills them comes from elsewhere, and no drafts.
        """
        tables, free = self.tables, len(self.pool.free)
        ahead = self.engine.drafts if reserved is None else 0
        keep = self.watermark_blocks if self.running else 0
        whole = tables.need(request, len(request.known), hits, total, capped=True)
        if self.engine.reserve_full_prompt and whole + keep > free:
            return False
        tables.release_left(request, max(0, total - request.in_flight))
        need = tables.need(request, tokens, hits, total, capped=False, ahead=ahead)
        if need + keep > len(self.pool.free) - (reserved or 0):
            return False
        if any(map(len, hits)) or reserved is not None:
            self.blocks_reused += tables.use(request, hits, total)
        tables.extend(request, tokens, ahead)
        return True

    def _count_hits(self, request, local):
        if self.engine.enable_prefix_caching:
            prefix = "preempted_" if request.preemptions else ""
            self.prefix_stats[prefix + "requests"] += 1
            self.prefix_stats[prefix + "queries"] += len(request.known)
            self.prefix_stats[prefix + "hits"] += local

    def _allocate(self, request, n, now):
        tables = self.tables
        tables.release_left(request, max(0, request.computed - request.in_flight))
        end = request.computed + n
        none = [[] for _ in request.tables]
        total = request.computed
        ahead = self.engine.drafts
        need = tables.need(request, end, none, total, capped=False, ahead=ahead)
        if need > len(self.pool.free):
            return False
        tables.extend(request, end, ahead)
        tables.publish(request, min(end, len(request.known)))
        return True

    def _publish(self, request, end, now):
        self.tables.publish(request, end)

    def _release(self, request, now):
        self.tables.release(request)

    def _account(self, decision):
        """Count tokens, mark them as computed, and settle what the batch will return.

        All tokens of a decode count as such, its drafts too; these read no more of the cache.
        """
        for request, n in decision.scheduled.items():
            if request.outputs + request.placeholders >= 1 and request.uncomputed == 1:
                decision.decode_tokens += n
                decision.decoded += [request.computed, *[0] * (n - 1)]
            else:
                decision.prefill_tokens += n
                decision.prefilled += range(request.computed, request.computed + n)
            for position in range(request.computed, request.computed + n):
                request.executed += 1
                request.recomputed += position < request.done_before
            known = len(request.known) + request.placeholders
            request.computed += n
            request.in_flight += n
            request.unfinished_prefill = request.computed < known
            if not request.unfinished_prefill:
                self._will_sample(request, decision)

    def _will_sample(self, request, decision):
        self._end_prefill(request)
        decision.sampling.add(request)
        drafts = decision.drafts.get(request, 0)
        accepted = 0
        if drafts and request not in decision.padded:
            accepted = request.verify(drafts)
        decision.returns[request] = 1 + accepted
        request.coming += 1 + accepted
        if self.engine.async_scheduling:
            request.placeholders += 1 + drafts
            request.drafts = self.engine.drafts
            request.eligible = self.calls + self.engine.pipeline_parallel_size

    def last_batch(self, request, decision):
        """Whether the batch just scheduled returns the request's last token."""
        if request not in decision.sampling:
            return False
        before = request.outputs + request.coming - decision.returns[request]
        return before < request.output_tokens <= request.outputs + request.coming

    def process(self, decision, now):
        """Process a batch's output; return (requests, once per new token; those that are done)."""
        sampled, finished = [], []
        if decision.scheduled:
            self._release_owed()
        for request, n in decision.scheduled.items():
            returned = decision.returns.get(request, 0)
            drafts = decision.drafts.get(request, 0)
            if returned and drafts:
                decision.verified.append([request.id, drafts, returned - 1])
            request.in_flight -= n
            request.coming -= returned
            stale = request.stale > 0
            request.stale -= n if stale else 0
            if request.done or not returned:
                continue
            if stale and self.role == "prefill":
                continue  # a prefill is of use only with its blocks
            new = self._append(request, returned, drafts, stale=stale)
            sampled += [request] * new
            if request.done:
                finished.append(request)
                self._finish(request, now)
        if not self.engine.async_scheduling:
            for request in decision.scheduled:
                request.drafts = 0 if request.unfinished_prefill else self.engine.drafts
        return sampled, finished

    def _append(self, request, returned, drafts, *, stale):
        """Append tokens up to the last; correct what was expected of rejected drafts."""
        new = min(returned, request.output_tokens - request.outputs)
        for _ in range(new):
            request.sample()
            self.keys.extend(request.keys, request.known)
        if stale:
            return new
        expected = request.placeholders > 0
        rejected = drafts - (returned - 1)
        request.computed -= rejected + returned - new
        if expected:
            request.placeholders -= rejected + returned
        if request in self.running and (expected or self.engine.drafts):
            self.tables.publish(request, request.computed - request.in_flight)
        return new

    def _finish(self, request, now):
        """Let a request go; a prefilled one keeps its blocks until they are pulled."""
        self._end_prefill(request)
        self.finished = True
        if request not in self.running:
            self.waiting.remove(request)
            return
        self.running.remove(request)
        if self.role != "both":  # with a connector
            self.tables.release_left(request, max(0, request.computed - request.in_flight))
        if self.role == "prefill":
            self.held[request] = None
        elif self.loads and request.in_flight:
            self.owed.append(request)
        else:
            self._release(request, now)

    def _release_owed(self):
        """Release the blocks of those that were done before the batch that has come back."""
        for request in self.owed:
            self.tables.release_at_once(request)
        self.owed = []

    def let_go(self, request):
        """Release the blocks of a prompt that was pulled."""
        del self.held[request]
        self._release(request, None)

    def came(self, request):
        """Take note that the blocks of a prompt have come, or that its pull has failed."""
        self.loading.remove(request)
        self.loaded.add(request)
        if request.pull_fails:
            request.computed = 0

    def fail(self, request):
        """End a request whose blocks have not come."""
        self.loading.remove(request)
        self.hold.remove(request)
        self._end_prefill(request)
        self._release(request, None)
        self.finished = True
