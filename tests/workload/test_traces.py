"""Traces: strict reading of three formats, and writing."""

import gzip
import json
from dataclasses import fields

import numpy as np
import pytest
from goldens import load, vllm_cases
from hypothesis import given
from hypothesis import strategies as st

from kvsweep.config import parse_scenario
from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_REQUEST_TOKENS, MAX_ROUNDS, MAX_TIME_US, MAX_TOKENS
from kvsweep.workload import columns, native
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.requests import Requests
from kvsweep.workload.traces import load_trace, to_trace_dict

REQUESTS = [
    {"id": 0, "arrival_us": 0, "prompt": [[0, 5]], "output": [1, 2]},
    {
        "id": 1,
        "arrival_us": 7,
        "prompt": [[0, 5], [1, 2], [0, 3]],
        "output": [4, 1],
        "slo_class": "batch",
        "client": "b",
        "priority": -2,
        "session": 3,
        "round": 1,
    },
    {
        "id": 2,
        "arrival_us": 7,
        "prompt": [[9, 1]],
        "output": [4, 1],
        "slo_class": "critical",
        "after": 0,
        "think_us": 5,
        "patience_us": 0,
    },
]


MOONCAKE = """\
{"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [0, 1]}
{"timestamp": 0, "input_length": 1024, "output_length": 2, "hash_ids": [0, 2]}

{"timestamp": 5, "input_length": 1100, "output_length": 1, "hash_ids": [0, 2, 7]}
"""

AZURE = """\
TIMESTAMP,ContextTokens,GeneratedTokens
2023-11-16 18:17:04.0319600,3180,8
2023-11-16 18:17:03.9799609,4808,10
2023-11-16 18:17:04.0319600,110,27
"""


def document(**changes):
    return {
        "format": "kvsweep-trace/1",
        "about": {"any": "thing"},
        "scenario": {"cache": {"gpu_blocks": 5}},
        "requests": REQUESTS,
        "expected": [1],
    } | changes


def changed(i, **changes):
    rows = [dict(row) for row in REQUESTS]
    rows[i] |= changes
    return document(requests=rows)


def same(a, b):
    return all(np.array_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(Requests))


NESTED = [[0]]
for _ in range(500):
    NESTED = [NESTED]


def write(tmp_path, content, name="t.json"):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_trace_becomes_columns():
    trace = load_trace(document())
    requests = trace.requests
    assert requests.arrival_us.tolist() == [0, 7, 7]
    assert requests.prompt_tokens.tolist() == [5, 10, 1]
    assert requests.output_tokens.tolist() == [2, 1, 1]
    assert requests.segment_offsets.tolist() == [0, 1, 4, 5]
    assert requests.segment_ids.tolist() == [0, 0, 1, 0, 9]
    assert requests.segment_tokens.tolist() == [5, 5, 2, 3, 1]
    assert requests.output_segment.tolist() == [1, 4, 4]
    assert requests.priority.tolist() == [0, -2, 0]
    assert requests.has_priority.tolist() == [False, True, False]
    assert (requests.slo_names, requests.slo_class.tolist()) == (("batch", "critical"), [-1, 0, 1])
    assert (requests.client_names, requests.client.tolist()) == (("b",), [-1, 0, -1])
    assert requests.session.tolist() == [-1, 3, -1]
    assert requests.round.tolist() == [-1, 1, -1]
    assert requests.after.tolist() == [-1, -1, 0]
    assert requests.think_us.tolist() == [0, 0, 5]
    assert requests.patience_us.tolist() == [-1, -1, 0]
    assert (trace.scenario, trace.expected) == ({"cache": {"gpu_blocks": 5}}, [1])
    assert trace.about == {"any": "thing"}


def test_plain_gzipped_and_in_memory_are_the_same(tmp_path):
    text = json.dumps(document(), indent=1)
    plain = load_trace(write(tmp_path, text))
    packed = load_trace(str(write(tmp_path, gzip.compress(text.encode()), "t.json.gz")))
    assert same(plain.requests, load_trace(document()).requests)
    assert same(packed.requests, plain.requests)
    assert same(load_trace(write(tmp_path, json.dumps(document()))).requests, plain.requests)


