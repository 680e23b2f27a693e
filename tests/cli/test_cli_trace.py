"""``kvsweep trace``: what is in a trace, parts of it as files, hits of all capacities."""

import gzip
import json
import os
import re
from pathlib import Path
from time import sleep

import numpy as np
import pytest
import xarray as xr
from workload.exports import call, session
from workload.lists import TRACE, same

import kvsweep
from kvsweep.cli import progress
from kvsweep.config import parse_scenario
from kvsweep.config.preset import load_preset
from kvsweep.workload.traces import load_trace

PRESETS = Path(kvsweep.__file__).parent / "presets"
NATIVE = {
    "format": "kvsweep-trace/1",
    "about": {"made": "here"},
    "scenario": {"latency": {"beta": [1000, 10, 5]}},
    "requests": [
        {"id": 0, "arrival_us": 0, "prompt": [[0, 40]], "output": [1, 9], "session": 4, "round": 0},
        {"id": 1, "arrival_us": 1_000_000, "prompt": [[7, 3]], "output": [2, 1], "slo_class": "a"},
        {
            "id": 2,
            "arrival_us": 2_000_000,
            "prompt": [[0, 40], [1, 9], [3, 8]],
            "output": [4, 5],
            "session": 4,
            "round": 1,
            "after": 0,
            "think_us": 500_000,
            "client": "c",
        },
    ],
    "expected": {"total": 3},
}
AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:03.9799609,4808,10
2023-11-16 18:17:05.0319600,3180,8
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "mooncake.jsonl").write_text(TRACE)
    (tmp_path / "azure.csv").write_text(AZURE)
    (tmp_path / "native.json").write_text(json.dumps(NATIVE))
    return tmp_path


@pytest.mark.parametrize("name", ["mooncake.jsonl", "azure.csv", "native.json"])
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_what_is_converted_is_read_as_the_same(run, files, name, suffix):
    out = files / f"out.{suffix}"
    assert run("trace", "convert", str(files / name), "-o", str(out))[0] == 0
    before, after = load_trace(files / name), load_trace(out)
    assert same(before.requests, after.requests)
    assert (before.scenario, before.about) == (after.scenario, after.about)
    assert before.expected == after.expected
    again = files / f"again.{suffix}"
    run("trace", "convert", str(out), "-o", str(again))
    assert again.read_bytes() == out.read_bytes()


def test_results_of_other_requests_are_left_out_and_that_is_said(run, files):
    out = files / "out.json"
    code, told, err = run(
        "trace", "convert", str(files / "native.json"), "-o", str(out), "--set", "loop=2"
    )
    assert (code, told) == (0, f"{out}: 6 requests\n")
    assert "expected: left out" in err
    assert "expected" not in json.loads(out.read_text())


def test_presets_of_a_trace_are_the_same_files_in_another_folder(run, files):
    """Relative to the new folder they were another file, or none."""
    deep = files / "deep" / "er"
    deep.mkdir(parents=True)
    for name, folder in (("h100", files), ("a100", deep)):
        bundled = PRESETS / "llama-3.1-8b" / name / "tp1-roofline.toml"
        (folder / "mine.toml").write_text(bundled.read_text())
    absolute = str(files / "mine.toml")
    wanted = load_preset("mine.toml", files).coefficients()
    for name, there in (("mine.toml", "../../mine.toml"), (absolute, absolute)):
        pools = [{"instances": 1, "gpu_blocks": 9, "latency": {"model": name}}, {"instances": 1}]
        scenario = {"latency": {"model": name}, "cluster": {"pools": pools}}
        path, out = files / "native.json", deep / "out.json"
        path.write_text(json.dumps(NATIVE | {"scenario": scenario}))
        assert run("trace", "convert", str(path), "-o", str(out), "--overwrite")[0] == 0
        written = json.loads(out.read_text())["scenario"]
        assert written["latency"] == {"model": there}
        assert written["cluster"]["pools"] == [pools[0] | {"latency": {"model": there}}, pools[1]]
        for found in (parse_scenario(load_trace(f).scenario, str(f)) for f in (path, out)):
            assert found.latency.memory == wanted["memory"]
            assert found.cluster.pools[0].latency.memory == wanted["memory"]
        beside = files / "beside.json"
        assert run("trace", "convert", str(path), "-o", str(beside), "--overwrite")[0] == 0
        assert json.loads(beside.read_text())["scenario"] == scenario


