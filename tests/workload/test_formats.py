"""Files of other tools: what is read of them, how they are told apart, what is refused and how."""

import csv
import gzip
import json
from datetime import datetime
from typing import get_args

import numpy as np
import pytest

from kvsweep.config.read_options import parse_reading
from kvsweep.config.trace_reading import Columns, Format, Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_TIME_US, MAX_TOKENS
from kvsweep.workload import columns, csv_columns, formats
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.cells import date_cells, since_1970
from kvsweep.workload.traces import load_trace
from workload import exports
from workload.exports import rows_of

ROWS = rows_of()
MEASURED = {
    "vllm-bench": exports.bench(ROWS),
    "aiperf": exports.aiperf(ROWS),
    "inference-perf": exports.inference_perf(ROWS),
    "inference-perf, early": exports.inference_perf(ROWS, early=True),
    "csv": exports.table(ROWS),
    "jsonl": exports.json_lines(ROWS),
}
OTHERS = {"burstgpt": exports.burstgpt(ROWS), "qwen-bailian": exports.qwen(ROWS)}


def write(tmp_path, content, name="t.txt"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def load(path, *read):
    return load_trace(path, parse_reading(read))


def refused(path, *read):
    """Return what the reader says against a file, without the file's name."""
    with pytest.raises(InputError) as caught:
        load(path, *read)
    told = str(caught.value)
    assert told.startswith(str(path))
    assert told.isprintable()
    return told.removeprefix(str(path))


def check_measured(trace):
    requests = trace.requests
    start = ROWS[0]["arrival"]
    expected = [round(1e6 * (row["arrival"] - start)) for row in ROWS]
    assert requests.arrival_us.tolist() == expected
    assert requests.prompt_tokens.tolist() == [row["prompt"] for row in ROWS]
    assert requests.output_tokens.tolist() == [row["output"] for row in ROWS]
    assert not resolve_blocks(requests, 16).reusable.any()
    times = trace.expected["measured_us"]
    for key, token in (("first_token_ts", "first"), ("last_token_ts", "last")):
        real = [1e6 * (row["arrival"] - start + row[token]) for row in ROWS]
        np.testing.assert_allclose(times[key], real, atol=0.01)


@pytest.mark.parametrize("name", MEASURED)
def test_results_become_requests_with_their_measured_times(tmp_path, name):
    check_measured(load(write(tmp_path, MEASURED[name])))


@pytest.mark.parametrize("name", MEASURED)
def test_the_format_may_be_said(tmp_path, name):
    check_measured(load(write(tmp_path, MEASURED[name]), f"format={name.split(',')[0]}"))


@pytest.mark.parametrize("name", [*MEASURED, *OTHERS])
def test_marks_line_ends_blank_lines_and_gzip_change_nothing(tmp_path, name):
    text = (MEASURED | OTHERS)[name]
    plain = load(write(tmp_path, text)).requests
    crlf = text.replace("\n", "\r\n")
    for other in ("\ufeff" + text, crlf, text + "\n\n", "\n" + text, gzip.compress(text.encode())):
        found = load(write(tmp_path, other)).requests
        assert found.arrival_us.tolist() == plain.arrival_us.tolist()
        assert found.segment_tokens.tolist() == plain.segment_tokens.tolist()


def test_burstgpt_counts_seconds_and_names_models(tmp_path):
    trace = load(write(tmp_path, OTHERS["burstgpt"]))
    seconds = [round(row["arrival"]) for row in ROWS]
    assert trace.requests.arrival_us.tolist() == [10**6 * (s - seconds[0]) for s in seconds]
    assert trace.requests.client_names == ("ChatGPT", "GPT-4")
    assert trace.requests.client.tolist() == [0, 1] * 4
    assert trace.expected is None
    assert "no times" in trace.unmeasured


def test_qwen_bailians_lines_count_seconds_and_blocks_of_16_tokens(tmp_path):
    requests = load(write(tmp_path, OTHERS["qwen-bailian"])).requests
    assert requests.arrival_us.tolist() == [round(1e6 * row["arrival"]) for row in ROWS]
    assert requests.prompt_tokens.tolist() == [row["prompt"] for row in ROWS]
    longest = max(row["prompt"] for row in ROWS)
    shared = resolve_blocks(requests, 16).reusable
    # All prompts begin alike, so the longest one shares what the second longest has.
    assert shared.max() == sorted(row["prompt"] for row in ROWS)[-2] // 16
    assert requests.segment_tokens.max() == 16
    assert requests.segment_ids.max() == -(-longest // 16) - 1


MOONCAKE = '{"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [0, 1, 2]}\n'


def test_mooncakes_keys_may_have_other_blocks_and_units(tmp_path):
    path = write(tmp_path, MOONCAKE)
    told = "3 ids for 600 tokens, expected 2, one for each block of 512 tokens"
    assert refused(path) == f":1: hash_ids: {told}; read.block_size = 256 fits"
    requests = load(path, "block_size=256", "time_unit=s").requests
    assert requests.segment_tokens.tolist() == [256, 256, 88]
    assert requests.arrival_us.tolist() == [5_000_000]


def test_ids_of_full_blocks_only_leave_the_rest_of_a_prompt_its_own(tmp_path):
    path = write(tmp_path, MOONCAKE.replace("[0, 1, 2]", "[7]") + MOONCAKE.replace("0, 1, 2", "7"))
    assert refused(path).endswith("; read.partial_block = 'without-id' fits")
    requests = load(path, "partial_block=without-id").requests
    assert requests.segment_tokens.tolist() == [512, 88, 512, 88]
    assert resolve_blocks(requests, 8).reusable.tolist() == [64, 64]
    none = MOONCAKE.replace("600", "100").replace("[0, 1, 2]", "[]")
    alone = load(write(tmp_path, none), "partial_block=without-id").requests
    assert alone.segment_tokens.tolist() == [100]


def test_a_shared_prefix_is_cached(tmp_path):
    path = write(tmp_path, MEASURED["aiperf"])
    requests = load(path, "shared_prefix=16").requests
    assert requests.prompt_tokens.tolist() == [row["prompt"] for row in ROWS]
    assert (resolve_blocks(requests, 16).reusable == 1).all()
    least = min(row["prompt"] for row in ROWS)
    assert f"a prompt of {least} tokens cannot begin" in refused(path, f"shared_prefix={least}")


def test_requests_at_once_have_no_measured_times(tmp_path):
    trace = load(write(tmp_path, MEASURED["csv"]), "arrivals=at-once")
    assert not trace.requests.arrival_us.any()
    assert trace.expected is None
    assert "at-once" in trace.unmeasured


FAILED = {
    "vllm-bench": exports.bench(
        ROWS, output_lens=[0, *(row["output"] for row in ROWS[1:])], errors=["gone"] + [""] * 7
    ),
    "vllm-bench, without text": exports.bench(
        ROWS, output_lens=[0, *(row["output"] for row in ROWS[1:])], errors="absent"
    ),
    "aiperf": MEASURED["aiperf"].replace('"error": null', '"error": {"code": 499}', 1),
    "aiperf, cancelled": MEASURED["aiperf"].replace(
        '"was_cancelled": false', '"was_cancelled": true', 1
    ),
    "inference-perf": MEASURED["inference-perf"].replace(
        '"error": null', '"error": {"error_type": "x", "error_msg": "y"}', 1
    ),
    "csv": MEASURED["csv"].replace(f",{ROWS[0]['output']},", ",0,", 1),
    "burstgpt": exports.burstgpt(ROWS).replace(f",{ROWS[0]['output']},", ",0,", 1),
    "qwen-bailian": exports.qwen(ROWS).replace(
        f'"output_length": {ROWS[0]["output"]},', '"output_length": 0,', 1
    ),
    "azure": exports.azure([ROWS[0] | {"output": 0}, *ROWS[1:]]),
    "azure, no prompt": exports.azure([ROWS[0] | {"output": 0, "prompt": 0}, *ROWS[1:]]),
}


@pytest.mark.parametrize("name", FAILED)
def test_failed_requests_are_refused_or_left_out_but_not_lost(tmp_path, name):
    path = write(tmp_path, FAILED[name])
    assert refused(path).endswith("read.failed = 'leave-out' leaves such requests out")
    requests = load(path, "failed=leave-out").requests
    assert requests.prompt_tokens.tolist() == [row["prompt"] for row in ROWS[1:]]


@pytest.mark.parametrize("column", range(5))
@pytest.mark.parametrize("nothing", ["", " ", "nan", "NaN", "-1", "-1.0", "None", "N/A"])
@pytest.mark.parametrize("row", [0, 1])
def test_rows_that_lack_a_number_are_left_out_as_failed(tmp_path, column, nothing, row):
    """Logs write so what a failed request has none of: only 0 output tokens was one."""
    lines = [line.split(",") for line in MEASURED["csv"].strip().split("\n")]
    lines[1 + row][column] = nothing
    path = write(tmp_path, "\n".join(map(",".join, lines)))
    told = refused(path)
    assert told.startswith(f":{2 + row}: {lines[0][column]}: expected ")
    assert told.endswith("failed: read.failed = 'leave-out' leaves such requests out")
    found = load(path, "failed=leave-out").requests
    assert found.prompt_tokens.tolist() == [r["prompt"] for i, r in enumerate(ROWS) if i != row]


def test_what_is_malformed_is_no_failed_request(tmp_path):
    text = "arrival_s,prompt_tokens,output_tokens\n1,5,2\n2,5,\n3,5,x\n"
    for read in ((), ("failed=leave-out",)):
        assert refused(write(tmp_path, text), *read).endswith("got 'x'")
    text = "arrival_s,prompt_tokens,output_tokens\n,,\n2.5,5.0,2.0\n.5,6.0,1.0\n"
    requests = load(write(tmp_path, text), "failed=leave-out").requests
    assert requests.arrival_us.tolist() == [0, 2_000_000]
    assert requests.prompt_tokens.tolist() == [6, 5]
    nothing = "arrival_s,prompt_tokens,output_tokens\n,,\n"
    left = ": no requests but failed ones, which read.failed = 'leave-out' leaves out"
    assert refused(write(tmp_path, nothing), "failed=leave-out") == left


def test_a_column_that_is_not_read_may_hold_long_texts(tmp_path):
    """The limit of Python's reader was taken for a malformed file."""
    usual = csv.field_size_limit()
    text = 'arrival_s,prompt_tokens,output_tokens,text\n1,5,2,"{}"\n2,6,3,x\n'
    requests = load(write(tmp_path, text.format("so, " * 10**5))).requests
    assert requests.prompt_tokens.tolist() == [5, 6]
    assert refused(write(tmp_path, text.format("a" * 200_000 + '"b'))).startswith(":2: malformed")
    assert csv.field_size_limit() == usual


def test_remedies_of_a_result_without_times_work_where_they_are_offered(tmp_path):
    """'even' was offered for the rate 'inf', and neither helps who calibrates."""
    path = write(tmp_path, exports.bench(ROWS, start_times="absent"))
    assert "to calibrate, run it with a newer one; else read.arrivals = 'even' (at" in refused(path)
    path = write(tmp_path, exports.bench(ROWS, start_times="absent", request_rate="inf"))
    assert "; else read.arrivals = 'at-once' (at time 0, of which wor" in refused(path)
    assert "got 'inf': read.arrivals = 'at-once' (at" in refused(path, "arrivals=even")
    load(path, "arrivals=at-once")


@pytest.mark.parametrize("name", ["csv", "burstgpt"])
def test_blanks_around_names_in_cells_change_nothing(tmp_path, name):
    """Numbers and headers lost theirs; classes such as ' critical' were other classes."""
    heads = {
        "csv": "arrival_s,client,prompt_tokens,output_tokens\n",
        "burstgpt": "Timestamp,Model,Request tokens,Response tokens\n",
    }
    text = heads[name] + "1, a ,5,2\n2,a,6,3\n3,  ,7,3\n"
    requests = load(write(tmp_path, text)).requests
    assert (requests.client_names, requests.client.tolist()) == (("a",), [0, 0, -1])


AZURE_ROW = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04,3,8\n"
OWN_HEAD = "arrival,prompt_tokens,output_tokens"


@pytest.mark.parametrize(
    ("content", "read", "message"),
    [
        (AZURE_ROW, "columns.arrival=TIMESTAMP", ": no column prompt_tokens: read.columns.prompt"),
        (f"{OWN_HEAD}\n04/01/2026 12:00,5,6\n", "", "12:00'; dates are written as 2023-11-16 18:1"),
        (f"{OWN_HEAD}\r1,5,6\r2,5,6\r", "", "its lines end in carriage returns (CR) alone; `tr "),
        ('{"a": [1]}', "format=csv", ":1: read.format: 'csv' is CSV, and this is JSON"),
        ("[[1,20]]", "format=azure", ":1: read.format: 'azure' is CSV, and this is JSON"),
        (AZURE_ROW, "format=vllm-bench", ":1: read.format: 'vllm-bench' is JSON, got 'TIMESTAMP,"),
        ("arrival_s,prompt_tokens,output_tokens,latency\n1,5,6,7\n", "",
         "'ns' says it; read.columns.latency = '' reads no such column"),
        (f"{OWN_HEAD},ttft_s\n1,5,6,0\n", "time_unit=s", "; read.columns.ttft = '' reads no such"),
        (f"{OWN_HEAD},ttft_s\n1,5,6,1\n1,5,6,x", "time_unit=s", "read.columns.ttft = '' reads no"),
        ('{"timestamp": 1759813207532, "input_length": 9, "output_length": 2, "hash_ids": [0]}', "",
         "got 1759813207532; times count from the begin of the trace: subtract the first one"),
    ],
)  # fmt: skip
def test_what_is_said_helps(tmp_path, content, read, message):
    assert message in refused(write(tmp_path, content), *filter(None, [read]))


def test_aiperfs_warmup_is_left_out(tmp_path):
    warm = exports.aiperf(ROWS, clock=5, phase="warmup")
    check_measured(load(write(tmp_path, f"{warm}\n{MEASURED['aiperf']}")))


def test_units_of_aiperf_are_read_not_assumed(tmp_path):
    lines = [exports.aiperf_line(i, row) for i, row in enumerate(ROWS)]
    for line in lines:
        ttft = line["metrics"]["time_to_first_token"]
        ttft |= {"value": 1000 * ttft["value"], "unit": "us"}
    check_measured(load(write(tmp_path, "\n".join(map(json.dumps, lines)))))


def test_without_streaming_there_is_nothing_to_calibrate_to(tmp_path):
    lines = [exports.aiperf_line(i, row) for i, row in enumerate(ROWS)]
    del lines[2]["metrics"]["time_to_first_token"]
    trace = load(write(tmp_path, "\n".join(map(json.dumps, lines))))
    assert trace.expected is None
    assert trace.unmeasured.startswith("line 3 has no time_to_first_token")
    entries = json.loads(MEASURED["inference-perf"])
    entries[1]["info"]["response_metrics"] = {"output_tokens": 4}
    trace = load(write(tmp_path, json.dumps(entries)))
    assert trace.unmeasured.startswith("request [1] has no output_token_times")


def test_what_aiperf_writes_besides_is_no_misspelling(tmp_path):
    lines = [exports.aiperf_line(i, row) for i, row in enumerate(ROWS)]
    for line in lines:
        for key in ("x_request_id", "benchmark_phase", "was_cancelled"):
            del line["metadata"][key]
        line["metrics"]["time_to_second_token"] = line["metrics"].pop("time_to_first_token")
        del line["metrics"]["output_sequence_length"]
    requests = load(write(tmp_path, "\n".join(map(json.dumps, lines)))).requests
    assert requests.output_tokens.tolist() == [row["output"] for row in ROWS]


def test_keys_are_compared_once_for_all_lines_that_have_the_same(tmp_path, monkeypatch):
    lines = [exports.aiperf_line(i, row) for i, row in enumerate(ROWS)]
    for line in lines:
        del line["metadata"]["x_request_id"]
        line["metadata"]["of_this_test"] = 1
    compared = []
    monkeypatch.setattr("difflib.get_close_matches", lambda key, *_, **__: compared.append(key))
    load(write(tmp_path, "\n".join(map(json.dumps, lines))))
    assert compared.count("of_this_test") == 1


def test_counts_of_the_server_go_before_those_of_the_client(tmp_path):
    entries = json.loads(MEASURED["inference-perf"])
    usage = {"prompt_tokens": 777, "completion_tokens": 55}
    entries[0]["info"]["response_metrics"]["server_usage"] = usage
    requests = load(write(tmp_path, json.dumps(entries))).requests
    assert (requests.prompt_tokens[0], requests.output_tokens[0]) == (777, 55)


@pytest.mark.parametrize(
    ("times", "message"),
    [
        ((100.5, 100.2, 100.9), "[1]: 100.2 is before info.output_token_times[0], 100.5"),
        ((100.5, 101.0, 101.5), ": up to 101.5, which is after end_time, 101.25"),
        ((100.0, 101.0), ": from 100.0 on, which is not after start_time, 100"),
        ((100.5, "x", 101.0), "[1]: expected a time in seconds, at least 0, got 'x'"),
    ],
)
def test_times_of_tokens_that_contradict_each_other_are_refused(tmp_path, times, message):
    entry = exports.inference_perf_entry(ROWS[0])
    entry |= {"start_time": 100, "end_time": 101.25}
    entry["info"]["response_metrics"]["output_token_times"] = times
    told = refused(write(tmp_path, json.dumps([entry])))
    assert told == f": [0]: info.output_token_times{message}"


def test_results_without_times_of_sending_ask_what_to_assume(tmp_path):
    path = write(tmp_path, exports.bench(ROWS, start_times="absent"))
    assert refused(path).startswith(": missing 'start_times', which older releases do not save")
    even = load(path, "arrivals=even")
    assert even.requests.arrival_us.tolist() == [250_000 * i for i in range(8)]
    assert even.expected is None
    assert not load(path, "arrivals=at-once").requests.arrival_us.any()
    path = write(tmp_path, exports.bench(ROWS, start_times="absent", request_rate="inf"))
    assert "needs a number of requests per second, got 'inf'" in refused(path, "arrivals=even")


def test_of_several_runs_one_is_asked_for(tmp_path):
    path = write(tmp_path, f"{exports.bench(ROWS[:3])}\n{MEASURED['vllm-bench']}\n")
    assert refused(path) == ": holds 2 runs: read.run = 0 to 1"
    check_measured(load(path, "run=1"))
    assert len(load(path, "run=0").requests) == 3
    assert refused(path, "run=2") == ": read.run: 2, of 2 runs, counted from 0"


def columns_of(**changes):
    text = MEASURED["csv"]
    for old, new in changes.items():
        text = text.replace(old, new, 1)
    return text


def test_columns_of_any_names_are_named(tmp_path):
    text = columns_of(arrival_s="ts", prompt_tokens="in", output_tokens="out", ttft_ms="t1")
    path = write(tmp_path, text.replace("latency_ms", "t2"))
    told = (
        "not a trace: a CSV trace needs the columns TIMESTAMP, ContextTokens, GeneratedTokens; its"
    )
    assert refused(path).startswith(f": {told}")
    names = ["columns.arrival=ts", "columns.prompt=in", "columns.output=out"]
    assert refused(path, *names) == (
        ": column 'ts': unit unknown: read.time_unit = 's', 'ms', 'us' or 'ns' says it"
    )
    times = ["columns.ttft=t1", "columns.latency=t2"]
    trace = load(path, *names, *times, "time_unit=ms")
    assert trace.requests.output_tokens.tolist() == [row["output"] for row in ROWS]
    last = 1000 * (ROWS[-1]["arrival"] - ROWS[0]["arrival"])
    assert trace.requests.arrival_us[-1] == round(last)
    assert load(path, *names, "time_unit=ms").unmeasured.startswith("no column for first_token or")


@pytest.mark.parametrize(
    "unit", ["_ms", "_MS", " (ms)", "[ms]", " ( Ms )", "(\u00b5s)", "[\u03bcs]"]
)
def test_units_at_the_end_of_names_are_understood(tmp_path, unit):
    factor = 1 if "m" in unit.lower() else 1000
    text = f"start,prompt_tokens,output_tokens,TTFT{unit},E2E{unit}\n"
    text += f"0.5,5,2,{50 * factor},{80 * factor}\n"
    names = [f"columns.ttft=TTFT{unit}", f"columns.latency=E2E{unit}", "columns.arrival=start"]
    times = load(write(tmp_path, text), *names, "time_unit=s").expected["measured_us"]
    assert (times["first_token_ts"], times["last_token_ts"]) == ([50_000], [80_000])


def test_columns_may_be_named_with_the_blanks_around_them(tmp_path):
    path = write(tmp_path, MEASURED["csv"].replace("arrival_s", " start_s ", 1))
    for name in ("start_s", " start_s "):
        read = Reading(columns=Columns(arrival=name))
        assert len(load_trace(path, read).requests) == len(ROWS)


def test_a_unit_that_all_names_contradict_is_refused(tmp_path):
    path = write(tmp_path, MEASURED["csv"])
    told = (
        ": read.time_unit: 'us' has no effect: all names end in a unit, 'arrival_s' in s; leave it "
        "out, or rename the column if its name is wrong"
    )
    assert refused(path, "time_unit=us") == told
    text = "arrival_s,prompt_tokens,output_tokens\n0,1,2\n"
    assert len(load(write(tmp_path, text), "time_unit=s").requests) == 1


def test_times_on_the_clock_and_dates_are_read(tmp_path):
    lines = ["arrival,prompt_tokens,output_tokens,first_token,last_token,client,slo_class"]
    for second in (7, 3):
        clock = f"2026-04-01T00:00:{second:02}"
        lines.append(f"{clock},5,2,{clock}.25,{clock}.750000,a,batch")
    trace = load(write(tmp_path, "\n".join(lines)))
    assert trace.requests.arrival_us.tolist() == [0, 4_000_000]
    assert trace.expected["measured_us"]["first_token_ts"] == [250_000, 4_250_000]
    assert trace.expected["measured_us"]["last_token_ts"] == [750_000, 4_750_000]
    assert (trace.requests.client_names, trace.requests.slo_names) == (("a",), ("batch",))


def test_nanoseconds_since_1970_keep_their_microseconds(tmp_path):
    start = 1_759_813_207_532_900_363
    text = f"arrival_ns,prompt_tokens,output_tokens\n{start},5,2\n{start + 1_000_001_600},5,2\n"
    assert load(write(tmp_path, text)).requests.arrival_us.tolist() == [0, 1_000_002]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (
            "7,5,2,2026-04-01",
            "first_token: expected a number on the clock of arrival, got '2026-04",
        ),
        ("7,5,2,x", "first_token: expected a time, at least 0, got 'x'"),
        ("x,5,2,8", "arrival: expected a time, at least 0, got 'x'"),
        (
            "2026-04-01,5,2,8",
            "first_token: expected a time as 2023-11-16 18:17:03.9799600, got '8'",
        ),
    ],
)
def test_times_that_no_unit_makes_sense_of_are_not_asked_for_one(tmp_path, row, message):
    path = write(tmp_path, f"arrival,prompt_tokens,output_tokens,first_token\n{row}\n")
    assert refused(path).startswith(f":2: {message}")
    path = write(tmp_path, "arrival_s,prompt_tokens,output_tokens,ttft\n7,5,2,2026-04-01\n")
    told = ":2: ttft: expected a time, at least 0, got '2026-04-01'; "
    assert refused(path) == f"{told}read.columns.ttft = '' reads no such column"


