"""Where the time of explicit lanes goes in the code of their entry, as `perf` samples it.

Usage: ``PYTHONPATH=. python tests/bench/hot_places.py FEATURE [blocks] [seconds]``

FEATURE is a name of `explicit.FEATURES`. Printed are the windows of an entry's code with the most
samples, each with its instructions: what a load or a store is of tells by its distance, which is
that of a field in its record (`kvsweep.records`). Needs `perf` and `objdump`.

Not by function: were leaves not inlined, most samples would be of arguments that are passed.
"""

import bisect
import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from kvsweep import _cache

_cache.folder = None  # LLVM knows where code is only if it compiled it itself

from explicit import BLOCKS, FEATURES, batch_of, generated, h8_scenario, h8_with  # noqa: E402
from measuring import run_again  # noqa: E402

from kvsweep.kernel import engine  # noqa: E402

WINDOW, WINDOWS = 128, 12
"""Bytes of a window, and how many are shown."""
FARTHEST = 1 << 19
"""Bytes behind the begin of a function that may still be its own."""


def functions():
    """Return {address: name} of all functions in the entries that were compiled."""
    found = {}
    for entry in vars(engine).values():
        for overload in getattr(entry, "overloads", {}).values():
            library = overload.library
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


def instructions(begin, size):
    """Yield address and text of each instruction of a piece of this process's code."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(ctypes.string_at(begin, size))
        file.flush()
        raw = ["-D", "-b", "binary", "-m", "i386:x86-64", "--no-show-raw-insn"]
        command = ["objdump", *raw, f"--adjust-vma={begin}", file.name]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in lines.splitlines():
        address, colon, text = line.strip().partition(":\t")
        if colon:
            yield int(address, 16), text


def main(feature, blocks=BLOCKS[0], seconds=6):
    """Print the hottest windows of the function that has the most samples."""
    lists = generated(h8_scenario(BLOCKS[0]), range(60))
    batch = batch_of(h8_with(blocks, FEATURES[feature]), lists)
    run_again(*batch)
    addresses = sampled(batch, seconds)
    begins = sorted(functions())
    owners = Counter(begins[bisect.bisect(begins, each) - 1] for each in addresses)
    begin = owners.most_common(1)[0][0]
    counts = Counter(each for each in addresses if begin <= each < begin + FARTHEST)
    total = sum(counts.values())
    windows = Counter()
    for address, count in counts.items():
        windows[(address - begin) // WINDOW] += count
    size = max(counts) + 16 - begin
    code = list(instructions(begin, size))
    print(f"{functions()[begin][:60]}: {size:,} bytes, {total:,} samples")
    for window, count in windows.most_common(WINDOWS):
        print(f"\n{100 * count / total:.1f} % at {WINDOW * window:#x}")
        for address, text in code:
            if (address - begin) // WINDOW == window:
                print(f"{100 * counts[address] / total:6.2f} % {text}")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
