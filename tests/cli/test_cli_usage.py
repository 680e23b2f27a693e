import os
import re
from pathlib import Path
from typing import get_args

import click
import pytest
from sweeping import write_sweep

import kvsweep
from kvsweep.cli import commands
from kvsweep.cli.outputs import StorePath
from kvsweep.cli.plot_kinds import KINDS, PREFIX
from kvsweep.config.trace_reading import Format

ROOT = Path(__file__).parents[2]


def leaves(group, *names):
    """Yield the commands of a group and of the groups in it, with the words that name them."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, *names, name)
        else:
            yield pytest.param((*names, name), command, id=" ".join((*names, name)))


@pytest.mark.parametrize(("names", "command"), list(leaves(commands)))
def test_every_command_has_help_with_examples(run, names, command):
    code, out, _ = run(*names, "--help")
    assert code == 0
    _, _, examples = out.partition("Examples:\n")
    assert examples.count(f"  kvsweep {' '.join(names)} ") >= 2


@pytest.mark.parametrize(("names", "command"), list(leaves(commands)))
def test_every_command_can_print_json(names, command):
    assert any("--json" in option.opts for option in command.params)


@pytest.mark.parametrize(("names", "command"), list(leaves(commands)))
def test_examples_use_options_that_exist(names, command):
    known = {flag for option in command.params for flag in option.opts}
    for example in command.examples:
        words = example.split()
        assert words[: len(names) + 1] == ["kvsweep", *names]
        own = words[: words.index("vllm")] if "vllm" in words else words  # the rest is a server's
        assert {word for word in own if word.startswith("-")} <= known


def test_the_help_of_replay_names_the_formats_that_are_read(run):
    told = " ".join(run("replay", "--help")[1].split())
    for word in ("kvsweep-trace/1", "Mooncake", "Azure", "BurstGPT", "docs/traces.md", "gzipped"):
        assert word in told


def test_every_format_of_a_trace_is_in_its_page_and_counted():
    page = (ROOT / "docs" / "traces.md").read_text(encoding="utf-8")
    table = page[page.index("| `format` |") :].split("\n\n")[0]
    cells = [row.split("|")[1] for row in table.split("\n")[2:]]
    named = {name for cell in cells for name in re.findall("`(.*?)`", cell)}
    assert named == set(get_args(Format))
    assert len(named) == 12
    assert "Twelve formats are read" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_kind_of_figure_is_in_the_help_of_plot(run):
    told = run("plot", "--help")[1]
    for kind in (*KINDS, PREFIX):
        assert re.search(rf"\b{kind}\b", told), kind


@pytest.mark.parametrize(
    "arguments", [("replay", "fifo"), ("grid", "fifo", "--dry-run"), ("calibrate", "fifo")]
)
def test_a_pipe_is_refused_and_not_waited_for(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("fifo")
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("kvsweep: fifo: cannot read: is a pipe, no regular file")


def test_version(run):
    assert run("--version")[1] == f"kvsweep, version {kvsweep.__version__}\n"


def test_no_command_prints_the_help(run):
    code, out, err = run()
    assert (code, out) == (2, "")
    assert "Commands:" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("gird",), "kvsweep: no command 'gird'; did you mean 'grid'?"),
        (("xyz",), "kvsweep: no command 'xyz'; one of: grid, show"),
        (("grid", "a.toml", "--worker", "2"), "--workers"),
        (("grid", "a.toml", "--workers", "two"), "'two' is not a valid integer"),
        (("grid",), "kvsweep grid: Missing argument 'SWEEP.toml'"),
        (("grid", "a.toml", "b.toml"), "unexpected extra argument"),
        (("grid", "none.toml"), "kvsweep: none.toml: cannot read: No such file or directory"),
    ],
)
def test_bad_usage_is_told_in_one_line(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_a_dry_run_checks_the_number_of_workers_too(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path)
    code, out, err = run("grid", "small.toml", "--dry-run", "--workers", "0")
    assert (code, out, err) == (2, "", "kvsweep: --workers: must be at least 1, not 0\n")


def test_memory_that_is_not_there_is_told_in_one_line(run, tmp_path, monkeypatch):
    def exhausted(*_, **__):
        raise MemoryError

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kvsweep.grid.plan", exhausted)
    write_sweep(tmp_path)
    code, out, err = run("grid", "small.toml", "--dry-run")
    assert (code, out) == (2, "")
    assert err.startswith("kvsweep: out of memory; fewer workers, fewer requests")
    assert err.count("\n") == 1


@pytest.mark.parametrize(("names", "command"), list(leaves(commands)))
def test_paths_complete_in_the_shell(names, command):
    """With completion on, `kvsweep show results/<TAB>` completed nothing."""
    takes = [p for p in command.params if isinstance(p.type, click.Path | StorePath)]
    for param in takes:
        found = param.shell_complete(click.Context(command), "results/")
        assert [item.type for item in found] == ["file"], param.name


@pytest.mark.parametrize(("names", "command"), list(leaves(commands)))
def test_what_is_written_to_is_named_alike_by_every_command(names, command):
    found = [option.opts for option in command.params if {"-o", "--out"} & set(option.opts)]
    assert found in ([], [["-o", "--out"]])


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("grid small.toml --seeds 2 --seeds 3", "kvsweep grid: --seeds"),
        ("grid small.toml -o a.zarr --out b.zarr", "kvsweep grid: --out"),
        ("trace info a.json --seed=1 --seed 1", "kvsweep trace info: --seed"),
        ("blocks --prefix-caching --no-prefix-caching", "kvsweep blocks: --prefix-caching"),
    ],
)
def test_an_option_of_one_value_is_given_once(run, line, named):
    """The last one won without a word."""
    told = f"{named}: given twice; the last one would win\n"
    assert run(*line.split()) == (2, "", told)


def test_options_of_several_values_and_flags_are_given_again(run):
    assert run("schema", "--help", "--help")[0] == 0
    code, _, err = run("grid", "none.toml", "--set", "a=1", "--set", "b=2", "--json", "--json")
    assert (code, err) == (2, "kvsweep: none.toml: cannot read: No such file or directory\n")
