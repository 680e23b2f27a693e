"""What is measured: batches of lanes, ready for the kernel."""

from pathlib import Path

import numpy as np

from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.config.scenario import validate
from kvsweep.simulate.batch import build_inputs
from kvsweep.simulate.list_records import prepare
from kvsweep.workload.blocks import resolve_blocks
from kvsweep.workload.columns import RequestColumns
from kvsweep.workload.generate import generate

H8_BLOCKS = (5000, 2100, 1500, 1000)
CONVERSATION_BLOCKS = (5000, 1000, 400)
LATENCY = {
    "alpha": [1601.35, 3.51, 1805.54],
    "beta": [6910.42, 17.67, 2.84],
}


def h8_scenario(blocks, routing="round-robin", requests=200, rate=2000.0, instances=4):
    """Return H8's scenario with some of its numbers changed."""
    return validate(
        {
            "workload": {
                "requests": requests,
                "rate": rate,
                "prompt": {"dist": "gaussian", "mean": 512, "std": 50, "min": 256, "max": 768},
                "output": {"dist": "gaussian", "mean": 256, "std": 50, "min": 128, "max": 512},
            },
            "cluster": {"instances": instances, "routing": routing},
            "cache": {"gpu_blocks": blocks},
            "latency": {"model": "llama-3.1-8b/h100/tp2"},
        },
        Path(),
    )


def conversations_scenario(blocks):
    """Return the scenario of the recorded conversations: one instance, short batches."""
    return validate(
        {
            "engine": {"max_num_seqs": 32},
            "cache": {"gpu_blocks": blocks},
            "latency": LATENCY,
        },
        Path(),
    )


def conversations(seed, requests=500, rounds=5):
    """Return conversations as the recorded ones: five rounds, 5 s apart, sessions at random.

    A round's prompt is all that was said before and 128 new tokens; its answer has 256.
    """
    rng = np.random.default_rng(seed)
    starts = np.cumsum(rng.exponential(453_000.0, requests)).astype(np.int64)
    turns = sorted(
        (int(start) + 5_000_256 * turn, session, turn)
        for session, start in enumerate(starts)
        for turn in range(rounds)
    )
    columns = RequestColumns()
    for arrival, session, turn in turns[:requests]:
        first = 2 * rounds * session
        said = range(2 * turn + 1)
        segments = [first + k for k in said]
        tokens = [128 if k % 2 == 0 else 256 for k in said]
        output = first + 2 * turn + 1, 256
        columns.add(arrival, segments, tokens, output, session=session, round=turn)
    return columns.build()


def generated(scenario, seeds):
    """Return the request lists of a scenario's workload."""
    return [generate(scenario.workload, seed, DEFAULT_ENTROPY) for seed in seeds]


def lanes(scenario, lists):
    """Return the kernel's inputs: one lane per request list."""
    size = scenario.cache.block_size
    prepared = [prepare(requests, resolve_blocks(requests, size)) for requests in lists]
    return build_inputs([scenario], prepared, np.arange(len(lists))[:, None])
