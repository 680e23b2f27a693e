"""``kvsweep measure``: measure a real runtime, make a model for it, and measure a GPU."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.addresses import folder_of_store
from kvsweep.cli.base import Command, Group, Listed, check_outputs, json_option, print_json
from kvsweep.cli.measure_gpu import measure_gpu
from kvsweep.cli.outputs import OutputPath, draw_beside, overwrite_option, refuse_existing
from kvsweep.cli.progress import Display
from kvsweep.cli.terminal import Interrupted, echo
from kvsweep.errors import InputError
from kvsweep.limits import (
    MAX_CHANNELS,
    MAX_LAYERS,
    MAX_OFFLOADED,
    MAX_THREADS,
    MAX_TIME_US,
    MAX_TOKENS,
    MAX_TRIALS,
)

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.llama.design import Design
    from kvsweep.llama.runtime import Runtime

MAKER = "kvsweep measure prefix"

model_file = click.Path(path_type=Path, dir_okay=False)
positive = click.IntRange(min=1)
layers = click.IntRange(1, MAX_LAYERS)


@click.group(cls=Group, short_help="Measure this machine: llama.cpp, a GPU, and make models.")
def measure() -> None:
    """Measure this machine: a real runtime (extra kvsweep[llama]), a GPU (extra kvsweep[torch])."""


@measure.command(
    cls=Command,
    examples=(
        "kvsweep measure prefix --model tiny.gguf",
        "kvsweep measure prefix --model gpt2.gguf --threads 4 --out results/gpt2.zarr",
        "kvsweep measure prefix --model tiny.gguf --sizes 192:64,128:128,64:192 --csv results/csv",
    ),
)
@click.option("--model", type=model_file, required=True, metavar="FILE.gguf", help="The model.")
@click.option(
    "--sizes",
    cls=Listed,
    default=["512:256,384:384,256:512"],
    metavar="A:B,...",
    show_default=True,
    help="Tokens of the contexts.",
)
@click.option(
    "--trials",
    type=click.IntRange(1, MAX_TRIALS),
    default=10,
    show_default=True,
    help="Per condition.",
)
@click.option(
    "--query-tokens", type=positive, default=32, show_default=True, help="Tokens of the query Q."
)
@click.option("-o", "--out", type=OutputPath(), help="Store [results/prefix-<MODEL>.zarr].")
@click.option("--overwrite", is_flag=True, help="Replace the store, and files that are there.")
@click.option("--csv", "folder", type=OutputPath(), help="Folder for CSV files.")
@click.option(
    "--threads",
    type=click.IntRange(1, MAX_THREADS),
    metavar="N",
    help="Threads [the physical cores].",
)
@click.option(
    "--gpu-layers",
    type=click.IntRange(-1, MAX_OFFLOADED),
    default=0,
    show_default=True,
    help="Layers to offload, -1 all, if llama.cpp was built for a GPU.",
)
@click.option(
    "--sleep-ms",
    type=click.IntRange(0, MAX_TIME_US // 1000),
    default=100,
    show_default=True,
    help="Rest before each timed part; a GPU may need 500 to settle.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of prompts and order.")
@json_option
def prefix(
    model: Path, out: Path | None, folder: Path | None, as_json: bool, **options: Any
) -> None:
    """Measure what losing a prefix of the KV cache costs.

    Every trial clears the cache, fills it with the contexts [A, B], and times the first token and
    50 tokens of output: for the hit [A, B, Q], of which Q alone is new, or the miss [B, Q], whose
    beginning is gone. Prints medians and how they depend on B, stores every trial and draws a
    figure beside the store. Takes less than two minutes with a model of `make-model`.
    """
    from kvsweep.analysis.prefix_cost import prefix_cost
    from kvsweep.llama.csvfiles import csv_files, write_csv
    from kvsweep.llama.dataset import FORMAT
    from kvsweep.plot import plot_prefix
    from kvsweep.store import check_replaceable

    design = _design(options)
    path = folder_of_store(out or Path("results") / f"prefix-{model.stem}.zarr")
    figure = path.with_name(f"{path.stem}-prefix.png")
    check_outputs([model], {"--out": path, "figure": figure, "--csv": folder})
    if path.exists() and not options["overwrite"]:
        raise InputError(f"{path}: exists; --overwrite replaces it, --out names another store")
    if folder:
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--csv {folder}: is a file; name a folder")
        for file in chain.from_iterable(csv_files(folder, *size) for size in design.sizes):
            refuse_existing("--csv", file, options["overwrite"])
    check_replaceable(path, FORMAT)
    ds = _run(_load(model, design, options), design, path)
    drawn = draw_beside(lambda: plot_prefix(ds, prefix_cost(ds)), figure)
    files = {"store": str(path), **drawn}
    if folder:
        write_csv(ds, folder)
        files["csv"] = str(folder)
    print_prefix(ds, files, as_json)


def open_prefix(store: Where) -> xr.Dataset:
    """Open what `kvsweep measure prefix` stored."""
    from kvsweep.llama.dataset import FORMAT
    from kvsweep.store import open_dataset

    return open_dataset(store, FORMAT, MAKER)


def print_prefix(ds: xr.Dataset, files: dict[str, str | None], as_json: bool) -> None:
    """Print the findings, where the files are, and to stderr what to beware of."""
    from kvsweep.analysis.prefix_cost import prefix_cost
    from kvsweep.report import prefix_text, prefix_warnings

    cost = prefix_cost(ds)
    for warning in prefix_warnings(ds, cost):
        echo(f"warning: {warning}", err=True)
    if as_json:
        print_json({**files, **cost.to_dict()})
        return
    echo(prefix_text(cost))
    for what, where in files.items():
        if where is not None:
            echo(f"{what.replace('_', ' ')}: {where}")


def _design(options: dict[str, Any]) -> Design:
    from kvsweep.llama.design import Design, parse_sizes

    return Design(
        sizes=parse_sizes(options["sizes"]),
        trials=options["trials"],
        query=options["query_tokens"],
        pause_s=options["sleep_ms"] / 1e3,
        seed=options["seed"],
    )


def _load(model: Path, design: Design, options: dict[str, Any]) -> Runtime:
    from kvsweep.llama.hardware import physical_cores
    from kvsweep.llama.llama_load import load_llama

    return load_llama(
        model,
        design.context,
        threads=options["threads"] or physical_cores(),
        gpu_layers=options["gpu_layers"],
    )


def _run(runtime: Runtime, design: Design, path: Path) -> xr.Dataset:
    """Run the trials; when interrupted, tell how many are kept."""
    from kvsweep.llama.experiment import measure_prefix
    from kvsweep.store import save_dataset

    done = 0

    def keep(ds: xr.Dataset) -> None:
        save_dataset(path, ds)

    def progress(so_far: int, total: int) -> None:
        nonlocal done
        done = so_far
        display(so_far, total)

    try:
        with Display(unit="trials", steady=False) as display:
            return measure_prefix(runtime, design, keep=keep, progress=progress)
    except KeyboardInterrupt:
        kept = f"{done} of {design.count} trials are in {path}" if done else "no trial was done"
        raise Interrupted(f"interrupted; {kept}") from None


measure.add_command(measure_gpu)


@measure.command(
    "make-model",
    cls=Command,
    examples=(
        "kvsweep measure make-model tiny.gguf",
        "kvsweep measure make-model gpt2-like.gguf --layers 12 --dim 768 --heads 12",
    ),
)
@click.argument("file", metavar="FILE.gguf", type=OutputPath(dir_okay=False))
@click.option("--layers", type=layers, default=4, show_default=True, help="Blocks.")
@click.option(
    "--dim",
    type=click.IntRange(1, MAX_CHANNELS),
    default=256,
    show_default=True,
    help="Embedding length.",
)
@click.option("--heads", type=layers, default=4, show_default=True, help="Attention heads.")
@click.option(
    "--context",
    type=click.IntRange(1, MAX_TOKENS),
    default=1024,
    show_default=True,
    help="Positions.",
)
@click.option(  # at least the bytes, and the end of text
    "--vocab",
    type=click.IntRange(257, MAX_TOKENS),
    default=50257,
    show_default=True,
    help="Tokens.",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Of weights."
)
@overwrite_option
@json_option
def make_model(file: Path, seed: int, overwrite: bool, as_json: bool, **shape: int) -> None:
    """Write a model of random weights in the shape of GPT-2, with a working tokenizer.

    It answers nonsense, at the speed of a real model of its size. The same options give the same
    bytes.
    """
    from kvsweep.llama.make_model import ModelShape, make_model

    refuse_existing("FILE", file, overwrite)
    make_model(file, ModelShape(**shape), seed=seed)
    size = file.stat().st_size
    if as_json:
        print_json({"file": str(file), "bytes": size, "seed": seed, **shape})
    else:
        echo(f"{file}: {size:,} bytes")