@pytest.mark.parametrize("name", ["csv", "burstgpt"])
def test_blanks_around_the_names_of_columns_change_nothing(tmp_path, name):
    head, rows = (MEASURED | OTHERS)[name].split("\n", 1)
    spaced = "\n".join([head.replace(",", " , "), rows])
    plain, found = (load(write(tmp_path, text)).requests for text in (head + "\n" + rows, spaced))
    assert found.prompt_tokens.tolist() == plain.prompt_tokens.tolist()
    twice = spaced.replace(head.split(",")[-1], head.split(",")[0], 1)
    assert refused(write(tmp_path, twice)).startswith(":1: duplicate column")


@pytest.mark.parametrize(
    ("mark", "words"), [(";", "semicolons"), ("\t", "tabs"), ("|", "bars"), (" ;", "semicolons")]
)
def test_other_separators_than_commas_are_named(tmp_path, mark, words):
    path = write(tmp_path, "\n" + MEASURED["csv"].replace(",", mark))
    for read in ((), ("format=csv",), ("columns.arrival=arrival_s",)):
        told = refused(path, *read)
        assert told.startswith(f":2: not a trace: {words} between the names of its columns, 'arr")
        assert told.endswith("; a CSV trace has commas")


@pytest.mark.parametrize("comment", ["# my log", "# my log, of today"])
def test_a_comment_before_the_header_is_named(tmp_path, comment):
    told = refused(write(tmp_path, f"{comment}\n{MEASURED['csv']}"))
    assert told.startswith(
        ":1: not a trace: a CSV trace begins with the names of its columns, not "
    )
    assert f" with a comment, {comment!r}; expected " in told


