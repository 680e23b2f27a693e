"""vLLM with a CPU tier, with drafts and with states on a GPU beside the kernel.

``python tests/real_features.py`` prints the rows of docs/validation-features.md,
``python tests/real_features.py draw FILE.png`` draws its figure.
"""

import functools
import sys
from pathlib import Path

import goldens
import numpy as np
from real_gpus import MEASURED, PRESETS, Run, both, decoding_steps, predicted, row_of, rung

from kvsweep.config.preset import load_preset
from kvsweep.sizing.asking import answer
from kvsweep.sizing.question import Question
from kvsweep.sizing.served_steps import step_terms
from kvsweep.trace_replay import run_replay

CARD = "h200"
CONFIG = MEASURED / "h200-vllm" / "nemotron-h-8b-config.json"
LAYERS = MEASURED / "h200-vllm" / "nemotron-h-8b.toml"
LINK = {"transfer_bandwidth": 0.27, "transfer_base_latency_us": 300}
"""Tokens per microsecond and microseconds of `copies`: of loads, as nobody waits for stores."""
TOKEN_BYTES = 131_072
DRAFT_US = 400


@functools.cache
def told_of_states():
    """Return the step times of the model with states, by its shape and the peaks of the card."""
    asked = Question(model=str(CONFIG), gpu=CARD, max_num_batched_tokens=8192, max_num_seqs=256)
    return step_terms(answer(asked).served, CARD)


def times_of_states():
    """Return them as a trace has them."""
    found = told_of_states()
    return {"beta": list(found.beta), "memory": list(found.memory)}


def presets_of_states():
    """Return a preset of computed times of the model with states, and that of `LAYERS`."""
    found = times_of_states()
    preset = load_preset(PRESETS[CARD], Path())
    preset = preset.model_copy(update={key: tuple(found[key]) for key in ("beta", "memory")})
    return preset, load_preset(str(LAYERS), Path())


@functools.cache
def runs(name, layers=False):
    """Return the runs of `documents`, `documents-tier`, `drafts` or `states`.

    With `layers` those of `states` take the times of `LAYERS`.
    """
    case = goldens.load(name, CARD)
    found = []
    for measured in case["runs"]:
        trace = {key: case[key] for key in case if key != "runs"}
        latency = {"model": str(LAYERS) if layers else PRESETS[CARD]}
        if name == "states" and not layers:
            latency = times_of_states()
        cache = {**case["scenario"]["cache"], "gpu_blocks": measured["gpu_blocks"]}
        if "offload" in cache:
            cache |= LINK
        engine = dict(case["scenario"]["engine"])
        if "accepted" in measured:
            engine["speculative"] = {**engine["speculative"], "draft_us": DRAFT_US}
            pairs = zip(case["requests"], measured["accepted"], strict=True)
            trace["requests"] = [{**one, "accepted": counts} for one, counts in pairs]
        trace["scenario"] = {"engine": engine, "cache": cache, "latency": latency}
        made = run_replay(trace)
        assert made.status == "ok"
        found.append(Run(measured["gpu_blocks"], measured, made.steps, made.requests))
    return found


def rows(name, layers=False):
    """Return a row of the table for each of `runs`."""
    return [row_of(run) for run in runs(name, layers)]


def states_rows():
    """Return the rows of the run with states: by computed times, and by those of `LAYERS`."""
    kinds = {"computed": False, "timed layers": True}
    return [f"| {name} {row}" for name, layers in kinds.items() for row in rows("states", layers)]


def tier_rows():
    """Return, by blocks, what both kinds of runs computed, and how long requests waited."""
    return [_tier(*pair) for pair in zip(runs("documents"), runs("documents-tier"), strict=True)]


def _tier(without, beside):
    cells = [f"{without.blocks:,}"]
    for run in (without, beside):
        computed = sum(run.measured["steps"]["prefill"]), run.steps["prefill_tokens"].sum()
        times = run.times("first_token_us")
        cells += [both(*computed, ",.0f"), both(*(part.mean() for part in times), ",.0f")]
    return f"| {' | '.join(cells)} |"


