"""The command line: ``python tools/time_vllm MODEL TRACE... --out FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from record_vllm.cli import exit_code
from record_vllm.traces import save

from kvsweep.cli.base import Command, check_outputs, fail
from kvsweep.cli.outputs import OutputPath, overwrite_option, refuse_existing
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from time_vllm.asked import check_groups, drafting, read_traces, settings
from time_vllm.engine import Engine
from time_vllm.running import run, with_accepted


@click.command(
    cls=Command,
    context_settings={"help_option_names": ["-h", "--help"]},
    examples=(
        "python tools/time_vllm llama-3.1-8b trace.json --out measured",
        "python tools/time_vllm llama-3.1-8b blocks-*.json --out measured --max-model-len 8192",
    ),
)
@click.argument("model", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.argument("traces", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=OutputPath(), required=True, help="Folder to write.")
@click.option("--memory", type=click.FloatRange(0.05, 0.99), default=0.9, show_default=True)
@click.option("--max-model-len", type=click.IntRange(min=16), help="Default: the model's.")
@click.option(
    "--drafts",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Folder with the config.json of what drafts, if the traces have drafts.",
)
@click.option(
    "--acceptance",
    metavar="P,...",
    callback=lambda _context, _option, text: _shares(text),
    help="Share of verifications that accept a draft, by position, whatever is drafted.",
)
@overwrite_option
def command(
    model: Path,
    traces: tuple[Path, ...],
    out: Path,
    memory: float,
    max_model_len: int | None,
    drafts: Path | None,
    acceptance: tuple[float, ...],
    overwrite: bool,
) -> int:
    """Run TRACES on vLLM with random weights, and write them with what was `measured`.

    MODEL is a folder that has the config.json of a model. Traces differ in blocks and requests
    alone: the engine is started once. Needs vLLM and its GPU.
    """
    asked = read_traces(traces)
    check_outputs(list(traces), {"--out": out})
    for trace in traces:  # by their names they are written
        refuse_existing("--out", out / trace.name, overwrite)
    if not (model / "config.json").is_file():
        raise InputError(f"{model}: has no config.json, which is the model's shape")
    speculative = drafting(asked[0].scenario, drafts, acceptance)
    out.mkdir(parents=True, exist_ok=True)  # before anything that takes a minute
    engine = Engine(
        model,
        {
            **settings(asked[0].scenario),
            **speculative,
            "gpu_memory_utilization": memory,
            "max_model_len": max_model_len,
        },
        asked[0].scenario.offload,
    )
    echo(", ".join(f"{key} {value}" for key, value in engine.about.items()))
    check_groups(asked[0], engine.windows)
    failed = 0
    for path, document, scenario, requests in asked:
        if scenario.gpu_blocks > engine.blocks:
            failed += 1
            room = f"the GPU has room for {engine.blocks:,}"
            fail("time_vllm", f"{path}: gpu_blocks: {scenario.gpu_blocks:,}; {room}")
            continue
        made = run(engine, requests, scenario.gpu_blocks, path.name)
        measured = {"about": engine.about, **made}
        save(out / path.name, {**with_accepted(document, made), "measured": measured})
        seconds = max(made["requests"]["finish_us"]) / 1e6
        steps, preempted = len(made["steps"]["decode"]), sum(made["requests"]["preemptions"])
        echo(f"{out / path.name}: {seconds:.2f} s, {steps:,} steps, {preempted:,} preemptions")
    return int(failed > 0)


def _shares(text: str | None) -> tuple[float, ...]:
    try:
        shares = tuple(float(part) for part in text.split(",")) if text else ()
    except ValueError:
        shares = (-1.0,)
    if not all(0 <= share <= 1 for share in shares):
        raise click.BadParameter("expected numbers from 0 to 1, with commas between them")
    return shares


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(exit_code(command, "time_vllm", arguments))
