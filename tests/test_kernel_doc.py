"""The kernel's rule book, docs/kernel.md: what it names exists, and its example is what happens."""

import ast
import os
import re
import subprocess
import sys
from functools import cache
from itertools import pairwise
from pathlib import Path

import naive
import pytest
import twin

from kvsweep import policies, records
from kvsweep.config import rules
from kvsweep.kernel.scheduling import by_counts
from kvsweep.records import Event

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "kvsweep"
PAGE = (ROOT / "docs" / "kernel.md").read_text()
FIGURES = ROOT / "docs" / "figures"
FOLDERS = {"kernel": "kvsweep/kernel", "naive": "tests/naive"}
"""What the page writes short."""

RULE = re.compile(r"\bR\d+\.\d+\b")
REFERENCE = re.compile(r"`([\w./]+\.(?:py|toml))(?:::?([\w.]+))?`")
FIELDS = {
    "request": records.REQUEST_FIELDS,
    "lane": records.LANE_FIELDS,
    "inst": records.INSTANCE_FIELDS,
    "progress": records.PROGRESS_FIELDS,
}
STATES = {"ws": records.Workspace, "inp": records.Inputs, "out": records.Outputs}


def sections(level):
    """Return {heading: text below it} of the headings of a level."""
    parts = re.split(rf"^{'#' * level} (.*)$", PAGE, flags=re.MULTILINE)
    bodies = (re.split(rf"^#{{1,{level}}} ", body, flags=re.MULTILINE)[0] for body in parts[2::2])
    return dict(zip(parts[1::2], bodies, strict=True))


def numbered_rules():
    """Return {number: text} of the rules."""
    return {heading.split()[0]: text for heading, text in sections(4).items()}


def sources():
    """Return all files that may cite a rule."""
    trees = [p for folder in ("kvsweep", "tests", "docs") for p in (ROOT / folder).rglob("*.py")]
    return [*trees, ROOT / "CONTRIBUTING.md", ROOT / "docs" / "kernel.md"]


@cache
def names_in(path):
    """Return what a Python file defines: names, and those within its classes."""
    found = set()
    for node in ast.parse((ROOT / path).read_text()).body:
        for name in _defined(node):
            found.add(name)
            if isinstance(node, ast.ClassDef):
                found |= {f"{name}.{inner}" for part in node.body for inner in _defined(part)}
    return found


def _defined(node):
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target.id for target in targets if isinstance(target, ast.Name)]


def path_of(short):
    """Return a path of the page in full."""
    first, _, rest = short.partition("/")
    return f"{FOLDERS[first]}/{rest}" if first in FOLDERS else short


def test_rules_are_numbered_in_order_and_once():
    numbers = [heading.split()[0] for heading in sections(4)]
    assert all(RULE.fullmatch(number) for number in numbers)
    order = [tuple(map(int, number[1:].split("."))) for number in numbers]
    assert order == sorted(set(order))
    assert len(numbers) == PAGE.count("\n#### ")


def test_every_citation_in_the_code_resolves():
    known = set(numbered_rules())
    for path in sources():
        cited = set(RULE.findall(path.read_text()))
        assert cited <= known, f"{path}: {cited - known}"


@pytest.mark.parametrize(
    ("file", "rule"),
    [
        ("one_by_one", "R5.1"),
        ("by_counts", "R5.1"),
        ("admit", "R5.2"),
        ("outputs", "R5.4"),
        ("preempt", "R5.6"),
    ],
)
def test_the_files_that_decide_cite_their_rule(file, rule):
    assert f"rule {rule}" in (PACKAGE / "kernel" / "scheduling" / f"{file}.py").read_text()


def test_nothing_cites_a_text_that_is_not_here():
    """Comments once cited sections of a text outside the repository."""
    for path in sources():
        assert not re.search(r"semantics[,:]? section \d", path.read_text()), path


@pytest.mark.parametrize(("number", "text"), numbered_rules().items())
def test_every_rule_names_who_decides_it(number, text):
    kernel, decides = re.search(r"- Kernel: (.*)\n- Twin: (.*)", text, re.DOTALL).groups()
    assert any(name for _, name in REFERENCE.findall(kernel))
    found = REFERENCE.findall(decides)
    assert found
    assert all(path.startswith("naive/") and name for path, name in found)


