"""Files that appear whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any

from kvsweep.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def replaced(path: str | Path) -> Iterator[Path]:
    """Yield the name of a new file beside `path` that takes its place when the block ends well.

    If it does not, what was there before is there still. A link stays a link; what is no regular
    file (``/dev/null``, a pipe) is written as it is.

    Raises
    ------
    InputError
        If it cannot be written: no such folder, no permission, a full disk.
    """
    try:
        path = Path(path)
        if is_special(path) or path.is_dir():
            yield path
        else:
            yield from _beside(Path(os.path.realpath(path)))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def written(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file for writing as `replaced` does. Text is UTF-8, and its lines end as given.

    Raises
    ------
    InputError
        As `replaced`.
    """
    how: dict[str, Any] = {} if binary else {"newline": "", "encoding": "utf-8"}
    with replaced(path) as new, new.open("wb" if binary else "w", **how) as file:
        yield file


def is_special(path: Path) -> bool:
    """Whether a path names a device, a pipe or an open stream rather than a file or a folder."""
    if os.path.abspath(path).startswith(("/dev/", "/proc/")):
        return True
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _beside(target: Path) -> Iterator[Path]:
    before = target.stat().st_mode if target.exists() else None
    if before is not None and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    new = target.with_name(f".kvsweep-{token_hex(4)}.partial")
    try:
        yield new
        if before is not None:
            new.chmod(stat.S_IMODE(before))
        new.replace(target)
    except BaseException:
        with suppress(OSError):
            new.unlink()
        raise
