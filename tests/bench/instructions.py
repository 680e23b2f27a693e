"""Simulates H8 with 5,000 blocks over many seeds, so many times; for a counting of instructions."""

import sys

from bench_cases import generated, h8_scenario, lanes
from measuring import run_again

from kvsweep.simulate.workspace import allocate_outputs

SEEDS = 60

if __name__ == "__main__":
    scenario = h8_scenario(5000)
    inputs = lanes(scenario, generated(scenario, range(SEEDS)))
    outputs = allocate_outputs(inputs)
    for _ in range(int(sys.argv[1])):
        run_again(inputs, outputs)
