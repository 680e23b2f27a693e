"""``kvsweep measure gpu``: measure step times of a model's layers on the GPU at hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kvsweep.cli.base import Command, check_outputs, json_option, print_json, warn
from kvsweep.cli.gpu_options import added_options, positive, range_options
from kvsweep.cli.gpu_setup import (
    about_model,
    asked_plan,
    asked_shard,
    check_added,
    check_preset,
    stored_steps,
)
from kvsweep.cli.outputs import OutputPath, PresetPath
from kvsweep.cli.progress import Display
from kvsweep.cli.terminal import Interrupted, echo, goes_on
from kvsweep.limits import MAX_SEED, MAX_THREADS, MAX_TRIALS

if TYPE_CHECKING:
    import xarray as xr

    from kvsweep.addresses import Where
    from kvsweep.calibrate.step_results import StepResult
    from kvsweep.gpu.batches import Plan
    from kvsweep.gpu.step_device import StepDevice


@click.command(
    "gpu",
    cls=Command,
    examples=(
        "kvsweep measure gpu --model llama-3.1-8b --out llama-here.toml",
        "kvsweep measure gpu --model llama-3.1-70b --tp 4 --dtype fp8 --out llama-70b-tp4.toml",
        "kvsweep measure gpu --model config.json --max-num-seqs 256 --max-model-len 16384",
        "kvsweep measure gpu --model config.json --device cpu --threads 1 --quick --json",
    ),
)
@click.option("--model", required=True, metavar="NAME|config.json", help="As of `kvsweep blocks`.")
@click.option(
    "--tp", type=positive, metavar="N", default=1, show_default=True, help="GPUs that share it."
)
@click.option(
    "--dtype",
    type=click.Choice(["bf16", "fp8"]),
    default="bf16",
    show_default=True,
    help="Of the layers' weights and their products; attention and output layer are bf16.",
)
@click.option("-o", "--out", type=PresetPath(), help="Write the preset.")
@click.option("--store", type=OutputPath(), help="Store [results/steps-<MODEL>.zarr].")
@click.option(
    "--kind",
    type=click.Choice(["linear", "roofline", "two-sums"]),
    help="Of the preset [the one that predicts best].",
)
@click.option("--quick", is_flag=True, help="Fewer batches and trials, in smaller ranges.")
@click.option(
    "--trials",
    type=click.IntRange(1, MAX_TRIALS),
    metavar="N",
    help="Of each batch [7; quick: 3].",
)
@range_options
@added_options
@click.option(
    "--device",
    metavar="NAME",
    default="auto",
    show_default=True,
    help="cuda, cuda:1, cpu or auto.",
)
@click.option(
    "--threads",
    type=click.IntRange(1, MAX_THREADS),
    metavar="N",
    help="Of a processor [PyTorch's].",
)
@click.option(
    "--seed",
    type=click.IntRange(0, MAX_SEED),
    metavar="N",
    default=0,
    show_default=True,
    help="Of draws and order.",
)
@click.option("--overwrite", is_flag=True, help="Replace the store.")
@json_option
def measure_gpu(
    model: str,
    tp: int,
    dtype: str,
    out: Path | None,
    store: Path | None,
    kind: str | None,
    overwrite: bool,
    as_json: bool,
    **options: Any,
) -> int:
    """Measure how long the steps of a model take on the GPU at hand.

    Times one decoder layer of each kind that the model has and its output layer, with random
    weights and a paged KV cache: chunks of prompts, decoding requests, and both at once. No weights
    are downloaded, no server is needed. Fits the linear model, a roofline, and one with all
    coefficients free, predicts batches that were held out, and writes the best one as a preset,
    used as `latency.model = "FILE.toml"`. Every timing is in a store; a run that was interrupted
    goes on when started again. Needs the extra kvsweep[torch]; without a GPU the processor is
    measured, in small ranges. docs/measuring-gpu.md says what is and what is not in the times.
    """
    from kvsweep.calibrate.step_results import Terms, preset_text, result_of
    from kvsweep.calibrate.step_wording import step_json, step_text
    from kvsweep.files import written
    from kvsweep.gpu.exchange import exchange_terms, is_short
    from kvsweep.gpu.machine import check_fp8, find_machine
    from kvsweep.gpu.torch_load import load_device
    from kvsweep.sizing.exchange import NODE

    name, shard = asked_shard(model, tp)
    path = store or Path("results") / f"steps-{name}.zarr"
    check_outputs([Path(model)], {"--store": path, "--out": out})
    check_preset(out)
    stored = stored_steps(path, overwrite)
    machine = find_machine(options["device"], options["threads"])
    exchange = exchange_terms(
        shard, machine.gpu or machine.name, options["allreduce_us"], options["allreduce_gb_s"]
    )
    if is_short(shard.tp, options["allreduce_gb_s"]):
        warn(
            [f"what {shard.tp} GPUs exchange is that of one node, which has {NODE}, and too short; "
             "--allreduce-gb-s takes what theirs reach"]
        )  # fmt: skip
    terms = Terms(options["host_overhead_us"], exchange)
    check_added(out, terms.added, options)
    if dtype == "fp8":
        check_fp8(machine)
    laid_out = asked_plan(shard, model, machine, dtype == "fp8", options)
    device = load_device(machine, shard, laid_out, dtype == "fp8")
    device.attributes = {**device.attributes, **about_model(name, shard, dtype)}
    ds = _run(device, laid_out, path, stored, goes_on(overwrite=overwrite))
    found = result_of(ds, terms, kind)
    if out:
        with written(out) as file:
            file.write(preset_text(found.preset))
    if as_json:
        print_json({"store": str(path), "preset_file": out and str(out), **step_json(found)})
    else:
        echo(step_text(found))
        echo(f"\nstore: {path}")
        if out:
            echo(f'written: {out}; a sweep beside it has latency.model = "{Path(out).name}"')
    return _judged(found)


def print_steps(store: Where, as_json: bool) -> int:
    """Print the fits to a stored measurement."""
    from kvsweep.calibrate.step_results import Terms, result_of
    from kvsweep.calibrate.step_wording import step_json, step_text
    from kvsweep.gpu.exchange import Exchange
    from kvsweep.gpu.step_store import FORMAT, MAKER
    from kvsweep.store import open_dataset

    found = result_of(open_dataset(store, FORMAT, MAKER), Terms(None, Exchange(0.0, 0.0, "")))
    if as_json:
        document = step_json(found)
        document["preset"].pop("added")
        print_json(document)
    else:
        found = replace(found, preset=found.preset.model_copy(update={"added": None}))
        echo(step_text(found))
    return _judged(found)


def _judged(found: StepResult) -> int:
    for problem in found.problems:
        echo(f"kvsweep: bad fit: {problem}", err=True)
    return 1 if found.problems else 0


def _run(
    device: StepDevice, laid_out: Plan, path: Path, stored: xr.Dataset | None, told: str
) -> xr.Dataset:
    """Make the timings; when interrupted, tell how many are kept."""
    from kvsweep.gpu.measuring import measure_steps
    from kvsweep.store import save_dataset

    done, total = 0, 0

    def progress(so_far: int, all_of_them: int) -> None:
        nonlocal done, total
        done, total = so_far, all_of_them
        display(so_far, all_of_them)

    try:
        with Display(unit="timings", steady=False) as display:
            return measure_steps(
                device,
                laid_out,
                stored=stored,
                where=str(path),
                keep=lambda ds: save_dataset(path, ds),
                progress=progress,
            )
    except KeyboardInterrupt:
        kept = f"{done} of {total} timings are in {path}; {told}"
        raise Interrupted(f"interrupted; {kept if done else 'no timing was made'}") from None
