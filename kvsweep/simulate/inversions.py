"""Priority inversions: admissions that pass over a more urgent request which waits beside them."""

import numpy as np
from numpy.typing import NDArray

Times = NDArray[np.int64]

_BLOCK = 1 << 16
"""Requests that are looked at together, so that their events stay in the processor's cache."""


def find_inversions(
    level: Times, instance: Times, queued: Times, scheduled: Times, left: Times
) -> NDArray[np.bool_]:
    """Tell which first admissions happen while a more urgent request waits at the same instance.

    Request i waits at the time t of an admission if ``queued_i <= t < left_i``. The requests that
    wait are counted along the sorted entries and departures of each cell, once per level.

    Parameters
    ----------
    level : int64 (cells, requests)
        Priority: smaller is more urgent.
    instance : int64 (cells, requests)
        Where the request waits, from 0; not read if it never does.
    queued : int64 (cells, requests)
        Entry into the waiting list, microseconds; -1 if it never waits.
    scheduled : int64 (cells, requests)
        First admission, or -1.
    left : int64 (cells, requests)
        When it has ceased to wait: its first admission, or given up; huge if it never does.

    Returns
    -------
    bool (cells, requests)
    """
    rows = max(1, _BLOCK // level.shape[1])
    parts = [slice(first, first + rows) for first in range(0, len(level), rows)]
    return np.concatenate(
        [_find(*(a[p] for a in (level, instance, queued, scheduled, left))) for p in parts]
    )


def _find(
    level: Times, instance: Times, queued: Times, scheduled: Times, left: Times
) -> NDArray[np.bool_]:
    """Find the inversions of a few cells."""
    requests = level.shape[1]
    enters = queued >= 0
    waits = enters & (left > queued)  # a patience may be over before the entry
    end = max(int(queued.max()), int(scheduled.max())) + 1
    times = np.concatenate([queued, np.minimum(left, end)], axis=1)
    times += np.tile(instance, 2) * (end + 1)
    times[~np.tile(enters, 2)] = -1
    order = np.argsort(times, axis=1)
    after = _run_ends(np.take_along_axis(times, order, axis=1))
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(2 * requests), order.shape), axis=1)
    # Where in the sorted events the admission of each request, and all at its time, is over.
    admission = np.take_along_axis(after, place[:, requests:], axis=1)
    admitted = enters & (scheduled >= 0)
    found = np.zeros(level.shape, np.bool_)
    for one in np.unique(level)[1:]:
        urgent = (waits & (level < one)).astype(np.int32)
        events = np.concatenate([urgent, -urgent], axis=1)
        waiting = np.take_along_axis(events, order, axis=1).cumsum(axis=1)
        found |= (level == one) & (np.take_along_axis(waiting, admission, axis=1) > 0)
    return found & admitted


def _run_ends(ordered: Times) -> NDArray[np.int64]:
    """Return for each place in sorted rows the last place of the same value."""
    places = np.broadcast_to(np.arange(ordered.shape[1]), ordered.shape).copy()
    places[:, :-1][ordered[:, 1:] == ordered[:, :-1]] = ordered.shape[1]
    ends: NDArray[np.int64] = np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]
    return ends
