"""Curves that are made up, and a search that is driven over them without a simulator."""

import numpy as np


def drive(search, excess):
    """Run a search; `excess(value, seeds)` returns (targets, seeds). Return what it found."""
    steps = search.run()
    given = None
    while True:
        try:
            ask = steps.send(given)
        except StopIteration as ended:
            return ended.value
        given = {value: excess(value, np.arange(*span)) for value, span in ask.items()}


def exact(curve):
    """Return a curve that is the same for every seed."""
    return lambda value, seeds: np.full((1, len(seeds)), float(curve(value)))


def noisy(study, crossing=1734.3, spread=0.25, wobble=0.005):
    """Return a curve that falls by 0.001 a block and passes zero at `crossing`, in the mean.

    Seeds stretch it (their factors are gamma distributed, mean 1) and wobble at each value.
    """

    def excess(value, seeds):
        rows = []
        for seed in seeds.tolist():
            factor = np.random.default_rng((study, seed)).gamma(spread**-2, spread**2)
            noise = np.random.default_rng((study, seed, int(value))).normal(0.0, wobble)
            rows.append(max(crossing + 50.0 - value, 0.0) / 1000.0 * factor + noise - 0.05)
        return np.array([rows])

    return excess
