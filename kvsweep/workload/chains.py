"""Chains of requests that wait for each other's answers: their earliest arrivals, played again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kvsweep.records import NONE
from kvsweep.workload.requests import Requests
from kvsweep.workload.taking import take

Integers = NDArray[np.int64]


def earliest_arrivals(requests: Requests) -> Integers:
    """Return the earliest arrivals that there can be, int64 (n,): answers take no time.

    Who waits for nobody arrives as the list says.
    """
    since = np.where(requests.after == NONE, requests.arrival_us, requests.think_us)
    before = requests.after.copy()
    while (waits := np.flatnonzero(before != NONE)).size:
        further = before[waits]
        since[waits], before[waits] = since[waits] + since[further], before[further]
    return since


def in_order(requests: Requests) -> Requests:
    """Return the requests by arrival, those that arrive at once in the order that they have."""
    if (np.diff(requests.arrival_us) >= 0).all():
        return requests
    return take(requests, np.argsort(requests.arrival_us, kind="stable"))


def at_earliest(requests: Requests) -> Requests:
    """Return the requests with the earliest arrivals that they can have, in their order."""
    if (requests.after == NONE).all():
        return requests
    return in_order(replace(requests, arrival_us=earliest_arrivals(requests)))


def chain_ends(requests: Requests) -> NDArray[np.intp]:
    """Return the last request of each chain, in the order of their first ones."""
    follower = np.full(len(requests), NONE)
    waits = np.flatnonzero(requests.after != NONE)
    follower[requests.after[waits]] = waits
    last = np.flatnonzero(requests.after == NONE)
    while (more := follower[last] != NONE).any():
        last = np.where(more, follower[last], last)
    return last


def one_behind_the_other(lists: Sequence[Requests], everyone: Requests) -> Requests:
    """Return lists put together so that each chain begins when it has ended in the list before.

    Parameters
    ----------
    lists : sequence of Requests
        Copies of one list.
    everyone : Requests
        They, one after the other.
    """
    first = np.flatnonzero(lists[0].after == NONE)
    last, count = chain_ends(lists[0]), len(lists[0])
    after = everyone.after.copy()
    for k in range(1, len(lists)):
        after[first + k * count] = last + (k - 1) * count
    return at_earliest(replace(everyone, after=after))
