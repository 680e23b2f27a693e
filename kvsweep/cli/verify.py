"""``kvsweep verify``: whether a store is what was written, and what simulating gives."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.quick_xarray import leave_dask
from kvsweep.cli.results import store_argument
from kvsweep.cli.terminal import echo

if TYPE_CHECKING:
    from kvsweep.addresses import Where
    from kvsweep.verifying import Verification

# Damaged files are named one by one up to this number.
NAMED = 20


@click.command(
    cls=Command,
    short_help="Compare a store with its checksums and with simulations.",
    examples=(
        "kvsweep verify results/h8.zarr",
        "kvsweep verify results/h8.zarr --sample 100",
        "kvsweep verify results/traces.zarr --folder sweeps/traces --json",
    ),
)
@store_argument
@click.option(
    "--sample",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="Cells to simulate again.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path),
    help="Folder of the sweep file, for its traces [., then sweeps].",
)
@json_option
def verify(store: Where, sample: int, folder: Path | None, as_json: bool) -> int:
    """Compare every file of a store with its checksum, and some cells with a simulation.

    Exits with 0 if all is well, 1 if a file is not what was written or a cell comes out
    differently, 2 if STORE is no store. Cells not simulated yet are counted, and no fault.
    """
    from kvsweep.verifying import verify as run

    leave_dask()
    found = run(str(store), sample=sample, folder=folder, notify=partial(echo, err=True))
    if as_json:
        print_json(found.to_dict())
    else:
        _print(found)
    return 0 if found.ok else 1


def _print(found: Verification) -> None:
    from kvsweep.analysis.wording import counted

    if found.damaged:
        files = counted(len(found.damaged), "file")
        echo(f"{found.store}: {files} changed since written:")
        for name in found.damaged[:NAMED]:
            echo(f"  {name}")
        if len(found.damaged) > NAMED:
            echo(f"  and {len(found.damaged) - NAMED:,} more (--json lists all)")
    else:
        echo(f"{found.store}: {found.files:,} files, all as they were written")
    if found.pending:
        verb = "is" if found.pending == 1 else "are"
        echo(f"{counted(found.pending, 'cell')} {verb} not simulated yet")
    if found.simulated:
        echo(f"{counted(len(found.simulated), 'cell')} simulated again: {_differences(found)}")
    for cell in found.different:
        echo(f"  {_label(cell)}: {', '.join(cell['variables'])}")
    if found.not_simulated:
        echo(f"not simulated again: {found.not_simulated}")


def _differences(found: Verification) -> str:
    count = len(found.different)
    if not count:
        return "the same" if len(found.simulated) == 1 else "all the same"
    return "1 differs:" if count == 1 else f"{count:,} differ:"


def _label(cell: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in cell.items() if name != "variables")
