"""One engine on the clock: queue entries, batches, and what is recorded of them.

The engine schedules batches and hands them to its device, which runs them in order. Synchronously
it waits for each. Asynchronously it keeps two on their way: while one is computed, the next is
scheduled already, without the tokens that the first will sample.
"""

import heapq
from collections import deque
from dataclasses import dataclass, field
from math import inf

from .checks import check_step
from .scheduler import Decision, Scheduler


class StepLimit(Exception):
    """An instance took more steps than its requests can need: they preempt each other for ever."""


@dataclass
class Step:
    """One step: a batch that computes something.

    Attributes
    ----------
    t, d : int
        Start on the device and duration, microseconds.
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
    s : int
        When it was scheduled, microseconds.
    pre_in_flight : int
        Preempted requests whose output of the batch before was still to come.
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
    s: int
    pre_in_flight: int
    free_end: int = 0
    fin: list = field(default_factory=list)
    hashed: int = 0


@dataclass
class Batch:
    """A scheduled batch on its way through the device, until its output is processed.

    `step` is None if it computes nothing; such a batch takes no time.
    """

    decision: Decision
    step: Step | None
    end: int


class Instance:
    """One engine of the cluster.

    Attributes
    ----------
    queue : deque of Batch
        Scheduled and not processed, oldest first; the oldest is what the engine waits for.
    device_us : int
        When the device is done with all of them.
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
        Requests that the latest schedules finish, and when their batches end.
    """

    step_type = Step

    def __init__(self, index, scenario, keys, max_steps, check):
        self.index = index
        self.max_steps = max_steps
        self.latency = scenario.latency
        self.scheduler = Scheduler(scenario.engine, scenario.cache, keys)
        self.check = check
        self.arriving = []
        self.depth = scenario.engine.depth
        self.queue = deque()
        self.device_us = 0
        self.noted_us = 0
        self.steps = []
        self.finishing = []
        self.dropped = 0
        self.finished = 0
        self.preemptions = 0
        self.preempted_in_flight = 0
        self.peak_blocks = 0
        self.block_us = 0
        self.transfer_us = 0

    def expect(self, request, entry_us):
        """Let a request enter the waiting list at `entry_us`."""
        request.instance = self.index
        heapq.heappush(self.arriving, (entry_us, request.id, request))

    def proceed(self):
        """Do what happens at the time of the next event: outputs, queue entries, schedules."""
        now = self.next_event()
        self.finishing = []
        self._note_usage(now)
        if self.queue and self.queue[0].end == now:
            self._process_oldest(now)
        self._enter_queue(now)
        while self._has_work() or self.queue:
            if self._has_work() and len(self.queue) < self.depth:
                self.queue.append(self._schedule(now))
            elif self.queue[0].step:
                break
            else:
                self._process_oldest(now)

    def next_event(self):
        entry = self.arriving[0][0] if self.arriving else inf
        return min(entry, self.queue[0].end if self.queue else inf)

    def turn(self):
        """Return what events of the instances are ordered by."""
        return self.next_event()

    def _has_work(self):
        return self.scheduler.busy

    @property
    def in_flight(self):
        """The decision that is being carried out, or None."""
        return self.queue[0].decision if self.queue else None

    def _note_usage(self, now):
        self.block_us += self.scheduler.pool.used * (now - self.noted_us)
        self.noted_us = now

    def _enter_queue(self, now):
        """Queue the requests whose time has come, in order of entry, then of the trace."""
        while self.arriving and self.arriving[0][0] <= now:
            entry_us, _, request = heapq.heappop(self.arriving)
            request.queued_us = entry_us
            if self.serves(request):
                self.scheduler.enqueue(request)
            else:
                request.status = "dropped_unservable"
                self.dropped += 1

    def serves(self, request):
        """Whether the request can ever be served."""
        return self.scheduler.servable(request)

    @property
    def pending(self):
        """Requests routed here that are not waiting yet."""
        return len(self.arriving)

    def _schedule(self, now):
        """Schedule a batch and hand it to the device."""
        scheduler, pool = self.scheduler, self.scheduler.pool
        wait, evictions = scheduler.waits, pool.evictions
        decision = scheduler.schedule(now)
        for request in decision.timed_out:
            request.status = "timed_out"
        self.preemptions += len(decision.preempted)
        self.preempted_in_flight += decision.preempted_in_flight
        self.peak_blocks = max(self.peak_blocks, pool.used)
        if not decision.scheduled:
            # All who wait gave up or were refused; all who run have their last token on its way.
            return Batch(decision, None, max(now, self.device_us))
        start = self._begin(now)
        self.device_us = self._end(start, self._duration(decision))
        columns = self._columns(decision, wait, pool.evictions - evictions)
        step = self.step_type(s=now, t=start, d=self.device_us - start, **columns)
        self._list(step, decision)
        self._note_finishing(decision)
        self.transfer_us += decision.transfer_us
        return Batch(decision, step, self.device_us)

    def _begin(self, now):
        """Return when the device begins with a batch that is scheduled now."""
        return max(now, self.device_us)

    def _end(self, start, duration):
        """Return when a batch has passed the device."""
        return start + duration

    def _columns(self, decision, wait, evicted):
        """Return what a step's row tells of a decision."""
        return {
            "pf": decision.prefill_tokens,
            "dc": decision.decode_tokens,
            "run": len(self.scheduler.running),
            "wait": wait,
            "free": len(self.scheduler.pool.free),
            "ev": evicted,
            "adm": [(r.id, cached, int(r.preemptions > 0)) for r, cached in decision.admitted],
            "pre": [r.id for r in decision.preempted],
            "pre_in_flight": decision.preempted_in_flight,
            "sched": [(r.id, n) for r, n in decision.scheduled.items()],
        }

    def _list(self, step, decision):
        """List a step, and who was admitted in it."""
        if len(self.steps) == self.max_steps:
            raise StepLimit(f"instance {self.index} after {self.max_steps} steps")
        for request, cached in decision.admitted:
            if request.scheduled_us is None:
                request.scheduled_us = step.s
            request.admissions.append((len(self.steps), cached))
        self.steps.append(step)

    def _note_finishing(self, decision):
        self.finishing += [
            (self.device_us, request)
            for request in decision.scheduled
            if self.scheduler.last_batch(request, decision)
        ]

    def _duration(self, decision):
        compute = self.latency.step_us(decision.prefilled, decision.decoded)
        compute += self.latency.cold_us(len(self.steps))
        if self.scheduler.tier.cache.transfer_overlap:
            return max(compute, decision.transfer_us)
        return compute + decision.transfer_us

    def _process_oldest(self, now):
        """Process the output of the oldest batch, which the device has just computed."""
        batch = self.queue.popleft()
        sampled, finished = self.scheduler.process(batch.decision, now)
        for request in sampled:
            request.token_us.append(now)
        for request in finished:
            request.status = "completed"
        self.finished += len(finished)
        if batch.step:
            batch.step.fin = [r.id for r in finished]
            batch.step.free_end = len(self.scheduler.pool.free)
            batch.step.hashed = self.scheduler.pool.hashed
        if self.check:
            check_step(self.scheduler, batch.decision)

    @property
    def blocks_taken(self):
        return self.scheduler.pool.taken

    @property
    def blocks_reused(self):
        return self.scheduler.blocks_reused

    @property
    def offloads(self):
        """Blocks copied to the CPU."""
        return self.scheduler.tier.offloads

    @property
    def reloads(self):
        """Blocks copied back."""
        return self.scheduler.tier.reloads

    @property
    def totals(self):
        in_flight = {"preempted_in_flight": self.preempted_in_flight} if self.depth > 1 else {}
        return (
            self.scheduler.prefix_stats
            | in_flight
            | {
                "steps": len(self.steps),
                "preemptions": self.preemptions,
                "evictions": self.scheduler.pool.evictions,
                "finished": self.finished,
                "rejected": self.dropped,
                "prefill_tokens": sum(step.pf for step in self.steps),
                "decode_tokens": sum(step.dc for step in self.steps),
                "end_us": self.device_us,
                "blocks_free_at_end": len(self.scheduler.pool.free),
            }
        )
