"""One request: its content, where the scheduler stands with it, and what was observed of it."""

from dataclasses import dataclass, field
from typing import Any

Span = tuple[int, int, int]
"""Tokens ``start`` to ``stop`` (exclusive) of a content segment: (segment, start, stop)."""


@dataclass(slots=True, eq=False)
class Request:
    """A request on its way through the cluster. All times are microseconds.

    Attributes
    ----------
    index : int
        Position in the request list.
    name : str
        The reference's identifier, ``request_<index>``; its schedulers break ties by this string,
        so request 10 comes before request 9.
    content : tuple of Span
        The prompt's tokens followed by the output's; token ``i`` of a request means this sequence.
    progress : int
        Tokens processed so far; a decode step moves it by one, a preemption sets it to 0.
    computed : int
        Prompt tokens processed once the current step is over.
    granted : int
        Tokens granted when the request was last served (kept while it is not served).
    furthest : int
        Largest progress ever reached: a step that raises it for some request is a useful step.
    first_token : int or None
        The reference's TTFT, output overhead included; a later prefill overwrites it.
    itl : list of int
        Inter-token latencies; the reference never resets them, also not after a preemption.
    admitted : list of [cached, hit, count]
        Run-length encoded over admissions: cached prefix blocks found, blocks counted as hits.
    """

    index: int
    name: str
    arrival: int
    content: tuple[Span, ...]
    prompt_tokens: int
    output_tokens: int
    slo_class: str

    instance: int = -1
    state: str = "queued"
    priority: float = 0.0
    progress: int = 0
    computed: int = 0
    granted: int = 0
    furthest: int = 0

    queued: int | None = None
    first_token: int | None = None
    first_admit: int | None = None
    last_admit: int | None = None
    finish: int | None = None
    e2e: int | None = None
    preemptions: int = 0
    admissions: int = 0
    itl: list[int] = field(default_factory=list)
    admitted: list[list[int]] = field(default_factory=list)

    def record_admission(self, now: int, cached: int, hits: int) -> None:
        """Note an admission at ``now`` that found ``cached`` blocks and counted ``hits``."""
        self.admissions += 1
        self.last_admit = now
        if self.first_admit is None:
            self.first_admit = now
        if self.admitted and self.admitted[-1][:2] == [cached, hits]:
            self.admitted[-1][2] += 1
        else:
            self.admitted.append([cached, hits, 1])


def from_trace(index: int, entry: dict[str, Any]) -> Request:
    """Return the request described by one entry of a trace's ``requests``.

    Raises
    ------
    KeyError, TypeError, ValueError
        If the entry lacks ``arrival_us``, ``prompt`` or ``output``, or they are malformed.
    """
    prompt = tuple((int(segment), 0, int(tokens)) for segment, tokens in entry["prompt"])
    segment, tokens = entry["output"]
    return Request(
        index=index,
        name=f"request_{index}",
        arrival=int(entry["arrival_us"]),
        content=(*prompt, (int(segment), 0, int(tokens))),
        prompt_tokens=sum(stop for _, _, stop in prompt),
        output_tokens=int(tokens),
        slo_class=entry.get("slo_class") or "",
    )
