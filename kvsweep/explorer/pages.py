"""The files of the page: markup, style, and one script joined of several modules."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

MODULES = (
    "format.js",
    "scale.js",
    "chart.js",
    "controls.js",
    "state.js",
    "headline.js",
    "saving.js",
    "view.js",
    "main.js",
)
"""In the order in which one uses another. A browser gets them as one module: a notebook's widget
takes a single one, and what is tested on the page is what runs there."""

_IMPORT = re.compile(r'^import \{[^}]*\} from "\./[a-z]+\.js";\n', re.MULTILINE)


@cache
def text(name: str) -> str:
    """Return a file of the page."""
    return (resources.files("kvsweep.explorer") / "page" / name).read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return the script: its modules one after the other, without their imports of each other."""
    return "\n".join(_IMPORT.sub("", text(name)) for name in MODULES)
