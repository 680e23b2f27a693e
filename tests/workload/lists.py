"""Small request lists with all that a trace may have: chains, sessions, shared content, names."""

from dataclasses import fields
from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from kvsweep.workload.columns import RequestColumns
from kvsweep.workload.requests import Requests

TRACE = """\
{"timestamp": 0, "input_length": 1024, "output_length": 2, "hash_ids": [0, 2]}
{"timestamp": 1500, "input_length": 600, "output_length": 9, "hash_ids": [0, 1]}
{"timestamp": 1500, "input_length": 1100, "output_length": 1, "hash_ids": [0, 2, 7]}
{"timestamp": 6000, "input_length": 300, "output_length": 5, "hash_ids": [8]}
"""


def same(a, b):
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Requests))


def prompts(requests):
    """Return each prompt as a list of (segment, tokens)."""
    pairs = list(zip(requests.segment_ids.tolist(), requests.segment_tokens.tolist(), strict=True))
    bounds = requests.segment_offsets.tolist()
    return [pairs[low:high] for low, high in pairwise(bounds)]


@st.composite
def request_lists(draw, largest=12):
    """Draw up to `largest` requests in order of arrival.

    Who waits for an answer comes no later than if that took no time.
    """
    columns = RequestColumns()
    arrival = draw(st.integers(0, 5))
    free = []  # who has no follower yet
    for i in range(draw(st.integers(1, largest))):
        arrival += draw(st.sampled_from((0, 1, 40_000, 700_000, 2_000_000)))
        entries = draw(
            st.lists(st.tuples(st.integers(0, 3), st.integers(1, 40)), min_size=1, max_size=3)
        )
        after = draw(st.sampled_from([None, *free]))
        if after is not None:
            free.remove(after)
        free.append(i)
        columns.add(
            arrival,
            [segment for segment, _ in entries],
            [tokens for _, tokens in entries],
            (draw(st.sampled_from((0, 3, 100 + i))), draw(st.integers(1, 30))),
            priority=draw(st.sampled_from((None, 4))),
            slo_class=draw(st.sampled_from((None, "batch", "critical"))),
            client=draw(st.sampled_from((None, "a", "b"))),
            session=draw(st.sampled_from((None, 0, 5))),
            round=draw(st.sampled_from((None, 0, 1))),
            after=after,
            think_us=None
            if after is None
            else arrival - columns.arrival_us[after] + draw(st.sampled_from((0, 0, 9))),
            patience_us=draw(st.sampled_from((None, 7))),
        )
    return columns.build()