def test_recorded_runs_of_vllm_read_and_write():
    for name in vllm_cases():
        case = load(name)
        trace = load_trace(case)
        scenario = parse_scenario(trace.scenario, name)
        assert scenario.cache.gpu_blocks == case["scenario"]["cache"]["gpu_blocks"]
        assert to_trace_dict(trace.requests, case["scenario"])["requests"] == case["requests"]


def test_what_is_written_reads_back_the_same():
    written = to_trace_dict(load_trace(document()).requests, {"cache": {"gpu_blocks": 5}})
    assert json.loads(json.dumps(written)) == written
    assert written == {key: document()[key] for key in ("format", "scenario", "requests")}


@pytest.mark.parametrize(
    ("trace", "message"),
    [
        (document(format="other"), "trace: format: expected 'kvsweep-trace/1', got 'other'"),
        (document(requests=[]), "trace: requests: expected a list of at least one request"),
        (document(requests={}), "trace: requests: expected a list of at least one request"),
        (document(scenario=[]), "trace: scenario: expected an object, got a list"),
        (document(requests=[5]), "trace: requests[0]: expected an object, got 5"),
        (changed(1, id=2), "trace: requests[1].id: expected the position in the list, 1, got 2"),
        (changed(1, id=True), "requests[1].id: expected the position in the list, 1, got true"),
        (changed(2, arrival_us=6), "requests[2].arrival_us: 6 is before the previous request's, 7"),
        (changed(0, arrival_us=-1), "requests[0].arrival_us: expected an integer from 0 to"),
        (changed(0, arrival_us=0.0), "requests[0].arrival_us: expected an integer from 0 to"),
        (
            changed(0, prompt=[]),
            "requests[0].prompt: expected a list of at least one [segment, tok",
        ),
        (
            changed(1, prompt=[[0, 1], [1]]),
            "requests[1].prompt[1]: expected [segment, tokens], got",
        ),
        (changed(1, prompt=[[0, 0]]), "requests[1].prompt[0]: tokens must be an integer from 1 to"),
        (
            changed(1, prompt=[[0, 1.5]]),
            "requests[1].prompt[0]: tokens must be an integer from 1 to",
        ),
        (changed(1, prompt=[["a", 1]]), "requests[1].prompt[0]: a segment is an integer from 0 to"),
        (changed(1, prompt=[[-1, 1]]), "requests[1].prompt[0]: a segment is an integer from 0 to"),
        (changed(1, output=[1, 0]), "requests[1].output: tokens must be an integer from 1 to"),
        (changed(1, output=5), "requests[1].output: expected [segment, tokens], got 5"),
        (changed(1, slo_class=5), "requests[1].slo_class: expected a printable string of 1 to 256"),
        (
            changed(1, priority="high"),
            "requests[1].priority: expected an integer from -90071992547",
        ),
        (changed(1, session=-1), "requests[1].session: expected an integer from 0 to"),
        (changed(2, after=2), "requests[2].after: expected an earlier request than 2, got 2"),
        (changed(2, after=-1), "requests[2].after: expected an integer from 0 to"),
        (changed(1, after=0), "requests[2].after: request 1 comes after 0 already"),
        (changed(1, think_us=3), "requests[1].think_us: needs after"),
        (changed(2, think_us=-3), "requests[2].think_us: expected an integer from 0 to"),
        (changed(2, patience_us=0.5), "requests[2].patience_us: expected an integer from 0 to"),
        (changed(1, prioritty=1), "requests[1].prioritty: unknown key; did you mean 'priority'?"),
        (document(requests=[{"id": 0}]), "trace: requests[0].arrival_us: missing"),
        (document(scenaro={}), "trace: scenaro: unknown key; did you mean 'scenario'?"),
        (document(extra=1), "trace: extra: unknown key; allowed: format, about, scenario, req"),
        (
            document(scenario={"cache": {"gpu_blocks": 2**64}}),
            "trace: scenario.cache.gpu_blocks: an integer must have at most 64 bits",
        ),
        (document(about=NESTED), "trace: about[0][0]: more than 32 levels of nesting"),
        (changed(1, prompt=NESTED), "requests[1].prompt[0]: expected [segment, tokens], got a lis"),
        (
            changed(1, client={}),
            "requests[1].client: expected a printable string of 1 to 256",
        ),
        (
            changed(1, client=""),
            "requests[1].client: expected a printable string of 1 to 256",
        ),
        (changed(1, client="x" * 257), "requests[1].client: expected a printable string of 1 to "),
        (changed(1, client="\ud800"), r"requests[1].client: expected a printable string of 1 to "),
        (changed(1, slo_class="\x1b[31m"), r"of 1 to 256 characters, got '\x1b[31m'"),
        ({str(k): k for k in range(9)}, "trace: format: expected 'kvsweep-trace/1', got null"),
    ],
)
def test_malformed_traces_are_refused_by_request_and_key(trace, message):
    with pytest.raises(InputError) as caught:
        load_trace(trace)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


