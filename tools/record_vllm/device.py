"""What vLLM's workers would do: compute, in stages, and transfer, in a stream per direction."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Any

from record_vllm.scenario import Link, Scenario

STORE, LOAD = "store", "load"


@dataclass
class Transfer:
    """A transfer between tiers; times in microseconds. `seen`: the end of the step that told."""

    job: int
    kind: str
    request: int
    tokens: int
    submitted: int
    start: int
    end: int
    seen: int | None = None


@dataclass(frozen=True)
class Execution:
    """A step on the device: it waits for flushed stores (`stall`), then passes the stages."""

    start: int
    stall: int
    end: int
    completed: list[Transfer]


class Device:
    """The device of one instance. vLLM says what to do, this says when it is done."""

    def __init__(self, scenario: Scenario) -> None:
        self._block_size = scenario.block_size
        self._link = scenario.offload.link if scenario.offload else Link(0, 1.0)
        stages = scenario.pipeline_parallel_size
        self._free_at = [0] * stages
        self._async = scenario.async_scheduling
        self._sampled = deque([0] * stages, maxlen=stages)
        self._stream_free_at = {LOAD: 0, STORE: 0}
        self._open: list[Transfer] = []
        self._unsubmitted: list[tuple[int, Any]] = []
        self._end_of: dict[int, int] = {}
        self.transfers: list[Transfer] = []

    @property
    def has_stores_to_submit(self) -> bool:
        """Whether stores of the last step wait for the next one, with which they start."""
        return bool(self._unsubmitted)

    def execute(
        self, clock: int, orders: Any, duration: int | None, *, samples: bool = False
    ) -> Execution:
        """Run a step whose connector gave `orders` (None without one).

        Stores start with the step after the one that ordered them, loads at the end of their own;
        a store to be flushed starts at once, and the step waits for it.

        Parameters
        ----------
        clock : int
            When the step was scheduled.
        orders : object or None
            Of the connector.
        duration : int or None
            Of all stages together; None without tokens: such a step takes no stage.
        samples : bool
            Whether the step samples a token.
        """
        start = self._start(clock, duration)
        stall = 0
        if orders is not None:
            stall = self._store(start, orders)
        end = self._end(start + stall, duration)
        self._sampled.append(end if samples else 0)
        if orders is not None:
            for job, load in orders.load_jobs.items():
                self._submit(LOAD, job, load.req_id, len(load.dst_spec.block_ids), end)
        completed = [transfer for transfer in self._open if transfer.end <= end]
        self._open = [transfer for transfer in self._open if transfer.end > end]
        return Execution(start, stall, end, completed)

    def _start(self, clock: int, duration: int | None) -> int:
        """Return when the first stage begins.

        Under asynchronous scheduling it needs the tokens sampled as many steps before as there are
        stages: the ring of vLLM's ``PPHandler``.
        """
        if duration is None:
            return max(clock, self._free_at[-1])
        return max(clock, self._free_at[0], self._sampled[0] if self._async else 0)

    def _end(self, at: int, duration: int | None) -> int:
        """Pass the stages, the first one from `at` on, and return when the last one is left."""
        if duration is None:
            self._free_at[-1] = at
            return at
        stages = len(self._free_at)
        for stage, free_at in enumerate(self._free_at):
            share = duration * (stage + 1) // stages - duration * stage // stages
            at = max(at, free_at) + share
            self._free_at[stage] = at
        return at

    def _store(self, start: int, orders: Any) -> int:
        """Start what is due, and return how long the step waits for what is flushed."""
        flushed = set(orders.jobs_to_flush or ())
        stores = dict(orders.store_jobs)
        due = self._unsubmitted + [(job, stores.pop(job)) for job in list(stores) if job in flushed]
        self._unsubmitted = list(stores.items())
        for job, store in due:
            self._submit(STORE, job, store.req_id, len(store.src_spec.block_ids), start)
        return max([0, *(self._end_of.get(job, 0) - start for job in flushed)])

    def _submit(self, kind: str, job: int, request: str, blocks: int, at: int) -> None:
        tokens = blocks * self._block_size
        start = max(at, self._stream_free_at[kind])
        end = start + self._link.base_us + math.ceil(tokens / self._link.bandwidth)
        self._stream_free_at[kind] = end
        transfer = Transfer(job, kind, int(request), tokens, at, start, end)
        self.transfers.append(transfer)
        self._open.append(transfer)
        self._end_of[job] = end

    def next_end(self, after: int) -> int | None:
        """When the next transfer ends, if one is open."""
        return min((t.end for t in self._open if t.end > after), default=None)
