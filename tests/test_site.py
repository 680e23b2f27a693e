"""What the documentation site is made of: a reference without gaps, examples that can be run."""

import re
import sys
import tomllib
from pathlib import Path

import pytest
import xarray as xr
from test_json_schema import SCHEMA, VALIDATOR

import kvsweep
from kvsweep.cli import commands
from kvsweep.config import Scenario
from kvsweep.config.json_schema import leaves
from kvsweep.metrics import VARIABLES

ROOT = Path(__file__).parents[1]
PAGES = [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "findings").glob("*.md"))]


@pytest.fixture(scope="module")
def reference():
    sys.path.insert(0, str(ROOT / "tools"))
    try:
        import site_reference
    finally:
        sys.path.pop(0)
    return site_reference


def rows(lines):
    return [re.split(r" (?<!\\)\| ", line[2:-2]) for line in "\n".join(lines).splitlines()
            if line.startswith("| `")]  # fmt: skip


def test_every_key_is_in_the_reference_with_its_meaning(reference):
    text = "\n".join(reference.keys())
    for section in Scenario.model_fields:
        part = text.partition(f"## `[{section}]`")[2].partition("\n## ")[0]
        found = {row[0].strip("`"): row for row in rows([part])}
        for key, (_, leaf) in leaves(SCHEMA):
            name = key.partition(".")[2]
            if key.startswith(f"{section}.") and not name.startswith("output."):
                default, unit, values, meaning = found[name][1:]
                assert meaning.rstrip(".").lower() == leaf["description"].lower(), key
                assert unit == leaf.get("x-unit", ""), key
                assert bool(default) == ("default" in leaf), key
                assert values, key


def test_a_row_has_default_unit_range_and_meaning(reference):
    (row,) = [row for row in rows(reference.keys()) if row[0] == "`gpu_blocks`"]
    meaning = "Usable KV blocks per instance."
    assert row == ["`gpu_blocks`", "`2200`", "block", "integer from 1 to 268,435,456", meaning]


def test_every_variable_and_every_command_is_in_the_reference(reference):
    named = {row[0].strip("`") for row in rows(reference.variables())}
    assert {*VARIABLES, "status", "status_detail"} <= named
    text = "\n".join(reference.help_pages())
    for name in commands.commands:
        assert f"## kvsweep {name}\n" in text
        assert f"Usage: kvsweep {name}" in text
    python = "\n".join(reference.python())
    for name in (*kvsweep.__all__, *(f"plot.{n}" for n in kvsweep.plot.__all__)):
        assert f":: kvsweep.{name}\n" in python


def test_every_page_is_reached_from_the_pages_that_lead():
    text = "".join(path.read_text() for path in (ROOT / "docs" / "site").glob("*.md"))
    for page in (ROOT / "docs").glob("*.md"):
        assert f"\n../{page.stem}\n" in text, page.name


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


COMMANDS = [
    pytest.param(line, id=f"{page.stem}: {line}")
    for page in PAGES
    for line in re.findall(r"^\$ kvsweep (.*)", page.read_text(), re.MULTILINE)
    if not line.endswith("\\")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_commands_shown_on_a_page_exist(line):
    words = [word.strip("'\"") for word in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", line)]
    command = commands
    while hasattr(command, "commands"):
        command = command.commands[words.pop(0)]
    for sign in ("|", ">"):
        words = words[: words.index(sign)] if sign in words else words
    command.make_context(line, words, resilient_parsing=False)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if blocks(page, "toml")], ids=lambda p: p.stem
)
def test_the_sweeps_shown_on_a_page_follow_the_schema(page):
    for text in blocks(page, "toml"):
        found = tomllib.loads(text)
        if set(found) <= set(SCHEMA["properties"]):
            assert [error.message for error in VALIDATOR.iter_errors(found)] == []


@pytest.mark.parametrize("page", ["README", "docs/explorer", "docs/reports", "docs/stores",
                                  "docs/timeline"])  # fmt: skip
def test_the_python_shown_on_a_page_runs(page, tmp_path, monkeypatch):
    """That of docs/clusters.md runs in `tests/workers/test_cluster_docs.py`."""
    if page == "docs/explorer":
        pytest.importorskip("anywidget")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweeps").mkdir()
    whole = (ROOT / "sweeps" / "h8.toml").read_text()
    small, count = re.subn(r"seed = \{ count = \d+ \}", "seed = { count = 2 }", whole)
    assert count == 1
    (tmp_path / "sweeps" / "h8.toml").write_text(small)
    kvsweep.run(kvsweep.load_sweep("sweeps/h8.toml"))
    found = blocks(ROOT / f"{page}.md", "python")
    assert found
    for text in found:
        exec(compile(text, f"{page}.md", "exec"), {"kvsweep": kvsweep, "xr": xr})
    assert bool(list(tmp_path.glob("*.svg"))) == (page in ("docs/reports", "docs/timeline"))


def test_no_other_page_shows_python():
    shown = {path.stem for path in (*PAGES, *ROOT.glob("*.md")) if blocks(path, "python")}
    assert shown == {"README", "clusters", "explorer", "reports", "stores", "timeline"}
