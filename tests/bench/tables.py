"""Tables of measurements, as Markdown, and the document they make."""

import os
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

HEAD = """# Benchmarks

Written by `KVSWEEP_BENCH=write pytest tests/bench`; do not edit.

Times are processor time of one thread, the least of several runs, unless a table says otherwise: on
a machine with other work to do wall clock varies by a factor, these minima by a few percent. Every
run simulates many different seeds, because a seed that is run again and again teaches the branch
predictor its branches. Compare ratios and instruction counts between machines, not times.
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
        self.tables.append(Table(title, tuple(columns), [tuple(row) for row in rows], remark))

    def text(self):
        return "\n" + "\n\n".join(table.text() for table in self.tables)

    def document(self):
        return "\n".join([HEAD, machine(), self.text(), ""])


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
