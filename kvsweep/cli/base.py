"""What the commands share: examples in their help, suggestions, errors, JSON."""

from __future__ import annotations

import atexit
import gc
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from kvsweep.errors import did_you_mean

# New objects after which Python looks for garbage: loading makes fewer, and none of them is.
WHILE_LOADING = 2_000_000
USUAL = gc.get_threshold()

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class Command(click.Command):
    """A command whose help ends with examples, line by line as given."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


class Group(click.Group):
    """A group of commands that suggests the command a misspelt word may stand for."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command of the first word."""
        known = self.list_commands(ctx)
        if args and args[0] not in known:
            hint = did_you_mean(args[0], known) or f"; one of: {', '.join(known)}"
            ctx.fail(f"no command {args[0]!r}{hint}")
        return super().resolve_command(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which one meets them."""
        return list(self.commands)


def fail(where: str, message: str) -> int:
    """Print a one-line error and return the exit code of bad usage and bad input."""
    click.echo(f"{where}: {' '.join(message.split())}", err=True)
    return 2


def warn(found: Iterable[object]) -> None:
    """Print warnings, a line each."""
    for warning in found:
        click.echo(f"warning: {' '.join(str(warning).split())}", err=True)


def print_json(value: dict[str, Any]) -> None:
    """Print `value` as JSON, the only thing on stdout."""
    click.echo(json.dumps(value, indent=2, allow_nan=False))


@contextmanager
def loading() -> Iterator[None]:
    """Set up the process for a command, which for the most part loads libraries and ends.

    To look for garbage meanwhile took a tenth of a small sweep, and 0.3 s more at its end.
    """
    atexit.register(gc.freeze)
    # NumPy's linear algebra is used little, and to start its threads half of importing NumPy.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(WHILE_LOADING, *USUAL[1:])
    try:
        yield
    finally:
        gc.set_threshold(*USUAL)


@contextmanager
def working() -> Iterator[None]:
    """Look for garbage as usual during the block, but not in all that has been loaded."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(*USUAL)
    try:
        yield
    finally:
        gc.set_threshold(*before)
