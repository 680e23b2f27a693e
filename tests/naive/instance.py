"""One engine on the clock: queue entries, steps, and what is recorded of them."""

import heapq
from dataclasses import dataclass, field
from math import inf

from .checks import check_step
from .scheduler import Scheduler


class StepLimit(Exception):
    """An instance took more steps than its requests can need: they preempt each other for ever."""


@dataclass
class Step:
    """One step.

    Attributes
    ----------
    t, d : int
        Start and duration, microseconds.
    pf, dc : int
        Prefill and decode tokens scheduled.
    run, wait : int
        Running requests after scheduling, waiting ones before it.
    free, free_end : int
        Free blocks after scheduling, and after the step's outputs.
    ev : int
        Cached blocks evicted.
    adm : list of (id, cached tokens, 1 if resumed)
    pre, fin : list of id
        Preempted and finished requests.
    sched : list of (id, tokens)
    hashed : int
        Blocks that carry a key at the end of the step.
    """

    t: int
    d: int
    pf: int
    dc: int
    run: int
    wait: int
    free: int
    ev: int
    adm: list
    pre: list
    sched: list
    free_end: int = 0
    fin: list = field(default_factory=list)
    hashed: int = 0


class Instance:
    """One engine of the cluster.

    Attributes
    ----------
    steps : list of Step
    totals : dict
        Counters over the whole run, named as in the recorded cases.
    blocks_taken, blocks_reused : int
        Blocks newly taken from the pool; cached blocks referred to at admissions.
    peak_blocks : int
        Most blocks in use after any scheduling.
    block_us : int
        Time integral of the blocks in use (0 while idle), block microseconds.
    transfer_us : int
        Transfers from the CPU tier, summed.
    finishing : list of (time, request)
        Requests that the latest step finishes, and its end.
    """

    def __init__(self, index, scenario, keys, max_steps, check):
        self.index = index
        self.max_steps = max_steps
        self.latency = scenario.latency
        self.scheduler = Scheduler(scenario.engine, scenario.cache, keys)
        self.check = check
        self.arriving = []
        self.in_flight = None
        self.steps = []
        self.finishing = []
        self.dropped = 0
        self.finished = 0
        self.peak_blocks = 0
        self.block_us = 0
        self.transfer_us = 0

    def expect(self, request, entry_us):
        """Let a request enter the waiting list at `entry_us`."""
        request.instance = self.index
        heapq.heappush(self.arriving, (entry_us, request.id, request))

    def proceed(self):
        """Do what happens at the time of the next event: outputs, queue entries, a step."""
        now = self.next_event()
        self.finishing = []
        if self.in_flight and self._step_end() == now:
            self._end_step(now)
        self._enter_queue(now)
        if not self.in_flight and (self.scheduler.running or self.scheduler.waiting):
            self._start_step(now)

    def next_event(self):
        entry = self.arriving[0][0] if self.arriving else inf
        return min(entry, self._step_end() if self.in_flight else inf)

    def _step_end(self):
        return self.steps[-1].t + self.steps[-1].d

    def _enter_queue(self, now):
        """Queue the requests whose time has come, in order of entry, then of the trace."""
        while self.arriving and self.arriving[0][0] <= now:
            entry_us, _, request = heapq.heappop(self.arriving)
            request.queued_us = entry_us
            if self.scheduler.servable(request):
                self.scheduler.enqueue(request)
            else:
                request.status = "dropped_unservable"
                self.dropped += 1

    def _start_step(self, now):
        scheduler, pool = self.scheduler, self.scheduler.pool
        wait, evictions = len(scheduler.waiting), pool.evictions
        decision = scheduler.schedule(now)
        for request in decision.timed_out:
            request.status = "timed_out"
        if not decision.scheduled:
            # Every client had given up: the instance stays idle.
            assert decision.timed_out
            assert not scheduler.running
            assert not scheduler.waiting
            return
        if len(self.steps) == self.max_steps:
            raise StepLimit(f"instance {self.index} after {self.max_steps} steps")
        for request, cached in decision.admitted:
            if request.scheduled_us is None:
                request.scheduled_us = now
            request.admissions.append((len(self.steps), cached))
        step = Step(
            t=now,
            d=self._duration(decision),
            pf=decision.prefill_tokens,
            dc=decision.decode_tokens,
            run=len(scheduler.running),
            wait=wait,
            free=len(pool.free),
            ev=pool.evictions - evictions,
            adm=[(r.id, cached, int(r.preemptions > 0)) for r, cached in decision.admitted],
            pre=[r.id for r in decision.preempted],
            sched=[(r.id, n) for r, n in decision.scheduled.items()],
        )
        self.steps.append(step)
        self.in_flight = decision
        self.finishing = [(now + step.d, r) for r in decision.scheduled if scheduler.last_step(r)]
        self.peak_blocks = max(self.peak_blocks, pool.used)
        self.block_us += pool.used * step.d
        self.transfer_us += decision.transfer_us

    def _duration(self, decision):
        compute = self.latency.step_us(
            decision.prefill_tokens,
            decision.decode_tokens,
            decision.decode_context,
            decision.prefill_context,
        )
        if self.scheduler.tier.cache.transfer_overlap:
            return max(compute, decision.transfer_us)
        return compute + decision.transfer_us

    def _end_step(self, now):
        step, decision, self.in_flight = self.steps[-1], self.in_flight, None
        sampled, finished = self.scheduler.finish(decision, now)
        for request in sampled:
            request.token_us.append(now)
        for request in finished:
            request.status = "completed"
        self.finished += len(finished)
        step.fin = [r.id for r in finished]
        step.free_end = len(self.scheduler.pool.free)
        step.hashed = self.scheduler.pool.hashed
        if self.check:
            check_step(self.scheduler, decision)

    @property
    def blocks_taken(self):
        return self.scheduler.pool.taken

    @property
    def blocks_reused(self):
        return self.scheduler.blocks_reused

    @property
    def totals(self):
        return self.scheduler.prefix_stats | {
            "steps": len(self.steps),
            "preemptions": sum(len(step.pre) for step in self.steps),
            "evictions": self.scheduler.pool.evictions,
            "finished": self.finished,
            "rejected": self.dropped,
            "prefill_tokens": sum(step.pf for step in self.steps),
            "decode_tokens": sum(step.dc for step in self.steps),
            "end_us": self._step_end() if self.steps else 0,
            "blocks_free_at_end": len(self.scheduler.pool.free),
        }
