"""Tables of measurements, as Markdown, and the document they make."""

import os
import platform
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

HEAD = """# Benchmarks

Written by `KVSWEEP_BENCH=write pytest tests/bench`; do not edit. The comparison with Dynamo needs
`KVSWEEP_DYNAMO` and `KVSWEEP_MOONCAKE` (tests/bench/test_against_dynamo.py), and is left out without.

Times are processor time of one thread, the least of several runs, unless a table says otherwise: on
a machine with other work to do wall clock varies by a factor, these minima by a few percent. Every
run simulates many different seeds, because a seed that is run again and again teaches the branch
predictor its branches. Compare ratios and instruction counts between machines, not times.

A shared machine may run at half its speed for a minute. So below each table is what a yardstick
took when it was made: a loop of plain Python, the sum of 200,000 squares. Where it took longer,
everything did.
"""


@dataclass
class Table:
    """One table: a heading, columns, rows of cells, a remark."""

    title: str
    columns: tuple
    rows: list
    remark: str = ""

    def text(self):
        cells = [[str(cell) for cell in row] for row in (self.columns, *self.rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in cells]
        lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        remark = ["", self.remark] if self.remark else []
        return "\n".join([f"## {self.title}", "", *lines, *remark])


@dataclass
class Tables:
    """All tables of a session, in the order of their titles' numbers."""

    tables: list = field(default_factory=list)

    def add(self, title, columns, rows, remark=""):
        remark = f"{remark} Yardstick: {1e3 * yardstick():.1f} ms.".strip()
        self.tables.append(Table(title, tuple(columns), [tuple(row) for row in rows], remark))

    def text(self):
        return "\n" + "\n\n".join(table.text() for table in self.tables)

    def document(self):
        return "\n".join([HEAD, machine(), self.text(), ""])


def yardstick():
    """Return the processor time of the loop that tells the speed of the machine, in seconds."""
    best = float("inf")
    for _ in range(3):
        begun = time.thread_time()
        sum(number * number for number in range(200_000))
        best = min(best, time.thread_time() - begun)
    return best


def machine():
    """Describe the machine and the versions that decide speed."""
    names = ("numba", "numpy", "xarray", "zarr")
    libraries = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"Machine: {processor()}, {os.cpu_count()} cores; {platform.system()}; "
        f"Python {platform.python_version()}; {libraries}."
    )


def processor():
    """Return the processor's name, as well as the system knows it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
