"""Parquet files of named columns; without pyarrow, one line says what to install."""

import sys
from datetime import UTC, date, datetime

import numpy as np
import pytest

from kvsweep.config.read_options import parse_reading
from kvsweep.errors import InputError
from kvsweep.workload import long_files, parquet
from kvsweep.workload.traces import load_trace

NAMES = ("arrival_ms", "prompt_tokens", "output_tokens")
SECONDS = ((1, 2, 3), (4, 4, 4))


def refused(path, *read):
    with pytest.raises(InputError) as caught:
        load_trace(path, parse_reading(read))
    told = str(caught.value)
    assert told.startswith(f"{path}: ")
    assert told.isprintable()
    return told.removeprefix(f"{path}: ")


def write(tmp_path, columns, **options):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), path, **options)
    return path


def table(**changes):
    columns = {"arrival_ms": [1500.0, 1000.25, 1500.0], "prompt_tokens": [5, 7, 9]}
    return columns | {"output_tokens": [1, 2, 3]} | changes


def test_columns_become_requests_with_their_times(tmp_path):
    more = {"ttft_ms": [5.5, 6.5, 7.5], "latency_ms": [5.5, 8.5, 9.5], "client": ["a", None, "b"]}
    trace = load_trace(write(tmp_path, table(**more), row_group_size=2))
    assert trace.requests.arrival_us.tolist() == [0, 499_750, 499_750]
    assert trace.requests.prompt_tokens.tolist() == [7, 5, 9]
    assert trace.requests.client.tolist() == [-1, 0, 1]
    assert trace.expected["measured_us"]["first_token_ts"] == [6500, 505_250, 507_250]


def test_columns_are_named_and_dates_have_their_unit(tmp_path):
    times = [datetime(2026, 4, 1, 0, 0, second, tzinfo=UTC) for second in (3, 1, 2)]
    path = write(tmp_path, {"ts": times, "in": [5, 7, 9], "out": [1, 2, 3]})
    assert refused(path).startswith("no column arrival: read.columns.arrival = 'NAME' says which")
    names = ["columns.arrival=ts", "columns.prompt=in", "columns.output=out"]
    trace = load_trace(path, parse_reading(names))
    assert trace.requests.arrival_us.tolist() == [0, 1_000_000, 2_000_000]
    assert trace.requests.prompt_tokens.tolist() == [7, 9, 5]


def test_clocks_with_and_without_a_zone_are_not_mixed(tmp_path):
    plain = [datetime(2026, 4, 1, 0, 0, second) for second in (3, 1, 2)]
    zoned = [time.replace(tzinfo=UTC) for time in plain]
    names = ["columns.arrival=ts", "columns.first_token=first"]
    columns = {"prompt_tokens": [5, 7, 9], "output_tokens": [1, 2, 3]}
    path = write(tmp_path, {"ts": zoned, "first": plain} | columns)
    told = "times with and without a time zone: those of"
    assert refused(path, *names) == f"first: {told} ts have one"
    path = write(tmp_path, {"ts": plain, "first": zoned} | columns)
    assert refused(path, *names) == f"ts: {told} first have one"


def test_durations_have_their_unit(tmp_path):
    pa = pytest.importorskip("pyarrow")
    for unit, factor in (("s", 1), ("ms", 1000), ("us", 10**6), ("ns", 10**9)):
        times = [pa.array([k * factor for k in tokens], pa.duration(unit)) for tokens in SECONDS]
        trace = load_trace(write(tmp_path, table(ttft=times[0], latency=times[1])))
        assert trace.expected["measured_us"]["first_token_ts"] == [2e6, 1_499_750, 3_499_750]
        assert trace.expected["measured_us"]["last_token_ts"] == [4e6, 4_499_750, 4_499_750]


def test_small_floats_are_read_without_a_warning(tmp_path):
    pa = pytest.importorskip("pyarrow")
    halves = pa.array(np.array([1.5, 1, 2], np.float16))
    requests = load_trace(write(tmp_path, table(arrival_ms=halves))).requests
    assert requests.arrival_us.tolist() == [0, 500, 1000]


