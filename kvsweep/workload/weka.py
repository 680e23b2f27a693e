"""Weka's traces of coding agents, as AgentX uses them: a session on each line, with its subagents.

As callanjfox/agentic-coding-analysis describes them (docs/TRACE_FORMAT.md of 15e88f72) and
ai-dynamo/aiperf replays them (docs/tutorials/weka-trace.md of 2026): ``t``, ``api_time`` and
``think_time`` in seconds, ``in`` and ``out`` in tokens, and an id in ``hash_ids`` for each full
block of ``block_size`` tokens together with all before it; what has no id is content of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.trace_reading import Reading
from kvsweep.errors import shown
from kvsweep.limits import MAX_BLOCK_TOKENS, MAX_SECONDS, MAX_TOKENS
from kvsweep.parsing import parse_json
from kvsweep.workload.checks import (
    Malformed,
    at,
    check_left_out,
    check_object,
    check_spelling,
    duration,
    refuse_twice,
    token_count,
)

KEYS = ("id", "block_size", "requests")
"""Keys that every session has."""

_CALL = ("t", "type", "in", "out", "hash_ids", "api_time", "think_time")
_AGENT = ("t", "type", "requests", "duration_ms", "tool_tokens", "system_tokens")
_LARGEST = 2**53


@dataclass
class Call:
    """A request of a session or subagent.

    Attributes
    ----------
    start : float
        Seconds from where the times of its list count from.
    end : float or None
        When it was answered, on the same clock.
    think : float or None
        Seconds from the answer before it, as recorded.
    prompt, output : int
        Tokens.
    hashes : int64 (blocks,)
        Ids of its leading full blocks.
    number : int
        Position in its list, that failed ones have, too.
    """

    start: float
    end: float | None
    think: float | None
    prompt: int
    output: int
    hashes: NDArray[np.int64]
    number: int


@dataclass
class Agent:
    """A subagent: spawn (seconds), end if told, calls, blocks of tools and system prompt."""

    start: float
    end: float | None
    calls: list[Call]
    prefix_blocks: int


@dataclass
class Session:
    """A conversation: its place in the file, calls and subagents by time."""

    place: str
    block: int
    scope: str
    calls: list[Call] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)


def parse_sessions(text: str, document: Any, where: str, read: Reading) -> list[Session]:
    """Return the sessions of a file.

    Parameters
    ----------
    text : str
        The file.
    document : object
        Its content, if it is a single JSON object.

    Raises
    ------
    InputError
        If something is malformed, or a request failed and `read` does not leave those out.
    """
    sessions: list[Session] = []
    seen: dict[str, str] = {}
    for number, item in _items(text, document, where):
        try:
            session = _session(check_object(item), f":{number}", read)
            name = item["id"]
            if not isinstance(name, str):
                raise Malformed(f"id: expected a string, got {shown(name)}")
            refuse_twice(seen, name, f"line {number}", "id")
        except Malformed as problem:
            raise at(where, f":{number}", problem) from None
        if session.calls or session.agents:
            sessions.append(session)
    return sessions


def count_requests(text: str, document: Any, where: str) -> int:
    """Return how many requests a file that was read has, with those that are left out."""
    count = 0
    for _, item in _items(text, document, where):
        for entry in item["requests"]:
            inner = entry.get("requests") if entry.get("type") == "subagent" else [entry]
            count += len(inner) if isinstance(inner, list) else 0
    return count


def _items(text: str, document: Any, where: str) -> Iterator[tuple[int, Any]]:
    """Yield the lines of a file with their numbers, parsed."""
    if document is not None:
        yield 1, document
        return
    for number, line in enumerate(text.split("\n"), 1):
        if line and not line.isspace():
            yield number, parse_json(line, where, number)


def _session(item: dict[str, Any], place: str, read: Reading) -> Session:
    for key in KEYS:
        if key not in item:
            raise Malformed(f"missing {key!r}: a Weka session has {', '.join(KEYS)}")
    block = item["block_size"]
    if type(block) is not int or not 1 <= block <= MAX_BLOCK_TOKENS:
        raise Malformed(f"block_size: expected 1 to {MAX_BLOCK_TOKENS} tokens, got {shown(block)}")
    scope = item.get("hash_id_scope", "local")
    if scope not in ("local", "global"):
        raise Malformed(f"hash_id_scope: 'local' or 'global', got {shown(scope)}")
    session = Session(place, block, scope)
    for i, entry in enumerate(_list(item, "requests")):
        at_key = f"requests[{i}]"
        if isinstance(entry, dict) and entry.get("type") == "subagent":
            if read.subagents != "leave-out":
                session.agents.append(_agent(entry, at_key, block, read))
        elif call := _call(entry, at_key, i, block, read):
            session.calls.append(call)
    session.agents = [agent for agent in session.agents if agent.calls]
    return session


def _list(item: dict[str, Any], key: str, at_key: str = "") -> list[Any]:
    found = item.get(key)
    if not isinstance(found, list):
        raise Malformed(f"{at_key}{key}: expected a list, got {shown(found)}")
    return found


def _agent(item: dict[str, Any], at_key: str, block: int, read: Reading) -> Agent:
    _spelled(item, _AGENT, at_key)
    start = duration(item.get("t"), f"{at_key}.t", "seconds", MAX_SECONDS)
    end = None
    if item.get("duration_ms") is not None:
        most = 1e3 * MAX_SECONDS
        end = start + duration(item["duration_ms"], f"{at_key}.duration_ms", "ms", most) / 1e3
    calls = [
        _call(entry, f"{at_key}.requests[{k}]", k, block, read)
        for k, entry in enumerate(_list(item, "requests", f"{at_key}."))
    ]
    prefix = sum(_tokens(item.get(key, 0), f"{at_key}.{key}") for key in _AGENT[-2:])
    return Agent(start, end, [call for call in calls if call], prefix // block)


def _call(entry: Any, at_key: str, number: int, block: int, read: Reading) -> Call | None:
    """Return a request, None if it failed and is left out."""
    if not isinstance(entry, dict):
        raise Malformed(f"{at_key}: expected an object, got {shown(entry)}")
    _spelled(entry, _CALL, at_key)
    kind = entry.get("type", "s")
    if kind not in ("s", "n"):
        allowed = "'s' or 'n' within one" if kind == "subagent" else "'s', 'n' or 'subagent'"
        raise Malformed(f"{at_key}.type: {allowed}, got {shown(kind)}")
    if entry.get("out") == 0 and type(entry["out"]) is int:
        check_left_out(read, f"{at_key}.out: 0, the request failed")
        return None
    start = duration(entry.get("t"), f"{at_key}.t", "seconds", MAX_SECONDS)
    took, think = (
        None
        if entry.get(key) is None
        else duration(entry[key], f"{at_key}.{key}", "seconds", MAX_SECONDS)
        for key in ("api_time", "think_time")
    )
    prompt = token_count(entry.get("in"), f"{at_key}.in")
    output = token_count(entry.get("out"), f"{at_key}.out")
    hashes = _hashes(entry.get("hash_ids", []), prompt, block, at_key)
    return Call(
        start, None if took is None else start + took, think, prompt, output, hashes, number
    )


def _hashes(found: Any, prompt: int, block: int, at_key: str) -> NDArray[np.int64]:
    """Return the ids of full blocks; some files have one of the partial block, too."""
    if (
        type(found) is not list
        or not set(map(type, found)) <= {int}
        or (found and not 0 <= min(found) <= max(found) < _LARGEST)
    ):
        raise Malformed(f"{at_key}.hash_ids: expected a list of integers from 0 to {_LARGEST - 1}")
    if len(found) > -(-prompt // block):
        raise Malformed(
            f"{at_key}.hash_ids: {len(found)} ids for {prompt} tokens, expected at most "
            f"{-(-prompt // block)}, one for each block of {block} tokens"
        )
    return np.array(found[: prompt // block], np.int64)


def _tokens(value: Any, key: str) -> int:
    if type(value) is not int or not 0 <= value <= MAX_TOKENS:
        raise Malformed(f"{key}: expected an integer from 0 to {MAX_TOKENS}, got {shown(value)}")
    return value


def _spelled(item: dict[str, Any], used: tuple[str, ...], at_key: str) -> None:
    try:
        check_spelling(item, used)
    except Malformed as problem:
        raise Malformed(f"{at_key}.{problem}") from None
