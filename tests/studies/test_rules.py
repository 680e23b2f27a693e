"""The rules by which figures are compared, gaps explained and claims judged."""

import json
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from itertools import count

import numpy as np
import pytest
from click.testing import CliRunner

from kvsweep.errors import InputError
from kvsweep.studies import DESIGNS, NAMES, replicate
from kvsweep.studies import bench as bench_module
from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import AS_SHIPPED, KERNEL, REPAIRED, SOUND_DEFECTS, repairing
from kvsweep.studies.explained_rows import explanation
from kvsweep.studies.findings import document
from kvsweep.studies.prefixes import expected_hits, first_blocks_shared
from kvsweep.studies.records import Claim, Printed, Report, Row, Table
from kvsweep.studies.render import text
from kvsweep.studies.runs import case, simulate
from kvsweep.workload.native import read_native


@pytest.mark.parametrize(
    ("printed", "found", "equal"),
    [
        ("417.2", 417.2445, True),
        ("417.2", 417.26, False),
        ("35", 35, True),
        ("35", 35.4, True),
        ("0.51", 0.5125, True),
        ("0", "livelock", False),
    ],
)
def test_equal_means_equal_in_every_printed_digit(printed, found, equal):
    assert Printed(printed).equals(found) is equal


@pytest.mark.parametrize(
    ("shipped", "repaired", "tried", "because"),
    [
        (100.0, 0.0, {"D0": 10.0, "D1": 60.0}, "D0 (90 %)"),
        (100.0, 0.0, {"D0": 10.0, "D1": 4.0}, "D1 (96 %), D0 (90 %)"),
        (100.0, 0.0, {"D0": 80.0, "D1": 120.0, "D0 + D1": 1.0}, "D0 + D1 (99 %)"),
        (100.0, 0.0, {"D0": 80.0, "D1": "livelock"}, "no single defect"),
        ("livelock", 5.0, {"D0": 7.0, "D1": "livelock", "D7": "crash"}, "D0"),
        ("crash", 5.0, {"D0": "crash"}, "no single defect"),
    ],
)
def test_explanation_of_a_gap(shipped, repaired, tried, because):
    assert explanation(shipped, repaired, tried) == because


def row(published, repaired):
    return Row("x", Printed(published), {"as shipped": float(published), "repaired": repaired}, 1)


@pytest.mark.parametrize(
    ("holds", "rows", "hypothesis", "verdict"),
    [
        ({"as shipped": True, "repaired": True}, (row("1.5", 1.5),), False, "stands"),
        (
            {"repaired": True},
            (row("1.5", 1.5), row("2.0", 1.0)),
            False,
            "stands with another number",
        ),
        ({"as shipped": True, "repaired": False}, (row("1.5", 1.5),), False, "artefact"),
        ({"repaired": True, "vLLM rules": False}, (), False, "artefact"),
        ({"repaired": True}, (), True, "supported"),
        ({"repaired": False}, (), True, "not supported"),
    ],
)
def test_verdict(holds, rows, hypothesis, verdict):
    claim = Claim("text", "source", "rule", holds, rows, hypothesis=hypothesis)
    assert str(claim.verdict) == verdict


def trace(*prompts):
    requests = [
        {"id": i, "arrival_us": i, "prompt": prompt, "output": output} | extra
        for i, (prompt, output, extra) in enumerate(prompts)
    ]
    return read_native({"format": "kvsweep-trace/1", "requests": requests}, "test")


def test_expected_hits_of_a_conversation():
    requests = trace(
        ([[0, 20]], [1, 12], {"session": 0, "round": 0}),
        ([[0, 20], [1, 12], [2, 5]], [3, 4], {"session": 0, "round": 1}),
        ([[4, 40]], [5, 8], {}),
    )
    stored = expected_hits(requests, 16, last_token=True)
    # 20 + 12 tokens are two full blocks; in vLLM the last of the 12 is never computed.
    assert (stored.reused, stored.blocks, stored.prompt_blocks) == (2, 2 + 3 + 3, 1 + 2 + 2)
    sampled = expected_hits(requests, 16, last_token=False)
    assert (sampled.reused, sampled.blocks) == (1, 2 + 3 + 3)


def test_hits_end_where_the_content_differs():
    requests = trace(
        ([[0, 20], [1, 20]], [2, 8], {"session": 0, "round": 0}),
        ([[0, 20], [7, 20]], [3, 8], {"session": 0, "round": 1}),
    )
    assert expected_hits(requests, 4, last_token=True).reused == 5


@pytest.mark.parametrize(
    ("second", "shared"),
    [([[0, 20]], 1), ([[0, 10], [3, 10]], 0), ([[0, 16], [3, 1]], 1), ([[0, 9]], 0)],
)
def test_first_blocks_shared(second, shared):
    requests = trace(([[0, 20]], [1, 1], {}), (second, [2, 1], {}))
    assert first_blocks_shared(requests, 16) == shared


def test_columns_switch_defects_and_nothing_else():
    tables = {"engine": {"rules": "blis", "blis": {"work_conserving": False}, "horizon_us": 9}}
    assert SOUND_DEFECTS == ("D0", "D1", "D2", "D3", "D11")
    assert AS_SHIPPED.apply(tables) == tables
    one = repairing("D1").apply(tables)["engine"]["blis"]
    assert one == {"work_conserving": False, "visit_evicted": False}
    assert len(REPAIRED.apply(tables)["engine"]["blis"]) == 6
    assert KERNEL.apply(tables) == {"engine": {"rules": "vllm"}}


