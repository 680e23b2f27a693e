"""What is read is never written over, and what is written appears whole or not at all."""

import json
import os
import shutil
import stat
from pathlib import Path

import pytest
from stores import write_store
from sweeping import BASE, CLIFF, GRID, fake_batch, tree, write_sweep

import kvsweep
from kvsweep.errors import InputError
from kvsweep.files import written

TRACE = {
    "format": "kvsweep-trace/1",
    "scenario": {"latency": {"beta": [1000, 10, 5]}},
    "requests": [{"id": 0, "arrival_us": 0, "prompt": [[1, 20]], "output": [2, 3]}],
}


@pytest.fixture(autouse=True)
def quick(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)


@pytest.fixture
def trace():
    Path("t.json").write_text(json.dumps(TRACE))
    Path("soft.json").symlink_to("t.json")
    Path("hard.json").hardlink_to("t.json")
    Path("sub").mkdir()
    return "t.json"


@pytest.fixture
def store(tmp_path):
    write_sweep(tmp_path, BASE + GRID + CLIFF)
    write_store("a.zarr", BASE + GRID + CLIFF)
    return "a.zarr"


def refused(run, *arguments):
    """Check that a command is refused in one line and changes nothing; return the line."""
    before = tree(Path())
    code, out, err = run(*arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert tree(Path()) == before
    return err


@pytest.mark.parametrize("option", ["--requests", "--steps"])
@pytest.mark.parametrize("name", ["t.json", "./t.json", "sub/../t.json", "soft.json", "hard.json"])
def test_a_trace_is_not_replaced_by_what_is_made_of_it(run, trace, option, name):
    assert "t.json, which is read" in refused(run, "replay", trace, option, name)


def test_a_trace_read_through_a_link_is_not_either(run, trace):
    for source in ("soft.json", "hard.json"):
        assert "which is read" in refused(run, "replay", source, "--steps", "t.json")


@pytest.mark.parametrize("other", ["r.csv", "./r.csv", "sub/../r.csv", "link.csv"])
def test_two_outputs_are_two_files(run, trace, other):
    Path("link.csv").symlink_to("r.csv")
    line = refused(run, "replay", trace, "--requests", "r.csv", "--steps", other)
    assert "is the same file as --requests r.csv" in line


def test_a_preset_is_not_replaced_by_a_replay_with_it(run, trace):
    preset = next((Path(kvsweep.__file__).parent / "presets").rglob("tp*.toml"))
    shutil.copy(preset, "p.toml")
    text = json.dumps(TRACE | {"scenario": {"latency": {"model": "p.toml"}}})
    Path("t.json").write_text(text)
    run("replay", trace)  # which may compile, and says so in a line of its own
    assert "p.toml: is there already" in refused(run, "replay", trace, "--requests", "p.toml")
    line = refused(run, "replay", trace, "--requests", "p.toml", "--overwrite")
    assert "p.toml, which is read" in line


@pytest.mark.parametrize("option", ["--requests", "--steps", "--timeline"])
def test_a_file_that_is_there_is_replaced_by_a_replay_only_if_asked(run, trace, option):
    file = Path("life.html" if option == "--timeline" else "r.csv")
    file.write_text("mine")
    line = refused(run, "replay", trace, option, file)
    assert line == f"kvsweep: {option} {file}: is there already; --overwrite replaces it\n"
    assert run("replay", trace, option, file, "--overwrite")[0] == 0
    assert len(file.read_text()) > 20


def test_overwriting_nothing_has_no_effect(run, trace):
    assert "--overwrite: has no effect without" in refused(run, "replay", trace, "--overwrite")


def test_devices_may_take_both_outputs(run, trace):
    assert run("replay", trace, "--requests", os.devnull, "--steps", os.devnull)[0] == 0
    assert Path(os.devnull).is_char_device()


@pytest.mark.parametrize("out", ["a.zarr/figure.png", "a.zarr/status/zarr.png", "link/a.png"])
def test_a_figure_is_not_drawn_into_its_store(run, store, out):
    Path("link").symlink_to("a.zarr")
    assert "lies in the store " in refused(run, "plot", store, "-o", out)


def test_a_sweep_and_its_files_are_not_replaced_by_the_store_or_figure(run, tmp_path):
    write_sweep(tmp_path, BASE + GRID + CLIFF)
    assert "small.toml, which is read" in refused(run, "grid", "small.toml", "--out", "small.toml")
    write_sweep(tmp_path, BASE + GRID + CLIFF, "x-cliff.png")
    assert "which is read" in refused(run, "grid", "x-cliff.png", "--out", "x.zarr")


def test_a_store_with_a_trace_of_the_sweep_in_it_is_not_overwritten(run, store, tmp_path):
    Path("a.zarr/t.json").write_text(json.dumps(TRACE))
    text = BASE.replace("requests = 20", 'trace = "a.zarr/t.json"')
    write_sweep(tmp_path, text + GRID, "traced.toml")
    line = refused(run, "grid", "traced.toml", "--out", store, "--overwrite")
    assert "a.zarr/t.json, which is read" in line


def test_a_preset_is_not_replaced_by_the_fit_that_starts_from_it(run, trace):
    Path("p.toml").write_text("")
    line = refused(run, "calibrate", trace, "--from", "p.toml", "--out", "p.toml")
    assert "--out p.toml: would replace p.toml" in line
    assert "presets are files *.toml" in refused(run, "calibrate", trace, "--out", "t.json")
    Path("v-requests.png").write_text("")
    line = refused(run, "calibrate", "v-requests.png", "--validate", "v")
    assert "--validate (requests) v-requests.png" in line


def test_a_model_is_not_replaced_by_its_measurement(run):
    Path("m.gguf").write_bytes(b"GGUF")
    line = refused(run, "measure", "prefix", "--model", "m.gguf", "--out", "m.gguf", "--overwrite")
    assert "m.gguf, which is read" in line


def test_a_write_that_fails_leaves_what_was_there(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("old")

    def fails():
        with written(file) as new:
            new.write("half of it")
            raise OSError(28, "No space left on device")

    with pytest.raises(InputError, match=r"a\.csv: cannot be written: No space left"):
        fails()
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


def test_what_is_written_keeps_links_and_permissions(tmp_path):
    file, link = tmp_path / "a.csv", tmp_path / "b.csv"
    file.write_text("old")
    file.chmod(0o640)
    link.symlink_to(file)
    with written(link) as new:
        new.write("new")
    assert link.is_symlink()
    assert file.read_text() == "new"
    assert stat.S_IMODE(file.stat().st_mode) == 0o640


@pytest.mark.parametrize("name", ["none/a.csv", ".", "a" * 300])
def test_where_nothing_can_be_written_is_told(tmp_path, name):
    with pytest.raises(InputError, match="cannot be written: "), written(tmp_path / name):
        pass


@pytest.mark.parametrize("ending", [".zip", ".nc", ".TOML", ".png", ".tar.gz"])
def test_a_store_is_not_made_under_the_name_of_a_file(run, ending):
    """It became a folder of that name, which nothing opens that such files open with."""
    told = refused(run, "grid", "small.toml", "--out", f"a{ending}")
    assert told.startswith(f"kvsweep: a{ending}: a store is a folder, not a .")
    assert told.rstrip().endswith(".zarr'")
    assert not Path(f"a{ending}").exists()


def test_a_store_that_has_the_name_of_a_file_goes_on(run, tmp_path):
    write_sweep(tmp_path, BASE + GRID)
    assert run("grid", "small.toml", "--out", "llama-3.1")[0] == 0
    Path("llama-3.1").rename("a.zip")
    code, _, err = run("grid", "small.toml", "--out", "a.zip")
    assert (code, "a store is a folder" in err) == (0, False)


@pytest.mark.parametrize("command", ["plot", "report"])
def test_a_store_that_is_not_there_is_told_before_what_is_written_beside_it(
    run, tmp_path, monkeypatch, command
):
    """In a new clone the first figure failed for `--out results/h8-cliff.png`, never given."""
    monkeypatch.chdir(tmp_path)
    code, _, err = run(command, "results/h8.zarr")
    told = "kvsweep: results/h8.zarr: no such store; `kvsweep grid SWEEP.toml` makes one\n"
    assert (code, err) == (2, told)
    given = run(command, "results/h8.zarr", "-o", "none/h8.html")[2]
    assert "--out none/h8.html: cannot be written: there is no folder 'none'" in given


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/{}", "/proc/self/fd/{}"])
def test_a_stream_that_is_open_goes_on_where_it_is(tmp_path, capfd, name):
    """`--requests /dev/stdout > FILE` began FILE anew, and the summary was written over it."""
    file = os.open(tmp_path / "a.csv", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(file, b"before\n")
        with written(name.format(file)) as new:
            new.write("a,b\n")
        os.write(file, b"after\n")
    finally:
        os.close(file)
    text = (tmp_path / "a.csv").read_text()
    if name == "/dev/stdout":
        assert (text, capfd.readouterr().out) == ("before\nafter\n", "a,b\n")
    else:
        assert text == "before\na,b\nafter\n"


def test_a_name_without_its_ending_or_folder_is_told_the_whole(run, tmp_path, monkeypatch):
    """`kvsweep grid` made a store at results/h8.zarr, and `kvsweep show h8.zarr` knew of none."""
    monkeypatch.chdir(tmp_path)
    Path("sweeps").mkdir()
    Path("sweeps/h8.toml").write_text("")
    for name in ("h8", "h8.toml", "sweeps/h8"):
        told = f"kvsweep: {name}: no such file; did you mean 'sweeps/h8.toml'?\n"
        assert run("grid", name)[::2] == (2, told)
    Path("results/h8.zarr").mkdir(parents=True)
    for name in ("h8", "h8.zarr", "results/h8"):
        assert run("show", name)[2].endswith("makes one; did you mean 'results/h8.zarr'?\n")
    assert run("grid", "none.toml")[2].endswith(
        "none.toml: cannot read: No such file or directory\n"
    )
