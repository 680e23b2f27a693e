"""Fitting by regression: the coefficients of steps whose times were measured one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from kvsweep.calibrate.prefix_trials import Trial
from kvsweep.calibrate.robust import robust_nnls
from kvsweep.config import Latency, Scenario
from kvsweep.config.cache_section import Cache
from kvsweep.config.engine_section import Engine
from kvsweep.simulate.logged import run_single
from kvsweep.workload.traces import FORMAT, load_trace

_LATER_US = 10**10
"""When the query comes: long after the warm-up, which must be over."""

_NAMES = ("alpha[0]", "beta[0]", "beta[1]", "beta[3]", "beta[4]")
"""What is fitted."""

_EXACT = 1e-9
"""Of columns of length 1: no more than what rounding leaves of nothing."""


def fit_prefix(trials: Sequence[Trial]) -> Latency:
    """Fit a constant delay and the terms of a single sequence, by relative errors.

    A first token takes ``alpha[0] + beta[0] + beta[1] * computed + beta[4] * their context``, an
    output token ``beta[0] + beta[3] * context``. Without times per output token, ``alpha[0]`` and
    ``beta[0]`` cannot be told apart: all is ``beta[0]``. With one sequence the same holds for
    ``beta[0]`` and ``beta[2]``.
    """
    decodes = _decodes(trials)
    times = [1e3 * trial.ttft_ms for trial in trials]
    times += [1e3 * trial.token_ms for trial in decodes]
    weights = _weights(trials, decodes)
    delay, constant, token, context, before = robust_nnls(
        weights / np.array(times)[:, None]
    ).tolist()
    return Latency(alpha=(delay,), beta=(constant, token, 0.0, context, before))


def not_told(trials: Sequence[Trial]) -> Iterator[str]:
    """Say which coefficients the trials do not tell, however exact their times are."""
    decodes = _decodes(trials)
    if not decodes:
        yield (
            "no output tokens were timed: beta[0] has what alpha[0] takes in it, and beta[3] is 0; "
            "measure throughput_tok_s for a simulation of outputs"
        )
    weights = _weights(trials, decodes)
    norms = np.linalg.norm(weights, axis=0)
    triangle = np.linalg.qr(weights / np.where(norms > 0, norms, 1.0), mode="r")
    _, sizes, directions = np.linalg.svd(triangle)
    # Along these the coefficients may change, and no time does.
    free = directions[np.pad(sizes, (0, len(norms) - len(sizes))) < _EXACT]
    places = np.flatnonzero((np.abs(free) > _EXACT).any(axis=0) & (norms > 0))
    if places.size:
        yield (
            f"{', '.join(_NAMES[place] for place in places)}: not told apart by trials of these "
            "lengths, and of many that fit; measure more sizes, hits and misses of each"
        )


def _decodes(trials: Sequence[Trial]) -> list[Trial]:
    return [trial for trial in trials if not np.isnan(trial.token_ms)]


def _weights(trials: Sequence[Trial], decodes: Sequence[Trial]) -> NDArray[np.float64]:
    """Return the weights of `_NAMES` in the times to first token, and in those of output tokens."""
    rows = [_first_token(trial) for trial in trials]
    rows += [_output_token(trial) for trial in decodes]
    weights = np.array(rows, np.float64)
    if not decodes:
        weights[:, 0] = 0.0
    return weights


def _first_token(trial: Trial) -> list[float]:
    """Return the weights of `_NAMES` in a time to first token."""
    new, cached = trial.computed, trial.prompt - trial.computed
    return [1, 1, new, 0, new * cached + new * (new - 1) / 2]


def _output_token(trial: Trial) -> list[float]:
    """Return the same for the mean time of an output token."""
    return [0, 1, 0, trial.prompt - 1 + (trial.output - 1) / 2, 0]


def simulate_first_token(latency: Latency, trial: Trial) -> float:
    """Return the time to first token in ms: [A, B] is served, then the query of the trial.

    What is cached is not assumed: the simulated engine finds it, token by token, as llama.cpp does.
    """
    query = max(trial.prompt - (trial.a + trial.b if trial.condition == "hit" else trial.b), 1)
    kept = [[0, trial.a], [1, trial.b]] if trial.condition == "hit" else [[1, trial.b]]
    prompts = ([[0, trial.a], [1, trial.b]], [*kept, [2, query]])
    longest = trial.a + trial.b + query
    requests = [
        {"id": i, "arrival_us": i * _LATER_US, "prompt": prompt, "output": [10 + i, 1]}
        for i, prompt in enumerate(prompts)
    ]
    scenario = Scenario(
        latency=latency,
        engine=Engine(max_num_seqs=1, max_num_batched_tokens=longest),
        cache=Cache(block_size=1, gpu_blocks=2 * longest),
    )
    trace = load_trace({"format": FORMAT, "requests": requests})
    return float(run_single(scenario, trace.requests).outputs.ttft[1] / 1e3)
