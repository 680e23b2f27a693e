"""``kvsweep presets``: the step times that come with kvsweep."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.terminal import echo
from kvsweep.errors import InputError, clip

if TYPE_CHECKING:
    from kvsweep.calibrate.known import KnownPreset


@click.command(
    cls=Command,
    short_help="List the step times that come with kvsweep, by model and GPU.",
    examples=(
        "kvsweep presets",
        "kvsweep presets llama-3.1-8b",
        "kvsweep presets h200 tp8 --json",
    ),
)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@json_option
def presets(words: tuple[str, ...], as_json: bool) -> None:
    """List the presets that come with kvsweep, for latency.model, whose names have every WORD.

    Beside each name: whether its times were measured layer by layer, fitted to a server, published
    by others or computed from the peaks of the GPU (docs/presets.md tells how far those are off),
    and how long some steps take. --json has the sources too.

    A file of your own is a preset as well: `kvsweep measure gpu` and `kvsweep calibrate` write one.
    """
    from kvsweep.calibrate.known import known_presets

    found = known_presets(words)
    if not found:
        every = "`kvsweep presets` lists all"
        raise InputError(f"WORD: no preset has {' and '.join(map(clip, words))}; {every}")
    if as_json:
        print_json({"presets": [preset._asdict() for preset in found]})
    else:
        echo(_text(found))


def _text(found: list[KnownPreset]) -> str:
    from kvsweep.calibrate.known import CONTEXT, MANY, PROMPT
    from kvsweep.report.table import table

    header = ("preset", "times", "1 decodes", f"{MANY} decode", f"prompt of {PROMPT:,}")
    rows = [
        (
            each.name,
            each.times,
            *(f"{ms:.2f}" for ms in (each.one_ms, each.many_ms, each.prompt_ms)),
        )
        for each in found
    ]
    note = f"steps in ms; who decodes has {CONTEXT:,} tokens before. More: docs/presets.md"
    return f"{table(header, rows)}\n\n{note}"
