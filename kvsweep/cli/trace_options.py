"""What the commands of ``kvsweep trace`` share: options, and how they meet files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Range, json_option, read_option
from kvsweep.cli.outputs import OutputPath, overwrite_option
from kvsweep.cli.progress import waiting
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.limits import MAX_BLOCK_TOKENS, MAX_SEED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from kvsweep.traces.asking import Bent
    from kvsweep.traces.hits import Hits
    from kvsweep.workload.requests import Requests

positive = click.IntRange(min=1)
seconds = Range(min=0)
file_argument = click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
plot_option = click.option(
    "--plot",
    "figure",
    type=OutputPath(dir_okay=False),
    metavar="FILE.png",
    help="Draw a figure, .png, .svg or .pdf.",
)
size_option = click.option(
    "--block-size",
    type=click.IntRange(1, MAX_BLOCK_TOKENS),
    default=16,
    metavar="N",
    help="Tokens of a block [16].",
)


def bend_options(command: Any) -> Any:
    """Add the options that say what becomes of the trace's requests first."""
    for option in (
        click.option(
            "--seed",
            type=click.IntRange(0, MAX_SEED),
            metavar="N",
            help="Of the delays that repeat draws [0].",
        ),
        click.option(
            "--set",
            "settings",
            multiple=True,
            metavar="KEY=VALUE",
            help="Bend it: a key of [workload], as scale=2 or slice.from_s=600.",
        ),
        read_option,
    ):
        command = option(command)
    return command


def look_options(command: Any) -> Any:
    """Add what looking at a trace takes: the file, how it is bent, blocks, a figure, JSON."""
    options = (json_option, overwrite_option, plot_option, size_option, bend_options, file_argument)
    for option in options:
        command = option(command)
    return command


def read_requests(
    file: Path, settings: tuple[str, ...], seed: int | None, read: tuple[str, ...]
) -> Bent:
    """Read a trace and bend it; what takes long is told."""
    from kvsweep.traces.asking import read_bent

    with waiting(f"reading {file.name}" + (" and bending it" if settings else "")):
        return read_bent(file, settings, seed, read)


def read_and_find(
    file: Path,
    settings: tuple[str, ...],
    seed: int | None,
    read: tuple[str, ...],
    block_size: int,
) -> tuple[Requests, Hits, int]:
    """Return a trace's requests as they are bent, what caches find, and how many are left out.

    Those that wait for answers arrive as early as they can.
    """
    from kvsweep.traces.hits import find_hits
    from kvsweep.workload.chains import at_earliest

    bent = read_requests(file, settings, seed, read)
    requests = at_earliest(bent.requests)
    with waiting(f"looking for reuse in {len(requests):,} requests"):
        hits = of_file(file, lambda: find_hits(requests, block_size))
    return requests, hits, bent.trace.left_out


def of_file(file: Path, ask: Callable[[], Any]) -> Any:
    """Return what is asked; a complaint begins with the file's name, and names the option."""
    try:
        return ask()
    except InputError as error:
        told = str(error).replace("cache.block_size", "--block-size")
        raise InputError(f"{file}: {told}") from None


def save(figure: Figure, path: Path, as_json: bool) -> None:
    """Write a figure and tell where, beside the JSON if there is any."""
    from kvsweep.plot import save

    save(figure, path)
    echo(path, err=as_json)
