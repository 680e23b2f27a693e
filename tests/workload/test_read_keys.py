"""How sweeps and commands say how a trace is read."""

import json

import pytest

from kvsweep import load_sweep, replay
from kvsweep.cli import main
from kvsweep.config.read_options import parse_reading, refuse_reading
from kvsweep.errors import InputError
from kvsweep.workload import measured
from kvsweep.workload.generate import requests_for
from kvsweep.workload.traces import load_trace
from workload import exports

SWEEP = """
[workload]
trace = "log.csv"
read = {{ {read} }}

[latency]
beta = [1000, 5, 20]

[grid]
{axis}
seed = [0]
"""
NAMES = 'columns = { arrival = "ts", prompt = "in", output = "out" }, time_unit = "ms"'
ROWS = exports.rows_of()


def write(tmp_path, read, axis="", content=None):
    content = content or exports.table(ROWS, names="ts,in,out,t1,t2")
    (tmp_path / "log.csv").write_text(content)
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP.format(read=read, axis=axis))
    return path


def requests_of(sweep, point):
    workload = sweep.scenario(point).workload
    return requests_for(workload, 0, base_dir=sweep.base_dir)


def test_a_sweep_names_the_columns_of_its_trace(tmp_path):
    sweep = load_sweep(write(tmp_path, NAMES))
    requests = requests_of(sweep, {})
    assert requests.prompt_tokens.tolist() == [row["prompt"] for row in ROWS]
    since = ROWS[-1]["arrival"] - ROWS[0]["arrival"]
    assert requests.arrival_us[-1] == round(1000 * since)


def test_how_a_trace_is_read_may_be_an_axis(tmp_path):
    content = "\n".join(json.dumps(exports.session(name, [exports.call(0, 90)])) for name in "abc")
    path = write(tmp_path, "", '"workload.read.lanes" = [1, 3]', content)
    sweep = load_sweep(path)
    assert [axis.name for axis in sweep.axes] == ["lanes", "seed"]
    for lanes, waiting in ((1, 2), (3, 0)):
        requests = requests_of(sweep, {"workload.read.lanes": lanes})
        assert (requests.after >= 0).sum() == waiting


@pytest.mark.parametrize(
    ("read", "message"),
    [
        ("formt = 'csv'", "4: workload.read.formt: unknown key; did you mean 'format'?"),
        ("format = 'xls'", "4: workload.read.format: unknown value 'xls'; allowed: kvsweep"),
        ("columns = { arival = 'ts' }", "4: workload.read.columns.arival: unknown key; did you me"),
        ("time_unit = 'minutes'", "4: workload.read.time_unit: unknown value 'minutes'; allowed"),
    ],
)
def test_keys_of_reading_are_checked_with_the_sweep(tmp_path, read, message):
    path = write(tmp_path, read)
    with pytest.raises(InputError) as caught:
        load_sweep(path)
    assert str(caught.value).startswith(f"{path}:{message}")


def test_reading_needs_a_trace(tmp_path):
    path = write(tmp_path, "time_unit = 'ms'")
    path.write_text(path.read_text().replace('trace = "log.csv"', ""))
    with pytest.raises(InputError, match=r"workload.read: says how a trace is read: needs trace$"):
        load_sweep(path)


def test_a_replay_takes_the_same_keys_as_options(tmp_path, capsys):
    write(tmp_path, NAMES)
    read = ["columns.arrival=ts", "columns.prompt=in", "columns.output=out", "time_unit=ms"]
    settings = ["latency.beta=[1000, 5, 20]", "cache.gpu_blocks=400"]
    ds = replay(tmp_path / "log.csv", settings, read)
    assert ds.sizes["request"] == len(ROWS)
    options = [word for one in read for word in ("--read", one)]
    options += [word for one in settings for word in ("--set", one)]
    with pytest.raises(SystemExit) as ended:
        main(["replay", str(tmp_path / "log.csv"), "--json", *options])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["requests"] == len(ROWS)


