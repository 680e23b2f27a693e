"""The replica equals the reference in every recorded value: as shipped and with its repairs."""

import pytest
from goldens import FOLDER, load
from longer import long_but

from kvsweep.replica import run

CASES = sorted(path.name.removesuffix(".json.gz") for path in (FOLDER / "blis").glob("*.gz"))

# Of the studies, some of each group and variant; the others repeat them, up to seconds each.
SHORT = (
    *("h8-2bb74cac-b2000-s42", "h8-2bb74cac-b2000-s42-skip", "h8-2bb74cac-b2000-s42-sound"),
    *("h8-2bb74cac-b5000-s42", "h10-single-s42", "h10-cpu100-s42-skip", "h10-off1.0-s42-sound"),
    *("hrkv-stdsess-b400-s42-skip", "hrkv-stdsess-b600-s42", "hrkv-reasoning-b400-s42"),
    "ideas-C-cfg4-s42",
)
KEPT = [name for name in CASES if name in SHORT or name.startswith(("micro", "feat"))]


def columns(records, names):
    return {name: [getattr(record, name) for record in records] for name in names}


@pytest.mark.slow
@pytest.mark.parametrize("name", long_but(CASES, *KEPT))
def test_equals_the_reference(name):
    golden = load(name, "blis")
    expected = golden["expected"]

    got = run(golden["scenario"], golden["requests"], steps="step_log" in expected)

    assert got.status == "ok"
    assert columns(got.requests, expected["requests"]) == expected["requests"]
    counters = expected["instances"]
    assert [columns([i], c) for i, c in zip(got.instances, counters, strict=True)] == [
        {key: [value] for key, value in c.items()} for c in counters
    ]
    assert {key: getattr(got.totals, key) for key in expected["totals"]} == expected["totals"]
    if "step_log" in expected:
        width = len(expected["step_log"]["columns"])
        log = [[list(step[:width]) for step in instance] for instance in got.steps]
        assert log == expected["step_log"]["instances"]


def test_all_groups_and_variants_are_covered():
    groups = {name.split("-")[0] for name in CASES}
    variants = {load(name, "blis")["about"]["variant"] for name in CASES}

    assert groups == {"micro", "feat", "h8", "h10", "h377", "hrkv", "ideas"}
    assert variants == {"ref", "skip", "sound"}
    assert len(CASES) >= 120
