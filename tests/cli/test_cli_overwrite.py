"""No command replaces a file unasked: all that have an option for an output are walked through."""

import json
from pathlib import Path

import click
import pytest
from longer import long_but
from stores import write_store
from sweeping import BASE, CLIFF, GRID, fake_batch, write_sweep
from test_cli_outputs import TRACE

from kvsweep.cli import commands
from kvsweep.cli.outputs import OutputPath, StorePath

MODEL = ("--model", "llama-3.1-8b", "--device", "cpu")
# The words before the output, which is the file "mine" with a suffix; of folders the files in them.
GIVEN = {
    "grid --out": ("small.toml", ".zarr"),
    "merge --out": ("a.zarr", ".zarr"),
    "plot --out": ("a.zarr", ".png"),
    "compare --plot": ("a.zarr", "a.zarr", ".png"),
    "report --out": ("a.zarr", ".html"),
    "schema --out": (".json",),
    "from-vllm --out": ("--gpu", "h100", "--log", "v.log", ".toml"),
    "replay --requests": ("t.json", ".csv"),
    "replay --steps": ("t.json", ".csv"),
    "replay --timeline": ("t.json", ".svg"),
    "trace info --plot": ("t.json", ".png"),
    "trace convert --out": ("t.json", ".json"),
    "trace slice --out": ("t.json", "--limit", "1", ".json"),
    "trace hits --out": ("t.json", ".csv"),
    "trace hits --plot": ("t.json", ".png"),
    "calibrate --out": ("t.json", ".toml"),
    "calibrate --validate": ("t.json", ""),
    "measure prefix --out": ("--model", "m.gguf", ".zarr"),
    "measure prefix --csv": ("--model", "m.gguf", "--sizes", "1:2", ""),
    "measure gpu --out": (*MODEL, ".toml"),
    "measure gpu --store": (*MODEL, ".zarr"),
    "measure make-model file": (".gguf",),
}
# What an option that is no single file writes.
FILES = {
    "calibrate --validate": "mine-series.png",
    "measure prefix --csv": "mine/prompts_a1_b2.csv",
}
# Stores say so in their own words, and a preset of `measure gpu` is replaced by another one alone.
OWN_WORDS = ("grid --out", "merge --out", "measure prefix --out", "measure gpu --out",
             "measure gpu --store")  # fmt: skip


def outputs(command, *words):
    """Yield each command with an output: its words, the command, and the parameter."""
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from outputs(inner, *words, name)
        return
    for parameter in command.params:
        kind = parameter.type
        if isinstance(kind, OutputPath) or (isinstance(kind, StorePath) and kind.writes):
            yield " ".join((*words, max(parameter.opts, key=len))), command


FOUND = dict(outputs(commands))


@pytest.fixture
def files(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.simulate.simulate_batch", fake_batch)
    write_store("a.zarr", BASE + GRID + CLIFF)
    write_sweep(tmp_path, BASE + GRID + CLIFF)
    Path("t.json").write_text(json.dumps(TRACE))
    Path("m.gguf").write_bytes(b"GGUF")
    Path("v.log").write_text("non-default args: {'model': 'qwen3-8b'}\n# GPU blocks: 2588\n")


def words_of(name):
    *words, option = name.split()
    *more, suffix = GIVEN[name]
    out = [f"mine{suffix}"] if option == "file" else [option, f"mine{suffix}"]
    return [*words, *more, *out], Path(FILES.get(name, f"mine{suffix}"))


def test_every_output_of_every_command_is_walked_through():
    assert GIVEN.keys() == FOUND.keys()


@pytest.mark.parametrize("name", long_but(GIVEN, *list(GIVEN)[::2]))
def test_a_file_that_is_there_is_kept(name, run, files):
    words, file = words_of(name)
    file.parent.mkdir(exist_ok=True)
    file.write_text("mine")
    code, out, err = run(*words)
    assert (code, out) == (2, ""), err
    assert file.name in err.splitlines()[-1]
    assert file.read_text() == "mine"
    if name not in OWN_WORDS:
        assert err.endswith("is there already; --overwrite replaces it\n")
    assert any("--overwrite" in option.opts for option in FOUND[name].params)


@pytest.mark.parametrize(
    "name",
    long_but(
        [
            *("plot --out", "compare --plot", "report --out", "schema --out", "trace info --plot"),
            *(
                "from-vllm --out",
                "trace convert --out",
                "trace slice --out",
                "trace hits --out",
                "trace hits --plot",
            ),
        ],
        *("plot --out", "report --out", "schema --out", "trace slice --out"),
    ),
)
def test_a_file_that_is_there_is_replaced_when_asked(name, run, files):
    words, file = words_of(name)
    file.write_text("mine")
    assert run(*words, "--overwrite")[0] == 0
    assert len(file.read_bytes()) > 20


def test_a_figure_whose_name_was_not_given_is_drawn_again(run, files):
    assert run("plot", "a.zarr")[:2] == (0, "a-cliff.png\n")
    first = Path("a-cliff.png").read_bytes()
    assert run("plot", "a.zarr", "--dark")[0] == 0
    assert Path("a-cliff.png").read_bytes() != first
    Path("a-cliff.png").write_text("mine")
    assert "a-cliff.png: is there already" in run("plot", "a.zarr")[2]
    assert run("plot", "a.zarr", "--overwrite")[0] == 0