def test_priorities_have_vllms_name_on_the_kernel():
    tables = {"engine": {"scheduler": "priority-fcfs", "priority": "slo-class"}}
    assert KERNEL.apply(tables)["engine"]["scheduler"] == "priority"


def test_runs_are_made_once_and_reported():
    calls = []
    bench = Bench(progress=lambda done, planned: calls.append((done, planned)))
    cells = [case("h8", 42, gpu_blocks=n) for n in (5000, 2100)]
    bench.load(cells, (AS_SHIPPED,))
    bench.load(cells, (AS_SHIPPED,))
    assert calls == [(1, 2), (2, 2)]
    assert bench.run(cells[1], AS_SHIPPED).preemptions == 35
    assert len(calls) == 2


@pytest.mark.long
@pytest.mark.slow
def test_worker_processes_give_the_same_runs():
    cells = [case("h8", 42, gpu_blocks=n) for n in (2100, 2000)]
    bench = Bench(workers=2)
    bench.load(cells, (AS_SHIPPED,))
    for cell in cells:
        assert bench.run(cell, AS_SHIPPED) == simulate(cell, AS_SHIPPED)


def sample():
    rows = (
        Row("a | b", Printed("1234.5"), {"as shipped": 1234.5, "repaired": "livelock"}, 1, "D0"),
        Row("c", None, {"as shipped": np.pi, "repaired": 2.0}, 1),
    )
    table = Table("A table", "Somewhere.", ("as shipped", "repaired"), rows, ("A note.",))
    claim = Claim("It is so.", "section 1", "it is", {"repaired": False}, why="It is not.")
    return Report("x", "A design", ("A story.",), (table,), (claim,))


def test_markdown():
    page = document("all", (sample(),))
    assert "| A design | 1 of 1 | 1 artefact |" in page
    assert "| a \\| b | 1,234.5 | 1,234.5 | livelock | D0 |" in page
    assert "| c |  | 3.1 | 2.0 |  |" in page
    assert "| It is so. | it is | repaired: no | **artefact** |" in page
    assert "| D14 |  |" in page
    assert page.endswith("|\n")


def test_text():
    shown = text(sample())
    assert "Somewhere. 1 of 1 published figures equal as shipped." in shown
    assert "ARTEFACT: It is so. (section 1)" in shown


def test_json():
    plain = json.loads(json.dumps(sample().to_dict(), allow_nan=False))
    assert plain["claims"][0]["verdict"] == "artefact"
    assert plain["tables"][0]["rows"][0]["published"] == "1234.5"


def test_unknown_design():
    message = r"'h-reasoning'; one of: h8, .*, all; did you mean 'h-reasoning-kv'\?"
    with pytest.raises(InputError, match=message):
        replicate("h-reasoning")


def test_command(monkeypatch):
    from kvsweep.cli.replicate import replicate as command

    monkeypatch.setattr("kvsweep.studies.replicate", lambda name, **_: (sample(),))
    runner = CliRunner()
    assert runner.invoke(command, ["h8"]).stdout == text(sample()) + "\n"
    assert runner.invoke(command, ["h8", "--markdown"]).stdout == document("h8", (sample(),))
    assert json.loads(runner.invoke(command, ["h8", "--json"]).stdout)["x"]["title"] == "A design"


def test_help_names_every_design():
    from kvsweep.cli.replicate import replicate as command

    assert "|".join(NAMES) in CliRunner().invoke(command, ["--help"]).stdout
    assert set(NAMES) == {*DESIGNS, "all"}


def test_a_worker_process_that_dies_is_one_line(monkeypatch):
    class Broken:
        def __init__(self, *args, **options):
            pass

        def submit(self, *args):
            future = Future()
            future.set_exception(BrokenProcessPool("terminated abruptly"))
            return future

        def shutdown(self, **options):
            pass

    monkeypatch.setattr(bench_module, "ProcessPoolExecutor", Broken)
    with pytest.raises(InputError, match=r"--workers: a process ended .* fewer than 3 need less"):
        Bench(workers=3).load([case("h8", 42, gpu_blocks=2100)], (AS_SHIPPED,))


def test_two_forms_of_output_at_once_are_refused():
    from kvsweep.cli.replicate import replicate as command

    asked = CliRunner().invoke(command, ["h8", "--json", "--markdown"])
    assert isinstance(asked.exception, InputError)
    assert str(asked.exception) == "--markdown: has no effect with --json: give one of them"


def test_no_end_is_promised_while_further_tables_will_ask_for_runs(monkeypatch):
    """`36 of 36 cells, 0.0 s left` was told, and twice as many came."""
    from kvsweep.cli import progress as shown
    from kvsweep.cli.replicate import replicate as command

    def run(name, *, progress, **_):
        for done in range(5):
            progress(done, max(done, 2))
        return (sample(),)

    monkeypatch.setattr("kvsweep.studies.replicate", run)
    monkeypatch.setattr("kvsweep.simulate.warm_up", lambda *_: None)
    monkeypatch.setattr(shown.time, "monotonic", count(0, 20).__next__)
    told = CliRunner().invoke(command, ["h8"]).stderr
    assert told.startswith("1 runs, 0.1 runs/s\n")
    assert "left" not in told
