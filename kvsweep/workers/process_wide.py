"""What Dask leaves out while workers simulate: log lines, and looks at its own threads."""

from __future__ import annotations

import logging
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING

import dask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Dask looks at its threads 100 times a second for a profile that nobody asks for, and at its own
# responsiveness 50 times: 4 % of a core, in turns with the threads that simulate.
SETTINGS = {
    "distributed.worker.profile.enabled": False,
    "distributed.admin.tick.interval": "200ms",
}


class _Change:
    """A change of the whole process that lasts while any thread is in a block of it.

    Were each block to put back what it found, one that overlaps another would leave the change.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._undo: Callable[[], object] = int

    @contextmanager
    def made(self, change: Callable[[], Callable[[], object]]) -> Iterator[None]:
        """Make it for the length of a block, by what returns how it is undone."""
        with self._lock:
            if not self._inside:
                self._undo = change()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside:
                    self._undo()


_LOGGERS: defaultdict[str, _Change] = defaultdict(_Change)
_OF_DASK = _Change()


@contextmanager
def silenced(*names: str) -> Iterator[None]:
    """Let loggers say nothing during the block."""
    with ExitStack() as quiet:
        for name in names:
            silence = partial(_silence, logging.getLogger(name))
            quiet.enter_context(_LOGGERS[name].made(silence))
        yield


def _silence(logger: logging.Logger) -> Callable[[], object]:
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    return partial(logger.setLevel, before)


@contextmanager
def unobserved() -> Iterator[None]:
    """Start workers with `SETTINGS` during the block."""
    with _OF_DASK.made(_settings):
        yield


def _settings() -> Callable[[], object]:
    made = dask.config.set(SETTINGS)
    return partial(made.__exit__, None, None, None)
