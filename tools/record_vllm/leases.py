"""Leases of blocks that were prefilled, and heartbeats that renew them: vLLM's own code for both.

The side of NixlConnector that runs beside the model has the leases. Its methods are called here on
an object that has what they read, without NIXL, a GPU or a thread, and see the clock of the
recording: a second of vLLM's is a microsecond of a trace's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from queue import Queue
from typing import Any

from record_vllm.adapter import nixl_module, nixl_side
from record_vllm.steps import Ordered

LONG_AGO = 10**15
"""When a recording begins; vLLM takes time 0 for that of a heartbeat before all others."""


class Clock:
    """What vLLM's connector takes for the module ``time``."""

    def __init__(self) -> None:
        self.now = 0
        for name in ("base_scheduler", "pull_scheduler", "base_worker", "pull_worker"):
            nixl_module(name).time = self

    def perf_counter(self) -> int:
        """Return the time."""
        return LONG_AGO + self.now


class Keeper:
    """The leases that a prefill instance has given."""

    def __init__(self, clock: Clock, lease_us: int) -> None:
        self._clock = clock
        worker = object.__new__(nixl_module("pull_worker").NixlPullConnectorWorker)
        worker.pcp_rank, worker.transfer_topo = 0, object()
        worker._ready_requests = Queue()
        worker._reqs_to_process, worker._reqs_to_send = set(), {}
        worker._lease_extension = lease_us * 2 // 3  # as its constructor makes it
        worker.consumer_notification_counts_by_req = defaultdict(int)
        worker.expected_consumer_notifications_by_req = {}
        worker.xfer_stats, worker.nixl_wrapper = _Unheard(), self
        self._worker = worker
        self._notes: list[bytes] = []

    def get_new_notifs(self) -> dict[str, list[bytes]]:
        """Return what decode instances have sent, as NIXL does."""
        return {"decode": self._notes}

    @property
    def next_end(self) -> int | None:
        """When the first lease ends."""
        ends = self._worker._reqs_to_send.values()
        return min(ends) - LONG_AGO if ends else None

    def begin(self, orders: Any, at: int) -> None:
        """Let a step begin that was scheduled with these orders."""
        self._clock.now = at
        self._worker.start_load_kv(orders)

    def end(
        self, pulled: Iterable[str], renewed: Iterable[str], at: int
    ) -> tuple[Ordered, Ordered]:
        """Let a step end, by which pulls and heartbeats were told of.

        Returns
        -------
        pulled, expired : Ordered
            Whose blocks are to be freed: they were read, or their leases have ended.
        """
        self._clock.now = at
        self._notes = [f"HB:{name}".encode() for name in renewed]
        self._notes += [f"{name}:1".encode() for name in pulled]
        known = self._worker._get_new_notifs()
        expired = Ordered()
        self._worker._reap_expired_send_leases(expired)
        done = Ordered()
        for name in pulled:
            if name in known:
                done.add(name)
        return done, expired


class _Unheard:
    """Takes what vLLM counts of its transfers."""

    def __getattr__(self, name: str) -> Any:
        return lambda: None


def take_heartbeats(orders: Any) -> list[str]:
    """Return whose leases the orders of a schedule renew."""
    return [name for sent in orders.heartbeat_by_engine.values() for name in sorted(sent.req_ids)]


def next_heartbeat(scheduler: Any) -> int | None:
    """Return when a decode instance may send the next heartbeat, None if it waits for nothing."""
    side = nixl_side(scheduler)
    if not side._heartbeat_by_engine:
        return None
    return int(max(0, side._last_heartbeat_time + side._heartbeat_interval - LONG_AGO))
