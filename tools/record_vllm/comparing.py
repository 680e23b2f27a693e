"""Two recordings of a trace: which columns differ, and where first."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from record_vllm.traces import Document

MEANINGS = {
    "s": "clock when scheduling",
    "t": "start",
    "d": "duration",
    "pf": "prefill tokens",
    "dc": "decode tokens",
    "run": "running requests",
    "wait": "waiting requests",
    "free": "free blocks after scheduling",
    "free_end": "free blocks at the end",
    "ev": "cached blocks evicted",
    "adm": "admissions [request, cached tokens, 1 if preempted before]",
    "pre": "preempted requests",
    "fin": "finished requests",
    "sched": "scheduled [request, tokens]",
    "hashed": "blocks with a prefix-cache key",
    "acc": "verified [request, drafts, accepted]",
    "win": "blocks freed behind the window",
    "pre_in_flight": "preemptions with a step in flight",
    "stall": "wait for flushed stores, us",
    "cpu": "CPU blocks in use",
    "later": "lookups told to ask again",
    "nostore": "stores without room",
    "load": "loads [request, tokens]",
    "store": "stores [request, tokens]",
    "flush": "stores flushed",
    "pull": "pulls [request, tokens]",
    "held": "finished requests whose blocks are held",
}
"""Columns of steps, in words; the README has more."""

# Where a step differs, what was decided is told before what came of it.
_DECISIONS = ("adm", "pre", "sched", "pf", "dc", "load", "store", "pull", "later", "nostore")
LONGEST = 90
"""Characters of a value in a message."""


@dataclass(frozen=True)
class Difference:
    """What differs in one place.

    Attributes
    ----------
    where : str
        ``step 12``, ``request 3``, ``totals``, ``transfer 5``; of an instance of a cluster with
        its name before.
    column : str
        The column or key.
    before, after : object
        The values; None where there is no such step or request.
    at_us : int or None
        Start of the step in the first recording.
    """

    where: str
    column: str
    before: Any
    after: Any
    at_us: int | None = None

    def __str__(self) -> str:
        at = "" if self.at_us is None else f" ({self.at_us:,} us)"
        meaning = MEANINGS.get(self.column, self.column)
        return (
            f"{self.where}{at}: {meaning}: {_short(self.before)} recorded, {_short(self.after)} now"
        )


@dataclass(frozen=True)
class Comparison:
    """What differs between two recordings.

    Attributes
    ----------
    columns : list of str
        Names of all that differs: columns of steps, ``requests.KEY``, ``totals.KEY``,
        ``transfers``.
    first : list of Difference
        What differs in the first step that does, decisions first; else the first of each column.
    left_out : list of str
        Columns that only one of them has, which were not compared.
    """

    columns: list[str]
    first: list[Difference]
    left_out: list[str]

    @property
    def equal(self) -> bool:
        """Whether all that both have is the same."""
        return not self.columns


def compare(before: Document, after: Document) -> Comparison:
    """Compare the ``expected`` of two recordings of the same trace."""
    left_out: list[str] = []
    differences = list(_in_steps(before, after, left_out))
    steps = [d.where for d in differences]
    differences += _in_rows("requests", before.get("requests", []), after.get("requests", []))
    differences += _in_totals(before.get("totals", {}), after.get("totals", {}), left_out)
    differences += _in_list("transfer", before.get("transfers"), after.get("transfers"), left_out)
    columns = list(dict.fromkeys(d.column for d in differences))
    shown = [d for d in differences if d.where == steps[0]] if steps else differences[:3]
    return Comparison(columns, shown, list(dict.fromkeys(left_out)))


def _in_steps(before: Document, after: Document, left_out: list[str]) -> Iterator[Difference]:
    """Yield the first difference of each column, the earliest step first."""
    found: list[tuple[float, int, Difference]] = []
    pairs = list(_engines(before, after))
    for name, old, new in pairs:
        left_out += sorted(old.keys() ^ new.keys())
        for column in old.keys() & new.keys():
            step = _first_difference(old[column], new[column])
            if step is None:
                continue
            start = _at(old.get("t", []), step)
            difference = Difference(
                f"{name}step {step}", column, _at(old[column], step), _at(new[column], step), start
            )
            rank = _DECISIONS.index(column) if column in _DECISIONS else len(_DECISIONS)
            moment = float("inf") if start is None else start
            found.append((moment if len(pairs) > 1 else step, rank, difference))
    yield from (difference for *_, difference in sorted(found, key=lambda item: item[:2]))


def _engines(before: Document, after: Document) -> Iterator[tuple[str, Document, Document]]:
    """Yield a name and both tables of steps of each engine; one engine has no name."""
    if "engines" not in before or "engines" not in after:
        yield "", before.get("steps", {}), after.get("steps", {})
        return
    for old, new in zip(before["engines"], after["engines"], strict=True):
        yield f"{old['role']} {old['instance']}, ", old["steps"], new["steps"]


def _in_rows(name: str, before: list[Document], after: list[Document]) -> Iterator[Difference]:
    keys = dict.fromkeys(key for row in before for key in row)
    for key in keys:
        old, new = ([row.get(key) for row in rows] for rows in (before, after))
        row = _first_difference(old, new)
        if row is not None:
            where = f"{name.removesuffix('s')} {row}"
            yield Difference(where, f"{name}.{key}", _at(old, row), _at(new, row))


def _in_totals(before: Document, after: Document, left_out: list[str]) -> Iterator[Difference]:
    left_out += [f"totals.{key}" for key in sorted(before.keys() ^ after.keys())]
    for key in before:
        if key in after and before[key] != after[key]:
            yield Difference("totals", f"totals.{key}", before[key], after[key])


def _in_list(
    name: str, before: list[Any] | None, after: list[Any] | None, left_out: list[str]
) -> Iterator[Difference]:
    if before is None or after is None:
        left_out += [f"{name}s"] if before is not after else []
        return
    row = _first_difference(before, after)
    if row is not None:
        yield Difference(f"{name} {row}", f"{name}s", _at(before, row), _at(after, row))


def _first_difference(before: list[Any], after: list[Any]) -> int | None:
    """Return where two lists first differ, the end of the shorter one included."""
    for i, (old, new) in enumerate(zip(before, after, strict=False)):
        if old != new:
            return i
    return None if len(before) == len(after) else min(len(before), len(after))


def _at(values: list[Any], i: int) -> Any:
    return values[i] if i < len(values) else None


def _short(value: Any) -> str:
    text = "nothing" if value is None else str(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."
