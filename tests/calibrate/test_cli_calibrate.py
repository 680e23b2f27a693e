"""``kvsweep calibrate`` on the command line."""

import json
from pathlib import Path

import pytest
import serving
from test_prefix import write_table

from kvsweep.cli import main, progress
from kvsweep.config import parse_scenario
from kvsweep.config.preset import load_preset
from kvsweep.errors import InputError


def run(*arguments):
    with pytest.raises(SystemExit) as end:
        main([str(a) for a in ("calibrate", *arguments)])
    return end.value.code


def test_a_table_becomes_a_preset_with_a_figure(tmp_path, capsys):
    write_table(tmp_path)
    out = tmp_path / "mine.toml"
    assert run(tmp_path, "--out", out, "--hardware", "GTX 1650", "--validate", tmp_path / "v") == 0
    printed = capsys.readouterr().out
    assert "predicted from others" in printed
    assert f'written: {out}; a sweep beside it has latency.model = "{Path(out).name}"' in printed
    assert (tmp_path / "v-ttft.png").stat().st_size > 5000
    latency = parse_scenario({"latency": {"model": "mine.toml"}}, str(tmp_path / "t.json")).latency
    assert latency.beta[1] > 0
    assert 'hardware = "GTX 1650"' in out.read_text()


def test_a_run_becomes_a_preset_with_figures(tmp_path, capsys):
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(count=40), series=True)))
    assert run(path, "--json", "--validate", tmp_path / "v") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["preset"]["kind"] == "linear"
    assert set(document["fits"]) == {"part", "whole"}
    assert set(document["series_mean_absolute_difference"]) == {
        "running",
        "waiting",
        "kv_cache_pct",
    }
    assert {file.name for file in tmp_path.glob("v-*.png")} == {"v-requests.png", "v-series.png"}
    assert run(path, "--split", "1") == 0
    printed = capsys.readouterr().out
    assert "held out" not in printed
    assert "beta[3]" in printed


def test_a_figure_of_another_run_does_not_stay(tmp_path, capsys):
    """A run without a log has no series; what kvsweep did not draw is kept, and told."""
    logged, path, figure = (tmp_path / name for name in ("log.json", "x.json", "v-series.png"))
    made = serving.trace(count=40)
    logged.write_text(json.dumps(serving.measured(made, series=True)))
    path.write_text(json.dumps(serving.measured(made)))
    options = ("--split", "1", "--validate", tmp_path / "v", "--overwrite")
    assert run(logged, *options) == 0
    assert figure.exists()
    assert run(path, *options) == 0
    assert not figure.exists()
    assert "kept" not in capsys.readouterr().err
    figure.write_text("mine")
    assert run(path, *options) == 0
    assert figure.read_text() == "mine"
    assert "v-series.png: kept, and not of this run" in capsys.readouterr().err


def test_only_figures_that_are_drawn_are_in_the_way(tmp_path, capsys):
    write_table(tmp_path)
    (tmp_path / "v-requests.png").write_text("mine")
    assert run(tmp_path, "--validate", tmp_path / "v") == 0


@pytest.mark.parametrize(("name", "model"), [(".csv", "csv"), ("..run.csv", "run"), ("-", "-")])
def test_a_preset_is_named_after_any_file(tmp_path, capsys, name, model):
    path, out = tmp_path / name, tmp_path / "mine.toml"
    path.write_text(json.dumps(serving.measured(serving.trace(count=40)) | {"about": None}))
    assert run(path, "--split", "1", "--out", out) == 0
    assert f'model = "{model}"' in out.read_text()


def test_a_preset_of_the_folder_one_is_in_has_its_name(tmp_path, capsys, monkeypatch):
    folder = tmp_path / "gtx.1650"
    folder.mkdir()
    write_table(folder)
    monkeypatch.chdir(folder)
    assert run(".", "--out", "../mine.toml") == 0
    assert 'model = "gtx"' in (tmp_path / "mine.toml").read_text()
    assert "on gtx.1650" in (tmp_path / "mine.toml").read_text()


def test_a_bad_fit_is_written_marked_and_ends_with_1(tmp_path, capsys):
    path, out = tmp_path / "served.json", tmp_path / "bad.toml"
    path.write_text(json.dumps(serving.measured(serving.trace(count=40))))
    assert run(path, "--set", "engine.max_num_seqs=1", "--out", out) == 1
    told = capsys.readouterr()
    assert "\nbad fit: " in told.out
    assert told.err.splitlines()[-1].startswith("kvsweep: bad fit: ")
    assert 'fit = "BAD FIT (' in out.read_text()
    assert run(path, "--set", "engine.max_num_seqs=1", "--json") == 1
    assert json.loads(capsys.readouterr().out)["good"] is False


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--from", "no-such"), "--from: unknown preset 'no-such'"),
        (("--split", "0"), "0.0 is not in the range"),
        (("--split", "nan"), "'--split': expected a number, got nan"),
        (("--out", "no/such/folder.toml"), "cannot be written"),
        (("--out", "mine.json"), "'--out': 'mine.json': presets are files *.toml: 'mine.toml'"),
        (("--out", "mine"), "'--out': 'mine': presets are files *.toml: 'mine.toml'"),
        (("--out", "llama-3.1"), "presets are files *.toml: 'llama-3.1.toml'"),
        (("--out", "folder/"), "'--out': 'folder/' names a folder: name a file"),
        (("--validate", "no/such/stem"), "there is no folder"),
        (("--overwrite",), "--overwrite: has no effect without --out or --validate"),
    ],
)
def test_bad_usage_is_told_in_one_line(tmp_path, capsys, arguments, message):
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(count=40))))
    assert run(path, *arguments) == 2
    told = capsys.readouterr().err.strip().splitlines()
    assert message in told[-1]


