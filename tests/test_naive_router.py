"""The naive twin's router and admission control; numbers worked by hand.

Unless said otherwise a step takes 10 us, queueing takes no time, and outputs are one token.
"""

import pytest
from test_naive_cluster import column, simulate


def weighted(scorers, instances=2, **more):
    return {"instances": instances, "routing": "weighted", "scorers": scorers} | more


def prompts(*rows):
    """Rows of (arrival, prompt entries[, output tokens]) as requests of `simulate`."""
    return [(at, 1, *(output or [1]), {"prompt": prompt}) for at, prompt, *output in rows]


def instances(requests, cluster, **more):
    return column(simulate(requests, cluster=cluster, **more), "instance")


def test_the_bucket_starts_full_and_refills_by_time():
    # 10 tokens, one more per 2 us: 6 leave 4; after 2 us 5; then 1 of 5 left, and 2 at 12.
    cluster = {
        "admission": "token-bucket",
        "token_bucket_capacity": 10.0,
        "token_bucket_refill_rate": 5e5,
        "admission_latency_us": 100,
    }
    requests = [(0, 6, 1), (2, 6, 1), (2, 5, 1), (5, 1, 1), (6, 2, 1), (99, 11, 1), (99, 10, 1)]
    requests = [(at + 20, prompt, output) for at, prompt, output in requests]
    result = simulate(requests, cluster=cluster)
    statuses = ["completed", "rejected", "completed", "completed", "rejected", "rejected"]
    assert column(result, "status") == [*statuses, "completed"]


def test_who_is_rejected_takes_no_turn_and_has_no_follower():
    cluster = {
        "instances": 2,
        "admission": "token-bucket",
        "token_bucket_capacity": 8.0,
        "token_bucket_refill_rate": 1e-9,
    }
    requests = [(0, 3, 1), (0, 9, 1), (0, 3, 1), (0, 1, 1, {"after": 1}), (0, 1, 1, {"after": 2})]
    result = simulate(requests, cluster=cluster)
    statuses = ["completed", "rejected", "completed", "not_arrived", "completed"]
    assert column(result, "status") == statuses
    assert column(result, "instance") == [0, None, 1, None, 0]


def test_always_busiest_prefers_the_first_of_equals():
    requests = [(0, 3, 9)] * 3 + [(200, 3, 9)]
    assert instances(requests, {"instances": 2, "routing": "always-busiest"}) == [0] * 4


def test_prompt_affinity_remembers_by_the_last_full_block():
    cluster = {"instances": 2, "routing": "prompt-affinity"}
    # Blocks of 4: requests 2 and 3 have the last full block of request 0; 4 only its first one.
    requests = prompts(
        (0, [[0, 8]], 99),
        (0, [[1, 8]], 99),
        (1, [[0, 8]]),
        (2, [[0, 8], [2, 3]]),
        (30, [[0, 4]], 99),
        (31, [[0, 4]]),
    )
    assert instances(requests, cluster) == [0, 1, 0, 0, 0, 0]


def test_a_prompt_shorter_than_a_block_goes_to_the_least_loaded():
    cluster = {"instances": 2, "routing": "prompt-affinity"}
    assert instances(prompts(*[(0, [[0, 3]], 99)] * 3), cluster) == [0, 1, 0]


def test_scores_are_weighted_and_the_first_best_wins():
    # Loads 0, 0 -> 0 by the order; 1, 0 -> 1; 1, 1 -> 0.
    assert instances([(0, 3, 9)] * 3, weighted({"queue-depth": 1})) == [0, 1, 0]
    assert instances([(0, 3, 9)] * 3, weighted({"load-balance": 1})) == [0, 1, 0]


def test_the_routers_index_counts_leading_blocks():
    scorers = {"prefix-affinity": 1, "load-balance": 0.6}
    same = [[0, 8]]
    # Both blocks known, 1 + 0.6/2, against 0.6; one of two, 0.5 + 0.6/3 against 0.6.
    rows = prompts((0, same, 99), (1, same, 99), (2, [[0, 4], [1, 4]], 99), (3, [[2, 4]], 99))
    assert instances(rows, weighted(scorers)) == [0, 0, 0, 1]


def test_the_routers_index_forgets_the_oldest_block():
    # Blocks a b, then c: with room for two a is gone, and b alone is no prefix.
    scorers = {"prefix-affinity": 1, "load-balance": 0.1}
    rows = prompts((0, [[0, 8]], 99), (1, [[0, 8], [1, 4]], 99), (2, [[0, 8]], 99))
    assert instances(rows, weighted(scorers, router_index_blocks=9)) == [0, 0, 0]
    assert instances(rows, weighted(scorers, router_index_blocks=2)) == [0, 0, 1]


