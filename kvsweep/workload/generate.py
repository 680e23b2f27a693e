"""Generated workloads: a pure function of the workload section, the seed and the entropy.

Every (seed, client, quantity) has a random stream of its own: Philox, seeded by
``SeedSequence(entropy, spawn_key=(seed, client, quantity))``, with arrivals, prompts, outputs and
think times as quantities 0 to 3. So a seed's requests are the same in every cell of a grid, and
changing the rate stretches the arrival times and leaves the lengths alone.

Draws are those of NumPy's Generator methods (``standard_exponential``, ``standard_gamma``,
``standard_normal``, ``random``). They look up tables and need the processor's exponential and
logarithm only in rare tails, so they are alike on all machines; NumPy may change them in a feature
release, which a test of this package would show.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kvsweep.config.sessions import Sessions
from kvsweep.config.workload import DEFAULT_ENTROPY, Client, Workload
from kvsweep.errors import InputError, clip, shown
from kvsweep.records import NONE
from kvsweep.workload.bending import bend, clip_lengths, slice_requests
from kvsweep.workload.content import lay_out, previous_round
from kvsweep.workload.draws import Draws, draw_requests, sessions_of
from kvsweep.workload.kept_traces import requests_of_file
from kvsweep.workload.lengths import Pairs
from kvsweep.workload.long_files import part_of
from kvsweep.workload.requests import Requests

TOGETHER = 1 << 14
"""Requests that are drawn at once, whose columns stay in the processor's cache."""


def generate(
    workload: Workload, seed: int, entropy: int = DEFAULT_ENTROPY, pairs: Pairs | None = None
) -> Requests:
    """Draw the requests of a seed.

    Each client draws as many requests as the workload has, or enough sessions; they are merged by
    time of arrival before its truncation, so that their order does not depend on the rate, ties in
    the order of clients, and the first ones are kept (see `Sessions.truncate`).

    Parameters
    ----------
    workload : Workload
        Without a trace.
    seed : int
        From 0.
    entropy : int
        Common to all seeds of a sweep.
    pairs : Pairs or None
        Where lengths are drawn from instead of the workload's distributions.

    Returns
    -------
    Requests
        In arrival order. The first arrives after one gap; arrivals are truncated to microseconds.

    Raises
    ------
    InputError
        If the rate is so small that time overflows, or a length is absurd.
    """
    return generate_all(workload, [seed], entropy, pairs)[0]