@pytest.mark.parametrize("command", [("replay",), ("trace", "info"), ("trace", "convert")])
@pytest.mark.parametrize("key", ["read.failed", "workload.read.failed"])
def test_a_remedy_is_taken_or_redirected_where_it_is_given(tmp_path, capsys, command, key):
    path = tmp_path / "log.csv"
    path.write_text("arrival_s,prompt_tokens,output_tokens\n0,5,0\n1,5,2\n")
    words = [
        *command,
        str(path),
        *(["-o", str(tmp_path / "o.json")] if "convert" in command else []),
    ]
    if command == ("replay",):
        words += ["--set", "latency.beta=[1000, 5, 20]"]
    with pytest.raises(SystemExit) as ended:
        main([*words, "--set", f"{key}=leave-out"])
    told = f"kvsweep: --set {key}: says how the trace is read: give it as --read failed=leave-out\n"
    assert (ended.value.code, capsys.readouterr().err) == (2, told)
    for option in ("failed", key):
        with pytest.raises(SystemExit) as ended:
            main(
                [
                    *words,
                    "--read",
                    f"{option}=leave-out",
                    *(["--overwrite"] if "-o" in words else []),
                ]
            )
        assert not ended.value.code


def test_a_whole_table_of_how_a_trace_is_read_is_no_setting():
    with pytest.raises(InputError, match="give its keys as --read KEY=VALUE"):
        refuse_reading(("workload.read={failed='leave-out'}",))


def test_columns_may_have_names_that_look_like_other_values(tmp_path):
    (tmp_path / "log.csv").write_text("1,true,[3]\n0,5,2\n")
    names = ["columns.arrival=1", "columns.prompt=true", "columns.output=[3]", "time_unit=s"]
    trace = load_trace(tmp_path / "log.csv", parse_reading(names))
    assert trace.requests.prompt_tokens.tolist() == [5]
    quoted = parse_reading(["columns.arrival='1'"])
    assert quoted.columns.arrival == "1"


@pytest.mark.parametrize("name", ["client", "slo_class"])
@pytest.mark.parametrize(
    ("names", "line", "message"),
    [("abac", 5, "more than 2 different names"), ("a\t", 3, "expected printable names of at most")],
)
def test_a_column_of_no_names_is_left_alone(tmp_path, monkeypatch, name, names, line, message):
    monkeypatch.setattr(measured, "_MAX_NAMES", 2)
    path = tmp_path / "log.csv"
    lines = [f"{i},5,2,{one}" for i, one in enumerate(names)]
    path.write_text("\n".join([f"arrival_s,prompt_tokens,output_tokens,{name}", *lines]))
    with pytest.raises(InputError) as caught:
        load_trace(path)
    assert str(caught.value).startswith(f"{path}:{line}: {name}: {message}")
    assert str(caught.value).endswith(f"; read.columns.{name} = '' reads no such column")
    requests = load_trace(path, parse_reading([f"columns.{name}="])).requests
    assert (requests.client_names, requests.slo_names) == ((), ())


def test_columns_that_are_needed_have_a_name():
    with pytest.raises(InputError, match=r"^--read columns.arrival: must not be empty$"):
        parse_reading(["columns.arrival="])


@pytest.mark.parametrize(
    ("role", "other", "name"),
    [
        ("arrival", "ttft", "arrival_ms"),
        ("ttft", "latency", "ttft_ms"),
        ("arrival", "prompt", "prompt_tokens"),
    ],
)
def test_no_two_numbers_are_read_from_one_column(tmp_path, role, other, name):
    """Times to the first token were the clock's, and all tokens came with the first."""
    path = tmp_path / "log.csv"
    path.write_text("arrival_ms,ttft_ms,prompt_tokens,output_tokens\n1,2,30,4\n")
    named = [f"columns.{role}={name}", f"columns.{other}={name}", "time_unit=ms"]
    told = f"read.columns.{role} and {other}: '{name}' cannot be both"
    with pytest.raises(InputError, match=told):
        load_trace(path, parse_reading(named))
