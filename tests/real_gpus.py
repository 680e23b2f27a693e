"""vLLM on GPUs (``goldens/h200``, ``goldens/h100``) beside the kernel: rows of the pages, figures.

``python tests/real_gpus.py h200`` prints the rows of docs/validation-h200.md, ``... h200 draw
FILE.png`` draws its figure, and ``... h200 log open 3200 FILE.json`` writes what a log of that run
has.
"""

import functools
import itertools
import json
import sys
from pathlib import Path
from typing import NamedTuple

import goldens
import numpy as np
import xarray as xr

from kvsweep.cli.gpu_setup import about_model
from kvsweep.config.preset import load_preset
from kvsweep.gpu.shard import shard_of
from kvsweep.trace_replay import run_replay

MEASURED = Path(__file__).parents[1] / "docs" / "measurements"
PRESETS = {"h200": "llama-3.1-8b/h200/tp1", "h100": "llama-3.1-8b/h100/tp1"}
HYBRID = MEASURED / "h100-steps" / "gemma-3-12b-tp1-window.toml"
WITHOUT = HYBRID.with_name("gemma-3-12b-tp1.toml")
"""Fitted to the same timings without a term for the window, as the summary beside it has it."""
SAME = {"prefill": "prefill_tokens", "decode": "decode_tokens", "running": "running"}
SAME |= {"free_blocks": "free_blocks", "preempted": "preempted"}
FITTED = MEASURED / "h200-vllm" / "open-3200.toml"
LARGE = 7500
"""Tokens of a chunk on which a step depends, and not on how fast the host starts it."""


class Run(NamedTuple):
    """A run of the server, and the same by the kernel."""

    blocks: int
    measured: dict
    steps: dict
    requests: dict

    @property
    def seconds(self):
        """First arrival to last token: measured, simulated."""
        return (
            max(self.measured["requests"]["finish_us"]) / 1e6,
            self.requests["finish_us"].max() / 1e6,
        )

    def times(self, until):
        """Milliseconds from arrival to first token or to the end, of each request: both."""
        measured = np.array(self.measured["requests"][until]) - self.requests["arrival_us"]
        return measured / 1e3, (self.requests[until] - self.requests["arrival_us"]) / 1e3

    @property
    def preemptions(self):
        """How many there were: measured, simulated."""
        return (
            sum(self.measured["requests"]["preemptions"]),
            int(self.requests["preemptions"].sum()),
        )


@functools.cache
def runs(card, name, preset=None):
    """Return the runs of `burst` or `open`, or those of the hybrid model."""
    case = goldens.load(name, card)
    trace = {key: case[key] for key in case if key != "runs"}
    trace["scenario"]["latency"] = {"model": str(preset or PRESETS[card])}
    found = []
    for measured in case["runs"]:
        made = run_replay(trace, [f"cache.gpu_blocks={measured['gpu_blocks']}"])
        assert made.status == "ok"
        found.append(Run(measured["gpu_blocks"], measured, made.steps, made.requests))
    return found


def log(card, name, blocks):
    """Return a run as `kvsweep calibrate` takes it: when each request gave its tokens."""
    case = goldens.load(name, card)
    run = next(run for run in case.pop("runs") if run["gpu_blocks"] == blocks)
    del case["scenario"]["latency"]
    case["scenario"]["cache"]["gpu_blocks"] = blocks
    times = {"first_token_ts": "first_token_us", "last_token_ts": "finish_us"}
    measured = {key: run["requests"][column] for key, column in times.items()}
    return {**case, "expected": {"measured_us": measured}}


def rows(card, name, preset=None):
    """Return a row of the table for each of `runs`."""
    return [row_of(run) for run in runs(card, name, preset)]


def row_of(run):
    cells = [f"{run.blocks:,}", "{:,} | {:,}".format(*run.preemptions), both(*run.seconds, ".2f")]
    for until, statistic in (
        ("first_token_us", np.mean),
        ("first_token_us", lambda times: np.quantile(times, 0.99)),
        ("finish_us", np.mean),
    ):
        cells.append(both(*map(statistic, run.times(until)), ",.0f"))
    return f"| {' | '.join(cells)} |"


def both(measured, simulated, form):
    return f"{measured:{form}} | {beside(measured, simulated, form)}"


def beside(measured, simulated, form):
    return f"{simulated:{form}} ({100 * (simulated / measured - 1):+.1f} %)"


def ladder_rows(card, name="ladder", preset=None):
    """Return a row for each rung: steps that only decode, and steps full of prompts."""
    coefficients = load_preset(str(preset or PRESETS[card]), Path())
    return [rung(run, coefficients) for run in goldens.load(name, card)["runs"]]


