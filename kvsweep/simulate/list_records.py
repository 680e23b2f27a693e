"""A request list as the kernel reads it: REQUEST records, block keys, CHAIN records of extents."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from ..limits import MAX_REQUEST_TOKENS, MAX_TIME_US, MAX_TOKENS
from ..policies import SloClass
from ..records import CHAIN, NONE, REQUEST
from ..workload.blocks import BlockKeys, Extents, find_extents, whole_requests
from ..workload.requests import Requests

SLO_PRIORITY = {"critical": 0, "standard": 5, "batch": 10, "background": 15}
"""Priority of a class under ``engine.priority = "slo-class"``; unknown or missing: standard."""

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
        Drafts that the verifications of each request accept; ``accepted_lo`` is the first.
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
    _check_lengths(requests)
    in_common = bool(resolved.reusable.any())
    if in_common:
        extents = find_extents(resolved.offsets[:-1], resolved.offsets[1:], resolved.keys)
    else:
        extents = whole_requests(resolved.offsets)
    records = _request_records(requests)
    records["key_lo"] = resolved.offsets[:-1]
    records["chain_lo"] = extents.offsets[:-1]
    if in_common:
        records["reusable"] = resolved.reusable
        records["shared"] = resolved.shared
        records["duplicate"] = resolved.twin
    return Prepared(
        requests=requests,
        records=records,
        keys=resolved.keys,
        n_keys=int(resolved.n_keys),
        ranked=_is_ranked(requests, records),
        chain=chain_records(extents),
        n_extents=extents.count,
        n_shared=extents.shared,
        accepted=NONE_ACCEPTED if requests.accepted is None else requests.accepted.counts,
    )


def _request_records(requests: Requests) -> NDArray[Any]:
    """Return REQUEST records without what the content of blocks decides."""
    records = np.zeros(len(requests), REQUEST)
    records["arrival"] = requests.arrival_us
    records["prompt"] = requests.prompt_tokens
    records["output"] = requests.output_tokens
    records["think"] = requests.think_us
    records["patience"] = requests.patience_us
    records["follower"] = NONE
    waits = np.flatnonzero(requests.after != NONE)
    if waits.size:
        records["awaits"][waits] = 1
        records["follower"][requests.after[waits]] = waits
    records["class_priority"] = class_levels(requests)
    if requests.has_priority.any():
        given = requests.has_priority
        records["priority"] = np.where(given, requests.priority, 0)
        records["class_priority"] = np.where(given, requests.priority, records["class_priority"])
    records["slo_class"] = _slo_codes(requests)
    if requests.accepted is not None:
        offsets = requests.accepted.offsets
        records["accepted_lo"] = offsets[:-1]
        records["accepted_len"] = offsets[1:] - offsets[:-1]
    return records


def _is_ranked(requests: Requests, records: NDArray[Any]) -> bool:
    """Whether priorities or classes differ, where there are any."""
    if not requests.slo_names and not requests.has_priority.any():
        return False
    levels = records["class_priority"]
    return bool((levels != levels[:1]).any())


def _check_lengths(requests: Requests) -> None:
    tokens = requests.prompt_tokens + requests.output_tokens
    limited = (
        (tokens, MAX_REQUEST_TOKENS, "tokens, context and output together"),
        (requests.output_tokens, MAX_TOKENS, "output tokens"),
        (requests.arrival_us, MAX_TIME_US, "us to its arrival"),
        (requests.think_us, MAX_TIME_US, "us of thinking"),
        (requests.patience_us, MAX_TIME_US, "us of patience"),
    )
    for values, most, what in limited:
        worst = int(values.argmax())
        if values[worst] > most:
            raise InputError(
                f"request {worst} of the list has {values[worst]:,} {what}, at most {most:,}"
            )


def chain_records(extents: Extents) -> NDArray[Any]:
    """Return CHAIN records of the extents of all requests."""
    chain = np.zeros(len(extents.numbers), CHAIN)
    chain["extent"], chain["first"], chain["end"] = extents.numbers, extents.first, extents.end
    return chain


def class_levels(requests: Requests) -> NDArray[np.int64]:
    """Return the priority that each request has by its class."""
    standard = SLO_PRIORITY["standard"]
    if not requests.slo_names:
        return np.full(len(requests), standard)
    by_name = [SLO_PRIORITY.get(name, standard) for name in requests.slo_names] + [standard]
    levels: NDArray[np.int64] = np.array(by_name, np.int64)[requests.slo_class]
    return levels


def _slo_codes(requests: Requests) -> NDArray[np.uint8] | int:
    """Return the SLO class of each request as a code of `SloClass`; standard is the rest."""
    if not requests.slo_names:
        return SloClass.STANDARD
    known = [_SLO_CODES.get(name, SloClass.STANDARD) for name in requests.slo_names]
    return np.array([*known, SloClass.STANDARD], np.uint8)[requests.slo_class]
