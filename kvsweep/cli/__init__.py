"""The command line: parses, calls and prints; anything heavy is imported inside the commands.

Results go to stdout, progress and messages to stderr. Exit codes: 0 all well, 1 some cells did not
complete, 2 bad usage or bad input, told in one line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kvsweep import __version__
from kvsweep.cli.base import Group, fail, loading
from kvsweep.cli.calibrate import calibrate
from kvsweep.cli.grid import grid
from kvsweep.cli.measure import measure
from kvsweep.cli.plot import plot
from kvsweep.cli.replay import replay
from kvsweep.cli.replicate import replicate
from kvsweep.cli.results import cliff, effects, pareto, show
from kvsweep.cli.verify import verify
from kvsweep.errors import InputError

# An interrupted sweep leaves cells undone.
INTERRUPTED = 1


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="kvsweep")
def commands() -> None:
    """Sweep simulations of paged KV caches in LLM serving and find the preemption cliff.

    Start with `kvsweep grid sweeps/h8.toml`; every command has examples in its own help.
    """


for command in (
    *(grid, show, cliff, pareto, effects, plot, verify, replay, replicate, measure, calibrate),
):
    commands.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    try:
        with loading():
            code = commands.main(arguments, prog_name="kvsweep", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        code = 2
    except click.UsageError as error:
        code = fail(error.ctx.command_path if error.ctx else "kvsweep", error.format_message())
    except InputError as error:
        code = fail("kvsweep", str(error))
    except (KeyboardInterrupt, click.Abort):
        code = INTERRUPTED
    sys.exit(code)
