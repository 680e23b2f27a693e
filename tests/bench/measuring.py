"""How it is measured: processor time of this thread, the least of several runs.

On a shared machine wall clock varies by a factor; these minima agree within a few percent. Every
run simulates many different seeds: a seed run again and again teaches the branch predictor its
branches and looks up to a third faster than it is.
"""

import time

import numpy as np

from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs


def least_time(action, repeats):
    """Return the least processor time of `action()`, in seconds."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.thread_time()
        action()
        best = min(best, time.thread_time() - begun)
    return best


def run_again(inputs, outputs):
    """Run all lanes, as if for the first time."""
    outputs.tallies[:] = 0
    run_lanes(inputs, outputs)


def time_lanes(inputs, repeats):
    """Return the least processor time per lane in seconds, and the outputs.

    Raises
    ------
    AssertionError
        If a lane did not end well.
    """
    outputs = allocate_outputs(inputs)
    run_again(inputs, outputs)  # compiles, and touches the memory
    seconds = least_time(lambda: run_again(inputs, outputs), repeats)
    assert (outputs.tallies["status"] == 0).all()
    return seconds / len(inputs.lanes), outputs


def times_in_turns(batches, repeats):
    """Return the processor times of each batch of lanes in seconds, (repeats,), by name.

    Parameters
    ----------
    batches : dict
        By name, inputs and outputs.
    """
    for batch in batches.values():
        run_again(*batch)
    found = {name: [] for name in batches}
    for _ in range(repeats):
        for name, batch in batches.items():
            found[name].append(least_time(lambda batch=batch: run_again(*batch), 1))
    return {name: np.array(times) for name, times in found.items()}


def least_times(batches, repeats):
    """Return the least processor time of each batch of lanes in seconds, measured in turns."""
    return {name: times.min() for name, times in times_in_turns(batches, repeats).items()}