def rung(run, *presets):
    steps = {key: np.array(column, dtype=float) for key, column in run["steps"].items()}
    took, told = np.diff(steps["ended_us"]), []
    for preset in presets:
        inside = _inside(steps, run["prompt_tokens"], preset.window)
        told.append(predicted(steps, preset, inside)[1:])
    decoding = decoding_steps(steps)
    cells = [f"{run['prompt_tokens']:,}", f"{steps['decode'][1:][decoding][0]:.0f}"]
    for kind in (decoding, steps["prefill"][1:] >= LARGE):
        if kind.any():
            measured = np.median(took[kind]) / 1e3
            others = [beside(measured, np.median(each[kind]) / 1e3, ".2f") for each in told]
            cells += [f"{measured:.2f}", *others]
        else:
            cells.append("|" + " |" * (len(told) - 1))
    return f"| {' | '.join(cells)} |"


def decoding_steps(steps):
    """Return which steps, from the second on, only decode, as many requests as ever.

    The first step without a prompt still waits for the host, which has started one with.
    """
    prefill, decode = steps["prefill"], steps["decode"][1:]
    found = (prefill[1:] == 0) & (np.r_[prefill[0], prefill[1:-1]] == 0)
    return found & (decode == decode[found].max())


def _inside(steps, length, window):
    """Return the tokens inside a window before decoded tokens, and before those of prompts.

    All prompts have one length, are computed one after the other, and decode alike.
    """
    if not window:
        return None
    reach, end = int(window[0]) - 1, np.cumsum(steps["prefill"]).astype(int)
    places = [
        np.arange(last - new, last) % length
        for last, new in zip(end, steps["prefill"], strict=True)
    ]
    assert [each.sum() for each in places] == steps["before_tokens"].tolist()
    of_one = steps["decode_context"] / np.maximum(steps["decode"], 1)
    prompts = [np.minimum(each, reach).sum() for each in places]
    return np.stack([steps["decode"] * np.minimum(of_one, reach), prompts])


def predicted(steps, preset, inside=None):
    """Return the microseconds of steps, by a preset; `inside`: what `_inside` returns."""
    sums = np.stack([steps[key] for key in ("prefill", "decode", "decode_context")])
    sums = np.vstack([sums, steps["before_tokens"]])
    computing = np.array(preset.beta[1:]) @ sums
    moving = preset.memory[0] + np.array(preset.memory[1:]) @ sums
    if preset.window:
        computing += np.array(preset.window[1:3]) @ inside
        moving += np.array(preset.window[3:]) @ inside
    return preset.beta[0] + np.maximum(computing, moving)


def host_rows(card):
    """Return, for each rung run both ways, milliseconds of decode steps: asynchronous or not."""
    pair = [goldens.load(name, card)["runs"] for name in ("ladder", "ladder-sync")]
    found = [{(run["prompt_tokens"], run["requests"]): run for run in each} for each in pair]
    return [_host(key, *(each[key] for each in found)) for key in found[0] if key in found[1]]


def _host(key, *pair):
    times, decoding = [], []
    for run in pair:
        steps = {name: np.array(column, dtype=float) for name, column in run["steps"].items()}
        found = decoding_steps(steps)
        times.append(np.median(np.diff(steps["ended_us"])[found]) / 1e3)
        decoding.append(int(steps["decode"][1:][found][0]))
    cells = [f"{key[0]:,}", " and ".join(f"{n}" for n in dict.fromkeys(decoding))]
    cells += [f"{time:.2f}" for time in (*times, times[1] - times[0])]
    return f"| {' | '.join(cells)} |"


def sharing_rows(card):
    """Return how far decode steps are off by how many decode: prompts shared by none, and by some.

    Of steps beside which no prompt is computed, medians of predicted / measured - 1.
    """
    preset = load_preset(PRESETS[card], Path())
    found = [_quiet(card, name, preset) for name in ("burst", "open")]
    rows = []
    for begin, end in itertools.pairwise((8, 16, 32, 48, 64, 96)):
        cells = [f"{begin} to {end - 1}"]
        for decode, context, ratio in found:
            mine = (decode >= begin) & (decode < end)
            tokens = np.median(context[mine] / decode[mine])
            cells += [f"{tokens:,.0f}", f"{100 * (np.median(ratio[mine]) - 1):+.1f} %"]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _quiet(card, name, preset):
    """Return decoding requests, their context and predicted / measured, of all runs' quiet steps.

    A prompt in the step before or after moves when the end of this one is noticed.
    """
    parts = []
    for run in goldens.load(name, card)["runs"]:
        steps = {key: np.array(column, dtype=float) for key, column in run["steps"].items()}
        took, told = np.diff(steps["ended_us"]), predicted(steps, preset)[1:]
        prefill = np.r_[steps["prefill"], 0]
        quiet = (prefill[:-2] == 0) & (prefill[1:-1] == 0) & (prefill[2:] == 0)
        columns = steps["decode"][1:], steps["decode_context"][1:], told / took
        parts.append(np.stack(columns)[:, quiet])
    return np.concatenate(parts, axis=1)