@pytest.mark.parametrize("name", ["qwen-bailian", "aiperf"])
def test_a_line_alone_is_told_by_its_number(tmp_path, name):
    line = (MEASURED | OTHERS)[name].split("\n")[0]
    for wrong, message in (
        ('{"x": NaN, ', "x: NaN is no number"),
        ('{"x": 1, "x": 2, ', "duplica"),
    ):
        for text in ("\n" + line.replace("{", wrong, 1), "\n" + line.replace("{", wrong, 1) + "\n"):
            assert refused(write(tmp_path, text)).startswith(f":2: {message}")


MALFORMED = [
    ("vllm-bench", '"ttfts": [', '"ttfts": [1.0, ', ": ttfts: expected a list of 8 values, as in"),
    ("vllm-bench", '"ttfts": [', '"ttfts": 3, "x": [', ": ttfts: expected a list of 8 values, as"),
    ("vllm-bench", '"itls": [[', '"itls": [5, [', ": itls: expected a list of 8 values, as input"),
    ("vllm-bench", '"itls": [[', '"itls": [[NaN, ', ": itls[0][0]: NaN is no number of JSON"),
    ("vllm-bench", '"itls": [[', '"itls": [[-1, ', ": itls[0][0]: expected seconds from 0 to 1000"),
    (
        "vllm-bench",
        '"itls": [[',
        '"itls": [[true, ',
        ": itls[0][0]: expected seconds from 0 to 100",
    ),
    (
        "vllm-bench",
        "[98766.328125",
        "[-1",
        ": start_times[0]: expected a time in seconds, at least 0",
    ),
    (
        "vllm-bench",
        "[98766.328125",
        '["x"',
        ": start_times[0]: expected a time in seconds, at least 0",
    ),
    ("vllm-bench", '"ttfts"', '"ttft"', ": missing 'ttfts': run `vllm bench serve` with --save-r"),
    ("vllm-bench", '"errors": [""', '"errors": [5', ": errors[0]: expected text, got 5"),
    ("aiperf", '"request_start_ns": 1', '"request_start_ns": 1.5, "x": 1', ":1: metadata.request"),
    ("aiperf", '"request_start_ns"', '"request_start"', ":1: request_start: unknown key; did you"),
    (
        "aiperf",
        '"benchmark_phase": "pro',
        '"benchmark_phase": "',
        ":1: metadata.benchmark_phase: '",
    ),
    ("aiperf", '"unit": "ms"', '"unit": "min"', ":1: metrics.time_to_first_token.unit: expected o"),
    ("aiperf", "request-1759813207532900363-1", "request-1759813207532900363-0", ":2: metadata.x"),
    ("aiperf", '"was_cancelled": false', '"was_cancelled": 0', ":1: metadata.was_cancelled: expe"),
    ("aiperf", '"error": null}\n', '"error": null}\n{"met\n', ":2: truncated or malformed JSON: U"),
    ("inference-perf", '"start_time"', '"start_tim"', ": [0]: start_tim: unknown key; did you me"),
    ("inference-perf", '"end_time": ', '"end_time": 0, "x": ', ": [0]: end_time: 0 is not after s"),
    ("inference-perf", '"output_token_times": [', '"output_token_times": [1, ', ": [0]: info.outp"),
    ("inference-perf", '"input_tokens": ', '"input_tokens": -', ": [0]: info.input_tokens: expect"),
    ("inference-perf", '"info": {', '"info": 5, "x": {', ": [0]: info: expected an object, got 5"),
    (
        "inference-perf",
        '"response_metrics": {',
        '"response_metrics": 5, "x": {',
        ": [0]: info.resp",
    ),
    ("inference-perf", "[{", "[5, {", ": not a trace: expected kvsweep-trace/1 (JSON), Moo"),
    ("inference-perf", "[{", "[{}, {", ": not a trace: it is a list of something else; written "),
    ("inference-perf", "}]", "}", ":1: truncated or malformed JSON: Expecting"),
    ("csv", "\n1.07", "\nnan", ":2: arrival_s: expected a time, at least 0, got 'nan8125'"),
    ("csv", "\n1.07", "\n1e999", ":2: arrival_s: expected a time, at least 0, got '1e9998125'"),
    ("csv", f",{ROWS[0]['prompt']},", ",-5,", ":2: prompt_tokens: expected an integer from 0 to 1"),
    ("csv", f",{ROWS[0]['prompt']},", ",1_0,", ":2: prompt_tokens: expected an integer from 0 to"),
    ("csv", f",{ROWS[0]['prompt']},", ",0,", ":2: 0 prompt tokens, at least 1 is needed"),
    ("csv", f",{ROWS[0]['prompt']},", f",{MAX_TOKENS + 1},", ":2: prompt_tokens: expected an int"),
    ("csv", f",{ROWS[0]['prompt']},", f",{'9' * 5000},", ":2: prompt_tokens: expected an integer"),
    ("csv", f",{ROWS[0]['prompt']},", ",,", ":2: prompt_tokens: expected an integer from 0 to 167"),
    ("csv", f",{ROWS[0]['prompt']},", ",", ":2: 4 fields, expected 5 as in the header"),
    ("csv", "ttft_ms", "x,ttft_ms", ":2: 5 fields, expected 6 as in the header"),
    ("csv", "ttft_ms", "ttft_ms,ttft_ms", ":1: duplicate column 'ttft_ms'"),
    ("csv", "latency_ms", "ttft_s", ": columns ttft_s and ttft_ms: read.columns.ttft = 'NAME' s"),
    ("csv", "latency_ms", "first_token_ms", ": columns first_token_ms and ttft_ms say the same: g"),
    ("csv", "arrival_s", "start_s", ": no column arrival: read.columns.arrival = 'NAME' says whi"),
    ("burstgpt", "\n6", "\n-6", ":2: Timestamp: expected a time, at least 0, got '-"),
    ("burstgpt", "\n6", "\n1e15", ":2: arrives more than 100000000000000 us after the fir"),
    ("burstgpt", "Response tokens", "Response", ":1: missing column Response tokens; did you mean"),
    ("burstgpt", ",GPT-4,", ",", ":3: 5 fields, expected 6 as in the header"),
]


