"""Reading the files that users name: regular files, no more bytes than are believed, UTF-8."""

from __future__ import annotations

import errno
import gzip
import os
import re
import stat
import zlib
from io import BufferedReader, FileIO
from pathlib import Path

from kvsweep.errors import InputError
from kvsweep.limits import MAX_INPUT_BYTES

_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_UTF32 = (b"\xff\xfe\0\0", b"\0\0\xfe\xff")  # the first begins as one of UTF-16 does
_GZIP = b"\x1f\x8b"

_OTHERS = {
    b"PK\x03\x04": "a ZIP archive",
    b"\x28\xb5\x2f\xfd": "compressed by Zstandard",
    b"BZh": "compressed by bzip2",
    b"\xfd7zXZ\x00": "compressed by xz",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
}

_KINDS = (
    (stat.S_ISDIR, "Is a directory"),
    (stat.S_ISFIFO, "is a pipe, no regular file: save what it gives to a file first"),
    (stat.S_ISSOCK, "is a socket, no regular file"),
    (stat.S_ISCHR, "is a device, no regular file"),
    (stat.S_ISBLK, "is a device, no regular file"),
)

# pathlib keeps one slash of an address: https:/host/file. One letter is a drive of Windows.
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")

_MOST_NAMES, _LONGEST_NAME = 1000, 100

_PIECE = 2**20
# Deflate makes at most 1,032 bytes of one (zlib's technical notes).
_MOST_FROM_ONE = 1032


def working_folder() -> Path:
    """Return the folder that relative paths are relative to now; of one deleted, no name."""
    try:
        return Path.cwd()
    except OSError:
        return Path()


def nearby(path: Path, folder: str, ending: str) -> str:
    """Return a hint at what is there where `path` is not.

    With its ending, in the usual folder, or written nearly so.

    Parameters
    ----------
    path : Path
        What was named.
    folder : str
        Where such are as a rule.
    ending : str
        How their names end.
    """
    name = path.name if path.suffix == ending else f"{path.name}{ending}"
    for place in (path.with_name(name) if path.name else path, Path(folder) / name):
        if place != path and os.path.exists(place):
            return f"; did you mean '{place}'?"
    return _closest(path, ending)


