"""One vLLM engine on one device: steps out of its scheduler, tokens and transfers back into it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from record_vllm.adapter import Vllm, cpu_blocks_in_use
from record_vllm.building import make_scheduler
from record_vllm.device import LOAD, Device, Execution, Transfer
from record_vllm.probes import Counts, watch
from record_vllm.requests import Request
from record_vllm.sampling import Sampler
from record_vllm.scenario import Scenario
from record_vllm.steps import Decision, Ordered, complete, decide, make_request, request_id

Row = dict[str, Any]

CACHE_TOTALS = (
    "queries",
    "hits",
    "requests",
    "preempted_requests",
    "preempted_queries",
    "preempted_hits",
)
"""vLLM's statistics of its prefix cache, in tokens but for the requests."""


@dataclass
class Batch:
    """A step that has been handed to the device and not come back yet.

    `row` is None for a step without tokens that costs no time: it is not listed. `idle` says that
    nothing can come of it.
    """

    decision: Decision
    execution: Execution
    row: Row | None
    idle: bool

    @property
    def empty(self) -> bool:
        """Whether no tokens were scheduled."""
        return not self.decision.entries


class Engine:
    """A scheduler with its device and what has been recorded of it.

    Attributes
    ----------
    rows : list of dict
        The columns of each listed step.
    per_request : list of dict
        What happened to each request.
    """

    def __init__(
        self, vllm: Vllm, scenario: Scenario, requests: Sequence[Request], *, detail: bool
    ) -> None:
        self._vllm, self._scenario, self._requests = vllm, scenario, requests
        self._detail = detail
        self.scheduler, config = make_scheduler(vllm, scenario, scenario.gpu_blocks, None)
        self.scheduler.finished_req_ids = Ordered()
        self.pool = self.scheduler.kv_cache_manager.block_pool
        self.device = Device(scenario)
        self.counts = watch(self.scheduler)
        self.rows: list[Row] = []
        self.per_request = [_unseen(scenario, request) for request in requests]
        self.sampler = Sampler(self.scheduler, requests)
        self.finished = 0
        self._cache_totals = dict.fromkeys(CACHE_TOTALS, 0)
        self._hasher = vllm.block_hasher(scenario, config)

    def add(self, number: int) -> None:
        """Enter a request into the waiting list, or refuse it if it can never run."""
        request = self._requests[number]
        if self._scenario.can_ever_run(request.prompt_tokens, request.output_tokens):
            tokens = request.output_tokens
            self.scheduler.add_request(make_request(self._vllm, request, self._hasher, tokens))
        else:
            self.per_request[number]["rejected"] = True

    def dispatch(self, clock: int) -> Batch:
        """Schedule a step and hand it to the device."""
        counts = self.counts
        counts.new_step()
        before = (counts.evictions, counts.window_freed, counts.preempted_in_flight)
        decision = decide(self.scheduler)
        orders = decision.output.kv_connector_metadata if self._scenario.offload else None
        empty = not decision.entries
        duration = None if empty else self._scenario.step_us(decision.prefill, decision.decode)
        samples = any(entry.samples for entry in decision.entries)
        execution = self.device.execute(clock, orders, duration, samples=samples)
        row: Row | None = None
        if not empty or execution.stall:
            row = self._row(clock, decision, execution) | self._more(execution, orders, before)
        for number in counts.preempted:
            self.per_request[number]["preemptions"] += 1
        if row is not None:
            for number, cached, _ in decision.admitted:
                self.per_request[number]["admissions"].append([len(self.rows), cached])
            self.rows.append(row)
        moved = bool(orders and (orders.load_jobs or orders.store_jobs))
        quiet = not (execution.completed or counts.preempted or self.device.has_stores_to_submit)
        return Batch(decision, execution, row, idle=empty and quiet and not moved)

    def _row(self, clock: int, decision: Decision, execution: Execution) -> Row:
        row: Row = {
            "s": clock,
            "t": execution.start,
            "d": execution.end - execution.start,
            "pf": decision.prefill,
            "dc": decision.decode,
            "run": len(self.scheduler.running),
            "wait": decision.waiting,
            "free": self.pool.get_num_free_blocks(),
            "adm": decision.admitted,
            "pre": list(self.counts.preempted),
        }
        return row | ({"sched": decision.scheduled} if self._detail else {})

    def _more(
        self, execution: Execution, orders: Any, before: tuple[int, int | None, int | None]
    ) -> Row:
        """Return the columns that count, and those of an offloading connector."""
        scenario, counts = self._scenario, self.counts
        evictions, window_freed, in_flight = before
        row: Row = {"ev": counts.evictions - evictions}
        if scenario.offload:
            row |= tier_columns(self.scheduler, scenario, counts, orders, execution)
        if scenario.has_windows:
            row["win"] = _since(window_freed, counts.window_freed)
        if scenario.preempts_in_flight:
            row["pre_in_flight"] = _since(in_flight, counts.preempted_in_flight)
        return row

    def settle(self, batch: Batch) -> None:
        """Give vLLM what came of a step: tokens, accepted drafts, completed transfers."""
        tokens, verified = self.sampler.sample(batch.decision)
        report = self._report(batch) if self._scenario.offload else None
        outputs, advanced = complete(self._vllm, self.scheduler, batch.decision, tokens, report)
        for output in outputs.values():
            _add(self._cache_totals, getattr(output.scheduler_stats, "prefix_cache_stats", None))
        end, ended = batch.execution.end, []
        for entry, request in advanced:
            times = self.per_request[entry.number]
            if times["first_token_us"] is None:
                times["first_token_us"] = end
            if request.is_finished() and times["finish_us"] is None:
                times["finish_us"] = end
                ended.append(entry.number)
        self.finished += len(ended)
        if batch.row is not None:
            batch.row |= {"fin": ended, "free_end": self.pool.get_num_free_blocks()}
            if self._detail:
                batch.row["hashed"] = sum(b.block_hash is not None for b in self.pool.blocks)
            if self._scenario.drafts:
                batch.row["acc"] = verified
        if self._scenario.drafts and not self._scenario.async_scheduling and not batch.empty:
            self.sampler.draft(self._vllm, batch.decision, self._scenario.drafts)

    def cache_totals(self) -> dict[str, int]:
        """Return `CACHE_TOTALS`: what vLLM has told, and what it would tell with the next step."""
        totals = dict(self._cache_totals)
        _add(totals, self.scheduler.kv_cache_manager.prefix_cache_stats)
        return totals

    def _report(self, batch: Batch) -> Any:
        """Return what the worker tells the connector: transfers that ended with this step."""
        report = self._vllm.KVConnectorOutput()
        done = sorted(batch.execution.completed, key=loads_last)
        if done:
            jobs = [transfer.job for transfer in done]
            report.kv_connector_worker_meta = self._vllm.completed(jobs)
            loaded = {request_id(t.request) for t in done if t.kind == LOAD}
            report.finished_recving = loaded or None
        for transfer in done:
            transfer.seen = batch.execution.end
        return report


