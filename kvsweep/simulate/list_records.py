"""A request list as the kernel reads it: REQUEST records, block keys, CHAIN records of extents."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..kernel.memory import HORIZON
from ..limits import MAX_REQUEST_TOKENS, MAX_TIME_US, MAX_TOKENS
from ..policies import SloClass
from ..records import CHAIN, NONE, REQUEST
from ..workload.blocks import BlockKeys, Extents, find_extents, resolve_all, whole_requests
from ..workload.requests import Accepted, Requests, rows

SLO_PRIORITY = {"critical": 0, "standard": 5, "batch": 10, "background": 15}
"""Priority of a class under ``engine.priority = "slo-class"``; unknown or missing: standard."""

TOGETHER = 1 << 13
"""Requests of lists that are prepared at once, whose records stay in the processor's cache."""

NONE_ACCEPTED = np.zeros(1, np.uint8)
"""Of a list whose requests do not say which drafts are accepted."""

_SLO_CODES = {item.label: item for item in SloClass}


@dataclass(frozen=True)
class Prepared:
    """One request list as the kernel reads it.

    Attributes
    ----------
    requests : Requests
        The request list.
    records : REQUEST (n,)
        The same as kernel records; ``key_lo`` counts from the list's own first key slot.
    keys : int32 (slots,)
        Content key per (request, full block).
    n_keys : int
        Number of distinct keys.
    ranked : bool
        Whether some requests are more urgent than others, by priority or class.
    chain : CHAIN (links,)
        The extents of each request, in order; ``chain_lo`` counts from the list's own first.
    n_extents, n_shared : int
        Number of extents, and of those that several requests have.
    accepted : uint8 (total,)
        Drafts that the verifications of each request accept; ``accepted_lo`` is the first. There
        are as many as it can make, and as many more as are planned at a time.
    """

    requests: Requests
    records: NDArray[Any]
    keys: NDArray[np.int32]
    n_keys: int
    ranked: bool
    chain: NDArray[Any]
    n_extents: int
    n_shared: int
    accepted: NDArray[np.uint8]


def prepare(requests: Requests, resolved: BlockKeys) -> Prepared:
    """Make the kernel's records of a request list with its block keys.

    Raises
    ------
    InputError
        If a request is too long for the kernel to count its blocks, or a time too long to add.
    """
    return _prepared([requests], [resolved], np.empty((1, len(requests)), REQUEST))[0]


