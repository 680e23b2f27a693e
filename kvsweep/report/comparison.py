"""A comparison of two stores as text: what differs, what follows, and what was left out."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Any

from kvsweep.analysis.aligned import MAKERS, changes_requests
from kvsweep.analysis.compare_records import Comparison, Difference, Differing, Unmatched
from kvsweep.analysis.effect_records import Verdict
from kvsweep.analysis.wording import ALL, MISSING, counted, level, number, signed
from kvsweep.report.table import interval_text, plural, seeds_note, table, unit_of

MAX_ROWS = 40  # `ALL` has all
MAX_KEYS = 12
MAX_VALUES = 4
MAX_VALUE = 40  # letters of a setting


def compare_text(found: Comparison) -> str:
    """Write what the stores differ in, the differences of all cells, and notes."""
    return "\n".join(compare_parts(found)).rstrip()


def compare_parts(found: Comparison) -> list[str]:
    """Return the lines of `compare_text`, tables whole."""
    unit = "" if found.units in ("1", "") else f" ({plural(found.units)})"
    head = [f"{found.metric}{unit}: B minus A", f"A  {found.a}", f"B  {found.b}", ""]
    return [*head, *differing_parts(found), "", *difference_parts(found)]


def difference_parts(found: Comparison) -> list[str]:
    """Return what follows in the cells: a sentence, a table whole, notes."""
    parts = [_verdicts(found), ""]
    axes = list(found.differences[0].labels) if found.differences else []
    header = (*axes, "A", "B", "B - A", "interval", "of A", "seeds", "verdict")
    rows = [_row(item) for item in found.differences[:MAX_ROWS]]
    parts.append(table(header, rows, keys=len(axes)))
    more = len(found.differences) - MAX_ROWS
    parts += [f"... and {more:,} more; {ALL} has all"] if more > 0 else []
    return [*parts, "", *_notes(found)]


def differing_parts(found: Comparison) -> list[str]:
    """Return what the sweeps differ in."""
    of_several = [
        f"{name} has values that its sweep has not, as of several stores put together: its "
        "settings are those of the first."
        for name in found.several
    ]
    if not found.differing:
        return of_several or ["The sweeps have the same settings."]
    rows = [(item.key, *_both(item)) for item in found.differing[:MAX_KEYS]]
    lines = ["What differs:", table(("", "A", "B"), rows), *of_several]
    more = len(found.differing) - MAX_KEYS
    return [*lines, f"... and {more:,} more keys; {ALL} has all"] if more > 0 else lines


def _both(item: Differing) -> tuple[str, str]:
    """Return both values of a key so that they differ: numbers with their digits, texts cut."""
    texts = [_value(item.a), _value(item.b)]
    if texts[0] == texts[1]:
        texts = [repr(item.a), repr(item.b)]
    same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(*texts, strict=False))])
    first, second = (_cut(text, same) for text in texts)
    return first, second


def _value(value: Any) -> str:
    if value is None:
        return MISSING
    return level(value) if isinstance(value, str | bool | int | float) else str(value)


def _cut(text: str, place: int) -> str:
    """Return the part of a long text in which a place of it is."""
    if len(text) <= MAX_VALUE:
        return text
    start = 0 if place <= MAX_VALUE // 2 else min(place - MAX_VALUE // 2, len(text) - MAX_VALUE)
    end = start + MAX_VALUE
    head = f"...{text[start + 3 : end]}" if start else text[:end]
    return head if end >= len(text) else f"{head[:-3]}..."


def _verdicts(found: Comparison) -> str:
    """Count what is shown: the cells in which B is higher, lower, neither."""
    verdicts = Counter(item.verdict for item in found.differences)
    cells = counted(len(found.differences), "cell")
    words = ((Verdict.RAISES, "higher in B"), (Verdict.LOWERS, "lower in B"),
             (None, "no interval"), (Verdict.NOT_SHOWN, "no difference shown"))  # fmt: skip
    told = [f"{verdicts[verdict]:,} {word}" for verdict, word in words if verdicts[verdict]]
    text = f"{cells}: {', '.join(told)}"
    equal = sum(d.interval is not None and d.difference == 0 == d.interval.low
                for d in found.differences)  # fmt: skip
    text += f", {equal:,} of which are equal in every seed" if equal else ""
    shown = [d for d in found.differences if d.verdict in (Verdict.RAISES, Verdict.LOWERS)]
    if shown:
        most = max(shown, key=lambda d: abs(d.difference))
        where = ", ".join(f"{name} {level(value)}" for name, value in most.labels.items())
        text += f"; most {signed(most.difference)}{unit_of(most.difference, found.units)}"
        text += f" at {where}" if where else ""
    return text


def _row(item: Difference) -> tuple[str, ...]:
    relative = "" if item.relative is None else f"{100 * item.relative:+,.1f} %"
    return (
        *(level(value) for value in item.labels.values()),
        number(item.mean_a),
        number(item.mean_b),
        signed(item.difference),
        interval_text(item.interval),
        relative,
        f"{item.seeds:,}",
        _WORDS[item.verdict],
    )


_WORDS = {
    Verdict.RAISES: "higher",
    Verdict.LOWERS: "lower",
    Verdict.NOT_SHOWN: "not shown",
    None: MISSING,
}


def _notes(found: Comparison) -> list[str]:
    notes = [_pairing(found), *seeds_note(found.seeds_note)]
    judged = sum(item.verdict is not None for item in found.differences)
    if judged > 1:
        chance = number(round(judged * (1.0 - found.confidence), 2))
        notes.append(
            f"Each {100 * found.confidence:g}% interval stands for itself: of {judged:,} cells, "
            f"{chance} are shown by chance where there is no difference."
        )
    notes += [_left_out(item) for item in found.unmatched]
    dropped = sum(item.dropped > 0 for item in found.differences)
    if dropped:
        lack = "lacks" if dropped == 1 else "lack"
        cells = counted(dropped, "cell")
        notes.append(f"{cells} {lack} some seeds, in which one store has no value.")
    return notes


def _pairing(found: Comparison) -> str:
    if found.same_requests and any(item.key in MAKERS for item in found.differing):
        return (
            "Differences within seeds: equal seeds are equal request lists, as the workloads are, "
            "unless the two versions draw them otherwise."
        )
    if found.same_requests:
        return "Differences within seeds: equal seeds are equal request lists."
    if found.paired and not any(changes_requests(item.key) for item in found.differing):
        return (
            "Differences within seeds; whether these have equal request lists is not known, as the "
            "attributes of the sweeps are lost."
        )
    if found.paired:
        return (
            "Differences within seeds, which draw from the same random streams; the request lists "
            "differ, as the workloads do."
        )
    return "Not paired: the stores have no seeds of the same random streams in common."


def _left_out(item: Unmatched) -> str:
    only = [f"{_values(values)} only in {name}"
            for name, values in (("A", item.only_a), ("B", item.only_b)) if values]  # fmt: skip
    return f"{item.axis}: {'; '.join(only)}: left out."


def _values(values: tuple[Any, ...]) -> str:
    shown = ", ".join(level(value) for value in values[:MAX_VALUES])
    return shown if len(values) <= MAX_VALUES else f"{shown} and {len(values) - MAX_VALUES:,} more"
