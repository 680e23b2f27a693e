"""How sweeps and commands say how a trace is read."""

import json

import pytest

from kvsweep import load_sweep, replay
from kvsweep.cli import main
from kvsweep.errors import InputError
from kvsweep.workload.generate import requests_for
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
