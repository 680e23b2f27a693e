"""The command line: parses, calls and prints; anything heavy is imported inside the commands.

Results go to stdout, progress and messages to stderr. Exit codes: 0 all well, 1 some cells did not
complete (interrupted ones too) or a bug of kvsweep's, 2 bad usage or bad input, or a machine that
is out of memory or room, told in one line.
"""

from __future__ import annotations

import errno
import sys
import traceback
from collections.abc import Sequence

import click

from kvsweep._version import __version__
from kvsweep.cli.base import Ended, Program, fail, loading
from kvsweep.cli.blocks import blocks
from kvsweep.cli.calibrate import calibrate
from kvsweep.cli.compare import compare
from kvsweep.cli.explore import explore
from kvsweep.cli.from_vllm import from_vllm
from kvsweep.cli.grid import grid
from kvsweep.cli.measure import measure
from kvsweep.cli.merge import merge
from kvsweep.cli.outputs import settings_problem
from kvsweep.cli.plot import plot
from kvsweep.cli.presets import presets
from kvsweep.cli.replay import replay
from kvsweep.cli.replicate import replicate
from kvsweep.cli.report import report
from kvsweep.cli.results import cliff, effects, pareto, show
from kvsweep.cli.schema import schema
from kvsweep.cli.search import size
from kvsweep.cli.terminal import (
    OutputLostError,
    asked_to_end,
    drop_output,
    echo,
    memory_is_limited,
    open_streams,
    signals_end_orderly,
)
from kvsweep.cli.trace import trace
from kvsweep.cli.verify import verify
from kvsweep.errors import FOLDER_GONE, InputError, folder_is_gone

# An interrupted sweep leaves cells undone.
INTERRUPTED = 1
# Nor does a reader that left (`kvsweep show | head`) get all of the output.
OUTPUT_NOT_WANTED = 1
INTERNAL = 1
# What libraries raise that there is no room to load, or to start threads for.
LOADING_ERRORS = (ImportError, OSError, SystemError, RuntimeError)

BUG = "a bug of kvsweep's, please report it with what follows"
OUT_OF_MEMORY = (
    "out of memory; fewer workers, fewer requests or a smaller grid need less, as does a higher "
    "limit (ulimit -v)"
)


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kvsweep")
def commands() -> None:
    """Sweep simulations of paged KV caches in LLM serving and find the preemption cliff.

    Start with `kvsweep grid sweeps/h8.toml`; every command has examples in its own help.
    """


for command in (
    *(
        grid,
        show,
        cliff,
        pareto,
        effects,
        compare,
        plot,
        explore,
        report,
        verify,
        merge,
        replay,
        trace,
        replicate,
        measure,
        calibrate,
        presets,
        from_vllm,
        blocks,
        size,
        schema,
    ),
):
    commands.add_command(command)


class InterruptedExit(SystemExit):
    """The exit of a command that was interrupted, whose threads may still be at work."""

    at_once = True


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    open_streams()
    with signals_end_orderly():
        try:
            code = _run(arguments)
        except KeyboardInterrupt as error:
            echo(str(error) or "kvsweep: interrupted", err=True)
            raise InterruptedExit(INTERRUPTED) from None
    sys.exit(code)


def _run(arguments: Sequence[str] | None) -> int:
    """Run a command and return its code; what goes wrong is told in one line."""
    try:
        with loading():
            code: int = commands.main(arguments, prog_name="kvsweep", standalone_mode=False) or 0
            sys.stdout.flush()
            return code
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        return fail(error.ctx.command_path if error.ctx else "kvsweep", error.format_message())
    except click.Abort:
        raise KeyboardInterrupt from None
    except Ended as ended:
        return _explain(ended.__cause__)
    except Exception as error:
        return _explain(error)


def _explain(error: BaseException | None) -> int:
    """Tell what ended a command and return the exit code."""
    if isinstance(error, InputError):
        return fail("kvsweep", error.for_command)
    if isinstance(error, BrokenPipeError):
        drop_output()
        return OUTPUT_NOT_WANTED
    if isinstance(error, OutputLostError):
        drop_output()
        return fail("kvsweep", str(error))
    if _is_out_of_memory(error):
        return fail("kvsweep", f"{OUT_OF_MEMORY} ({str(error) or type(error).__name__})")
    if isinstance(error, OSError):
        drop_output()
        return fail("kvsweep", _reason(error))
    if isinstance(error, UnicodeDecodeError) and (problem := settings_problem(error)):
        return fail("kvsweep", problem)
    if error is None or isinstance(error, KeyboardInterrupt):
        raise error or KeyboardInterrupt
    if asked_to_end():  # Python tells what is raised while a class is made as another error
        raise KeyboardInterrupt
    fail("kvsweep", f"internal error ({BUG}): {type(error).__name__}: {error}")
    echo("".join(traceback.format_exception(error)).rstrip(), err=True)
    return INTERNAL


def _reason(error: OSError) -> str:
    """Return what the system refused; asked where it is in a folder that is gone it names none."""
    if error.filename:
        return f"{error.filename}: {error.strerror or error}"
    if folder_is_gone(error):
        return FOLDER_GONE
    return error.strerror or str(error)


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory was short, which libraries that fail to load then tell in many ways."""
    if isinstance(error, MemoryError) or getattr(error, "errno", None) == errno.ENOMEM:
        return True
    told = isinstance(error, OSError) and error.errno
    return memory_is_limited() and not told and isinstance(error, LOADING_ERRORS)
