"""Sensitivity indices as text."""

from __future__ import annotations

from kvsweep.analysis.sensitivity import Index, IndexGroup, Sensitivity
from kvsweep.analysis.statistics import Interval
from kvsweep.analysis.wording import MISSING, counted, decimals, label, number
from kvsweep.report.table import interval_text, plural, table


def sensitivity_text(found: Sensitivity) -> str:
    """Write the indices of each group, the most influential parameter first."""
    return "\n".join(sensitivity_parts(found))


def sensitivity_sentences(found: Sensitivity) -> list[str]:
    """Return which parameter explains most of the variance, a sentence for each group."""
    sentences = []
    for group in found.groups:
        known = [index for index in group.indices if index.total is not None]
        if known:
            first = max(known, key=lambda index: index.total or 0.0)
            name = f"{label(group.labels)}: " if group.labels else ""
            most = f"the most of {counted(len(group.indices), 'parameter')}"
            sentences.append(
                f"{name}of the variance of {found.metric}, {first.key} explains "
                f"{_share(first.first)} alone and {_share(first.total)} with all its interactions, "
                f"{most}"
            )
    return sentences


def sensitivity_parts(found: Sensitivity) -> list[str]:
    """Return the lines of `sensitivity_text`, tables whole."""
    unit = "" if found.units in ("1", "") else f" ({plural(found.units)})"
    parts = [f"Sensitivity of {found.metric}{unit} to the parameters of the design"]
    for group in found.groups:
        parts += ["", *_group(group)]
    share = f"{100 * found.confidence:g}% CI"
    seeds = "" if found.seeds is None else f" The measure is the mean over {found.seeds:,} seeds."
    return [
        *parts,
        "",
        "first: share of the variance that the parameter explains alone; total: with all its "
        f"interactions. {share}, over the points.{seeds}",
    ]


def _group(group: IndexGroup) -> list[str]:
    name = f"{label(group.labels)}: " if group.labels else ""
    spread = f"mean {number(group.mean)}, standard deviation {number(group.variance**0.5)}"
    lines = [f"{name}{spread}; {group.points:,} points in each sample"]
    if group.dropped:
        lines[0] += f", {group.dropped:,} left out, as some cell has no value"
    if all(index.total is None for index in group.indices):
        return [*lines, "the measure does not vary"]
    ordered = sorted(group.indices, key=lambda index: -(index.total or 0.0))
    header = ("parameter", "first", "", "total", "")
    return [*lines, table(header, [_row(index) for index in ordered])]


def _row(index: Index) -> tuple[str, ...]:
    return (
        index.key,
        _share(index.first, index.first_interval),
        interval_text(index.first_interval),
        _share(index.total, index.total_interval),
        interval_text(index.total_interval),
    )


def _share(value: float | None, interval: Interval | None = None) -> str:
    """Write an index to three decimals, or to those that its interval has."""
    places = 3 if interval is None else max(3, decimals(0.5 * (interval.high - interval.low)))
    return MISSING if value is None else f"{value:.{places}f}"
