"""Invariants of an engine with offload between two steps; each is an assertion."""

from collections import Counter

from ..checks import check_pool, check_running
from .manager import BEING_WRITTEN


def check_step(scheduler, decision):
    """Assert that blocks, chunks and copies agree with each other."""
    check_pool(scheduler.pool)
    check_running(scheduler)
    check_holders(scheduler)
    check_chunks(scheduler.connector)
    assert sum(decision.scheduled.values()) <= scheduler.engine.max_num_batched_tokens
    assert all(n >= 1 for n in decision.scheduled.values())
    assert not (decision.preempted and decision.admitted)


def check_holders(scheduler):
    """Free, held and loading blocks make up the pool; who only waits has none."""
    pool = scheduler.pool
    held = Counter()
    for request in (*scheduler.running, *scheduler.hold):
        assert len(set(request.table)) == len(request.table)
        held.update(request.table)
    assert all(pool.ref[b] == held[b] for b in range(1, pool.usable + 1))
    assert len(pool.free) + len(held) == pool.usable
    assert all(not r.table and not r.computed and not r.published for r in scheduler.waiting)
    assert scheduler.loading | scheduler.loaded <= set(scheduler.hold)
    for request in scheduler.hold:
        assert request.computed > 0
        assert len(request.table) >= scheduler.blocks_for(request.computed)
    assert set(scheduler.hold) <= scheduler.prefills
    assert scheduler.prefills <= {*scheduler.running, *scheduler.hold}


def check_chunks(connector):
    """A chunk is written or read exactly by the copies that are not reported."""
    manager = connector.manager
    assert len(manager.chunks) <= manager.capacity
    readers, writers = Counter(), Counter()
    for entry in connector.entries.values():
        for job in entry.jobs:
            (readers if job.kind == "load" else writers).update(job.keys)
    for key, count in manager.chunks.items():
        assert count == (BEING_WRITTEN if writers[key] else readers[key])
    assert set(readers) | set(writers) <= set(manager.chunks)
    assert all(count == 1 for count in writers.values())
