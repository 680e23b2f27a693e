"""One call of vLLM's ``schedule()``, and what it decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from record_vllm.adapter import Vllm, waiting_requests
from record_vllm.requests import Request

Outputs = dict[Any, Any]
"""What ``update_from_output()`` returns: engine outputs by client."""


class Ordered(set[str]):
    """A set that is iterated in the order of insertion.

    vLLM keeps some ids in sets, whose order depends on the hash seed of the process; with these in
    their place a recording is the same each time.
    """

    def __init__(self) -> None:
        super().__init__()
        self._order: list[str] = []

    def add(self, item: str) -> None:
        """Add an item at the end."""
        if item not in self:
            super().add(item)
            self._order.append(item)

    def __iter__(self) -> Iterator[str]:
        return iter(self._order)


@dataclass(frozen=True)
class Entry:
    """A request of a step: its id, whether it samples, its drafts, whether it was just admitted."""

    id: str
    samples: bool
    drafts: int
    admitted: bool

    @property
    def number(self) -> int:
        """The position of the request in the trace."""
        return int(self.id)


@dataclass(frozen=True)
class Decision:
    """A step as vLLM decided it.

    Attributes
    ----------
    output : SchedulerOutput
        vLLM's own.
    entries : list of Entry
        Requests in scheduling order.
    waiting : int
        Requests that waited before the step.
    prefill, decode : int
        Tokens scheduled.
    admitted : list of [request, cached tokens, 1 if preempted before]
        In order.
    scheduled : list of [request, tokens]
        In order.
    """

    output: Any
    entries: list[Entry]
    waiting: int
    prefill: int
    decode: int
    admitted: list[list[int]]
    scheduled: list[list[int]]


def request_id(number: int) -> str:
    """Return the id under which vLLM knows a request; ids sort as the requests do."""
    return f"{number:08d}"


def make_request(vllm: Vllm, request: Request, hasher: Any, tokens: int) -> Any:
    """Return vLLM's request that samples `tokens` tokens."""
    return vllm.Request(
        request_id=request_id(request.number),
        prompt_token_ids=request.prompt_ids(),
        sampling_params=vllm.SamplingParams(ignore_eos=True, max_tokens=tokens, temperature=0.0),
        pooling_params=None,
        arrival_time=float(request.arrival_us),
        priority=request.priority,
        block_hasher=hasher,
    )


def decide(scheduler: Any) -> Decision:
    """Let vLLM schedule a step."""
    waiting = waiting_requests(scheduler)
    placeholders = {r.request_id: r.num_output_placeholders for r in scheduler.running}
    output = scheduler.schedule()
    scheduler.finished_req_ids = Ordered()
    entries, admitted, scheduled = [], [], []
    prefill = decode = 0
    for name, tokens in output.num_scheduled_tokens.items():
        request = scheduler.requests[name]
        computed = request.num_computed_tokens - tokens
        fresh = name not in placeholders
        sampled = request.num_output_tokens + placeholders.get(name, 0)
        known = request.num_tokens + placeholders.get(name, 0)
        if sampled >= 1 and known - computed == 1:
            decode += tokens
        else:
            prefill += tokens
        if fresh:
            admitted.append([int(name), computed, int(request.num_preemptions > 0)])
        scheduled.append([int(name), tokens])
        drafts = len(output.scheduled_spec_decode_tokens.get(name, ()))
        entries.append(Entry(name, not request.is_prefill_chunk, drafts, fresh))
    return Decision(output, entries, waiting, prefill, decode, admitted, scheduled)


def complete(
    vllm: Vllm, scheduler: Any, decision: Decision, tokens: list[list[int]], connector: Any
) -> tuple[Outputs, list[tuple[Entry, Any]]]:
    """Give vLLM the sampled tokens of a step.

    Returns
    -------
    outputs : dict
        vLLM's engine outputs.
    advanced : list of (Entry, Request)
        The requests that got a token by it, in the order of the step.
    """
    before = [scheduler.requests.get(entry.id) for entry in decision.entries]
    counts = [request and request.num_output_tokens for request in before]
    ids = [entry.id for entry in decision.entries]
    outputs: Outputs = scheduler.update_from_output(
        decision.output,
        vllm.ModelRunnerOutput(
            req_ids=ids,
            req_id_to_index={name: i for i, name in enumerate(ids)},
            sampled_token_ids=tokens,
            kv_connector_output=connector,
        ),
    )
    advanced = [
        (entry, request)
        for entry, request, count in zip(decision.entries, before, counts, strict=True)
        if request is not None and request.num_output_tokens != count
    ]
    return outputs, advanced
