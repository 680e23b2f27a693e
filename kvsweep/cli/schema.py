"""``kvsweep schema``: the JSON Schema of the sweep file, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kvsweep.cli.base import Command, json_option, print_json
from kvsweep.cli.outputs import OutputPath, check_new, overwrite_option
from kvsweep.cli.terminal import echo
from kvsweep.files import written


@click.command(
    cls=Command,
    short_help="Print the JSON Schema of the sweep file, for editors.",
    examples=(
        "kvsweep schema > sweep.schema.json",
        "kvsweep schema --out sweep.schema.json --overwrite",
    ),
)
@click.option(
    "-o",
    "--out",
    type=OutputPath(dir_okay=False),
    metavar="FILE.json",
    help="File to write [standard output].",
)
@overwrite_option
@json_option
def schema(out: Path | None, overwrite: bool, as_json: bool) -> None:
    """Print the JSON Schema of the sweep file: every key with default, unit, range and meaning.

    Editors that know TOML complete and check by it: begin a sweep file with the line "#:schema
    ./sweep.schema.json" (Taplo; Even Better TOML in VS Code). docs/editors.md says how.
    """
    from kvsweep.config.json_schema import sweep_schema

    check_new([], {"--out": out}, overwrite)
    text = json.dumps(sweep_schema(), indent=2)
    if out is None:
        echo(text)
        return
    with written(out) as file:
        file.write(f"{text}\n")
    if as_json:
        print_json({"schema": str(out)})
    else:
        echo(out)
