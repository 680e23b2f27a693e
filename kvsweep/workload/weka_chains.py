"""Sessions of coding agents as chains of requests, each of which waits for the answer before it.

A request of a list can wait for one other, and no two for the same. So a session is one chain, and
subagents that ran beside each other, or beside their session, either take turns in it or are chains
of their own that begin when they were recorded to: `Reading.subagents`, which is asked for where it
matters.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import InputError
from kvsweep.limits import MAX_ROUNDS
from kvsweep.workload.weka import Agent, Call, Session

# What times that were rounded to milliseconds or hundredths may overlap by, seconds.
_ROUNDING_S = 0.02


@dataclass(frozen=True)
class Link:
    """A request of a chain.

    Attributes
    ----------
    call : Call
        With times from the session's start on.
    agent : Agent or None
        Whose it is; None: the session's own.
    think_s : float
        Wait from the answer of the link before it; of a first one from nothing.
    """

    call: Call
    agent: Agent | None
    think_s: float


@dataclass(frozen=True)
class Chain:
    """Requests one after the other, and the time in the session at which the first one begins."""

    links: list[Link]
    begin_s: float


def settle_times(sessions: list[Session], read: Reading) -> None:
    """Make the times of subagents' requests count from their session's start, in place.

    Two conventions are in use, each for whole files: from the subagent's start, or the session's. A
    request before its own subagent shows the first.
    """
    kind = read.subagent_times or _convention(sessions)
    for session in sessions:
        for agent in session.agents:
            for call in agent.calls:
                if kind == "relative":
                    call.start += agent.start
                    call.end = None if call.end is None else call.end + agent.start
            agent.calls.sort(key=lambda call: call.start)
            last = agent.calls[-1]
            last.end = agent.end if last.end is None else last.end


def _convention(sessions: list[Session]) -> str:
    agents = [agent for session in sessions for agent in session.agents]
    early = any(min(c.start for c in a.calls) < a.start - _ROUNDING_S for a in agents)
    return "relative" if early else "absolute"


def chains_of(session: Session, read: Reading, where: str) -> Iterator[Chain]:
    """Yield the session's chain, and those of what ran beside it.

    Raises
    ------
    InputError
        If something ran beside it and `read` does not say what becomes of that, the file does not
        tell how long a client waited, or a chain is too long.
    """
    place = f"{where}{session.place}"
    own, aside = _split(session.calls)
    beside_agents = _beside(own, session.agents)
    inner = {id(agent): _split(agent.calls) for agent in session.agents}
    overlaps = bool(aside or beside_agents or any(extra for _, extra in inner.values()))
    if overlaps and read.subagents is None:
        raise InputError(
            f"{place}: requests ran beside each other, which a chain of answers cannot have: "
            "read.subagents = 'in-turn', 'beside' or 'leave-out'"
        )
    apart = read.subagents == "beside"
    if read.subagents == "leave-out":
        aside = []
    blocks: list[tuple[float, list[Call], Agent | None]] = [(c.start, [c], None) for c in own]
    if not apart:
        blocks += [(call.start, [call], None) for call in aside]
    for agent in session.agents:
        kept, extra = inner[id(agent)]
        if apart and id(agent) in beside_agents:
            yield _chain([(agent.start, kept, agent)], read, place)
        else:
            blocks.append((agent.start, kept if apart else agent.calls, agent))
        for call in extra if apart else []:
            yield _chain([(call.start, [call], agent)], read, place)
    for call in aside if apart else []:
        yield _chain([(call.start, [call], None)], read, place)
    if blocks:
        yield _chain(sorted(blocks, key=lambda block: block[0]), read, place)


def _split(calls: list[Call]) -> tuple[list[Call], list[Call]]:
    """Return the calls by time, and those of them that begin before one before is answered."""
    chain: list[Call] = []
    aside: list[Call] = []
    end = -1.0
    for call in sorted(calls, key=lambda call: call.start):
        if call.start < end - _ROUNDING_S:
            aside.append(call)
            continue
        chain.append(call)
        end = call.start if call.end is None else call.end
    return chain, aside


def _beside(calls: list[Call], agents: list[Agent]) -> set[int]:
    """Return the identities of subagents that ran beside another, or a call of the session."""
    spans: list[tuple[float, float, Agent | None]] = [
        (call.start, call.start if call.end is None else call.end, None) for call in calls
    ]
    spans += [(agent.start, _end(agent), agent) for agent in agents]
    spans.sort(key=lambda span: span[0])
    found: set[int] = set()
    last: tuple[float, Agent | None] = (-1.0, None)
    for start, end, agent in spans:
        if start < last[0] - _ROUNDING_S:
            found |= {id(one) for one in (last[1], agent) if one is not None}
        last = max(last, (end, agent), key=lambda pair: pair[0])
    return found


def _end(agent: Agent) -> float:
    """Return when a subagent was done, as far as that is known."""
    ends = [call.start if call.end is None else call.end for call in agent.calls]
    return max([*ends, agent.end if agent.end is not None else agent.start])


def _chain(
    blocks: list[tuple[float, list[Call], Agent | None]], read: Reading, place: str
) -> Chain:
    steps = [(call, agent) for _, calls, agent in blocks for call in calls]
    if len(steps) > MAX_ROUNDS:
        raise InputError(f"{place}: {len(steps)} requests in a session, more than {MAX_ROUNDS}")
    links = [Link(*steps[0], 0.0)]
    # Of what ran beside each other the last answer counts, not that of what began last.
    answered: dict[int, float] = {}
    latest = 0.0
    for (before, whose), (call, agent) in pairwise(steps):
        end = before.start if before.end is None else before.end
        answered[id(whose)] = max(end, answered.get(id(whose), end))
        latest = max(latest, end)
        same = whose is agent
        last = answered[id(whose)] if same else latest
        think = _think(before, call, same, last, read)
        if think is None:
            raise InputError(
                f"{place}: requests[{call.number}]: neither think_time nor the api_time of the "
                "request before tell how long the client waited: read.think_unknown_s = 0 (or "
                "more) is taken where that is so"
            )
        links.append(Link(call, agent, think))
    return Chain(links, links[0].call.start)


def _think(before: Call, call: Call, same: bool, last: float, read: Reading) -> float | None:
    """Return how long the client waits between two calls, None if that is not known.

    `same` says whether both are the session's own or of one subagent, `last` when the last answer
    that the client may have waited for came: of those calls, or else of all before.
    """
    think = call.think if same and call.number == before.number + 1 else None
    if think is None and before.end is not None:
        think = max(0.0, call.start - last)
    if think is None:
        think = call.think
    if think is None:
        think = read.think_unknown_s
    if read.think_cap_s is not None:
        think = read.think_cap_s if think is None and read.think_cap_s == 0 else think
        think = None if think is None else min(think, read.think_cap_s)
    return think