@pytest.mark.parametrize(
    "line",
    [
        ("slice", "--from", "0"),
        ("slice", "--to", "1e6", "--limit", "1000000"),
        ("convert", "--set", "scale=1"),
    ],
)
def test_results_go_along_where_nothing_is_left_out(run, files, line):
    command, *options = line
    out = files / "out.json"
    code, _, err = run("trace", command, str(files / "native.json"), "-o", str(out), *options)
    assert (code, err) == (0, "")
    assert json.loads(out.read_text())["expected"] == NATIVE["expected"]


def test_a_replay_tells_of_arrivals_that_answers_decided(run, files):
    """They were passed over without a word."""
    trace = NATIVE | {"scenario": {"latency": {"beta": [1000, 10, 5]}, "cache": {"gpu_blocks": 99}}}
    path = files / "t.json"
    path.write_text(json.dumps(trace))
    _, out, err = run("replay", str(path), "--json")
    told = [w["text"] for w in json.loads(out)["warnings"] if w["kind"] == "early-arrivals"]
    assert told[0].startswith("requests arrived before their arrival_us, as they have 'after': 1, ")
    assert "requests[2] at 5" in told[0]
    assert "us instead of 2,000,000: think_us after the answer decides" in err
    path.write_text(json.dumps(trace | {"requests": [*NATIVE["requests"][:2]]}))
    assert "arrival_us" not in run("replay", str(path))[2]
    assert "arrival_us" not in run(*waiting(files))[2]


def waiting(folder):
    """Return the line that replays Weka's sessions, whose arrivals are the earliest possible."""
    more = ("--set", "latency.beta=[1000,10,5]", "--set", "cache.gpu_blocks=99")
    return ("replay", str(weka(folder)), "--read", "lanes=2", *more)


def test_a_slice_is_a_trace_of_its_own(run, files):
    out = files / "part.json.gz"
    code, _, _ = run(
        *("trace", "slice", str(files / "mooncake.jsonl"), "-o", str(out)),
        *("--from", "1", "--to", "6", "--limit", "2"),
    )
    assert code == 0
    rows = json.loads(gzip.decompress(out.read_bytes()))["requests"]
    assert [row["arrival_us"] for row in rows] == [500_000, 500_000]
    assert [sum(tokens for _, tokens in row["prompt"]) for row in rows] == [600, 1100]


def weka(folder):
    """Write eight sessions whose rounds begin as the one before did, 15 s after its answer."""
    lines = [session(f"s{k}", rounds(), block_size=16) for k in range(8)]
    path = folder / "weka.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    return path


def rounds():
    turns = []
    for i in range(3):
        ids = list(range(10 + i))
        waits = {"api_time": 5.0, "think_time": 15.0 if i else 0.0}
        turns.append(call(20.0 * i, 16 * (10 + i) + 3, out=8, ids=ids, **waits))
    return turns


def test_waits_reach_what_is_told_of_arrivals_and_hits(run, files):
    """All rounds counted as if they arrived when their session begins."""
    path = str(weka(files))
    line = (path, "--read", "sessions_per_s=1", "--json")
    told = json.loads(run("trace", "info", *line)[1])
    assert told["arrivals"]["span_s"] == 7 + 30
    assert told["reuse"]["age_s"]["p50"] == 15
    small = ("--blocks", "13,27,120")
    found = json.loads(run("trace", "hits", *line, *small)[1])
    rates = found["capacities"]["lru_hit_rate"]
    # Between two rounds of a session are those of the others.
    assert (rates[0], rates[-1]) == (0.0, found["ceiling"])
    assert found["waiting_for_answers"] == 16
    lane = (path, "--read", "lanes=1", "--json")
    assert json.loads(run("trace", "info", *lane)[1])["arrivals"]["span_s"] == 8 * 30
    assert json.loads(run("trace", "hits", *lane, *small)[1])["capacities"]["lru_hit_rate"][0] > 0
    for command in ("info", "hits"):
        assert "as if answers took no time" in run("trace", command, *line[:-1])[1]


def test_own_traces_are_counted_at_the_earliest_arrivals_too(run, files):
    rows = [NATIVE["requests"][0], NATIVE["requests"][2] | {"id": 1, "arrival_us": 0}]
    path = files / "early.json"
    path.write_text(json.dumps(NATIVE | {"requests": rows}))
    told = json.loads(run("trace", "info", str(path), "--json")[1])
    assert told["arrivals"]["span_s"] == 0.5


