"""One instance of a disaggregated cluster: its scheduler, its steps, the transfers it waits for."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from record_vllm.adapter import Vllm
from record_vllm.building import make_scheduler
from record_vllm.device import LOAD, Device, Execution
from record_vllm.engine import loads_last, tier_columns
from record_vllm.leases import Clock, Keeper, next_heartbeat, take_heartbeats
from record_vllm.probes import watch
from record_vllm.requests import Request
from record_vllm.sampling import Sampler
from record_vllm.scenario import Disaggregation, Scenario
from record_vllm.steps import Decision, Ordered, complete, decide, make_request, request_id

PREFILL, DECODE = "prefill", "decode"
SETTLE, DISPATCH = 0, 1
RECEIVED, SENT, RENEWED = "recv", "sent", "renewed"


@dataclass
class Shared:
    """What all instances of a cluster see.

    Attributes
    ----------
    per_request : list of dict
        What happened to each request.
    parameters : dict of int to dict
        How a decode instance finds the blocks of a request: what the prefill instance returned.
    pulls : list of [request, tokens, ordered, start, end]
        Transfers in the order of their orders; those of 0 tokens only tell the prefill instance.
    clock : Clock or None
        What leases see, if there are any.
    expired : set of int
        Requests whose leases have ended.
    """

    vllm: Vllm
    scenario: Scenario
    layout: Disaggregation
    requests: Sequence[Request]
    per_request: list[dict[str, Any]]
    parameters: dict[int, dict[str, Any]] = field(default_factory=dict)
    pulls: list[list[int]] = field(default_factory=list)
    clock: Clock | None = None
    expired: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        if self.layout.lease_us:
            self.clock = Clock()

    def tell(self, now: int) -> None:
        """Tell vLLM the time."""
        if self.clock:
            self.clock.now = now

    def fails(self, number: int) -> bool:
        """Return whether a pull that has ended failed."""
        return self.requests[number].pull_fails or number in self.expired

    def connect(self, prefill: list[Instance], decode: list[Instance]) -> None:
        """Let the instances know each other."""
        self._prefill, self._decode = prefill, decode

    def prefill_of(self, number: int) -> Instance:
        """Return the instance that computes the prompt of a request."""
        return self._prefill[number % len(self._prefill)]

    def hand_over(self, number: int, parameters: dict[str, Any], at: int) -> None:
        """Send a request whose prompt is computed to its decode instance."""
        enters = at + self.layout.handoff_us
        order = len(self.requests) + len(self.parameters)
        self.parameters[number] = parameters
        self.per_request[number]["decode_queue_us"] = enters
        decode = self._decode[number % len(self._decode)]
        decode.arrivals.append((enters, order, number))


@dataclass
class Flight:
    """A step on the device; `row` is None where no tokens were scheduled."""

    decision: Decision
    execution: Execution
    row: dict[str, Any] | None
    idle: bool

    @property
    def end(self) -> int:
        """When it is done."""
        return self.execution.end


class Instance:
    """An instance. `arrivals` are (time, order, request), `inbox` (time, kind, request)."""

    def __init__(self, shared: Shared, role: str, number: int, blocks: int) -> None:
        self._shared, self.role, self.number, self._blocks = shared, role, number, blocks
        self._scenario = shared.scenario.of_role(role)
        self.scheduler, config = make_scheduler(shared.vllm, self._scenario, blocks, role)
        self.device = Device(self._scenario)
        self.scheduler.finished_req_ids = Ordered()
        self._hasher = shared.vllm.block_hasher(shared.scenario, config)
        self._counts = watch(self.scheduler)
        self.sampler = Sampler(self.scheduler, shared.requests)
        self.arrivals: list[tuple[int, int, int]] = []
        self.inbox: list[tuple[int, str, int]] = []
        self.rows: list[dict[str, Any]] = []
        self._flying: deque[Flight] = deque()
        self._clock = self._link_free_at = 0
        self._asleep, self._full = True, False
        self._keeper = None
        if shared.clock and shared.layout.lease_us and role == PREFILL:
            self._keeper = Keeper(shared.clock, shared.layout.lease_us)

    @property
    def name(self) -> str:
        """Name in messages."""
        return f"{self.role} instance {self.number}"

    def blocks_in_use(self) -> int:
        """Return blocks that are not free."""
        free: int = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
        return self._blocks - free

    @property
    def window_freed(self) -> int:
        """Blocks given back as windows have left them."""
        return self._counts.window_freed or 0

    def _has_work(self) -> bool:
        return bool(self._flying) or self.scheduler.has_requests()

    def wake(self) -> tuple[int, int] | None:
        """Return when the instance acts next, and how; None if nothing is to be done."""
        flying = len(self._flying)
        full = flying == self._shared.scenario.steps_in_flight or self._full
        if flying and (full or not self.scheduler.has_requests()):
            return max(self._clock, self._flying[-1].end), SETTLE
        if self._asleep or not self._has_work():
            moments = [at for at, _, _ in self.arrivals]
            moments += self._alarms() if self._has_work() else []
            return (max(self._clock, min(moments)), DISPATCH) if moments else None
        return self._clock, DISPATCH

    def _alarms(self) -> list[int]:
        """Return when a transfer or a lease ends, or a heartbeat is due."""
        alarms: list[int | None] = [at for at, _, _ in self.inbox]
        if self._keeper:
            alarms.append(self._keeper.next_end)
        elif self._shared.layout.heartbeats and self._shared.clock and self.role == DECODE:
            alarms.append(next_heartbeat(self.scheduler))
        alarms.append(self.device.next_end(self._clock))
        return [at for at in alarms if at is not None]

    def dispatch(self, clock: int) -> None:
        """Let in what has arrived, and schedule a step."""
        self._clock, self._asleep = clock, False
        self._shared.tell(clock)
        for arrival in sorted(a for a in self.arrivals if a[0] <= clock):
            self.arrivals.remove(arrival)
            self.scheduler.add_request(self._request(arrival[2]))
        if not self.scheduler.has_requests():
            self._asleep = not self._flying
            self._full = bool(self._flying)
            return
        self._counts.new_step()
        freed = self.window_freed
        decision = decide(self.scheduler)
        freed = self.window_freed - freed
        busy = bool(decision.entries)
        orders, tier = self._orders(decision)
        execution = self._execute(clock, decision, tier)
        pulls = self._pull(orders, execution.start + execution.stall)
        self._keep(orders, clock)
        for number in self._counts.preempted:
            self._shared.per_request[number][self.role]["preemptions"] += 1
        row = None
        if busy or execution.stall:
            row = self._row(clock, execution, decision, pulls)
            if self._scenario.has_windows:
                row["win"] = freed
            if self._scenario.offload:
                row |= tier_columns(self.scheduler, self._scenario, self._counts, tier, execution)
        idle = not (busy or pulls or self._counts.preempted or execution.completed)
        idle = idle and not (tier and (tier.load_jobs or tier.store_jobs))
        self._flying.appendleft(Flight(decision, execution, row, idle))
        room = len(self._flying) < self._shared.scenario.steps_in_flight
        self._full = not (room and (busy or self.scheduler.has_requests()))

    def _orders(self, decision: Decision) -> tuple[Any, Any]:
        """Return what a step orders of the connector that pulls, and of that of the tier."""
        orders = decision.output.kv_connector_metadata
        return orders.metadata if self._scenario.offload else (orders, None)

    def _execute(self, clock: int, decision: Decision, tier: Any) -> Execution:
        duration = None
        if decision.entries:
            duration = self._scenario.step_us(decision.prefill, decision.decode)
        samples = any(entry.samples for entry in decision.entries)
        return self.device.execute(clock, tier, duration, samples=samples)

    def _request(self, number: int) -> Any:
        request = self._shared.requests[number]
        prefill = self.role == PREFILL
        tokens = 1 if prefill else request.output_tokens
        made = make_request(self._shared.vllm, request, self._hasher, tokens)
        made.kv_transfer_params = (
            {"do_remote_decode": True, "do_remote_prefill": False}
            if prefill
            else dict(self._shared.parameters[number])
        )
        return made

    def _pull(self, orders: Any, start: int) -> list[list[int]]:
        """Start the transfers that a step orders, and return [request, tokens] of each."""
        link, pulls = self._shared.layout.link, []
        for name, order in orders.reqs_to_recv.items():
            number = int(name)
            blocks = sum(len(group) for group in order.local_block_ids)
            tokens = blocks * self._shared.scenario.block_size
            pulls.append([number, tokens])
            begin = end = start
            if tokens:
                begin = max(start, self._link_free_at)
                end = begin + link.base_us + math.ceil(tokens / link.bandwidth)
                self._link_free_at = end
                self.inbox.append((end, RECEIVED, number))
            if not (tokens and self._shared.requests[number].pull_fails):
                self._shared.prefill_of(number).inbox.append((end, SENT, number))
            self._shared.pulls.append([number, tokens, start, begin, end])
        return pulls

    def _keep(self, orders: Any, clock: int) -> None:
        """Begin leases, or send the heartbeats that a step orders: the host does not wait."""
        if self._keeper:
            self._keeper.begin(orders, clock)
        elif self._shared.clock and self._shared.layout.heartbeats:
            for number in map(int, take_heartbeats(orders)):
                self._shared.prefill_of(number).inbox.append((clock, RENEWED, number))

    def _row(
        self, clock: int, execution: Execution, decision: Decision, pulls: list[list[int]]
    ) -> dict[str, Any]:
        scheduler = self.scheduler
        row = {
            "s": clock,
            "t": execution.start,
            "d": execution.end - execution.start,
            "pf": decision.prefill,
            "dc": decision.decode,
            "run": len(scheduler.running),
            "wait": decision.waiting,
            "free": scheduler.kv_cache_manager.block_pool.get_num_free_blocks(),
            "adm": decision.admitted,
            "pre": list(self._counts.preempted),
            "pull": pulls,
            "sched": decision.scheduled,
            "held": sum(request.is_finished() for request in scheduler.requests.values()),
        }
        for number, cached, _ in decision.admitted:
            admissions = self._shared.per_request[number][self.role]["admissions"]
            admissions.append([len(self.rows), cached])
        self.rows.append(row)
        return row

    def settle(self) -> None:
        """Give vLLM what came of the oldest step."""
        flight = self._flying.pop()
        self._full = False
        self._clock = max(self._clock, flight.end)
        arrived = [x for x in self.inbox if x[0] <= flight.end]
        arrived.sort(key=lambda x: x[0])
        self.inbox = [x for x in self.inbox if x[0] > flight.end]
        vllm, scenario = self._shared.vllm, self._shared.scenario
        tokens, verified = self.sampler.sample(flight.decision)
        report = self._report(arrived, flight.end)
        self._report_copies(report, flight.execution)
        self._shared.tell(self._clock)
        outputs, advanced = complete(vllm, self.scheduler, flight.decision, tokens, report)
        for output in outputs.values():
            for one in output.outputs:
                number = int(one.request_id)
                if one.finish_reason is not None and self.role == PREFILL:
                    self._shared.hand_over(number, one.kv_transfer_params, flight.end)
                elif one.finish_reason is not None and not one.new_token_ids:
                    self._shared.per_request[number]["errored"] = True
        ended = self._times(advanced, flight.end)
        if flight.row is not None:
            free = self.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
            flight.row |= {"fin": ended, "free_end": free}
            if scenario.drafts:
                flight.row["acc"] = verified
        if scenario.drafts and not scenario.async_scheduling and flight.decision.entries:
            self.sampler.draft(vllm, flight.decision, scenario.drafts)
        told = report.finished_recving or report.finished_sending
        told = told or self.device.has_stores_to_submit
        if flight.idle and not told and all(other.idle for other in self._flying):
            self._asleep = True

    def _report(self, arrived: list[tuple[int, str, int]], end: int) -> Any:
        """Return the transfers that ended, which vLLM takes for sets, in their order."""
        told = {RECEIVED: Ordered(), SENT: Ordered(), RENEWED: Ordered()}
        for _, kind, number in arrived:
            told[kind].add(request_id(number))
        failed = {name for name in told[RECEIVED] if self._shared.fails(int(name))}
        if self._keeper:
            told[SENT], expired = self._keeper.end(told[SENT], told[RENEWED], end)
            self._shared.expired |= set(map(int, expired))
            for name in expired:
                told[SENT].add(name)
        for kind, key in ((RECEIVED, "pulled_us"), (SENT, "released_us")):
            for number in map(int, told[kind]):
                self._shared.per_request[number][key] = end
        return self._shared.vllm.KVConnectorOutput(
            finished_recving=told[RECEIVED] or None,
            finished_sending=told[SENT] or None,
            failed_recving=failed,
        )

    def _report_copies(self, report: Any, execution: Execution) -> None:
        """Add the copies between tiers that ended with a step."""
        if not self._scenario.offload:
            return
        vllm, done = self._shared.vllm, sorted(execution.completed, key=loads_last)
        if done:
            copies = vllm.completed([transfer.job for transfer in done])
            report.kv_connector_worker_meta = vllm.of_both(copies)
            loaded = Ordered()
            for transfer in done:
                transfer.seen = execution.end
                if transfer.kind == LOAD:
                    loaded.add(request_id(transfer.request))
            for name in report.finished_recving or ():
                loaded.add(name)
            report.finished_recving = loaded or None

    def _times(self, advanced: list[Any], end: int) -> list[int]:
        """Note first and last tokens, and return the requests that ended here."""
        ended = []
        for entry, request in advanced:
            times = self._shared.per_request[entry.number]
            if self.role == DECODE and times["first_token_us"] is None:
                times["first_token_us"] = end
            if request.is_finished():
                ended.append(entry.number)
                times["prefilled_us" if self.role == PREFILL else "finish_us"] = end
        return ended
