"""The command line: ``python tools/record_vllm COMMAND``; exit codes as those of kvsweep.

0: all well, and all recordings equal; 1: something differs or was not recorded; 2: bad input.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kvsweep.cli.base import Command, Group, check_outputs, fail, json_option, print_json
from kvsweep.cli.outputs import OutputPath, overwrite_option, refuse_existing
from kvsweep.cli.terminal import OutputLostError, drop_output, echo
from kvsweep.errors import InputError
from record_vllm.checking import (
    Checked,
    add_row,
    check_all,
    compare_folders,
    record_file,
    recording_plan,
    report,
)
from record_vllm.environment import (
    Wish,
    interpreter_of,
    newest_version,
    plan,
    set_up,
    unpacked_version,
)
from record_vllm.traces import load

if TYPE_CHECKING:
    from record_vllm.adapter import Vllm

input_path = click.Path(path_type=Path)
env_option = click.option(
    "--env",
    "folder",
    type=input_path,
    required=True,
    envvar="KVSWEEP_VLLM",
    show_envvar=True,
    help="What setup made: a folder with site and venv.",
)
_STARTED = "RECORD_VLLM_STARTED"


@click.group(cls=Group, context_settings={"help_option_names": ["-h", "--help"]})
def commands() -> None:
    """Record what vLLM's own scheduler decides for a trace: no GPU, no model.

    setup once per release, check to see whether a release decides as recorded.
    """


@commands.command(
    cls=Command,
    examples=(
        "python tools/record_vllm setup 0.33.0 --into ~/vllm/0.33.0",
        "python tools/record_vllm setup newest --into ~/vllm/newest --dry-run",
        "python tools/record_vllm setup 0.33.0 --into v33 "
        "--index https://download.pytorch.org/whl/cpu",
    ),
)
@click.argument("version", required=False)
@click.option("--into", type=OutputPath(), help="The folder to make; default: vllm-VERSION.")
@click.option("--python", default=sys.executable, help="Interpreter; default: this one.")
@click.option("--torch", metavar="REQUIREMENT", help="Default: a build for CPUs.")
@click.option("--index", metavar="URL", help="One more package index.")
@click.option("--dry-run", is_flag=True, help="Say what would be done.")
def setup(
    version: str | None,
    into: Path | None,
    python: str,
    torch: str | None,
    index: str | None,
    dry_run: bool,
) -> int:
    """Set up one release of vLLM in a folder: 4 GB, some minutes.

    VERSION is a release as 0.33.0, or newest; it is asked for if it is missing. Run it again if it
    was interrupted: what is there stays.
    """
    version = version or click.prompt("Which version of vLLM", default="newest")
    version = newest_version() if version == "newest" else version
    wish = Wish(version, into or Path(f"vllm-{version}"), python, torch, index)
    if dry_run:
        for step in plan(wish):
            echo(step)
    else:
        set_up(wish, echo)
    return 0


@commands.command(
    cls=Command,
    examples=(
        "python tools/record_vllm record --env ~/vllm/0.33.0 trace.json -o recorded.json.gz",
        "python tools/record_vllm record --env ~/vllm/0.33.0 trace.json -o small.json --no-detail",
        "python tools/record_vllm record --env ~/vllm/0.33.0 cases -o recorded",
    ),
)
@env_option
@click.argument("trace", type=input_path)
@click.option("-o", "--out", type=OutputPath(), required=True, help="File or folder to write.")
@click.option("--no-detail", is_flag=True, help="Leave out the columns sched and hashed.")
@overwrite_option
def record(folder: Path, trace: Path, out: Path, no_detail: bool, overwrite: bool) -> int:
    """Write TRACE with what vLLM decides for it (`expected`).

    TRACE is a file, or a folder whose traces are recorded into the folder OUT.
    """
    pairs = recording_plan(trace, out)
    for source, target in pairs:
        check_outputs([source], {"--out": out})
        refuse_existing("--out", target, overwrite)
        load(source)
    vllm = _start(folder)
    failed = 0
    for source, target in pairs:
        try:
            totals = record_file(vllm, source, target, detail=not no_detail)
            echo(f"{target}: {totals['steps']:,} steps, {totals['preemptions']:,} preemptions")
        except InputError as error:
            failed += 1
            fail("record_vllm", str(error))
    return 2 if failed == len(pairs) else int(failed > 0)


@commands.command(
    cls=Command,
    examples=(
        "python tools/record_vllm check --env ~/vllm/0.34.0 tests/goldens/vllm/*.gz",
        "python tools/record_vllm check --env ~/vllm/0.34.0 goldens/ --out recorded-0.34.0",
    ),
)
@env_option
@click.argument("traces", type=input_path, nargs=-1, required=True)
@click.option("--out", type=OutputPath(), help="Folder for the new recordings.")
@overwrite_option
@json_option
def check(
    folder: Path, traces: tuple[Path, ...], out: Path | None, overwrite: bool, as_json: bool
) -> int:
    """Record TRACES again, and tell what a release decides otherwise.

    TRACES are files with `expected`, or folders of such.
    """
    if overwrite and out is None:
        raise InputError("--overwrite: has no effect without --out")
    vllm = _start(folder)
    tell = None if as_json else add_row(echo)
    checked = check_all(vllm, traces, out, tell, overwrite=overwrite)
    return _told(checked, as_json)


@commands.command(
    cls=Command,
    examples=(
        "python tools/record_vllm compare golden.json.gz recorded.json.gz",
        "python tools/record_vllm compare recorded-0.32.0 recorded-0.33.0",
    ),
)
@click.argument("before", type=input_path)
@click.argument("after", type=input_path)
@json_option
def compare(before: Path, after: Path, as_json: bool) -> int:
    """Compare two recordings, or all of the same name in two folders; needs no vLLM."""
    checked = compare_folders(before, after, None if as_json else add_row(echo))
    return _told(checked, as_json)


@commands.command(
    cls=Command,
    examples=(
        "python tools/record_vllm cases async 1 60 --out cases/async",
        "python tools/record_vllm record --env v33 cases/async/async-1.json.gz -o golden.json.gz",
    ),
)
@click.argument("feature")
@click.argument("first", type=click.IntRange(min=0))
@click.argument("last", type=click.IntRange(min=0))
@click.option("--out", type=OutputPath(), required=True, help="Folder to write them to.")
def cases(feature: str, first: int, last: int, out: Path) -> int:
    """Write random traces of a FEATURE, of the seeds FIRST to LAST.

    FEATURE is sync, async, offload, hybrid, state, state-spec, spec, mix, pd, pd-spec, pd-hybrid,
    pd-fail, pd-error, pd-lease, pipeline, pipeline-state, pipeline-spec, spec-longest,
    offload-spec, offload-hybrid, offload-spec-hybrid, offload-state, offload-state-spec,
    pd-state, pd-state-spec, pd-state-lease, or pd-spec-hybrid, with EAGLE heads. Windows and states
    keep but some blocks in the cache in hybrid-kept, state-kept, state-spec-kept, spec-hybrid-kept,
    pd-hybrid-kept, pd-spec-hybrid-kept, pd-state-kept, pd-state-spec-kept, pipeline-hybrid-kept,
    pipeline-state-kept, offload-hybrid-kept, offload-spec-hybrid-kept, offload-state-kept and
    offload-state-spec-kept.
    """
    from record_vllm.checking import make_folder, write_cases

    make_folder(out)
    echo(f"{write_cases(feature, range(first, last + 1), out):,} traces in {out}")
    return 0


@commands.command(
    cls=Command,
    examples=(
        "python tools/record_vllm options --env ~/vllm/0.33.0",
        "python tools/record_vllm options --env ~/vllm/newest --json",
    ),
)
@env_option
@json_option
def options(folder: Path, as_json: bool) -> int:
    """Compare the options of `vllm serve` with those that `kvsweep from-vllm` knows.

    What differs goes into kvsweep/vllm_command/options.toml, with what it does to a simulation.
    """
    vllm = _start(folder)
    from record_vllm.options import differences, server_parser

    found = list(differences(server_parser()._actions))
    if as_json:
        print_json({"version": vllm.version, "differences": found})
    else:
        echo("\n".join(found) or f"vLLM {vllm.version} has the options that are known")
    return 1 if found else 0


def _start(folder: Path) -> Vllm:
    """Load vLLM, in the Python of its environment: this process becomes that one if it is not."""
    interpreter = interpreter_of(folder)
    if not interpreter.exists():
        raise InputError(f"{folder}: has no {interpreter.relative_to(folder)}; make it with setup")
    if unpacked_version(folder / "site") is None:
        raise InputError(f"{folder}: has no vLLM in it: setup did not end; run it again")
    inside = Path(sys.prefix).resolve() == (folder / "venv").resolve()
    if not inside and _STARTED not in os.environ:
        arguments = [str(Path(__file__).parent), *sys.argv[1:]]
        environment = {**os.environ, _STARTED: "1"}
        os.execve(interpreter, [str(interpreter), *arguments], environment)
    from record_vllm.adapter import Vllm, unknown_release

    try:
        vllm = Vllm(folder / "site")
    except ImportError as error:
        raise InputError(f"{folder}: {error}: setup did not end; run it again") from None
    unknown = unknown_release(vllm.release)
    if unknown:
        echo(f"warning: {unknown}", err=True)
    return vllm


def _told(checked: list[Checked], as_json: bool) -> int:
    """Print what was found and return the exit code."""
    told = report(checked)
    if as_json:
        print_json(told)
    else:
        echo(told["summary"])
    return 0 if told["equal"] == len(checked) else 1


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    sys.exit(exit_code(commands, "record_vllm", arguments))


def exit_code(command: click.Command, name: str, arguments: list[str] | None) -> int:
    """Run a command of a tool, and print what went wrong as one line."""
    try:
        return command.main(arguments, name, standalone_mode=False) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        return fail(error.ctx.command_path if error.ctx else name, error.format_message())
    except InputError as error:
        return fail(name, str(error))
    except (KeyboardInterrupt, click.Abort):
        echo(f"{name}: interrupted", err=True)
        return 1
    except BrokenPipeError:
        drop_output()
        return 1
    except OutputLostError as error:
        drop_output()
        return fail(name, str(error))
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        return fail(name, f"{where}{error.strerror or error}")