def test_options_of_a_run_are_refused_for_a_table(tmp_path, capsys):
    write_table(tmp_path)
    assert run(tmp_path, "--set", "cache.gpu_blocks=5") == 2
    assert "--set: only for a trace of a server" in capsys.readouterr().err
    assert run(tmp_path, "--split", "0.3") == 2
    assert "--split: only for a trace of a server" in capsys.readouterr().err


def test_of_one_size_nothing_is_predicted(tmp_path, capsys):
    (tmp_path / "x_a1_b2.csv").write_text("condition,ttft_ms\nhit,1\nmiss,1\n")
    run(tmp_path)
    printed = capsys.readouterr().out
    assert "nothing held out" in printed
    assert "nan" not in printed
    rows = [line for line in printed.splitlines() if line.startswith("1:2")]
    assert [line.split()[-2:] for line in rows] == [["-", "-"]] * 2


def test_a_fit_that_takes_long_says_so(tmp_path, capsys, monkeypatch):
    path = tmp_path / "served.json"
    path.write_text(json.dumps(serving.measured(serving.trace(count=40))))
    monkeypatch.setattr(progress, "SILENT", 0.0)
    run(path, "--split", "1")
    assert "fitting to 40 requests, by simulation ..." in capsys.readouterr().err


def test_a_window_of_the_preset_is_kept(tmp_path, capsys):
    """The preset's step times need a kernel that those of a trace without any do not."""
    window = [64, 0.9, 0.002, 0, 0]
    path, start = tmp_path / "served.json", tmp_path / "start.toml"
    made = serving.trace({"beta": list(serving.BETA), "window": window}, count=40)
    path.write_text(json.dumps(serving.measured(made)))
    about = 'model = "m"\nhardware = "h"\nkind = "linear"\nsource = "s"\nfit = "f"\n'
    start.write_text(f"{about}beta = {list(serving.BETA)}\nwindow = {window}\n")
    out = tmp_path / "out.toml"
    assert run(path, "--from", start, "--out", out) == 0
    preset = load_preset(str(out), tmp_path)
    assert list(preset.window) == window
    assert preset.beta == pytest.approx(serving.BETA, rel=0.01)
    assert "compiling" not in capsys.readouterr().err.partition("fitting")[2]


def test_what_is_no_file_of_this_machine_is_told_as_by_other_commands(tmp_path, capsys):
    """Of a bucket's store it said that it does not exist; of a folder, to say what was said."""
    assert run("s3://bucket/a.zarr") == run(tmp_path / "none.csv") == 2
    bucket, none = capsys.readouterr().err.splitlines()
    assert bucket.endswith("only files of this machine are read: copy it to one first")
    assert none.endswith("none.csv: cannot read: No such file or directory")
    assert run(tmp_path, "--read", "format=csv") == 2
    assert capsys.readouterr().err.endswith("(of logs of requests name one file)\n")


def test_a_fit_whose_figure_cannot_be_drawn_is_kept(tmp_path, capsys, monkeypatch):
    """A disk that was full under the figure lost the fit, its text and its preset."""
    (tmp_path / "x_a1_b2.csv").write_text("condition,ttft_ms\nhit,1\nmiss,1\n")

    def full(*_):
        raise InputError("v-ttft.png: cannot be written: No space left on device")

    monkeypatch.setattr("kvsweep.calibrate.figures.draw_prefix", full)
    out = tmp_path / "out.toml"
    assert run(tmp_path, "--out", out, "--validate", tmp_path / "v") == 2
    assert load_preset(str(out), tmp_path).kind == "linear"
    assert f"written: {out}" in capsys.readouterr().out


def test_figures_draw_what_was_simulated_and_hide_nothing(tmp_path, capsys, monkeypatch):
    """A line between sizes told times that no simulation has; a legend lay on the curves."""
    drawn = {}
    monkeypatch.setattr(
        "kvsweep.plot.saving.save", lambda fig, path: drawn.update({path.name: fig})
    )
    write_table(tmp_path)
    run_of = tmp_path / "served.json"
    run_of.write_text(json.dumps(serving.measured(serving.trace(count=40))))
    for path, stem in ((tmp_path / "results_a512_b256.csv", "one"), (run_of, "run")):
        run(path, "--validate", tmp_path / stem)
    (panel,) = drawn["one-ttft.png"].axes
    labels = [line.get_label() for line in panel.lines]
    assert labels == ["measured, median", "simulated, fitted to all sizes"]
    assert {line.get_linestyle() for line in panel.lines} == {"None"}
    figure = drawn["run-requests.png"]
    assert [panel.get_legend() for panel in figure.axes] == [None] * 3
    assert [text.get_text() for text in figure.legends[0].texts] == ["measured", "simulated"]
