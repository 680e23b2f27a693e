"""The answer of a search as text: a sentence, what was tried, the recommendation."""

from __future__ import annotations

from collections.abc import Iterator

from kvsweep.analysis.crossing import Outcome
from kvsweep.analysis.statistics import Interval, seeds_note
from kvsweep.analysis.wording import MISSING, label, number, two_digits
from kvsweep.report.table import interval_text, plural, table
from kvsweep.search.answer_records import (
    DROPS,
    NO_VALUE,
    WITHIN,
    Candidate,
    GroupAnswer,
    Margin,
    SearchAnswer,
)

ONE_LIST = " (one request list: no interval)"
EXACT = " (one request list: exact for it, and no interval for others)"

SHOWN = 12
"""Values that were tried and are listed: those nearest to the answer."""

NEAREST = 4
"""Of the cells of a grid fewer: there may be many groups."""

_STOPPED = {
    "seeds": "as many seeds as allowed (--max-seeds), or as the grid has, were used",
    "budget": "the next simulations would be more than --budget allows",
    "interrupted": "interrupted: this is what was known by then",
}


def search_text(answer: SearchAnswer) -> str:
    """Write what a search found, group by group."""
    parts = []
    for group in answer.groups:
        parts += [_sentence(answer, group), ""]
        if tried := list(_tried(group)):
            parts += [*tried, ""]
        if advice := list(_recommended(answer, group)):
            parts += [*advice, ""]
    axis = f"{answer.range[0]:,.15g} to {answer.range[1]:,.15g} {_unit(answer)}".strip()
    limits = ", ".join(answer.targets)
    parts.append(
        f"{answer.simulations:,} simulations; {answer.along} {axis}, limits: {limits}. Values are "
        "means over seeds (docs/sizing.md)."
    )
    return "\n".join(parts)


def _unit(answer: SearchAnswer) -> str:
    return "" if answer.units == "1" else plural(answer.units)


def recommendation_text(answer: SearchAnswer) -> str:
    """Write what the cells of a grid recommend: the nearest candidates and the server."""
    parts = []
    for group in answer.groups:
        if group.answer is None:
            continue
        if group.labels:
            parts.append(f"{label(group.labels)}:")
        parts += [*_tried(group, NEAREST), "", *_recommended(answer, group), ""]
    return "\n".join([*parts, *_without_answer(answer)]).rstrip()


def _without_answer(answer: SearchAnswer) -> Iterator[str]:
    """Name the groups whose curve is within the limit somewhere, which no value's seeds show."""
    kept = (Outcome.CROSSES, Outcome.NEVER)
    groups = [g.labels for g in answer.groups if g.answer is None and g.outcome in kept]
    if not groups:
        return
    names = [label(labels) for labels in groups[:NEAREST] if labels]
    more = [f"{len(groups) - NEAREST:,} more"] if len(groups) > NEAREST else []
    which = f" for {'; '.join([*names, *more])}" if names else ""
    yield (
        f"No recommendation{which}: no value of the grid is shown to keep "
        f"{' and '.join(answer.targets)}, with {100 * answer.confidence:g} % confidence"
    )


def _sentence(answer: SearchAnswer, group: GroupAnswer) -> str:
    name = f"{label(group.labels)}: " if group.labels else ""
    if answer.goal == "crossing":
        return name + _cliff_sentence(answer, group)
    return name + _size_sentence(answer, group)


def _cliff_sentence(answer: SearchAnswer, group: GroupAnswer) -> str:
    limit = answer.targets[0]
    if group.crossing is None:
        return _without_crossing(answer, group, limit)
    sure = _support(answer, group)
    return f"{limit} ends at {number(group.crossing)} {_unit(answer) or answer.along}{sure}"