def test_precise_prefix_sees_what_the_cache_holds():
    cluster = weighted({"precise-prefix": 1, "load-balance": 0.1})
    cache = {"gpu_blocks": 4}
    # At 0 nothing is in a cache yet, then two blocks on instance 0 and the first of them on 1.
    both, half, other = [[0, 8]], [[0, 4]], [[1, 16]]
    rows = prompts((0, both), (0, half), (50, both))
    assert instances(rows, cluster, cache=cache) == [0, 1, 0]
    # Another prompt fills the pool of instance 0, and what it held is gone.
    rows = prompts((0, both), (0, half), (20, other), (50, both))
    assert instances(rows, cluster, cache=cache) == [0, 1, 0, 1]
    # The router's own index does not know that.
    by_index = weighted({"prefix-affinity": 1, "load-balance": 0.1})
    assert instances(rows, by_index, cache=cache) == [0, 0, 0, 0]


def test_decoding_fills_blocks_that_precise_prefix_sees():
    scorers = {"precise-prefix": 1, "load-balance": 0.3}
    # Request 0: 3 prompt tokens, its answer fills the block in the step that computes the first
    # output, begun at 10. The next round arrives while it runs on.
    history = [[0, 3], [1000, 1]]
    for at, chosen in ((10, 1), (11, 0)):
        rows = [(0, 3, 9, {"prompt": [[0, 3]]}), *prompts((at, history, 9))]
        assert instances(rows, weighted(scorers)) == [0, chosen]


def test_kv_utilization_counts_blocks_in_use():
    # 3 of 8 blocks against 1 of 8, whatever the number of requests.
    rows = [(0, 12, 9), (0, 3, 9), (1, 3, 9), (2, 3, 9), (3, 3, 9)]
    chosen = instances(rows, weighted({"kv-utilization": 1}), cache={"gpu_blocks": 8})
    # At 0 nobody uses a block; the second step begins at 10.
    assert chosen == [0, 0, 1, 1, 1]


def test_stale_figures_and_fresh_loads():
    rows = [(at, 12, 50) for at in (0, 5, 30, 55, 80)]
    stale = {"snapshot_refresh_us": 50, "instances": 2}
    # Refreshed at 55, with three requests on instance 0, and not at 80.
    by_use = weighted({"kv-utilization": 1}, **stale)
    assert instances(rows, by_use) == [0, 0, 0, 1, 1]
    assert instances(rows, weighted({"queue-depth": 1}, **stale)) == [0, 1, 0, 1, 0]


def test_stale_loads_grow_by_what_was_routed_since():
    rows = [(at, 3, 99) for at in (0, 5, 30, 55, 80)]
    stale = {"snapshot_refresh_us": 50, "snapshot_load": True}
    least = {"instances": 2, "routing": "least-loaded"} | stale
    assert instances(rows, least) == [0, 1, 0, 1, 0]
    # Without: 0 and 0 until 55, then 3 and 0 until the end.
    assert instances(rows, least | {"count_pending": False}) == [0, 0, 0, 1, 1]


@pytest.mark.parametrize(("counted", "chosen"), [(True, [0, 1, 0]), (False, [0, 0, 0])])
def test_pending_requests_may_be_left_out_of_the_load(counted, chosen):
    cluster = {"instances": 2, "routing": "least-loaded", "count_pending": counted}
    assert instances([(0, 3, 1), (1, 3, 1), (2, 3, 1)], cluster, alpha=(99, 0, 0)) == chosen


def sticky(**more):
    return {
        "instances": 2,
        "routing": "sticky",
        "sticky_threshold": 0.5,
        "sticky_lead_tokens": 20,
    } | more


def test_sticky_keeps_to_who_had_the_prompt_until_it_has_too_much_to_do():
    same, other = [[0, 8]], [[1, 8]]
    # 8 tokens are in flight at instance 0 until its first token; the same prompt again adds none.
    rows = prompts((0, same, 99), (1, same, 99), (2, other, 99), (3, same, 99))
    assert instances(rows, sticky()) == [0, 0, 1, 0]
    # A long one with the same beginning: 40 tokens more, of which instance 0 knows 20.
    begun = [[0, 20]]
    rows = prompts((0, begun, 99), (1, [[0, 20], [2, 20]], 99), (2, begun, 99))
    assert instances(rows, sticky(sticky_lead_tokens=39)) == [0, 0, 1]
    assert instances(rows, sticky(sticky_lead_tokens=40)) == [0, 0, 0]
    assert instances(rows, sticky(sticky_lead_tokens=0)) == [0, 0, 0]
    # Half of it is known there, which is not enough for three quarters.
    assert instances(rows, sticky(sticky_threshold=0.75))[1] == 1


@pytest.mark.parametrize(("at", "lead", "chosen"), [(10, 11, 1), (10, 12, 0), (11, 11, 0)])
def test_sticky_counts_tokens_until_the_first_token(at, lead, chosen):
    # 12 tokens in flight, whose step ends at 10, which is seen from 11 on.
    rows = prompts((0, [[0, 12]], 99), (at, [[0, 12], [3, 12]], 99))
    assert instances(rows, sticky(sticky_lead_tokens=lead)) == [0, chosen]


def test_sticky_sends_new_prompts_in_turn_while_all_are_idle():
    rows = prompts(*((100 * n, [[n, 8]], 1) for n in range(5)))
    assert instances(rows, sticky(instances=3)) == [0, 1, 2, 0, 1]