def _closest(path: Path, ending: str) -> str:
    """Return a hint at the name in the same folder that is written most alike, if any is."""
    from difflib import get_close_matches

    try:
        stems = [name[: -len(ending)] for name in os.listdir(path.parent) if name.endswith(ending)]
    except OSError:
        return ""
    # Long names take time to compare, and a folder of so many has some name that is alike.
    if len(stems) > _MOST_NAMES or len(path.name) > _LONGEST_NAME:
        return ""
    close = get_close_matches(path.name.removesuffix(ending), sorted(stems), n=1, cutoff=0.8)
    return f"; did you mean '{path.with_name(close[0] + ending)}'?" if close else ""


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading, links followed.

    Pipes are refused, process substitution and ``/dev/stdin`` among them: files are read several
    times, by workers too, and reading a pipe may wait for ever.

    Raises
    ------
    InputError
        At once, if it is no regular file or cannot be opened.
    """
    try:
        _check_kind(path, path.stat().st_mode)
        # Should it have become something else since, opening does not wait for a writer.
        file = os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")
        try:
            _check_kind(path, os.fstat(file.fileno()).st_mode)
        except InputError:
            file.close()
            raise
    except OSError as error:
        reason = error.strerror or error
        if _ADDRESS.match(str(path)):
            reason = "an address, and only files of this machine are read: copy it to one first"
        raise InputError(f"{path}: cannot read: {reason}") from None
    except InputError:
        raise
    except ValueError as error:  # a NUL or a surrogate in the name
        raise InputError(f"{path}: cannot read: {error}") from None
    return file


def check_folder(folder: str | Path | None) -> None:
    """Refuse a folder to look for files in that is none; None: none is given.

    Raises
    ------
    InputError
        Naming it.
    """
    if folder is not None and not Path(folder).is_dir():
        raise InputError(f"--folder: {str(folder)!r} is no folder")


def refuse_store(path: Path, wanted: str) -> None:
    """Refuse a store of results where a file is `wanted`: ``a sweep``, ``a trace``.

    Raises
    ------
    InputError
        If it is one.
    """
    try:
        found = (path / "zarr.json").is_file()
    except (OSError, ValueError):  # a name that is no good, of which `open_regular` tells
        return
    if found:
        raise InputError(f"{path}: is a store, not {wanted}")


def _check_kind(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = next((text for test, text in _KINDS if test(mode)), "is no regular file")
        raise InputError(f"{path}: cannot read: {kind}")


def regular_bytes(path: str | Path) -> bytes:
    """Return the bytes of a file that a store should have.

    Raises
    ------
    OSError
        At once, if it is no regular file, such as a pipe, has more bytes than are believed, or
        cannot be read.
    """
    with open_own(path) as stream:
        if os.fstat(stream.fileno()).st_size > MAX_INPUT_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
        return stream.read()


def open_own(path: str | Path) -> FileIO:
    """Open a file that a store should have for reading.

    Raises
    ------
    OSError
        At once, if it is no regular file, such as a pipe, or cannot be opened.
    """
    file = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    mode = os.fstat(file).st_mode
    if not stat.S_ISREG(mode):
        os.close(file)
        raise OSError(errno.EINVAL, f"is {'a folder' if stat.S_ISDIR(mode) else 'no regular file'}")
    return FileIO(file, "rb")


def read_text(path: Path, most: int, *, packed: bool = False) -> str:
    """Return the text of a file, without a byte order mark.

    Parameters
    ----------
    path : Path
        A regular file in UTF-8.
    most : int
        Bytes that it may have, once unpacked.
    packed : bool
        Whether it may be gzipped.

    Raises
    ------
    InputError
        If it is no such file, has more bytes, is truncated or damaged, or has NUL bytes.
    """
    try:
        with open_regular(path) as file:
            raw = _read(file, path, most, packed)
        text = raw.decode("utf-8-sig")
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise InputError(f"{path}: truncated or damaged gzip file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}{_no_utf8(error)}") from None
    except MemoryError:
        raise InputError(f"{path}: does not fit into memory") from None
    nul = text.find("\0")
    if nul >= 0:
        line = text.count("\n", 0, nul) + 1
        raise InputError(f"{path}:{line}: not a text file: it has a NUL byte")
    return text


def _no_utf8(error: UnicodeDecodeError) -> str:
    """Return where a text is not in UTF-8, and how it becomes so."""
    told = "not a text file in UTF-8"
    if error.object.startswith((*_UTF16, *_UTF32)):
        name = "UTF-32" if error.object.startswith(_UTF32) else "UTF-16"
        return f": {told} but in {name}: `iconv -f {name} -t UTF-8` makes it so"
    line = error.object.count(b"\n", 0, error.start) + 1
    return (
        f":{line}: {told}: byte 0x{error.object[error.start]:02x}; if it is text, "
        "`iconv -f ITS-ENCODING -t UTF-8` makes it so"
    )


def _read(file: BufferedReader, path: Path, most: int, packed: bool) -> bytes | bytearray:
    """Return all bytes, unpacked."""
    start = file.read(8)
    for magic, what in _OTHERS.items():
        if start.startswith(magic):
            raise InputError(f"{path}: is {what}: unpack it to text first")
    file.seek(0)
    if not start.startswith(_GZIP):
        _check_size(path, os.fstat(file.fileno()).st_size, most)
        return _pieces(file, path, most)
    if not packed:
        raise InputError(f"{path}: is compressed by gzip: unpack it first")
    if os.fstat(file.fileno()).st_size > most // _MOST_FROM_ONE:
        # It may unpack to more than may be kept: count first.
        _pieces(gzip.GzipFile(fileobj=file), path, most, keep=False)
        file.seek(0)
    unpacked = _pieces(gzip.GzipFile(fileobj=file), path, most)
    for magic, what in (_OTHERS | {_GZIP: "compressed by gzip once more"}).items():
        if unpacked.startswith(magic):
            raise InputError(f"{path}: unpacked, it is {what}: unpack it first")
    return unpacked


def _pieces(
    stream: BufferedReader | gzip.GzipFile, path: Path, most: int, *, keep: bool = True
) -> bytearray:
    """Return what `stream` still gives, or nothing if it is only counted."""
    kept = bytearray()
    count = 0
    while piece := stream.read(_PIECE):
        count += len(piece)
        _check_size(path, count, most)
        if keep:
            kept += piece
    return kept


def _check_size(path: Path, count: int, most: int) -> None:
    if count > most:
        raise InputError(f"{path}: more than {most:,} bytes, which is too large for such a file")
