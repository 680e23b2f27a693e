"""Request columns built up request by request, as trace readers need it."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_REQUESTS
from kvsweep.records import NONE
from kvsweep.workload.requests import Accepted, Requests


def check_count(requests: int, where: str, read: Reading) -> None:
    """Refuse a list of no requests, or of more than are believed."""
    if not requests:
        raise no_requests(where, read)
    if requests > MAX_REQUESTS:
        raise InputError(f"{where}: {requests} requests, more than {MAX_REQUESTS}")


def no_requests(where: str, read: Reading) -> InputError:
    """Return the error of a list in which nothing is left."""
    others = " but failed ones, which read.failed = 'leave-out' leaves out"
    return InputError(f"{where}: no requests{others if read.failed == 'leave-out' else ''}")


@dataclass
class RequestColumns:
    """RequestColumns of `Requests` while they grow."""

    arrival_us: list[int] = field(default_factory=list)
    bounds: list[int] = field(default_factory=lambda: [0])
    # Traces with an id for every 16 tokens have a hundred entries per request: 8 bytes for each.
    segments: array[int] = field(default_factory=lambda: array("q"))
    tokens: array[int] = field(default_factory=lambda: array("q"))
    output_segment: list[int] = field(default_factory=list)
    output_tokens: list[int] = field(default_factory=list)
    priority: list[int | None] = field(default_factory=list)
    slo_class: list[str | None] = field(default_factory=list)
    client: list[str | None] = field(default_factory=list)
    session: list[int | None] = field(default_factory=list)
    round: list[int | None] = field(default_factory=list)
    after: list[int | None] = field(default_factory=list)
    think_us: list[int | None] = field(default_factory=list)
    patience_us: list[int | None] = field(default_factory=list)
    accepted: list[Sequence[int] | None] = field(default_factory=list)
    pull_fails: list[bool | None] = field(default_factory=list)

    def add(
        self,
        arrival_us: int,
        segments: Sequence[int],
        tokens: Sequence[int],
        output: tuple[int, int],
        *,
        priority: int | None = None,
        slo_class: str | None = None,
        client: str | None = None,
        session: int | None = None,
        round: int | None = None,
        after: int | None = None,
        think_us: int | None = None,
        patience_us: int | None = None,
        accepted: Sequence[int] | None = None,
        pull_fails: bool | None = None,
    ) -> None:
        """Append a request; its prompt is `segments` with `tokens`, `output` (segment, tokens)."""
        self.arrival_us.append(arrival_us)
        self.segments.extend(segments)
        self.tokens.extend(tokens)
        self.bounds.append(len(self.segments))
        self.output_segment.append(output[0])
        self.output_tokens.append(output[1])
        self.priority.append(priority)
        self.slo_class.append(slo_class)
        self.client.append(client)
        self.session.append(session)
        self.round.append(round)
        self.after.append(after)
        self.think_us.append(think_us)
        self.patience_us.append(patience_us)
        self.accepted.append(accepted)
        self.pull_fails.append(pull_fails)

    def build(self) -> Requests:
        """Return the columns as arrays."""
        bounds, tokens = _whole(self.bounds), _whole(self.tokens)
        slo_names, slo_class = _coded(self.slo_class)
        client_names, client = _coded(self.client)
        return Requests(
            arrival_us=_whole(self.arrival_us),
            prompt_tokens=np.add.reduceat(tokens, bounds[:-1]),
            output_tokens=_whole(self.output_tokens),
            segment_offsets=bounds,
            segment_ids=_whole(self.segments),
            segment_tokens=tokens,
            output_segment=_whole(self.output_segment),
            priority=_filled(self.priority, 0),
            has_priority=np.array([p is not None for p in self.priority], np.bool_),
            slo_class=slo_class,
            client=client,
            session=_filled(self.session, NONE),
            round=_filled(self.round, NONE),
            after=_filled(self.after, NONE),
            think_us=_filled(self.think_us, 0),
            patience_us=_filled(self.patience_us, NONE),
            slo_names=slo_names,
            client_names=client_names,
            accepted=_accepted(self.accepted),
            pull_fails=_failing(self.pull_fails),
        )


def _failing(told: list[bool | None]) -> NDArray[np.bool_] | None:
    """Return whose pulls fail, if any request says it."""
    return None if all(one is None for one in told) else np.array(told, np.bool_)


def _accepted(lists: list[Sequence[int] | None]) -> Accepted | None:
    """Return what verifications accept, if any request says it; who does not accepts nothing."""
    if all(one is None for one in lists):
        return None
    lengths = [0 if one is None else len(one) for one in lists]
    counts = np.fromiter((n for one in lists for n in one or ()), np.uint8, sum(lengths))
    return Accepted(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64), counts)


def _whole(values: list[int] | array[int]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def _filled(values: list[int | None], missing: int | np.int64) -> NDArray[np.int64]:
    number = int(missing)
    return _whole([number if value is None else value for value in values])


def _coded(names: list[str | None]) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Return distinct names as they first occur, and the index of each name or -1."""
    codes = {name: i for i, name in enumerate(dict.fromkeys(n for n in names if n is not None))}
    return tuple(codes), np.array([NONE if n is None else codes[n] for n in names], np.int16)
