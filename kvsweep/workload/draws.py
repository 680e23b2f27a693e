"""What clients send: rows of sessions, drawn client by client, merged and cut to length."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.sessions import Sessions
from kvsweep.config.workload import Client, Workload
from kvsweep.errors import InputError
from kvsweep.limits import MAX_RATE, MAX_TIME_US
from kvsweep.workload.arrivals import unit_gaps
from kvsweep.workload.lengths import Pairs, draw_lengths
from kvsweep.workload.streams import QUANTITIES, Streams, fill

SINGLE = Sessions(rounds=1, think_time_s=0.0)
"""What a client without sessions sends, one request each."""


class Draws(NamedTuple):
    """Requests before their content is laid out; all int64 (n,) but `fraction`.

    Attributes
    ----------
    arrival : array
        Microseconds; of a round that waits for an answer the earliest possible.
    fraction : float64 (n,)
        What truncation to microseconds cut off the start of the session; it decides ties.
    client : array
        Position of the client.
    session : array
        Number of the session, over all clients; a single request is a session of its own.
    round : array
        From 0.
    prompt, output : array
        Tokens: the new input, and the output.
    think : array
        Microseconds of thinking before the round.
    """

    arrival: NDArray[np.int64]
    fraction: NDArray[np.float64]
    client: NDArray[np.int64]
    session: NDArray[np.int64]
    round: NDArray[np.int64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]
    think: NDArray[np.int64]

    def take(self, rows: NDArray[np.intp]) -> Draws:
        """Return these rows."""
        columns: tuple[NDArray[Any], ...] = self
        return Draws(*(column[rows] for column in columns))


def client_of(workload: Workload, index: int) -> Client | None:
    """Return a client by position; None stands for the only one of a workload without clients."""
    return workload.clients[index] if workload.clients else None


def sessions_of(workload: Workload, index: int) -> Sessions | None:
    """Return what sessions a client has, its own or the workload's."""
    client = client_of(workload, index)
    return (client.sessions if client else None) or workload.sessions


def draw_requests(
    workload: Workload, seeds: Sequence[int], entropy: int, pairs: Pairs | None = None
) -> list[Draws]:
    """Draw what all clients send, in order of arrival and cut to ``workload.requests``.

    Lengths are drawn from `pairs` if there are any.

    Returns
    -------
    list of Draws
        By seed.

    Raises
    ------
    InputError
        If the rate is so small that time overflows, or a length is absurd.
    """
    assert (pairs is None) == (workload.lengths_from is None), "pairs are what lengths_from names"
    shares = [client.rate_fraction for client in workload.clients] or [1.0]
    parts: list[list[Draws]] = []
    first = 0
    for index, share in enumerate(shares):
        # Without a rate all are ready at once, in the order that they would have at any rate.
        rate = (workload.rate or MAX_RATE) * share / sum(shares)
        parts.append(_draw_client(workload, index, rate, first, (entropy, seeds), pairs))
        first = int(parts[-1][0].session[-1]) + 1
    if len(parts) == 1 and (sessions_of(workload, 0) or SINGLE).rounds == 1:
        drawn = parts[0]  # as many as wanted, and in order
    else:
        drawn = [_cut(workload, _joined(own)) for own in zip(*parts, strict=True)]
    if workload.rate is None:
        return [draws._replace(arrival=0 * draws.arrival) for draws in drawn]
    return drawn


def _joined(parts: Sequence[Draws]) -> Draws:
    return Draws(*map(np.concatenate, zip(*parts, strict=True)))


