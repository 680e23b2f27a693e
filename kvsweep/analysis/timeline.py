"""The life of every request of a replay: what it did when, and the blocks in use meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kvsweep.analysis.request_lives import Phase, segments_of
from kvsweep.config.fleet import fleet
from kvsweep.config.pools import pools_of
from kvsweep.config.transfer import has_usual_bytes
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.trace_replay import Replay

GIB = 2**30

ROWS = 300
"""Rows that are told apart in a figure."""


@dataclass(frozen=True)
class Timeline:
    """What every request did when.

    Times are microseconds since the first arrival.

    Attributes
    ----------
    name : str
        Where the requests are from.
    rows : int64 (n,)
        The requests, by their position in the list, in the order in which they are drawn: by
        instance, then as listed; those that were never routed come last.
    instance : int64 (n,)
        Of each row; -1: none.
    lane : int64 (n,)
        Of each row: where it is drawn if a request may follow another that has ended.
    row, phase : int64 (m,)
        Of each segment: its row, counted from 0, and its `kvsweep.analysis.request_lives.Phase`.
    start_us, end_us : int64 (m,)
        Its begin and end.
    lost, lost_us : int64 (k,)
        Rows of requests that did not complete, and when each ended: at its arrival if it was never
        let in, -1 if it never arrived.
    used : list of (int64 (s,), int64 (s,))
        Of each instance: times, and blocks in use from each of them on.
    blocks : tuple of int
        Blocks of each instance.
    block_gib : float or None
        GiB of a block on each GPU, if the bytes of a token are known and the same everywhere, and
        all layers share a block.
    preemptions : int
        Of all requests.
    last_us : int
        When all is done.
    """

    name: str
    rows: NDArray[np.int64]
    instance: NDArray[np.int64]
    lane: NDArray[np.int64]
    row: NDArray[np.int64]
    phase: NDArray[np.int64]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    lost: NDArray[np.int64]
    lost_us: NDArray[np.int64]
    used: list[tuple[NDArray[np.int64], NDArray[np.int64]]]
    blocks: tuple[int, ...]
    block_gib: float | None
    preemptions: int
    last_us: int

    @property
    def is_long(self) -> bool:
        """Whether so many requests come one after the other that rows of their own are thin."""
        return len(self.rows) > ROWS and int(self.lane.max()) < len(self.rows) // 3


def timeline_of(found: Replay) -> Timeline:
    """Return the timeline of a replay.

    Raises
    ------
    InputError
        Under the replica's rules, which log no decisions, or if nothing was simulated.
    """
    if found.scenario.engine.rules == "blis":
        raise InputError(
            "timeline: rules 'blis' log no decisions; --set engine.rules=vllm replays it by vLLM's"
        )
    columns = found.requests
    arrival = columns["arrival_us"]
    known = arrival[arrival >= 0]
    origin = int(known.min()) if known.size else 0
    order, instance = _order(columns["instance"])
    ends = found.steps["start_us"] + found.steps["duration_us"]
    last = max(int(ends.max(initial=origin)), int(columns["finish_us"].max(initial=0)))
    shown = max(last, int(arrival.max(initial=origin)))
    segments = segments_of(found, last)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    request, phase, start, end = np.array(segments, np.int64).reshape(-1, 4).T

    def moves(number: int) -> NDArray[np.int64]:
        from_here = (phase == Phase.MOVING) & (columns["instance"][request] == number)
        return np.stack([start[from_here], end[from_here]], axis=1)

    blocks = _blocks(found.scenario)
    lost = order[columns["status"][order] != "completed"]
    ended = arrival.astype(np.int64)  # a copy
    np.maximum.at(ended, request, end)
    return Timeline(
        name=found.trace.where,
        rows=order,
        instance=instance,
        lane=_lanes(instance, place[request], start, end),
        row=place[request],
        phase=phase,
        start_us=start - origin,
        end_us=end - origin,
        lost=place[lost],
        lost_us=np.where(ended[lost] < 0, -1, ended[lost] - origin),
        used=[_used(found, i, blocks[i], moves(i), origin) for i in range(len(blocks))],
        blocks=blocks,
        block_gib=_block_gib(found.scenario),
        preemptions=int(columns["preemptions"].clip(min=0).sum()),
        last_us=shown - origin,
    )


def _blocks(scenario: Scenario) -> tuple[int, ...]:
    """Return the blocks of each instance, through all pools."""
    return tuple(pool.gpu_blocks for pool in fleet(scenario) for _ in range(pool.instances))


def _block_gib(scenario: Scenario) -> float | None:
    cache, usual = scenario.cache, scenario.latency.model
    token = cache.kv_bytes_per_token
    if token is None or len(cache.groups) > 1:
        return None  # a block of one of several groups has the bytes of its layers only
    own = [pool.latency.model for _, pool in pools_of(scenario.cluster) if pool.latency]
    if not all(has_usual_bytes(model, usual) for model in own):
        return None
    return float(token) * cache.block_size / GIB


def _order(instance: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the requests by instance, as listed within one, and the instance of each."""
    routed = np.where(instance < 0, _NEVER, instance)
    order = np.argsort(routed, kind="stable")
    return order, instance[order]


