"""Pareto fronts as text."""

from __future__ import annotations

import numpy as np

from kvsweep.analysis.pareto import Front, FrontGroup, Member
from kvsweep.analysis.wording import MISSING, label, number
from kvsweep.report.table import interval_text, missing_note, seeds_note, table


def pareto_text(front: Front) -> str:
    """Write Pareto fronts: for each group who is on it in a sentence, then all members."""
    return "\n".join(pareto_parts(front)).rstrip()


def pareto_parts(front: Front) -> list[str]:
    """Return the lines of `pareto_text`, tables whole."""
    parts: list[str] = []
    for group in front.groups:
        parts += [front_sentence(front, group), ""]
        header = ("", *(f"{o.metric} ({o.goal})" for o in front.objectives), "front", "seeds",
                  "resamples", "tied with", "dominated by")  # fmt: skip
        parts += [table(header, [_member_row(member) for member in group.members]), ""]
    parts += [note for group in front.groups for note in _pairing_note(front, group)]
    return parts + seeds_note(front.seeds_note) + missing_note(front.missing)


def _pairing_note(front: Front, group: FrontGroup) -> list[str]:
    """Say on which seeds a front rests if some lack values that others have."""
    name = f"{label(group.labels)}: " if group.labels else ""
    if not front.seeds or group.seeds == front.seeds or not _any_values(group):
        return []
    if group.paired:
        return [f"{name}of {front.seeds:,} seeds, {group.seeds:,} count, in which all have values."]
    return [
        f"{name}of {front.seeds:,} seeds, fewer than two have values of all: each mean is over "
        "other seeds, and the differences are not paired."
    ]


def _any_values(group: FrontGroup) -> bool:
    return not all(np.isnan(member.values).any() for member in group.members)


def front_sentence(front: Front, group: FrontGroup) -> str:
    """Name the members on the front."""
    name = f"{label(group.labels)}: " if group.labels else ""
    members = [str(member.name) for member in group.members if member.on_front]
    on = ", ".join(members) if members else "no member has values"
    volume = "" if group.hypervolume is None else f" (hypervolume {group.hypervolume:.3f})"
    return f"{name}front over {front.over}: {on}{volume}"


def _member_row(member: Member) -> tuple[str, ...]:
    """Return the table row of one member; its intervals stand behind the means."""
    values = [
        number(value) if interval is None else f"{number(value)} {interval_text(interval)}"
        for value, interval in zip(member.values, member.intervals, strict=True)
    ]
    return (
        str(member.name),
        *values,
        "yes" if member.on_front else "no",
        *(MISSING if s is None else f"{s:.0%}"
          for s in (member.share_of_seeds, member.share_of_resamples)),
        ", ".join(str(name) for name in member.tied_with) or MISSING,
        ", ".join(str(name) for name in member.dominated_by) or MISSING,
    )  # fmt: skip