def test_every_function_and_file_named_exists():
    found = REFERENCE.findall(PAGE)
    assert len(found) > 200
    for short, name in found:
        path = path_of(short)
        assert (ROOT / path).is_file(), short
        assert not name or name in names_in(path), f"{short}: {name}"


def test_every_field_named_exists():
    for variable, fields in FIELDS.items():
        named = set(re.findall(rf'\b{variable}\["(\w+)"\]', PAGE))
        assert named
        assert named <= {field.name for field in fields}, variable
    for variable, state in STATES.items():
        assert set(re.findall(rf"`{variable}\.(\w+)`", PAGE)) <= set(state._fields)
    other = set(re.findall(r'\b(\w+)\["\w+"\]', PAGE)) - set(FIELDS)
    assert other == set()


def test_links_lead_to_headings_and_files():
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    for target in re.findall(r"\]\(([^)]+)\)", PAGE):
        path, _, anchor = target.partition("#")
        assert anchor in anchors if not path else (ROOT / "docs" / path).is_file(), target


def test_every_site_that_wakes_a_head_is_listed():
    """A feature that forgets to wake a refused head changes results; so the list is complete."""
    text = sections(2)["What wakes a refused head"]
    table = re.findall(r"^\| `([\w./]+):(\w+)` \|", text, re.MULTILINE)
    sites = {site for site in functions() if _calls_waking(functions()[site])}
    begin = {(path, name) for path, name in _setters() if path.startswith("kvsweep/simulate/")}
    assert {(path_of(path), name) for path, name in table} == sites | begin


def test_only_two_helpers_wake_or_refuse_a_head():
    """Whoever sets the fields by hand would be missing in the list of the test above."""
    kernel = {name for path, name in _setters() if path.startswith("kvsweep/kernel/")}
    assert kernel == {"wake_head", "refuse_head"}


