"""Tables of more requests than a list may have: a part of them is what it is of a shorter one."""

from dataclasses import fields, replace

import numpy as np
import pytest

from kvsweep.config.bending import Bends
from kvsweep.config.trace_reading import Reading
from kvsweep.config.workload import Workload
from kvsweep.errors import InputError
from kvsweep.traces.asking import read_bent
from kvsweep.workload import csv_columns, kept_traces, long_files
from kvsweep.workload.bending import bend
from kvsweep.workload.generate import requests_for
from kvsweep.workload.long_files import part_of
from kvsweep.workload.requests import Requests
from kvsweep.workload.traces import load_trace

N = 400
AS_FOUND = Reading()
AT_ONCE = Reading(arrivals="at-once")


def rows_of(seed, jitter=0.0):
    """Return (arrival in whole us, prompt, output) of rows: several at once, some out of order."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.integers(0, 3, N) * 250_000 + rng.integers(0, 2, N))
    shifted = arrival + rng.integers(0, 1 + int(1e6 * jitter), N)
    shifted[: N // 4] = arrival[: N // 4]  # of which the first row is the earliest
    return shifted.tolist(), rng.integers(1, 900, N).tolist(), rng.integers(1, 90, N).tolist()


def azure(arrival, prompt, output):
    times = np.datetime_as_string(np.datetime64("2024-05-12", "us") + np.array(arrival))
    lines = [
        f"{t.replace('T', ' ')}+00:00,{p},{o}"
        for t, p, o in zip(times, prompt, output, strict=True)
    ]
    return "\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *lines]) + "\n"


def burstgpt(arrival, prompt, output):
    lines = [f"{t / 1e6},GPT-4,{p},{o}" for t, p, o in zip(arrival, prompt, output, strict=True)]
    return "\n".join(["Timestamp,Model,Request tokens,Response tokens", *lines]) + "\n"


def table(arrival, prompt, output):
    lines = [
        f"{t + 10**9},{p},{o},c{t % 3}" for t, p, o in zip(arrival, prompt, output, strict=True)
    ]
    return "\n".join(["arrival_us,prompt_tokens,output_tokens,client", *lines]) + "\n"


def parquet(path, arrival, prompt, output):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet as files

    columns = {"arrival_ms": [t / 1e3 for t in arrival], "prompt_tokens": prompt}
    files.write_table(pa.table(columns | {"output_tokens": output}), path)


def write(path, kind, rows):
    """Write the rows as a file of a kind."""
    if kind == "parquet":
        parquet(path, *rows)
    else:
        path.write_text({"azure": azure, "burstgpt": burstgpt, "csv": table}[kind](*rows))
    return path


def same(a, b):
    """Whether two lists are equal but for the numbers of their segments."""
    numbered = {"segment_ids": None, "output_segment": None}
    a, b = (replace(each, **{key: np.arange(len(each)) for key in numbered}) for each in (a, b))
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Requests))


HOW = {
    "window": {"slice": {"from_s": 20.0, "to_s": 31.5}},
    "length": {"slice": {"from_s": 50.25, "length_s": 10.0}, "scale": 2.0},
    "end": {"slice": {"from_s": 75.0}, "clip": {"prompt": 100}},
    "limit": {"limit": 37},
    "window and limit": {"slice": {"from_s": 30.5}, "limit": 11},
    "copies": {"slice": {"to_s": 15.0}, "repeat": 3, "loop": 2, "limit": 100},
}


@pytest.mark.parametrize("kind", ["azure", "burstgpt", "csv", "parquet"])
@pytest.mark.parametrize("name", HOW)
@pytest.mark.parametrize("jitter", [0.0, 3.0])
def test_a_part_of_a_long_table_is_that_of_the_table(tmp_path, monkeypatch, kind, name, jitter):
    how = Bends.model_validate(HOW[name])
    monkeypatch.setattr(csv_columns, "_CHARACTERS", 900)
    for seed in range(4):
        path = write(tmp_path / f"{seed}.txt", kind, rows_of(seed, jitter))
        whole = load_trace(path).requests
        wanted = bend(whole, how, 1, 2, "t")
        monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
        found = load_trace(path, None, part_of(how, None))
        monkeypatch.undo()
        monkeypatch.setattr(csv_columns, "_CHARACTERS", 900)
        assert found.cut
        assert len(found.requests) <= 150 < len(whole)
        assert same(bend(found.requests, how, 1, 2, "t"), wanted)


@pytest.mark.parametrize(
    ("how", "read"),
    [
        ({}, AS_FOUND),
        ({"scale": 2.0}, AS_FOUND),
        ({"limit": 5, "repeat": 2}, AS_FOUND),  # copies of later ones are drawn too
        ({"limit": 5, "loop": 2}, AS_FOUND),
        ({"slice": {"to_s": 9.0}}, AT_ONCE),
    ],
)
def test_where_all_requests_count_a_long_table_is_refused(tmp_path, monkeypatch, how, read):
    part = part_of(Bends.model_validate(how), read)
    assert part is None
    path = write(tmp_path / "t.csv", "csv", rows_of(0))
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
    with pytest.raises(
        InputError, match=r"t\.csv: more than 150 requests \(the first ones .* s\): a"
    ):
        load_trace(path, read, part)


def test_a_part_may_have_too_many_requests_or_none(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", "azure", rows_of(0))
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
    message = r"more than 150 requests in the part that is asked for"
    for whole in (["slice.to_s=90"], ["slice.to_s=90", "limit=300"]):
        with pytest.raises(InputError, match=message):
            read_bent(path, whole)
    with pytest.raises(InputError, match=r"slice: no request of .* its 400 requests arrive from 0"):
        read_bent(path, ["slice.from_s=9e5"])


def test_a_long_table_in_no_order_is_refused(tmp_path, monkeypatch):
    """Where time begins has to be known before rows are left out."""
    arrival, prompt, output = rows_of(0)
    monkeypatch.setattr(csv_columns, "_CHARACTERS", 900)
    path = write(tmp_path / "t.csv", "csv", ([*arrival[1:], arrival[0] - 1], prompt, output))
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
    with pytest.raises(InputError, match=r"row 401 arrives before the first of 150 rows: sort"):
        load_trace(path, None, part_of(Bends.model_validate({"limit": 5}), None))


def test_a_part_is_kept_for_who_asks_for_the_same(tmp_path, monkeypatch):
    import os

    path = write(tmp_path / "t.csv", "csv", rows_of(0))
    os.utime(path, (0, 0))
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
    parts = [part_of(Bends.model_validate({"limit": n}), None) for n in (5, 6)]
    found = [kept_traces.requests_of_file(path, None, part) for part in (*parts, *parts)]
    assert [each is found[0] for each in found] == [True, False, True, False]


def test_a_sweep_and_a_command_take_a_part_of_a_long_table(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", "azure", rows_of(3))
    how = {"slice": {"from_s": 20.0, "to_s": 40.0}}
    wanted = bend(load_trace(path).requests, Bends.model_validate(how), 0, 0, "t")
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
    bent = read_bent(path, ["slice.from_s=20", "slice.to_s=40"])
    assert bent.changed
    assert same(bent.requests, wanted)
    workload = Workload.model_validate({"trace": "t.csv"} | how)
    assert same(requests_for(workload, 0, 0, None, tmp_path), wanted)


def test_requests_of_one_microsecond_stay_as_in_the_file(tmp_path, monkeypatch):
    """The third one is earlier than the second by a part of a microsecond, and stands behind it."""
    path = tmp_path / "t.csv"
    times_ns = [0, 3_002_400, 3_001_600, *range(9_000_000, 9_000_006)]
    rows = [f"{time},{prompt},1\n" for prompt, time in enumerate(times_ns, 1)]
    path.write_text("".join(["arrival_ns,prompt_tokens,output_tokens\n", *rows]))
    how = Bends.model_validate({"slice": {"from_s": 0.0015}, "limit": 1})
    wanted = bend(load_trace(path).requests, how, 0, 0, "t")
    assert wanted.prompt_tokens.tolist() == [2]
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 5)
    part = load_trace(path, None, part_of(how, None))
    assert same(bend(part.requests, how, 0, 0, "t"), wanted)


def test_a_window_without_requests_is_told_as_of_a_shorter_table(tmp_path, monkeypatch):
    path = write(tmp_path / "t.csv", "csv", rows_of(0))
    workload = Workload.model_validate({"trace": "t.csv", "slice": {"from_s": 9e5}})
    for most in (1000, 150):
        monkeypatch.setattr(long_files, "MAX_REQUESTS", most)
        with pytest.raises(InputError, match=r"^workload\.slice: no request of .*t\.csv arrives"):
            requests_for(workload, 0, 0, None, tmp_path)
        with pytest.raises(InputError, match=r"t\.csv: workload\.slice: no request of "):
            read_bent(path, ["slice.from_s=9e5"])


def test_rows_of_a_long_table_may_arrive_with_its_first(tmp_path, monkeypatch):
    """Only one that arrives earlier moves the origin of what was left out."""
    monkeypatch.setattr(csv_columns, "_CHARACTERS", 900)
    arrival, prompt, output = rows_of(0)
    arrival[-1] = min(arrival)
    path = write(tmp_path / "t.csv", "csv", (arrival, prompt, output))
    wanted = load_trace(path).requests
    how = Bends.model_validate({"slice": {"to_s": 5.0}})
    monkeypatch.setattr(long_files, "MAX_REQUESTS", 150)
    found = load_trace(path, None, part_of(how, None))
    assert found.cut
    assert same(bend(found.requests, how, 1, 2, "t"), bend(wanted, how, 1, 2, "t"))
