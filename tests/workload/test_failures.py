"""Whose pull from prefill to decode fails: drawn beforehand, or given by a trace."""

from dataclasses import replace

import numpy as np
import pytest

from kvsweep.errors import InputError
from kvsweep.workload.failures import with_failures
from kvsweep.workload.native import read_native, to_trace_dict
from kvsweep.workload.taking import joined, take

ROWS = [
    {"id": i, "arrival_us": i, "prompt": [[i, 5]], "output": [9 + i, 2], "pull_fails": i % 3 == 0}
    for i in range(6)
]


def read(rows):
    return read_native({"format": "kvsweep-trace/1", "requests": rows}, "t.json")


LIST = read([{k: v for k, v in row.items() if k != "pull_fails"} for row in ROWS * 1])


def long_list(count):
    rows = [{"id": i, "arrival_us": i, "prompt": [[i, 5]], "output": [9, 2]} for i in range(count)]
    return read(rows)


def test_nobody_says_anything_of_a_list_without_a_rate():
    assert with_failures(LIST, 0.0, 1) is LIST
    assert LIST.pull_fails is None


def test_as_many_fail_as_the_rate_says_and_the_same_in_each_run():
    requests = long_list(4000)
    drawn = with_failures(requests, 0.2, 3).pull_fails
    assert abs(drawn.mean() - 0.2) < 0.03
    assert (with_failures(requests, 0.2, 3).pull_fails == drawn).all()
    assert (with_failures(requests, 0.2, 4).pull_fails != drawn).any()
    assert with_failures(requests, 1.0, 3).pull_fails.all()


def test_lists_of_different_rates_and_lengths_are_paired():
    requests = long_list(500)
    few, many = (with_failures(requests, rate, 3).pull_fails for rate in (0.1, 0.3))
    assert few.sum() < many.sum()
    assert (many[few]).all(), "whoever fails at a rate fails at any higher one"
    assert (with_failures(long_list(200), 0.3, 3).pull_fails == many[:200]).all()


def test_a_trace_may_say_it_itself_but_not_both():
    given = read(ROWS)
    assert given.pull_fails.tolist() == [True, False, False, True, False, False]
    assert with_failures(given, 0.0, 1) is given
    with pytest.raises(InputError, match=r"kv_load_failure_rate: has no effect: requests of the"):
        with_failures(given, 0.5, 1, where="the file")


def test_a_trace_is_written_as_it_was_read():
    assert to_trace_dict(read(ROWS), {})["requests"] == ROWS


def test_requests_that_are_taken_or_joined_keep_it():
    given = read(ROWS)
    assert take(given, np.array([3, 4])).pull_fails.tolist() == [True, False]
    assert given.first(2).pull_fails.tolist() == [True, False]
    assert joined([given, given], new_content=True).pull_fails.sum() == 4
    plain = replace(given, pull_fails=None)
    assert joined([plain, plain], new_content=True).pull_fails is None


def test_anything_but_true_or_false_is_refused():
    with pytest.raises(
        InputError, match=r"requests\[0\]\.pull_fails: expected true or false, got 1"
    ):
        read([ROWS[0] | {"pull_fails": 1}])
