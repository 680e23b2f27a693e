"""``kvsweep blocks``: how many KV cache blocks a model has on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kvsweep.cli.base import Command, json_option, print_json, warn
from kvsweep.cli.terminal import echo


def options(command: Any) -> Any:
    """Add the options that say how the model is served."""
    for option in (
        click.option("--activation", metavar="SIZE", help="Of a GPU's forward pass [estimated]."),
        click.option("--weights", metavar="SIZE", help="Of all GPUs together [counted]."),
        click.option(
            "--async-scheduling/--no-async-scheduling",
            default=None,
            help="Two steps under way at a time, as is vLLM's default, or one.",
        ),
        click.option(
            "--mamba-ssm-cache-dtype",
            "mamba_ssm_dtype",
            metavar="D",
            help="Of the recurrence of a state: float32, bfloat16 [the model's].",
        ),
        click.option(
            "--mamba-cache-dtype",
            "mamba_dtype",
            metavar="D",
            help="Of the convolution of a state, and of the recurrence [the model's].",
        ),
        click.option(
            "--gdn-prefill-backend",
            "gdn_prefill",
            metavar="NAME",
            help="Of gated delta nets: flashinfer, triton [vLLM's].",
        ),
        click.option(
            "--prefix-caching/--no-prefix-caching",
            default=None,
            help="Whether states are kept at the ends of blocks, as is vLLM's default.",
        ),
        click.option("--max-num-seqs", type=int, metavar="N", help="Requests of a step [vLLM's]."),
        click.option(
            "--max-num-batched-tokens", type=int, metavar="N", help="Tokens of a step [vLLM's]."
        ),
        click.option("--max-model-len", type=int, metavar="N", help="[the model's]"),
        click.option("--utilization", type=float, metavar="U", help="Share of the GPU [0.92]."),
        click.option("--block-size", type=int, metavar="N", help="Tokens of a block [16]."),
        click.option("--dtype", metavar="D", help="Of keys and values: fp8, bfloat16 [auto]."),
        click.option("--pp", type=int, metavar="N", help="Pipeline parallel GPUs [1]."),
        click.option("--tp", type=int, metavar="N", help="Tensor parallel GPUs [1]."),
    ):
        command = option(command)
    return command


@click.command(
    cls=Command,
    short_help="Tell how many KV cache blocks a model has on a GPU.",
    examples=(
        "kvsweep blocks --model llama-3.1-8b --gpu h100",
        "kvsweep blocks --model config.json --gpu 80GiB --tp 4 --dtype fp8",
        "kvsweep blocks --model qwen2.5-7b --kv-memory 16GiB --max-model-len 8192",
        "kvsweep blocks --model gpt-oss-120b --log vllm.log.gz --json",
        "kvsweep blocks --model llama-3.1-8b --blocks 2588 --gpu rtx4090",
    ),
)
@click.option("--model", metavar="NAME|FILE", help="A model that is known, or its config.json.")
@click.option("--gpu", metavar="NAME|SIZE", help="A GPU, or its memory as CUDA reports it.")
@click.option("--kv-memory", metavar="SIZE", help="Memory of the KV cache on each GPU.")
@click.option("--log", type=click.Path(path_type=Path), help="vLLM's log, or a scrape of /metrics.")
@click.option("--blocks", type=int, metavar="N", help="The inverse: the memory that they take.")
@options
@json_option
def blocks(as_json: bool, **given: Any) -> int:
    """Tell how many KV cache blocks a model has on a GPU, as vLLM 0.33.0 computes them.

    From the memory of the GPU it is an estimate, with its margin; from --kv-memory it is exact, and
    from --log what the server itself says. A SIZE is a number of GiB, or has a unit, as 85.9GB.
    """
    from kvsweep.sizing.answer_text import answer_text
    from kvsweep.sizing.asking import answer
    from kvsweep.sizing.question import Question, refuse_idle_states

    question = Question(**given)
    found = answer(question)
    if found.served is not None:
        refuse_idle_states(question, found.served)
    if as_json:
        print_json(found.to_dict())
    else:
        echo(answer_text(found))
    warn(found.warnings)
    return 0
