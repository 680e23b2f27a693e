"""Compare turns that are kept with those found anew, before each that is taken.

A script, for a process in which nothing is compiled; see test_turns.py.
"""

import random
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import explicit_traces
import strategies
import twin

from kvsweep.kernel import turns
from kvsweep.records import NONE

SEEDS = 4
EXPLICIT = ("groups", "pools", "roles", "leases", "routed roles")


def main():
    """Print how many turns were kept; one that has changed is an error."""
    kept = 0
    take = turns._earliest

    def compare(ws, lane):
        nonlocal kept
        for index in range(lane["instances"]):
            if ws.turns[index] != NONE:
                assert ws.turns[index] == turns.next_turn(ws, lane, index)
                kept += 1
        return take(ws, lane)

    turns._earliest = compare
    for seed in range(SEEDS):
        rng = random.Random(seed)
        twin.run_kernel(strategies.random_trace(rng, 25, closed_loop=True, asynchronous=True))
        for feature in EXPLICIT:
            trace = explicit_traces.random_trace(rng, (feature,), 25, closed_loop=True)
            twin.run_kernel(trace)
    print(kept)


if __name__ == "__main__":
    main()