def _since(before: int | None, now: int | None) -> int | None:
    return None if before is None or now is None else now - before


def _add(totals: dict[str, int], told: Any) -> None:
    for name in totals:
        totals[name] += getattr(told, name, 0)


def loads_last(transfer: Transfer) -> bool:
    """Return the place of a copy in a report: loads are told of behind stores."""
    return transfer.kind == LOAD


def tier_columns(
    scheduler: Any, scenario: Scenario, counts: Counts, orders: Any, execution: Execution
) -> Row:
    """Return the columns of an offloading connector."""
    return {
        "stall": execution.stall,
        "cpu": cpu_blocks_in_use(scheduler),
        "later": list(counts.later),
        "nostore": list(counts.no_store),
        "load": _moves(scenario, orders.load_jobs, "dst_spec"),
        "store": _moves(scenario, orders.store_jobs, "src_spec"),
        "flush": len(orders.jobs_to_flush or ()),
    }


def _moves(scenario: Scenario, jobs: dict[int, Any], gpu_side: str) -> list[list[int]]:
    size = scenario.block_size
    return [
        [int(job.req_id), len(getattr(job, gpu_side).block_ids) * size] for job in jobs.values()
    ]


def _unseen(scenario: Scenario, request: Request) -> Row:
    return {
        "queue_us": scenario.queue_us(request.arrival_us, request.prompt_tokens),
        "first_token_us": None,
        "finish_us": None,
        "preemptions": 0,
        "admissions": [],
        "rejected": False,
    }
