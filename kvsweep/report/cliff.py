"""A cliff analysis as text."""

from __future__ import annotations

import numpy as np

from kvsweep.analysis.cliff_records import MONOTONE_RHO, Cliff, CliffRatio, GroupCliff
from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.wording import (
    ALL,
    MISSING,
    counted,
    interval_ends,
    label,
    labels_of,
    level,
    number,
    outside,
    seeds_counted,
)
from kvsweep.report.table import (
    interval_text,
    mean_and_sd,
    missing_note,
    plural,
    seeds_note,
    table,
    unit_of,
)

MAX_RATIOS = 40  # `ALL` has all

OTHER_WAY = 0.5
"""Rank correlation from which a curve is said to go the other way than those of other groups."""

_OUTCOMES = {
    Outcome.NEVER: "never cross",
    Outcome.ALREADY: "are past it from the start",
    Outcome.MISSING: "may cross where cells have no value",
}


def cliff_text(cliff: Cliff) -> str:
    """Write a cliff analysis: one sentence per group, a table of the estimates, paired ratios."""
    return "\n".join(cliff_parts(cliff)).rstrip()


def cliff_sentences(cliff: Cliff) -> list[str]:
    """Return where the cliff of each group is, a sentence each."""
    return [group_sentence(cliff, group) for group in cliff.groups]


def cliff_parts(cliff: Cliff) -> list[str]:
    """Return the lines of `cliff_text`, tables whole."""
    parts = [*cliff_sentences(cliff), ""]
    names = labels_of([group.labels for group in cliff.groups])
    rows = [_cliff_row(*each) for each in zip(names, cliff.groups, strict=True)]
    parts.append(table(_CLIFF_HEADER, rows))
    if known := _known_ratios(cliff):
        parts += ["", f"Ratios of cliffs{' (paired by seed)' if cliff.seeds else ''}"]
        parts.append(table(_RATIO_HEADER, [_ratio_row(ratio) for ratio in known[:MAX_RATIOS]]))
        more = len(known) - MAX_RATIOS
        parts += [f"... and {more:,} more; {ALL} has all"] if more > 0 else []
    return [*parts, "", *_cliff_notes(cliff)]


_CLIFF_HEADER = ("", "cliff", "interval", "seeds: mean ± sd", "no crossing", "isotonic", "Spearman",
                 "monotone")  # fmt: skip
_RATIO_HEADER = ("", "mean curves", "interval", "seeds: mean ± sd", "pairs", "lost")


def group_sentence(cliff: Cliff, group: GroupCliff) -> str:
    """State one group's cliff, or on which side of the swept range it lies."""
    name = f"{label(group.labels)}: " if group.labels else ""
    axis, unit = _axis_words(cliff)
    low, high = number(float(cliff.axis[0])), number(float(cliff.axis[-1]))
    limit = f"{number(cliff.threshold)}{unit_of(cliff.threshold, cliff.units)}"
    passed = "above" if cliff.past == "above" else "below"
    crossing = group.mean_curve
    if crossing.outcome is Outcome.CROSSES:
        support = _support(cliff, group)
        place = f"{axis}{number(crossing.value)}{unit}"
        return f"{name}{cliff.metric} passes {limit} at {place}{support}"
    gaps = bool(np.isnan(group.curve.mean).any())
    if crossing.outcome is Outcome.NEVER:
        where = f"{'where it has a value ' if gaps else ''}from {axis}{low} to {high}{unit}"
        found = f"does not pass {limit} {where}"
    elif crossing.outcome is Outcome.ALREADY:
        where = "where it has a value from" if gaps else "all over"
        span = _past_from_the_start(cliff, group) or f"{where} {axis}{low} to {high}{unit}"
        found = f"is {passed} {limit} {span}"
    else:
        found = f"may pass {limit} where cells have no value"
    return f"{name}{cliff.metric} {found}: {outside(cliff, crossing.outcome)}"


def _past_from_the_start(cliff: Cliff, group: GroupCliff) -> str:
    """Say where a curve is past the threshold that begins so, and where not; empty if all over."""
    order = slice(None, None, -1 if cliff.generous == "high" else 1)
    values, mean = cliff.axis[order], group.curve.mean[order]
    within = mean <= cliff.threshold if cliff.past == "above" else mean >= cliff.threshold
    if not within.any():
        return ""
    first = int(np.argmax(within))
    begun = values[:first][~np.isnan(mean[:first])]
    low, high, until = map(number, (begun.min(), begun.max(), values[first]))
    axis, unit = _axis_words(cliff)
    past = f"at {axis}{low}{unit}" if begun.size == 1 else f"from {axis}{low} to {high}{unit}"
    on = "down" if cliff.generous == "high" else "up"
    rest = f"at {until}" if first == values.size - 1 else f"from {until} {on}"
    return f"{past}, but not {rest}"


