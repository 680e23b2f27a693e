"""What a plan must know of the request lists of a sweep, found without drawing all of them."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from kvsweep.config.axes import POLICY, SEED
from kvsweep.config.bounds import check_times
from kvsweep.errors import InputError
from kvsweep.workload.generate import requests_for
from kvsweep.workload.kept_traces import left_out_of_file, requests_of_file
from kvsweep.workload.long_files import part_of
from kvsweep.workload.longest import longest_tokens
from kvsweep.workload.trace_sums import names_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
        Tokens that no request, and no prompt, exceeds; of lists that were looked at, their most.
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
    """Find out about the request lists of each variant, and check that its times fit them.

    Every trace is read for that, and so checked. Requests are drawn only where the workload's
    parameters do not tell enough: those of the first seed, and at most `SURVEYED` of them, as lists
    of other lengths begin alike. Lists not looked at are checked again when they are simulated.

    Raises
    ------
    InputError
        If a list cannot be read or drawn, or some step of a variant is too long.
    """

    @cache
    def looked_at(workload: Workload, policy: str | None) -> Lists:
        return _look_at(sweep, workload, policy, seeds)

    @cache
    def told(workload: Workload, policy: str | None) -> Lists:
        return _from_parameters(workload) or looked_at(workload, policy)

    asked = []
    for variant, policy in zip(variants, policies, strict=True):
        workload = variant.workload
        assert workload is not None  # `Sweep.scenario` sees to it
        asked.append((workload, policy if workload.trace else None))
    surveys = [told(*which) for which in asked]
    for variant, which, found in zip(variants, asked, surveys, strict=True):
        # A bound may be too much where what is drawn is not.
        if _problem(variant, found) and (problem := _problem(variant, looked_at(*which))):
            raise InputError(f"{sweep.path}: {problem}")
    return surveys


def _from_parameters(workload: Workload) -> Lists | None:
    """Return what holds of every list of a workload, if its parameters alone tell."""
    bounds = None if workload.trace else longest_tokens(workload)
    if bounds is None:
        return None
    classes = (client.slo_class for client in workload.clients)
    return Lists(
        requests=workload.requests,
        rounds=_drawn_rounds(workload),
        slo_classes=tuple(dict.fromkeys(name for name in classes if name is not None)),
        longest=bounds[0],
        prompt=bounds[1],
    )


def _look_at(sweep: Sweep, workload: Workload, policy: str | None, seeds: Sequence[int]) -> Lists:
    """Read or draw the lists of a workload."""
    needed = seeds if "{seed}" in (workload.trace or "") else seeds[:1]
    part = _first_of(workload)
    lists = [_requests(sweep, part, seed, policy) for seed in needed]
    return Lists(
        requests=max(map(len, lists)) if workload.trace else workload.requests,
        rounds=max(_drawn_rounds(workload), *(int(r.round.max()) + 1 for r in lists)),
        slo_classes=tuple(name for requests in lists for name in requests.slo_names),
        longest=max(int((r.prompt_tokens + r.output_tokens).max()) for r in lists),
        prompt=max(int(r.prompt_tokens.max()) for r in lists),
    )


def _problem(variant: Scenario, found: Lists) -> str:
    """Say which time of a variant is too long with such lists; empty if none is."""
    try:
        check_times(variant, found.requests, found.longest, found.prompt)
    except InputError as error:
        return str(error)
    return ""


def _requests(sweep: Sweep, workload: Workload, seed: int, policy: str | None) -> Requests:
    try:
        return requests_for(workload, seed, sweep.entropy, policy, sweep.base_dir)
    except InputError as error:
        if workload.trace and not str(error).startswith("workload."):
            raise  # it names the trace's file
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


def left_out(sweep: Sweep) -> dict[str, tuple[int, int]]:
    """Return how many requests of the files of a sweep's traces are left out, and of how many.

    Only of files with some, by name; of a name with ``{seed}`` the first seed's is looked at. Of
    one that cannot be read nothing is told: whoever simulates it complains.
    """
    seeds = next((axis.values[:1] for axis in sweep.axes if axis.key == SEED), (0,))
    found: dict[str, tuple[int, int]] = {}
    for point in sweep.probe_points():
        workload = sweep.scenario(point).workload
        assert workload is not None  # `Sweep.scenario` sees to it
        found |= left_out_of(workload, point.get(POLICY), seeds, sweep.base_dir)
    return found


def left_out_of(
    workload: Workload, policy: str | None, seeds: Sequence[int], folder: Path
) -> dict[str, tuple[int, int]]:
    """Return of a workload what `left_out` returns of a sweep; names are relative to `folder`."""
    found: dict[str, tuple[int, int]] = {}
    for name in names_of(workload, policy, seeds):
        with suppress(InputError):
            asked = (folder / name, workload.read, part_of(workload, workload.read))
            if out := left_out_of_file(*asked):
                found[name] = out, out + len(requests_of_file(*asked))
    return found
