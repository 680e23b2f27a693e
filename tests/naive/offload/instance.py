"""An engine with CPU offload on the clock: empty steps, stalls, reports that end with a step."""

from dataclasses import dataclass, field
from math import inf

from ..instance import Batch, Instance, Step
from .checks import check_step
from .scheduler import OffloadScheduler
from .streams import Streams


@dataclass
class OffloadStep(Step):
    """A step with what it stored, loaded and awaited.

    Attributes
    ----------
    stall : int
        How long it waited for copies, part of its duration.
    cpu : int
        Chunks on the CPU after scheduling.
    later, nostore : list of id
        Told to ask for their load again; refused a store.
    load, store : list of [id, tokens]
        Copies that it created.
    flush : int
        Copies that it had to wait for.
    """

    stall: int = 0
    cpu: int = 0
    later: list = field(default_factory=list)
    nostore: list = field(default_factory=list)
    load: list = field(default_factory=list)
    store: list = field(default_factory=list)
    flush: int = 0


@dataclass
class OffloadBatch(Batch):
    """A batch with the copies that end with it; `idle` if it changes nothing."""

    reports: list
    idle: bool


class OffloadInstance(Instance):
    """An engine with a connector.

    A batch that schedules nothing takes no time, but for a stall, and is not listed without one. It
    is made while there is something to schedule, to store or to be reported, until nothing changes
    any more; then the engine sleeps until a copy ends or a request enters.

    Attributes
    ----------
    unsubmitted : list of Job
        Stores that the next batch begins.
    asleep : bool
        Whether batches would change nothing before the next event.
    blocked : bool
        Whether it waits for the oldest batch, as there is nothing to schedule: whoever enters.
    computed : int
        Batches so far that had tokens.
    """

    step_type = OffloadStep

    def __init__(self, index, scenario, keys, max_steps, check):
        super().__init__(index, scenario, keys, max_steps, check)
        self.scheduler = OffloadScheduler(scenario.engine, scenario.cache, keys)
        self.streams = Streams(scenario.cache)
        self.unsubmitted = []
        self.asleep = self.blocked = False
        self.computed = 0

    def next_event(self):
        entry = self.arriving[0][0] if self.arriving else inf
        if self.asleep:
            ends = self.streams.next_end()  # None: nothing is left that could wake it
            return entry if ends is None else min(entry, ends)
        return min(entry, self.queue[0].end if self.queue else inf)

    def proceed(self):
        """Do what happens at the time of the next event: outputs, queue entries, schedules."""
        now = self.next_event()
        self.finishing = []
        self._note_usage(now)
        self.asleep = False
        while not self.asleep:
            self._enter_queue(now)
            if self._has_work() and len(self.queue) < self.depth and not self.blocked:
                self.queue.append(self._schedule(now))
                self.blocked = not (self.queue[-1].step or self._has_work())
            elif self.queue and self.queue[0].end <= now:
                batch = self.queue[0]
                self._process_oldest(now)
                self.blocked = bool(self.queue) and not self._has_work()
                idle = batch.idle and all(other.idle for other in self.queue)
                self.asleep = idle and not self.unsubmitted and self._has_work()
            else:
                return

    def _schedule(self, now):
        scheduler, pool = self.scheduler, self.scheduler.pool
        wait, evictions = scheduler.waits, pool.evictions
        decision = scheduler.schedule(now)
        for request in decision.timed_out:
            request.status = "timed_out"
        self.preemptions += len(decision.preempted)
        self.preempted_in_flight += decision.preempted_in_flight
        self.peak_blocks = max(self.peak_blocks, pool.used)
        compute = self._duration(decision) if decision.scheduled else 0
        start = max(now, self.device_us)
        reports = self._copy(decision, start, compute)
        step = None
        if self.device_us > start:
            columns = self._columns(decision, wait, pool.evictions - evictions)
            columns |= self._copies(decision)
            step = self.step_type(s=now, t=start, d=self.device_us - start, **columns)
            self._list(step, decision)
        self._note_finishing(decision)
        self.transfer_us += decision.transfer_us
        work = decision.copies.work
        idle = not (step or decision.preempted or decision.timed_out)
        idle &= not (work.loads or work.stores or self.unsubmitted or reports)
        return OffloadBatch(decision, step, self.device_us, reports, idle)

    def _copy(self, decision, start, compute):
        """Begin copies, and let the batch wait for some; return those that end with it."""
        work = decision.copies.work
        for job in self.unsubmitted + [job for job in work.stores if job in work.flush]:
            self.streams.submit(job, start)
        self.unsubmitted = [job for job in work.stores if job not in work.flush]
        decision.transfer_us = max([0, *(job.end_us - start for job in work.flush)])
        self.device_us = start + decision.transfer_us + compute
        for job in work.loads:
            self.streams.submit(job, self.device_us)
        return self.streams.completed(self.device_us)

    def _copies(self, decision):
        """Return what a step's row tells of copies."""
        copies = decision.copies
        return {
            "stall": decision.transfer_us,
            "cpu": len(self.scheduler.connector.manager.chunks),
            "later": [request.id for request in copies.later],
            "nostore": [request.id for request in copies.refused],
            "load": [[job.request.id, job.tokens] for job in copies.work.loads],
            "store": [[job.request.id, job.tokens] for job in copies.work.stores],
            "flush": len(copies.work.flush),
        }

    def _duration(self, decision):
        compute = self.latency.step_us(decision.prefilled, decision.decoded)
        compute += self.latency.cold_us(self.computed)
        self.computed += 1
        return compute

    def _process_oldest(self, now):
        batch = self.queue[0]
        check, self.check = self.check, False
        super()._process_oldest(now)
        self.check = check
        self.scheduler.report(batch.reports)
        if check:
            self._check(batch)

    def _check(self, batch):
        check_step(self.scheduler, batch.decision)

    def _copied(self, kind):
        """Return the tokens of each copy of a kind."""
        return [row[2] for row in self.streams.log if row[0] == kind]

    @property
    def offloads(self):
        return sum(self._copied("store")) // self.scheduler.block_size

    @property
    def reloads(self):
        return sum(self._copied("load")) // self.scheduler.block_size

    @property
    def totals(self):
        manager = self.scheduler.connector.manager
        loads, stores = self._copied("load"), self._copied("store")
        return super().totals | {
            "end_us": max((step.t + step.d for step in self.steps if step.fin), default=0),
            "loads": len(loads),
            "stores": len(stores),
            "loaded_tokens": sum(loads),
            "stored_tokens": sum(stores),
            "cpu_evictions": manager.evictions,
            "cpu_blocks_at_end": len(manager.chunks),
            "stall_us": self.transfer_us,
        }
