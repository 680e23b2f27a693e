"""H-Reasoning-KV: context that accumulates over rounds, under KV pressure."""

from __future__ import annotations

from kvsweep.studies.bench import Bench
from kvsweep.studies.columns import ONE_AT_A_TIME, THREE
from kvsweep.studies.h_reasoning_claims import claims
from kvsweep.studies.h_reasoning_tables import Tables, cases
from kvsweep.studies.records import Report


def report(bench: Bench) -> Report:
    """Run H-Reasoning-KV again and compare."""
    bench.load(cases(), (*THREE, *ONE_AT_A_TIME))
    tables = Tables.make(bench)
    return Report(
        name="h-reasoning-kv",
        title="H-Reasoning-KV: context accumulation under KV pressure",
        story=_STORY,
        tables=tables.all,
        claims=claims(bench, tables),
    )


_STORY = (
    "One instance, 500 requests at most in 100 simulated seconds: conversations of five rounds "
    "whose prompts grow from 128 to 1,664 tokens (reasoning), ten independent requests per second "
    "of 896 tokens each (throughput-matched), and two of them per second (session-matched). The "
    "cache shrinks from 5,000 to 100 blocks of 16 tokens.",
    "With an ample cache nothing goes wrong, and everything that was measured there stands: the "
    "growth of TTFT over the rounds, the 63.8 % hit rate, and, at the other end, the requests that "
    "can never fit. In between the reference breaks. A request that finds no free block loses its "
    "block table, but its blocks stay in use for ever (D0), until there is no cache left: most of "
    "the constrained runs stop completing anything long before the horizon. Some then take empty "
    "steps; others admit, fail and preempt the same request in every step, because its prompt is "
    "found in the cache, as its own leaked blocks, and is admitted for nothing (D3). The hundreds "
    "and thousands of preemptions per request are those steps, divided by the few requests that "
    "had completed before.",
)
