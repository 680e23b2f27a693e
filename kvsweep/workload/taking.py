"""Parts and copies of request lists: rows taken, prompts cut, lists put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvsweep.records import NONE
from kvsweep.workload.requests import Accepted, Requests

_BY_ROW = (
    *("arrival_us", "prompt_tokens", "output_tokens", "output_segment", "priority"),
    *("has_priority", "slo_class", "client", "session", "round", "after", "think_us"),
    "patience_us",
)


def take(requests: Requests, rows: NDArray[np.intp]) -> Requests:
    """Return these requests, in order of arrival.

    Parameters
    ----------
    requests : Requests
        A list.
    rows : int (k,)
        Positions, none twice. Of two with the same arrival, or of which one waits for the other,
        the first must come first.

    Returns
    -------
    Requests
        Who waited for a request that is left out arrives by itself. Names that nobody has any more
        are left out.
    """
    begins = requests.segment_offsets[:-1][rows]
    counts = requests.segment_offsets[1:][rows] - begins
    offsets = _sums(counts)
    entries = np.repeat(begins - offsets[:-1], counts) + np.arange(offsets[-1])
    columns = {name: getattr(requests, name)[rows] for name in _BY_ROW}
    place = np.full(len(requests) + 1, NONE)  # the last for those who wait for nobody
    place[rows] = np.arange(len(rows))
    columns["after"] = place[columns["after"]]
    columns["think_us"] = np.where(columns["after"] == NONE, 0, columns["think_us"])
    slo_class, slo_names = _used(columns.pop("slo_class"), requests.slo_names)
    client, client_names = _used(columns.pop("client"), requests.client_names)
    return Requests(
        **columns,
        segment_offsets=offsets,
        segment_ids=requests.segment_ids[entries],
        segment_tokens=requests.segment_tokens[entries],
        slo_class=slo_class,
        client=client,
        slo_names=slo_names,
        client_names=client_names,
        accepted=requests.accepted and requests.accepted.of(rows),
        pull_fails=None if requests.pull_fails is None else requests.pull_fails[rows],
    )


def _sums(counts: NDArray[np.int64] | NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return where each of so many begins, and the end of all."""
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    return offsets


def _used(
    codes: NDArray[np.int16], names: tuple[str, ...]
) -> tuple[NDArray[np.int16], tuple[str, ...]]:
    """Return codes of the names that occur, as readers number them: by their first occurrence."""
    found, first = np.unique(codes, return_index=True)
    kept = found[np.argsort(first)]
    kept = kept[kept != NONE]
    code = np.full(len(names) + 1, NONE, np.int16)
    code[kept] = np.arange(len(kept))
    return code[codes], tuple(names[i] for i in kept)


def clip_prompts(requests: Requests, most: int) -> Requests:
    """Return the requests with the first `most` tokens of longer prompts."""
    if int(requests.prompt_tokens.max(initial=0)) <= most:
        return requests
    begins, ends = requests.segment_offsets[:-1], requests.segment_offsets[1:]
    before = _sums(requests.segment_tokens)
    # Tokens of its own prompt that stand before each entry.
    earlier = before[:-1] - np.repeat(before[begins], ends - begins)
    tokens = np.clip(most - earlier, 0, requests.segment_tokens)
    kept = tokens > 0
    return replace(
        requests,
        prompt_tokens=np.minimum(requests.prompt_tokens, most),
        segment_offsets=_sums(kept)[requests.segment_offsets],
        segment_ids=requests.segment_ids[kept],
        segment_tokens=tokens[kept],
    )


def chain_starts(requests: Requests) -> NDArray[np.int64]:
    """Return the first request of the chain of waiting ones that each belongs to, int64 (n,)."""
    own = np.arange(len(requests))
    start = np.where(requests.after == NONE, own, requests.after)
    while not np.array_equal(further := start[start], start):
        start = further
    return start


def joined(lists: Sequence[Requests], *, new_content: bool) -> Requests:
    """Return lists one after the other, as they would be read from one file.

    Parameters
    ----------
    lists : sequence of Requests
        Of the same names of classes and clients. Sessions of different lists are different ones.
    new_content : bool
        Whether segments of different lists are different content, whatever their numbers.
    """
    numbers = np.arange(len(lists))
    first = _sums(np.array([len(one) for one in lists]))[:-1]
    columns = {name: np.concatenate([getattr(one, name) for one in lists]) for name in _BY_ROW}
    of_row = np.repeat(numbers, [len(one) for one in lists])
    entries = [len(one.segment_ids) for one in lists]
    of_entry = np.repeat(numbers, entries)
    ids = np.concatenate([one.segment_ids for one in lists])
    if new_content:
        ids, columns["output_segment"] = _apart(
            ids, columns["output_segment"], of_entry, of_row, len(lists)
        )
    columns["after"] = np.where(columns["after"] == NONE, NONE, columns["after"] + first[of_row])
    columns["session"] = _sessions_apart(columns["session"], of_row, len(lists))
    counts = np.concatenate([np.diff(one.segment_offsets) for one in lists])
    return Requests(
        **columns,
        segment_offsets=_sums(counts),
        segment_ids=ids,
        segment_tokens=np.concatenate([one.segment_tokens for one in lists]),
        slo_names=lists[0].slo_names,
        client_names=lists[0].client_names,
        accepted=_joined_accepted([one.accepted for one in lists]),
        pull_fails=_joined_failing([one.pull_fails for one in lists]),
    )


def _joined_failing(parts: Sequence[NDArray[np.bool_] | None]) -> NDArray[np.bool_] | None:
    """Return whose pulls fail in copies of one list: all of them say, or none."""
    told = [part for part in parts if part is not None]
    return np.concatenate(told) if told else None


def _joined_accepted(parts: Sequence[Accepted | None]) -> Accepted | None:
    """Return what copies of one list accept: all of them say, or none."""
    told = [part for part in parts if part is not None]
    if not told:
        return None
    counts = np.concatenate([np.diff(part.offsets) for part in told])
    return Accepted(_sums(counts), np.concatenate([part.counts for part in told]))


_MOST = 2**53  # number of a segment or session in a file


def _sessions_apart(
    sessions: NDArray[np.int64], of_row: NDArray[np.int64], lists: int
) -> NDArray[np.int64]:
    """Return numbers of sessions that tell lists apart, and fit a file."""
    count = 1 + int(sessions.max())
    told = sessions != NONE
    if count * lists > _MOST:
        distinct, dense = np.unique(sessions[told], return_inverse=True)
        sessions, count = sessions.copy(), len(distinct)
        sessions[told] = dense
    return np.where(told, sessions + count * of_row, NONE)


def _apart(
    ids: NDArray[np.int64],
    outputs: NDArray[np.int64],
    of_entry: NDArray[np.int64],
    of_row: NDArray[np.int64],
    lists: int,
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return numbers of segments that tell lists apart, and fit a file."""
    count = 1 + int(max(ids.max(initial=0), outputs.max(initial=0)))
    if count * lists > _MOST:
        both, dense = np.unique(np.concatenate((ids, outputs)), return_inverse=True)
        count, ids, outputs = len(both), dense[: len(ids)], dense[len(ids) :]
    return ids + count * of_entry, outputs + count * of_row
