"""Fitting by simulation: coefficients under which the simulated requests end when the real did."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.families import Family, Terms
from kvsweep.calibrate.holding import EXACT, Loose, Reference, find_loose, with_ridge
from kvsweep.calibrate.probing import Range, find_ranges, settle
from kvsweep.calibrate.searching import Found, search
from kvsweep.calibrate.served import Served
from kvsweep.errors import InputError
from kvsweep.limits import MAX_SECONDS
from kvsweep.policies import RequestStatus
from kvsweep.simulate.batch import build_inputs
from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.lane_records import set_step_times
from kvsweep.simulate.list_records import prepare
from kvsweep.simulate.workspace import allocate_outputs
from kvsweep.workload.blocks import resolve_blocks

Floats = NDArray[np.float64]
Codes = NDArray[np.uint8]

TOLERANT = 10
"""Times that are off by more than so many inter-token times weigh linearly: where a simulation
preempts another request than the server did, a few requests are off by seconds."""


NEVER_S = MAX_SECONDS
"""When a token comes that does not, seconds: so bad is a candidate that loses a request."""


@dataclass(frozen=True)
class Simulated:
    """What a candidate gives.

    Attributes
    ----------
    first, last : float (n,)
        First and last token of each request, seconds; `NEVER_S` where it does not end.
    preemptions : int
    status : uint8 (n,)
        How each request ended, a `RequestStatus`.
    """

    first: Floats
    last: Floats
    preemptions: int
    status: Codes

    def check_served(self) -> None:
        """Refuse what does not answer all requests, as the server did.

        Raises
        ------
        InputError
            That names the first such request and what that may come from.
        """
        lost = np.flatnonzero(self.status != RequestStatus.COMPLETED)
        if lost.size:
            cause = _CAUSES.get(int(self.status[lost[0]]), _TOO_SLOW)
            raise InputError(
                f"request {lost[0]} was answered by the server, but under no step times like the "
                f"measured ones: {cause}"
            )


_TOO_SLOW = (
    "the simulation takes too long; are the times in the unit in which they were read, and the "
    "settings (cache.gpu_blocks, engine.max_num_seqs) those of the server?"
)
_CAUSES: dict[int, str] = {
    RequestStatus.TIMED_OUT: "its client gave up; leave patience_us out of the trace",
    RequestStatus.REJECTED: "it was refused by the scenario's cluster.admission",
}


class Simulator:
    """Simulates one request list under many candidate step times at once."""

    def __init__(self, served: Served) -> None:
        self._scenario = served.scenario
        requests = served.requests
        keys = resolve_blocks(requests, served.scenario.cache.block_size)
        self._prepared = prepare(requests, keys)

    def __call__(self, terms: Terms) -> list[Simulated]:
        """Simulate every candidate.

        Raises
        ------
        InputError
            If a request cannot be served under the scenario, whatever the step times.
        """
        count = len(terms.beta)
        which = np.zeros((1, count), np.int64)
        inputs = build_inputs([self._scenario] * count, [self._prepared], which, prune=False)
        set_step_times(inputs.lanes, *terms)
        outputs = allocate_outputs(inputs, keep_requests=True)
        run_lanes(inputs, outputs)
        progress = outputs.progress.reshape(count, -1)
        status = progress["status"]
        unservable = np.flatnonzero((status == RequestStatus.DROPPED_UNSERVABLE).any(axis=0))
        if unservable.size:
            raise InputError(
                f"request {unservable[0]} was answered by the server, but not with the scenario's "
                f"{self._too_small_for(int(unservable[0]))}"
            )
        preemptions = progress["preemptions"].sum(axis=1)
        # On the clock of the client, who sees a token so much later than the engine gives it.
        later = int(self._scenario.latency.alpha[2])
        completed = status == RequestStatus.COMPLETED
        first, last = (
            np.where(completed, (progress[key] + later) / 1e6, NEVER_S)
            for key in ("first_token", "finish")
        )
        return [Simulated(first[i], last[i], int(preemptions[i]), status[i]) for i in range(count)]

    def _too_small_for(self, request: int) -> str:
        """Say which setting a request that can never fit is too long for (rule R1.3)."""
        engine, requests = self._scenario.engine, self._prepared.requests
        tokens = int(requests.prompt_tokens[request] + requests.output_tokens[request])
        if engine.max_model_len is not None and tokens > engine.max_model_len:
            return f"engine.max_model_len = {engine.max_model_len}: it has {tokens} tokens"
        budget = engine.max_num_batched_tokens
        if not engine.enable_chunked_prefill and tokens > budget:
            return (
                f"engine.enable_chunked_prefill = false: its {tokens} tokens are more than "
                f"engine.max_num_batched_tokens = {budget}"
            )
        return f"cache.gpu_blocks = {self._scenario.cache.gpu_blocks}: its tokens do not fit"


def fit_served(
    served: Served,
    simulator: Simulator,
    family: Family,
    until: float,
    reference: Reference | None = None,
) -> tuple[Found, tuple[Loose, ...], tuple[Range, ...]]:
    """Fit a family to the tokens that the real server gave before `until` (seconds).

    The residuals are the times of first and last tokens. Parameters that they do not tell are held
    to `reference` where it has them, and named; so are others of which other values fit as well.

    Raises
    ------
    InputError
        If fewer tokens than parameters came before `until`.
    """
    known = int((served.first <= until).sum() + (served.last <= until).sum())
    needed = 2 * len(family.names)
    if known < needed:
        enough = 2 * len(served.requests) >= needed
        more = "a larger --split fits to more" if enough else "measure more requests"
        raise InputError(
            f"only {known} times were measured up to {until:.1f} s, where the fit ends: too few "
            f"for {len(family.names)} parameters, of which each takes two; {more}"
        )
    residuals = _residuals(served, simulator, family, until)
    token = float(np.nanmedian(served.token_s))
    starts = family.starts(1e6 * token, _most_context(served))
    scale = TOLERANT * token
    towards = family.reference() if family.drawn else None
    drawn: Callable[[Floats], Floats] = residuals
    if towards is not None:
        drawn = with_ridge(residuals, towards.values, EXACT * scale)
    found = search(drawn, starts, family.most, scale)
    typical = np.exp(np.log(starts).mean(axis=0))
    loose, usual = find_loose(residuals, found.point, typical, scale, family.names)
    near = _near(family, loose, reference)
    if np.isnan(near).all():
        found, ends = settle(drawn, found, family.most, scale)
        loose, usual = find_loose(residuals, found.point, typical, scale, family.names)
        near = _near(family, loose, reference)
        if np.isnan(near).all():
            ranges = find_ranges(found, ends, scale, family.names)
            return found, tuple(loose), _unnamed(ranges, loose)
    begin = np.where(np.isnan(near), found.point, near)[None, :]
    ridged = with_ridge(residuals, near, usual)
    end = search(ridged, begin, family.most, scale)
    end, ends = settle(ridged, end, family.most, scale)
    still, _ = find_loose(ridged, end.point, typical, scale, family.names)
    by = "" if reference is None else reference.source
    held = {n: float(v) for n, v in zip(family.names, near, strict=True) if not np.isnan(v)}
    told = [replace(one, near=held[one.name], by=by) for one in loose if one.name in held]
    told += [one for one in still if one.name not in held]
    ranges = find_ranges(end, ends, scale, family.names)
    return end, tuple(told), _unnamed(ranges, told)


def _unnamed(ranges: Sequence[Range], loose: Sequence[Loose]) -> tuple[Range, ...]:
    """Return the ranges of parameters that are not told to be loose already."""
    return tuple(one for one in ranges if all(one.name != other.name for other in loose))


def _residuals(
    served: Served, simulator: Simulator, family: Family, until: float
) -> Callable[[Floats], Floats]:
    """Return the function from points to what their times of tokens before `until` are off by."""
    first, last = served.first <= until, served.last <= until

    def residuals(points: Floats) -> Floats:
        rows = simulator(family.terms(points))
        pairs = [((r.first - served.first)[first], (r.last - served.last)[last]) for r in rows]
        return np.array([np.concatenate(pair) for pair in pairs])

    return residuals


def _most_context(served: Served) -> float:
    """Return how many tokens of context all requests have together, as far as they fit."""
    cache = served.scenario.cache
    tokens = (served.requests.prompt_tokens + served.requests.output_tokens / 2).sum()
    return min(float(tokens), float(cache.gpu_blocks * cache.block_size))


def _near(family: Family, loose: Sequence[Loose], reference: Reference | None) -> Floats:
    """Return the reference's values of the parameters that are loose; NaN for the others."""
    near = np.full(len(family.names), np.nan)
    for i, name in enumerate(family.names):
        if reference is not None and any(name == one.name for one in loose):
            near[i] = reference.values[i]
    return near
