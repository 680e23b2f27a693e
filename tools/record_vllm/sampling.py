"""The tokens that a device would have sampled: those of the trace, and the drafts it accepts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from record_vllm.adapter import Vllm
from record_vllm.requests import Request
from record_vllm.steps import Decision


class Sampler:
    """Samples for the scheduler of an engine.

    Attributes
    ----------
    drafted, accepted : int
        Drafts verified so far, and those of them that were accepted.
    """

    def __init__(self, scheduler: Any, requests: Sequence[Request]) -> None:
        self._scheduler, self._requests = scheduler, requests
        self.drafted = self.accepted = 0
        self._verified = [0] * len(requests)

    def sample(self, decision: Decision) -> tuple[list[list[int]], list[list[int]]]:
        """Return the tokens of each request, and [request, drafts, accepted] where verified."""
        tokens: list[list[int]] = []
        verified = []
        for entry in decision.entries:
            if not entry.samples:
                tokens.append([])
                continue
            taken = 0
            request = self._requests[entry.number]
            if entry.drafts:
                # What a request is admitted with are no drafts yet, but room for them.
                if not entry.admitted:
                    turn = self._verified[entry.number]
                    taken = min(request.accepted[turn % len(request.accepted)], entry.drafts)
                    self._verified[entry.number] += 1
                verified.append([entry.number, entry.drafts, taken])
                self.drafted += entry.drafts
                self.accepted += taken
            known = self._scheduler.requests.get(entry.id)
            first = known.num_output_tokens if known is not None else 0
            tokens.append(request.output_ids(first, 1 + taken))
        return tokens, verified

    def draft(self, vllm: Vllm, decision: Decision, drafts: int) -> None:
        """Give the scheduler the drafts of a step, as its engine does without async scheduling."""
        ids = [entry.id for entry in decision.entries]
        self._scheduler.update_draft_token_ids(vllm.DraftTokenIds(ids, [[3] * drafts for _ in ids]))
