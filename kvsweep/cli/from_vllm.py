"""``kvsweep from-vllm``: a sweep file from the command, or the log, of a vLLM server."""

from __future__ import annotations

from pathlib import Path

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.outputs import OutputPath, check_new, overwrite_option
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.files import written


@click.command(
    "from-vllm",
    cls=Command,
    short_help="Write a sweep from the command of a vLLM server.",
    context_settings={"allow_interspersed_args": False},
    examples=(
        "kvsweep from-vllm --gpu h100 vllm serve Qwen/Qwen3-8B --max-num-seqs 256",
        "kvsweep from-vllm --gpu h100 --trace chat.jsonl.gz -o chat.toml start-server.sh",
        "kvsweep from-vllm --gpu h200 --log vllm.log.gz -o server.toml",
        "kvsweep from-vllm --gpu a100 --model config.json vllm serve our/model -tp 2",
        "kvsweep from-vllm --gpu h100 --acceptance 0.7,0.5 start-server-with-drafts.sh",
        "kvsweep from-vllm --gpu h200 deployment.yaml",
        "kvsweep from-vllm --gpu h100 --container decode/vllm rendered-chart.yaml",
        "kvsweep from-vllm --gpu l40s -o llm.toml compose.yaml",
        "kvsweep from-vllm --gpu h200 --set cluster.kv_transfer_bandwidth=0.3 prefill.sh decode.sh",
        "kvsweep from-vllm rayservice.yaml",
        "kvsweep from-vllm --gpu h100 --container llama3 helm-values.yaml",
        "kvsweep from-vllm --gpu h200 ms-values.yaml router-values.yaml",
    ),
)
@click.option("--gpu", metavar="NAME|SIZE", help="The GPU, or its memory: as of `kvsweep blocks`.")
@click.option("--model", metavar="NAME|FILE", help="config.json of a model that is not known.")
@click.option(
    "--log",
    type=click.Path(path_type=Path),
    help="vLLM's own log: blocks of the cache, and options if no command is given.",
)
@click.option(
    "--acceptance", metavar="SHARE[,...]", help="Of drafts: one share, or one for each position."
)
@click.option("--container", metavar="NAME", help="Of a manifest that starts several servers.")
@click.option("--trace", metavar="FILE", help="What is asked of the server: docs/traces.md.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set a key besides.")
@click.option(
    "-o",
    "--out",
    type=OutputPath(dir_okay=False),
    metavar="FILE.toml",
    help="File to write [standard output].",
)
@overwrite_option
@json_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND...|FILE...]")
def from_vllm(
    gpu: str | None,
    model: str | None,
    log: Path | None,
    acceptance: str | None,
    container: str | None,
    trace: str | None,
    overrides: tuple[str, ...],
    out: Path | None,
    overwrite: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> None:
    """Write the sections of a sweep that simulate a vLLM server, from what starts it.

    COMMAND is `vllm serve` with its options, `python -m vllm.entrypoints.openai.api_server` or
    `docker run ... vllm/vllm-openai`; FILE is a script or a Dockerfile that has one of these, a
    manifest of Kubernetes, KServe, Docker Compose or Ray Serve, or values of a Helm chart that
    starts vLLM. Files that start servers of both sides are one cluster with prefill and decode
    apart; a file beside them may have the configuration of llm-d's router. Each key says which
    option decides it; options that decide what is not simulated are refused. docs/from-vllm.md
    """
    from kvsweep.vllm_command.one_server import Question
    from kvsweep.vllm_command.to_sweep import answer

    check_new([], {"--out": out}, overwrite)
    folder = Path() if out is None else out.parent
    shares = _shares(acceptance)
    found = answer(Question(command, gpu, model, log, shares, trace, overrides, folder, container))
    if out is not None:
        with written(out) as file:
            file.write(found.text)
    if as_json:
        print_json(found.to_dict() | ({"sweep": str(out)} if out else {}))
    elif out is None:
        echo(found.text.removesuffix("\n"))
    else:
        echo(f"{out}\n" + "\n".join(f"- {note}" for note in found.notes))


def _shares(text: str | None) -> tuple[float, ...]:
    if text is None:
        return ()
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise InputError(
            f"--acceptance: {text!r}: expected a share, as 0.7, or one for each position, as "
            "0.7,0.5,0.4"
        ) from None
