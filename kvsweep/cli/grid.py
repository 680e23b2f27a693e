"""``kvsweep grid``: run a sweep, then analyse and draw what it is for."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import (
    Command,
    Several,
    check_outputs,
    json_option,
    named_files,
    print_json,
    warn,
)
from kvsweep.cli.outputs import StorePath, draw_beside, file_beside
from kvsweep.cli.progress import Display
from kvsweep.cli.quick_xarray import leave_dask
from kvsweep.cli.terminal import Interrupted, echo, goes_on

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

    from kvsweep.addresses import Where
    from kvsweep.analysis.cliff_records import Cliff
    from kvsweep.config import Sweep

# Cells that did not complete are named one by one up to this number.
NAMED = 10


@click.command(
    cls=Command,
    examples=(
        "kvsweep grid sweeps/h8.toml",
        "kvsweep grid sweeps/h8.toml --seeds 10 --out results/quick.zarr",
        "kvsweep grid sweeps/h8.toml --set engine.max_num_seqs=32 --out results/h8-32.zarr",
        "kvsweep grid sweeps/h8.toml --goodput ttft:2000 tpot:50 --out results/h8-slo.zarr",
        "kvsweep grid sweeps/h8.toml --dry-run",
        "kvsweep grid sweeps/h8.toml --scheduler tcp://10.0.0.1:8786",
        "kvsweep grid sweeps/h8.toml --scheduler-file scheduler.json --wait 3600",
        "kvsweep grid sweeps/h8.toml --seeds 200 --extend",
        "kvsweep grid sweeps/h8.toml --out s3://bucket/h8.zarr",
        "kvsweep grid sweeps/h8.toml --shard $SLURM_ARRAY_TASK_ID/40",
    ),
)
@click.argument("file", metavar="SWEEP.toml", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--out",
    type=StorePath(write=True),
    metavar="STORE",
    help="A folder, or as s3://bucket/h8.zarr [results/<SWEEP>.zarr].",
)
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a key.")
@click.option(
    "--goodput",
    cls=Several,
    multiple=True,
    metavar="NAME:MS ...",
    help="Service levels, as vllm bench serve has them: of ttft, tpot, e2el.",
)
@click.option("--seeds", type=int, metavar="N", help="Use the seeds 0 to N-1.")
@click.option("--dry-run", is_flag=True, help="Print size and time of the sweep and write nothing.")
@click.option("--shard", metavar="K/N", help="Simulate the K-th of N shares of the cells.")
@click.option("--overwrite", is_flag=True, help="Start again instead of continuing the store.")
@click.option("--extend", is_flag=True, help="Keep the cells of a store of a smaller sweep.")
@click.option("--workers", type=int, metavar="N", help="Threads or processes [all processors].")
@click.option("--processes", is_flag=True, help="Use local processes instead of threads.")
@click.option("--scheduler", metavar="ADDRESS", help="Use a running Dask scheduler.")
@click.option(
    "--scheduler-file", type=click.Path(path_type=Path), help="The same, by the file it wrote."
)
@click.option("--wait", type=float, metavar="SECONDS", help="For its workers to come [no limit].")
@click.option("--requests", is_flag=True, help="Store the times of every request too.")
@click.option("--no-prune", is_flag=True, help="Run cells too that are proved equal to another.")
@json_option
def grid(
    file: Path,
    out: Where | None,
    settings: tuple[str, ...],
    goodput: tuple[str, ...],
    seeds: int | None,
    dry_run: bool,
    requests: bool,
    no_prune: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Run a sweep: simulate every cell of its grid into a store.

    A store that an earlier run left half done is continued. At the end the cliff that the sweep
    asks for is printed, stored, and drawn beside the store, and warnings tell what misleads.

    Of N runs with --shard 1/N to N/N, at once and in any order, each simulates its share, and the
    last one does all that a run does at its end. On machines that see no common folder each fills
    a store of its own, and `kvsweep merge` puts them together.

    With --extend a store goes on with more seeds or values: cells that it has are kept, and it is
    replaced by the larger store when that is whole. Of a sweep with `seed = { until = ... }` the
    store grows by itself, until the intervals of a measure are narrow enough: docs/design.md.
    """
    from kvsweep.config import load_sweep
    from kvsweep.config.service_levels import goodput_overrides

    sweep = load_sweep(file, [*settings, *goodput_overrides(goodput, settings)], seeds=seeds)
    from kvsweep.store import default_path  # Zarr and NumPy (0.2 s), which no mistake waits for

    path = out or default_path(sweep)
    read = [
        file,
        *named_files([sweep.base, sweep.policies, [a.values for a in sweep.axes]], sweep.base_dir),
    ]
    check_outputs(read, {"--out": path, "figure": figure_of(path)})
    options |= {"keep_requests": requests, "prune": not no_prune}
    if dry_run:
        from kvsweep.cli.dry_run import print_size, sizes_of

        print_size(sizes_of(sweep, path, options), as_json)
        return 0
    return tell(sweep, path, _run(sweep, path, options), options["shard"], as_json)


