"""Whether executed notebooks show the figures that they draw.

    python tools/notebook_figures.py notebooks

A cell that makes a figure has an image among its outputs; others are told, and the exit code is 1,
as it is of a folder without notebooks.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DRAWS = re.compile(r"\bnew_figure\(|\bplot_[a-z_]+\(")


def drawing_cells(notebook: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield number and content of the cells that make a figure."""
    for number, cell in enumerate(json.loads(notebook.read_text("utf-8"))["cells"]):
        if cell["cell_type"] == "code" and DRAWS.search("".join(cell["source"])):
            yield number, cell


def has_image(cell: dict[str, Any]) -> bool:
    """Whether a cell has an image among its outputs."""
    return any("image/png" in output.get("data", {}) for output in cell["outputs"])


def main(folder: Path) -> int:
    """Tell the cells that draw and show nothing; return the exit code."""
    notebooks = sorted(folder.glob("*.ipynb"))
    if not notebooks:
        sys.stdout.write(f"{folder}: has no notebooks\n")
        return 1
    found = [
        f"{notebook}: cell {number} makes a figure and shows none\n"
        for notebook in notebooks
        for number, cell in drawing_cells(notebook)
        if not has_image(cell)
    ]
    sys.stdout.writelines(found)
    return int(bool(found))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: notebook_figures.py FOLDER")
    sys.exit(main(Path(sys.argv[1])))
