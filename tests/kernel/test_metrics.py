"""Reductions to numbers, against NumPy applied to one cell at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvsweep import metrics
from kvsweep.metrics import CELL_VARIABLES, NO_COUNT, QUANTILES, REQUEST_VARIABLES, VARIABLES
from kvsweep.policies import Status

MISSING = -1
times = st.lists(
    st.lists(st.integers(0, 10**12) | st.just(MISSING), min_size=5, max_size=5), min_size=1
)


@given(times)
def test_latency_is_summarized_as_numpy_would(rows):
    mean, quantiles = metrics.summarize_latency(np.array(rows, np.int64))
    for row, got_mean, got in zip(rows, mean, quantiles, strict=True):
        present = [time / 1000 for time in row if time != MISSING]
        if present:
            assert got_mean == pytest.approx(np.mean(present), rel=1e-12)
            np.testing.assert_allclose(got, np.quantile(present, QUANTILES), rtol=1e-12)
        else:
            assert np.isnan(got_mean)
            assert np.isnan(got).all()


def test_latency_of_one_request_is_its_own_quantiles():
    mean, quantiles = metrics.summarize_latency(np.array([[1500], [MISSING]], np.int64))
    np.testing.assert_array_equal(mean, [1.5, np.nan])
    np.testing.assert_array_equal(quantiles, [[1.5] * 4, [np.nan] * 4])


@given(times)
def test_quantiles_are_those_of_numpy_to_the_last_bit(rows):
    """Of whole microseconds; only its division by 1000 may come before or after."""
    table = np.array(rows, np.int64)
    counts = (table >= 0).sum(axis=1)
    found = metrics.latency_quantiles(np.sort(table, axis=1), counts)
    for row, got in zip(table, found, strict=True):
        present = row[row >= 0]
        if len(present):
            rank = (len(present) - 1) * np.array(QUANTILES)
            below = rank.astype(np.int64)
            ordered = np.sort(np.append(present, present.max()))
            want = ordered[below] + np.diff(ordered)[below] * (rank - below)
            assert got.tolist() == (want / 1000).tolist()


def test_latency_does_not_change_its_argument():
    rows = np.array([[3, 1, MISSING, 2]], np.int64)
    before = rows.copy()
    metrics.summarize_latency(rows)
    np.testing.assert_array_equal(rows, before)


def test_ratio_of_nothing_is_no_number():
    got = metrics.ratio(np.array([1, 0, 5]), np.array([4, 3, 0]))
    np.testing.assert_array_equal(got, [0.25, 0.0, np.nan])


def test_only_good_cells_keep_their_numbers():
    status = np.array([[Status.OK, Status.STEP_LIMIT], [Status.FAILED, Status.OK]], np.int8)
    values = {
        "steps": np.full((2, 2), 7, np.int64),
        "ttft_ms": np.full((2, 2, len(QUANTILES)), 1.5),
        "request_status": np.full((2, 2, 3), "completed", object),
    }
    metrics.mask_failed(values, status)
    assert values["steps"].tolist() == [[7, NO_COUNT], [NO_COUNT, 7]]
    assert np.isnan(values["ttft_ms"][0, 1]).all()
    assert not np.isnan(values["ttft_ms"][1, 1]).any()
    assert set(values["request_status"][1, 0]) == {""}
    assert set(values["request_status"][0, 0]) == {"completed"}


def test_nothing_is_masked_where_all_is_well():
    values = {"steps": np.array([1, 2], np.int64)}
    metrics.mask_failed(values, np.full(2, Status.OK, np.int8))
    assert values["steps"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("shares", "counted", "index"),
    [
        ([3, 3, 3], [1, 1, 1], 1.0),
        ([0, 7, 0], [1, 1, 1], 1 / 3),
        ([1, 2, 9], [1, 1, 0], 9 / 10),
        ([5, 0, 0], [1, 0, 0], 1.0),
        ([0, 0, 4], [1, 1, 0], np.nan),
        ([4, 4, 4], [0, 0, 0], np.nan),
    ],
)
def test_the_index_of_jain_goes_from_one_nth_to_one(shares, counted, index):
    found = metrics.jain_index(np.array([shares]), np.array([counted], bool))
    np.testing.assert_allclose(found, [index])


def test_every_variable_is_described():
    names = [variable.name for variable in (*CELL_VARIABLES, *REQUEST_VARIABLES)]
    assert len(names) == len(set(names))
    for variable in VARIABLES.values():
        assert variable.units
        assert variable.long_name
        assert variable.dtype in {"float64", "int64", "str"}


@pytest.mark.parametrize(("suffix", "units"), [("_ms", "ms"), ("_us", "us"), ("_s", "s")])
def test_suffixes_name_the_unit(suffix, units):
    for variable in VARIABLES.values():
        if variable.name.endswith(suffix) and not variable.name.endswith("_per_s"):
            assert variable.units == units, variable.name


def test_nothing_in_no_time_is_a_rate_of_zero():
    got = metrics.per_second(np.array([0, 0, 3, 3]), np.array([0, 2_000_000, 2_000_000, 0]))
    np.testing.assert_array_equal(got, [0.0, 0.0, 1.5, np.nan])


@pytest.mark.parametrize("cells", [1, 2, 7, 64])
def test_means_of_nothing_have_the_same_bits_however_many_cells_there_are(cells):
    """An extended store had other bytes than that of one run: NaN with a sign, and without."""
    nothing = np.zeros(cells, np.int64)
    means = metrics.mean_latency(nothing, nothing)
    assert means.tobytes() == np.full(cells, np.nan).tobytes()
    assert metrics.mean_latency(nothing + 3000, nothing + 2).tolist() == [1.5] * cells