def copy_rows():
    """Return, of each direction, what its copies reached: all runs with a tier together."""
    columns = [run.measured["copies"] for run in runs("documents-tier")]
    names = ("is_load", "bytes", "took_us", "begun_us", "noticed_us")
    all_ = {name: np.concatenate([each[name] for each in columns]) for name in names}
    found = []
    for title, kind in (("to the CPU", 0), ("from it", 1)):
        size, took, begun, noticed = (all_[name][all_["is_load"] == kind] for name in names[1:])
        tokens = size / TOKEN_BYTES
        base, each = np.linalg.lstsq(np.c_[np.ones(len(tokens)), tokens], took, rcond=None)[0]
        cells = [title, f"{len(size)}", f"{np.median(size) / 1e6:,.0f}"]
        cells += [f"{np.median(took) / 1e3:.1f}", f"{np.median(noticed - begun) / 1e3:.1f}"]
        cells += [f"{size.sum() / took.sum() / 1e3:.1f}", f"{1 / each:.2f}", f"{base / 1e3:.1f}"]
        found.append(f"| {' | '.join(cells)} |")
    return found


def draft_rows():
    """Return decode steps of each rung with drafts: measured, and by the preset and `DRAFT_US`."""
    preset = load_preset(PRESETS[CARD], Path())
    return [_drafting(run, preset) for run in goldens.load("drafts-ladder", CARD)["runs"]]


def _drafting(run, preset):
    steps = {key: np.array(column, dtype=float) for key, column in run["steps"].items()}
    chosen = decoding_steps(steps)
    drafts = steps["drafts"]
    width = 1 + drafts / np.maximum(steps["decode"], 1)
    plain = predicted(steps, preset)
    once = predicted({**steps, "decode": steps["decode"] + drafts}, preset)
    each = {**steps, "decode": steps["decode"] + drafts}
    each["decode_context"] = width * steps["decode_context"]
    took = np.median(np.diff(steps["ended_us"])[chosen])
    added = DRAFT_US * (width.max() - 1)
    told = [
        np.median(part[1:][chosen])
        for part in (plain, once + added, predicted(each, preset) + added)
    ]
    cells = [f"{run['prompt_tokens']:,}", f"{run['requests']}", f"{took / 1e3:.2f}"]
    cells += [f"{told[0] / 1e3:.2f}"]
    cells += [f"{part / 1e3:.2f} ({100 * (part / took - 1):+.1f} %)" for part in told[1:]]
    return f"| {' | '.join(cells)} |"


def state_rows():
    """Return a row for each rung with states: steps that only decode, and steps full of prompts.

    Beside what was measured: by computed times, and by those of `LAYERS`.
    """
    presets = presets_of_states()
    return [rung(run, *presets) for run in goldens.load("states-ladder", CARD)["runs"]]


def draw(path):
    """Draw the time to the first token over blocks, with a CPU tier and without."""
    import matplotlib.pyplot as plt

    figure, panel = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, label, color in (
        ("documents", "without a tier", "#d1495b"),
        ("documents-tier", "with vLLM's tier", "#1f6fb4"),
    ):
        found = runs(name)
        blocks = [run.blocks for run in found]
        pairs = [[part.mean() / 1e3 for part in run.times("first_token_us")] for run in found]
        measured, simulated = zip(*pairs, strict=True)
        panel.plot(blocks, simulated, color=color, label=f"{label}, simulated")
        panel.plot(blocks, measured, "o", color=color, label=f"{label}, measured")
    panel.set_xscale("log")
    panel.set_yscale("log")
    panel.set_xticks(blocks, [f"{each:,}" for each in blocks])
    panel.set_xticks([], minor=True)
    panel.set_yticks([0.1, 1, 10], ["0.1 s", "1 s", "10 s"])
    panel.set_xlabel("KV blocks on the GPU")
    panel.set_title("time to the first token, mean", loc="left", fontsize=10)
    panel.spines[["top", "right"]].set_visible(False)
    panel.grid(alpha=0.25)
    panel.legend(frameon=False, fontsize=9)
    figure.savefig(path, dpi=110)


TABLES = {
    "tier": tier_rows,
    "copies": copy_rows,
    "drafts": lambda: rows("drafts"),
    "drafts, single steps": draft_rows,
    "states": states_rows,
    "states, single steps": state_rows,
}


def main(*arguments):
    """Print or draw what the command line asks for."""
    if arguments[:1] == ("draw",):
        draw(arguments[1])
    else:
        tables = [[title, *table()] for title, table in TABLES.items()]
        sys.stdout.write("\n\n".join("\n".join(table) for table in tables) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
