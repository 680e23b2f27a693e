"""``python -m kvsweep`` is the command ``kvsweep``."""

import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn


def main() -> None:
    """Run the command line as a process of its own, which Ctrl-C ends at once, from its start.

    Threads that compile, and clusters that start, would keep the process for seconds.
    """
    _quiet_tracker()
    os.environ["MPLBACKEND"] = "agg"  # figures are files; Matplotlib fails at a name it knows not
    try:
        from kvsweep.cli import main as run

        run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another one adds nothing but a traceback
        print("kvsweep: interrupted", file=sys.stderr)  # noqa: T201 (nothing is loaded yet)
        _leave(1)
    except SystemExit as ended:
        if getattr(ended, "at_once", False):
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            _leave(int(str(ended.code)))
        raise


def _quiet_tracker() -> None:
    """Let multiprocessing's tracker of resources tidy up without warning of it.

    It outlives a command that ends at once, and told of semaphores, in lines below the last one,
    that another thread was about to take back.
    """
    known = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = ",".join(filter(None, (known, "ignore:resource_tracker")))


def _leave(code: int) -> NoReturn:
    """End at once, and all processes that were started."""
    if "multiprocessing" in sys.modules:
        from multiprocessing import active_children, util

        for child in active_children():
            child.kill()
        with suppress(Exception):  # they may be in use
            util._run_finalizers(0)  # type: ignore[attr-defined] # semaphores outlive processes
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