@pytest.mark.parametrize(
    "settings", [("--set", "scale=2"), ("--set", "slice.to_s=5"), ("--set", "slice.from_s=5")]
)
def test_what_bends_times_is_refused_where_there_are_none(run, files, settings):
    line = ("trace", "info", str(weka(files)), "--read", "lanes=2", *settings)
    code, _, err = run(*line)
    assert code == 2
    assert "has no effect: needs arrivals that are not all at once, nor on read.lanes" in err
    few = ("trace", "info", str(weka(files)), "--read", "lanes=2", "--set", "limit=4", "--json")
    told = json.loads(run(*few)[1])
    assert told["sessions"]["sessions"] == 2  # of both lanes


@pytest.mark.parametrize("command", ["convert", "slice", "info", "hits"])
def test_no_file_is_replaced_without_being_asked(run, files, command):
    out = files / "there.json" if command in ("convert", "slice") else files / "there.png"
    out.write_text("precious")
    option = "-o" if command in ("convert", "slice") else "--plot"
    more = ("--limit", "1") if command == "slice" else ()
    line = ("trace", command, str(files / "mooncake.jsonl"), option, str(out), *more)
    code, _, err = run(*line)
    assert code == 2
    assert "is there already; --overwrite replaces it" in err
    assert out.read_text() == "precious"
    assert run(*line, "--overwrite")[0] == 0
    assert b"precious" not in out.read_bytes()


def test_a_trace_is_not_replaced_by_its_own_slice(run, files):
    path = str(files / "native.json")
    code, _, err = run("trace", "slice", path, "--limit", "1", "-o", path, "--overwrite")
    assert code == 2
    assert "would replace" in err
    assert len(json.loads((files / "native.json").read_text())["requests"]) == 3


def test_info_tells_what_is_in_a_trace(run, files):
    code, out, err = run("trace", "info", str(files / "mooncake.jsonl"), "--block-size", "512")
    assert (code, err) == (0, "")
    assert "mooncake.jsonl: 4 requests in 6 s, 0.5 each second" in out
    assert "reuse     50.79% of prompt tokens are found by a cache without end" in out
    code, out, _ = run("trace", "info", str(files / "native.json"), "--json", "--block-size", "8")
    found = json.loads(out)
    assert found["requests"] == 3
    assert found["prompt_tokens"]["max"] == 57
    assert found["output_tokens"]["sum"] == 15
    assert found["arrivals"]["bin_requests"] == [2, 1]
    assert found["arrivals"]["gap_cv"] == 0
    assert found["reuse"]["hit_tokens"] == 48  # of 40 + 9 - 1 tokens that are stored
    assert found["reuse"]["age_s"]["p50"] == 0.5  # an answer may take no time
    assert found["sessions"]["waiting_for_answers"] == 1
    assert found["sessions"]["think_s"]["mean"] == 0.5
    assert (found["slo_classes"], found["clients"]) == ({"a": 1}, {"c": 1})
    text = run("trace", "info", str(files / "native.json"))[1]
    assert "waiting for an answer first: 1, which think 0.5 s on average" in text


def test_the_calmest_time_is_a_whole_one(run, tmp_path):
    """One request each second of two minutes: neither before the first nor in the last, cut bin."""
    for begin in (0, 600, 601):
        requests = [
            {"id": i, "arrival_us": 10**6 * (begin + i), "prompt": [[i, 9]], "output": [i, 2]}
            for i in range(121)
        ]
        file = tmp_path / f"{begin}.json"
        file.write_text(
            json.dumps({"format": NATIVE["format"], "scenario": {}, "requests": requests})
        )
        out = run("trace", "info", str(file))[1]
        assert re.search(r" 1 requests/s in the busiest \d+ s, 1 in the calmest", out), out


def test_info_is_of_the_bent_trace(run, files):
    code, out, _ = run(
        *("trace", "info", str(files / "mooncake.jsonl"), "--json"),
        *("--set", "workload.scale=2", "--set", "clip.prompt=512", "--set", "slice.to_s=2"),
    )
    found = json.loads(out)
    assert code == 0
    assert found["requests"] == 3
    assert found["arrivals"]["last_s"] == 0.75
    assert found["prompt_tokens"]["max"] == 512


