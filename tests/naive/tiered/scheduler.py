"""A scheduler of requests with several tables or drafts, which may wait for loads."""

from ..explicit.scheduler import ExplicitScheduler
from ..offload.scheduler import Copies
from ..waiting import Tried
from .connector import TieredConnector


def blocks_of(tables):
    return [block for table in tables for block in table if block is not None]


class TieredScheduler(ExplicitScheduler):
    """An `ExplicitScheduler` with a connector to a CPU tier.

    Beside one that pulls it is the second: both are asked what they have, and the first that has
    anything gets it.
    """

    def __init__(self, engine, cache, keys, role="tiered"):
        super().__init__(engine, cache, keys, role)
        self.tables.tiered = True
        self.connector = TieredConnector(cache, engine)
        self.taken = {}

    @property
    def busy(self):
        connector = self.connector
        return super().busy or bool(connector.finished or connector.unreported)

    def schedule(self, now):
        self.taken = {}
        self.connector.begin()
        return super().schedule(now)

    def _account(self, decision):
        """Make the connector's work first: it counts what was computed before the step."""
        admitted = [request for request, _ in decision.admitted]
        handed = self.tables.take_handed()
        work = self.connector.build(
            decision.scheduled, admitted, self.taken, decision.preempted, handed
        )
        decision.copies = Copies(work, self.connector.later, self.connector.refused)
        super()._account(decision)

    def _allocate(self, request, n, now):
        held = [len(table) for table in request.tables]
        if not super()._allocate(request, n, now):
            return False
        self.taken[request] = [
            table[first:] for table, first in zip(request.tables, held, strict=True)
        ]
        return True

    def _preempt(self, victim, decision):
        super()._preempt(victim, decision)
        self.taken.pop(victim, None)

    def _try(self, request, queue, decision):
        """Admit the head of a queue, or begin to load for it."""
        if self._must_wait(request):
            return Tried.PASSED
        self._use_load(request)
        pulls = self._may_pull(request)
        if request.computed == 0 and not pulls:
            hits, local = self.tables.hits(request)
            load = self.connector.match(request, local)
            if load is None:
                return Tried.PASSED
            if load:
                return self._load(request, hits, local, load)
        elif pulls:
            _, local = self.tables.hits_of_pull(request)
            if self.connector.match(request, local) is None:
                return Tried.PASSED
        tried = super()._try(request, queue, decision)
        if tried is Tried.ADMITTED:
            self.connector.touched.update(blocks_of(request.tables))
        return tried

    def _pull(self, request, hits, local, decision):
        tried = super()._pull(request, hits, local, decision)
        if tried is Tried.PASSED:
            self.connector.touched.update(blocks_of(request.tables))
        return tried

    def _load(self, request, hits, local, load):
        """Take blocks for what the tier has, beyond what is on the GPU."""
        total = local + load
        if not self._seat(request, total, hits, total, self._reserved()):
            return Tried.ENDS
        self._count_hits(request, local)
        self.connector.touched.update(blocks_of(request.tables))
        self.connector.load(request, local, load)
        request.computed = total
        self.loading.add(request)
        if request not in self.prefills:  # it is, if its pull has failed
            self.prefills.append(request)
        return Tried.PASSED

    def _finish(self, request, now):
        self.connector.finish(request)
        self.tables.forget_handed(request)
        super()._finish(request, now)

    def report(self, jobs):
        """Take note of complete copies."""
        for request in self.connector.report(jobs):
            self.loading.remove(request)
            self.loaded.add(request)

    def fail(self, request):
        super().fail(request)
        self.connector.finish(request)
