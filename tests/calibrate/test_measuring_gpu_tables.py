"""The tables of docs/measuring-gpu.md on an RTX 4090 are what the presets give."""

import re
from pathlib import Path

import pytest

from kvsweep.config.preset import load_preset

DOCUMENT = Path(__file__).parents[2] / "docs" / "measuring-gpu.md"
STEPS = {  # prefill tokens, decoding requests, context of both
    "1 request, 100 tokens": (0, 1, 100, 0),
    "32 requests, 1,000 tokens each": (0, 32, 32_000, 0),
    "200 requests, 200 tokens each": (0, 200, 40_000, 0),
    "chunk of 512 and 64 requests, 500 tokens each": (512, 64, 32_000, 512 * 511 / 2),
    "chunk of 512 alone": (512, 0, 0, 512 * 511 / 2),
    "chunk of 2,048 alone": (2048, 0, 0, 2048 * 2047 / 2),
}


@pytest.fixture(scope="module")
def rows():
    """Rows of all tables by their first cell."""
    found = re.findall(r"^\| (.+) \|$", DOCUMENT.read_text(), re.MULTILINE)
    return {cells[0]: cells[1:] for cells in (line.split(" | ") for line in found)}


@pytest.fixture(scope="module")
def presets():
    """Coefficients: linear, the roofline as fitted, and the roofline as of other GPUs."""
    linear = load_preset("llama-3.1-8b/rtx4090/tp1", Path())
    roofline = load_preset("llama-3.1-8b/rtx4090/tp1-roofline", Path())
    usual = {"compute_efficiency": 0.65, "bandwidth_efficiency": 0.72, "overhead_us": 500.0}
    guessed = roofline.roofline(roofline.device.model_copy(update=usual))
    fitted = roofline.roofline(roofline.device)
    return (linear.beta, (0.0,) * 5), fitted[:2], guessed[:2]


def milliseconds(terms, step):
    beta, memory = terms
    computing = sum(b * x for b, x in zip(beta[1:], step, strict=False))
    moving = memory[0] + sum(m * x for m, x in zip(memory[1:], step, strict=False))
    return (beta[0] + max(computing, moving)) / 1000


@pytest.mark.parametrize("name", STEPS)
def test_steps_take_what_the_table_says(name, rows, presets):
    linear, fitted, guessed = (milliseconds(terms, STEPS[name]) for terms in presets)
    told = [float(cell.replace(",", "")) for cell in rows[name]]
    assert told == pytest.approx([linear, fitted, linear / fitted, guessed], rel=0.005, abs=0.06)


def test_coefficients_are_those_of_the_presets(rows, presets):
    (linear, _), (computing, moving), _ = presets
    kinds = ["step", "prefill token", "decoding request", "token of its context"]
    for place, name in enumerate(kinds):
        _, both, told, *_ = rows[name]
        given = [float(cell.replace(",", "")) for cell in re.split(r", (?=\d)", both)]
        assert given == pytest.approx([computing[place], moving[place]], rel=0.01, abs=0.006)
        assert float(told.replace(",", "")) == pytest.approx(linear[place], rel=0.01)