def test_hits_as_a_table_a_file_and_json(run, files):
    path, table = str(files / "mooncake.jsonl"), files / "hits.csv"
    line = ("trace", "hits", path, "--block-size", "512", "--blocks", "3,4,5,9")
    code, out, _ = run(*line, "-o", str(table))
    assert code == 0
    assert "A cache without end finds 50.79%; the largest request takes 3 blocks." in out
    assert table.read_text().splitlines()[0] == "blocks,tokens,lru_hit_rate,best_hit_rate"
    found = json.loads(run(*line, "--json")[1])
    rates = found["capacities"]["lru_hit_rate"]
    assert found["capacities"]["blocks"] == [3, 4, 5, 9]
    assert rates == sorted(rates)
    assert rates[-1] == found["ceiling"] == 1536 / 3024
    netcdf = files / "hits.nc"
    run(*line, "-o", str(netcdf), "--model", "llama-3.1-8b")
    with xr.open_dataset(netcdf) as ds:
        assert np.array_equal(ds["lru_hit_rate"], rates)
        assert ds["gib"].attrs["units"] == "GiB"
        assert ds["gib"].values[0] == 3 * 512 * 128 / 2**20
        assert ds.attrs["ceiling"] == found["ceiling"]


def test_figures_are_drawn_with_and_without_reuse(run, files):
    for name in ("mooncake.jsonl", "azure.csv"):
        for command in ("info", "hits"):
            figure = files / f"{name}-{command}.svg"
            code, out, _ = run("trace", command, str(files / name), "--plot", str(figure))
            assert code == 0
            assert out.splitlines()[-1] == str(figure)
            assert figure.read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (("info", "{}/none.json"), "none.json: cannot read: No such file"),
        (("inof", "{}/azure.csv"), "no command 'inof'; did you mean 'info'?"),
        (("info", "{}/azure.csv", "--set", "scal=2"), "no key of a trace; did you mean 'scale'?"),
        (("info", "{}/azure.csv", "--set", "rate=2"), "--set rate: no key of a trace"),
        (("info", "{}/azure.csv", "--set", "scale=x"), "expected a number, got 'x'"),
        (("info", "{}/azure.csv", "--set", "scale"), "expected KEY=VALUE"),
        (("info", "{}/azure.csv", "--set", "copies=same"), "has no effect: needs"),
        (("info", "{}/azure.csv", "--seed", "3"), "--seed: has no effect without --set repeat"),
        (("info", "{}/azure.csv", "--set", "slice.from_s=99"), "azure.csv: workload.slice: no req"),
        (("info", "{}/azure.csv", "--block-size", "0"), "0 is not in the range"),
        (("info", "{}/azure.csv", "--overwrite"), "--overwrite: has no effect without --plot"),
        (
            ("hits", "{}/azure.csv", "--overwrite"),
            "--overwrite: has no effect without --out or --p",
        ),
        (("slice", "{}/azure.csv", "-o", "{}/x.json"), "--from, --to, --limit: missing"),
        (("slice", "{}/azure.csv", "--limit", "1", "-o", "{}/x.csv"), "written as .json"),
        (("convert", "{}/azure.csv", "-o", "{}/none/x.json"), "x.json: cannot be written"),
        (("hits", "{}/azure.csv", "--blocks", "7,x"), "expected numbers as in 1000,2000, got 'x'"),
        (("hits", "{}/azure.csv", "--blocks", "7"), "the largest request takes 302 blocks"),
        (("hits", "{}/azure.csv", "--blocks", "7", "--points", "3"), "--points: has no effect"),
        (("hits", "{}/azure.csv", "--tp", "2"), "--tp: has no effect without --model"),
        (("hits", "{}/azure.csv", "--model", "llama"), "llama"),
        (("hits", "{}/azure.csv", "--model", "gpt-oss-20b"), "several kinds of layers"),
        (("hits", "{}/azure.csv", "-o", "{}/x.txt"), "written as .csv or .nc"),
        (("hits", "{}/none.json", "-o", "{}/none/x.csv"), "cannot be written: there is no folder"),
        (("info", "{}/none.json", "--plot", "{}/x.bmp"), "written as .png, .svg or .pdf"),
        (("info", "{}/azure.csv", "--set", "scale"), "as in scale=2"),
        (("slice", "{}/azure.csv", "--from", "9", "--to", "2", "-o", "{}/x.json"), "--to: 2 is"),
        (
            ("slice", "{}/azure.csv", "--from", "9", "--to", "2", "-o", "{}/x.json"),
            "--to: 2 is not after --from, 9",
        ),
        (
            ("slice", "{}/azure.csv", "--from", "99", "-o", "{}/x.json"),
            "azure.csv: --from, --to: no request of",
        ),
        (
            ("slice", "{}/azure.csv", "--from", "nan", "-o", "{}/x.json"),
            "'--from': expected a number, got nan",
        ),
    ],
)
def test_what_cannot_be_is_told_in_one_line(run, files, line, message):
    code, out, err = run("trace", *(word.format(files) for word in line))
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert message in err


