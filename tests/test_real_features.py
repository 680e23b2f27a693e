"""The kernel beside vLLM on a GPU: a CPU tier, drafts, and layers that keep states."""

import json
import re
from pathlib import Path

import goldens
import numpy as np
import pytest
import real_features
from click.testing import CliRunner
from real_gpus import LARGE, SAME, predicted

from kvsweep.cli import commands

DOCS = Path(__file__).parents[1] / "docs"
PAGE = (DOCS / "validation-features.md").read_text()
WORDS = " ".join(PAGE.split())


@pytest.mark.parametrize("name", ["drafts", "states"])
def test_every_decision_of_a_real_server_is_the_kernels(name):
    steps = preemptions = 0
    for run in real_features.runs(name):
        measured = {key: np.array(column) for key, column in run.measured["steps"].items()}
        measured["decode"] = measured["decode"] + measured.get("drafts", 0)
        for theirs, mine in SAME.items():
            np.testing.assert_array_equal(run.steps[mine], measured[theirs])
        counted = run.measured["requests"]["preemptions"]
        np.testing.assert_array_equal(run.requests["preemptions"], counted)
        steps += len(measured["decode"])
        preemptions += sum(counted)
    assert f"**all {steps:,} steps**" in WORDS
    assert f"each of the {preemptions:,} preemptions" in WORDS


@pytest.mark.parametrize("table", real_features.TABLES)
def test_the_page_says_what_comes_out(table):
    assert "\n".join(real_features.TABLES[table]()) in PAGE


def saved(part):
    """Return, by blocks, the share of the mean time to a first token that the tier saves."""
    pairs = zip(*map(real_features.runs, ("documents", "documents-tier")), strict=True)
    times = [[run.times("first_token_us")[part].mean() for run in pair] for pair in pairs]
    return [round(100 * (1 - beside / without)) for without, beside in times]


def test_a_tier_saves_what_the_page_says():
    measured, simulated = saved(0), saved(1)
    first, *others = zip(measured, simulated, strict=True)
    assert f"{first[0]} % of the mean TTFT with 1,300 blocks (simulated: {first[1]})" in WORDS
    assert all(f"{pair[0]} % with" in WORDS and f"({pair[1]})" in WORDS for pair in others)
    assert all(abs(pair[0] - pair[1]) < 10 for pair in (first, *others))


def test_documents_are_computed_once_with_a_tier_and_loaded_as_often():
    for run in real_features.runs("documents-tier"):
        computed = sum(run.measured["steps"]["prefill"])
        assert run.steps["prefill_tokens"].sum() == pytest.approx(computed, rel=0.005)
        loaded = sum(run.measured["requests"]["loaded_tokens"])
        copied = np.array(run.measured["copies"]["bytes"]) / real_features.TOKEN_BYTES
        assert copied[np.array(run.measured["copies"]["is_load"], bool)].sum() == loaded


def test_times_with_drafts_are_near_those_of_the_server():
    for run in real_features.runs("drafts"):
        measured, simulated = run.seconds
        assert simulated == pytest.approx(measured, rel=0.06)


def test_blocks_with_states_are_estimated_to_one_percent():
    measured = goldens.load("states", "h200")["about"]["blocks"]
    options = "--utilization 0.9 --max-model-len 8192 --max-num-seqs 256"
    arguments = ["blocks", "--model", str(real_features.CONFIG), "--gpu", "h200", *options.split()]
    arguments += ["--max-num-batched-tokens", "8192", "--json"]
    found = json.loads(CliRunner().invoke(commands, arguments).stdout)["usable_blocks"]
    assert found == pytest.approx(measured, rel=0.01)
    error = f"{100 * (found / measured - 1):.1f} %"
    assert f"room for {measured:,}, `kvsweep blocks` estimates {found:,} ({error})" in WORDS


WHOLE = {  # as printed: on the page, and the rung beside it; the column of it in its row
    "16 prompts of 512": ("8,192 tokens of 16 prompts", ("500", "64"), 5),
    "7966 of 16 prompts, 226 decodes": (
        "7,966 tokens of 16 prompts, 226 decodes",
        ("500", "256"),
        5,
    ),
    "1 decode": ("1 decode", ("500", "1"), 2),
    "64 decodes": ("64 decodes", ("500", "64"), 2),
    "256 decodes": ("256 decodes", ("500", "256"), 2),
}


def cells(row):
    return row.strip("| ").split(" | ")


@pytest.mark.parametrize("title", WHOLE)
def test_all_layers_step_after_step_take_what_the_page_says(title):
    printed = (real_features.MEASURED / "h200-steps" / "nemotron-h-8b-whole.txt").read_text()
    told = dict(re.findall(r"\] (.*), graph: .* last half ([\d.]+) ms", printed))[title]
    name, rung, column = WHOLE[title]
    row = next(found for found in map(cells, real_features.state_rows()) if found[:2] == [*rung])
    measured, _, layers = row[column : column + 3]
    error = f"{100 * (float(told) / float(measured) - 1):+.1f} %"
    assert f"| {name} | {layers.split()[0]} | {told} ({error}) | {measured} |" in PAGE


def test_steps_of_prompts_of_2000_tokens_took_what_the_page_says_on_average():
    run = goldens.load("states-ladder", "h200")["runs"][6]
    assert (run["prompt_tokens"], run["requests"]) == (2000, 64)
    took = np.diff(run["steps"]["ended_us"]) / 1e3
    full = np.array(run["steps"]["prefill"])[1:] >= LARGE
    assert f"took {took[full].mean():.0f} ms" in WORDS


def test_steps_of_prompts_took_so_much_longer_on_average_as_all_pages_say():
    ratios = []
    for run in goldens.load("states-ladder", "h200")["runs"]:
        steps = {key: np.array(column, dtype=float) for key, column in run["steps"].items()}
        full = steps["prefill"][1:] >= LARGE
        if not full.any() or (run["prompt_tokens"], run["requests"]) == (2000, 16):
            continue
        took = np.diff(steps["ended_us"])[full].mean()
        presets = real_features.presets_of_states()
        ratios.append([took / predicted(steps, each)[1:][full].mean() for each in presets])
    assert len(ratios) == 4
    computed, layers = (
        f"{100 * (min(part) - 1):.0f} to {100 * (max(part) - 1):.0f} % longer"
        for part in zip(*ratios, strict=True)
    )
    assert f"took on average {computed} than computed, and {layers} than the layers" in WORDS
    for page in ("memory.md", "presets.md"):
        assert f"**prompts took {computed}**" in (DOCS / page).read_text()
