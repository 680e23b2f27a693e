"""A scheduler whose requests may wait for a load: they hold blocks, but no seat."""

from dataclasses import dataclass, field

from ..scheduler import Scheduler
from ..waiting import Tried, waiting_queue
from .connector import Connector, Work


@dataclass
class Copies:
    """What one call of `schedule` decided about copies."""

    work: Work = field(default_factory=Work)
    later: list = field(default_factory=list)
    refused: list = field(default_factory=list)


class OffloadScheduler(Scheduler):
    """Running and waiting requests, and those that wait for a load or come back from it.

    Attributes
    ----------
    hold : queue
        Requests that hold blocks without running: their load is under way or complete. It goes
        before `waiting`.
    loading, loaded : set
        Those of them whose load is not reported, and those of them whose load is.
    prefills : set
        Requests that load, or have loaded or run and not computed all that they know.
    """

    def __init__(self, engine, cache, keys):
        super().__init__(engine, cache, keys)
        self.connector = Connector(cache, engine.enable_prefix_caching)
        self.hold = waiting_queue(engine.scheduler, self.urgency)
        self.loading, self.loaded = set(), set()
        self.prefills = set()
        self.taken = {}

    @property
    def waits(self):
        return len(self.waiting) + len(self.hold)

    @property
    def busy(self):
        """Whether there is anything to schedule, to tell the connector or to be reported."""
        connector = self.connector
        return bool(self.running or self.waits or connector.finished or connector.unreported)

    def schedule(self, now):
        self.taken = {}
        self.connector.begin()
        decision = super().schedule(now)
        self.prefills -= decision.sampling
        return decision

    def _account(self, decision):
        """Make the connector's work first: it counts what was computed before the step."""
        admitted = [request for request, _ in decision.admitted]
        work = self.connector.build(decision.scheduled, admitted, self.taken, decision.preempted)
        decision.copies = Copies(work, self.connector.later, self.connector.refused)
        super()._account(decision)

    def _allocate(self, request, n, now):
        held = len(request.table)
        if not super()._allocate(request, n, now):
            return False
        self.taken[request] = request.table[held:]
        return True

    def _may_preempt(self, victim):
        """A step in flight may still write to the victim's blocks, so it must keep them."""
        return not victim.in_flight

    def _preempt(self, victim, decision):
        super()._preempt(victim, decision)
        self.taken.pop(victim, None)
        self.prefills.discard(victim)

    def _schedule_waiting(self, decision):
        """Admit or begin to load from the heads of `hold`, then of `waiting`.

        Who cannot go on for now is passed by those behind, and comes back to its place.
        """
        passed = []
        while decision.budget > 0 and self._has_seat():
            queue = self.hold if len(self.hold) else self.waiting
            if not len(queue):
                break
            request = queue.head()
            if not request.table and request.impatient(decision.now):
                decision.timed_out.append(queue.pop())
                continue
            tried = self._try(request, queue, decision)
            if tried is Tried.ENDS:
                break
            if tried is Tried.PASSED:
                passed.append(queue.pop())
        for request in reversed(passed):
            (self.hold if request.table else self.waiting).put_back(request)

    def _try(self, request, queue, decision):
        """Admit the head of a queue, or begin to load for it."""
        if request in self.loading:
            return Tried.PASSED
        self._use_load(request)
        hits, local, load = [], 0, 0
        looks = request.computed == 0
        if looks:
            hits, _ = self._cached_prefix(request)
            local = self.block_size * len(hits)
            load = self.connector.match(request, local)
            if load is None:
                return Tried.PASSED
        n = 0
        if not load:
            n = decision.capped(request.uncomputed - local)
            if not self.engine.enable_chunked_prefill and n > decision.budget:
                return Tried.ENDS
            n = min(n, decision.budget)
        if not self._seat(request, n, hits, load):
            return Tried.ENDS
        self.connector.touched.update(request.table)
        if looks:
            self._count_admission(request, hits, [])
        request.computed += local
        if load:
            self.connector.load(request, local, load)
            request.computed += load
            self.loading.add(request)
            self.prefills.add(request)
            return Tried.PASSED
        self.running.append(queue.pop())
        decision.admitted.append((request, request.computed))
        decision.give(request, n)
        if n < request.uncomputed:
            self.prefills.add(request)
        return Tried.ADMITTED

    def _use_load(self, request):
        """Publish what was loaded; the last known token is computed in any case."""
        if request in self.loaded:
            self.loaded.remove(request)
            self._publish(request, request.computed, None)
            request.computed -= request.uncomputed == 0

    def _seat(self, request, n, hits, load):
        """Give a request its hits and blocks for a load or `n` more tokens; or nothing, False."""
        pool = self.pool
        held = len(request.table) + len(hits)
        room = len(pool.free) - sum(pool.ref[block] == 0 for block in hits)
        room -= self.watermark_blocks if self.running else 0
        if self.engine.reserve_full_prompt and self.blocks_for(len(request.known)) - held > room:
            return False
        end = request.computed + self.block_size * len(hits) + load + n
        need = max(self.blocks_for(end) - held, 0)
        if need > room - (self._reserved() if load else 0):
            return False
        if not request.table:
            pool.touch(hits)
            request.table.extend(hits)
            request.published = len(hits)
        request.table.extend(pool.take(need))
        if not load:
            self._publish(request, end, None)
        return True

    def _reserved(self):
        """Return the blocks that unfinished prefills will still need, which no load may take."""
        return sum(max(self.blocks_for(len(r.known)) - len(r.table), 0) for r in self.prefills)

    def process(self, decision, now):
        sampled, finished = super().process(decision, now)
        for request in finished:
            self.connector.finish(request)
        return sampled, finished

    def report(self, jobs):
        """Take note of complete copies."""
        for request in self.connector.report(jobs):
            self.loading.remove(request)
            self.loaded.add(request)