def _draw_client(
    workload: Workload,
    index: int,
    rate: float,
    first: int,
    root: tuple[int, Sequence[int]],
    pairs: Pairs | None,
) -> list[Draws]:
    """Draw the sessions of one client, one after the other, numbered from `first`; by seed.

    The numbers of all seeds are worked on together, (seeds, n): a call of NumPy takes longer than
    what it does to the 200 numbers of one.
    """
    entropy, seeds = root
    arrivals, prompts, outputs, thinking = (
        Streams(entropy, seeds, index, quantity) for quantity in range(QUANTITIES)
    )
    where = f"workload.clients[{index}]" if workload.clients else "workload"
    own: Any = client_of(workload, index) or workload
    sessions = sessions_of(workload, index) or SINGLE
    count = session_count(workload, sessions)
    n = count * sessions.rounds
    process, cv = own.arrivals or workload.arrivals, own.cv or workload.cv
    start = unit_gaps(process, cv, count, arrivals).cumsum(axis=1)
    start *= 1e6 / rate
    if pairs is not None:
        prompt, output = pairs.draw(n, prompts)
    else:
        prompt = draw_lengths(own.prompt or workload.prompt, n, prompts, f"{where}.prompt")
        output = draw_lengths(own.output or workload.output, n, outputs, f"{where}.output")
    client, none = np.full(n, index), np.zeros(n, np.int64)
    if sessions.rounds == 1:
        _check_end(start[:, -1], n, where)
        whole = start.astype(np.int64)
        numbers = np.arange(first, first + n)
        return [
            Draws(a, f, client, numbers, none, p, o, none)
            for a, f, p, o in zip(whole, start - whole, prompt, output, strict=True)
        ]
    think = _think_times(sessions, count, thinking)
    offset = _offsets(sessions, output.reshape(think.shape), think)
    _check_end(start[:, -1] + offset[..., -1].max(axis=1), n, where)
    whole = start.astype(np.int64)
    arrival = (whole[..., None] + offset.astype(np.int64)).reshape(len(seeds), n)
    fraction = np.repeat(start - whole, sessions.rounds, axis=1)
    numbers = first + np.repeat(np.arange(count), sessions.rounds)
    turn = np.arange(n) % sessions.rounds
    rows = zip(arrival, fraction, prompt, output, think.reshape(len(seeds), n), strict=True)
    return [Draws(a, f, client, numbers, turn, p, o, t) for a, f, p, o, t in rows]


def _check_end(last: NDArray[np.float64], n: int, where: str) -> None:
    if not last.max() <= MAX_TIME_US:
        raise InputError(
            f"{where}: the rate is too small, or the think time too long: {n:,} requests take more "
            f"than {MAX_TIME_US:.3g} us (three years)"
        )


def session_count(workload: Workload, sessions: Sessions) -> int:
    """Return how many sessions a client draws: always enough to fill the workload alone."""
    wanted = workload.requests
    if sessions.truncate and sessions.rounds > 1:
        wanted *= 2
    return math.ceil(wanted / sessions.rounds)


def _think_times(sessions: Sessions, count: int, streams: Streams) -> NDArray[np.int64]:
    """Return microseconds before each round, (streams, count, rounds); 0 before the first."""
    later = sessions.rounds - 1
    think = np.zeros((len(streams.seeds), count, sessions.rounds))
    think[..., 1:] = 1e6 * sessions.think_time_s
    if sessions.think_time == "exponential":
        unit = fill(streams, count * later, "standard_exponential")
        think[..., 1:] *= unit.reshape(-1, count, later)
    # Beyond the limit the sum is refused later; until then it must fit an integer.
    return np.minimum(think, 2 * MAX_TIME_US).astype(np.int64)


def _offsets(
    sessions: Sessions, output: NDArray[np.int64], think: NDArray[np.int64]
) -> NDArray[np.float64]:
    """Return the arrival of each round after the session's first, (streams, count, rounds)."""
    gaps = think.astype(np.float64)
    if sessions.arrivals == "fixed":
        gaps[..., 1:] += output[..., :-1]
    return np.cumsum(gaps, axis=-1)


def _cut(workload: Workload, drawn: Draws) -> Draws:
    """Return the first ``workload.requests`` rows in order of arrival, ties by client."""
    indices = range(max(1, len(workload.clients)))
    if all((sessions_of(workload, i) or SINGLE).truncate for i in indices):
        order = np.lexsort((drawn.fraction, drawn.arrival))
        return drawn.take(order[: workload.requests])
    first = drawn.round == 0
    starts = np.lexsort((drawn.fraction[first], drawn.arrival[first]))
    rank = np.empty(len(starts), np.int64)
    rank[starts] = np.arange(len(starts))
    # Sessions are numbered in the order of the rows, so this keeps rounds in order.
    kept = np.argsort(rank[drawn.session], kind="stable")[: workload.requests]
    rows = drawn.take(kept)
    return rows.take(np.lexsort((rows.fraction, rows.arrival)))