def tell(sweep: Sweep, path: Where, ds: xr.Dataset, shard: str | None, as_json: bool) -> int:
    """Print what came out, and return the exit code."""
    if not ds.attrs["complete"]:
        return _tell_shard(path, ds, str(shard), as_json)
    from kvsweep.analysis.warnings import warnings_of
    from kvsweep.report import outcome

    cliff, memory = _analyse(sweep, path, ds), ""
    found = warnings_of(ds)
    result = {"store": str(path), **outcome(ds)}
    result |= {"warnings": [asdict(warning) for warning in found]}
    if "until" in ds.attrs:
        result["until"] = json.loads(ds.attrs["until"])
    if cliff:
        from kvsweep.report import cliff_memory

        result |= {"cliff": cliff.to_dict(), **_draw(path, ds, cliff)}
        memory = cliff_memory(ds, cliff)
    if as_json:
        print_json(result)
    else:
        _print_outcome(result, cliff, memory)
    warn(found)
    return 1 if result["incomplete"] else 0


def _tell_shard(path: Where, ds: xr.Dataset, shard: str, as_json: bool) -> int:
    """Print how far a store is that others fill too, and return the exit code."""
    from kvsweep.report import outcome

    result = {"store": str(path), "shard": shard, **outcome(ds)}
    if as_json:
        print_json(result)
    else:
        _print_outcome(result, None, "")
        echo(f"shard {shard} is done; the last of the others in this store completes it, or")
        echo("`kvsweep merge` puts it together with the stores of the others")
    return 1 if result["incomplete"] else 0


def _run(sweep: Sweep, path: Where, options: dict[str, Any]) -> xr.Dataset:
    from kvsweep.cli.dry_run import preparing_text, tell_blocks
    from kvsweep.sweep import run

    tell_blocks(sweep)
    display = Display(first=preparing_text(sweep))

    def progress(done: int, total: int) -> None:
        display(done, total)
        if done == total:  # what comes next is done by xarray
            leave_dask()

    try:
        with display:
            return run(sweep, out=str(path), progress=progress, notify=display.notify, **options)
    except KeyboardInterrupt:
        how = goes_on(overwrite=options["overwrite"])
        raise Interrupted(f"interrupted; {how} with {path}") from None


def _analyse(sweep: Sweep, path: Where, ds: xr.Dataset) -> Cliff | None:
    """Find the cliff that the sweep asks for, and store it with the results."""
    if sweep.cliff is None:
        return None
    from kvsweep.analysis.cliff import find_cliff
    from kvsweep.store import load, update_attributes

    load(ds, sweep.cliff.metric)
    cliff = find_cliff(ds, **sweep.cliff.model_dump())
    update_attributes(path, {"cliff": json.dumps(cliff.to_dict(), allow_nan=False)})
    return cliff


def _draw(path: Where, ds: xr.Dataset, cliff: Cliff) -> dict[str, str | None]:
    def make() -> Figure:
        from kvsweep.plot import plot_cliff

        return plot_cliff(ds, cliff)

    return draw_beside(make, figure_of(path))


def figure_of(path: Where) -> Path:
    """Return where the figure of a store is drawn."""
    return file_beside(path, "cliff.png")


def _print_outcome(result: dict[str, Any], cliff: Cliff | None, memory: str) -> None:
    statuses = ", ".join(f"{n:,} {name}" for name, n in result["status"].items())
    echo(f"{result['store']}: {statuses}")
    for cell in result["incomplete"][:NAMED]:
        labels = " ".join(f"{name}={value}" for name, value in cell["cell"].items())
        echo(f"  {labels}: {cell['status']} {cell['detail']}".rstrip())
    if len(result["incomplete"]) > NAMED:
        echo(f"  and {len(result['incomplete']) - NAMED:,} more")
    if "until" in result:
        from kvsweep.report import seeds_text

        echo(seeds_text(result["until"]))
    if cliff:
        from kvsweep.report import cliff_text

        figure = result["figure"] or f"none: {result['no_figure']}"
        told = "\n".join(filter(None, (cliff_text(cliff).rstrip(), memory)))
        echo(f"\n{told}\n\nfigure: {figure}")
