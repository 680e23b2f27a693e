"""Where the time of lanes goes, by line and by function of the source, as `perf` samples it.

Usage: ``PYTHONPATH=. python tests/bench/hot_lines.py NAME [blocks] [seeds]``

NAME is "usual" or a name of `explicit.FEATURES`, for H8's requests, or a name of
`test_tier_speed.TIERS`, for H10's sessions with 2,000 blocks of a CPU tier. Leaves are inlined, so
that `perf` sees a few parts only: the kernel is compiled anew with what debuggers know of lines,
which takes minutes and leaves its speed as it is. What waits for memory may be the line before the
one that is told. Of few seeds all stays in the processor's caches; a sweep has hundreds. Needs
`perf`, `nm` and `addr2line`.
"""

import bisect
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numba

FOLDER = tempfile.TemporaryDirectory()
os.environ["KVSWEEP_CACHE_DIR"] = FOLDER.name  # LLVM knows only the code that it compiled itself
numba.config.DEBUGINFO_DEFAULT = 1
warnings.simplefilter("ignore", numba.NumbaWarning)  # of functions whose lines it does not find

from explicit import FEATURES, batch_of, generated, h8_scenario, h8_with  # noqa: E402
from measuring import run_again  # noqa: E402
from test_tier_speed import STARVING, TIERS, sessions_scenario, with_tier  # noqa: E402

from kvsweep.kernel import engine  # noqa: E402

SHOWN = 40
"""Lines and functions that are listed."""
FARTHEST = 1 << 19
"""Bytes behind the begin of a function that may still be its own."""


def batch_named(name, blocks, seeds):
    """Return inputs and outputs of the lanes with a name."""
    if name in TIERS:
        scenario = with_tier(sessions_scenario(blocks), TIERS[name] | {"cpu_blocks": STARVING})
        return batch_of(scenario, generated(scenario, range(seeds)))
    scenario = h8_scenario(blocks) if name == "usual" else h8_with(blocks, FEATURES[name])
    return batch_of(scenario, generated(h8_scenario(blocks), range(seeds)))


def sampled(batch, seconds=6):
    """Return the addresses in compiled code at which `perf` found this process."""
    file = Path(FOLDER.name) / "perf.data"
    command = ["perf", "record", "-q", "-F", "5000", "-o", file, "-p", str(os.getpid())]
    with subprocess.Popen(command) as recording:
        time.sleep(1)  # until it is attached
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            run_again(*batch)
        recording.terminate()
    words = [line.split() for line in output_of("perf", "script", "-i", file, "-F", "ip,sym")]
    return [int(each[0], 16) for each in words if each and each[1:] in ([], ["[unknown]"])]


def output_of(*command):
    """Return the lines that a program prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def compiled():
    """Return {address: (name, library)} of all functions in the entries that were compiled."""
    found = {}
    for entry in vars(engine).values():
        for overload in getattr(entry, "overloads", {}).values():
            library = overload.library
            for function in library._final_module.functions:
                if not function.is_declaration:
                    address = library.codegen._engine.get_function_address(function.name)
                    found[address] = function.name, library
    return found


def placed(addresses):
    """Return {offset in an object file: samples} of the entry with the most, and the file.

    Parts are functions of their own: the object file may have them in another order than memory.
    """
    functions = compiled()
    begins = sorted(functions)
    owners = [begins[bisect.bisect(begins, each) - 1] for each in addresses]
    library = Counter(functions[begin][1] for begin in owners).most_common(1)[0][0]
    file = Path(FOLDER.name) / "entry.o"
    file.write_bytes(library.codegen._tm.emit_object(library._final_module))
    symbols = (line.split(maxsplit=2) for line in output_of("nm", "--defined-only", file))
    places = {name: int(place, 16) for place, _, name in symbols}
    counts = Counter()
    for address, begin in zip(addresses, owners, strict=True):
        name, owner = functions[begin]
        if owner is library and begin <= address < begin + FARTHEST:
            counts[address - begin + places[name]] += 1
    return counts, file


def frames_of(file, offsets):
    """Yield offset, and function and line of each frame there, of the innermost leaf first."""
    lines = output_of("addr2line", "-e", file, "-i", "-f", "-a", *map(hex, offsets))
    begins = [place for place, line in enumerate(lines) if line.startswith("0x")] + [len(lines)]
    for begin, end in itertools.pairwise(begins):
        names = (short(each) for each in lines[begin + 1 : end : 2])
        yield int(lines[begin], 16), list(zip(names, lines[begin + 2 : end : 2], strict=True))


def short(name):
    """Return the part of a compiled function's name that its source has."""
    return re.sub(r"\[.*|\.[0-9a-f]{16}$", "", name).removeprefix("kvsweep.kernel.")


def show(title, counts, total):
    """Print the largest counts as shares."""
    print(f"\n{title}")
    for name, count in counts.most_common(SHOWN):
        print(f"{100 * count / total:5.1f} % {name}")


def main(name, blocks=5000, seeds=600):
    """Print shares of lines, of functions without what they call, and of functions with it."""
    batch = batch_named(name, blocks, seeds)
    run_again(*batch)
    counts, file = placed(sampled(batch))
    lines, alone, whole = Counter(), Counter(), Counter()
    for offset, frames in frames_of(file, counts):
        if frames:
            lines[frames[0][1].partition("kvsweep/kernel/")[2] or frames[0][1]] += counts[offset]
            alone[frames[0][0]] += counts[offset]
            whole.update(dict.fromkeys((each for each, _ in frames), counts[offset]))
    show("Lines (? where the compiler has merged some)", lines, counts.total())
    show("Functions, without what they call", alone, counts.total())
    show("Functions, with what they call", whole, counts.total())


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]))