def test_a_column_that_is_there_twice_is_named(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    columns = pa.Table.from_arrays([pa.array([1])] * 4, names=[*NAMES, NAMES[1]])
    pytest.importorskip("pyarrow.parquet").write_table(columns, path)
    assert refused(path) == "duplicate column 'prompt_tokens'"


@pytest.mark.parametrize("name", ["arrival", "ttft"])
def test_types_that_are_no_times_are_not_asked_for_their_unit(tmp_path, name):
    changes = {name: [date(2026, 4, 1)] * 3}
    path = write(tmp_path, table(**changes))
    read = ("columns.arrival=arrival",) if name == "arrival" else ()
    kind = "timestamps" if name == "arrival" else "durations"
    told = f"{name}: expected a column of numbers or {kind}, got 'date32[day]'"
    assert refused(path, *read) == told


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_tokens": [5, None, 9]}, "row 1: prompt_tokens: no value"),
        ({"prompt_tokens": [5, -7, 9]}, "row 1: prompt_tokens: expected a number from 0 to 16777"),
        ({"prompt_tokens": [5, 0, 9]}, "row 1: 0 prompt tokens, at least 1 is needed"),
        ({"prompt_tokens": [5.0, 7.5, 9.0]}, "row 1: prompt_tokens: expected an integer, got 7.5"),
        ({"prompt_tokens": [True, True, True]}, "prompt_tokens: expected a column of integers, g"),
        ({"arrival_ms": ["1", "2", "3"]}, "arrival_ms: expected a column of numbers or timestamps"),
        ({"arrival_ms": [1.0, float("nan"), 2.0]}, "row 1: arrival_ms: expected a number from 0"),
        ({"arrival_ms": [1.0, float("inf"), 2.0]}, "row 1: arrival_ms: expected a number from 0"),
        ({"output_tokens": [1, 0, 3]}, "row 1: 0 output tokens, the request failed: read.failed"),
        ({"ttft_ms": [datetime(2026, 4, 1)] * 3}, "ttft_ms: expected a column of numbers or dur"),
        ({"ttft_ms": [1.0, 0.0, 3.0]}, "row 1: ttft: 0 s after the arrival, expected more than 0"),
    ],
)
def test_malformed_columns_are_refused_by_row(tmp_path, changes, message):
    assert refused(write(tmp_path, table(**changes))).startswith(message)


@pytest.mark.parametrize("key", ["arrival_ms", "prompt_tokens", "output_tokens", "ttft_ms"])
@pytest.mark.parametrize("nothing", [None, float("nan"), -1.0])
def test_rows_that_lack_a_number_are_left_out_as_failed(tmp_path, key, nothing):
    whole = table(ttft_ms=[5.0, 6.0, 7.0], latency_ms=[8.0, 9.0, 10.0])
    path = write(tmp_path, whole | {key: [whole[key][0], nothing, whole[key][2]]}, row_group_size=1)
    told = refused(path)
    assert told.startswith(f"row 1: {key}: ")
    assert told.endswith("failed: read.failed = 'leave-out' leaves such requests out")
    trace = load_trace(path, parse_reading(("failed=leave-out",)))
    assert trace.requests.prompt_tokens.tolist() == [5, 9]
    assert trace.expected["measured_us"]["first_token_ts"] == [5000, 7000]


def test_a_damaged_file_is_refused(tmp_path):
    path = write(tmp_path, table())
    content = path.read_bytes()
    for damaged in (
        content[:-7],
        content[:20],
        b"PAR1",
        content[:40] + b"\xff" * 40 + content[80:],
    ):
        path.write_bytes(damaged)
        assert refused(path)
    path.write_text("arrival_ms,prompt_tokens,output_tokens\n1,2,3\n")
    assert refused(path, "format=parquet").startswith("damaged or unreadable Parquet file: ")


