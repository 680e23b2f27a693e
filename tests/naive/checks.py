"""Invariants of an engine between two steps; each is an assertion."""

from collections import Counter


def check_step(scheduler, decision):
    """Assert that the pool, the tables and the batch just processed agree with each other."""
    check_pool(scheduler.pool)
    check_tables(scheduler)
    check_running(scheduler)
    check_tier(scheduler)
    engine = scheduler.engine
    assert sum(decision.scheduled.values()) <= engine.max_num_batched_tokens
    assert all(n >= 1 for n in decision.scheduled.values())
    if not engine.preempt_for_urgent:
        assert not (decision.preempted and decision.admitted)


def check_pool(pool):
    """The free list holds exactly the unreferenced blocks; keys and map mirror each other."""
    blocks = range(1, pool.usable + 1)
    assert set(pool.free) == {b for b in blocks if pool.ref[b] == 0}
    assert all(pool.cached.values())
    mapped = {b: key for key, same in pool.cached.items() for b in same}
    assert mapped == {b: pool.key[b] for b in blocks if pool.key[b] is not None}
    assert sum(len(same) for same in pool.cached.values()) == len(mapped) == pool.hashed


def check_tier(scheduler):
    """The CPU tier holds no more than it may, and only what was computed once."""
    tier = scheduler.tier
    assert len(tier.came_us) <= tier.cache.cpu_blocks
    assert set(tier.came_us) <= scheduler.pool.ever_published
    assert tier.thrashed <= tier.reloads


def check_tables(scheduler):
    """Reference counts count the tables holding a block; only running requests hold any."""
    pool = scheduler.pool
    held = Counter()
    for request in scheduler.running:
        assert len(set(request.table)) == len(request.table)
        held.update(request.table)
    assert all(pool.ref[b] == held[b] for b in range(1, pool.usable + 1))
    assert len(pool.free) + len(held) == pool.usable
    assert all(not r.table and not r.computed and not r.published for r in scheduler.waiting)


def check_running(scheduler):
    """A table covers the scheduled tokens and no more; its full blocks carry their keys.

    Those of a prompt at once, others once their last token is known, at the latest when it is
    computed.
    """
    size, caching = scheduler.block_size, scheduler.engine.enable_prefix_caching
    assert len(scheduler.running) <= scheduler.engine.max_num_seqs
    for request in scheduler.running:
        assert 0 < request.computed < len(request.known) + request.placeholders
        assert len(request.table) == scheduler.blocks_for(request.computed)
        least = (request.computed - request.in_flight) // size
        most = min(request.computed, len(request.known)) // size
        assert caching * least <= request.published <= caching * most
        published = request.table[: request.published]
        assert [scheduler.pool.key[b] for b in published] == request.keys[: request.published]
