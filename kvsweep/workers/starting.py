"""Whether processes can start: they import the script that asks for them, as a module."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from contextlib import contextmanager
from functools import cache
from multiprocessing import resource_tracker
from typing import TYPE_CHECKING

from kvsweep.errors import InputError, shown

if TYPE_CHECKING:
    from collections.abc import Iterator

# What a script is called while a new process of multiprocessing's imports it.
IMPORTED = "__mp_main__"
# The process that tries it first, and what it ends with: it came to its task, or asked for
# processes of its own before.
TRIAL, STARTED, ASKED = "kvsweep trial", 91, 92
GUARD = 'put the call under `if __name__ == "__main__":`'


def refuse_import() -> None:
    """Refuse processes where a new process, on its way to its task, imports a script.

    It would start others, which would import the script too, and so on. A process that has come
    to its task may have processes.

    Raises
    ------
    InputError
        If that is what calls.
    """
    imported, main = sys.modules.get(IMPORTED), sys.modules.get("__main__")
    # Until then `__main__` is what multiprocessing began with, which is no file.
    if imported is None or imported is main or hasattr(main, "__file__"):
        return
    if multiprocessing.current_process().name == TRIAL:
        sys.exit(ASKED)  # whoever started it says why
    raise _unguarded()


def _unguarded() -> InputError:
    return InputError(
        "processes: new processes import the script that asks for them, and this one would ask "
        f"again in each: {GUARD}"
    )


def check_start(method: str) -> None:
    """Refuse processes that could not start.

    Parameters
    ----------
    method : str
        How they are started, as `multiprocessing.get_context` names it.

    Raises
    ------
    InputError
        If this process may have none, or its script cannot be imported, or asks for more then.
    """
    if multiprocessing.current_process().daemon:
        raise InputError("processes: this process is a daemon of multiprocessing, which has none")
    main = sys.modules["__main__"]
    name = getattr(main.__spec__, "name", None)
    file = getattr(main, "__file__", None)
    # What has neither, as a notebook, is not imported; nor is the `__main__` of a package.
    if method == "fork" or (name or "").endswith("__main__") or not (name or file):
        return
    if name is None and not os.path.exists(str(file)):
        raise InputError(
            f"processes: new processes import the script that asks for them, and {shown(file)} is "
            f"no file: save it as one and {GUARD}, or do without processes"
        )
    _try_once(method)


@cache
def _try_once(method: str) -> None:
    """Start one process, before many print the same error."""
    context = multiprocessing.get_context(method)
    process = context.Process(  # type: ignore[attr-defined]
        target=sys.exit, args=(STARTED,), name=TRIAL, daemon=True
    )
    try:
        with without_interrupts():
            process.start()
        process.join()
    finally:
        if process.pid is not None:  # it has started
            process.kill()
    if process.exitcode == ASKED:
        raise _unguarded()
    if process.exitcode != STARTED:
        raise InputError(
            "processes: new processes import the script that asks for them, and one ended as it "
            f"did (exit code {process.exitcode}): {GUARD}, and whatever else is not for all of them"
        )


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Spare processes that are started meanwhile the Ctrl-C that a terminal sends to all.

    They end with this process; each would print a traceback before.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    resource_tracker.ensure_running()  # when that starts, it unblocks them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
