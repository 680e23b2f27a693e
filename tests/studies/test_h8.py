"""H8 from end to end: every published figure, the verdicts, and the page that shows them."""

from pathlib import Path

import pytest

from kvsweep.studies import replicate
from kvsweep.studies.render import markdown, text

pytestmark = [pytest.mark.slow, pytest.mark.long]
PAGE = Path(__file__).parents[2] / "docs" / "findings" / "replication.md"


@pytest.fixture(scope="module")
def report():
    (report,) = replicate("h8")
    return report


def test_every_published_figure_is_reproduced(report):
    assert [table.reproduced for table in report.tables] == [(12, 12), (2, 2), (3, 3)]


def test_repaired_rules_and_the_kernel_preempt_less(report):
    rows = {row.label: row for row in report.tables[0].rows}
    at_2100 = [rows[f"2,100 blocks, seed {seed}"] for seed in (42, 123, 456)]
    assert [row.cells["repaired"] for row in at_2100] == [8, 5, 8]
    assert [row.cells["vLLM rules"] for row in at_2100] == [5, 3, 6]
    assert {row.because.split(" ")[0] for row in at_2100} == {"D1"}


def test_end_to_end_latency_is_the_kernels_once_its_definition_is(report):
    ample = report.tables[2].rows[-1]
    assert ample.label == "E2E p99, ms, 5,000 blocks"
    assert ample.shown("repaired, D4 too") == ample.shown("vLLM rules") == "2,957.5"
    assert ample.shown("as shipped") == "3,608.9"


def test_verdicts(report):
    assert [str(claim.verdict) for claim in report.claims] == [
        "stands",
        "stands with another number",
        "artefact",
    ]
    p99 = report.claims[2]
    assert p99.holds == {"as shipped": True, "repaired": True, "vLLM rules": False}


def test_text(report):
    shown = text(report)
    for line in (
        "12 of 12 published figures equal as shipped.",
        "2,100 blocks, seed 42          35          35         8           5  D1 (100 %)",
        "ARTEFACT: At 2,100 blocks the p99 of TTFT is 2,305 ms. (H8 and H10, seed 42)",
        "that loses 1,131 of the",
    ):
        assert line in shown
    assert max(map(len, shown.splitlines())) <= 140


def test_page_is_fresh(report):
    assert markdown(report) in PAGE.read_text(encoding="utf-8")
