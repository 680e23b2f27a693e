"""The command line: ``python tools/time_vllm MODEL TRACE... --out FOLDER``."""

from __future__ import annotations

import sys
from pathlib import Path

import click
from record_vllm.cli import exit_code
from record_vllm.traces import save

from kvsweep.cli.base import Command, check_outputs, fail
from kvsweep.cli.outputs import OutputPath
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from time_vllm.asked import check_groups, read_traces, settings
from time_vllm.engine import Engine
from time_vllm.running import run


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
def command(
    model: Path, traces: tuple[Path, ...], out: Path, memory: float, max_model_len: int | None
) -> int:
    """Run TRACES on vLLM with random weights, and write them with what was `measured`.

    MODEL is a folder that has the config.json of a model. Traces differ in blocks and requests
    alone: the engine is started once. Needs vLLM and its GPU.
    """
    asked = read_traces(traces)
    check_outputs(list(traces), {"--out": out})
    if not (model / "config.json").is_file():
        raise InputError(f"{model}: has no config.json, which is the model's shape")
    out.mkdir(parents=True, exist_ok=True)  # before anything that takes a minute
    engine = Engine(
        model,
        {
            **settings(asked[0].scenario),
            "gpu_memory_utilization": memory,
            "max_model_len": max_model_len,
        },
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
        save(out / path.name, {**document, "measured": {"about": engine.about, **made}})
        seconds = max(made["requests"]["finish_us"]) / 1e6
        steps, preempted = len(made["steps"]["decode"]), sum(made["requests"]["preemptions"])
        echo(f"{out / path.name}: {seconds:.2f} s, {steps:,} steps, {preempted:,} preemptions")
    return int(failed > 0)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(exit_code(command, "time_vllm", arguments))
