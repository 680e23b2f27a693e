"""The recorder's command line: exit codes, one-line errors, and its runs beside vLLM."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from record_vllm import checking, cli, environment, traces
from record_vllm.adapter import FIRST, LAST, release_of, unknown_release
from record_vllm.cases import make_case

from kvsweep.errors import InputError

ROOT = Path(__file__).parents[2]
GOLDENS = ROOT / "tests" / "goldens" / "vllm"
VLLM = os.environ.get("KVSWEEP_VLLM")


def run(capsys, *arguments):
    """Return exit code, output and messages of a command."""
    with pytest.raises(SystemExit) as ended:
        cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return ended.value.code, out, err


@pytest.fixture
def recorded(tmp_path):
    """Two copies of a golden, the second with another number of free blocks in step 3."""
    golden = traces.load(GOLDENS / "fuzz_00.json.gz")
    for name in ("before", "after"):
        (tmp_path / name).mkdir()
        traces.save(tmp_path / name / "fuzz_00.json.gz", golden)
    golden["expected"]["steps"]["free"][3] += 1
    traces.save(tmp_path / "after" / "fuzz_00.json.gz", golden)
    return tmp_path


def test_the_folder_runs_as_a_program():
    command = [sys.executable, ROOT / "tools" / "record_vllm", "--help"]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert done.returncode == 0, done.stderr
    assert "check" in done.stdout


@pytest.mark.parametrize("command", ["setup", "record", "check", "compare", "cases", "options"])
def test_help_ends_with_examples(capsys, command):
    code, out, _ = run(capsys, command, "--help")
    assert code == 0
    assert f"python tools/record_vllm {command}" in out.split("Examples:")[1]


def test_equal_recordings_end_with_0(capsys):
    golden = GOLDENS / "fuzz_00.json.gz"
    code, out, _ = run(capsys, "compare", golden, golden)
    assert (code, out) == (0, "1 of 1 recordings are equal, 0 differ\n")


def test_differences_are_told_and_end_with_1(capsys, recorded):
    code, out, _ = run(capsys, "compare", recorded / "before", recorded / "after")
    assert code == 1
    assert out.splitlines()[0] == "fuzz_00.json.gz: DIFFERS in free"
    assert "step 3 (" in out.splitlines()[1]
    assert out.splitlines()[-1] == "0 of 1 recordings are equal, 1 differ"


def test_differences_as_json(capsys, recorded):
    code, out, _ = run(capsys, "compare", recorded / "before", recorded / "after", "--json")
    found = json.loads(out)
    assert (code, found["differ"], found["not_recorded"]) == (1, 1, 0)
    assert found["recordings"][0]["columns"] == ["free"]


def test_a_recording_without_its_pair_is_told(capsys, recorded):
    (recorded / "after" / "fuzz_00.json.gz").unlink()
    code, out, _ = run(capsys, "compare", recorded / "before", recorded / "after")
    assert code == 1
    assert "NOT RECORDED" in out


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["compare", "none.json", "none.json"], "none.json: cannot read: No such file"),
        (["compare", "{tmp}", "none.json"], "two files or two folders"),
        (["compare", "{tmp}", "{tmp}"], "has no *.json"),
        (["cases", "asink", "0", "1", "--out", "{tmp}"], "did you mean 'async'"),
        (["cases", "async", "5", "3", "--out", "{tmp}"], "5 3: LAST is before FIRST"),
        (["record", "--env", "{tmp}", "x.json", "-o", "y.json"], "x.json: cannot read"),
        (["check", "--env", "{tmp}", "x.json"], "make it with setup"),
        (["setup", "0.33.0; rm"], "no version of vLLM"),
        (["chekc"], "did you mean 'check'"),
        (["compare", "x.json"], "Missing argument"),
    ],
)
def test_bad_usage_and_input_are_one_line_and_2(capsys, tmp_path, arguments, told):
    code, out, err = run(capsys, *(a.format(tmp=tmp_path) for a in arguments))
    assert (code, out) == (2, "")
    assert told in err
    assert err.count("\n") == 1


def test_a_trace_is_never_replaced_by_its_recording(capsys, recorded):
    golden = recorded / "before" / "fuzz_00.json.gz"
    before = golden.read_bytes()
    code, _, err = run(capsys, "record", "--env", recorded, golden, "-o", golden)
    assert code == 2
    assert "would replace" in err
    assert golden.read_bytes() == before


def test_a_folder_is_recorded_into_a_folder_and_a_file_into_a_file(tmp_path, recorded):
    source = recorded / "before"
    name = "fuzz_00.json.gz"
    assert checking.recording_plan(source, tmp_path / "new") == [
        (source / name, tmp_path / "new" / name)
    ]
    assert checking.recording_plan(source / name, tmp_path / name) == [
        (source / name, tmp_path / name)
    ]
    for trace, out in (
        (source, recorded / "after" / name),
        (source / name, tmp_path),
        (source, source),
    ):
        with pytest.raises(InputError, match="--out"):
            checking.recording_plan(trace, out)


def test_recordings_of_a_folder_do_not_replace_it(recorded):
    with pytest.raises(InputError, match="would replace"):
        checking.check_all(None, [recorded / "before"], recorded / "before")


def test_cases_are_written_and_named_by_their_seeds(capsys, tmp_path):
    code, out, _ = run(capsys, "cases", "async", 3, 4, "--out", tmp_path / "new")
    assert (code, out) == (0, f"2 traces in {tmp_path / 'new'}\n")
    assert traces.load(tmp_path / "new" / "async-4.json.gz") == make_case("async", 4)


def test_a_trace_that_vllm_stops_at_does_not_stop_the_others(monkeypatch, recorded):
    from record_vllm import recording

    def fails(vllm, document, where):
        raise InputError(f"{where}: vLLM stopped")

    monkeypatch.setattr(recording, "record", fails)
    (one,) = checking.check_all(None, [recorded / "before"], None)
    assert one.error == "vLLM stopped"
    assert checking.report([one])["not_recorded"] == 1


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.33.0", (0, 33, 0)),
        ("0.34.0rc1", (0, 34, 0)),
        ("0.22.1+cpu", (0, 22, 1)),
        ("1.0", (1, 0)),
    ],
)
def test_releases_are_compared_by_numbers(version, release):
    assert release_of(version) == release


def test_an_unknown_release_is_told_and_a_known_one_is_not():
    assert unknown_release(FIRST) is None
    assert unknown_release(LAST) is None
    assert "vLLM 0.99.0 is newer" in unknown_release((0, 99, 0))
    assert "vLLM 0.1.0 is older" in unknown_release((0, 1, 0))


@pytest.mark.vllm
@pytest.mark.skipif(not VLLM, reason="KVSWEEP_VLLM names no folder of record_vllm setup")
def test_vllm_decides_as_recorded(tmp_path):
    names = ("fuzz_00", "fuzz_24", "fuzz_52", "shared_s18_b300_thr128")
    goldens = [str(GOLDENS / f"{name}.json.gz") for name in names]
    goldens.append(str(GOLDENS.parent / "vllm2" / "pipeline" / "fuzz_154.json.gz"))
    command = [sys.executable, str(ROOT / "tools" / "record_vllm"), "check", "--env", VLLM]
    done = subprocess.run(
        [*command, *goldens, "--json", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["equal"] == len(goldens)
    again = traces.load_recording(tmp_path / "fuzz_00.json.gz")
    assert again == traces.load_recording(GOLDENS / "fuzz_00.json.gz") | {"steps": again["steps"]}


def test_files_that_are_there_are_replaced_only_when_told(capsys, recorded, monkeypatch):
    monkeypatch.setattr(cli, "_start", lambda folder: pytest.fail("started"))
    golden, other = recorded / "before" / "fuzz_00.json.gz", recorded / "mine.toml"
    other.write_text("mine")
    for arguments in (
        ("record", "--env", recorded, golden, "-o", other),
        ("record", "--env", recorded, recorded / "before", "-o", recorded / "after"),
    ):
        code, _, err = run(capsys, *arguments)
        assert code == 2
        assert "is there already; --overwrite replaces it" in err
    code, _, err = run(capsys, "check", "--env", recorded, golden, "--overwrite")
    assert (code, err) == (2, "record_vllm: --overwrite: has no effect without --out\n")
    with pytest.raises(InputError, match="is there already; --overwrite replaces it"):
        checking.check_all(None, [golden], recorded / "after")


def test_new_recordings_of_one_name_do_not_replace_each_other(recorded):
    """The second was written over the first."""
    folders = [recorded / "before", recorded / "after"]
    with pytest.raises(InputError, match=r"before/fuzz_00\.json\.gz and .*after/.* would both be"):
        checking.check_all(None, folders, recorded / "new")


def test_a_setup_that_did_not_end_is_told(capsys, recorded):
    """It was a traceback: there is no click in an environment that is only begun."""
    interpreter = environment.interpreter_of(recorded / "v33")
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to(sys.executable)
    code, _, err = run(capsys, "check", "--env", recorded / "v33", recorded / "before")
    assert code == 2
    assert "v33: has no vLLM in it: setup did not end; run it again" in err
