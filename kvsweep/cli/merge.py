"""``kvsweep merge``: put stores together that hold shares of one sweep."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvsweep.cli.base import Command, check_outputs, json_option
from kvsweep.cli.grid import figure_of, tell
from kvsweep.cli.outputs import StorePath
from kvsweep.cli.quick_xarray import leave_dask
from kvsweep.cli.terminal import Interrupted, echo, goes_on

if TYPE_CHECKING:
    from kvsweep.addresses import Where


@click.command(
    cls=Command,
    short_help="Put stores together that `grid --shard` filled.",
    examples=(
        "kvsweep merge node1/h8.zarr node2/h8.zarr -o results/h8.zarr",
        "kvsweep merge parts/*.zarr -o results/h8.zarr",
        "kvsweep merge parts/*.zarr -o results/traces.zarr --folder sweeps/traces",
    ),
)
@click.argument("stores", metavar="STORE...", nargs=-1, required=True, type=StorePath())
@click.option(
    "-o",
    "--out",
    type=StorePath(write=True),
    metavar="STORE",
    required=True,
    help="Store to make: a folder, or as s3://bucket/h8.zarr.",
)
@click.option("--overwrite", is_flag=True, help="Replace a store that is there.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of the sweep file, for its traces [., then sweeps].",
)
@json_option
def merge(
    stores: tuple[Where, ...], out: Where, overwrite: bool, folder: Path | None, as_json: bool
) -> int:
    """Put stores together that `kvsweep grid --shard` filled: to the byte what one run gives.

    The stores are only read. They must be of one sweep; a task that is in two must be the same in
    both, and one that is in none is named, with the command that simulates it.
    """
    from kvsweep.merging import merge as run
    from kvsweep.merging import planned
    from kvsweep.store import Source

    leave_dask()
    check_outputs(stores, {"--out": out, "figure": figure_of(out)})
    try:
        ds = run(
            list(map(str, stores)),
            out=str(out),
            folder=folder,
            overwrite=overwrite,
            notify=partial(echo, err=True),
        )
    except KeyboardInterrupt:
        told = goes_on(overwrite=overwrite)
        raise Interrupted(f"interrupted; {told} with {out}") from None
    return tell(planned(Source.open(out), folder)[0], out, ds, None, as_json)