LIMITS = {
    "arrival_us": (2, MAX_TIME_US),
    "think_us": (2, MAX_TIME_US),
    "patience_us": (1, MAX_TIME_US),
    "round": (1, MAX_ROUNDS - 1),
    "session": (1, 2**53),
    "priority": (1, 2**53),
}


@pytest.mark.parametrize("key", LIMITS)
def test_numbers_beyond_the_limits_are_refused(key):
    i, most = LIMITS[key]
    assert len(load_trace(changed(i, **{key: most})).requests) == 3
    for value in (most + 1, 2**63, 10**4000):
        with pytest.raises(InputError, match=rf"requests\[{i}\]\.{key}: expected an integer from"):
            load_trace(changed(i, **{key: value}))


def test_tokens_of_a_request_are_bounded_each_and_together():
    most = [[i, MAX_TOKENS] for i in range(MAX_REQUEST_TOKENS // MAX_TOKENS - 1)]
    assert load_trace(changed(1, prompt=most, output=[99, MAX_TOKENS])).requests
    with pytest.raises(InputError, match=r"requests\[1\]: 1073741825 tokens, prompt and output"):
        load_trace(changed(1, prompt=[*most, [98, 1]], output=[99, MAX_TOKENS]))
    with pytest.raises(InputError, match=r"requests\[1\]\.output: tokens must be an integer"):
        load_trace(changed(1, output=[99, MAX_TOKENS + 1]))


def test_a_chain_of_pauses_stays_far_inside_the_clock(monkeypatch):
    monkeypatch.setattr(native, "MAX_TOTAL_US", 20)
    assert load_trace(changed(2, think_us=13)).requests
    with pytest.raises(InputError, match=r"the last arrival and all think_us make 21 us together"):
        load_trace(changed(2, think_us=14))


@pytest.mark.parametrize("text", [json.dumps(document()), MOONCAKE, AZURE], ids=["own", "m", "a"])
def test_more_requests_than_are_believed_are_refused(tmp_path, monkeypatch, text):
    monkeypatch.setattr(native, "MAX_REQUESTS", 2)
    monkeypatch.setattr(columns, "MAX_REQUESTS", 2)
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=rf"^{path}: .*more than 2$"):
        load_trace(path)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_a_truncated_file_is_refused_by_name(tmp_path, share):
    text = json.dumps(document(), indent=1)
    packed = gzip.compress(text.encode())
    path = write(tmp_path, text[: int(len(text) * share)])
    with pytest.raises(InputError, match=rf"^{path}:\d+: truncated or malformed JSON: "):
        load_trace(path)
    path = write(tmp_path, packed[: int(len(packed) * share)], "t.json.gz")
    with pytest.raises(InputError, match=rf"^{path}: truncated or damaged gzip file$"):
        load_trace(path)


def test_other_files_are_refused_by_name(tmp_path):
    for content in ("", "hello", "[1]", b"\xff\xfe"):
        path = write(tmp_path, content)
        with pytest.raises(InputError, match=rf"^{path}: not a t"):
            load_trace(path)
    with pytest.raises(InputError, match=rf"^{tmp_path}: cannot read: Is a directory$"):
        load_trace(tmp_path)
    with pytest.raises(InputError, match=r"cannot read: No such file or directory$"):
        load_trace(tmp_path / "absent.json")
    with pytest.raises(InputError, match=r"format: expected 'kvsweep-trace/1', got null$"):
        load_trace(write(tmp_path, "{}"))


def test_mooncake_lines_become_segments_of_512_tokens(tmp_path):
    trace = load_trace(write(tmp_path, MOONCAKE, "t.jsonl"))
    rows = to_trace_dict(trace.requests, {})["requests"]
    assert [(r["arrival_us"], r["prompt"], r["output"]) for r in rows] == [
        (0, [[0, 512], [2, 512]], [8, 2]),
        (5000, [[0, 512], [1, 88]], [9, 9]),
        (5000, [[0, 512], [2, 512], [7, 76]], [10, 1]),
    ]
    assert resolve_blocks(trace.requests, 16).reusable.tolist() == [64, 32, 64]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[0, 1]", "[0]", ":1: hash_ids: 1 ids for 600 tokens, expected 2"),
        ("[0, 1]", str([0] * 38), ":1: hash_ids: 38 ids for 600 tokens, expected 2, one for each"),
        ("[0, 1]", f"[0, {2**53}]", ":1: hash_ids: expected a list of integers from 0 to 90071"),
        ("[0, 1]", "[0, true]", ":1: hash_ids: expected a list of integers from 0 to 9007199"),
        ("600", str(MAX_TOKENS + 1), ":1: input_length: expected an integer from 1 to 16777216"),
        ("600", "9" * 5000, ":1: input_length: an integer of more than 4,300 digits"),
        ('"timestamp": 0', '"timestamp": 1.1e11', ":2: timestamp: expected milliseconds from 0 to"),
        ('"timestamp": 0', '"timestamp": NaN', ":2: timestamp: NaN is no number of JSON"),
        ('"timestamp": 0', '"timestamp": 0, "timestamp": 9', ":2: duplicate key 'timestamp'"),
        ('"timestamp": 0', '"timestamp": 0, "out_length": 9', ":2: unknown key 'out_length'; did"),
        ('"timestamp": 0', '"timestamp": 0, "delay": 9', ":2: unknown key 'delay'; allowed: tim"),
        (', "hash_ids": [0, 1]', "", ":1: missing 'hash_ids', the ids of the prompt's blocks"),
        ("[0, 2, 7]", "[0, 2, -7]", ":4: hash_ids: expected a list of integers from 0 to"),
        ('"timestamp": 0', '"timestamp": "0"', ":2: timestamp: expected milliseconds, got '0'"),
        (
            '"timestamp": 0',
            '"timestamp": -1',
            ":2: timestamp: expected milliseconds from 0 to 100",
        ),
        ('"timestamp": 0', '"time": 0', ":2: unknown key 'time'; did you mean 'timestamp'?"),
        ('"timestamp": 0, ', "", ":2: missing 'timestamp': Mooncake's lines have timestamp, in"),
        ("1024", "0", ":2: input_length: expected an integer from 1 to 16777216, got 0"),
        ('_length": 2', '_length": 2.5', ":2: output_length: expected an integer from 1 to"),
        (", 7]}", "", ":4: truncated or malformed JSON: Expecting"),
        ("\n\n{", "\n\n[{", ":4: "),
    ],
)
def test_malformed_mooncake_lines_are_refused_by_number(tmp_path, old, new, message):
    path = write(tmp_path, MOONCAKE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}{message}")
    assert "\n" not in str(caught.value)