@pytest.mark.parametrize(("name", "old", "new", "message"), MALFORMED)
def test_malformed_files_are_refused_by_place_and_key(tmp_path, name, old, new, message):
    text = (MEASURED | OTHERS)[name]
    assert old in text
    path = write(tmp_path, text.replace(old, new, 1))
    assert refused(path).startswith(message)


def test_lines_of_both_kinds_with_these_keys_are_asked_about(tmp_path):
    path = write(tmp_path, MOONCAKE.replace(", 2]", "]") + OTHERS["qwen-bailian"])
    assert refused(path).startswith(
        ":2: chat_id: a key of Qwen-Bailian's lines, of which the first"
    )


AMBIGUOUS = {
    "Azure's or BurstGPT's": "TIMESTAMP,ContextTokens,Request tokens\n1,2,3\n",
    "Mooncake's or aiperf's": '{"timestamp": 1, "input_length": 5, "metadata": {}, "metrics": {}}',
    "a result or a session": '{"ttfts": [], "itls": [], "id": "x", "block_size": 1, "requests": 1}',
}


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_could_be_two_formats_is_asked_about(tmp_path, name):
    told = refused(write(tmp_path, AMBIGUOUS[name]))
    assert " or " in told
    assert "read.format says which, as " in told


def test_a_key_that_the_format_does_not_use_is_refused(tmp_path):
    path = write(tmp_path, OTHERS["burstgpt"])
    told = ": read.block_size: not for the format 'burstgpt'; allowed: failed, arrivals, shared_p"
    assert refused(path, "block_size=16").startswith(told)
    told = ": read.arrivals: 'even' is for 'vllm-bench', which tells its rate"
    assert refused(path, "arrivals=even") == told
    azure = write(tmp_path, "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:04,3,8\n")
    assert refused(azure, "shared_prefix=2").endswith("allowed: failed")