FIGURES = {
    "h200": (("burst", "400 at once", None), ("open", "30 requests/s", None)),
    "h100": (
        ("burst", "Llama, 400 at once", None),
        ("open", "Llama, 30 requests/s", None),
        ("hybrid-burst", "Gemma, 160 at once", HYBRID),
        ("hybrid-open", "Gemma, 14 requests/s", HYBRID),
    ),
}


def draw(card, path):
    """Draw preemptions and times over blocks, measured and simulated."""
    import matplotlib.pyplot as plt

    shape = len(FIGURES[card]), 3
    size = (11, 2.8 * shape[0])
    figure, panels = plt.subplots(*shape, figsize=size, sharex="row", layout="constrained")
    titles = ("preemptions", "time to first token, mean, s", "request, mean, s")
    for row, (name, label, preset) in zip(panels, FIGURES[card], strict=True):
        blocks = [run.blocks for run in runs(card, name, preset)]
        curves = _curves(card, name, preset)
        for panel, pairs, title in zip(row, curves, titles, strict=True):
            measured, simulated = zip(*pairs, strict=True)
            panel.plot(blocks, simulated, color="#1f6fb4", label="simulated, from timed layers")
            panel.plot(blocks, measured, "o", color="#d1495b", ms=5, label="measured")
            panel.set_title(title, loc="left", fontsize=10)
            panel.set_ylim(0, 1.08 * max(map(max, pairs)))
            panel.set_xscale("log")
            panel.set_xticks(blocks, [f"{each:,}" for each in blocks])
            panel.set_xticks([], minor=True)
            panel.tick_params(axis="x", labelsize=8)
            panel.set_xlabel("KV blocks", fontsize=9)
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(alpha=0.25)
        row[0].set_ylabel(label)
    if card == "h200":
        for panel, pairs in zip(panels[1], _curves(card, "open", FITTED), strict=True):
            label = "simulated, from the log at 3,200"
            of_log = [pair[1] for pair in pairs]
            panel.plot([run.blocks for run in runs(card, "open")], of_log, "--", color="#2a7f62")
            panel.lines[-1].set_label(label)
        panels[1][1].legend(frameon=False)
    panels[0][1].legend(frameon=False)
    figure.savefig(path, dpi=110)


def _curves(card, name, preset):
    """Return, for each panel, pairs of what was measured and what is simulated."""
    found = runs(card, name, preset)
    times = [
        [[part.mean() / 1e3 for part in run.times(until)] for run in found]
        for until in ("first_token_us", "finish_us")
    ]
    return [[run.preemptions for run in found], *times]


def _all(preset):
    """Return the rows of both kinds of runs of the hybrid model."""
    return [row for name in ("hybrid-burst", "hybrid-open") for row in rows("h100", name, preset)]


def layers_of_the_hybrid():
    """Return how long the layers took, as `kvsweep measure gpu` kept it, and its windows since."""
    ds = xr.Dataset.from_dict(goldens.load("hybrid-layers", "h100"))
    config = json.loads(HYBRID.with_name("gemma-3-12b-config.json").read_text())
    about = about_model("gemma", shard_of(config, "gemma", 1), "bf16")
    assert all(ds.attrs[key] == about[key] for key in about if not key.startswith("window"))
    return ds, {key: about[key] for key in about if key.startswith("window")}


TABLES = {
    "h200": {
        "burst": lambda: rows("h200", "burst"),
        "open": lambda: rows("h200", "open"),
        "single steps": lambda: ladder_rows("h200"),
        "from a log": lambda: rows("h200", "open", FITTED),
    },
    "h100": {
        "burst": lambda: rows("h100", "burst"),
        "open": lambda: rows("h100", "open"),
        "single steps": lambda: ladder_rows("h100"),
        "sharing": lambda: sharing_rows("h100"),
        "the host": lambda: host_rows("h100"),
        "hybrid, at once": lambda: rows("h100", "hybrid-burst", HYBRID),
        "hybrid, open": lambda: rows("h100", "hybrid-open", HYBRID),
        "hybrid, without a term for the window": lambda: _all(WITHOUT),
        "hybrid, single steps": lambda: ladder_rows("h100", "hybrid-ladder", HYBRID),
    },
}


def main(card, *arguments):
    """Print, draw or write what the command line asks for."""
    if arguments[:1] == ("draw",):
        draw(card, arguments[1])
    elif arguments[:1] == ("log",):
        Path(arguments[3]).write_text(json.dumps(log(card, arguments[1], int(arguments[2]))))
    else:
        tables = [[title, *table()] for title, table in TABLES[card].items()]
        sys.stdout.write("\n\n".join("\n".join(table) for table in tables) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