def test_a_file_beyond_the_limits_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path, table())
    monkeypatch.setattr(parquet, "MAX_REQUESTS", 2)
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 2)
    assert refused(path).startswith("more than 2 requests: a window of its time, or its first")
    monkeypatch.setattr(parquet, "MAX_INPUT_BYTES", 50)
    assert refused(path) == "more than 50 bytes"


def test_without_pyarrow_a_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    path = tmp_path / "log.parquet"
    path.write_bytes(b"PAR1 and more")
    told = "is a Parquet file, which needs pyarrow: pip install 'kvsweep[parquet]'"
    assert refused(path) == told


def test_a_column_that_nothing_is_read_from_may_be_there_twice(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = tmp_path / "log.parquet"
    columns = pa.Table.from_arrays([pa.array([1])] * 5, names=[*NAMES, "note", "note"])
    pytest.importorskip("pyarrow.parquet").write_table(columns, path)
    assert len(load_trace(path).requests.arrival_us) == 1


def test_an_empty_column_has_no_values(tmp_path):
    pa = pytest.importorskip("pyarrow")
    path = write(tmp_path, table(prompt_tokens=pa.nulls(3)))
    assert "prompt_tokens: no value" in refused(path)


def test_no_time_counts_from_the_arrival_where_the_arrival_is_a_date(tmp_path):
    pa = pytest.importorskip("pyarrow")
    dates = pa.array([0, 1, 2], pa.timestamp("ms"))
    columns = {"arrival": dates, **table(first_token=pa.array([1, 2, 3], pa.duration("ms")))}
    del columns["arrival_ms"]
    path = write(tmp_path, columns)
    assert "first_token: expected a column of numbers or timestamps" in refused(path)


def test_names_lose_the_blanks_around_them(tmp_path):
    """As those of CSV do."""
    path = write(tmp_path, table(slo_class=[" critical", "critical ", "batch"]))
    assert load_trace(path, None).requests.slo_names == ("critical", "batch")


def test_dates_further_apart_than_64_bits_hold_are_refused(tmp_path):
    pa = pytest.importorskip("pyarrow")
    columns = {"arrival": pa.array([-(2**62), -(2**62), 2**62], pa.timestamp("us")), **table()}
    del columns["arrival_ms"]
    assert refused(write(tmp_path, columns)).startswith("row 2: arrives more than 1000")


def test_rows_that_are_left_out_are_counted(tmp_path):
    path = write(tmp_path, table(prompt_tokens=[5, None, 9], output_tokens=[1, 2, 0]))
    assert load_trace(path, parse_reading(["failed=leave-out"])).left_out == 2


def test_times_that_few_bits_round_are_refused(tmp_path):
    """Requests of two minutes came at once."""
    days = np.array([1.7e9, 1.7e9 + 50, 1.7e9 + 100], np.float32)
    columns = {"arrival_s": days, **table()}
    del columns["arrival_ms"]
    told = "arrival_s: floats of 32 bits tell its times to 128 s, and no closer"
    assert refused(write(tmp_path, columns)).startswith(told)
    hours = np.array([0.0, 3600.25, np.nan], np.float32)
    columns["arrival_s"] = hours
    found = load_trace(write(tmp_path, columns), parse_reading(["failed=leave-out"]))
    assert found.requests.arrival_us.tolist() == [0, 3_600_250_000]
    coarse = np.array([9999.0, 1.0, 2.0], np.float16)
    assert "16 bits" in refused(write(tmp_path, table(ttft_s=coarse)))


@pytest.mark.parametrize(
    ("column", "texts"),
    [("arrival_ms", ["2026-04-01T12:00:00Z"] * 3), ("prompt_tokens", ["5", "7", "9"])],
)
@pytest.mark.parametrize("kind", ["string", "large_string", "string_view"])
def test_how_texts_become_numbers_is_told(tmp_path, column, texts, kind):
    pa = pytest.importorskip("pyarrow")
    columns = table(**{column: pa.array(texts, getattr(pa, kind)())})
    told = "; make numbers or times of its texts (pandas: to_numeric, to_datetime), or write a CSV"
    assert refused(write(tmp_path, columns)).endswith(f"got '{kind}'{told}")
