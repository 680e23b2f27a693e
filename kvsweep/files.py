"""Files that are written: where they may be, and how they appear whole or not at all."""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import IO, TYPE_CHECKING, Any

from kvsweep.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

# An address, of which pathlib keeps one slash: s3:/bucket. One letter is a drive of Windows.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# Neither a link nor a pipe that has the name is followed or waited for.
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
_NEW |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
# What names a stream that the process has open.
_STREAM = re.compile(r"/dev/(stdout|stderr)|/(?:dev|proc/self)/fd/([0-9]{1,9})")
_LONGEST = 200  # characters of a path in a message
_NAME_BYTES = 255  # of a file or folder, on every common file system

PARTIAL = ".partial"
"""How the name of a file ends that is being written."""

# Tests put a disk here that takes half of what it is given, or nothing.
_write = os.write


def output_path(path: str | Path) -> Path:
    """Return `path` if something can be written there, as far as its name goes.

    Raises
    ------
    InputError
        If it is an address such as ``s3://bucket/x.zarr``, of which a folder ``s3:`` would be made,
        it is ``-``, which other tools take for standard output, it begins with a ``~`` that no
        shell has replaced, it lies in a store, or no system call takes it: too long a name, a loop
        of links, a zero byte.
    """
    text = os.fspath(path)
    if text == "-":
        raise InputError("-: a file '-' would be made; standard output is '/dev/stdout'")
    if _ADDRESS.match(text):
        raise InputError(
            f"{_shown(text)}: an address, not a path; only files and folders of this machine are "
            "written: name one, and copy it afterwards"
        )
    home = os.path.expanduser(text)
    if home != text:  # shells leave `--out=~/x.zarr` as it is
        folder = Path(text).parts[0]
        raise InputError(f"{_shown(text)}: a folder {folder!r} would be made; write {_shown(home)}")
    try:
        if any(len(os.fsencode(part)) > _NAME_BYTES for part in Path(text).parts):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        os.stat(text)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise unwritable(text, error) from None
    path = Path(text)
    if path.name in ("", ".."):  # something is made beside it, by its name
        path = Path(os.path.abspath(path))
    if not path.name:
        raise InputError(f"{text}: is a folder with nothing beside it; name another place")
    store = _store_around(path)
    if store is not None:
        raise InputError(f"{text}: lies in the store {store}, whose files are kvsweep's own")
    return path


def _store_around(path: Path) -> Path | None:
    """Return the store of kvsweep in which `path` lies, if there is one."""
    for folder in Path(os.path.realpath(path)).parents:
        root = folder / "zarr.json"
        with suppress(OSError):
            if root.is_file() and b'"kvsweep-' in root.read_bytes():
                return folder
    return None


def unwritable(path: object, error: Exception, more: str = "") -> InputError:
    """Return the error of a path that cannot be written, in one line."""
    reason = error.strerror if isinstance(error, OSError) and error.strerror else error
    if isinstance(error, FileExistsError) and error.filename not in (None, str(path)):
        reason = f"{_shown(str(error.filename))} is a file, not a folder"
    if isinstance(error, IsADirectoryError):
        there = error.filename2 or error.filename
        if there not in (None, str(path)):
            reason = f"{_shown(str(there))} is a folder, not a file; delete it"
    return InputError(f"{_shown(str(path))}: cannot be written: {reason}{more}")


def replace_file(path: str, data: bytes, *, shared: bool = False) -> None:
    """Give a file its content in one step: it is there whole, or as it was before.

    Parameters
    ----------
    path : str
        The file.
    data : bytes
        Its content.
    shared : bool
        Others may write the same file at the same time.

    Raises
    ------
    OSError
        If not all of it could be written: a disk that fills takes what fits, and no error.
    """
    partial = f"{path}.{token_hex(4)}{PARTIAL}" if shared else f"{path}{PARTIAL}"
    try:
        file = os.open(partial, _NEW, 0o666)
        try:
            _write_all(file, data)
        finally:
            os.close(file)
        os.replace(partial, path)
    except OSError:
        with suppress(OSError):
            os.unlink(partial)
        raise


def _write_all(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        written = _write(file, rest)
        if written == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        rest = rest[written:]


def _shown(path: str) -> str:
    """Return a path as messages have it, without the middle of an endless one."""
    return path if len(path) <= _LONGEST else f"{path[:100]}...{path[-60:]}"


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
    path = output_path(path)
    try:
        if is_special(path) or path.is_dir():
            yield path
        else:
            yield from _beside(Path(os.path.realpath(path)))
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(path, error) from None


@contextmanager
def written(path: str | Path, *, binary: bool = False) -> Iterator[IO[Any]]:
    """Open a file for writing as `replaced` does. Text is UTF-8, and its lines end as given.

    Raises
    ------
    InputError
        As `replaced`.
    """
    how: dict[str, Any] = {} if binary else {"newline": "", "encoding": "utf-8"}
    with replaced(path) as new, open(_place(new), "wb" if binary else "w", **how) as file:
        yield file


def _place(path: Path) -> Path | int:
    """Return what to open; of a stream that is open its number, so that it goes on where it is.

    By its name the file to which it leads would be begun anew, and written over by what is printed
    after.
    """
    stream = _STREAM.fullmatch(os.path.abspath(path))
    if stream is None:
        return path
    return os.dup({"stdout": 1, "stderr": 2}.get(stream[1]) or int(stream[2]))


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