@pytest.mark.parametrize("command", ["info", "hits"])
def test_a_file_that_does_not_tell_contents_is_not_said_to_share_none(run, files, command):
    _, out, _ = run("trace", command, str(files / "azure.csv"))
    assert "or the file does not tell, as those without hash ids" in out
    _, out, _ = run("trace", command, str(files / "mooncake.jsonl"))
    assert "the file does not tell" not in out


def test_one_request_is_one(run, files):
    _, out, _ = run("trace", "info", str(files / "native.json"), "--set", "limit=1")
    assert out.startswith("native.json: 1 request\n")


def test_requests_shorter_than_a_block_have_nothing_to_find(run, files):
    code, out, _ = run("trace", "hits", str(files / "native.json"), "--block-size", "4096")
    assert code == 0
    assert "There is nothing to find" in out
    code, out, _ = run(
        "trace", "info", str(files / "native.json"), "--block-size", "4096", "--json"
    )
    assert json.loads(out)["reuse"]["full_blocks"] == 0


def test_what_takes_long_is_told_and_what_does_not_is_not(monkeypatch):
    lines = []
    monkeypatch.setattr(progress, "echo", lambda line, err: lines.append(line))
    with progress.waiting("counting"):
        pass
    assert lines == []
    monkeypatch.setattr(progress, "SILENT", 0.0)
    monkeypatch.setattr(progress, "LINE_EVERY", 0.0)
    with progress.waiting("counting"):
        while len(lines) < 2:
            sleep(0.001)
    assert lines[0] == "counting ..."
    assert lines[1] == "counting: 0.0 s so far"


@pytest.mark.parametrize("folder", [".", "..", "/"])
def test_a_folder_is_no_trace(run, folder):
    code, _, err = run("trace", "info", folder)
    assert (code, err) == (2, f"kvsweep: {folder}: cannot read: Is a directory\n")


def test_many_clients_are_told_in_a_line_that_can_be_read(run, files):
    rows = [f"{i},5,2,c{i % 300 if i % 2 else 1}\n" for i in range(1000)]
    path = files / "many.csv"
    path.write_text(f"arrival_s,prompt_tokens,output_tokens,client\n{''.join(rows)}")
    line = run("trace", "info", str(path))[1].splitlines()[-1]
    assert line.startswith("clients   c1 504, ")
    assert line.endswith(" others 452")
    assert len(line) < 200


def test_the_most_blocks_are_named(run, files):
    line = ("trace", "hits", str(files / "azure.csv"), "--blocks", "9" * 15)
    assert f"--blocks: {'9' * 15}; allowed: 1 to " in run(*line)[2]


@pytest.mark.parametrize(("clients", "others"), [(13, ""), (14, "2 others 2")])
def test_a_single_further_client_is_named(run, files, clients, others):
    rows = "".join(f"{i},5,2,c{i}\n" for i in range(clients))
    (files / "clients.csv").write_text(f"arrival_s,prompt_tokens,output_tokens,client\n{rows}")
    line = run("trace", "info", str(files / "clients.csv"))[1].splitlines()[-1]
    assert line.endswith(others or "c12 1")


def test_a_name_that_is_not_in_utf_8_is_read(run, files):
    path = Path(os.fsdecode(os.fsencode(files) + b"/caf\xe9.csv"))
    path.write_text(AZURE)
    assert run("trace", "info", str(path))[0] == 0