def test_azure_rows_become_requests_of_their_own(tmp_path):
    for text in (AZURE, AZURE.replace("\n", "\r\n"), "\ufeff" + AZURE):
        requests = load_trace(write(tmp_path, text, "t.csv")).requests
        assert requests.arrival_us.tolist() == [0, 52_000, 52_000]
        assert requests.prompt_tokens.tolist() == [4808, 3180, 110]
        assert requests.output_tokens.tolist() == [10, 8, 27]
        assert not resolve_blocks(requests, 16).reusable.any()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("4808", "0", ":3: ContextTokens: expected an integer from 1 to 16777216, got '0'"),
        (",8\n", ",x\n", ":2: GeneratedTokens: expected an integer from 1 to 16777216, got 'x'"),
        (",8\n", "\n", ":2: 2 fields, expected 3 as in the header"),
        (",8\n", ",8,9\n", ":2: 4 fields, expected 3 as in the header"),
        ("4808", str(2**63 - 1), ":3: ContextTokens: expected an integer from 1 to 16777216, got"),
        ("4808", "9" * 5000, ":3: ContextTokens: expected an integer from 1 to 16777216, got '99"),
        (",8\n", ",٣\n", ":2: GeneratedTokens: expected an integer from 1 to 16777216, got"),
        ("2023-11-16 18:17:04.03", "16/11/2023", ":2: TIMESTAMP: expected a time as 2023-11-16 1"),
        ("03.9799609", "03.979Z", ":3: TIMESTAMP: with and without a time zone, as in line 2"),
        ("2023-11-16 18:17:03", "1999-11-16 18:17:03", ":4: TIMESTAMP: more than 1000000000000"),
        ("GeneratedTokens", "GeneratedToken", ":1: missing column GeneratedTokens; did you mean"),
        ("GeneratedTokens", "Tokens", ":1: missing column GeneratedTokens"),
        ("GeneratedTokens", "GeneratedTokens,TIMESTAMP", ":1: duplicate column 'TIMESTAMP'"),
        ("GeneratedTokens", "Gen\rTokens", ":1: malformed CSV: new-line character"),
        (AZURE[AZURE.index("\n") + 1 :], "", ": no requests"),
    ],
)
def test_malformed_azure_rows_are_refused_by_number(tmp_path, old, new, message):
    path = write(tmp_path, AZURE.replace(old, new, 1))
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}{message}")


