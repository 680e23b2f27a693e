"""Main effects and interactions as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

import numpy as np

from kvsweep.analysis.effect_records import Effect, EffectGroup, Effects, Verdict
from kvsweep.analysis.wording import (
    ALL,
    MISSING,
    effect_name,
    label,
    number,
    reference_names,
    signed,
)
from kvsweep.report.table import interval_text, missing_note, plural, seeds_note, table, unit_of

MAX_ROWS = 40  # of one table; `ALL` has all
MAX_SENTENCES = 4

_TITLES = {False: "Single changes", True: "Interactions: beyond the changes apart"}


def effects_text(effects: Effects) -> str:
    """Write the effects of every group: what is shown in sentences, then tables of all."""
    return "\n".join(effects_parts(effects)).rstrip()


def effects_parts(effects: Effects) -> list[str]:
    """Return the lines of `effects_text`, tables whole."""
    parts = [_subject(effects)]
    for group in effects.groups:
        parts += _sentences(effects, group)
    for group, several, ratios in product(effects.groups, (False, True), (False, True)):
        found = [e for e in group.effects if (len(e.changes) > 1) == several]
        rows = [_row(e, ratios) for e in found]
        if rows and not (ratios and all(np.isnan(e.ratio.effect) for e in found)):
            header = ("", "together" if several else "", "effect", "interval", "seeds", "verdict")
            title = ["ratios"] if ratios else ["differences"]
            title += [label(group.labels)] if group.labels else []
            parts += ["", f"{_TITLES[several]} ({', '.join(title)})", *_cut_table(header, rows)]
    return [*parts, "", *_notes(effects)]


def _subject(effects: Effects) -> str:
    """Say what is measured, against what, and over what means are taken."""
    unit = "" if effects.units in ("1", "") else f" ({plural(effects.units)})"
    over = f"; means over {', '.join(effects.averaged)}" if effects.averaged else ""
    return f"Effects on {effects.metric}{unit} against {reference_names(effects)}{over}"


def _sentences(effects: Effects, group: EffectGroup) -> list[str]:
    """Tell the largest main effect, and the interactions that are shown, largest first."""
    name = f"{label(group.labels)}: " if group.labels else ""
    single = _shown(e for e in group.effects if len(e.changes) == 1)
    several = _shown(e for e in group.effects if len(e.changes) > 1)
    told = [_main_sentence(effects, effect) for effect in single[:1]]
    told += [_joint_sentence(effects, effect) for effect in several[:MAX_SENTENCES]]
    if len(several) > MAX_SENTENCES:
        told.append(f"and {len(several) - MAX_SENTENCES:,} more interactions")
    if not single:
        apart = [e for e in group.effects if len(e.changes) == 1]
        told.append(_none_shown("effect of a single change", apart))
    together = [e for e in group.effects if len(e.changes) > 1]
    if not several and together:
        told.append(_none_shown("interaction", together))
    return [name + text for text in told]


def _none_shown(what: str, effects: Sequence[Effect]) -> str:
    """Say that no difference is shown, how many ratios are, and how many could not be.

    The tables tell those too.
    """
    ratios = sum(e.ratio.verdict not in (None, Verdict.NOT_SHOWN) for e in effects)
    told = f"no {what} is shown{f' as a difference, {ratios:,} as a ratio' if ratios else ''}"
    unknown = sum(e.difference.verdict is None for e in effects)
    if unknown == len(effects):
        return f"{told}: none has an interval"
    return told + (f"; {unknown:,} of {len(effects):,} have no interval" if unknown else "")


def _shown(effects: Iterable[Effect]) -> list[Effect]:
    """Return the effects whose interval excludes zero, largest first."""
    kept = [e for e in effects if e.difference.verdict not in (None, Verdict.NOT_SHOWN)]
    return sorted(kept, key=lambda e: -abs(e.difference.effect))


def _main_sentence(effects: Effects, effect: Effect) -> str:
    """Write ``largest effect: gpu_blocks 1,500 raises preemption_rate by 0.4 (...)``."""
    found = effect.difference
    verb = "" if found.verdict is None else found.verdict.value
    return (
        f"largest effect: {effect_name(effect)} {verb} {effects.metric} by "
        f"{number(abs(found.effect))}{unit_of(found.effect, effects.units)} "
        f"({_support(effects, effect)})"
    )


def _joint_sentence(effects: Effects, effect: Effect) -> str:
    """Write what changes do together and how much of it is their interaction."""
    found = effect.difference
    verdict = "" if found.verdict is None else found.verdict.value
    return (
        f"{effect_name(effect)}: {verdict}, {signed(found.joint)}"
        f"{unit_of(found.joint, effects.units)} together, "
        f"{signed(found.effect)}{unit_of(found.effect, effects.units)} beyond the changes apart "
        f"({_support(effects, effect)})"
    )


def _support(effects: Effects, effect: Effect) -> str:
    """Return the interval and the seeds that an effect rests on."""
    found = effect.difference
    level = f"{100 * effects.confidence:g}% CI"
    text = f"{level} {interval_text(found.interval)}; {found.seeds:,} seeds"
    return f"{text}, {found.dropped:,} left out" if found.dropped else text


def _row(effect: Effect, ratios: bool) -> tuple[str, ...]:
    """Return the row of an effect; what changes do together stands before their interaction."""
    found, written = (effect.ratio, number) if ratios else (effect.difference, signed)
    return (
        effect_name(effect),
        written(found.joint) if len(effect.changes) > 1 else "",
        written(found.effect),
        interval_text(found.interval, null=1.0 if ratios else 0.0),
        f"{found.seeds:,}",
        MISSING if found.verdict is None else found.verdict.value,
    )


def _cut_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Write the first rows as a table and count the rest."""
    more = len(rows) - MAX_ROWS
    lines: list[str] = [table(header, rows[:MAX_ROWS])]
    return [*lines, f"... and {more:,} more; {ALL} has all"] if more > 0 else lines


def _notes(effects: Effects) -> list[str]:
    """Explain what can be misread, and name everything that was left out."""
    every = [e for group in effects.groups for e in group.effects]
    notes = []
    if len(effects.factors) > 1:
        notes.append("Single changes: means over all values of the other factors.")
        if any(len(e.changes) > 1 for e in every):
            notes.append(f"Changes apart: each alone, from {reference_names(effects)}.")
    judged = sum(e.difference.verdict is not None for e in every)
    if judged:
        notes += seeds_note(effects.seeds_note)
        chance = number(round(judged * (1.0 - effects.confidence), 2))
        if judged > 1:
            notes.append(
                f"Each interval stands for itself: of {judged:,} effects, {chance} are shown by "
                "chance where there is none."
            )
    else:
        few = (
            "no effect has a value in two seeds"
            if (effects.seeds or 1) > 1
            else "they take two seeds"
        )
        notes.append(f"No intervals: {few} or more.")
    notes += [f"{name}: a single level, no factor." for name in effects.skipped]
    for what, drops in (
        ("differences", [e.difference.dropped for e in every]),
        ("ratios (values must be positive)", [e.ratio.dropped for e in every]),
    ):
        if any(drops):
            of = effects.seeds or 1
            notes.append(
                f"{what}: {np.count_nonzero(drops):,} of {len(every):,} effects lack some of {of:,}"
                f" seeds, up to {max(drops):,}, in which a cell has no value."
            )
    return notes + missing_note(effects.missing)
