"""Where the time of explicit lanes goes, by function, as `perf` samples it.

Usage: ``PYTHONPATH=. python tests/bench/by_function.py FEATURE [blocks] [seconds]``

FEATURE is a name of `explicit.FEATURES`. No function is inlined, or all samples would be of the
entry: calls cost something, so shares are to a few percent. It compiles for a minute or more.
"""

import bisect
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kvsweep import _cache, _jit

_jit.leaf = _jit.part  # before anything is decorated with it
_cache.folder = None  # what is compiled so is for nobody else

from explicit import BLOCKS, FEATURES, batch_of, generated, h8_scenario, h8_with  # noqa: E402
from measuring import run_again  # noqa: E402

from kvsweep.kernel import engine  # noqa: E402

LINES = 40
FARTHEST = 1 << 18
"""Bytes behind the begin of a function that may still be its own."""


def functions():
    """Return {address: name} of all functions in the entries that were compiled."""
    found = {}
    for entry in vars(engine).values():
        for overload in getattr(entry, "overloads", {}).values():
            library = overload.library  # LLVM alone knows where it put what it compiled
            for function in library._final_module.functions:
                if not function.is_declaration:
                    address = library.codegen._engine.get_function_address(function.name)
                    found[address] = function.name
    return found


def sampled(batch, seconds):
    """Return the addresses outside of other programs' code at which `perf` found this process."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "perf.data"
        command = ["perf", "record", "-q", "-F", "4000", "-o", file, "-p", str(os.getpid())]
        with subprocess.Popen(command) as recording:
            time.sleep(1)  # until it is attached
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                run_again(*batch)
            recording.terminate()
        command = ["perf", "script", "-i", file, "-F", "ip,sym"]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    words = [line.split() for line in lines.splitlines()]
    return [int(each[0], 16) for each in words if each and each[1:] in ([], ["[unknown]"])]


def main(feature, blocks=BLOCKS[0], seconds=6):
    lists = generated(h8_scenario(BLOCKS[0]), range(60))
    batch = batch_of(h8_with(blocks, FEATURES[feature]), lists)
    run_again(*batch)
    addresses = sampled(batch, seconds)
    names = functions()
    begins = sorted(names)
    counts = Counter()
    for address in addresses:
        place = bisect.bisect(begins, address) - 1
        known = place >= 0 and address - begins[place] < FARTHEST
        counts[names[begins[place]] if known else "elsewhere"] += 1
    for name, count in counts.most_common(LINES):
        # The name ends in a digest of the types.
        print(f"{100 * count / len(addresses):5.1f} %  {name.removeprefix('kvsweep.kernel.')[:70]}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
