"""The life of requests as a page: the figure, to be zoomed into."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from kvsweep.analysis.request_lives import Phase
from kvsweep.analysis.timeline import Timeline, timeline_of
from kvsweep.arguments import checked
from kvsweep.plot.page import Page, embedded, page
from kvsweep.plot.timeline_figure import LOST, MAX_LINES, heading, limits, used_label, used_range
from kvsweep.trace_replay import run_replay

HINT = "Wheel: time; with Shift: rows. Drag to move, double click for all. Point at a bar to ask."


@checked
def timeline_page(
    source: str | Path | Mapping[str, Any],
    overrides: Sequence[str] = (),
    read: Sequence[str] = (),
) -> Page:
    """Return `plot_timeline` as a page of HTML to zoom into, without server or network.

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
    Page
        A string, whole and self-contained; a notebook shows it.

    Raises
    ------
    InputError
        As `plot_timeline`.

    Examples
    --------
    >>> import kvsweep, kvsweep.plot
    >>> cell = ["policy=base", "workload.rate=200", "cache.gpu_blocks=600", "seed=0"]
    >>> page = kvsweep.plot.timeline_page("small.toml", cell)
    >>> page[:15]
    '<!DOCTYPE html>'
    """
    return draw_page(timeline_of(run_replay(source, overrides, read)))


def draw_page(found: Timeline) -> Page:
    """Return the page of a timeline."""
    title, told = heading(found)
    names = "".join(
        f'<span><i class="p{phase}"></i>{escape(Phase(phase).meaning)}</span>'
        for phase in np.unique(found.phase)
    )
    body = f"""<h1>{escape(title)}</h1>
<p class="lead">{escape(told)}</p>
<div class="bar">
<button id="in">zoom in</button><button id="out">zoom out</button><button id="all">all</button>
<label><input type="checkbox" id="packed"> several requests in a row</label>
<span class="life-key">{names}{_other_marks(found)}</span>
</div>
<svg class="life" role="img" aria-label="{escape(told)}"></svg>
<p id="tip"></p>
<noscript><p>The figure is drawn by a script in this page, which your browser does not run.</p>
</noscript>
{embedded(drawn_data(found) | {"hint": HINT})}"""
    return page(title, body, ("life.css", "timeline.css"), ("life.js", "timeline.js"))


def _other_marks(found: Timeline) -> str:
    """Return what the cross and the lines of the blocks in use are."""
    marks = [f'<span><b aria-hidden="true">&times;</b> {LOST}</span>'] if len(found.lost) else []
    marks += [
        f'<span><u class="u{n}"></u>{name}</span>' for n, name in enumerate(line_names(found))
    ]
    return "".join(marks)


def line_names(found: Timeline) -> list[str]:
    """Return the names of the lines of blocks in use; none if there is one, or a range."""
    count = len(found.used)
    return [f"instance {n}" for n in range(count)] if 1 < count <= MAX_LINES else []


def drawn_data(found: Timeline) -> dict[str, Any]:
    """Return what the script draws; times in milliseconds."""
    used = [(times, blocks) for times, blocks in found.used]
    if len(used) > MAX_LINES:
        grid, low, high = used_range(found)
        used = [(grid, low), (grid, high)]
    return {
        "ids": found.rows.tolist(),
        "instance": found.instance.tolist(),
        "lane": found.lane.tolist(),
        "row": found.row.tolist(),
        "phase": found.phase.tolist(),
        "start": (found.start_us / 1000).tolist(),
        "end": (found.end_us / 1000).tolist(),
        "lost": found.lost.tolist(),
        "lost_at": (found.lost_us / 1000).tolist(),
        "lost_label": LOST,
        "lines": line_names(found),
        "used": [[(times / 1000).tolist(), blocks.tolist()] for times, blocks in used],
        "limits": limits(found),
        "last": found.last_us / 1000,
        "packed": found.is_long,
        "phases": [phase.meaning for phase in Phase],
        "used_label": used_label(found),
    }