ENTRY = st.tuples(st.integers(0, 2**53), st.integers(1, 2**24)).map(list)
NAME = st.sampled_from(["batch", "critical", "x"])
ROW = st.fixed_dictionaries(
    {"prompt": st.lists(ENTRY, min_size=1, max_size=3), "output": ENTRY},
    optional={
        "priority": st.integers(-9, 9),
        "slo_class": NAME,
        "client": NAME,
        "session": st.integers(0, 9),
        "round": st.integers(0, 9),
        "patience_us": st.integers(0, 9),
    },
)


@given(rows=st.lists(ROW, min_size=1, max_size=6), gaps=st.lists(st.integers(0, 9), min_size=6))
def test_any_trace_survives_reading_and_writing(rows, gaps):
    entries = [{"id": i, "arrival_us": sum(gaps[: i + 1])} | row for i, row in enumerate(rows)]
    for i in range(1, len(entries), 2):
        entries[i] |= {"after": i - 1, "think_us": gaps[0]}
    trace = document(requests=entries, scenario={})
    assert to_trace_dict(load_trace(trace).requests, {})["requests"] == entries


def test_lines_as_qwen_bailians_are_mooncakes_if_the_sweep_says_so(tmp_path):
    extra = '"chat_id": 1, "parent_chat_id": -1, "type": "te\\u2028xt", "turn": 1, "timestamp"'
    path = write(tmp_path, MOONCAKE.replace('"timestamp"', extra))
    read = Reading(format="mooncake")
    plain = load_trace(write(tmp_path, MOONCAKE, "plain.jsonl")).requests
    assert same(load_trace(path, read).requests, plain)
    with pytest.raises(InputError, match=r":1: hash_ids: 2 ids .* read.block_size = 512 fits$"):
        load_trace(path)


def test_a_byte_order_mark_and_other_line_ends_change_nothing(tmp_path):
    for text in (MOONCAKE, AZURE, json.dumps(document(), indent=1)):
        plain = load_trace(write(tmp_path, text)).requests
        for other in ("\ufeff" + text, text.replace("\n", "\r\n"), "\n \n" + text):
            assert same(load_trace(write(tmp_path, other)).requests, plain)


def test_a_single_line_is_a_trace(tmp_path):
    (line, *_) = MOONCAKE.splitlines()
    for text in (line, line + "\n\n"):
        assert load_trace(write(tmp_path, text)).requests.prompt_tokens.tolist() == [600]
    assert len(load_trace(write(tmp_path, "\n".join(AZURE.splitlines()[:2]))).requests) == 1


def test_columns_of_azures_csv_may_be_more_and_in_any_order(tmp_path):
    text = "".join(f"x,{row},y\n" for row in AZURE.splitlines())
    text = text.replace("x,T", "Id,T", 1).replace("s,y", "s,Model", 1)
    plain = load_trace(write(tmp_path, AZURE)).requests
    assert same(load_trace(write(tmp_path, text)).requests, plain)


