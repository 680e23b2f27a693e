"""What readers of other tools' files check of a row: keys, counts, times; and of the whole."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from kvsweep.config.bending import Slice
from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError, clip, dotted, shown
from kvsweep.limits import MAX_TOKENS

_OTHERS = frozenset(("total_tokens", "request_end_ns", "request_ack_ns", "scheduled_time"))
_ALIKE = 0.85  # of difflib's ratio: a letter of six
# Of a clock of any origin: beyond, doubles do not tell microseconds of seconds apart.
_LARGEST = 2.0**63


IF_FAILED = "; if the request failed: read.failed = 'leave-out' leaves such requests out"
"""What messages add about a value that failed requests lack."""


class Malformed(ValueError):
    """What is wrong with a row, from its key on; whoever knows the row adds its place."""


def check_object(item: Any, key: str = "") -> dict[str, Any]:
    """Return `item`, an object: a whole row, or what it has under `key`."""
    if not isinstance(item, dict):
        raise Malformed(f"{key and f'{key}: '}expected an object, got {shown(item)}")
    return item


def check_spelling(item: Mapping[str, Any], used: Collection[str]) -> None:
    """Refuse a key that is not used and looks like a misspelling of one that is, but absent.

    Files of other tools hold much that a simulation has no use for, and more with every release.
    `_OTHERS` are like keys that are used and yet right.
    """
    found = misspelling(tuple(item), tuple(used), _ALIKE)
    if found:
        raise Malformed(f"{dotted((found[0],))}: unknown key; did you mean {found[1]!r}?")


@lru_cache(maxsize=64)
def misspelling(
    keys: tuple[str, ...], used: tuple[str, ...], alike: float
) -> tuple[str, str] | None:
    """Return a key that is not used and the absent one that it is like, None if none is.

    Rows of a file have the same keys, which are looked at once. `alike` is difflib's ratio.
    """
    from difflib import get_close_matches

    missing = [key for key in used if key not in keys]
    for key in keys if missing else ():
        if key in used or key in _OTHERS:
            continue
        if close := get_close_matches(clip(key), missing, n=1, cutoff=alike):
            return key, close[0]
    return None


def token_count(value: Any, key: str) -> int:
    """Return a count of tokens, at least 1."""
    if type(value) is not int or not 1 <= value <= MAX_TOKENS:
        raise Malformed(f"{key}: expected an integer from 1 to {MAX_TOKENS}, got {shown(value)}")
    return value


def clock(value: Any, key: str, unit: str) -> float | int:
    """Return a time on a clock of any origin."""
    if type(value) not in (int, float) or not 0 <= value < _LARGEST:
        raise Malformed(f"{key}: expected a time in {unit}, at least 0, got {shown(value)}")
    found: float | int = value
    return found


def duration(value: Any, key: str, unit: str, most: float) -> float:
    """Return a duration, at most `most`."""
    if type(value) not in (int, float) or not 0 <= value <= most:
        raise Malformed(f"{key}: expected {unit} from 0 to {most:.12g}, got {shown(value)}")
    return float(value)


def check_left_out(read: Reading, what: str) -> None:
    """Refuse a request that failed, unless those are to be left out.

    Raises
    ------
    Malformed
        If they are not: `what` says how the request failed.
    """
    if read.failed != "leave-out":
        raise Malformed(f"{what}: read.failed = 'leave-out' leaves such requests out")


def no_request_between(
    window: Slice, where: str, requests: int, first_s: float, last_s: float
) -> InputError:
    """Return the error of a window of a trace, whose requests are from `first_s` to `last_s`."""
    end = "its end" if window.end_s is None else f"{window.end_s:.15g} s"
    return InputError(
        f"workload.slice: no request of {where} arrives from {window.from_s:.15g} s to {end}; its "
        f"{requests:,} requests arrive from {first_s:.15g} to {last_s:.15g} s"
    )


def refuse_twice(seen: dict[str, str], name: str, place: str, key: str) -> None:
    """Refuse an identifier that `seen` has already, of another place; enter it there."""
    if seen.setdefault(name, place) != place:
        raise Malformed(f"{key}: {shown(name)} is that of {seen[name]}, too")


def at(where: str, place: str, problem: object) -> InputError:
    """Return the error that names file and place."""
    return InputError(f"{where}{place}: {problem}")
