"""Pages of HTML that need neither a server nor a network: what all of them are made of."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from importlib.resources import files
from typing import Any

from kvsweep.scripts import joined

# Nothing is loaded, whatever text the page shows: neither from the network nor from files.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


class Page(str):
    """An HTML page, whole: text to be written to a file, and shown by notebooks as it is."""

    def _repr_html_(self) -> str:
        frame = 'style="width:100%;height:52rem;border:0" sandbox="allow-scripts"'
        return f'<iframe srcdoc="{escape(self)}" {frame}></iframe>'


def page(
    title: str, body: str, styles: tuple[str, ...] = (), scripts: tuple[str, ...] = ()
) -> Page:
    """Return a page.

    Parameters
    ----------
    title : str
        Plain text.
    body : str
        HTML, in which all text is escaped.
    styles : tuple of str
        Further files of this folder, after ``page.css``.
    scripts : tuple of str
        Modules of this folder, in the order in which one uses another.
    """
    looks = "".join(text(name) for name in ("page.css", *styles))
    code = f'<script type="module">\n{joined(map(text, scripts))}</script>\n' if scripts else ""
    return Page(
        f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="kvsweep">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<title>{escape(title)}</title>
<style>
{looks}</style>
</head>
<body>
<main>
{body}
</main>
{code}</body>
</html>
"""
    )


def embedded(data: dict[str, Any]) -> str:
    """Return an element with data as JSON, in which no text can end the element."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return f'<script type="application/json" id="data">{text}</script>'


@cache
def text(name: str) -> str:
    """Return a file of this folder."""
    return (files("kvsweep.plot.page") / name).read_text("utf-8")
