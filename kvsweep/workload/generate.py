"""Generated workloads: a pure function of the workload section, the seed and the entropy.

Every (seed, client, quantity) has a random stream of its own: Philox, seeded by
``SeedSequence(entropy, spawn_key=(seed, client, quantity))``, with arrivals, prompts and outputs as
quantities 0, 1 and 2. So a seed's requests are the same in every cell of a grid, and changing the
rate stretches the arrival times and leaves the lengths alone.

Draws are those of NumPy's Generator methods (``standard_exponential``, ``standard_gamma``,
``standard_normal``, ``random``). They look up tables and need the processor's exponential and
logarithm only in rare tails, so they are alike on all machines; NumPy may change them in a feature
release, which a test of this package would show.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from numpy.typing import NDArray

from kvsweep.config.workload import DEFAULT_ENTROPY, Client, Workload
from kvsweep.errors import InputError
from kvsweep.workload.arrivals import unit_gaps
from kvsweep.workload.lengths import draw_lengths
from kvsweep.workload.requests import NONE, Requests
from kvsweep.workload.traces import load_trace

ARRIVALS, PROMPTS, OUTPUTS = range(3)

# float64 counts single microseconds up to here: 285 years.
_LAST_US = 2.0**53


@dataclass(frozen=True)
class _Draws:
    """What is sent: arrival times in microseconds, not yet truncated, and tokens; (n,) each."""

    time: NDArray[np.float64]
    prompt: NDArray[np.int64]
    output: NDArray[np.int64]


def generate(workload: Workload, seed: int, entropy: int = DEFAULT_ENTROPY) -> Requests:
    """Draw the requests of a seed.

    Each client draws as many requests as the workload has; they are merged by time of arrival
    before its truncation, so that their order does not depend on the rate, ties in the order of
    clients, and the first ones are kept.

    Parameters
    ----------
    workload : Workload
        Without a trace.
    seed : int
        From 0.
    entropy : int
        Common to all seeds of a sweep.

    Returns
    -------
    Requests
        In arrival order. The first arrives after one gap; arrivals are truncated to microseconds.

    Raises
    ------
    InputError
        If the rate is so small that time overflows, or a length is absurd.
    """
    if not workload.clients:
        draws = _draw_client(workload, None, 1.0, (entropy, seed, 0))
        return _assemble(workload, draws, np.zeros(workload.requests, np.int16))
    total = sum(client.rate_fraction for client in workload.clients)
    parts = [
        _draw_client(workload, client, client.rate_fraction / total, (entropy, seed, i))
        for i, client in enumerate(workload.clients)
    ]
    times = np.concatenate([part.time for part in parts])
    first = np.argsort(times, kind="stable")[: workload.requests]
    merged = _Draws(
        times[first],
        np.concatenate([part.prompt for part in parts])[first],
        np.concatenate([part.output for part in parts])[first],
    )
    return _assemble(workload, merged, (first // workload.requests).astype(np.int16))


def requests_for(
    workload: Workload,
    seed: int,
    entropy: int = DEFAULT_ENTROPY,
    policy: str | None = None,
    base_dir: Path | None = None,
) -> Requests:
    """Return the requests of a seed, drawn or read from the workload's trace.

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
        As `generate`; or the trace's name asks for something unknown; or as `load_trace`.
    """
    if workload.trace is None:
        return generate(workload, seed, entropy)
    fields = {"seed": str(seed)} if policy is None else {"seed": str(seed), "policy": policy}

    def fill(field: re.Match[str]) -> str:
        if field[1] not in fields:
            known = ", ".join(f"{{{key}}}" for key in fields)
            raise InputError(
                f"workload.trace: {workload.trace!r}: {field[0]} is unknown here; allowed: {known}"
            )
        return fields[field[1]]

    name = re.sub(r"\{(\w*)\}", fill, workload.trace)
    return load_trace((base_dir or Path()) / name).requests


def _draw_client(
    workload: Workload, client: Client | None, share: float, key: tuple[int, int, int]
) -> _Draws:
    """Draw the requests of one client, or of the only one; `key` is (entropy, seed, client)."""
    entropy, seed, index = key
    where = "workload" if client is None else f"workload.clients[{index}]"
    streams = [
        Generator(Philox(SeedSequence(entropy, spawn_key=(seed, index, quantity))))
        for quantity in (ARRIVALS, PROMPTS, OUTPUTS)
    ]
    own = client or workload
    n = workload.requests
    gaps = unit_gaps(own.arrivals or workload.arrivals, own.cv or workload.cv, n, streams[ARRIVALS])
    prompts = own.prompt or workload.prompt
    outputs = own.output or workload.output
    times = np.cumsum(gaps) * (1e6 / (workload.rate * share))
    if not times[-1] < _LAST_US:
        raise InputError(f"{where}: the rate is too small: {n} requests take more than 285 years")
    return _Draws(
        times,
        draw_lengths(prompts, n, streams[PROMPTS], f"{where}.prompt"),
        draw_lengths(outputs, n, streams[OUTPUTS], f"{where}.output"),
    )


def _assemble(workload: Workload, draws: _Draws, client: NDArray[np.int16]) -> Requests:
    """Make the requests of merged draws; `client` (n,) says whose each is."""
    clients = workload.clients
    n = workload.requests
    prefix_group, prefix = _prefixes(clients, client)
    groups = int(prefix_group.max()) + 1
    # Segments: one per prefix group, then two per request, for its own prompt and its output.
    own = groups + 2 * np.arange(n)
    entries = 1 + (prefix > 0)
    offsets = np.zeros(n + 1, np.int64)
    np.cumsum(entries, out=offsets[1:])
    segments = np.repeat(prefix_group, entries)
    tokens = np.repeat(prefix, entries)
    last = offsets[1:] - 1
    segments[last], tokens[last] = own, draws.prompt
    slo_names, slo_class = _labels([c.slo_class for c in clients], client)
    client_names, client_code = _labels([c.id for c in clients], client)
    return Requests(
        arrival_us=draws.time.astype(np.int64),
        prompt_tokens=draws.prompt + prefix,
        output_tokens=draws.output,
        segment_offsets=offsets,
        segment_ids=segments,
        segment_tokens=tokens,
        output_segment=own + 1,
        priority=np.zeros(n, np.int64),
        has_priority=np.zeros(n, np.bool_),
        slo_class=slo_class,
        client=client_code,
        session=np.full(n, NONE, np.int64),
        round=np.full(n, NONE, np.int64),
        after=np.full(n, NONE, np.int64),
        think_us=np.zeros(n, np.int64),
        patience_us=np.full(n, NONE, np.int64),
        slo_names=slo_names,
        client_names=client_names,
    )


def _prefixes(
    clients: tuple[Client, ...], client: NDArray[np.int16]
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
    names: list[str | None], client: NDArray[np.int16]
) -> tuple[tuple[str, ...], NDArray[np.int16]]:
    """Return distinct names and, per request, the index of its client's name or -1."""
    distinct = list(dict.fromkeys(name for name in names if name is not None))
    if not distinct:
        return (), np.full(len(client), NONE, np.int16)
    codes = [NONE if name is None else distinct.index(name) for name in names]
    return tuple(distinct), np.array(codes, np.int16)[client]
