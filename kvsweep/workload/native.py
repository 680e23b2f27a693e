"""The package's own trace format, ``kvsweep-trace/1``: strict reading, and writing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from kvsweep.errors import InputError, did_you_mean, dotted, shown
from kvsweep.limits import (
    MAX_DRAFTS,
    MAX_NAME,
    MAX_REQUEST_TOKENS,
    MAX_REQUESTS,
    MAX_ROUNDS,
    MAX_TIME_US,
    MAX_TOKENS,
    MAX_TOTAL_US,
)
from kvsweep.records import NONE
from kvsweep.workload.columns import RequestColumns
from kvsweep.workload.requests import Requests

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
    "accepted",
    "pull_fails",
)
_KEYS = [*_REQUIRED, *_OPTIONAL]
_TOP_KEYS = ["format", "about", "scenario", "requests", "expected"]

# Largest integer that JSON readers of other languages keep, too.
_LARGEST = 2**53
_MAX_NAMES = 2**15


def read_native(document: Mapping[str, Any], where: str) -> Requests:
    """Return the requests of a trace.

    Raises
    ------
    InputError
        If one is malformed, or has more tokens or time than is believed: file, position and key
        are named.
    """
    if document.get("format") != FORMAT:
        raise InputError(
            f"{where}: format: expected {FORMAT!r}, got {shown(document.get('format'))}"
        )
    for key in document:
        if key not in _TOP_KEYS:
            hint = did_you_mean(key, _TOP_KEYS) or f"; allowed: {', '.join(_TOP_KEYS)}"
            raise InputError(f"{where}: {dotted((str(key),))}: unknown key{hint}")
    entries = document.get("requests")
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{where}: requests: expected a list of at least one request")
    if len(entries) > MAX_REQUESTS:
        raise InputError(f"{where}: requests: {len(entries)} of them, more than {MAX_REQUESTS}")
    columns = _columns(entries, where)
    for key, names in (("slo_class", columns.slo_class), ("client", columns.client)):
        if len(set(names)) > _MAX_NAMES:
            raise InputError(f"{where}: requests: more than {_MAX_NAMES} different values of {key}")
    total = columns.arrival_us[-1] + sum(filter(None, columns.think_us))
    if total > MAX_TOTAL_US:
        raise InputError(
            f"{where}: requests: the last arrival and all think_us make {total} us together, more "
            f"than {MAX_TOTAL_US}"
        )
    return columns.build()


def _columns(entries: list[Any], where: str) -> RequestColumns:
    columns = RequestColumns()
    last = 0
    followers: dict[int, int] = {}
    for i, entry in enumerate(entries):
        try:
            last = _add(columns, i, entry, last, followers)
        except _Malformed as problem:
            raise InputError(f"{where}: requests[{i}]{problem}") from None
    return columns


def to_trace_dict(requests: Requests, scenario: Mapping[str, Any]) -> dict[str, Any]:
    """Return a trace of `requests`, to be dumped as JSON.

    Parameters
    ----------
    requests : Requests
        The request list.
    scenario : dict
        Its ``scenario``, as from `kvsweep.config.Scenario.to_trace`.
    """
    entries = list(trace_entries(requests))
    return {"format": FORMAT, "scenario": dict(scenario), "requests": entries}


def trace_entries(requests: Requests) -> Iterator[dict[str, Any]]:
    """Yield the requests as they stand in a trace."""
    bounds = requests.segment_offsets.tolist()
    parts = zip(requests.segment_ids.tolist(), requests.segment_tokens.tolist(), strict=True)
    prompts = [list(part) for part in parts]
    outputs = zip(requests.output_segment.tolist(), requests.output_tokens.tolist(), strict=True)
    for i, (arrival, (low, high), output) in enumerate(
        zip(requests.arrival_us.tolist(), pairwise(bounds), outputs, strict=True)
    ):
        yield {
            "id": i,
            "arrival_us": arrival,
            "prompt": prompts[low:high],
            "output": list(output),
            **_options(requests, i),
        }


def _options(requests: Requests, i: int) -> dict[str, Any]:
    """Return what a request has beyond the necessary."""
    entry: dict[str, Any] = {}
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
    if requests.accepted is not None:
        low, high = requests.accepted.offsets[i : i + 2]
        entry["accepted"] = requests.accepted.counts[low:high].tolist()
    if requests.pull_fails is not None:
        entry["pull_fails"] = bool(requests.pull_fails[i])
    return entry


class _Malformed(ValueError):
    """What is wrong with a request, from its key on."""


def _add(columns: RequestColumns, i: int, entry: Any, last: int, followers: dict[int, int]) -> int:
    """Append request `i` after an arrival at `last`, and return its own arrival.

    `followers` maps the requests that others come after to those others.
    """
    if not isinstance(entry, dict):
        raise _Malformed(f": expected an object, got {shown(entry)}")
    for key in entry:
        if key not in _KEYS:
            key = str(key)
            raise _Malformed(f".{dotted((key,))}: unknown key{did_you_mean(key, _KEYS)}")
    for key in _REQUIRED:
        if key not in entry:
            raise _Malformed(f".{key}: missing")
    if type(entry["id"]) is not int or entry["id"] != i:
        raise _Malformed(f".id: expected the position in the list, {i}, got {shown(entry['id'])}")
    arrival = _integer(entry, "arrival_us", 0, MAX_TIME_US)
    if arrival < last:
        raise _Malformed(f".arrival_us: {arrival} is before the previous request's, {last}")
    segments, tokens = _prompt(entry["prompt"])
    output = _segment(entry["output"], ".output")
    total = sum(tokens) + output[1]
    if total > MAX_REQUEST_TOKENS:
        raise _Malformed(f": {total} tokens, prompt and output, more than {MAX_REQUEST_TOKENS}")
    columns.add(
        arrival,
        segments,
        tokens,
        output,
        priority=_optional(entry, "priority", -_LARGEST, _LARGEST),
        slo_class=_optional_name(entry, "slo_class"),
        client=_optional_name(entry, "client"),
        session=_optional(entry, "session", 0, _LARGEST),
        round=_optional(entry, "round", 0, MAX_ROUNDS - 1),
        after=_after(i, entry, followers),
        think_us=_optional(entry, "think_us", 0, MAX_TIME_US),
        patience_us=_optional(entry, "patience_us", 0, MAX_TIME_US),
        accepted=_accepted(entry),
        pull_fails=_switch(entry, "pull_fails"),
    )
    return arrival


def _after(i: int, entry: dict[str, Any], followers: dict[int, int]) -> int | None:
    """Return the request that request `i` waits for: an earlier one that no other waits for."""
    after = _optional(entry, "after", 0, MAX_REQUESTS)
    if after is None:
        if entry.get("think_us") is not None:
            raise _Malformed(".think_us: needs after")
        return None
    if after >= i:
        raise _Malformed(f".after: expected an earlier request than {i}, got {after}")
    if followers.setdefault(after, i) != i:
        raise _Malformed(f".after: request {followers[after]} comes after {after} already")
    return after


def _accepted(entry: dict[str, Any]) -> list[int] | None:
    """Return how many drafts the verifications of a request accept."""
    counts = entry.get("accepted")
    if counts is None:
        return None
    if not isinstance(counts, list) or len(counts) > MAX_REQUEST_TOKENS:
        raise _Malformed(f".accepted: expected a list of drafts accepted, got {shown(counts)}")
    for k, value in enumerate(counts):
        if type(value) is not int or not 0 <= value <= MAX_DRAFTS:
            message = f"expected an integer from 0 to {MAX_DRAFTS}, got {shown(value)}"
            raise _Malformed(f".accepted[{k}]: {message}")
    return counts


def _prompt(entries: Any) -> tuple[list[int], list[int]]:
    """Return the segments of a prompt, and the tokens of each."""
    if not isinstance(entries, list) or not entries:
        raise _Malformed(".prompt: expected a list of at least one [segment, tokens]")
    pairs = [_segment(item, f".prompt[{k}]") for k, item in enumerate(entries)]
    return [segment for segment, _ in pairs], [tokens for _, tokens in pairs]


def _segment(item: Any, key: str) -> tuple[int, int]:
    if not isinstance(item, list | tuple) or len(item) != 2:
        raise _Malformed(f"{key}: expected [segment, tokens], got {shown(item)}")
    segment, tokens = item
    if type(segment) is not int or not 0 <= segment <= _LARGEST:
        raise _Malformed(
            f"{key}: a segment is an integer from 0 to {_LARGEST}, got {shown(segment)}"
        )
    if type(tokens) is not int or not 1 <= tokens <= MAX_TOKENS:
        raise _Malformed(
            f"{key}: tokens must be an integer from 1 to {MAX_TOKENS}, got {shown(tokens)}"
        )
    return segment, tokens


def _optional(entry: dict[str, Any], key: str, least: int, most: int) -> int | None:
    return None if entry.get(key) is None else _integer(entry, key, least, most)


def _switch(entry: dict[str, Any], key: str) -> bool | None:
    value = entry.get(key)
    if value is not None and not isinstance(value, bool):
        raise _Malformed(f".{key}: expected true or false, got {shown(value)}")
    return value


def _integer(entry: dict[str, Any], key: str, least: int, most: int) -> int:
    value = entry[key]
    if type(value) is not int or not least <= value <= most:
        raise _Malformed(f".{key}: expected an integer from {least} to {most}, got {shown(value)}")
    return value


def _optional_name(entry: dict[str, Any], key: str) -> str | None:
    value = entry.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not 1 <= len(value) <= MAX_NAME or not value.isprintable():
        raise _Malformed(
            f".{key}: expected a printable string of 1 to {MAX_NAME} characters, got {shown(value)}"
        )
    return value
