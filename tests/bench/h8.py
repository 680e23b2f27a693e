"""Microseconds per H8 simulation, for a quick look while working on the kernel.

Usage: ``PYTHONPATH=. python tests/bench/h8.py [seeds] [repeats]``
"""

import sys

import numpy as np
from bench_cases import H8_BLOCKS, generated, h8_scenario, lanes
from measuring import time_lanes


def main(seeds=100, repeats=15):
    print("routing       blocks  us/sim  sims/s  steps  preemptions")
    for routing in ("round-robin", "least-loaded"):
        lists = generated(h8_scenario(1000), range(seeds))
        times = []
        for blocks in H8_BLOCKS:
            seconds, outputs = time_lanes(lanes(h8_scenario(blocks, routing), lists), repeats)
            times.append(seconds)
            steps = outputs.tallies["steps"].mean()
            preemptions = outputs.tallies["preemptions"].sum() / seeds
            print(
                f"{routing:12} {blocks:7} {1e6 * seconds:7.1f} {1 / seconds:7.0f}"
                f" {steps:6.0f} {preemptions:8.1f}"
            )
        mean = np.exp(np.log(times).mean())
        print(f"{routing:12}  geo-mean {1e6 * mean:5.1f} {1 / mean:7.0f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
