"""Check the sums that the kernel keeps when each step begins, on random traces.

A script, for a process in which the kernel is not compiled; see test_bookkeeping.py.
"""

import random
import sys
from pathlib import Path
from unittest.mock import patch

sys.path += [
    str(Path(__file__).parents[i] / folder) for i, folder in ((1, ""), (2, "docs/figures"))
]

import strategies
import twin
from watched import check_sums

from kvsweep.kernel.time import instance

TRACES = 60


def main():
    """Print how many steps were checked."""
    only_decodes = instance.only_decodes
    checked = 0

    def checking(inp, ws, lane, inst):
        nonlocal checked
        check_sums(ws, lane, inst)
        checked += 1
        return only_decodes(inp, ws, lane, inst)

    with patch.object(instance, "only_decodes", checking):
        for seed in range(TRACES):
            trace = strategies.random_trace(
                random.Random(seed), max_requests=30, closed_loop=True, asynchronous=True
            )
            twin.run_kernel(trace)
    print(checked)


if __name__ == "__main__":
    main()
