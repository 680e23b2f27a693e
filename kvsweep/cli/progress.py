"""Progress of a sweep on stderr: a bar on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Self

from kvsweep.cli.base import working
from kvsweep.cli.terminal import echo, end_if_asked
from kvsweep.errors import printable

if TYPE_CHECKING:
    from rich.progress import Progress

# Seconds between two lines where there is no terminal.
LINE_EVERY = 10.0
# Seconds for which nobody asks what is going on.
SILENT = 2.0


class Meter:
    """Speed and time left, from the cells done since the first report, when the kernel is ready.

    Of work without a known end there is no time left.
    """

    def __init__(self, unit: str = "cells", *, known_end: bool = True) -> None:
        self._unit = unit
        self._known_end = known_end
        self._start: tuple[float, int] | None = None
        self._last = 0

    def describe(self, done: int, total: int, now: float) -> str:
        """Return ``9,800 cells/s, 12 s left``; empty before there is a speed."""
        if self._start is None or done < self._last:  # a run in several goes begins again
            self._start = (now, done)
        self._last = done
        seconds, cells = now - self._start[0], done - self._start[1]
        if not cells or seconds <= 0:
            return ""
        speed = cells / seconds
        told = f"{speed:,.{0 if speed >= 10 else 1}f} {self._unit}/s"
        return f"{told}, {span((total - done) / speed)} left" if self._known_end else told


class Display:
    """The progress callback of `kvsweep.run`, a context manager around the run.

    Parameters
    ----------
    unit : str
        What is counted.
    steady : bool
        Draw the bar ten times a second, in a thread of its own; else when called, as what is timed
        must have the processor to itself.
    known_end : bool
        Whether the total is known; of a search it is what was asked for so far.
    first : str
        What is done before the first call; told if it takes long. Nothing: not told.
    """

    def __init__(
        self,
        unit: str = "cells",
        *,
        steady: bool = True,
        known_end: bool = True,
        first: str = "",
    ) -> None:
        self._unit = unit
        self._steady = steady
        self._known_end = known_end
        self._meter = Meter(unit, known_end=known_end)
        self._bar: Progress | None = None
        self._last_line: float | None = None
        self._work: ExitStack | None = None
        self._first = first
        self._before = ExitStack()

    def __enter__(self) -> Self:
        if _has_bars():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

            # Names are of others' files: brackets in them are no markup.
            text = TextColumn(f"{self._unit}  {{task.fields[speed]}}", markup=False)
            columns = (BarColumn(), MofNCompleteColumn(), text)
            console = Console(stderr=True)
            self._bar = Progress(
                *columns, console=console, transient=True, auto_refresh=self._steady
            )
            self._bar.add_task("", total=None, speed=printable(self._first))
            self._bar.start()
        elif self._first:
            self._before.enter_context(waiting(self._first))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._before.close()
        if self._work:
            self._work.close()
        if self._bar:
            self._bar.stop()

    def notify(self, line: str) -> None:
        """Print a line, above the bar if there is one."""
        self._before.close()
        if self._bar:
            self._bar.console.print(printable(line), highlight=False, markup=False)
        else:
            echo(line, err=True)

    def __call__(self, done: int, total: int) -> None:
        """Show that `done` of `total` are done.

        Raises
        ------
        KeyboardInterrupt
            If a signal to end came, and was lost.
        """
        end_if_asked()
        self._before.close()
        if self._work is None:
            self._work = ExitStack()
            self._work.enter_context(working())
        now = time.monotonic()
        speed = self._meter.describe(done, total, now)
        if self._bar:
            task = self._bar.task_ids[0]
            self._bar.update(task, completed=done, total=total, speed=speed)
            if not self._steady:
                self._bar.refresh()
        elif self._last_line is None:
            self._last_line = now
        elif speed and (now - self._last_line >= LINE_EVERY or self._is_end(done, total)):
            self._last_line = now
            of_all = f" of {total:,}" if self._known_end else ""
            echo(f"{done:,}{of_all} {self._unit}, {speed}", err=True)

    def _is_end(self, done: int, total: int) -> bool:
        return self._known_end and done == total


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Say on stderr what takes so long, if the block does, and then how long it took so far.

    Nothing is said without words for it.
    """
    if not what:
        yield
        return
    done, begun = Event(), time.monotonic()

    def tell() -> None:
        if done.wait(SILENT):
            return
        echo(f"{what} ...", err=True)
        while not done.wait(LINE_EVERY):
            echo(f"{what}: {span(time.monotonic() - begun)} so far", err=True)

    thread = Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _has_bars() -> bool:
    """Whether stderr is a terminal on which a bar can be drawn over itself.

    On others, as in a shell of Emacs, Rich draws nothing at all.
    """
    return sys.stderr.isatty() and os.environ.get("TERM", "").lower() not in ("dumb", "unknown")


def span(seconds: float) -> str:
    """Return a duration in words: ``0.4 s``, ``12 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 120:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"
