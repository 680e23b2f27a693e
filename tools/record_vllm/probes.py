"""What is counted inside vLLM while it runs: its own methods, wrapped, which decide as before."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from record_vllm.adapter import has_step_in_flight, offloading_side, window_managers


@dataclass
class Counts:
    """Counts since the start, and lists (`preempted`, `later`, `no_store`) since `new_step`.

    `window_freed` and `preempted_in_flight` are None in releases where they cannot be known.
    """

    evictions: int = 0
    window_freed: int | None = 0
    preempted_in_flight: int | None = 0
    cpu_evictions: int = 0
    preempted: list[int] = field(default_factory=list)
    later: list[int] = field(default_factory=list)
    no_store: list[int] = field(default_factory=list)

    def new_step(self) -> None:
        """Forget what belongs to the last step."""
        self.preempted, self.later, self.no_store = [], [], []


def watch(scheduler: Any) -> Counts:
    """Wrap what has to be counted in one scheduler."""
    counts = Counts()
    _watch_evictions(scheduler, counts)
    _watch_preemptions(scheduler, counts)
    _watch_windows(scheduler, counts)
    if getattr(scheduler, "connector", None) is not None:
        connector = offloading_side(scheduler)
        manager = getattr(getattr(connector, "connector_scheduler", None), "manager", None)
        if manager is not None:
            _watch_lookups(connector, counts)
            _watch_stores(manager, counts)
    return counts


def _watch_evictions(scheduler: Any, counts: Counts) -> None:
    pool = scheduler.kv_cache_manager.block_pool
    evict = pool._maybe_evict_cached_block

    def counted(block: Any) -> Any:
        done = evict(block)
        counts.evictions += bool(done)
        return done

    pool._maybe_evict_cached_block = counted


def _watch_preemptions(scheduler: Any, counts: Counts) -> None:
    preempt = scheduler._preempt_request

    def counted(request: Any, *more: Any, **named: Any) -> Any:
        counts.preempted.append(int(request.request_id))
        flying = has_step_in_flight(request)
        if flying is None or counts.preempted_in_flight is None:
            counts.preempted_in_flight = None
        else:
            counts.preempted_in_flight += flying
        return preempt(request, *more, **named)

    scheduler._preempt_request = counted


def _watch_windows(scheduler: Any, counts: Counts) -> None:
    managers = window_managers(scheduler)
    if managers is None:
        counts.window_freed = None
    for manager in managers or []:
        _watch_window(manager, counts)


def _watch_window(manager: Any, counts: Counts) -> None:
    remove = manager._remove_blocks_in_range

    def held(request: str, first: int, last: int) -> int:
        blocks = manager.req_to_blocks.get(request, ())
        return sum(not block.is_null for block in blocks[first:last])

    def counted(request: str, first: int, last: int) -> None:
        before = held(request, first, last)
        remove(request, first, last)
        counts.window_freed = (counts.window_freed or 0) + before - held(request, first, last)

    manager._remove_blocks_in_range = counted


def _watch_lookups(connector: Any, counts: Counts) -> None:
    look_up = connector.get_num_new_matched_tokens

    def counted(request: Any, computed: int) -> Any:
        found = look_up(request, computed)
        if found[0] is None:  # the answer is not known yet: it is asked again in a later step
            counts.later.append(int(request.request_id))
        return found

    connector.get_num_new_matched_tokens = counted


def _watch_stores(manager: Any, counts: Counts) -> None:
    prepare = manager.prepare_store

    def counted(keys: Any, context: Any) -> Any:
        prepared = prepare(keys, context)
        if prepared is None:
            counts.no_store.append(int(context.req_id))
        else:
            counts.cpu_evictions += len(prepared.evicted_keys)
        return prepared

    manager.prepare_store = counted
