"""A trace's requests faster, in part, shorter, again and again: see `kvsweep.config.bending`."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray

from kvsweep.config.bending import Bends, Clip, Slice
from kvsweep.errors import InputError
from kvsweep.limits import MAX_KEYS, MAX_REQUESTS, MAX_TIME_US, MAX_TOTAL_US
from kvsweep.records import NONE
from kvsweep.workload.chains import (
    at_earliest,
    chain_ends,
    earliest_arrivals,
    in_order,
    one_behind_the_other,
)
from kvsweep.workload.checks import no_request_between
from kvsweep.workload.requests import Requests
from kvsweep.workload.taking import chain_starts, clip_prompts, joined, take

DELAYS = 4
"""Quantity of the random stream of `Bends.repeat`, after those of `draws`."""


def bend(requests: Requests, how: Bends, seed: int, entropy: int, where: str) -> Requests:
    """Return what becomes of the requests of a trace.

    Parameters
    ----------
    requests : Requests
        As the trace has them; they stay as they are.
    how : Bends
        What is done, in the order of its attributes.
    seed, entropy : int
        Of the delays of `Bends.repeat`, the only thing that is drawn.
    where : str
        The trace's name, for messages.

    Returns
    -------
    Requests
        In arrival order.

    Raises
    ------
    InputError
        If nothing is left, or more requests or time than is believed.
    """
    if how.slice is not None:
        requests = slice_requests(requests, how.slice, where)
    if how.clip is not None:
        requests = clip_lengths(requests, how.clip)
    by_answers = _by_answers(requests)
    passes = _passes(requests, how, by_answers)
    _check_size(requests, how.repeat, passes, where)
    if how.repeat > 1:
        requests = _repeat(requests, how, _stream(seed, entropy))
    if passes > 1:
        requests = _loop(requests, passes, how, by_answers, where)
    if how.scale != 1.0:
        requests = at_earliest(
            replace(requests, arrival_us=_scaled(requests.arrival_us, how.scale))
        )
    if how.limit is not None and len(requests) > how.limit:
        requests = take(requests, np.arange(how.limit))
    _check_times(requests, where)
    return requests


def slice_requests(requests: Requests, window: Slice, where: str) -> Requests:
    """Return the requests whose chains begin in a window, counted from its begin."""
    begins = requests.arrival_us[chain_starts(requests)]
    low = round(1e6 * window.from_s)
    kept = begins >= low
    if window.end_s is not None:
        kept &= begins < round(1e6 * window.end_s)
    if not kept.any():
        first, last = requests.arrival_us[0] / 1e6, requests.arrival_us[-1] / 1e6
        raise no_request_between(window, where, len(requests), first, last)
    part = take(requests, np.flatnonzero(kept))
    return replace(part, arrival_us=part.arrival_us - low)


def clip_lengths(requests: Requests, most: Clip) -> Requests:
    """Return the requests with prompts and outputs that are no longer than asked for."""
    if most.output is not None:
        requests = replace(requests, output_tokens=np.minimum(requests.output_tokens, most.output))
    return requests if most.prompt is None else clip_prompts(requests, most.prompt)


def _stream(seed: int, entropy: int) -> Generator:
    return Generator(Philox(SeedSequence(entropy, spawn_key=(seed, 0, DELAYS))))


def _by_answers(requests: Requests) -> bool:
    """Return whether answers alone say when a list ends: all chains begin at once, as on lanes."""
    begins = requests.arrival_us[requests.after == NONE]
    return len(begins) < len(requests) and bool(begins[0] == begins[-1])


def _passes(requests: Requests, how: Bends, by_answers: bool) -> int:
    """Return how many passes are played: no more than the limit may let through.

    A pass begins behind the first request of each chain of the passes before, if not behind all.
    """
    if how.limit is None:
        return how.loop
    begins = requests.arrival_us[requests.after == NONE]
    if not by_answers:
        return min(how.loop, -(-how.limit // (how.repeat * len(begins))))
    # Each chain begins again as it ends: the shortest one most often until all have sent enough.
    # Answers decide, whatever the list has as arrivals of those who wait.
    lasts = earliest_arrivals(requests)[chain_ends(requests)] - begins
    until = -(-how.limit // len(requests)) * int(lasts.max())
    if how.repeat > 1:
        until += round(1e6 * how.repeat_spread_s)
    most = until // int(lasts.min()) + 1 if lasts.min() > 0 else how.limit
    return min(how.loop, how.limit, most)


def _repeat(requests: Requests, how: Bends, rng: Generator) -> Requests:
    """Return the requests and those of other clients that do the same, each a little later."""
    session = requests.session
    # Requests that share a session, or wait for each other, keep their distances.
    alone = np.arange(len(requests)) + 1 + int(session.max())
    first = chain_starts(requests)
    _, unit = np.unique(np.where(session == NONE, alone, session)[first], return_inverse=True)
    lists = [requests]
    for _ in range(how.repeat - 1):
        delay = (rng.random(int(unit.max()) + 1) * (1e6 * how.repeat_spread_s)).astype(np.int64)
        lists.append(replace(requests, arrival_us=requests.arrival_us + delay[unit]))
    everyone = joined(lists, new_content=how.copies == "new")
    return in_order(everyone)


def _loop(requests: Requests, passes: int, how: Bends, by_answers: bool, where: str) -> Requests:
    """Return the requests in several passes, each a mean gap after the last that begins before.

    Who waits for an answer begins nothing. If all begin at once there is no gap: then each begins
    again when it has ended, also those of `repeat`, which begin later.
    """
    begins = requests.arrival_us[requests.after == NONE]
    span = 0 if by_answers else int(begins[-1] - begins[0])
    if not span and not by_answers and getattr(how, "concurrency", None) is None:
        raise InputError(
            f"workload.loop: all requests of {where} arrive at once, so no rate says when they are "
            "played again: repeat = N of [workload] sends them N times, or concurrency = N lets "
            "answers decide"
        )
    period = span + round(span / max(1, len(begins) - 1))
    if int(requests.arrival_us[-1]) + (passes - 1) * period > MAX_TOTAL_US:
        raise InputError(
            f"workload.loop: {passes:,} passes of {where}, {period / 1e6:,.0f} s each, take more "
            f"than {MAX_TOTAL_US} us together"
        )
    lists = [replace(requests, arrival_us=requests.arrival_us + k * period) for k in range(passes)]
    everyone = joined(lists, new_content=how.copies == "new")
    return one_behind_the_other(lists, everyone) if by_answers else in_order(everyone)


def _scaled(arrival_us: NDArray[np.int64], factor: float) -> NDArray[np.int64]:
    """Return arrivals at `factor` times the rate, whole microseconds, rounded down."""
    return np.minimum(np.floor(arrival_us / factor), 2.0 * MAX_TIME_US).astype(np.int64)


def _check_size(requests: Requests, repeat: int, passes: int, where: str) -> None:
    copies = repeat * passes
    if copies * len(requests) > MAX_REQUESTS or copies * len(requests.segment_ids) > MAX_KEYS:
        key = "repeat" if repeat > passes else "loop"
        raise InputError(
            f"workload.{key}: {copies:,} copies of the {len(requests):,} requests of {where} (with "
            f"{len(requests.segment_ids):,} parts of prompts); at most {MAX_REQUESTS:,} requests "
            f"and {MAX_KEYS:,} parts: give a limit or fewer copies"
        )


def _check_times(requests: Requests, where: str) -> None:
    last, pauses = int(requests.arrival_us[-1]), int(requests.think_us.sum())
    if last > MAX_TIME_US:
        raise InputError(
            f"workload.scale: bent, requests of {where} arrive up to {last / 1e6:.3g} s, at most "
            f"{MAX_TIME_US / 1e6:.3g} s (three years) are possible: a larger scale, a smaller loop "
            "or a limit makes it less"
        )
    if last + pauses > MAX_TOTAL_US:
        raise InputError(
            f"workload.loop: the last arrival and all think times of {where} make "
            f"{last + pauses} us together, more than {MAX_TOTAL_US}"
        )
