"""The requests of a trace, and the tokens that stand for their content."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from kvsweep.errors import InputError, shown
from kvsweep.workload.native import read_native
from record_vllm.scenario import Disaggregation
from record_vllm.traces import Document

# A request that comes after another one, or goes away, needs a client; this has fixed arrivals.
_OF_CLIENTS = ("after", "think_us", "patience_us")
_SEGMENT_BITS = 24


@dataclass(frozen=True)
class Request:
    """A request: segments are (content, tokens); `accepted` drafts of each verification, in turn.

    `accepted` starts again when it is used up; it is (0,) where the trace says nothing. Where
    prefill and decode are apart its pull may fail.
    """

    number: int
    arrival_us: int
    prompt: tuple[tuple[int, int], ...]
    output_segment: int
    output_tokens: int
    priority: int
    accepted: tuple[int, ...]
    pull_fails: bool

    @property
    def prompt_tokens(self) -> int:
        """Tokens of the prompt."""
        return sum(tokens for _, tokens in self.prompt)

    def prompt_ids(self) -> list[int]:
        """Return the token ids of the prompt: the same for the same content."""
        return list(
            chain.from_iterable(
                range(token_id(segment, 0), token_id(segment, tokens))
                for segment, tokens in self.prompt
            )
        )

    def output_ids(self, first: int, count: int) -> list[int]:
        """Return `count` token ids of the output, from its token `first` on."""
        return [token_id(self.output_segment, first + i) for i in range(count)]


def token_id(segment: int, position: int) -> int:
    """Return the id of a token of a segment; ids of different segments differ."""
    return ((segment + 1) << _SEGMENT_BITS) + position


def read_requests(document: Document, where: str) -> list[Request]:
    """Check and return the requests of a trace.

    Raises
    ------
    InputError
        If one is malformed or needs what the recorder does not have.
    """
    entries = document.get("requests")
    if not isinstance(entries, list):
        raise InputError(f"{where}: requests: expected a list, got {shown(entries)}")
    plain = [_without_accepted(entry) for entry in entries]
    read_native({**document, "requests": plain}, where)
    return [_read(entry, i, f"{where}: requests[{i}]") for i, entry in enumerate(entries)]


def check_failures(layout: Disaggregation | None, requests: Sequence[Request]) -> None:
    """Check that pulls fail only where a lease ends them.

    Raises
    ------
    InputError
        If one fails where there is none.
    """
    for request in requests:
        if request.pull_fails and (layout is None or layout.lease_us is None):
            where = f"requests[{request.number}].pull_fails"
            raise InputError(f"{where}: true, which needs cluster.kv_lease_us")


def _without_accepted(entry: Any) -> Any:
    if not isinstance(entry, dict):
        return entry
    return {key: value for key, value in entry.items() if key != "accepted"}


def _read(entry: dict[str, Any], number: int, where: str) -> Request:
    for key in _OF_CLIENTS:
        if entry.get(key) is not None:
            raise InputError(f"{where}.{key}: not for the recorder, whose arrivals are fixed")
    accepted = entry.get("accepted") or [0]
    if not isinstance(accepted, list) or not all(type(a) is int and a >= 0 for a in accepted):
        raise InputError(f"{where}.accepted: expected a list of integers from 0")
    segment, tokens = entry["output"]
    return Request(
        number=number,
        arrival_us=entry["arrival_us"],
        prompt=tuple((s, n) for s, n in entry["prompt"]),
        output_segment=segment,
        output_tokens=tokens,
        priority=entry.get("priority") or 0,
        accepted=tuple(accepted),
        pull_fails=bool(entry.get("pull_fails")),
    )
