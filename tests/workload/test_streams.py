"""Streams against NumPy's own seeding."""

from threading import Thread

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, Philox, SeedSequence

from kvsweep.workload.streams import QUANTITIES, TOGETHER, Streams, fill

NEAR_A_WORD = st.sampled_from([2**32 + d for d in (-TOGETHER - 1, -TOGETHER, -1, 0, 1)])
SEEDS = st.integers(0, 3 * TOGETHER) | NEAR_A_WORD | st.integers(0, 2**63 - 1)


def generator_of(streams):
    return next(streams.generators())


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
    found = generator_of(Streams(entropy, [seed], client, quantity, part))
    assert np.array_equal(found.integers(0, 2**63, 9), wanted.integers(0, 2**63, 9))
    assert found.random(dtype=np.float32) == wanted.random(dtype=np.float32)


def test_a_stream_begins_anew_each_time_whatever_another_left():
    stream, other = Streams(1, [2], 3, 0), Streams(1, [2], 3, 1)
    first = generator_of(stream).random(5)
    generator_of(other).random(3, dtype=np.float32)  # leaves half a word in the buffer
    assert np.array_equal(generator_of(stream).random(5), first)


def test_a_part_is_what_numpy_spawns():
    parent = Generator(Philox(SeedSequence(5, spawn_key=(7, 0, 1))))
    for part, child in enumerate(parent.spawn(3)):
        found = generator_of(Streams(5, [7], 0, 1).of_part(part)).random(4)
        assert np.array_equal(found, child.random(4))


def test_threads_draw_from_streams_of_their_own():
    streams = [Streams(0, range(k, 400, 4), 0, 0) for k in range(4)]
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