def _support(answer: SearchAnswer, group: GroupAnswer) -> str:
    if group.low is None and group.high is None:
        if group.seeds > 1:
            return ""
        return EXACT if group.stopped == "tolerance" else ONE_LIST
    ends = [number(end) if end is not None else "outside" for end in (group.low, group.high)]
    percent = f"{100 * answer.confidence:g}"
    return f" ({percent}% CI {ends[0]} to {ends[1]}; {_seeds(group.seeds)})"


def _seeds(seeds: int) -> str:
    return seeds_note(seeds) or f"{seeds:,} seeds"


def _without_crossing(answer: SearchAnswer, group: GroupAnswer, what: str) -> str:
    where = _range_text(answer)
    sure = "" if group.stopped == "tolerance" else ", as far as these simulations tell"
    if group.outcome == "never":
        return f"{what} holds everywhere from {where}{sure}: the limit, if any, lies beyond"
    kept = [c.value for c in group.candidates if c.verdict == WITHIN]
    if group.outcome == "already" and kept:
        return _turning(answer, kept, what)
    if group.outcome == "already":
        return f"{what} holds nowhere from {where}{sure}{_at_best(answer, group)}"
    if group.candidates:
        return f"{what} ends next to values at which simulations have no result"
    return "nothing is known yet"


def _turning(answer: SearchAnswer, kept: list[int | float], what: str) -> str:
    """Tell of a measure that is past its limit at the generous end and not at the values kept."""
    tight, end = answer.range if answer.generous == "high" else answer.range[::-1]
    found = kept[0] if answer.generous == "high" else kept[-1]
    told = f"{what} does not hold at {end:,.15g}"
    if found == tight:
        better = f"a measure that gets better along {answer.along}"
        sought = "crossing" if answer.goal == "crossing" else f"{answer.goal} {answer.along}"
        return f"{told} and does at {found:,.15g}: {better} has no {sought} here"
    told += f", does at {found:,.15g} and not at {tight:,.15g}: search from there"
    low, high = sorted((found, tight))
    return told if answer.goal == "crossing" else f"{told}, --between {low:.15g}:{high:.15g}"


def _range_text(answer: SearchAnswer) -> str:
    low, high = (f"{end:,.15g}" for end in answer.range)
    return f"{low} to {high} {_unit(answer) or answer.along}".strip()


def _best(answer: SearchAnswer, group: GroupAnswer) -> Candidate | None:
    """Return what was tried at the generous end, where measures come closest."""
    end = answer.range[1] if answer.generous == "high" else answer.range[0]
    return next((c for c in group.candidates if c.value == end), None)


def _at_best(answer: SearchAnswer, group: GroupAnswer) -> str:
    best = _best(answer, group)
    if best is None:
        return ""
    if best.verdict == NO_VALUE:
        return f"; at {best.value:,.15g} requests are dropped or simulations have no result"
    told = ", ".join(f"{m.metric} {number(m.mean)}" for m in best.measures)
    return f"; at {best.value:,.15g}: {told}"


def _size_sentence(answer: SearchAnswer, group: GroupAnswer) -> str:
    limits = " and ".join(answer.targets)
    if group.answer is None:
        if group.outcome in ("already", "never"):
            return _without_crossing(answer, group, limits)
        best = _best(answer, group)
        if best is not None and best.verdict == NO_VALUE:  # which no further simulation changes
            where = _range_text(answer)
            return f"no value from {where} is shown to keep {limits}{_at_best(answer, group)}"
        few = group.stopped in ("budget", "interrupted")
        few = few and any(c.verdict == WITHIN for c in group.candidates)
        why = ": those within have too few seeds for an answer" if few else ""
        return f"no value is shown to keep {limits} with these simulations{why}"
    what = f"{answer.goal} {answer.along} that keeps"
    if answer.along == "instances":
        what = "fewest instances that keep"
    found = f"{what} {limits}: {group.answer:,.15g}"
    if group.requests_per_s is not None:
        found += f", {number(group.requests_per_s)} requests/s"
    at = next(c for c in group.candidates if c.value == group.answer)
    one_list = ONE_LIST if at.seeds < 2 else ""
    if group.outcome == "never" and group.answer == 1 and answer.goal == "smallest":
        return f"{found}, the least there is{one_list}"
    if group.outcome == "never":
        beyond = "more" if answer.goal == "highest" else "less"
        kept = f"it is kept everywhere, {beyond} may do; --between looks further"
        return f"{found}, the end of the range: {kept}{one_list}"
    if one_list:
        return f"{found}{one_list}"
    return f"{found} ({_shown(answer, at)})"


