"""The files of the page: markup, style, and one script joined of several modules."""

from __future__ import annotations

from functools import cache
from importlib import resources

from kvsweep.scripts import joined

MODULES = (
    "format.js",
    "scale.js",
    "chart.js",
    "controls.js",
    "state.js",
    "headline.js",
    "lives.js",
    "saving.js",
    "view.js",
    "main.js",
)
"""In the order in which one uses another. A browser gets them as one module: a notebook's widget
takes a single one, and what is tested on the page is what runs there."""


@cache
def text(name: str) -> str:
    """Return a file of the page."""
    return (resources.files("kvsweep.explorer") / "page" / name).read_text(encoding="utf-8")


def _life(ending: str) -> str:
    """Return a file of what draws the life of requests, here as on the page of a replay."""
    folder = resources.files("kvsweep") / "plot" / "page"  # not imported: Matplotlib takes a second
    return (folder / f"life.{ending}").read_text(encoding="utf-8")


@cache
def script() -> str:
    """Return the script: its modules one after the other."""
    return joined([_life("js"), *map(text, MODULES)])


@cache
def style() -> str:
    """Return the style sheet."""
    return text("style.css") + _life("css")
