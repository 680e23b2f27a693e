"""``kvsweep replicate``: a published design, run again and taken apart."""

from __future__ import annotations

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.progress import Display
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError
from kvsweep.limits import MAX_WORKERS
from kvsweep.processors import usable_processors


@click.command(
    cls=Command,
    short_help="Run a published design again, and take it apart.",
    examples=(
        "kvsweep replicate h8",
        "kvsweep replicate h10 --json",
        "kvsweep replicate all --markdown > docs/findings/replication.md",
    ),
)
@click.argument("name", metavar="h8|h-reasoning-kv|h10|h377|ideas|all")
@click.option("--markdown", is_flag=True, help="Print a Markdown document.")
@click.option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    metavar="N",
    help="Processes [all processors].",
)
@json_option
def replicate(name: str, markdown: bool, workers: int | None, as_json: bool) -> None:
    """Run a published design again: as shipped, repaired, and under vLLM's rules.

    Prints every published figure beside what the replica of the reference simulator gives as
    shipped and repaired and what the kernel gives, the defect of the reference that explains the
    gap, and the verdict of each claim. On one processor h8 and h10 take less than a minute, h377
    two, ideas and h-reasoning-kv five to ten.
    """
    from kvsweep.simulate import warm_up
    from kvsweep.studies import replicate as run
    from kvsweep.studies.findings import document
    from kvsweep.studies.render import text

    if as_json and markdown:
        raise InputError("--markdown: has no effect with --json: give one of them")
    with Display("runs", known_end=False) as display:  # each table asks for its own
        warm_up(display.notify)
        reports = run(name, workers=workers or usable_processors(), progress=display)
    if as_json:
        print_json({report.name: report.to_dict() for report in reports})
    elif markdown:
        echo(document(name, reports), nl=False)
    else:
        echo("\n\n\n".join(text(report) for report in reports))
