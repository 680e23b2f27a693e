"""What goes to the terminal, and what becomes of the process when that, or the user, goes away."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, NoReturn

import click

try:  # now, as later there may be no room for it
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

from kvsweep.errors import printable

# Characters of a message that are shown, its beginning and its end, if it is longer.
LONGEST, END_SHOWN = 700, 200
# A word that is longer is cut.
LONGEST_WORD = 60
# Signals that end a command, where there are such.
ENDING = ("SIGINT", "SIGTERM", "SIGHUP")


class OutputLostError(Exception):
    """Results could not be printed: why."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C or a signal to end, with a line on what is kept."""


def goes_on(*, overwrite: bool) -> str:
    """Say which command goes on with what an interrupted one has kept, which that may start anew.

    Examples
    --------
    >>> goes_on(overwrite=True)
    'the same command without --overwrite goes on'
    """
    return f"the same command {'without --overwrite ' if overwrite else ''}goes on"


def echo(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print a line of results, or to stderr, where nobody may be listening.

    Raises
    ------
    OutputLostError
        If results cannot be written.
    """
    try:
        click.echo(printable(text), err=err, nl=nl)
    except BrokenPipeError:
        if not err:
            raise
    except (OSError, ValueError) as error:  # ValueError: the stream was closed
        if not err:
            reason = getattr(error, "strerror", None) or error
            raise OutputLostError(f"the output cannot be written: {reason}") from None


def one_line(message: str) -> str:
    """Return a message as one line, its middle left out if it is very long; words are whole."""
    line = " ".join(message.split())
    if len(line) <= LONGEST:
        return line
    begin, end = line[: LONGEST - END_SHOWN], line[-END_SHOWN:]
    begin = begin[: begin.rfind(" ", -LONGEST_WORD)] if " " in begin[-LONGEST_WORD:] else begin
    end = end[end.index(" ") + 1 :] if " " in end[:LONGEST_WORD] else end
    return f"{begin} [...] {end}"


def open_streams() -> None:
    """Give the process the streams it was started without.

    Without stderr messages go nowhere. Without stdout the first result is an error, as it is lost.
    Else the next file that is opened would take the place of the stream.
    """
    for number, flags in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest number that is free: this one
    if sys.stdout is None:
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stderr is None:
        sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _whole(sys.stdout)
    # Letters that the terminal does not have are no reason to print nothing.
    if getattr(sys.stdout, "errors", "") == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def _whole(stream: Any) -> Any:
    """Return a stream that writes all of a text or fails.

    Of one without a buffer (PYTHONUNBUFFERED, ``python -u``) Python drops what the system did not
    take, as of a disk that fills. Nothing is kept back in the other one: `echo` flushes.
    """
    if not isinstance(getattr(stream, "buffer", None), io.RawIOBase):
        return stream
    whole: Any = open(  # noqa: SIM115
        stream.fileno(), "w", encoding=stream.encoding, errors=stream.errors, closefd=False
    )
    whole.instead_of = stream  # it closes the file when nobody holds it
    return whole


def drop_output() -> None:
    """Let Python not try again, at its end, to write what cannot be written."""
    with suppress(OSError, ValueError):  # a test's stdout has no number
        if sys.stdout.fileno() == 1:
            with open(os.devnull, "wb") as null:
                os.dup2(null.fileno(), 1)


class _Asked:
    """Whether a signal to end came while a command runs."""

    to_end = False


def asked_to_end() -> bool:
    """Whether a signal to end came: what went wrong since may be its doing."""
    return _Asked.to_end


def end_if_asked() -> None:
    """Interrupt, if a signal did and that was lost.

    That happens to whatever is raised while a finalizer or a callback of the garbage collector
    runs, of which Dask has some, and where a library drops all errors: the command went on to its
    end, and its exit code was 0.
    """
    if _Asked.to_end:
        raise KeyboardInterrupt


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    _Asked.to_end = True
    raise KeyboardInterrupt


def _tell_unraisable(tell: Callable[[Any], object], lost: Any) -> None:
    """Tell what Python cannot raise, but of an interrupt and what follows from it.

    Dask times collections of garbage: one that is interrupted stops a clock that was not started.
    """
    if not _Asked.to_end:
        tell(lost)


@contextmanager
def signals_end_orderly() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the block as Ctrl-C does; what is ignored stays ignored."""
    before = {}
    if current_thread() is main_thread():
        numbers = [getattr(signal, name) for name in ENDING if hasattr(signal, name)]
        before = {number: signal.getsignal(number) for number in numbers}
    usual = (signal.SIG_DFL, signal.default_int_handler)
    taken = {number: handler for number, handler in before.items() if handler in usual}
    _Asked.to_end, tell = False, sys.unraisablehook
    for number in taken:
        signal.signal(number, _interrupt)
    sys.unraisablehook = partial(_tell_unraisable, tell)
    try:
        yield
    finally:
        sys.unraisablehook = tell
        for number, handler in taken.items():
            signal.signal(number, handler)


def memory_is_limited() -> bool:
    """Whether the process may have less memory than the machine has (``ulimit -v``)."""
    return resource is not None and resource.getrlimit(resource.RLIMIT_AS)[0] >= 0
