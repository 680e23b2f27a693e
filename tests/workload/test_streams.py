"""Streams against NumPy's own seeding."""

from threading import Thread

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, Philox, SeedSequence

from kvsweep.workload.streams import QUANTITIES, TOGETHER, Stream, fill

NEAR_A_WORD = st.sampled_from([2**32 + d for d in (-TOGETHER - 1, -TOGETHER, -1, 0, 1)])
SEEDS = st.integers(0, 3 * TOGETHER) | NEAR_A_WORD | st.integers(0, 2**63 - 1)


@given(
    entropy=st.integers(0, 2**160) | st.sampled_from([2**k for k in (31, 32, 96, 128, 129)]),
    seed=SEEDS,
    client=st.integers(0, 40),
    quantity=st.integers(0, QUANTITIES - 1),
    part=st.none() | st.integers(0, 3),
)
def test_a_stream_is_the_one_that_numpy_seeds(entropy, seed, client, quantity, part):
    path = (seed, client, quantity) if part is None else (seed, client, quantity, part)
    wanted = Generator(Philox(SeedSequence(entropy, spawn_key=path)))
    found = Stream(entropy, seed, client, quantity, part).generator()
    assert np.array_equal(found.integers(0, 2**63, 9), wanted.integers(0, 2**63, 9))
    assert found.random(dtype=np.float32) == wanted.random(dtype=np.float32)


def test_a_stream_begins_anew_each_time_whatever_another_left():
    stream, other = Stream(1, 2, 3, 0), Stream(1, 2, 3, 1)
    first = stream.generator().random(5)
    other.generator().random(3, dtype=np.float32)  # leaves half a word in the buffer
    assert np.array_equal(stream.generator().random(5), first)


def test_a_part_is_what_numpy_spawns():
    parent = Generator(Philox(SeedSequence(5, spawn_key=(7, 0, 1))))
    for part, child in enumerate(parent.spawn(3)):
        found = Stream(5, 7, 0, 1).of_part(part).generator().random(4)
        assert np.array_equal(found, child.random(4))


def test_threads_draw_from_streams_of_their_own():
    streams = [[Stream(0, seed, 0, 0) for seed in range(k, 400, 4)] for k in range(4)]
    found = {}

    def draw(k):
        found[k] = fill(streams[k], 50, "standard_normal")

    threads = [Thread(target=draw, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k in range(4):
        assert np.array_equal(found[k], fill(streams[k], 50, "standard_normal"))
