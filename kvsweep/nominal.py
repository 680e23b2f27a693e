"""What simulations cost by nominal values, which follow from the sweep alone: they size its tasks.

A forecast is another thing, and measured: `kvsweep.forecast`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvsweep.policies import Routing

if TYPE_CHECKING:
    from kvsweep.config import Scenario
    from kvsweep.survey import Lists

# Nominal seconds of one simulated request on one core: the kernel's is that of H8 at its cliff, the
# replica hashes blocks in plain Python.
SECONDS_PER_REQUEST = {"vllm": 5e-7, "blis": 1e-3}
# What more a request costs on the kernel: to be drawn, once for all variants with the same ones;
# by its history; by weighted routing, and each score of an instance; by the CPU tier; by a pipeline
# and each of its stages, as requests are walked in each step.
SECONDS_TO_DRAW = 3e-6
SECONDS_OF_ROUND = 1e-6
SECONDS_TO_WEIGH = 3e-7
SECONDS_PER_SCORE = 1e-8
SECONDS_OF_TIER = 3e-6
SECONDS_OF_PIPELINE = 4e-6
SECONDS_PER_STAGE = 1.3e-6


def seconds_of_variant(variant: Scenario, lists: Lists) -> float:
    """Return the nominal cost of simulating a variant with one seed."""
    each = SECONDS_PER_REQUEST[variant.engine.rules]
    cluster = variant.cluster
    if variant.engine.rules == "vllm":
        each += SECONDS_OF_ROUND * (lists.rounds > 0)
        each += SECONDS_OF_TIER * (variant.cache.cpu_blocks > 0)
        if (stages := variant.engine.pipeline_parallel_size) > 1:
            each += SECONDS_OF_PIPELINE + SECONDS_PER_STAGE * stages
        if cluster.routing == Routing.WEIGHTED.label:
            scores = cluster.instances * len(cluster.scorers)
            each += SECONDS_TO_WEIGH + SECONDS_PER_SCORE * scores
    return lists.requests * each
