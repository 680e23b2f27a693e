"""Prefill/decode disaggregation: instances with NixlConnector's pulling side, on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kvsweep.errors import InputError
from record_vllm.adapter import Vllm
from record_vllm.instance import DECODE, PREFILL, SETTLE, Instance, Shared
from record_vllm.requests import Request
from record_vllm.scenario import Disaggregation, Scenario, ceil_div
from record_vllm.traces import Document

MOST_ROUNDS = 200_000
"""Of the loop over all instances."""


class Cluster:
    """Instances of both kinds; request i goes to instance i modulo their number."""

    def __init__(
        self, vllm: Vllm, scenario: Scenario, layout: Disaggregation, requests: Sequence[Request]
    ) -> None:
        self._scenario, self._layout, self._requests = scenario, layout, requests
        self._shared = Shared(
            vllm, scenario, layout, requests, [_unseen(scenario, request) for request in requests]
        )
        self._prefill = [
            Instance(self._shared, PREFILL, number, layout.prefill_blocks)
            for number in range(layout.prefill_instances)
        ]
        self._decode = [
            Instance(self._shared, DECODE, number, layout.decode_blocks)
            for number in range(layout.decode_instances)
        ]
        self._shared.connect(self._prefill, self._decode)

    def run(self) -> Document:
        """Run to the end and return what was recorded."""
        self._arrive()
        instances = self._prefill + self._decode
        for _ in range(MOST_ROUNDS):
            wakes = [(instance.wake(), i) for i, instance in enumerate(instances)]
            due = [(*wake, i) for wake, i in wakes if wake is not None]
            if not due:
                return self._result(instances)
            at, action, i = min(due)
            if action == SETTLE:
                instances[i].settle()
            else:
                instances[i].dispatch(at)
        raise InputError(f"no end after {MOST_ROUNDS:,} steps: this schedule may never end")

    def _arrive(self) -> None:
        for request, times in zip(self._requests, self._shared.per_request, strict=True):
            handed = self._scenario.handed_tokens(request.prompt_tokens)
            prefill = self._fits(handed, 1, self._layout.prefill_blocks)
            decode = self._fits(
                request.prompt_tokens, request.output_tokens, self._layout.decode_blocks
            )
            if not (prefill and decode and self._can_pull(handed)):
                times["rejected"] = True
                continue
            instance = self._prefill[request.number % len(self._prefill)]
            instance.arrivals.append((times["queue_us"], request.number, request.number))

    def _fits(self, prompt_tokens: int, output_tokens: int, blocks: int) -> bool:
        scenario = replace(self._scenario, gpu_blocks=blocks)
        return scenario.can_ever_run(prompt_tokens, output_tokens)

    def _can_pull(self, tokens: int) -> bool:
        """Whether vLLM ever pulls so many tokens, beside which it reserves room for drafts."""
        scenario = self._scenario
        step = 1 + 2 * scenario.drafts if scenario.drafts else 0
        needed = 0
        for group in scenario.groups:
            if group.kind == "state":
                needed += 1 + scenario.drafts
                continue
            needed += ceil_div(step, scenario.block_size)
            needed += ceil_div(tokens, scenario.block_size)
            needed -= group.blocks_left(tokens, scenario.block_size)
        return needed <= self._layout.decode_blocks

    def _result(self, instances: list[Instance]) -> Document:
        for instance in instances:
            if instance.blocks_in_use():
                raise InputError(f"{instance.name}: blocks are still in use at the end")
        over = ("finish_us", "rejected", "errored")
        if not all(any(map(times.get, over)) for times in self._shared.per_request):
            raise InputError("requests wait, and nothing is left that could wake them")
        engines = []
        for instance in instances:
            columns = list(instance.rows[0]) if instance.rows else []
            steps = {name: [row[name] for row in instance.rows] for name in columns}
            engine = {"role": instance.role, "instance": instance.number, "steps": steps}
            if self._scenario.offload:
                engine["copies"] = [
                    [t.kind, t.request, t.tokens, t.submitted, t.start, t.end, t.seen]
                    for t in instance.device.transfers
                ]
            engines.append(engine)
        return {
            "engines": engines,
            "requests": self._shared.per_request,
            "transfers": self._shared.pulls,
            "totals": self._totals(instances),
        }

    def _totals(self, instances: list[Instance]) -> dict[str, int]:
        requests = self._shared.per_request
        pulled = [tokens for _, tokens, *_ in self._shared.pulls]
        prefill, decode = (
            sum(t[role]["preemptions"] for t in requests) for role in (PREFILL, DECODE)
        )
        totals = {
            "steps": sum(len(instance.rows) for instance in instances),
            "preemptions": prefill + decode,
            "prefill_preemptions": prefill,
            "transfers": sum(tokens > 0 for tokens in pulled),
            "no_transfer": sum(tokens == 0 for tokens in pulled),
            "transferred_tokens": sum(pulled),
            "rejected": sum(times["rejected"] for times in requests),
            "end_us": max([0, *(times["finish_us"] or 0 for times in requests)]),
        }
        if self._scenario.has_windows:
            totals["window_freed"] = sum(each.window_freed for each in instances)
        if self._scenario.drafts:
            totals["draft_tokens"] = sum(each.sampler.drafted for each in instances)
            totals["accepted_tokens"] = sum(each.sampler.accepted for each in instances)
        return totals


def _unseen(scenario: Scenario, request: Request) -> dict[str, Any]:
    assert scenario.disaggregation
    layout = scenario.disaggregation
    may_fail = layout.lease_us is not None and not layout.recomputes
    return {
        "queue_us": scenario.queue_us(request.arrival_us, request.prompt_tokens),
        "prefilled_us": None,
        "decode_queue_us": None,
        "pulled_us": None,
        "released_us": None,
        "first_token_us": None,
        "finish_us": None,
        "rejected": False,
        **({"errored": False} if may_fail else {}),
        PREFILL: {"preemptions": 0, "admissions": []},
        DECODE: {"preemptions": 0, "admissions": []},
    }