def test_the_rate_of_a_trace_that_begins_late_is_counted_in_bins_of_its_own_length(run, files):
    rows = [
        {"timestamp": 3_000_000 + 500 * i, "input_length": 5, "output_length": 2} for i in range(9)
    ]
    text = "".join(json.dumps(row | {"hash_ids": [i]}) + "\n" for i, row in enumerate(rows))
    (files / "late.jsonl").write_text(text)
    out = run("trace", "info", str(files / "late.jsonl"))[1]
    assert "arrivals  2 requests/s in the busiest 1 s, 2 in the calmest" in out
    found = json.loads(run("trace", "info", str(files / "late.jsonl"), "--json")[1])["arrivals"]
    assert (found["bins_from_s"], found["bin_s"]) == (3000, 1)
    assert found["bin_requests"] == [2, 2, 2, 2, 1]


def test_netcdf_holds_more_tokens_than_32_bits(run, files):
    rows = "".join(f"{i},16000000,1\n" for i in range(200))
    (files / "huge.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    wanted = ("--block-size", "16000", "--blocks", f"1000,{2**27}")
    line = ("trace", "hits", str(files / "huge.csv"), *wanted, "-o", str(files / "huge.nc"))
    assert run(*line)[0] == 0
    with xr.open_dataset(files / "huge.nc") as ds:
        assert ds.attrs["prompt_tokens"] == 3_200_000_000
        assert ds["tokens"].values.tolist() == [16_000_000, 2**27 * 16_000]


def test_too_many_blocks_are_told_by_the_option_that_makes_them_fewer(run, files):
    rows = "".join(f"{i},16000000,1\n" for i in range(20))
    (files / "huge.csv").write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}")
    line = ("trace", "info", str(files / "huge.csv"), "--block-size")
    assert f"{files}/huge.csv: --block-size: the request list fills 320,000," in run(*line, "1")[2]
    assert run(*line, "100000")[0] == 0


def test_what_comes_before_the_first_cells_is_told_until_they_come(monkeypatch):
    lines = []
    monkeypatch.setattr(progress, "echo", lambda line, err: lines.append(line))
    monkeypatch.setattr(progress, "SILENT", 0.0)
    for end in (lambda shown: shown(0, 5), lambda shown: shown.notify("compiling")):
        with progress.Display(first="planning") as display:
            while not lines:
                sleep(0.001)
            end(display)
            told = list(lines)
            sleep(0.01)
            assert lines == told
        assert lines[0] == "planning ..."
        lines.clear()


def test_requests_that_are_left_out_are_told(run, tmp_path):
    path, out = str(tmp_path / "log.csv"), str(tmp_path / "a.json")
    rows = "0,50,0\n1,50,5\n2,,5\n3,50,5\n"
    Path(path).write_text(f"arrival_s,prompt_tokens,output_tokens\n{rows}", encoding="utf-8")
    told = "Without 2 requests of the file, which failed, or were of a warm-up or of subagents"
    for command in (("info", path), ("hits", path), ("convert", path, "-o", out)):
        asked = ("trace", *command, "--read", "failed=leave-out")
        assert f"\n{told}" in run(*asked)[1]
        again = ("--overwrite",) if "-o" in command else ()
        assert json.loads(run(*asked, *again, "--json")[1])["left_out"] == 2
    assert "Without" not in run("trace", "info", out)[1]
    server = ("--set", "latency.model=llama-3.1-8b/h100/tp2", "--set", "cache.gpu_blocks=99")
    assert told in run("replay", path, *server, "--read", "failed=leave-out")[1]
    assert "Without" not in run("replay", out, *server)[1]


def test_numbers_of_blocks_that_are_given_twice_count_together(run, files):
    """The first list was lost without a word."""
    line = ("trace", "hits", str(files / "mooncake.jsonl"), "--block-size", "512", "--json")
    code, out, _ = run(*line, "--blocks", "3,4", "--blocks", "9")
    assert (code, json.loads(out)["capacities"]["blocks"]) == (0, [3, 4, 9])
    code, _, err = run(*line, "--blocks", "")
    assert (code, "expected numbers as in 1000,2000" in err) == (2, True)


def test_hits_of_a_window_are_not_those_of_full_attention(run, files):
    """Mistral-7B keeps of 300 blocks what its window of 4,096 tokens needs: told were all hits."""
    code, out, err = run("trace", "hits", f"{files}/azure.csv", "--model", "mistral-7b")
    assert (code, out) == (2, "")
    assert "--model: mistral-7b has a sliding window in all layers, which keeps other" in err
