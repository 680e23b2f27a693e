"""One instance: its event clock, wait queue and steps."""

import heapq
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import NamedTuple

from kvsweep.replica.batch import Batcher, Grants
from kvsweep.replica.block_store import BlockStore
from kvsweep.replica.priority import Priority, Scheduler
from kvsweep.replica.request import Request
from kvsweep.replica.step_time import Latency
from kvsweep.replica.switches import Switches


class InstanceEvent(Enum):
    """What happens inside an instance."""

    ARRIVAL = auto()
    QUEUED = auto()
    STEP = auto()
    LEFT = auto()


class StepRecord(NamedTuple):
    """One line of the step log; times in microseconds."""

    start_us: int
    advance_us: int
    batch: int
    waiting: int
    used_blocks_before_completion: int
    preemptions_so_far: int
    prefill_tokens: int
    decode_tokens: int
    useful: bool


@dataclass(slots=True)
class Counters:
    """What an instance counts on the way."""

    completed: int = 0
    dropped: int = 0
    steps: int = 0
    peak_blocks: int = 0
    block_time: int = 0
    prompt_tokens: int = 0
    decode_tokens: int = 0
    last_token_failures: int = 0
    ttft_sum: int = 0
    last_useful: int = -1


@dataclass(eq=False)
class Instance:
    """A model replica with its block store.

    Events at the same microsecond are taken in order of creation. (The reference keeps them in a
    binary heap ordered by time only; ties are rare, and every one seen came out in this order.)

    Attributes
    ----------
    pending : int
        Requests routed here and not yet in the wait queue.
    step_registered : bool
        Whether a step is on its way, as far as the instance knows (D2, D5).
    clock : int
        Time of the last event that happened here, microseconds.
    busy_until : int
        End of the last step, microseconds.
    transfer_us : int
        Transfer time charged to the last step, microseconds.
    log : list of StepRecord or None
        The step log, if it is wanted.
    """

    batcher: Batcher
    latency: Latency
    priority: Priority
    scheduler: Scheduler
    log: list[StepRecord] | None = None
    pending: int = 0
    step_registered: bool = False
    clock: int = 0
    busy_until: int = 0
    transfer_us: int = 0
    counters: Counters = field(default_factory=Counters)
    _events: list[tuple[int, int, InstanceEvent, Request | None]] = field(default_factory=list)
    _created: int = 0

    @property
    def store(self) -> BlockStore:
        """The instance's blocks."""
        return self.batcher.store

    @property
    def switches(self) -> Switches:
        """The rule switches of the run."""
        return self.batcher.switches

    @property
    def next_time(self) -> float:
        """Time of the next event, or infinity."""
        return self._events[0][0] if self._events else float("inf")

    @property
    def step_times(self) -> list[int]:
        """Times of the steps on their way, ascending."""
        return sorted(time for time, _, event, _ in self._events if event is InstanceEvent.STEP)

    def visible_transfer_us(self, now: int) -> int:
        """Return the transfer time that a router sees at ``now``: as shipped always 0 (D9)."""
        if self.switches.router_sees_transfers and now < self.busy_until:
            return self.transfer_us
        return self.store.pending_latency

    def route_here(self, request: Request, now: int) -> None:
        """Let a request arrive at ``now``."""
        self.pending += 1
        self._push(now, InstanceEvent.ARRIVAL, request)

    def run_next(self) -> InstanceEvent:
        """Take the next event, let it happen and return what it was."""
        self.clock, _, event, request = heapq.heappop(self._events)
        if event is InstanceEvent.STEP:
            self._step(self.clock)
        elif event is InstanceEvent.ARRIVAL and request is not None:
            delay = self.latency.queueing(request.prompt_tokens)
            self._push(self.clock + delay, InstanceEvent.QUEUED, request)
        elif event is InstanceEvent.QUEUED and request is not None:
            self._enqueue(request, self.clock)
        return event

    def _push(self, time: int, event: InstanceEvent, request: Request | None = None) -> None:
        """Put an event on the instance's calendar."""
        heapq.heappush(self._events, (time, self._created, event, request))
        self._created += 1

    def _enqueue(self, request: Request, now: int) -> None:
        """Put a request into the wait queue, or drop it, and start a step if none is registered."""
        self.pending = max(self.pending - 1, 0)
        if self._unservable(request):
            request.state = "dropped"
            self.counters.dropped += 1
        else:
            request.queued = now
            self.batcher.waiting.append(request)
            self.counters.prompt_tokens += request.prompt_tokens
        if not self.step_registered:
            waits = self.switches.last_step_occupies and now < self.busy_until
            self._push(self.busy_until if waits else now, InstanceEvent.STEP)
            self.step_registered = self.switches.step_registers or waits

    def _unservable(self, request: Request) -> bool:
        """Return whether the request is known never to fit: by its prompt alone (D6)."""
        tokens = request.prompt_tokens
        if self.switches.drop_counts_output:
            # The last output token may fail to get a block: the request completes all the same.
            tokens += request.output_tokens - 1
        blocks = -(-tokens // self.store.block_size)
        return self.switches.drop_unservable and blocks > self.store.total

    def _step(self, now: int) -> None:
        """Form a batch, run it, and schedule the next step."""
        self.counters.steps += 1
        self.store.clock = now
        self._order_waiting(now)
        grants = self.batcher.form(now)
        prefill, decode = self._step_tokens(grants)
        self.transfer_us = self.store.take_pending_latency()
        advance = self.latency.step(prefill, decode) + self.transfer_us
        self.busy_until = now + advance
        useful = self._execute(now, advance)
        self.counters.peak_blocks = max(self.counters.peak_blocks, self.store.used)
        self.counters.block_time += self.store.used * advance
        if useful:
            self.counters.last_useful = now + advance
        if self.log is not None:
            self.log.append(self._record(now, advance, prefill, decode, useful))
        self._complete(now, advance)
        self._schedule_next(now + advance)

    def _order_waiting(self, now: int) -> None:
        """Recompute the priorities of the waiting requests and sort the queue."""
        batcher = self.batcher
        for request in batcher.waiting:
            request.priority = self.priority(request, now)
        batcher.waiting = self.scheduler(batcher.waiting)

    def _step_tokens(self, grants: Grants) -> tuple[int, int]:
        """Return the prefill and decode tokens that the step is charged for."""
        if not self.switches.step_time_final_batch:
            return grants.prefill, grants.decode
        prefill = decode = 0
        for request in self.batcher.running:
            if request.progress < request.prompt_tokens:
                prefill += request.granted
            else:
                decode += request.granted
        return prefill, decode

    def _execute(self, now: int, advance: int) -> bool:
        """Move every request of the batch on; return whether any got further than ever before.

        A decoding request advances even if the scheduling loop ended before it was served.
        """
        overhead = self.latency.output()
        useful = False
        for request in self.batcher.running:
            if request.progress < request.prompt_tokens:
                request.progress = request.computed
            else:
                request.progress += 1
                self.counters.decode_tokens += 1
                request.itl.append(advance + overhead)
            if request.progress == request.prompt_tokens:
                request.first_token = now + advance + overhead - request.arrival
                self.counters.ttft_sum += request.first_token
            if request.progress > request.furthest:
                request.furthest = request.progress
                useful = True
        return useful

    def _complete(self, now: int, advance: int) -> None:
        """Take finished requests out of the batch; their blocks are free from the step's start."""
        remaining = []
        for request in self.batcher.running:
            if request.progress < request.prompt_tokens + request.output_tokens - 1:
                remaining.append(request)
            else:
                self._finish(request, now, advance)
        self.batcher.running = remaining

    def _finish(self, request: Request, now: int, advance: int) -> None:
        """Store the last output token, free the blocks and note the times (D4)."""
        request.itl.append(advance + self.latency.output())
        if not self.store.allocate(request, request.progress, request.progress + 1):
            self.counters.last_token_failures += 1
        self.store.release(request)
        assert request.first_token is not None
        request.state = "completed"
        request.finish = now + advance - request.arrival
        request.e2e = request.first_token + sum(request.itl)
        if self.switches.e2e_is_completion:
            request.e2e = request.finish + self.latency.output()
        self.counters.completed += 1
        self._push(now + advance, InstanceEvent.LEFT)

    def _schedule_next(self, end: int) -> None:
        """Schedule the next step at the end of this one.

        With nothing left in the batch none is registered, so a request queued before ``end``
        starts a step at once and the last step of a busy period occupies nobody (D5).
        """
        conserving = self.switches.work_conserving and bool(self.batcher.waiting)
        self.step_registered = bool(self.batcher.running) or conserving
        if self.step_registered:
            self._push(end, InstanceEvent.STEP)

    def _record(
        self, now: int, advance: int, prefill: int, decode: int, useful: bool
    ) -> StepRecord:
        """Return the step's line in the log."""
        return StepRecord(
            start_us=now,
            advance_us=advance,
            batch=len(self.batcher.running),
            waiting=len(self.batcher.waiting),
            used_blocks_before_completion=self.store.used,
            preemptions_so_far=self.batcher.preemptions,
            prefill_tokens=prefill,
            decode_tokens=decode,
            useful=useful,
        )
