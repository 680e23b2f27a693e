"""Invariants of an engine with several tables or drafts, between two steps."""

from collections import Counter

from ..checks import check_pool


def check_step(scheduler, decision):
    """Assert that the pool, the tables and the batch just processed agree with each other."""
    check_pool(scheduler.pool)
    check_tables(scheduler)
    check_requests(scheduler)
    engine = scheduler.engine
    tokens = sum(decision.scheduled.values())
    assert tokens <= engine.max_num_batched_tokens
    slots = engine.draft_slot * len(decision.scheduled)
    assert tokens + slots <= engine.max_num_batched_tokens
    assert all(n >= 1 for n in decision.scheduled.values())
    assert not (decision.preempted and decision.admitted)


def check_tables(scheduler):
    """Free, used, held and pulled blocks make up the pool; who only waits has none."""
    pool = scheduler.pool
    held = Counter()
    for request in (*scheduler.running, *scheduler.hold, *scheduler.held, *scheduler.owed):
        blocks = [block for table in request.tables for block in table if block is not None]
        assert len(set(blocks)) == len(blocks)
        held.update(blocks)
    assert all(pool.ref[b] == held[b] for b in range(1, pool.usable + 1))
    assert len(pool.free) + len(held) == pool.usable
    assert not any(any(r.tables) or r.computed for r in scheduler.waiting)
    assert scheduler.loading | scheduler.loaded <= set(scheduler.hold)


def check_requests(scheduler):
    """What windows still look at is there; published blocks carry their keys.

    Who pulled has no block for the token that only its last prompt token still looks at.
    """
    size, tables = scheduler.block_size, scheduler.tables
    spared = scheduler.role == "decode"
    for request in scheduler.running:
        assert len(request.known) + request.placeholders + request.drafts >= request.computed
        for group, window in enumerate(tables.windows):
            table, published = request.tables[group], request.published_of[group]
            if tables.keeps_states(group):
                _check_states(tables, request, table)
            else:
                assert len(table) * size >= request.computed
                first = request.computed - request.in_flight - (window or 2**62) + 1 + spared
                first = max(0, first)
                assert all(block is not None for block in table[first // size :])
            for j, (block, key) in enumerate(zip(table[:published], request.keys, strict=False)):
                own_key = not tables.is_keyed_again(request, group, j)
                if block is not None and own_key and tables.is_kept(request, group, j):
                    assert scheduler.pool.key[block] == (group, key)
    assert len(scheduler.running) <= scheduler.engine.max_num_seqs


def _check_states(tables, request, table):
    """There is a state to go on from, and one of each draft; without caching there is no other."""
    assert all(block is not None for block in table[-1 - tables.drafts :])
    if tables.caching:
        done = request.computed - request.in_flight
        assert done <= 0 or table[(done - 1) // tables.block_size] is not None
    else:
        assert len(table) == 1 + tables.drafts
