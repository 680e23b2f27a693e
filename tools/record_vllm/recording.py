"""Record a trace: the clock, arrivals, and the engine's loop around schedule and update."""

from __future__ import annotations

import traceback
from collections import deque
from typing import Any

from kvsweep.errors import InputError
from record_vllm.adapter import Vllm, cpu_blocks_in_use
from record_vllm.device import LOAD, STORE
from record_vllm.disaggregated import Cluster
from record_vllm.engine import Batch, Engine
from record_vllm.requests import Request, check_failures, read_requests
from record_vllm.scenario import Scenario, read_scenario
from record_vllm.traces import Document

MOST_ROUNDS = 200_000
"""Of the loop: some schedules of priorities never end."""


STOPS = (AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What vLLM raises at a state that it did not expect, or a release whose insides have changed."""


def record(vllm: Vllm, document: Document, where: str, *, detail: bool = True) -> Document:
    """Return a trace with ``expected``: what vLLM decides for it.

    Parameters
    ----------
    vllm : Vllm
        The release that decides.
    document : dict
        The trace; what was recorded in it is replaced.
    where : str
        Its name for messages.
    detail : bool
        Whether to record ``sched`` and ``hashed``, the largest columns.

    Raises
    ------
    InputError
        If the trace is malformed, needs what the recorder does not have, or never ends, or vLLM
        stops at it.
    """
    scenario = read_scenario(document.get("scenario"), where)
    requests = read_requests(document, where)
    try:
        check_failures(scenario.disaggregation, requests)
        if scenario.disaggregation:
            expected = Cluster(vllm, scenario, scenario.disaggregation, requests).run()
        else:
            expected = _Run(vllm, scenario, requests, detail).run()
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    except STOPS as error:
        raise InputError(f"{where}: vLLM {vllm.version} stopped: {_told(error)}") from error
    about = document.get("about")
    about = {**(about if isinstance(about, dict) else {}), "source": _source(vllm)}
    return {**document, "about": about, "expected": expected}


def _told(error: Exception) -> str:
    """Return what an exception says, and the line that raised it."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{text} ({last.filename}:{last.lineno})"


def _source(vllm: Vllm) -> str:
    return (
        f"vLLM {vllm.version} scheduler, KV cache manager and connector, run step by step without "
        "a model"
    )


class _Run:
    """The loop of vLLM's ``EngineCore``, with a clock of simulated microseconds.

    Synchronous scheduling gives back each step before the next; asynchronous scheduling and
    pipelines several steps later, as ``step_with_batch_queue`` does.
    """

    def __init__(
        self, vllm: Vllm, scenario: Scenario, requests: list[Request], detail: bool
    ) -> None:
        self._scenario = scenario
        self._engine = Engine(vllm, scenario, requests, detail=detail)
        enters = [times["queue_us"] for times in self._engine.per_request]
        order = sorted(range(len(requests)), key=lambda i: (enters[i], i))
        self._arrivals = deque((enters[i], i) for i in order)
        self._flying: deque[Batch] = deque()
        self._clock = 0

    def run(self) -> Document:
        """Run to the end and return what was recorded."""
        for _ in range(MOST_ROUNDS):
            while self._arrivals and self._arrivals[0][0] <= self._clock:
                self._engine.add(self._arrivals.popleft()[1])
            if self._has_work():
                self._round()
            elif self._arrivals:
                self._clock = self._arrivals[0][0]
            else:
                return self._result()
        raise InputError(f"no end after {MOST_ROUNDS:,} steps: this schedule may never end")

    def _has_work(self) -> bool:
        return bool(self._flying) or self._engine.scheduler.has_requests()

    def _round(self) -> None:
        """Schedule a step if there is something to schedule, give back the oldest if it is due."""
        scheduler = self._engine.scheduler
        if scheduler.has_requests():
            batch = self._engine.dispatch(self._clock)
            self._flying.appendleft(batch)
            room = len(self._flying) < self._scenario.steps_in_flight
            if room and (not batch.empty or scheduler.has_requests()):
                return
        batch = self._flying.pop()
        self._clock = max(self._clock, batch.execution.end)
        self._engine.settle(batch)
        idle = batch.idle and all(other.idle for other in self._flying)
        if idle and not self._engine.device.has_stores_to_submit and self._has_work():
            self._sleep()

    def _sleep(self) -> None:
        """Wait for the next arrival or the end of a transfer: no step can change anything."""
        scheduler = self._engine.scheduler
        moments = [self._engine.device.next_end(self._clock)]
        moments += [self._arrivals[0][0]] if self._arrivals else []
        later = [moment for moment in moments if moment is not None and moment > self._clock]
        waits = scheduler.has_unfinished_requests()
        if not later and waits:
            raise InputError("requests wait, and nothing is left that could wake them")
        pushes = self._scenario.offload and scheduler.connector.has_pending_push_work()
        if later and (waits or pushes):
            self._clock = min(later)

    def _result(self) -> Document:
        engine = self._engine
        if engine.pool.get_num_free_blocks() != self._scenario.gpu_blocks:
            raise InputError("blocks are still in use at the end")
        # What a release does not tell is None, and is no column.
        first = engine.rows[0] if engine.rows else {}
        columns = [name for name in first if all(row[name] is not None for row in engine.rows)]
        result: Document = {
            "steps": {name: [row[name] for row in engine.rows] for name in columns},
            "requests": engine.per_request,
            "totals": self._totals(),
        }
        if self._scenario.offload:
            result["totals"] |= self._tier_totals()
            result["transfers"] = [
                [t.kind, t.request, t.tokens, t.submitted, t.start, t.end, t.seen]
                for t in engine.device.transfers
            ]
        return result

    def _totals(self) -> dict[str, int]:
        engine, counts = self._engine, self._engine.counts
        totals = engine.cache_totals() | {
            "steps": len(engine.rows),
            "preemptions": sum(times["preemptions"] for times in engine.per_request),
            "evictions": counts.evictions,
            "finished": engine.finished,
            "rejected": sum(times["rejected"] for times in engine.per_request),
            "prefill_tokens": sum(row["pf"] for row in engine.rows),
            "decode_tokens": sum(row["dc"] for row in engine.rows),
            "end_us": max([0, *(t["finish_us"] or 0 for t in engine.per_request)]),
            "blocks_free_at_end": engine.pool.get_num_free_blocks(),
        }
        if self._scenario.preempts_in_flight and counts.preempted_in_flight is not None:
            totals["preempted_in_flight"] = counts.preempted_in_flight
        if self._scenario.drafts:
            totals["draft_tokens"] = engine.sampler.drafted
            totals["accepted_tokens"] = engine.sampler.accepted
        if counts.window_freed:
            totals["window_freed"] = counts.window_freed
        return totals

    def _tier_totals(self) -> dict[str, Any]:
        engine = self._engine
        found: dict[str, Any] = {}
        for kind, done in ((LOAD, "loaded"), (STORE, "stored")):
            moved = [t.tokens for t in engine.device.transfers if t.kind == kind]
            found |= {f"{kind}s": len(moved), f"{done}_tokens": sum(moved)}
        return found | {
            "cpu_evictions": engine.counts.cpu_evictions,
            "cpu_blocks_at_end": cpu_blocks_in_use(engine.scheduler),
            "stall_us": sum(row["stall"] for row in engine.rows),
        }