@cache
def functions():
    """Return {(path, name): syntax tree} of the functions of the kernel and of what calls it."""
    found = {}
    for path in (*PACKAGE.glob("kernel/**/*.py"), *PACKAGE.glob("simulate/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                found[str(path.relative_to(ROOT)), node.name] = node
    return found


def _setters():
    """Return the functions that assign to one of the two fields."""
    return [site for site, function in functions().items() if _sets_waking(function)]


def _sets_waking(function):
    stored = (
        getattr(node.slice, "value", None)
        for node in ast.walk(function)
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    )
    return not {"try_head", "try_head_at"}.isdisjoint(stored)


def _calls_waking(function):
    called = (node.func for node in ast.walk(function) if isinstance(node, ast.Call))
    names = {getattr(name, "attr", getattr(name, "id", None)) for name in called}
    return not {"wake_head", "refuse_head"}.isdisjoint(names)


def test_one_file_has_the_arithmetic_of_the_base():
    """So that whoever changes how many tokens a step computes finds all of it."""
    kernel = (PACKAGE / "kernel").rglob("*.py")
    assert [path.name for path in kernel if '"base"]' in path.read_text()] == ["decoding.py"]


def test_the_budget_and_its_check_name_each_other():
    """Counting relies on a check in another package; whoever changes one must see the other."""
    countable = getattr(by_counts.is_countable, "py_func", by_counts.is_countable)
    assert "_check_batch_limits" in countable.__doc__
    assert "is_countable" in rules._check_batch_limits.__doc__


def rows_of_the_table():
    """Return the rows of the decode run: lists of cells."""
    lines = PAGE.split("<!-- decode_run.py -->\n\n")[1].split("\n\n<!-- end -->")[0].splitlines()
    return [[cell.strip("* ") for cell in line.strip("| ").split("|")] for line in lines[2:]]


def numbers(cell):
    return [None if part.strip("* ") == "\N{EN DASH}" else int(part.strip("* ")) for part in cell]


@pytest.fixture
def traces(monkeypatch):
    """The traces of the two runs."""
    monkeypatch.syspath_prepend(FIGURES)
    import watched

    return {name: watched.trace(segments) for name, segments in watched.RUNS.items()}


@pytest.mark.slow
def test_the_page_is_as_the_kernel_draws_it(tmp_path):
    """The table is what the kernel does now; the figure is drawn."""
    search = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, str(FIGURES / "decode_run.py"), str(tmp_path)]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": search}, check=True)
    assert (tmp_path / "kernel.md").read_text() == PAGE
    assert (tmp_path / "figures" / "decode-run.png").stat().st_size > 10_000


def seen_in_the_twin(trace, monkeypatch):
    """Return what the naive twin has after each schedule, and who finishes when."""
    seen = []
    schedule = naive.instance.Instance._schedule

    def watching(instance, now):
        taken = instance.blocks_taken
        batch = schedule(instance, now)
        pool, running = instance.scheduler.pool, instance.scheduler.running
        cached = sum(pool.key[block] is not None for block in pool.free)
        by_id = {request.id: request for request in running}
        each = [by_id.get(r) for r in range(2)]
        seen.append(
            {
                "computed": [r and r.computed for r in each],
                "published": [r and r.published for r in each],
                "pool": [instance.blocks_taken - taken, len(pool.free), cached],
            }
        )
        return batch

    monkeypatch.setattr(naive.instance.Instance, "_schedule", watching)
    naive.simulate(trace, check=True)
    return seen


@pytest.mark.parametrize(("run", "column"), [("own", 7), ("same", 10)])
def test_the_table_is_what_the_twin_does(run, column, traces, monkeypatch):
    """The twin publishes at once, and so does the kernel where answers are the same."""
    rows = rows_of_the_table()
    seen = seen_in_the_twin(traces[run], monkeypatch)
    assert len(rows) == len(seen) == 19
    late = 0
    for row, want in zip(rows, seen, strict=True):
        assert numbers(row[2:4]) == want["computed"]
        assert numbers(row[4:7]) == want["pool"]
        published = numbers(row[column + 1].split("·"))
        for mine, theirs in zip(published, want["published"], strict=True):
            assert mine == theirs or mine < theirs
            late += mine != theirs
    assert (late > 0) is (run == "own")


@pytest.mark.parametrize(("run", "column"), [("own", 7), ("same", 10)])
def test_the_table_is_what_the_compiled_kernel_does(run, column, traces):
    rows = rows_of_the_table()
    single = twin.run_kernel(traces[run])
    assert single.outputs.steps["free_blocks"].tolist() == [int(row[5]) for row in rows]
    events = twin.events_by_step(single, 0)
    finishes = {r: step for step in range(19) for r, _ in events[step][Event.FINISH]}
    last_due = {}
    for row in rows:
        for r, due in enumerate(numbers(row[column].split("·"))):
            last_due[r] = due if due is not None else last_due.get(r)
    assert last_due == finishes == {0: 13, 1: 18}


def test_the_table_follows_from_base_and_phase():
    """What the text says of base -5 and base 0: when they take, when they fill, when they end."""
    for r, (base, column) in enumerate(((-5, 2), (0, 3))):
        steps = [(int(row[0]), row[column]) for row in rows_of_the_table()]
        running = [(step, int(tokens)) for step, tokens in steps if tokens != "\N{EN DASH}"]
        for (step, before), (after, tokens) in pairwise(running):
            assert (after, tokens) == (step + 1, before + 1)
            assert before == after - base
        assert running[-1][0] == base + 6 + 14 - 2, r


def test_every_family_of_policies_has_a_row_that_tells_where_it_is_decided():
    """Two families had none: of the eviction of the CPU tier, and of pulls that fail."""
    families = {kind for base in (policies._Policy, policies._Reader) for kind in _families(base)}
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Add a policy")[2]
    table = re.findall(r"^\| `(\w+)`: `[\w.]+` \| (.*?) \| (.*?) \| .*\|$", text, re.MULTILINE)
    assert sorted(row[0] for row in table) == sorted(kind.__name__ for kind in families)
    for family, *places in table:
        for short, name in re.findall(r"`([\w/]+\.py)`(?:, `([\w.]+)`)?", " ; ".join(places)):
            path = path_of(short)
            assert not name or name in names_in(path), f"{family}: {short}: {name}"


def _families(base):
    return [kind for kind in base.__subclasses__() if len(kind) > 0]


def test_what_the_page_for_contributors_names_is_there():
    """Those who look for a line begin there; names move."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    named = [(path, name) for path, name in REFERENCE.findall(page) if name and "::" not in name]
    folders = {"naive": "tests/naive", "tests": "tests", "kvsweep": "kvsweep"}
    assert len(named) > 30
    for path, name in named:
        first, _, rest = path.partition("/")
        file = f"{folders[first]}/{rest}" if first in folders else f"kvsweep/{path}"
        assert name in names_in(file), f"{path}:{name}"
