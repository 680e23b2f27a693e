"""``kvsweep explore``: settings are moved on a page, and curves follow."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvsweep.addresses import Address
from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.outputs import StorePath
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.explorer.server import Server
    from kvsweep.explorer.subject import Subject

MISSING = "explore: tornado is not installed: pip install 'kvsweep[explore]'"


@click.command(
    cls=Command,
    short_help="Open a page with sliders, and curves that follow.",
    examples=(
        "kvsweep explore sweeps/h8.toml",
        "kvsweep explore sweeps/h8.toml --set workload.requests=1000 --no-browser",
        "kvsweep explore results/h8.zarr --port 8765",
    ),
)
@click.argument("path", metavar="SWEEP.toml|STORE", type=StorePath())
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Of the page, on 127.0.0.1 [any that is free].",
)
@click.option("--no-browser", is_flag=True, help="Print the address only.")
@json_option
def explore(
    path: Where, settings: tuple[str, ...], port: int, no_browser: bool, as_json: bool
) -> None:
    """Open a page on this machine: sliders for all settings of a sweep, and curves that follow.

    With a STORE its own axes are the settings, and nothing is simulated. The page is for whoever
    has the address that is printed; Ctrl-C ends it.
    """
    subject = _subject(path, settings)
    try:
        from kvsweep.explorer.server import serve
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "tornado":
            raise
        raise InputError(MISSING) from None
    with _opened_page() as opened:

        def ready(server: Server) -> None:
            if as_json:
                print_json({"url": server.url, "port": server.port, "explored": str(path)})
            else:
                echo(server.url)
            sys.stdout.flush()
            echo("Ctrl-C ends the explorer.", err=True)
            if not no_browser:
                opened(server.url)

        serve(subject, port, ready)


def _subject(path: Where, settings: tuple[str, ...]) -> Subject:
    if isinstance(path, Address) or path.is_dir():
        from kvsweep.cli.results import read
        from kvsweep.explorer.of_store import OfStore

        if settings:
            raise InputError(f"--set: {path} is a store, whose cells are as they are")
        return OfStore(read(path), str(path))
    from kvsweep.cli.quick_xarray import leave_dask
    from kvsweep.config import load_sweep
    from kvsweep.explorer.of_sweep import OfSweep

    leave_dask()
    return OfSweep(load_sweep(path, settings))


@contextmanager
def _opened_page() -> Iterator[_Opened]:
    """Give what opens a page in a browser; its traces are removed at the end."""
    with tempfile.TemporaryDirectory(prefix="kvsweep-explore-") as folder:  # of mode 0700
        yield _Opened(Path(folder))


class _Opened:
    """Opens an address in the browser, without telling it to whoever lists processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(self, url: str) -> None:
        import webbrowser

        # Where there is no screen, Python finds browsers of text, which would take the terminal.
        if sys.platform.startswith("linux") and not (
            os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
        ):
            echo("There is no screen to open a browser on: open the address yourself.", err=True)
            return
        page = self._folder / "open.html"
        page.write_text(
            '<!doctype html><meta charset="utf-8">'
            f'<meta http-equiv="refresh" content="0; url={url}">'
            f'<a href="{url}">kvsweep explore</a>\n',
            encoding="utf-8",
        )
        if not webbrowser.open(page.as_uri()):
            echo("No browser was found: open the address yourself.", err=True)