def _shown(answer: SearchAnswer, at: Candidate) -> str:
    """Say what shows the answer; seeds that are equal tell nothing of what none of them has."""
    equal = [m.metric for m in at.measures if m.low is None]
    if not equal:
        return f"shown with {100 * answer.confidence:g} % confidence; {_seeds(at.seeds)}"
    share = 1.0 - (1.0 - answer.confidence) ** (1.0 / at.seeds)
    return (
        f"{' and '.join(equal)} equal in all {at.seeds:,} seeds: what less than {share:.2g} of all "
        "seeds show may be unseen"
    )


def _tried(group: GroupAnswer, most: int = SHOWN) -> Iterator[str]:
    """List the values that were tried, those nearest to the answer or crossing."""
    near = group.answer if group.answer is not None else group.crossing
    chosen = group.candidates
    if near is not None and len(chosen) > most:
        nearest = sorted(chosen, key=lambda c: abs(c.value - near))[:most]
        chosen = tuple(c for c in chosen if c in nearest)
    if not chosen:
        return
    metrics = [m.metric for m in chosen[0].measures]
    header = ("tried", *(h for m in metrics for h in (m, "interval")), "seeds", "")
    yield table(header, [_row(candidate, group) for candidate in chosen])
    left = len(group.candidates) - len(chosen)
    if left:
        yield f"and {left} further away"


def _row(candidate: Candidate, group: GroupAnswer) -> tuple[str, ...]:
    cells = []
    for measure in candidate.measures:
        ends = None
        if measure.low is not None and measure.high is not None:
            ends = Interval(measure.low, measure.high, 0.0)
        told = interval_text(ends, null=measure.limit) if ends else MISSING
        cells += [number(measure.mean), told]
    mark = " <- answer" if candidate.value == group.answer else ""
    return (f"{candidate.value:,.15g}", *cells, f"{candidate.seeds:,}", candidate.verdict + mark)


def _recommended(answer: SearchAnswer, group: GroupAnswer) -> Iterator[str]:
    """Write the recommendation: flags, margin, what breaks first, what to beware of."""
    if group.served is not None:
        at = f"{answer.along} {group.answer:,.15g}"
        yield f"Recommended, at {at}:"
        yield f"  {group.served.command}"
        yield from (f"  {note}" for note in group.served.notes)
        if group.margins:
            yield f"  margin: {'; '.join(map(_margin_text, group.margins))}"
        if group.first is not None and group.first_at is not None and group.answer:
            tighter = 100.0 * abs(group.first_at - group.answer) / group.answer
            yield (
                f"  breaks first: {group.first}, past its limit at {group.first_at:,.15g}, "
                f"{two_digits(tighter)} % from here"
            )
    if any(candidate.verdict == DROPS for candidate in group.candidates):
        yield (
            "  drops: requests that can never fit are missing from the measures there, so that no "
            "such value is recommended"
        )
    if group.back:
        listed = ", ".join(f"{value:,.15g}" for value in group.back[:5])
        yield (
            f"  not a curve that only gets worse: at {listed} it is the other way round, so that "
            "the limit is passed more than once"
        )
    yield from (f"  warning: {warning}" for warning in group.warnings)
    if group.stopped in _STOPPED:
        yield f"  {_STOPPED[group.stopped]}"


def _margin_text(margin: Margin) -> str:
    left = "" if margin.room is None else f" ({two_digits(100 * margin.room)} % left)"
    return f"{margin.metric} {number(margin.mean)} of {number(margin.limit)}{left}"