def generate_all(
    workload: Workload,
    seeds: Sequence[int],
    entropy: int = DEFAULT_ENTROPY,
    pairs: Pairs | None = None,
) -> list[Requests]:
    """Draw the requests of several seeds, as `generate` does those of each.

    Of the default workload 200 lists take 16 us each, and one alone 40.

    Raises
    ------
    InputError
        If the rate is so small that time overflows, or a length is absurd.
    """
    at_once = max(1, TOGETHER // workload.requests)
    return [
        _laid_out(workload, drawn)
        for lo in range(0, len(seeds), at_once)
        for drawn in draw_requests(workload, seeds[lo : lo + at_once], entropy, pairs)
    ]


def _laid_out(workload: Workload, drawn: Draws) -> Requests:
    """Give requests their content, and the columns that follow from their clients."""
    if not workload.clients and workload.sessions is None:
        return _alike(len(drawn.arrival)).with_columns(
            arrival_us=drawn.arrival,
            prompt_tokens=drawn.prompt,
            output_tokens=drawn.output,
            segment_tokens=drawn.prompt,
        )
    sessions = [sessions_of(workload, i) for i in range(max(1, len(workload.clients)))]
    n = len(drawn.arrival)
    prefix_group, prefix = _prefixes(workload.clients, drawn.client)
    content = lay_out(drawn, sessions, prefix_group, prefix)
    slo_names, slo_class = _labels([c.slo_class for c in workload.clients], drawn.client)
    client_names, client = _labels([c.id for c in workload.clients], drawn.client)
    return Requests(
        arrival_us=drawn.arrival,
        prompt_tokens=content.prompt_tokens,
        output_tokens=drawn.output,
        segment_offsets=content.offsets,
        segment_ids=content.segments,
        segment_tokens=content.tokens,
        output_segment=content.output_segment,
        priority=np.zeros(n, np.int64),
        has_priority=np.zeros(n, np.bool_),
        slo_class=slo_class,
        client=client,
        **_session_columns(drawn, sessions),
        slo_names=slo_names,
        client_names=client_names,
        accepted=None,
        pull_fails=None,
    )


@lru_cache(maxsize=16)
def _alike(n: int) -> Requests:
    """Return what all lists of `n` single requests of one sender have in common.

    The columns cannot be written to. To make them anew took a third of the time of a list. Arrivals
    and tokens are not there yet.
    """
    none, zeros = np.full(n, NONE, np.int64), np.zeros(n, np.int64)
    nobody = np.full(n, NONE, np.int16)
    columns: dict[str, Any] = {
        "segment_offsets": np.arange(n + 1),
        "segment_ids": 2 * np.arange(n),
        "output_segment": 2 * np.arange(n) + 1,
        "priority": zeros,
        "has_priority": np.zeros(n, np.bool_),
        "slo_class": nobody,
        "client": nobody,
        **dict.fromkeys(("session", "round", "after", "patience_us"), none),
        **dict.fromkeys(("think_us", "arrival_us"), zeros),
        **dict.fromkeys(("prompt_tokens", "output_tokens", "segment_tokens"), zeros),
    }
    for values in columns.values():
        values.flags.writeable = False
    return Requests(**columns)


def requests_for(
    workload: Workload,
    seed: int,
    entropy: int = DEFAULT_ENTROPY,
    policy: str | None = None,
    base_dir: Path | None = None,
) -> Requests:
    """Return the requests of a seed, drawn or read from the workload's trace and bent.

    Parameters
    ----------
    workload : Workload
        The section.
    seed, policy : int, str or None
        Fill in ``{seed}`` and ``{policy}`` of the trace's name.
    entropy : int
        For `generate`.
    base_dir : Path or None
        What the trace's name is relative to; None: the current folder.

    Raises
    ------
    InputError
        As `generate`; or the trace's name asks for something unknown; or as `load_trace` or `bend`;
        or the warm-up leaves nothing of the trace.
    """
    folder = base_dir or Path()
    if workload.trace is None:
        return generate(workload, seed, entropy, pairs_of(workload, folder))
    fields = {"seed": str(seed)} if policy is None else {"seed": str(seed), "policy": policy}

    def fill(field: re.Match[str]) -> str:
        if field[1] not in fields:
            known = ", ".join(f"{{{key}}}" for key in fields)
            raise InputError(
                f"workload.trace: {shown(workload.trace)}: {clip(field[0])} is unknown here; "
                f"allowed: {known}"
            )
        return fields[field[1]]

    name = re.sub(r"\{(\w*)\}", fill, workload.trace)
    of_file = requests_of_file(folder / name, workload.read, part_of(workload, workload.read))
    requests = bend(of_file, workload, seed, entropy, name)
    if workload.warmup >= len(requests):
        raise InputError(
            f"workload.warmup: {workload.warmup} leaves none of the {len(requests)} requests of "
            f"{name} to measure"
        )
    if workload.concurrency is not None and (requests.after != NONE).any():
        raise InputError(
            f"workload.concurrency: requests of {name} wait for answers ('after') already: leave "
            "out this key"
        )
    if workload.concurrency is not None and (requests.patience_us != NONE).any():
        raise InputError(f"workload.concurrency: not with impatient clients, as {name} has")
    return requests


def pairs_of(workload: Workload, folder: Path) -> Pairs | None:
    """Return the lengths that the workload takes from a trace, None if it has its own.

    Raises
    ------
    InputError
        As `load_trace`, or if the workload's slice has none of its requests.
    """
    name = workload.lengths_from
    if name is None:
        return None
    requests = requests_of_file(folder / name, workload.read, part_of(workload, workload.read))
    if workload.slice is not None:
        requests = slice_requests(requests, workload.slice, name)
    if workload.clip is not None:
        requests = clip_lengths(requests, workload.clip)
    return Pairs(requests.prompt_tokens, requests.output_tokens)


def _session_columns(
    drawn: Draws, sessions: Sequence[Sessions | None]
) -> dict[str, NDArray[np.int64]]:
    """Return the columns of `Requests` that say how requests belong together."""
    if not any(sessions):
        none = np.full(len(drawn.arrival), NONE, np.int64)
        names = ("session", "round", "after", "patience_us")
        return dict.fromkeys(names, none) | {"think_us": np.zeros_like(none)}
    is_session = np.array([s is not None for s in sessions])[drawn.client]
    closed = np.array([s is not None and s.arrivals == "closed-loop" for s in sessions])
    follows = closed[drawn.client] & (drawn.round > 0)
    patience = [s.patience_s if s else None for s in sessions]
    patience_us = np.array([NONE if p is None else int(1e6 * p) for p in patience])
    # Sessions are numbered as they begin.
    _, begin, number = np.unique(drawn.session, return_index=True, return_inverse=True)
    begins = is_session & (drawn.round == 0)
    rank = (np.cumsum(begins) - 1)[begin][number]
    return {
        "session": np.where(is_session, rank, NONE),
        "round": np.where(is_session, drawn.round, NONE),
        "after": np.where(follows, previous_round(drawn), NONE),
        "think_us": np.where(follows, drawn.think, 0),
        "patience_us": patience_us[drawn.client],
    }


def _prefixes(
    clients: tuple[Client, ...], client: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return per request the number of its prefix group, or -1, and the tokens of its prefix."""
    names = [c.prefix_group for c in clients]
    if not any(names):
        return np.full(len(client), NONE, np.int64), np.zeros(len(client), np.int64)
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    groups = [NONE if name is None else distinct.index(name) for name in names]
    lengths = [0 if c.prefix_group is None else c.prefix_len for c in clients]
    return np.array(groups)[client], np.array(lengths)[client]


def _labels(
    names: list[str | None], client: NDArray[np.int64]
) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Return distinct names and, per request, the index of its client's name or -1."""
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    if not distinct:
        return (), np.full(len(client), NONE, np.int16)
    codes = [NONE if name is None else distinct.index(name) for name in names]
    return tuple(distinct), np.array(codes, np.int16)[client]
