"""Request lists of coding agents' sessions: when each begins, what prompts consist of."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_REQUESTS, MAX_TIME_US, MAX_TOTAL_US
from kvsweep.workload.columns import RequestColumns, check_count
from kvsweep.workload.requests import Requests
from kvsweep.workload.weka import Call, Session, parse_sessions
from kvsweep.workload.weka_chains import Chain, Link, chains_of, settle_times

Integers = NDArray[np.int64]


@dataclass
class _Row:
    """A request before its list is in order."""

    arrival_us: int
    link: Link
    session: int
    round: int
    after: int | None
    think_us: int | None
    entries: tuple[Integers, Integers]


def read_weka(text: str, document: Any, where: str, read: Reading) -> Requests:
    """Return the requests of all sessions.

    Raises
    ------
    InputError
        If something is malformed, or `read` does not say when sessions begin.
    """
    if (read.lanes is None) == (read.sessions_per_s is None):
        raise InputError(
            f"{where}: sessions have no times of their own: give either read.lanes = N (under way "
            "at once, as a benchmark's concurrency) or read.sessions_per_s = R"
        )
    sessions = parse_sessions(text, document, where, read)
    settle_times(sessions, read)
    rows: list[_Row] = []
    content = _Content(read)
    last_of: dict[int, int] = {}
    for k, session in enumerate(sessions):
        found = list(chains_of(session, read, where))
        if len(found) > 1 and read.lanes is not None:
            raise InputError(
                f"{where}{session.place}: read.subagents = 'beside' needs read.sessions_per_s: on "
                "lanes it is not known before when a session begins"
            )
        entries = content.of(session, found, where)
        for chain in found:
            before = last_of.get(k % read.lanes) if read.lanes else None
            begins = 0 if before is None else rows[before].arrival_us
            if read.sessions_per_s:
                begins = round(1e6 * k / read.sessions_per_s) + round(1e6 * chain.begin_s)
            rows += _rows(chain, k, begins, before, len(rows), entries)
            if read.lanes:
                last_of[k % read.lanes] = len(rows) - 1
        if len(rows) > MAX_REQUESTS:
            raise InputError(f"{where}: more than {MAX_REQUESTS} requests")
    check_count(len(rows), where, read)
    return _build(rows, where)


def _rows(
    chain: Chain,
    number: int,
    begin_us: int,
    before: int | None,
    first: int,
    entries: dict[int, tuple[Integers, Integers]],
) -> Iterator[_Row]:
    """Yield the rows of a chain, from position `first` on, each as early as it can arrive."""
    arrival_us = begin_us
    for i, link in enumerate(chain.links):
        after = before if i == 0 else first + i - 1
        think = None if after is None else round(1e6 * link.think_s)
        arrival_us += think or 0
        yield _Row(arrival_us, link, number, i, after, think, entries[id(link.call)])


def _build(rows: list[_Row], where: str) -> Requests:
    order = sorted(range(len(rows)), key=lambda i: rows[i].arrival_us)
    start = rows[order[0]].arrival_us
    place = {old: new for new, old in enumerate(order)}
    last = rows[order[-1]].arrival_us
    total = last + sum(row.think_us or 0 for row in rows)
    if last > MAX_TIME_US or total > MAX_TOTAL_US:
        raise InputError(
            f"{where}: requests arrive up to {last} us even if answers take no time, and sessions "
            f"wait {total - last} us together, more than {MAX_TIME_US} or {MAX_TOTAL_US}"
        )
    numbers = np.unique(np.concatenate([row.entries[0] for row in rows]))
    columns = RequestColumns()
    for i, old in enumerate(order):
        row = rows[old]
        segments, tokens = row.entries
        columns.add(
            row.arrival_us - start,
            array("q", np.searchsorted(numbers, segments).tobytes()),
            array("q", tokens.tobytes()),
            (len(numbers) + i, row.link.call.output),
            client="session" if row.link.agent is None else "subagent",
            session=row.session,
            round=row.round,
            after=None if row.after is None else place[row.after],
            think_us=row.think_us,
        )
    return columns.build()


class _Content:
    """Makes prompts of hash ids: entries of content segments, numbered over all sessions."""

    def __init__(self, read: Reading) -> None:
        self._own = read.subagent_ids == "own"
        self._used = 0
        self._global: dict[int, int] = {}

    def of(
        self, session: Session, chains: list[Chain], where: str
    ) -> dict[int, tuple[Integers, Integers]]:
        """Return segments and tokens of the prompts of a session's calls, by their identity."""
        links = [link for chain in chains for link in chain.links]
        if session.scope == "global" and self._own and any(link.agent for link in links):
            raise InputError(
                f"{where}{session.place}: hash_id_scope: 'global', by which equal ids are equal "
                "content in subagents too: leave out read.subagent_ids = 'own'"
            )
        if session.scope == "global":
            named = [self._known(link.call.hashes) for link in links]
            starts = [np.ones(len(ids), np.bool_) for ids in named]
        else:
            named = self._named(links)
            starts = _run_starts(named)
        return {
            id(link.call): self._entries(link.call, ids, start, session.block)
            for link, ids, start in zip(links, named, starts, strict=True)
        }

    def _known(self, hashes: Integers) -> Integers:
        """Return the segments of ids that mean the same in all sessions."""
        new = [one for one in dict.fromkeys(hashes.tolist()) if one not in self._global]
        self._global.update(zip(new, range(self._used, self._used + len(new)), strict=True))
        self._used += len(new)
        return np.array([self._global[one] for one in hashes.tolist()], np.int64)

    def _named(self, links: list[Link]) -> list[Integers]:
        """Return the segments of the ids of a session's requests, for each space of ids apart."""
        spaces: dict[int, list[int]] = {}
        for i, link in enumerate(links):
            space = id(link.agent) if self._own and link.agent is not None else 0
            spaces.setdefault(space, []).append(i)
        named = [link.call.hashes for link in links]
        for members in spaces.values():
            ids = [named[i] for i in members]
            codes, flat = np.unique(np.concatenate(ids), return_inverse=True)
            ends = np.cumsum([len(part) for part in ids])[:-1]
            for i, part in zip(members, np.split(self._used + flat, ends), strict=True):
                named[i] = part
            self._used += len(codes)
        first = next((named[i] for i in spaces.get(0, ())), np.zeros(0, np.int64))
        for i, link in enumerate(links):
            if self._own and link.agent is not None:
                shared = min(link.agent.prefix_blocks, len(first), len(named[i]))
                named[i][:shared] = first[:shared]
        return named

    def _entries(
        self, call: Call, ids: Integers, starts: NDArray[np.bool_], block: int
    ) -> tuple[Integers, Integers]:
        begins = np.flatnonzero(starts)
        tokens = np.diff(np.append(begins, len(ids))) * block
        segments = ids[begins]
        rest = call.prompt - block * len(ids)
        if rest:
            segments, tokens = np.append(segments, self._used), np.append(tokens, rest)
            self._used += 1
        return segments, tokens


def _run_starts(named: list[Integers]) -> list[NDArray[np.bool_]]:
    """Return where the stretches of ids begin that no prompt has a part of.

    A session of a thousand requests repeats its ids a thousand times: of 100 ids a stretch is left,
    where requests share all of it or nothing.
    """
    lengths = [len(ids) for ids in named]
    if not sum(lengths):
        return [np.zeros(0, np.bool_) for _ in named]
    flat = np.concatenate(named)
    codes, flat = np.unique(flat, return_inverse=True)
    following = np.append(flat[1:], -1)
    ends = np.cumsum(lengths)
    following[[end - 1 for end in ends.tolist() if end > 0]] = -1
    order = np.argsort(flat, kind="stable")
    heads = np.searchsorted(flat[order], np.arange(len(codes)))
    least = np.minimum.reduceat(following[order], heads)
    most = np.maximum.reduceat(following[order], heads)
    joins = (least == most) & (least >= 0)
    starts = np.ones(len(flat), np.bool_)
    starts[1:] = ~joins[flat[:-1]]
    begins = ends - np.array(lengths)
    starts[begins[begins < len(flat)]] = True
    return np.split(starts, ends[:-1])