@pytest.mark.parametrize("name", ["aiperf", "inference-perf", "vllm-bench", "weka", "mooncake"])
def test_a_wrong_format_is_refused_in_one_line(tmp_path, name):
    more = ["lanes=1"] if name == "weka" else []
    for text in (MEASURED["csv"], MEASURED["aiperf"], MEASURED["inference-perf"], "[]", "5"):
        if MEASURED.get(name) != text:
            refused(write(tmp_path, text), f"format={name}", *more)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("formt=csv",), "--read formt: unknown key; did you mean 'format'?"),
        (("format=excel",), "--read format: unknown value 'excel'; allowed: kvsweep, mooncake"),
        (("lanes=0",), "--read lanes: must be at least 1"),
        (("lanes",), "--read lanes: expected KEY=VALUE, as in format=csv"),
        (("lanes=1", "lanes=2"), "--read lanes: given twice; the last one would win"),
        (("columns.arival=x",), "--read columns.arival: unknown key; did you mean 'arrival'?"),
        (("run=1", "run.x=2"), "--read run.x: given twice; the last one would win"),
    ],
)
def test_options_of_reading_are_checked(options, message):
    with pytest.raises(InputError) as caught:
        parse_reading(options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", [*MEASURED, *OTHERS])
def test_more_requests_than_are_believed_are_refused(tmp_path, monkeypatch, name):
    monkeypatch.setattr(columns, "MAX_REQUESTS", 7)
    assert refused(write(tmp_path, (MEASURED | OTHERS)[name])).endswith("more than 7")


@pytest.mark.parametrize("name", ["csv", "burstgpt"])
@pytest.mark.parametrize("size", [1, 60, 10**6])
def test_tables_are_the_same_in_stretches_of_any_length(tmp_path, monkeypatch, name, size):
    text = (MEASURED | OTHERS)[name]
    plain = load(write(tmp_path, text)).requests
    monkeypatch.setattr(csv_columns, "_CHARACTERS", size)
    monkeypatch.setattr(csv_columns, "_ROWS", 2)
    first, second, *rest = text.splitlines()
    quoted = "\n".join([first, ",".join(f'"{cell}"' for cell in second.split(",")), *rest])
    spaced = "\n".join([first, "", second, *rest])
    for other in (text, text.rstrip("\n"), quoted, text + "\n", spaced):
        found = load(write(tmp_path, other)).requests
        assert found.arrival_us.tolist() == plain.arrival_us.tolist()
        assert found.client.tolist() == plain.client.tolist()


def test_a_bad_cell_is_told_by_its_line_after_blank_lines_and_many_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(csv_columns, "_CHARACTERS", 20)
    head = "arrival_s,prompt_tokens,output_tokens"
    text = "\n".join([head, "1,2,3", "2,2,3", "", "3,2,3", "4,2,x"])
    assert refused(write(tmp_path, text)).startswith(":6: output_tokens: expected an integer")
    assert refused(write(tmp_path, text.replace("x", "3,3"))).startswith(":6: 4 fields, expected 3")
    # A field too many and one too few are as many as there should be.
    even = text.replace("1,2,3", "1,2,3,3").replace("2,2,3", "2,2", 1)
    assert refused(write(tmp_path, even)).startswith(":2: 4 fields, expected 3")


def test_times_too_far_apart_name_both_requests(tmp_path):
    text = f"arrival_us,prompt_tokens,output_tokens\n{MAX_TIME_US + 8},1,1\n7,1,1\n"
    path = write(tmp_path, text)
    assert refused(path) == (
        f":2: arrives more than {MAX_TIME_US} us after the first request, {path}:3"
    )


def test_a_list_over_several_lines_is_no_csv(tmp_path):
    path = tmp_path / "k.json"
    path.write_text('[\n  {"a": 1}\n]\n')
    with pytest.raises(InputError, match="'csv' is CSV, and this is JSON"):
        load_trace(path, parse_reading(["format=csv"]))


HEADS = {
    "azure": "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,10,5.0\n",
    "burstgpt": "Timestamp,Request tokens,Response tokens\n3,10,5.0\n",
}


@pytest.mark.parametrize("cells", [",7", "NaN,7", "7,-1", ",,"])
@pytest.mark.parametrize("name", HEADS)
def test_rows_of_known_tables_that_lack_a_number_are_those_of_failed_requests(
    tmp_path, name, cells
):
    """As those of any other table, which pandas writes with 5.0 for 5 then."""
    row = (
        ",,\n" if cells == ",," else f"{'2023-11-16 18:17:04' if name == 'azure' else 4},{cells}\n"
    )
    path = write(tmp_path, HEADS[name] + row)
    told = refused(path)
    assert told.startswith(":3: ")
    assert told.endswith("read.failed = 'leave-out' leaves such requests out")
    kept = load(path, "failed=leave-out").requests
    assert (kept.prompt_tokens.tolist(), kept.output_tokens.tolist()) == ([10], [5])


def test_a_column_is_not_prompts_and_outputs_at_once(tmp_path):
    path = write(tmp_path, "arrival_s,in,output_tokens\n1,2,3\n")
    told = ": read.columns.prompt and output: 'output_tokens' cannot be both"
    assert refused(path, "columns.prompt=output_tokens") == told


def test_a_unit_beside_dates_is_refused(tmp_path):
    path = write(tmp_path, f"{OWN_HEAD}\n2024-05-01 10:00:00,5,6\n")
    assert "read.time_unit: 'ms' has no effect: no column of times holds" in refused(
        path, "time_unit=ms"
    )
    assert len(load(path).requests) == 1
    latencies = write(tmp_path, f"{OWN_HEAD},ttft,latency\n2024-05-01 10:00:00,5,6,7,9\n")
    assert load(latencies, "time_unit=ms").expected["measured_us"]


def test_what_failed_is_told_once(tmp_path):
    path = write(tmp_path, HEADS["azure"] + "2023-11-16 18:17:04,,0\n")
    told = "the request failed: read.failed = 'leave-out' leaves such requests out"
    assert refused(path) == f":3: GeneratedTokens: 0, {told}"


def test_dates_of_burstgpt_are_not_told_to_have_a_unit(tmp_path):
    """Its own unit is of numbers, and nobody gave it."""
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
    text = f"{head}\n2024-05-01 10:00:00,m,5,6,11,Log\n2024-05-01 10:00:02,m,7,6,13,Log\n"
    assert np.diff(load(write(tmp_path, text)).requests.arrival_us).tolist() == [2_000_000]


GATEWAY = [
    {"start": "2026-05-01T10:00:00.120Z", "model": "a", "usage": {"in": 120, "out": 30}},
    {"start": "2026-05-01T12:00:01.620+02:00", "model": "b", "usage": {"in": 1200, "out": 3}},
]
BROKEN = {"start": "2026-05-01T10:00:01.7Z", "model": "b", "usage": None, "error": "boom"}
ROLES = ("arrival", "prompt", "output")
KEYS = ("columns.arrival=start", "columns.prompt=usage.in", "columns.output=usage.out")


def json_lines(tmp_path, *items):
    return write(tmp_path, "".join(f"{json.dumps(item)}\n\n" for item in items))


def test_keys_within_objects_of_json_lines_are_named_with_dots(tmp_path):
    requests = load(json_lines(tmp_path, *GATEWAY), *KEYS, "columns.client=model").requests
    assert requests.arrival_us.tolist() == [0, 1_500_000]
    assert requests.prompt_tokens.tolist() == [120, 1200]
    assert requests.output_tokens.tolist() == [30, 3]
    assert [requests.client_names[i] for i in requests.client] == ["a", "b"]
    dotted = [{"start": 5, "usage.in": 7, "usage": {"in": 8, "out": 9}}]
    found = load(json_lines(tmp_path, *dotted), *KEYS, "time_unit=s").requests
    assert found.prompt_tokens.tolist() == [7]


def test_json_lines_without_a_count_are_requests_that_failed(tmp_path):
    path = json_lines(tmp_path, *GATEWAY, BROKEN)
    assert refused(path, *KEYS) == (
        ":5: usage.in: expected an integer from 0 to 16777216, got ''; if the request failed: "
        "read.failed = 'leave-out' leaves such requests out"
    )
    assert len(load(path, *KEYS, "failed=leave-out").requests) == 2


@pytest.mark.parametrize("value", ["x", True, [3], {"tokens": 3}, 1.5, -3, 2**63])
def test_what_is_no_count_in_json_lines_is_refused(tmp_path, value):
    path = json_lines(tmp_path, GATEWAY[0], GATEWAY[1] | {"usage": {"in": value, "out": 3}})
    assert refused(path, *KEYS).startswith(":3: usage.in: expected an integer from 0 to 16777216")


@pytest.mark.parametrize(
    ("items", "read", "told"),
    [
        (
            GATEWAY,
            (),
            ": not a trace: its lines are JSON objects of other keys than Mooncake's: st",
        ),
        (GATEWAY, ("format=jsonl",), ": no column arrival: read.columns.arrival = 'NAME' says"),
        (GATEWAY, (*KEYS[:2], "columns.output=usage.uot"), ": read.columns.output: no column 'us"),
        (GATEWAY, ("format=csv",), ":1: read.format: 'csv' is CSV, and this is JSON"),
        ([*GATEWAY, [1]], KEYS, ":5: expected an object, got a list"),
        ([GATEWAY[0] | {"start": "noon"}], KEYS, ":1: start: expected a time, at least 0, got 'n"),
        ([GATEWAY[0], GATEWAY[1] | {"start": 5}], KEYS, ":3: start: expected a time as 2023-11-16"),
        ([BROKEN], (*KEYS, "failed=leave-out"), ": read.columns.prompt: no column 'usage.in'"),
    ],
)
def test_json_lines_are_refused_by_line_and_key(tmp_path, items, read, told):
    assert refused(json_lines(tmp_path, *items), *read).startswith(told)


def test_keys_of_lines_that_could_be_mooncakes_are_named_with_the_format(tmp_path):
    line = {"timestamp": 3, "input_length": 5, "output_length": 2, "hash_ids": [1]}
    names = ("timestamp", "input_length", "output_length")
    keys = [f"columns.{role}={n}" for role, n in zip(ROLES, names, strict=True)]
    path = json_lines(tmp_path, line)
    assert "read.format = 'jsonl' reads lines of any keys" in refused(path, *keys)
    assert load(path, *keys, "format=jsonl", "time_unit=ms").requests.prompt_tokens == [5]


@pytest.mark.parametrize("zoned", [False, True])
def test_dates_of_many_rows_are_those_of_each_row(zoned):
    """Many are read at once, if all are written alike; odd ones one by one."""
    rng = np.random.default_rng(zoned)
    zones = ["Z", "+00:00", "+02:00", "-05:30"] if zoned else [""]
    for _ in range(200):
        chosen = zones[: rng.integers(1, len(zones) + 1)]
        cells = []
        for _ in range(5):
            time = f"20{rng.integers(10, 99)}-0{rng.integers(1, 10)}-{rng.integers(10, 29)}"
            time += f"{rng.choice(['T', ' '])}1{rng.integers(0, 10)}:02:{rng.integers(10, 60)}"
            digits = rng.integers(0, 10)
            fraction = "".join(map(str, rng.integers(0, 10, digits)))
            cells.append(f"{time}{'.' * bool(digits)}{fraction}{rng.choice(chosen)}")
        wanted = [since_1970(datetime.fromisoformat(cell)) for cell in cells]
        assert date_cells(cells, "t", str, zoned).tolist() == wanted
        zone, other = ("Z", "") if zoned else ("", "Z")
        for bad in ("", "noon", f"2024-02-30 10:00:00{zone}", f"2024-01-01 10:00:60{zone}"):
            with pytest.raises(InputError, match=r"^5: t: expected a time as"):
                date_cells([*cells, bad], "t", str, zoned)
        with pytest.raises(InputError, match=r"^5: t: times with and without a time zone"):
            date_cells([*cells, f"2024-01-01 10:00:00{other}"], "t", str, zoned)


def test_keys_that_only_late_lines_have_are_read(tmp_path):
    """Of the first thousand lines alone clients were known, so that later ones had none."""
    line = {"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 2}
    path = json_lines(tmp_path, *[line] * 1000, line | {"client": "late"})
    for read in ((), ("columns.client=client",)):
        requests = load(path, *read).requests
        assert requests.client_names == ("late",)
        assert requests.client.tolist() == [-1] * 1000 + [0]


def test_requests_at_once_are_in_the_order_in_which_they_were_sent(tmp_path):
    """A benchmark writes them as they are answered, and a limit to those under way sends them."""
    rows = [row | {"arrival": i / 64} for i, row in enumerate(ROWS)]
    lines = exports.aiperf(rows).splitlines()
    answered = sorted(range(len(rows)), key=lambda i: rows[i]["arrival"] + rows[i]["last"])
    assert answered != sorted(answered)
    path = write(tmp_path, "\n".join(lines[i] for i in answered))
    found = load(path, "arrivals=at-once").requests
    assert found.prompt_tokens.tolist() == [row["prompt"] for row in rows]
    assert not found.arrival_us.any()


def csv_of(tmp_path, *lines, names="arrival_s,prompt_tokens,output_tokens"):
    return write(tmp_path, "\n".join([names, *lines]) + "\n", "t.csv")


def test_times_are_rounded_to_the_nearest_microsecond(tmp_path):
    path = csv_of(tmp_path, "5,1,1", "5.0000016,1,1", "5.0000024,1,1")
    assert load(path).requests.arrival_us.tolist() == [0, 2, 2]
    line = {"timestamp": 0.0016, "input_length": 5, "output_length": 1, "hash_ids": [0]}
    assert load(write(tmp_path, json.dumps(line))).requests.arrival_us.tolist() == [2]


def test_the_largest_numbers_are_read_and_none_beyond(tmp_path):
    path = csv_of(tmp_path, f"9223372036854775807,{MAX_TOKENS},1")
    assert load(path).requests.prompt_tokens.tolist() == [MAX_TOKENS]
    told = refused(csv_of(tmp_path, "9223372036854775808,1,1"))
    assert told.startswith(":2: arrival_s: expected a time, at least 0, got '922337")


@pytest.mark.parametrize("row", ['"1\n2",3,4', '1,"3\n3",4'])
def test_a_cell_with_a_line_break_is_no_two_numbers(tmp_path, row):
    assert ": expected a" in refused(csv_of(tmp_path, row, "5,6,7"))


def test_a_failed_request_may_lack_its_prompt_too(tmp_path):
    path = csv_of(tmp_path, "1,0,0", "2,5,6")
    assert load(path, "failed=leave-out").requests.prompt_tokens.tolist() == [5]


FIRST = "arrival_s,prompt_tokens,output_tokens,last_token_s,first_token_s,ttft_s"


@pytest.mark.parametrize("named", ["first_token", "ttft"])
def test_of_two_columns_that_say_the_same_the_one_that_is_named_is_read(tmp_path, named):
    path = csv_of(tmp_path, "10,5,6,14,12,3", names=FIRST)
    found = load(path, f"columns.{named}={named}_s").expected["measured_us"]
    assert found["first_token_ts"] == [2e6 if named == "first_token" else 3e6]
    both = ("columns.first_token=first_token_s", "columns.ttft=ttft_s")
    assert "columns first_token_s and ttft_s say the same" in refused(path, *both)


def test_tokens_of_inference_perf_may_come_at_once(tmp_path):
    entry = exports.inference_perf_entry(ROWS[0], 0)
    times = [entry["start_time"] + 0.25] * 3
    entry["end_time"] = entry["start_time"] + 1.0
    entry["info"]["response_metrics"] |= {"output_token_times": times, "output_tokens": 3}
    found = load(write(tmp_path, json.dumps([entry]))).expected["measured_us"]
    assert found["first_token_ts"] == found["last_token_ts"] == [pytest.approx(250_000)]


def test_an_object_on_several_lines_is_no_line(tmp_path):
    line = {"arrival_s": 1, "prompt_tokens": 5, "output_tokens": 2}
    told = refused(write(tmp_path, json.dumps(line, indent=1)))
    assert told.startswith(": not a trace: it is a JSON object of other keys: arrival_s, prompt_")


def test_other_files_may_have_a_key_named_format(tmp_path):
    line = {"format": "openai", "arrival_s": 1, "prompt_tokens": 5, "output_tokens": 2}
    for lines in ([line], [line] * 3):
        assert len(load(json_lines(tmp_path, *lines)).requests) == len(lines)
        assert load(json_lines(tmp_path, *lines), "columns.client=format").requests.client_names
    told = refused(json_lines(tmp_path, {"format": "openai", "in": 5}, {"in": 6}))
    assert told.startswith(
        ": not a trace: its lines are JSON objects of other keys than Mooncake's"
    )
    check_measured(load(write(tmp_path, exports.bench(ROWS, format="of a user"))))
    told = refused(write(tmp_path, '{"format": "kvsweep-trace/2", "requests": []}'))
    assert told == ": format: expected 'kvsweep-trace/1', got 'kvsweep-trace/2'"


@pytest.mark.parametrize(
    "kind",
    ["bench", "aiperf", "inference_perf", "table", "json_lines", "burstgpt", "azure", "qwen"],
)
def test_requests_that_are_left_out_are_counted(tmp_path, kind):
    rows = [row | {"output": 0} if i in (2, 5, 7) else row for i, row in enumerate(ROWS)]
    write_as = getattr(exports, kind)
    found = load_trace(write(tmp_path, write_as(rows)), Reading(failed="leave-out"))
    assert (len(found.requests), found.left_out) == (len(ROWS) - 3, 3)
    assert load_trace(write(tmp_path, write_as(ROWS))).left_out == 0


def test_rows_without_numbers_and_a_warm_up_are_counted_as_left_out(tmp_path):
    text = exports.table(ROWS) + "9,,5,1,2\n9,10,0,1,2\n"
    assert load_trace(write(tmp_path, text), Reading(failed="leave-out")).left_out == 2
    text = exports.aiperf(ROWS[:3], 0, "warmup") + "\n" + exports.aiperf(ROWS[3:])
    assert load_trace(write(tmp_path, text)).left_out == 3


def test_requests_of_sessions_and_subagents_are_counted_as_left_out(tmp_path):
    inner = exports.agent(1.0, [exports.call(0.0, 90), exports.call(0.5, 200)], duration_ms=900)
    requests = [exports.call(0.0, 100, api_time=0.5), inner, exports.call(3.0, 300, 0)]
    gone = exports.session("b", [exports.call(0.0, 100, 0)])
    lines = [exports.session("a", requests), gone]
    path = write(tmp_path, "\n".join(map(json.dumps, lines)))
    read = {"lanes": 1, "failed": "leave-out", "think_unknown_s": 0.0}
    assert load_trace(path, Reading(**read)).left_out == 2
    found = load_trace(path, Reading(**read, subagents="leave-out"))
    assert (len(found.requests), found.left_out) == (1, 4)


def test_a_benchmark_at_once_is_in_the_order_in_which_it_was_sent(tmp_path):
    """The file's order held, though `start_times` tell another."""
    run = json.loads(exports.bench(ROWS))
    run["start_times"] = [float(len(ROWS) - i) for i in range(len(ROWS))]
    path = write(tmp_path, json.dumps(run))
    found = load(path, "arrivals=at-once").requests
    assert found.prompt_tokens.tolist() == run["input_lens"][::-1]
    assert not found.arrival_us.any()


@pytest.mark.parametrize(
    ("name", "unit_us"),
    [
        ("time_to_first_token_seconds", 1e6),
        ("ttft_sec", 1e6),
        ("ttftMs", 1e3),
        ("TTFT_MILLISECONDS", 1e3),
        ("ttftInMillis", 1e3),
        ("TTFT, ms", 1e3),
        ("ttft-usec", 1.0),
        ("ttft [microseconds]", 1.0),
        ("ttft.nanos", 1e-3),
        ("ttft_min", 1e3),  # the least of some
        ("answers", 1e3),
        ("TTFTS", 1e3),
    ],
)
def test_a_name_may_spell_its_unit(tmp_path, name, unit_us):
    """`read.time_unit`, that of the arrivals, was taken for it."""
    path = write(tmp_path, f'ts,in,out,"{name}",e2e_s\n1000,5,6,0.25,0.5\n')
    columns = {"arrival": "ts", "prompt": "in", "output": "out", "ttft": name, "latency": "e2e_s"}
    found = load_trace(path, Reading(columns=Columns(**columns), time_unit="ms"))
    assert found.expected["measured_us"]["first_token_ts"] == [pytest.approx(0.25 * unit_us)]


def test_times_in_minutes_are_refused(tmp_path):
    path = write(tmp_path, "arrival_minutes,in,out\n1,5,6\n")
    read = ("columns.arrival=arrival_minutes", "columns.prompt=in", "columns.output=out")
    assert refused(path, *read, "time_unit=s") == (
        ": column 'arrival_minutes': ends in a unit that is not read; write it in seconds, as "
        "arrival_s"
    )


def test_one_token_is_the_first_and_the_last_however_they_are_rounded(tmp_path):
    text = "arrival_s,prompt_tokens,output_tokens,ttft_ms,latency_s\n1,5,{},51.7,0.051\n"
    found = load(write(tmp_path, text.format(1))).expected["measured_us"]
    assert found == {
        "first_token_ts": [pytest.approx(51_700)],
        "last_token_ts": [pytest.approx(51_700)],
    }
    assert refused(write(tmp_path, text.format(2))) == ":2: the last token is before the first"


def test_seconds_since_1970_are_not_taken_for_milliseconds(tmp_path):
    """A thousand times as dense: an hour of requests would arrive in 3.6 s."""
    line = MOONCAKE.replace("[0, 1, 2]", "[0, 1]")
    path = write(tmp_path, "".join(line.replace("5", f"{1_764_000_000 + i}", 1) for i in (60, 0)))
    told = refused(path)
    assert told.startswith(": timestamp: from 1764000000 ms on, 20 days after the begin of the tr")
    assert "if these are seconds since 1970 subtract the first one from all and give" in told
    assert load(path, "time_unit=ms").requests.arrival_us[0] == 1_764_000_000_000
    long = write(tmp_path, line + line.replace("5", "1764000000", 1))  # one that begins at 0
    assert load(long).requests.arrival_us.tolist() == [5_000, 1_764_000_000_000]


@pytest.mark.parametrize("name", ["arrival (min)", "arrival[h]", "arrival ( Hrs )", "arrival_hrs"])
def test_times_in_short_units_that_are_not_read_are_refused(tmp_path, name):
    """`read.time_unit` was taken for them, so that minutes were seconds."""
    path = write(tmp_path, f"{name},in,out\n1,5,6\n")
    read = (f"columns.arrival={name}", "columns.prompt=in", "columns.output=out", "time_unit=s")
    assert "ends in a unit that is not read; write it in seconds" in refused(path, *read)


@pytest.mark.parametrize(
    ("text", "unit", "told"),
    [
        ("ts,in,out\n1793696400123,5,6\n1793696410123,5,6\n", "s", "56,840 years: are they ms?"),
        ("ts,in,out\n1793696400123456,5,6\n", "ms", "56,840 years: are they us?"),
        ("ts,in,out\n1793696400123456789,5,6\n", "us", "56,840 years: are they ns?"),
        ("ts,in,out\n1793696400123456.5,5,6\n", "s", "56,839,976 years: are they us?"),
        ('{"ts": 1793696400123, "in": 5, "out": 6}\n' * 2, "s", "56,840 years: are they ms?"),
    ],
)
def test_times_since_1970_in_too_large_a_unit_are_refused(tmp_path, text, unit, told):
    """Milliseconds taken for seconds: requests came a thousand times as slowly, and nobody said."""
    names = ("columns.arrival=ts", "columns.prompt=in", "columns.output=out")
    assert told in refused(write(tmp_path, text), *names, f"time_unit={unit}")


def test_dates_of_the_year_9999_are_not_too_late(tmp_path):
    path = write(tmp_path, f"{OWN_HEAD}\n9999-12-31T23:59:59,5,6\n")
    assert len(load(path).requests) == 1


def test_keys_with_dots_within_objects_are_read_by_the_names_that_are_told(tmp_path):
    """As OpenTelemetry's; they were taken for empty, so that clients were lost."""
    span = {"at_s": 1.5, "attributes": {"gen_ai.usage.in": 7, "gen_ai": {"out": 3, "user.id": "a"}}}
    path = write(tmp_path, f"{json.dumps(span)}\n{json.dumps(span)}\n")
    names = {
        "arrival": "at_s",
        "prompt": "attributes.gen_ai.usage.in",
        "output": "attributes.gen_ai.out",
        "client": "attributes.gen_ai.user.id",
    }
    found = load(path, *(f"columns.{role}={name}" for role, name in names.items())).requests
    assert (found.prompt_tokens.tolist(), found.output_tokens.tolist()) == ([7, 7], [3, 3])
    assert found.client_names == ("a",)


@pytest.mark.parametrize("more", ['"session_id": "a", ', '"text_input": "hi", ', None])
def test_lines_that_are_nearly_mooncakes_are_told_how_they_are_read(tmp_path, more):
    """Those of Dynamo and aiperf have sessions besides, and others no ids."""
    line = '{"timestamp": 1500, "input_length": 1100, "output_length": 3}\n'
    if more:
        line = line.replace("{", f'{{{more}"hash_ids": [0, 1, 2], ')
    path = write(tmp_path, 2 * line)
    read = ("format=jsonl", "time_unit=ms", "columns.arrival=timestamp")
    read += ("columns.prompt=input_length", "columns.output=output_length")
    assert "; read.format = 'jsonl' with read.columns reads times and lengths" in refused(path)
    assert load(path, *read).requests.prompt_tokens.tolist() == [1100, 1100]


@pytest.mark.parametrize("kind", get_args(Format))
def test_every_format_says_what_it_reads_and_has_a_reader(tmp_path, kind):
    """One that was only named ended in a traceback, or would have read a kvsweep-trace/1."""
    assert kind in formats.USED
    entry = {"id": 0, "arrival_us": 0, "prompt": [[0, 20]], "output": [1, 2]}
    document = {"format": "kvsweep-trace/1", "scenario": {}, "requests": [entry]}
    path = write(tmp_path, json.dumps(document), "t.json")
    if kind == "kvsweep":
        assert len(load(path, f"format={kind}").requests) == 1
        return
    assert refused(path, f"format={kind}")
