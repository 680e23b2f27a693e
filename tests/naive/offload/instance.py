"""An engine with CPU offload on the clock: empty steps, stalls, reports that end with a step."""

from dataclasses import dataclass, field
from math import inf

from ..instance import Instance, Step, StepLimit
from .checks import check_step
from .scheduler import OffloadScheduler
from .streams import Streams


@dataclass
class OffloadStep(Step):
    """A step with what it stored, loaded and awaited.

    Attributes
    ----------
    s : int
        When it was scheduled.
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

    s: int = 0
    stall: int = 0
    cpu: int = 0
    later: list = field(default_factory=list)
    nostore: list = field(default_factory=list)
    load: list = field(default_factory=list)
    store: list = field(default_factory=list)
    flush: int = 0


class OffloadInstance(Instance):
    """An engine with a connector.

    A step that schedules nothing takes no time, but for a stall, and is not listed without one. It
    is made while there is something to schedule, to store or to be reported, until nothing changes
    any more; then the engine sleeps until a copy ends or a request enters.

    Attributes
    ----------
    unsubmitted : list of Job
        Stores that the next step begins.
    reports : list of Job
        Copies that end with the step in flight.
    """

    def __init__(self, index, scenario, keys, max_steps, check):
        super().__init__(index, scenario, keys, max_steps, check)
        self.scheduler = OffloadScheduler(scenario.engine, scenario.cache, keys)
        self.streams = Streams(scenario.cache)
        self.unsubmitted, self.reports = [], []
        self.end_us = 0
        self.asleep = False
        self.preempted = 0

    def next_event(self):
        entry = self.arriving[0][0] if self.arriving else inf
        if self.in_flight:
            return min(entry, self.end_us)
        return min(entry, self.streams.next_end() if self.asleep else inf)

    def proceed(self):
        """Do what happens at the time of the next event: outputs, queue entries, steps."""
        now = self.next_event()
        self.finishing = []
        if self.asleep:
            self.block_us += self.scheduler.pool.used * (now - self.end_us)
            self.asleep = False
        while True:
            idle = False
            if self.in_flight and self.end_us == now:
                idle = self._is_idle()
                self._end_step(now)
            self._enter_queue(now)
            if self.in_flight or not self.scheduler.busy:
                return
            if idle:
                self.asleep = True
                return
            self._start_step(now)

    def _is_idle(self):
        """Whether the step in flight changes nothing."""
        decision = self.in_flight
        work = decision.copies.work
        active = decision.scheduled or decision.preempted or decision.timed_out
        return not (active or work.loads or work.stores or self.unsubmitted or self.reports)

    def _start_step(self, now):
        scheduler, pool = self.scheduler, self.scheduler.pool
        waits, evictions = scheduler.waits, pool.evictions
        decision = scheduler.schedule(now)
        for request in decision.timed_out:
            request.status = "timed_out"
        compute = self._duration(decision) if decision.scheduled else 0
        decision.transfer_us = self._copy(decision.copies.work, now, compute)
        self.end_us = now + decision.transfer_us + compute
        self.in_flight = decision
        self.peak_blocks = max(self.peak_blocks, pool.used)
        self.block_us += pool.used * (self.end_us - now)
        self.transfer_us += decision.transfer_us
        self.preempted += len(decision.preempted)
        if self.end_us > now:
            self._list_step(decision, now, waits, pool.evictions - evictions)
        self.finishing += [(self.end_us, r) for r in decision.scheduled if scheduler.last_step(r)]

    def _copy(self, work, now, compute):
        """Begin copies, and note those that end with the step; return how long it stalls."""
        for job in self.unsubmitted + [job for job in work.stores if job in work.flush]:
            self.streams.submit(job, now)
        self.unsubmitted = [job for job in work.stores if job not in work.flush]
        stall = max([0, *(job.end_us - now for job in work.flush)])
        for job in work.loads:
            self.streams.submit(job, now + stall + compute)
        self.reports = self.streams.completed(now + stall + compute)
        return stall

    def _list_step(self, decision, now, waits, evicted):
        if len(self.steps) == self.max_steps:
            raise StepLimit(f"instance {self.index} after {self.max_steps} steps")
        for request, cached in decision.admitted:
            if request.scheduled_us is None:
                request.scheduled_us = now
            request.admissions.append((len(self.steps), cached))
        scheduler, copies = self.scheduler, decision.copies
        self.steps.append(
            OffloadStep(
                t=now,
                d=self.end_us - now,
                pf=decision.prefill_tokens,
                dc=decision.decode_tokens,
                run=len(scheduler.running),
                wait=waits,
                free=len(scheduler.pool.free),
                ev=evicted,
                adm=[(r.id, cached, int(r.preemptions > 0)) for r, cached in decision.admitted],
                pre=[r.id for r in decision.preempted],
                sched=[(r.id, n) for r, n in decision.scheduled.items()],
                s=now,
                stall=decision.transfer_us,
                cpu=len(scheduler.connector.manager.chunks),
                later=[r.id for r in copies.later],
                nostore=[r.id for r in copies.refused],
                load=[[job.request.id, job.tokens] for job in copies.work.loads],
                store=[[job.request.id, job.tokens] for job in copies.work.stores],
                flush=len(copies.work.flush),
            )
        )

    def _duration(self, decision):
        return self.latency.step_us(
            decision.prefill_tokens,
            decision.decode_tokens,
            decision.decode_context,
            decision.prefill_context,
        )

    def _end_step(self, now):
        decision, self.in_flight = self.in_flight, None
        sampled, finished = self.scheduler.finish(decision, now)
        for request in sampled:
            request.token_us.append(now)
        for request in finished:
            request.status = "completed"
        self.finished += len(finished)
        self.scheduler.report(self.reports)
        if decision.scheduled or decision.transfer_us:
            step = self.steps[-1]
            step.fin = [r.id for r in finished]
            step.free_end = len(self.scheduler.pool.free)
            step.hashed = self.scheduler.pool.hashed
        if self.check:
            check_step(self.scheduler, decision)

    @property
    def totals(self):
        manager, log = self.scheduler.connector.manager, self.streams.log
        loads = [row[2] for row in log if row[0] == "load"]
        stores = [row[2] for row in log if row[0] == "store"]
        return super().totals | {
            "preemptions": self.preempted,  # those of steps that are not listed too
            "end_us": max((step.t + step.d for step in self.steps if step.fin), default=0),
            "loads": len(loads),
            "stores": len(stores),
            "loaded_tokens": sum(loads),
            "stored_tokens": sum(stores),
            "cpu_evictions": manager.evictions,
            "cpu_blocks_at_end": len(manager.chunks),
            "stall_us": self.transfer_us,
        }
