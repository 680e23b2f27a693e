"""What the README shows is true: its sweep is valid, its commands and options exist."""

import gzip
import json
import re
import tomllib
from pathlib import Path

import pytest

from kvsweep.cli import commands
from kvsweep.config import load_sweep
from kvsweep.config.transfer import links
from kvsweep.grid import plan
from kvsweep.policies import Routing, Scorer

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
GETTING_STARTED = (ROOT / "docs" / "getting-started.md").read_text()
LINE = {"timestamp": 5, "input_length": 600, "output_length": 9, "hash_ids": [1, 2]}


def blocks(language, text=README):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def test_the_sweep_shown_is_valid(tmp_path):
    (tmp_path / "shown.toml").write_text(blocks("toml")[0])
    assert plan(load_sweep(tmp_path / "shown.toml")).cells == 2 * 65 * 100


POLICIES = [text for text in blocks("toml") if text.startswith("[policies.")]
TRACES = [text for text in blocks("toml") if "trace =" in text]


@pytest.mark.parametrize("policies", POLICIES, ids=lambda text: text.split("]")[0][1:])
def test_the_policies_shown_are_valid_in_it(policies, tmp_path):
    names = re.findall(r"\[policies\.(.*)\]", policies)
    assert len(names) > 1
    more = blocks("toml")[0].replace('"least-loaded"', ", ".join(f'"{name}"' for name in names))
    (tmp_path / "more.toml").write_text(more + policies)
    assert plan(load_sweep(tmp_path / "more.toml")).cells == (1 + len(names)) * 65 * 100


def test_the_trace_shown_is_read_by_a_sweep(tmp_path):
    (text,) = TRACES
    assert len(blocks("toml")) == 1 + len(POLICIES) + len(TRACES)
    (name,) = re.findall('trace = "(.*)"', text)
    (tmp_path / name).write_bytes(gzip.compress(json.dumps(LINE).encode()))
    (tmp_path / "shown.toml").write_text(text + "[latency]\nbeta = [1000, 10, 5]\n")
    assert plan(load_sweep(tmp_path / "shown.toml")).cells == 3


def test_the_speeds_of_links_shown_are_those_of_the_links():
    shown = dict(re.findall(r"`([a-z0-9]+-[a-z0-9]+)` \(([\d.]+)", README))
    speeds = {name: link.gb_per_s for name, link in links().items()}
    assert {name: float(shown[name]) for name in speeds} == speeds


def test_every_preset_is_named():
    folder = ROOT / "kvsweep" / "presets"
    names = {str(p.relative_to(folder).with_suffix("")) for p in folder.rglob("*.toml")}
    page = (ROOT / "docs" / "presets.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\S+/\S+/\S+)  ", page, re.MULTILINE)) == names


def test_every_routing_and_scorer_is_explained():
    explained = re.findall(r"^\| `([a-z-]+)` \|", README, re.MULTILINE)
    assert {*Routing.labels_of("vllm"), *Scorer.labels_of("vllm")} <= set(explained)


@pytest.mark.parametrize(
    "line", re.findall(r"(?<!\w)kvsweep ([a-z]+ .*)", "".join(blocks("sh") + blocks("console")))
)
def test_the_commands_shown_exist(line):
    name, *words = line.split()
    command = commands.commands[name]
    command.make_context(name, words, resilient_parsing=False)


def test_there_are_two_commands_of_one_line_each():
    (first, second) = blocks("sh")[0].splitlines()
    assert first.startswith("python3 -m venv .venv && .venv/bin/pip install . && ")
    assert second.endswith(".venv/bin/pytest -n auto")


@pytest.mark.parametrize("path", sorted(ROOT.glob("sweeps/*.toml")), ids=lambda path: path.stem)
def test_the_sweeps_that_come_with_it_are_valid(path):
    assert plan(load_sweep(path)).cells > 0


def test_the_first_session_has_five_commands_and_a_sweep_that_is_valid(tmp_path):
    lines = re.findall(r"^\$ kvsweep (.*)", GETTING_STARTED, re.MULTILINE)
    assert len(lines) == 5
    for line in lines:
        name, *words = line.split()
        commands.commands[name].make_context(name, words, resilient_parsing=False)
    (text,) = blocks("toml", GETTING_STARTED)
    (tmp_path / "mooncake.jsonl.gz").write_bytes(gzip.compress(json.dumps(LINE).encode()))
    (tmp_path / "chat.toml").write_text(text)
    assert plan(load_sweep(tmp_path / "chat.toml")).cells == 1


def test_every_page_is_named():
    pages = {f"docs/{path.name}" for path in ROOT.glob("docs/*.md")}
    assert pages <= set(re.findall(r"\]\(([^)#]+)\)", README.partition("## More")[2]))


def test_where_things_live_is_in_the_order_of_imports():
    """Every module under `kvsweep/` has a row, none above one that it may not import."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rank = {
        name.strip().removeprefix("kvsweep."): level
        for level, names in enumerate(layers)
        for name in names.split("|")
    }
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Where things live")[2]
    rows = re.findall(r"^\| (`.*?) \|", text.partition("\n## ")[0], re.MULTILINE)
    listed = [re.sub(r"\.py$|/$", "", name) for row in rows for name in re.findall(r"`(.*?)`", row)]
    assert sorted(listed) == sorted(rank)
    assert [rank[name] for name in listed] == sorted(rank[name] for name in listed)


@pytest.mark.parametrize("file", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_somewhere(file):
    for target in re.findall(r"\]\(([^)#]+)\)", (ROOT / file).read_text()):
        if "://" not in target:
            assert (ROOT / target).exists(), target


def test_the_tests_that_the_table_of_faults_names_exist():
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text)
    assert len(named) == text.count("`tests/") > 20
    for file, test in named:
        assert f"def {test}" in (ROOT / file).read_text(), test


def test_the_readme_counts_the_recorded_runs():
    folder = ROOT / "tests" / "goldens"
    others = [path for path in folder.glob("vllm2/*/*.json.gz") if path.parent.name != "async"]
    counts = [len(list(folder.glob(f"{name}/*.json.gz"))) for name in ("vllm", "vllm2/async")]
    told = re.search(r"(?s)in (\d+) recorded runs of.*?, (\d+) of.*?and (\d+) with CPU", README)
    assert told is not None
    assert [int(number) for number in told.groups()] == [*counts, len(others)]


def _slugs(page):
    """Return what headings of a page are linked by, on a git host and on the site."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading) for heading in headings)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def test_links_to_headings_lead_to_one():
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    links = [
        (page, link)
        for page in pages
        for link in re.findall(r"\]\(([^()\s:]*#[^()\s]+)\)", page.read_text(encoding="utf-8"))
    ]
    assert len(links) > 20
    for page, link in links:
        file, _, heading = link.partition("#")
        there = (page.parent / file) if file else page
        assert there.suffix != ".md" or heading in _slugs(there), f"{page.name}: {link}"
