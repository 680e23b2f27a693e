"""Fitting by regression: the coefficients of steps whose times were measured one by one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kvsweep.calibrate.prefix_trials import Trial
from kvsweep.calibrate.robust import robust_nnls
from kvsweep.config import Latency, Scenario
from kvsweep.config.cache_section import Cache
from kvsweep.config.engine_section import Engine
from kvsweep.simulate.logged import run_single
from kvsweep.workload.traces import FORMAT, load_trace

_LATER_US = 10**10
"""When the query comes: long after the warm-up, which must be over."""


def fit_prefix(trials: Sequence[Trial]) -> Latency:
    """Fit a constant delay and the terms of a single sequence, by relative errors.

    A first token takes ``alpha[0] + beta[0] + beta[1] * computed + beta[4] * their context``, an
    output token ``beta[0] + beta[3] * context``. Without times per output token, ``alpha[0]`` and
    ``beta[0]`` cannot be told apart: all is ``beta[0]``. With one sequence the same holds for
    ``beta[0]`` and ``beta[2]``.
    """
    rows = [_first_token(trial) for trial in trials]
    times = [1e3 * trial.ttft_ms for trial in trials]
    decodes = [trial for trial in trials if not np.isnan(trial.token_ms)]
    rows += [_output_token(trial) for trial in decodes]
    times += [1e3 * trial.token_ms for trial in decodes]
    design = np.array(rows) / np.array(times)[:, None]
    if not decodes:
        design[:, 0] = 0.0
    delay, constant, token, context, before = robust_nnls(design).tolist()
    return Latency(alpha=(delay,), beta=(constant, token, 0.0, context, before))


def _first_token(trial: Trial) -> list[float]:
    """Weights of alpha[0], beta[0], beta[1], beta[3], beta[4] in a time to first token."""
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
