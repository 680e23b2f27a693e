"""What a plan must know of the request lists of a sweep, found without drawing all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kvsweep.config.bounds import check_times
from kvsweep.errors import InputError
from kvsweep.workload.generate import requests_for

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvsweep.config import Scenario, Sweep, Workload
    from kvsweep.workload.requests import Requests

SURVEYED = 100_000
"""Requests of a list that a plan draws, in a third of a second, to look at their lengths."""


class Lists(NamedTuple):
    """What a sweep needs to know of the request lists of a variant.

    Attributes
    ----------
    requests, rounds : int
        The most of any list; rounds of a session, 0 without sessions.
    slo_classes : tuple of str
        Classes in the order in which the lists name them.
    longest, prompt : int
        Tokens of the longest request, and of the longest prompt, that were looked at.
    """

    requests: int
    rounds: int
    slo_classes: tuple[str, ...]
    longest: int
    prompt: int


def survey(
    sweep: Sweep,
    variants: Sequence[Scenario],
    policies: Sequence[str | None],
    seeds: Sequence[int],
) -> list[Lists]:
    """Look at the request lists of each variant.

    Every trace is read for that, and so checked; of drawn requests those of the first seed, and
    at most `SURVEYED` of them: lists of other lengths begin alike.
    """
    known: dict[tuple[Workload, str | None], Lists] = {}
    surveys = []
    for variant, policy in zip(variants, policies, strict=True):
        workload = variant.workload
        assert workload is not None  # `Sweep.scenario` sees to it
        if (workload, policy) not in known:
            needed = seeds if "{seed}" in (workload.trace or "") else seeds[:1]
            looked_at = _first_of(workload)
            lists = [_requests(sweep, looked_at, seed, policy) for seed in needed]
            known[workload, policy] = Lists(
                requests=max(map(len, lists)) if workload.trace else workload.requests,
                rounds=max(_drawn_rounds(workload), *(int(r.round.max()) + 1 for r in lists)),
                slo_classes=tuple(name for requests in lists for name in requests.slo_names),
                longest=max(int((r.prompt_tokens + r.output_tokens).max()) for r in lists),
                prompt=max(int(r.prompt_tokens.max()) for r in lists),
            )
        surveys.append(known[workload, policy])
    return surveys


def _requests(sweep: Sweep, workload: Workload, seed: int, policy: str | None) -> Requests:
    try:
        return requests_for(workload, seed, sweep.entropy, policy, sweep.base_dir)
    except InputError as error:
        if workload.trace:
            raise
        raise InputError(f"{sweep.path}: {error}") from None


def _first_of(workload: Workload) -> Workload:
    """Return a workload of as many requests as a plan looks at."""
    clients = max(1, len(workload.clients))
    requests = min(workload.requests, max(1, SURVEYED // clients))
    if workload.trace or requests == workload.requests:
        return workload
    return workload.model_copy(update={"requests": requests})


def _drawn_rounds(workload: Workload) -> int:
    """Return the most rounds that a session can have, 0 for requests that are not drawn."""
    kinds = [workload.sessions, *(client.sessions for client in workload.clients)]
    return max((sessions.rounds for sessions in kinds if sessions), default=0)


def check_lists(sweep: Sweep, variant: Scenario, found: Lists) -> None:
    """Refuse latencies of which some step is too long; lists not looked at are checked later."""
    try:
        check_times(variant, found.requests, found.longest, found.prompt)
    except InputError as error:
        raise InputError(f"{sweep.path}: {error}") from None
