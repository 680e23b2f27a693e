"""Run random traces, each in a workspace of its own size.

A script, for a process in which indices are checked; see test_modes.py.
"""

import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import explicit_traces
import numba
import strategies
import twin

TRACES = 500
EXPLICIT = 300
TIERED = 300


def main():
    """Print how many traces ran; an index out of bounds is an error."""
    assert numba.config.BOUNDSCHECK
    for seed in range(TRACES):
        trace = strategies.random_trace(
            random.Random(seed), max_requests=60, closed_loop=True, asynchronous=True
        )
        twin.run_kernel(trace)
    features = (*explicit_traces.FEATURES, "routed roles", "leases")
    for seed in range(EXPLICIT):
        rng = random.Random(seed)
        twin.run_kernel(explicit_traces.random_trace(rng, features, 60, closed_loop=True))
    for seed in range(TIERED):
        rng = random.Random(seed)
        trace = explicit_traces.random_trace(rng, explicit_traces.TIERED, 60, closed_loop=True)
        twin.run_kernel(trace)
    print(TRACES + EXPLICIT + TIERED)


if __name__ == "__main__":
    main()
