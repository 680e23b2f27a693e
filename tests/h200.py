"""vLLM on an H200 (``goldens/h200``) beside the kernel: rows of docs/validation-h200.md, a figure.

``python tests/h200.py`` prints the rows, ``python tests/h200.py draw FILE.png`` draws the figure,
and ``python tests/h200.py log open 3200 FILE.json`` writes what a log of that run has.
"""

import functools
import json
import sys
from pathlib import Path
from typing import NamedTuple

import goldens
import numpy as np

from kvsweep.config.preset import load_preset
from kvsweep.trace_replay import run_replay

PRESET = "llama-3.1-8b/h200/tp1"
SAME = {"prefill": "prefill_tokens", "decode": "decode_tokens", "running": "running"}
SAME |= {"free_blocks": "free_blocks", "preempted": "preempted"}
FITTED = Path(__file__).parents[1] / "docs" / "measurements" / "h200-vllm" / "open-3200.toml"
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
def runs(name, preset=PRESET):
    """Return the runs of `burst` or `open`."""
    case = goldens.load(name, "h200")
    trace = {key: case[key] for key in case if key != "runs"}
    trace["scenario"]["latency"] = {"model": str(preset)}
    found = []
    for measured in case["runs"]:
        made = run_replay(trace, [f"cache.gpu_blocks={measured['gpu_blocks']}"])
        assert made.status == "ok"
        found.append(Run(measured["gpu_blocks"], measured, made.steps, made.requests))
    return found


def log(name, blocks):
    """Return a run as `kvsweep calibrate` takes it: when each request gave its tokens."""
    case = goldens.load(name, "h200")
    run = next(run for run in case.pop("runs") if run["gpu_blocks"] == blocks)
    del case["scenario"]["latency"]
    case["scenario"]["cache"]["gpu_blocks"] = blocks
    times = {"first_token_ts": "first_token_us", "last_token_ts": "finish_us"}
    measured = {key: run["requests"][column] for key, column in times.items()}
    return {**case, "expected": {"measured_us": measured}}


def rows(name, preset=PRESET):
    """Return a row of the table for each run of `burst` or `open`."""
    return [_row(run) for run in runs(name, preset)]


def _row(run):
    cells = [f"{run.blocks:,}", "{:,} | {:,}".format(*run.preemptions), _both(*run.seconds, ".2f")]
    for until, statistic in (
        ("first_token_us", np.mean),
        ("first_token_us", lambda times: np.quantile(times, 0.99)),
        ("finish_us", np.mean),
    ):
        cells.append(_both(*map(statistic, run.times(until)), ",.0f"))
    return f"| {' | '.join(cells)} |"


def _both(measured, simulated, form):
    return f"{measured:{form}} | {simulated:{form}} ({100 * (simulated / measured - 1):+.1f} %)"


def ladder_rows():
    """Return a row for each rung: steps that only decode, and steps full of prompts."""
    return [_rung(run) for run in goldens.load("ladder", "h200")["runs"]]


def _rung(run):
    steps = {key: np.array(column, dtype=float) for key, column in run["steps"].items()}
    took, told = np.diff(steps["ended_us"]), predicted(steps)[1:]
    prefill = steps["prefill"][1:]
    # The first step without a prompt still waits for the host, which has started one with.
    decoding = (prefill == 0) & (np.r_[steps["prefill"][0], prefill[:-1]] == 0)
    decode = steps["decode"][1:]
    decoding &= decode == decode[decoding].max()
    cells = [f"{run['prompt_tokens']:,}", f"{decode[decoding][0]:.0f}"]
    for kind in (decoding, prefill >= LARGE):
        both = (np.median(took[kind]) / 1e3, np.median(told[kind]) / 1e3) if kind.any() else None
        cells.append(_both(*both, ".2f") if both else "|")
    return f"| {' | '.join(cells)} |"


def predicted(steps):
    """Return the microseconds of steps, by the preset."""
    preset = load_preset(PRESET, None)
    sums = np.stack([steps[key] for key in ("prefill", "decode", "decode_context")])
    sums = np.vstack([sums, steps["before_tokens"]])
    computing = np.array(preset.beta[1:]) @ sums
    moving = preset.memory[0] + np.array(preset.memory[1:]) @ sums
    return preset.beta[0] + np.maximum(computing, moving)


def draw(path):
    """Draw preemptions and times over blocks, measured and simulated."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 3, figsize=(11, 5.6), sharex="row", layout="constrained")
    titles = ("preemptions", "time to first token, mean, s", "request, mean, s")
    for row, (name, label) in zip(
        panels, (("burst", "400 at once"), ("open", "30 requests/s")), strict=True
    ):
        blocks = [run.blocks for run in runs(name)]
        for panel, pairs, title in zip(row, _curves(name, PRESET), titles, strict=True):
            measured, simulated = zip(*pairs, strict=True)
            panel.plot(blocks, simulated, color="#1f6fb4", label="simulated, from timed layers")
            panel.plot(blocks, measured, "o", color="#d1495b", ms=5, label="measured")
            panel.set_title(title, loc="left", fontsize=10)
            panel.set_ylim(bottom=0)
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.spines[["top", "right"]].set_visible(False)
            panel.grid(alpha=0.25)
        row[0].set_ylabel(label)
        row[1].set_xlabel("KV blocks")
    for panel, pairs in zip(panels[1], _curves("open", FITTED), strict=True):
        label = "simulated, from the log at 3,200"
        panel.plot(blocks, [pair[1] for pair in pairs], "--", color="#2a7f62", label=label)
    panels[0][1].legend(frameon=False)
    panels[1][1].legend(frameon=False)
    figure.savefig(path, dpi=110)


def _curves(name, preset):
    """Return, for each panel, pairs of what was measured and what is simulated."""
    found = runs(name, preset)
    times = [
        [[part.mean() / 1e3 for part in run.times(until)] for run in found]
        for until in ("first_token_us", "finish_us")
    ]
    return [[run.preemptions for run in found], *times]


def main(arguments):
    """Print, draw or write what the command line asks for."""
    if arguments[:1] == ["draw"]:
        draw(arguments[1])
    elif arguments[:1] == ["log"]:
        Path(arguments[3]).write_text(json.dumps(log(arguments[1], int(arguments[2]))))
    else:
        tables = rows("burst"), rows("open"), ladder_rows(), rows("open", FITTED)
        sys.stdout.write("\n\n".join("\n".join(table) for table in tables) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