def _axis_words(cliff: Cliff) -> tuple[str, str]:
    """Return what stands before a value of the axis and behind it: pure numbers have no unit."""
    if cliff.along_units in ("1", ""):
        return f"{cliff.along} ", ""
    return "", f" {plural(cliff.along_units)}"


def _support(cliff: Cliff, group: GroupCliff) -> str:
    """Return what the sentence rests on, in brackets."""
    if (interval := group.interval) is None:
        if cliff.seeds and cliff.seeds > 1:
            return f" (too few of {cliff.seeds:,} seeds have a value near it: no interval)"
        return " (one seed: no interval)" if cliff.seeds else " (no seeds: no interval)"
    low, high = interval_ends(interval)
    seeds = seeds_counted([group.seeds], cliff.seeds or 1)
    return f" ({100 * cliff.confidence:g}% CI {low} to {high}; {seeds})"


def _cliff_row(name: str, group: GroupCliff) -> tuple[str, ...]:
    """Return the table row of one group."""
    seeds = group.per_seed
    lost = "" if seeds is None else f"{sum(seeds.outcomes[kind] for kind in _OUTCOMES):,}"
    return (
        name,
        number(group.mean_curve.value),
        interval_text(group.interval),
        MISSING if seeds is None else mean_and_sd(seeds.mean, seeds.sd),
        lost or MISSING,
        number(group.isotonic.value),
        f"{group.spearman:.3f}" if np.isfinite(group.spearman) else MISSING,
        MISSING if seeds is None else f"{group.monotone_seeds:.0%}",
    )


def _ratio_row(ratio: CliffRatio) -> tuple[str, ...]:
    """Return the table row of one ratio."""
    return (
        _pair(ratio),
        number(ratio.of_mean_curves),
        interval_text(ratio.interval, null=1.0),
        mean_and_sd(ratio.mean_of_seeds, ratio.sd_of_seeds),
        f"{ratio.pairs:,}",
        f"{ratio.pairs_lost:,}",
    )


def _known_ratios(cliff: Cliff) -> list[CliffRatio]:
    """Return those of which there is anything to show: of the mean curves, resamples or seeds."""
    return [r for r in cliff.ratios if any(cell != MISSING for cell in _ratio_row(r)[1:4])]


def _pair(ratio: CliffRatio) -> str:
    """Name a ratio: ``round-robin / least-loaded (rate 200)``."""
    rest = f" ({label(ratio.labels)})" if ratio.labels else ""
    return f"{level(ratio.numerator)} / {level(ratio.denominator)}{rest}"


def _goes_the_other_way(cliff: Cliff, group: GroupCliff) -> bool:
    """Whether a group's curve gets better from the end at which all are best."""
    worse_with_more = (cliff.generous == "low") == (cliff.past == "above")
    against = -group.spearman if worse_with_more else group.spearman
    return len(cliff.groups) > 1 and against >= OTHER_WAY


def _cliff_notes(cliff: Cliff) -> list[str]:
    """Explain the columns and name everything that was left out."""
    notes = [
        f"monotone: share of seeds with |Spearman| of at least {MONOTONE_RHO:g}.",
        f"The scan starts at the {cliff.generous} end of {cliff.along}.",
    ]
    for group in cliff.groups:
        name = f"{label(group.labels)}: " if group.labels else ""
        if _goes_the_other_way(cliff, group):
            notes.append(
                f"{name}gets better from there (Spearman {group.spearman:.3f}), unlike the others: "
                "look at it alone (--at, or .sel() in Python)."
            )
        for what, counts in (("seeds", _seed_outcomes(group)), ("resamples", group.resamples)):
            lost = [f"{counts[k]:,} {text}" for k, text in _OUTCOMES.items() if counts.get(k)]
            if lost:
                notes.append(f"{name}of {sum(counts.values()):,} {what}, {', '.join(lost)}.")
    known = _known_ratios(cliff)
    for ratio in known[:MAX_RATIOS]:
        notes += [] if ratio.interval is None else _lost_resamples(ratio)
    if unknown := len(cliff.ratios) - len(known):
        notes.append(f"{counted(unknown, 'pair')} without a ratio: not both have a cliff.")
    notes += seeds_note(cliff.seeds_note) + missing_note(cliff.missing)
    return notes


def _lost_resamples(ratio: CliffRatio) -> list[str]:
    """Count the resamples without both cliffs, by what becomes of them."""
    outside = ratio.resamples_lost - ratio.resamples_missing
    counts = (
        (outside, "lack one of the cliffs: in them the ratio lies outside"),
        (ratio.resamples_missing, "may have a cliff where cells have no value: they are left out"),
    )
    return [f"{_pair(ratio)}: {n:,} resamples {what}." for n, what in counts if n]


def _seed_outcomes(group: GroupCliff) -> dict[Outcome, int]:
    return {} if group.per_seed is None else group.per_seed.outcomes
