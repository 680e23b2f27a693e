"""What the marks of a Pareto figure mean, on how many seeds they rest, and who is not drawn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from kvsweep.analysis import statistics
from kvsweep.analysis.wording import seeds_counted
from kvsweep.plot import style
from kvsweep.plot.labels import elided

if TYPE_CHECKING:
    from matplotlib.artist import Artist

    from kvsweep.analysis.pareto import Front, FrontGroup, Member

LETTERS = 14  # of the name of a member that is not drawn
MOST_NAMED = 2  # of those


def entries(front: Front, levels: bool) -> list[tuple[Artist, str]]:
    """Return the marks of a Pareto figure, each with what it means.

    Parameters
    ----------
    front : Front
        That is drawn.
    levels : bool
        Whether some of the plane is shaded as it is beyond a level.
    """
    looks: dict[str, Any] = {"color": style.FAINT_INK, "linestyle": "none", "marker": "o", "ms": 4}
    # Of more objectives than are drawn members are on the front that others seem to dominate.
    others = " and ".join(objective.metric for objective in front.objectives[2:])
    found: list[tuple[Artist, str]] = [
        (Line2D([], [], **looks), f"on the front{others and f', by {others} too'}"),
        (Line2D([], [], mfc=style.PAPER, **looks), "not on it"),
    ]
    members = [member for group in front.groups for member in group.members]
    if any(member.share_of_resamples is not None for member in members):
        bar = Line2D([], [], color=style.FAINT_INK, lw=1.0)
        found.append((bar, f"{100 * front.confidence:g}% interval, {_seeds(front)}"))
        found.append((_no_mark(), "(%): of resamples on it"))
    if any(_is_mixed(front, group) for group in front.groups):
        found.append((_no_mark(), "not paired: means of other seeds"))
    if levels:
        found.append((Patch(color=style.GRID), "beyond the level"))
    if absent := list(dict.fromkeys(str(m.name) for m in members if not has_values(m))):
        found.append((_no_mark(), _not_drawn(absent, several=len(front.groups) > 1)))
    return found


def has_values(member: Member) -> bool:
    """Whether a member has all of its values, without which it has no place in a figure."""
    return not np.isnan(member.values).any()


def _no_mark() -> Artist:
    return Line2D([], [], lw=0.0)


def _seeds(front: Front) -> str:
    """Say on how many seeds the intervals rest, and whether these are few."""
    counts = list(_counts(front))
    few = ": few" if statistics.fewest_note(counts, front.seeds) else ""
    return seeds_counted(counts, front.seeds or 1) + few


def _counts(front: Front) -> Iterator[int]:
    """Yield the seeds of each group or, where it is not paired, of each member that is drawn."""
    for group in front.groups:
        drawn = [member for member in group.members if has_values(member)]
        if group.paired and drawn:
            yield group.seeds
        else:
            yield from ((front.seeds or 1) - member.missing for member in drawn)


def _is_mixed(front: Front, group: FrontGroup) -> bool:
    """Whether means of a group are of different seeds, as too few have values of all members."""
    drawn = sum(map(has_values, group.members))
    return bool(front.seeds and front.seeds > 1 and not group.paired and drawn > 1)


def _not_drawn(names: list[str], *, several: bool) -> str:
    """Name the members that some panel lacks, the first of many."""
    told = ", ".join(elided(names, LETTERS)[:MOST_NAMED])
    more = len(names) - MOST_NAMED
    where = " in a panel" if several else ""
    return f"no value{where}: {told}{f' and {more} more' if more > 0 else ''}"