def _lanes(
    instance: NDArray[np.int64],
    row: NDArray[np.int64],
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Return the first lane of its instance that is free while a row has segments."""
    rows = len(instance)
    begins, ends = np.full(rows, _NEVER), np.full(rows, -1)
    np.minimum.at(begins, row, start)
    np.maximum.at(ends, row, end)
    track, first = np.zeros(rows, np.int64), 0
    for name in np.unique(instance)[np.argsort(np.unique(instance) < 0, kind="stable")]:
        own = np.flatnonzero((instance == name) & (ends >= 0))
        busy: list[tuple[int, int]] = []
        free: list[int] = []
        made = 0
        for r in own[np.argsort(begins[own], kind="stable")].tolist():
            while busy and busy[0][0] <= begins[r]:
                heappush(free, heappop(busy)[1])
            if not free:
                heappush(free, made)
                made += 1
            track[r] = first + free[0]
            heappush(busy, (int(ends[r]), heappop(free)))
        track[(instance == name) & (ends < 0)] = first
        first += max(made, 1)
    return track


_NEVER = np.iinfo(np.int64).max


def _used(
    found: Replay, instance: int, blocks: int, moves: NDArray[np.int64], origin: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return times and blocks in use of an instance; between two of its busy times what is kept.

    Finished prefills keep their blocks until they have moved, of which `moves` has begin and end.
    Of several none goes before the last, as the log does not tell who shares blocks.
    """
    own = found.steps["instance"] == instance
    start = found.steps["start_us"][own]
    end = start + found.steps["duration_us"][own]
    used = blocks - found.steps["free_blocks"][own]
    rests = np.append(end[:-1] < start[1:], True) if len(start) else np.zeros(0, bool)
    rest, until = end[rests], np.append(start[1:], _NEVER)[rests]
    moved = _latest_ends(moves, rest)
    is_kept = moved > rest
    kept = np.where(is_kept, blocks - found.steps["free_after"][own][rests], 0)
    ends = moved[is_kept & (moved < until)]
    times = np.concatenate([[origin], start, rest, ends])
    values = np.concatenate([[0], used, kept, np.zeros(len(ends), np.int64)])
    order = np.argsort(times, kind="stable")
    return times[order] - origin, values[order]


def _latest_ends(moves: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return when the last of the moves ends that have begun by each time; 0: none has."""
    ordered = moves[np.argsort(moves[:, 0], kind="stable")]
    latest = np.maximum.accumulate(np.append(0, ordered[:, 1]))
    found: NDArray[np.int64] = latest[np.searchsorted(ordered[:, 0], times, side="right")]
    return found