NEAR_MISSES = {
    "empty": ("", "not a trace: it is empty"),
    "blank": (" \r\n\n\t", "not a trace: it is empty"),
    "another CSV": (
        "time,prompt,output\n1,2,3\n",
        "not a trace: a CSV trace needs the columns TIMESTAMP, ContextTokens, GeneratedTokens; its "
        "first line is time,prompt,output; others are named by read.columns.arrival, prompt and",
    ),
    "lines without ids": (
        MOONCAKE.replace(', "hash_ids": [0, 1]', "").replace(', "hash_ids": [0, 2]', ""),
        "1: missing 'hash_ids', the ids of the prompt's blocks: Mooncake's lines have timestamp,",
    ),
    "one line without ids": (
        '{"timestamp": 0, "input_length": 1, "output_length": 1}',
        "1: missing 'hash_ids', the ids of the prompt's blocks: Mooncake's lines have timestamp,",
    ),
    "other lines": (
        '{"id": 1, "models": []}\n{"id": 2, "models": []}\n',
        "not a trace: its lines are JSON objects of other keys than Mooncake's: id, models; writ",
    ),
    "two of its own": (
        '{"format": "kvsweep-trace/1"}\n{"format": "kvsweep-trace/1"}\n',
        "2: truncated or malformed JSON: Extra data",
    ),
    "a key twice": (
        json.dumps(document()).replace('"scenario":', '"requests": [], "scenario":'),
        "duplicate key 'requests'",
    ),
    "a key of a request twice": (
        json.dumps(document()).replace('"id": 1,', '"id": 1, "output": [1, 1],'),
        "requests[1]: duplicate key 'output'",
    ),
    "binary": ("\x01\x02,\x03", "not a trace: a CSV trace needs the columns TIMESTAMP, Context"),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_are_told_what_they_lack(tmp_path, name):
    text, message = NEAR_MISSES[name]
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        load_trace(path)
    told = str(caught.value)
    assert told.removeprefix(f"{path}:").lstrip().startswith(message)
    assert told.isprintable()


def test_the_largest_hash_ids_become_a_trace_that_can_be_written(tmp_path):
    row = {"timestamp": 0, "input_length": 600, "output_length": 5}
    ids = ([2**53 - 1, 7], [2**53 - 1, 9], [7, 9])
    path = write(tmp_path, "".join(json.dumps(row | {"hash_ids": two}) + "\n" for two in ids))
    requests = load_trace(path).requests
    assert same(requests, load_trace(to_trace_dict(requests, {})).requests)
    first, second, third = requests.segment_ids.reshape(3, 2).tolist()
    assert (first[0], first[1], second[1]) == (second[0], third[0], third[1])
    assert len({*first, *second, *third, *requests.output_segment.tolist()}) == 6


def test_an_object_of_other_keys_is_told_how_it_could_be_read(tmp_path):
    """Results of guidellm and GenAI-Perf are one object; they were told that `format` is null."""
    with pytest.raises(InputError, match="not a trace: it is an empty list; expected kvsweep-tr"):
        load_trace(write(tmp_path, "[]"))
    for keys in ("metadata, args, benchmarks", "experiments, service_kind"):
        path = write(tmp_path, json.dumps({key: [] for key in keys.split(", ")}, indent=1))
        told = f"^{path}: not a trace: it is a JSON object of other keys: {keys}; written as CSV"
        with pytest.raises(InputError, match=told):
            load_trace(path)
    path = write(tmp_path, json.dumps({"requests": []}))
    with pytest.raises(InputError, match=r"format: expected 'kvsweep-trace/1', got null$"):
        load_trace(path)


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (Reading(time_unit="ms"), r"^trace: read\.time_unit: not for the format 'kvsweep'"),
        (Reading(format="csv"), r"^trace: read\.format: 'csv' is of files, and this is kvsweep-"),
    ],
)
def test_content_is_not_read_as_files_are(read, told):
    """What was asked for was ignored."""
    row = {"id": 0, "arrival_us": 0, "prompt": [[1, 4]], "output": [2, 3]}
    content = {"format": "kvsweep-trace/1", "requests": [row]}
    with pytest.raises(InputError, match=told):
        load_trace(content, read)
    assert len(load_trace(content, Reading(format="kvsweep")).requests) == 1
