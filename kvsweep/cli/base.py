"""What the commands share: examples in their help, suggestions, errors, JSON."""

from __future__ import annotations

import atexit
import gc
import glob
import json
import os
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, TextIO

import click

from kvsweep.addresses import Where, is_same, overlap
from kvsweep.cli.terminal import echo, one_line
from kvsweep.errors import InputError, PlainWarning, did_you_mean

# New objects after which Python looks for garbage: loading makes fewer, and none of them is.
WHILE_LOADING = 2_000_000
USUAL = gc.get_threshold()

read_option = click.option(
    "--read",
    multiple=True,
    metavar="KEY=VALUE",
    help="How to read a trace, as format=csv, time_unit=ms or columns.arrival=ts: docs/traces.md.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")


class Command(click.Command):
    """A command whose help ends with examples, line by line as given."""

    def __init__(self, *args: Any, examples: Sequence[str] = (), **options: Any) -> None:
        super().__init__(*args, **options)
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Refuse an option of one value that is given twice, once each value is one it may have."""
        given = list(args)
        rest = super().parse_args(ctx, args)
        if not ctx.resilient_parsing:
            _refuse_twice(ctx, self.make_parser(ctx).parse_args(given)[2])
        return rest

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the examples."""
        with formatter.section("Examples"):
            for example in self.examples:
                formatter.write(f"  {example}\n")


def _refuse_twice(ctx: click.Context, order: Sequence[click.Parameter]) -> None:
    """Refuse several values of an option, of which click takes the last without a word."""
    for each in order:
        if not isinstance(each, click.Option) or each.multiple or order.count(each) == 1:
            continue
        if not each.is_flag or each.secondary_opts:
            ctx.fail(f"{max(each.opts, key=len)}: given twice; the last one would win")


class Range(click.FloatRange):
    """A range of numbers, of which nan, which is neither below nor above anything, is none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if number != number:
            self.fail("expected a number, got nan", param, ctx)
        return number


class Several(click.Option):
    """An option of several values that takes each NAME:VALUE after it, as vLLM's commands do."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let the parser take the words that follow the first one."""
        super().add_to_parser(parser, ctx)
        for name in self.opts:
            option = parser._long_opt[name]
            option.process = partial(_process_all, option.process)


class Listed(click.Option):
    """An option of a list with commas: given again, its lists count together."""

    def __init__(self, names: Sequence[str] | None = None, **options: Any) -> None:
        super().__init__(names, multiple=True, **options)

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return all that was given as one list with commas; None of nothing."""
        given = super().process_value(ctx, value)
        return ",".join(given) if given else None


def _process_all(process: Callable[[Any, Any], None], value: Any, state: Any) -> None:
    process(value, state)
    while state.rargs and re.fullmatch(r"\w+:[^/\\]*", state.rargs[0]):
        process(state.rargs.pop(0), state)


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


class Ended(Exception):
    """What ended a command, wrapped: click takes some exceptions for its own."""


class Program(Group):
    """The group of all commands, from which every exception comes out as it is."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        usual = warnings.showwarning
        told = set()  # of several figures with the same name, what it lacks

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, PlainWarning):
                if str(message) not in told:
                    warn([message])
                told.add(str(message))
            else:
                usual(message, category, filename, lineno, file, line)

        try:
            with warnings.catch_warnings():
                warnings.showwarning = show
                return super().invoke(ctx)
        except (KeyboardInterrupt, EOFError, OSError) as error:
            raise Ended from error


def fail(where: str, message: str) -> int:
    """Print a one-line error and return the exit code of bad usage and bad input."""
    echo(f"{where}: {one_line(message)}", err=True)
    return 2


def warn(found: Iterable[object]) -> None:
    """Print warnings, a line each."""
    for warning in found:
        echo(f"warning: {' '.join(str(warning).split())}", err=True)


def print_json(value: dict[str, Any]) -> None:
    """Print `value` as JSON, the only thing on stdout."""
    # DEL is the one character to be escaped that JSON lets stand.
    echo(json.dumps(value, indent=2, allow_nan=False).replace("\x7f", "\\u007f"))


def check_outputs(inputs: Iterable[Where], outputs: Mapping[str, Where | None]) -> None:
    """Refuse outputs that would replace what is read, or each other.

    Paths are compared as the files they lead to, through links of both kinds. A store is a folder
    all of which is read.

    Parameters
    ----------
    inputs : iterable of Path
        Files, stores and folders that are read.
    outputs : mapping of str to Path or None
        What is written, by the option that names it; None if it is not.

    Raises
    ------
    InputError
        Naming the first such option.
    """
    read = list(inputs)
    before: dict[str, Where] = {}
    for option, path in outputs.items():
        if path is None:
            continue
        for source in read:
            if overlap(path, source):
                raise InputError(f"{option} {path}: would replace {source}, which is read")
        for other, taken in before.items():
            if is_same(path, taken):
                raise InputError(f"{option} {path}: is the same file as {other} {taken}")
        before[option] = path


def named_files(values: object, folder: Path) -> Iterator[Path]:
    """Yield the files that strings in nested values name: presets, traces, also by ``{seed}``."""
    if isinstance(values, str):
        pattern = re.sub(r"\{\w+\}", "*", glob.escape(values))
        yield from (folder / name for name in glob.glob(pattern, root_dir=folder))
    elif isinstance(values, Mapping | Sequence):
        for value in values.values() if isinstance(values, Mapping) else values:
            yield from named_files(value, folder)


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
