"""The package's own trace format, ``kvsweep-trace/1``: strict reading, and writing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvsweep.errors import InputError, did_you_mean
from kvsweep.limits import MAX_TOKENS
from kvsweep.workload.columns import Columns
from kvsweep.workload.requests import NONE, Requests

FORMAT = "kvsweep-trace/1"

_REQUIRED = ("id", "arrival_us", "prompt", "output")
_OPTIONAL = (
    "slo_class",
    "priority",
    "session",
    "round",
    "client",
    "after",
    "think_us",
    "patience_us",
)
_KEYS = [*_REQUIRED, *_OPTIONAL]

# Largest integer that JSON readers of other languages keep, too.
_LARGEST = 2**53
_MAX_NAMES = 2**15


def read_native(document: Mapping[str, Any], where: str) -> Requests:
    """Return the requests of a trace.

    Raises
    ------
    InputError
        If one is malformed: file, position and key are named.
    """
    if document.get("format") != FORMAT:
        raise InputError(f"{where}: format: expected {FORMAT!r}, got {document.get('format')!r}")
    entries = document.get("requests")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{where}: requests: expected a list of at least one request")
    columns = Columns()
    last = 0
    followers: dict[int, int] = {}
    for i, entry in enumerate(entries):
        try:
            last = _add(columns, i, entry, last, followers)
        except _Malformed as problem:
            raise InputError(f"{where}: requests[{i}]{problem}") from None
    for key, names in (("slo_class", columns.slo_class), ("client", columns.client)):
        if len(set(names)) > _MAX_NAMES:
            raise InputError(f"{where}: requests: more than {_MAX_NAMES} different values of {key}")
    return columns.build()


def to_trace_dict(requests: Requests, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace of `requests`, to be dumped as JSON.

    Parameters
    ----------
    requests : Requests
        The request list.
    scenario : dict
        Its ``scenario``, as from `kvsweep.config.Scenario.to_trace`.
    """
    bounds = requests.segment_offsets.tolist()
    prompts = list(
        zip(requests.segment_ids.tolist(), requests.segment_tokens.tolist(), strict=True)
    )
    outputs = zip(requests.output_segment.tolist(), requests.output_tokens.tolist(), strict=True)
    entries: list[dict[str, Any]] = [
        {"id": i, "arrival_us": arrival, "prompt": [list(p) for p in prompts[low:high]]}
        | {"output": list(output)}
        for i, (arrival, low, high, output) in enumerate(
            zip(requests.arrival_us.tolist(), bounds[:-1], bounds[1:], outputs, strict=True)
        )
    ]
    for i, entry in enumerate(entries):
        if requests.has_priority[i]:
            entry["priority"] = int(requests.priority[i])
        if requests.slo_class[i] != NONE:
            entry["slo_class"] = requests.slo_names[requests.slo_class[i]]
        if requests.client[i] != NONE:
            entry["client"] = requests.client_names[requests.client[i]]
        if requests.session[i] != NONE:
            entry["session"] = int(requests.session[i])
        if requests.round[i] != NONE:
            entry["round"] = int(requests.round[i])
        if requests.after[i] != NONE:
            entry["after"] = int(requests.after[i])
            entry["think_us"] = int(requests.think_us[i])
        if requests.patience_us[i] != NONE:
            entry["patience_us"] = int(requests.patience_us[i])
    return {"format": FORMAT, "scenario": dict(scenario), "requests": entries}


class _Malformed(ValueError):
    """What is wrong with a request, from its key on."""


def _add(columns: Columns, i: int, entry: Any, last: int, followers: dict[int, int]) -> int:
    """Append request `i` after an arrival at `last`, and return its own arrival.

    `followers` maps the requests that others come after to those others.
    """
    if not isinstance(entry, dict):
        raise _Malformed(f": expected an object, got {entry!r:.40}")
    for key in entry:
        if key not in _KEYS:
            raise _Malformed(f".{key}: unknown key{did_you_mean(key, _KEYS)}")
    for key in _REQUIRED:
        if key not in entry:
            raise _Malformed(f".{key}: missing")
    if type(entry["id"]) is not int or entry["id"] != i:
        raise _Malformed(f".id: expected the position in the list, {i}, got {entry['id']!r:.40}")
    arrival = _integer(entry, "arrival_us", 0)
    if arrival < last:
        raise _Malformed(f".arrival_us: {arrival} is before the previous request's, {last}")
    columns.add(
        arrival,
        _prompt(entry["prompt"]),
        _segment(entry["output"], ".output"),
        priority=_optional(entry, "priority", -_LARGEST),
        slo_class=_optional_name(entry, "slo_class"),
        client=_optional_name(entry, "client"),
        session=_optional(entry, "session", 0),
        round=_optional(entry, "round", 0),
        after=_after(i, entry, followers),
        think_us=_optional(entry, "think_us", 0),
        patience_us=_optional(entry, "patience_us", 0),
    )
    return arrival


def _after(i: int, entry: dict[str, Any], followers: dict[int, int]) -> int | None:
    """Return the request that request `i` waits for: an earlier one that no other waits for."""
    after = _optional(entry, "after", 0)
    if after is None:
        if entry.get("think_us") is not None:
            raise _Malformed(".think_us: needs after")
        return None
    if after >= i:
        raise _Malformed(f".after: expected an earlier request than {i}, got {after}")
    if followers.setdefault(after, i) != i:
        raise _Malformed(f".after: request {followers[after]} comes after {after} already")
    return after


def _prompt(entries: Any) -> list[tuple[int, int]]:
    if not isinstance(entries, list) or not entries:
        raise _Malformed(".prompt: expected a list of at least one [segment, tokens]")
    return [_segment(item, f".prompt[{k}]") for k, item in enumerate(entries)]


def _segment(item: Any, key: str) -> tuple[int, int]:
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise _Malformed(f"{key}: expected [segment, tokens], got {item!r:.40}")
    segment, tokens = item
    if type(segment) is not int or not 0 <= segment <= _LARGEST:
        raise _Malformed(
            f"{key}: a segment is an integer from 0 to {_LARGEST}, got {segment!r:.40}"
        )
    if type(tokens) is not int or not 1 <= tokens <= MAX_TOKENS:
        raise _Malformed(
            f"{key}: tokens must be an integer from 1 to {MAX_TOKENS}, got {tokens!r:.40}"
        )
    return segment, tokens


def _optional(entry: dict[str, Any], key: str, least: int) -> int | None:
    return None if entry.get(key) is None else _integer(entry, key, least)


def _integer(entry: dict[str, Any], key: str, least: int) -> int:
    value = entry[key]
    if type(value) is not int or not least <= value <= _LARGEST:
        raise _Malformed(
            f".{key}: expected an integer from {least} to {_LARGEST}, got {value!r:.40}"
        )
    return value


def _optional_name(entry: dict[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is not None and (not isinstance(value, str) or not value):
        raise _Malformed(f".{key}: expected a string that is not empty, got {value!r:.40}")
    return value
