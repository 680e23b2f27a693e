"""Write the table and the figure of the decode run in docs/kernel.md, from the kernel itself.

To renew both::

    python docs/figures/decode_run.py
"""

import os

os.environ["NUMBA_DISABLE_JIT"] = "1"  # before the kernel is imported

import re
import sys
from pathlib import Path

from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from watched import BLOCK, RUNS, watch

from kvsweep.plot import saving, style

DOCS = Path(__file__).resolve().parents[1]
FAINT = "#b0b0b0"
DASH = "\N{EN DASH}"


def common(row):
    """Return what the two runs have in common: they compute the same, in the same blocks."""
    return (row.step, row.phase, *row.computed, *row.base, row.takes, row.free, row.evictable)


def table(own, same):
    """Return the table of the page as Markdown."""
    lines = [
        "| step | phase | r0 | r1 | takes | free | evictable "
        "| own: due | cached | scheduled | same: due | cached | scheduled |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|:--|--:|--:|:--|",
    ]
    for one, other in zip(own, same, strict=True):
        assert common(one) == common(other)
        cells = [one.step, one.phase, *map(_cell, one.computed)]
        cells += [one.takes, one.free, one.evictable]
        for row in (one, other):
            due = [f"**{d}**" if d == row.step else _cell(d) for d in row.due]
            cells += [" · ".join(due), " · ".join(map(_cell, row.cached)), row.way]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _cell(value):
    return DASH if value is None else str(value)


def draw(own, same):
    """Return the figure: above what is computed, below when each run needs attention."""
    with style.style():
        figure = style.new_figure(3.7, width=2 * style.COLUMN_WIDTH)
        heights = {"height_ratios": [3.1, 3, 3]}
        above, middle, below = figure.subplots(3, 1, sharex=True, gridspec_kw=heights)
        _draw_tokens(above, own)
        _draw_attention(middle, own, "own answers")
        _draw_attention(below, same, "same answer")
        below.set_xticks([row.step for row in own], [str(row.step) for row in own])
        below.set_xlabel("step")
        below.set_xlim(-0.6, len(own) - 0.4)
        _add_legend(figure)
    return figure


def _bare(axes, labels, heading):
    """Leave of an axis its labels, at 0, -1, -2, and put the heading above on the left."""
    axes.set_yticks([-place for place in range(len(labels))], labels)
    axes.set_ylim(-len(labels) + 0.45, 0.55)
    axes.tick_params(axis="both", length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(heading, loc="left", fontsize=7.5, fontweight="bold", color=style.INK, pad=3)


def _draw_tokens(axes, rows):
    """Draw a box for each request and step, shaded by the block that its last token goes to."""
    _bare(axes, ["r0 computes token", "r1 computes token", "phase"], "both runs")
    for row in rows:
        axes.text(row.step, -2, row.phase, ha="center", va="center", color=style.FAINT_INK)
    for r in range(2):
        running = [row for row in rows if row.computed[r] is not None]
        held = running[0].hits[r]
        computed = held * BLOCK
        for row in running:
            tokens, computed = (computed + 1, row.computed[r]), row.computed[r]
            before, held = held, -(-computed // BLOCK)
            _draw_box(axes, r, row.step, tokens, held, held - before)
    for r, (place, side) in enumerate(((13.7, "left"), (4.3, "right"))):
        base = next(row.base[r] for row in rows if row.base[r] is not None)
        text = f"base {base}, takes in phase {base % BLOCK}".replace("-", "\N{MINUS SIGN}")
        axes.text(place, -r, text, ha=side, va="center", color=style.colour(r), fontsize=7)


def _draw_box(axes, r, step, tokens, held, taken):
    """Draw what request `r` computes in a step, when it holds `held` blocks, some just taken."""
    face = (style.colour(r), 0.2 if held % 2 else 0.42)
    axes.add_patch(Rectangle((step - 0.5, -r - 0.38), 1, 0.76, fc=face, ec="white", lw=0.8))
    text = f"{tokens[0]}{DASH}{tokens[1]}" if tokens[0] < tokens[1] else str(tokens[0])
    axes.text(step, -r - 0.03, text, ha="center", va="center", fontsize=7)
    for place in range(taken):
        axes.plot(step - 0.42 + 0.16 * place, -r + 0.3, "v", ms=4.5, color=style.colour(r), mew=0)


def _draw_attention(axes, rows, heading):
    """Draw when each request is due and publishes, and which steps are scheduled together."""
    _bare(axes, ["r0", "r1", "steps"], heading)
    for row in rows:
        axes.axvline(row.step, color=style.GRID, lw=0.5, zorder=0)
    for r in range(2):
        _draw_request(axes, r, [row for row in rows if row.computed[r] is not None])
    for first, last in sorted({_together(row) for row in rows}):
        ink = style.INK if rows[first].way == "alone" else FAINT
        axes.plot([first - 0.32, last + 0.32], [-2, -2], color=ink, lw=4, solid_capstyle="butt")


def _draw_request(axes, r, rows):
    """Draw when one request is due and publishes; `rows` are the steps in which it runs."""
    ink = style.colour(r)
    last = rows[-1]
    axes.plot([rows[0].step, last.step], [-r, -r], color=(ink, 0.35), lw=1.2, zorder=1)
    due = [row.step for row in rows if row.due[r] == row.step]
    axes.plot(due, [-r] * len(due), "o", ms=6.5, mfc="white", mec=ink, mew=1.1)
    cached = [rows[0].hits[r], *(row.cached[r] for row in rows)]
    at = [row.step for row, before in zip(rows, cached, strict=False) if row.cached[r] > before]
    axes.plot(at, [-r] * len(at), "D", ms=3, color=ink, mew=0)
    if last.cached[r] < last.computed[r] // BLOCK:
        axes.plot(last.step + 0.42, -r, "D", ms=4, mfc="white", mec=ink, mew=0.9)


def _together(row):
    """Return the first and the last of the steps that are scheduled together with this one."""
    bounds = re.findall(r"\d+", row.way) or [row.step]
    return int(bounds[0]), int(bounds[-1])


def _add_legend(figure):
    ink = style.FAINT_INK
    marks = [
        Line2D([], [], ls="", marker="v", ms=4.5, color=ink, mew=0, label="takes a block"),
        Line2D([], [], ls="", marker="o", ms=6.5, mfc="white", mec=ink, mew=1.1, label="due"),
        Line2D([], [], ls="", marker="D", ms=3, color=ink, mew=0, label="publishes in the step"),
        Line2D([], [], ls="", marker="D", ms=4, mfc="white", mec=ink, label="publishes when freed"),
        Line2D([], [], color=FAINT, lw=4, label="decode run"),
        Line2D([], [], color=style.INK, lw=4, label="step by itself"),
    ]
    for mark in marks:
        mark.set_solid_capstyle("butt")
    figure.legend(handles=marks, loc="outside lower center", ncols=6, handlelength=1.4)


def main(folder):
    """Write the page with its table, and the figure, below `folder`."""
    own, same = (watch(segments) for segments in RUNS.values())
    page = (DOCS / "kernel.md").read_text(encoding="utf-8")
    begin, end = "<!-- decode_run.py -->\n\n", "\n\n<!-- end -->"
    before, rest = page.split(begin)
    page = before + begin + table(own, same) + end + rest.split(end, 1)[1]
    (folder / "figures").mkdir(exist_ok=True)
    (folder / "kernel.md").write_text(page, encoding="utf-8")
    saving.save(draw(own, same), folder / "figures" / "decode-run.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else DOCS)