def prepare_all(lists: Iterable[Requests], block_size: int, ahead: int) -> list[Prepared]:
    """Find the block keys of request lists, and make the kernel's records of them.

    Lists that are alike are worked on together: NumPy takes longer to be called than for what it
    does to 200 requests. (H8: 200 lists take a tenth of what they take one by one.)

    Raises
    ------
    InputError
        As `resolve_blocks` and `prepare`.
    """
    found: list[Prepared] = []
    for (length, _), alike in groupby(lists, lambda item: (len(item), item.slo_names)):
        chosen = list(alike)
        # In one piece, which NumPy asks for in large pages: small ones took 6 us a list.
        records = np.empty((len(chosen), length), REQUEST)
        at_once = max(1, TOGETHER // length)
        for lo in range(0, len(chosen), at_once):
            part = chosen[lo : lo + at_once]
            keys = resolve_all(part, block_size, ahead)
            found += _prepared(part, keys, records[lo : lo + at_once])
    return found


def _prepared(
    lists: Sequence[Requests], resolved: Sequence[BlockKeys], records: NDArray[Any]
) -> list[Prepared]:
    """Make the records of lists that have equally many requests and the same classes.

    They are written to `records`, (lists, requests).
    """
    _check_lengths(lists)
    columns = _columns(lists)
    levels = columns["class_priority"]
    ranked = np.asarray(_in_each(lists, levels != levels[:, :1]).any(axis=1), np.bool_)
    offsets = rows(resolved, "offsets")
    columns["key_lo"] = offsets[:, :-1]
    blocks = _in_each(lists, offsets[:, 1:] - offsets[:, :-1])
    alike = bool(blocks.all() and not rows(resolved, "reusable").any())
    if alike:
        columns["chain_lo"] = np.arange(len(lists[0]))[None]
    _fill(records, columns)
    if alike:
        extents = _whole(blocks)
    else:
        extents = [_set_extents(own, keys) for own, keys in zip(records, resolved, strict=True)]
    _set_followers(records, rows(lists, "after"))
    found = zip(lists, records, resolved, map(bool, ranked), extents, strict=True)
    for own, each in zip(records, lists, strict=True):
        if each.pull_fails is not None:
            own["fails"] = each.pull_fails
    return [
        Prepared(
            requests=requests,
            records=own,
            keys=keys.keys,
            n_keys=keys.n_keys,
            ranked=is_ranked,
            chain=chain,
            n_extents=n_extents,
            n_shared=n_shared,
            accepted=_set_accepted(own, requests.accepted),
        )
        for requests, own, keys, is_ranked, (chain, n_extents, n_shared) in found
    ]


def _in_each(lists: Sequence[Requests], column: NDArray[Any]) -> NDArray[Any]:
    """Return a column with a row for each list; all have the only row that there may be."""
    if len(column) == len(lists):
        return column
    return np.broadcast_to(column, (len(lists), column.shape[1]))


def _columns(lists: Sequence[Requests]) -> dict[str, NDArray[Any]]:
    """Return the fields of REQUEST that follow from one request, as `rows` does."""
    names, codes = lists[0].slo_names, rows(lists, "slo_class")
    known = [_SLO_CODES.get(name, SloClass.STANDARD) for name in names]
    columns = {
        "arrival": rows(lists, "arrival_us"),
        "prompt": rows(lists, "prompt_tokens"),
        "output": rows(lists, "output_tokens"),
        "think": rows(lists, "think_us"),
        "patience": rows(lists, "patience_us"),
        "follower": np.full((1, len(lists[0])), NONE),
        "class_priority": class_levels(names, codes),
        "slo_class": np.array([*known, SloClass.STANDARD], np.uint8)[codes],
    }
    given = rows(lists, "has_priority")
    if given.any():
        priority = rows(lists, "priority")
        columns["priority"] = np.where(given, priority, 0)
        columns["class_priority"] = np.where(given, priority, columns["class_priority"])
    return columns


def _fill(records: NDArray[Any], columns: dict[str, NDArray[Any]]) -> None:
    """Write the records of lists; what they have in common is set once, and copied."""
    common = np.zeros((1, records.shape[1]), REQUEST)
    for name, values in columns.items():
        if len(values) == 1:
            common[name] = values
    records.view(np.uint8)[...] = common.view(np.uint8)
    for name, values in columns.items():
        if len(values) > 1:
            records[name] = values


def _set_followers(records: NDArray[Any], after: NDArray[np.int64]) -> None:
    """Set who waits for whom, of columns ``after`` as of `rows`."""
    if (after == NONE).all():
        return
    every = np.broadcast_to(after, records.shape)
    of, waits = np.nonzero(every != NONE)
    records["awaits"][of, waits] = 1
    records["follower"][of, every[of, waits]] = waits


def _set_accepted(records: NDArray[Any], accepted: Accepted | None) -> NDArray[np.uint8]:
    """Set which drafts are accepted of each request of a list; return those of all."""
    if accepted is None:
        return NONE_ACCEPTED
    lengths = records["output"] + HORIZON  # each verification gives a token at least
    begins = np.cumsum(lengths) - lengths
    records["accepted_lo"] = begins
    records["accepted_len"] = lengths
    number = np.arange(lengths.sum()) - np.repeat(begins, lengths)
    given = np.repeat(np.diff(accepted.offsets), lengths)
    places = np.repeat(accepted.offsets[:-1], lengths) + number % np.maximum(given, 1)
    padded = np.append(accepted.counts, np.uint8(0))
    counts: NDArray[np.uint8] = np.where(given > 0, padded[places], np.uint8(0))
    return counts


def _whole(blocks: NDArray[np.int64]) -> list[tuple[NDArray[Any], int, int]]:
    """Return the extents of lists whose requests have no blocks in common, as `_set_extents`.

    What `whole_requests` says of each list, for all of them at once.
    """
    count = blocks.shape[1]
    chains = np.zeros(blocks.shape, CHAIN)
    chains["extent"] = np.arange(count)
    chains["end"] = blocks
    return [(chain, count, 0) for chain in chains]


def _set_extents(records: NDArray[Any], resolved: BlockKeys) -> tuple[NDArray[Any], int, int]:
    """Set what the content of blocks decides in one list.

    Returns
    -------
    CHAIN (links,), int, int
        Its extents, their number, and that of those that several requests have.
    """
    if resolved.reusable.any():
        extents = find_extents(resolved.offsets[:-1], resolved.offsets[1:], resolved.keys)
        records["reusable"] = resolved.reusable
        records["shared"] = resolved.shared
        records["duplicate"] = resolved.twin
        records["family"] = _first_keys(resolved)
    else:
        extents = whole_requests(resolved.offsets)
    records["chain_lo"] = extents.offsets[:-1]
    return chain_records(extents), extents.count, extents.shared


def _first_keys(resolved: BlockKeys) -> NDArray[np.int32]:
    """Return the key of the first block of each request of a list, NONE where it has no block."""
    begins, ends = resolved.offsets[:-1], resolved.offsets[1:]
    keys = np.append(resolved.keys, np.int32(NONE))
    return np.where(ends > begins, keys[begins], np.int32(NONE))


def _check_lengths(lists: Sequence[Requests]) -> None:
    output = rows(lists, "output_tokens")
    limited = (
        (
            rows(lists, "prompt_tokens") + output,
            MAX_REQUEST_TOKENS,
            "tokens, context and output together",
        ),
        (output, MAX_TOKENS, "output tokens"),
        (rows(lists, "arrival_us"), MAX_TIME_US, "us to its arrival"),
        (rows(lists, "think_us"), MAX_TIME_US, "us of thinking"),
        (rows(lists, "patience_us"), MAX_TIME_US, "us of patience"),
    )
    for values, most, what in limited:
        if values.max() > most:
            of, worst = np.unravel_index(values.argmax(), values.shape)
            raise InputError(
                f"request {worst} of the list has {values[of, worst]:,} {what}, at most {most:,}"
            )


def chain_records(extents: Extents) -> NDArray[Any]:
    """Return CHAIN records of the extents of all requests."""
    chain = np.zeros(len(extents.numbers), CHAIN)
    chain["extent"], chain["first"], chain["end"] = extents.numbers, extents.first, extents.end
    return chain


def class_levels(names: Sequence[str], codes: NDArray[np.int16]) -> NDArray[np.int64]:
    """Return the priority that requests have by their classes, codes of `names` or -1."""
    standard = SLO_PRIORITY["standard"]
    by_name = [SLO_PRIORITY.get(name, standard) for name in names] + [standard]
    levels: NDArray[np.int64] = np.array(by_name, np.int64)[codes]
    return levels
