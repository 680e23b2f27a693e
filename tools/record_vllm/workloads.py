"""Random request lists of a few shapes."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

SHAPES = ("shared", "shared", "conversations", "bursts", "long")
"""Shared prefixes; rounds with their history; arrivals together; some prompts much longer."""

Entries = list[dict[str, Any]]


@dataclass(frozen=True)
class Dials:
    """What a list is like: `gap_us` between arrivals on average, lengths in terms of blocks."""

    shape: str
    count: int
    block_size: int
    gap_us: float
    priority: bool


def make_requests(r: Random, dials: Dials) -> Entries:
    """Return a request list as traces have it."""
    scale = r.choice([1, 1, 2, 4]) * dials.block_size
    make = _conversations if dials.shape == "conversations" else _prefixes
    entries = make(r, dials, scale)
    if dials.priority:
        for entry in entries:
            entry["priority"] = r.randrange(3)
    return entries


def _conversations(r: Random, dials: Dials, scale: int) -> Entries:
    sessions = max(2, dials.count // r.choice([3, 4, 5]))
    rounds = -(-dials.count // sessions)
    start = 0.0
    rows: list[tuple[int, int, int, list[list[int]], list[int]]] = []
    for session in range(sessions):
        start += r.expovariate(1 / (2 * dials.gap_us))
        history = [[900 + r.randrange(2), r.randrange(1, 4 * scale)]] if r.random() < 0.6 else []
        arrival = start
        for number in range(rounds):
            segment = 1000 + 2 * (session * rounds + number)
            prompt = [*history, [segment, r.randrange(1, 2 * scale)]]
            output = [segment + 1, r.randrange(1, 2 * scale)]
            rows.append((int(arrival), session, number, prompt, output))
            history = [*prompt, output]
            arrival += dials.gap_us * r.uniform(3, 12)
    rows.sort(key=lambda row: row[:3])
    return [
        {
            "id": i,
            "arrival_us": arrival,
            "prompt": prompt,
            "output": output,
            "session": session,
            "round": number,
        }
        for i, (arrival, session, number, prompt, output) in enumerate(rows[: dials.count])
    ]


def _prefixes(r: Random, dials: Dials, scale: int) -> Entries:
    groups = r.randrange(1, 6)
    shared = [r.randrange(1, 6 * scale) for _ in range(groups)]
    if r.random() < 0.5:  # one that ends with a block
        shared[0] = r.randrange(1, 6) * scale
    burst = r.choice([5, 8, 13])
    entries: Entries = []
    arrival = 0.0
    for i in range(dials.count):
        if dials.shape != "bursts":
            arrival += r.expovariate(1 / dials.gap_us)
        elif i % burst == 0:
            arrival += r.expovariate(1 / (6 * dials.gap_us))
        group = r.randrange(groups)
        prompt = [[group, shared[group]]]
        if r.random() < 0.4:
            prompt.append([100 + group, r.randrange(1, 3 * scale)])
        if r.random() < 0.75:
            longer = 12 if dials.shape == "long" and r.random() < 0.3 else 3
            prompt.append([10_000 + i, r.randrange(1, longer * scale)])
        output = r.randrange(1, 4 * scale) if r.random() < 0.85 else 1
        segment = 20_000 + (i if r.random() < 0.8 else group)
        entries.append(
            {"id": i, "arrival_us": int(arrival), "prompt": prompt, "output": [segment, output]}
        )
    return entries
