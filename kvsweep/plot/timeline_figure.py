"""The life of requests as a figure: one row for each, the blocks in use below."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kvsweep.analysis.request_lives import Phase
from kvsweep.analysis.timeline import ROWS, Timeline, timeline_of
from kvsweep.analysis.wording import counted, gib
from kvsweep.arguments import checked
from kvsweep.plot import style
from kvsweep.plot.medium import current
from kvsweep.plot.panel import figure_of
from kvsweep.trace_replay import run_replay

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

# Cold colours make progress, warm ones lose time; they differ in lightness too.
LIGHT_PHASES = ("#c9cdd2", "#CC79A7", "#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73")
DARK_PHASES = ("#4a515c", "#E39AC4", "#2F81C1", "#7CC7F2", "#F0642B", "#F5C04A", "#2BC29B")

# Of the blocks in use of each instance: none is a phase's.
LIGHT_LINES = ("#222222", "#8a2be2", "#784818", "#a80078")
DARK_LINES = ("#e8eaed", "#b58cff", "#c08a55", "#b7c400")

LEAST = 0.6 / 72  # inches of a bar: thinner ones are not seen

CLOSE = 0.15  # of the height: texts that would touch
LOST = "not completed"

MAX_LINES = 4  # of blocks in use; of more instances the range is drawn


@checked
def plot_timeline(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    read: Sequence[str] = (),
) -> Figure:
    """Draw the life of every request of a replay: one row each, and the blocks in use below.

    What a request waits, prefills and decodes, when it is preempted and what it then prefills
    again. Requests are in the order of their arrival from the top, by instance if there are
    several; a cross marks one that did not complete. A long list is packed: in a row one request
    follows another that has ended.

    Parameters
    ----------
    source : path or dict
        A trace, or a sweep file of which `overrides` leave one cell, as for `kvsweep.replay`.
    overrides : sequence of str
        Changes of the scenario, ``KEY=VALUE`` each.
    read : sequence of str
        How to read a file, ``KEY=VALUE`` each.

    Returns
    -------
    matplotlib.figure.Figure
        For `save`; it belongs to no global state.

    Raises
    ------
    InputError
        As `kvsweep.replay`, or under the replica's rules, which log no decisions.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> cell = ["policy=base", "workload.rate=200", "cache.gpu_blocks=600", "seed=0"]
    >>> figure = kvsweep.plot.plot_timeline("small.toml", cell)
    >>> kvsweep.plot.save(figure, "timeline.png")
    """
    return draw_timeline(timeline_of(run_replay(source, overrides, read)))


def draw_timeline(found: Timeline) -> Figure:
    """Return the figure of a timeline."""
    rows = float(np.clip(0.05 * len(np.unique(places(found))), 1.2, 5.2))
    with style.drawing():
        figure = style.new_figure(rows + 2.2, 2 * style.COLUMN_WIDTH)
        style.head(figure, *heading(found))
        upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[rows, 1.1])
        _draw_rows(upper, found)
        _draw_used(lower, found)
        handles = _handles(found)
        figure.legend(
            handles=handles, loc="outside lower center", ncols=len(handles), handlelength=1.2
        )
    return figure


def _handles(found: Timeline) -> list[Artist]:
    """Return what the colours of bars mean, and the cross."""
    present = np.unique(found.phase)
    handles: list[Artist] = [Patch(color=colours()[p], label=Phase(p).meaning) for p in present]
    if len(found.lost):
        look: dict[str, Any] = {"color": style.INK, "marker": "x", "ms": 3.0, "mew": 0.6}
        handles.append(Line2D([], [], linestyle="none", label=LOST, **look))
    return handles


def colours() -> tuple[str, ...]:
    """Return the colour of each phase."""
    return LIGHT_PHASES if current().theme.paper == "#ffffff" else DARK_PHASES


def _line_colours() -> tuple[str, ...]:
    return LIGHT_LINES if current().theme.paper == "#ffffff" else DARK_LINES


def places(found: Timeline) -> NDArray[np.int64]:
    """Return where each row is drawn, from the top."""
    return found.lane if found.is_long else np.arange(len(found.rows))


def heading(found: Timeline) -> tuple[str, str]:
    """Return the title of a timeline, and what happened in a sentence."""
    told = [counted(len(found.rows), "request"), counted(found.preemptions, "preemption")]
    if len(found.lost):
        told.append(f"{len(found.lost):,} not completed")
    told.append(blocks_text(found))
    return f"Life of the requests of {Path(found.name).name}", ", ".join(told)


def blocks_text(found: Timeline) -> str:
    """Return how many blocks there are on how many instances."""
    counts = Counter(found.blocks)
    each = "" if len(found.blocks) == 1 else " on each instance"
    texts = {blocks: f"{counted(blocks, 'block')}{memory(found, blocks)}" for blocks in counts}
    if len(counts) == 1:
        return f"{texts[found.blocks[0]]}{each}"
    return ", ".join(
        f"{text} on {counted(counts[blocks], 'instance')}" for blocks, text in texts.items()
    )


def limits(found: Timeline) -> list[tuple[int, str]]:
    """Return the blocks that instances have, most first, and what is written at each of them.

    Of those that are close together only the first has a text.
    """
    counts = Counter(found.blocks)
    marks: list[tuple[int, str]] = []
    last = inf
    for blocks in sorted(counts, reverse=True):
        of = "" if len(counts) == 1 else f" of {counted(counts[blocks], 'instance')}"
        is_apart = last - blocks >= CLOSE * max(counts)
        marks.append((blocks, f"all {blocks:,}{memory(found, blocks)}{of}" if is_apart else ""))
        last = blocks if is_apart else last
    return marks


def memory(found: Timeline, blocks: float) -> str:
    """Return the memory of blocks in brackets, empty if it is not known."""
    if found.block_gib is None:
        return ""
    return f" ({gib(blocks * found.block_gib)} GiB per GPU)"


def _draw_rows(panel: Axes, found: Timeline) -> None:
    start, end = found.start_us / 1e6, found.end_us / 1e6
    whole = max(found.last_us / 1e6, 1e-6) * 1.005
    end = np.maximum(end, start + LEAST * whole / figure_of(panel).get_figwidth())
    place = places(found)
    count = int(place.max(initial=0)) + 1
    high = 0.42 if count <= ROWS else 0.5
    for phase in np.unique(found.phase):
        own = found.phase == phase
        x0, x1, y = start[own], end[own], place[found.row[own]].astype(float)
        corners = np.stack(
            [
                np.stack([x0, y - high], 1),
                np.stack([x1, y - high], 1),
                np.stack([x1, y + high], 1),
                np.stack([x0, y + high], 1),
            ],
            axis=1,
        )
        panel.add_collection(
            PolyCollection(
                list(corners),
                facecolors=colours()[phase],
                linewidths=0,
                rasterized=len(found.rows) > ROWS,
            )
        )
    panel.set_ylim(count - 0.4, -0.6)
    panel.set_xlim(0, whole)
    _mark_lost(panel, found)
    _name_rows(panel, found)


def _mark_lost(panel: Axes, found: Timeline) -> None:
    """Put a cross at the end of the requests that did not complete."""
    arrived = found.lost_us >= 0
    size = 3.0 if len(found.rows) <= ROWS else 1.5
    x, y = found.lost_us[arrived] / 1e6, places(found)[found.lost[arrived]]
    if len(x):
        panel.plot(x, y, "x", color=style.INK, ms=size, mew=0.6, clip_on=False)


def _name_rows(panel: Axes, found: Timeline) -> None:
    """Tell the instances apart by a line and a name; without several, count the requests."""
    panel.tick_params(labelbottom=False)
    panel.spines["left"].set_visible(False)
    if len(found.used) == 1:
        after = "\none after the other in a row" if found.is_long else ""
        panel.set_ylabel(f"requests{after}")
        style.group_thousands(panel, "y")
        panel.locator_params("y", integer=True, min_n_ticks=1)
        if found.is_long:
            panel.set_yticks([])
        return
    names = np.unique(found.instance)
    spans = [places(found)[found.instance == name] for name in names]
    texts = ["not routed" if name < 0 else f"instance {name}" for name in names]
    panel.set_yticks([(span.min() + span.max()) / 2 for span in spans], texts)
    panel.tick_params(axis="y", length=0)
    for edge in sorted(int(span.max()) for span in spans)[:-1]:
        panel.axhline(edge + 0.5, color=style.FAINT_INK, linewidth=0.5)


def used_label(found: Timeline) -> str:
    """Return what is drawn of the blocks in use."""
    return "blocks in use" + (" (fewest to most)" if len(found.used) > MAX_LINES else "")


def _draw_used(panel: Axes, found: Timeline) -> None:
    if len(found.used) <= MAX_LINES:
        for i, (times, used) in enumerate(found.used):
            panel.step(
                times / 1e6, used, where="post", color=_line_colours()[i], linewidth=0.9,
                linestyle=style.dash(i), label=f"instance {i}",
            )  # fmt: skip
        if len(found.used) > 1:
            panel.legend(
                loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(found.used),
                borderaxespad=0.1, fontsize=6.5, handlelength=2.4,
            )  # fmt: skip
    else:
        grid, low, high = used_range(found)
        panel.fill_between(grid / 1e6, low, high, step="post", alpha=0.4, color=_line_colours()[0])
    for blocks, text in limits(found):
        panel.axhline(blocks, color=style.INK, linewidth=0.7, linestyle=(0, (1, 2)))
        panel.annotate(
            text,
            (1.0, blocks),
            xycoords=("axes fraction", "data"),
            xytext=(-2, 2),
            textcoords="offset points",
            ha="right",
            va="bottom",
            fontsize=6.5,
            color=style.INK,
        )
    panel.set_ylim(0, 1.25 * max(found.blocks))
    panel.set_ylabel(used_label(found).replace("(", "\n("))
    panel.set_xlabel("time (s)")
    style.group_thousands(panel, "y")
    style.group_thousands(panel, "x")
    panel.grid(axis="y", color=style.GRID, linewidth=0.6)


def used_range(found: Timeline, points: int = 1500) -> tuple[Any, Any, Any]:
    """Return times, and the fewest and most blocks in use on any instance from each to the next."""
    grid = np.linspace(0, max(found.last_us, 1), points)
    low, high = np.full(points, max(found.blocks)), np.zeros(points, np.int64)
    for times, used in found.used:
        at_begin = used[np.searchsorted(times, grid, side="right") - 1]
        low, high = np.minimum(low, at_begin), np.maximum(high, at_begin)
        place = np.searchsorted(grid, times, side="right") - 1
        np.minimum.at(low, place, used)
        np.maximum.at(high, place, used)
    return grid, low, high
