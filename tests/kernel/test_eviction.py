"""Policies of eviction: who is evicted, and what a look-up finds afterwards."""

import pytest
import twin
from hypothesis import given
from strategies import traces

BLOCK = 4


def trace(requests, eviction, gpu_blocks):
    """Requests (arrival_ms, prompt segments, output segment) on one instance, steps of 1 ms."""
    return {
        "format": "kvsweep-trace/1",
        "scenario": {
            "cache": {"block_size": BLOCK, "gpu_blocks": gpu_blocks, "eviction": eviction},
            "latency": {"beta": [1000, 0, 0]},
        },
        "requests": [
            {"id": i, "arrival_us": 1000 * at, "prompt": prompt, "output": output}
            for i, (at, prompt, output) in enumerate(requests)
        ],
    }


def cached_blocks(requests, eviction, gpu_blocks):
    """Return how many blocks each request found at its first admission; the twin agrees."""
    case = trace(requests, eviction, gpu_blocks)
    assert list(twin.differences(case)) == []
    return (twin.run_kernel(case).outputs.progress["cached_tokens"] // BLOCK).tolist()


@pytest.mark.parametrize(("eviction", "found"), [("lru", 0), ("lfu", 2)])
def test_lfu_keeps_what_was_hit_though_others_were_used_later(eviction, found):
    """Prompt 0 is hit once, prompt 1 comes later and never again, prompt 2 takes two blocks."""
    requests = [
        (0, [[0, 9]], [10, 1]),
        (5, [[0, 9]], [11, 1]),
        (10, [[1, 9]], [12, 1]),
        (15, [[2, 16]], [13, 1]),
        (20, [[0, 9]], [14, 1]),
    ]
    # 2 and 2 blocks are cached, 2 of 6 are free without a key, 4 are taken.
    assert cached_blocks(requests, eviction, 6) == [0, 2, 0, 0, found]


def test_lfu_forgets_the_hits_of_what_was_evicted():
    """Prompt 0 was hit three times before prompt 1 filled the pool; since then never."""
    requests = [(5 * i, [[0, 9]], [10 + i, 1]) for i in range(4)]
    requests += [(30, [[1, 24]], [20, 1]), (35, [[0, 9]], [21, 1])]
    # Prompt 2 is hit once, more often than prompt 0 since that is back.
    requests += [(40, [[2, 9]], [22, 1]), (45, [[2, 9]], [23, 1]), (50, [[3, 16]], [24, 1])]
    requests += [(55, [[2, 9]], [25, 1]), (60, [[0, 9]], [26, 1])]
    assert cached_blocks(requests, "lfu", 6) == [0, 2, 2, 2, 0, 0, 0, 2, 0, 2, 0]


@pytest.mark.parametrize(("eviction", "found"), [("lru", 2), ("lfu", 1)])
def test_a_look_up_ends_at_a_hole_which_only_lfu_makes(eviction, found):
    """Two blocks have the second block's content; hits go to the older, which request 1 lacks.

    So request 1's second block has none when it is freed, though the block behind it has one. Both
    copies are evicted before that, and only the first block is found. When the content is cached
    anew, what is behind is found as well.
    """
    follow_up = [[0, 8], [7, 4], [9, 1]]
    requests = [
        (0, [[0, 8]], [6, 1]),
        (2, [[0, 8]], [7, 9]),
        (8, follow_up, [20, 1]),
        (20, [[1, 22]], [21, 1]),
        (30, follow_up, [22, 1]),
        (40, follow_up, [23, 1]),
    ]
    assert cached_blocks(requests, eviction, 8) == [0, 1, 3, 0, found, 3]


@given(traces(closed_loop=True))
def test_lfu_on_any_trace(trace):
    """The traces of `test_kernel_equals_twin` have it too, one in three."""
    cache = trace["scenario"]["cache"] | {"eviction": "lfu"}
    engine = trace["scenario"]["engine"] | {"enable_prefix_caching": True}
    scenario = trace["scenario"] | {"cache": cache, "engine": engine}
    assert list(twin.differences(trace | {"scenario": scenario})) == []
