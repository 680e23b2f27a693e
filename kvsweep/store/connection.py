"""How a remote store is reached, by fsspec: its file system, and what may be said of its errors."""

from __future__ import annotations

import logging
import os
from functools import lru_cache
from typing import Any

from kvsweep.addresses import Address
from kvsweep.errors import InputError, did_you_mean

# What to install for a protocol, where that is not in the extra `remote`.
_PACKAGES = {"gs": "gcsfs", "gcs": "gcsfs"} | dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs")
_S3 = ("s3", "s3a")
# Within another file or folder, or before one: fsspec wants to be told of which, and says so oddly.
_ARCHIVES = ("zip", "tar", "libarchive")
_CACHES = ("cached", "simplecache", "filecache", "blockcache")
_NO_PLACES = frozenset((*_ARCHIVES, *_CACHES, "dir", "reference", "generic", "async_wrapper"))
# Of these types may be a bug of ours, or of a library: messages name the type, and the error is the
# cause of what is raised.
_BUGS = (TypeError, AttributeError)
# What asking again would not mend. NotImplementedError is what fsspec's file systems raise that
# cannot write, list or delete (a zip, a web server).
_FINAL = (PermissionError, NotImplementedError, ValueError, ImportError, *_BUGS)
_NO_KEYS = ("NoCredentialsError", "PartialCredentialsError", "ProfileNotFound", "TokenRetrieval")
_WRONG = ("ParamValidation", "InvalidRegion", "InvalidEndpoint")


class RemoteError(InputError, OSError):
    """What a remote store, or the way to it, had to say; a subclass of both for its callers.

    Parameters
    ----------
    message : str
        The whole line.
    reason : str, optional
        What of it is to be told after the name of the store.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.strerror = reason or None


class GoneError(RemoteError):
    """The bucket is not there, or the store is not there any more, nor what was done."""

    lost = True


@lru_cache(maxsize=64)
def filesystem(address: Address) -> tuple[Any, str]:
    """Return fsspec's file system of an address, and what it calls it.

    Credentials and endpoints are its own affair: environment variables, fsspec's configuration.

    Raises
    ------
    RemoteError
        If there is no such protocol, or its package is not installed.
    """
    import fsspec
    import fsspec.asyn

    protocol = address.protocol
    if protocol not in fsspec.available_protocols():
        known = ["s3", "gs", "az", "memory", "file"]
        hint = did_you_mean(protocol, fsspec.available_protocols())
        raise _refusal(address, f"no protocol {protocol!r}; such as {', '.join(known)}{hint}")
    if protocol in ("http", "https"):
        raise _refusal(address, f"nothing is written or listed by {protocol}; copy it first")
    if protocol in _NO_PLACES:
        first = "unpack it, and " if protocol in _ARCHIVES else ""
        how = f"{first}name a folder, or an address such as s3://bucket/h8.zarr"
        raise _refusal(address, f"{protocol} is no place that a store can be in; {how}")
    try:
        # s3fs asks for the size of an object before it fetches it, to do so in pieces: twice the
        # requests, for files of a few MB at most.
        options = {"max_concurrency": 1} if protocol in _S3 else {}
        fs, path = fsspec.core.url_to_fs(str(address), use_listings_cache=False, **options)
    except ImportError as error:
        package = _PACKAGES.get(protocol)
        if protocol in _S3:
            package = "'kvsweep[remote]'"
        how = f"`pip install {package}`" if package else line_of(error)
        raise _refusal(address, f"needs a package that is not installed: {how}") from error
    except Exception as error:
        raise _refusal(address, line_of(error)) from error
    if getattr(fs, "async_impl", False):
        _hush(fsspec.asyn.get_loop())
    return fs, str(path).rstrip("/")


if hasattr(os, "register_at_fork"):  # file systems refuse to work in forks
    os.register_at_fork(after_in_child=filesystem.cache_clear)


def _refusal(address: Address, reason: str) -> RemoteError:
    return RemoteError(f"{address}: {reason}", reason)


def _hush(loop: Any) -> None:
    """Print no traceback of half a request that nobody waits for any more.

    When a connection breaks, what is told is the request, which fails and is tried again.
    """

    def note(_: object, context: dict[str, Any]) -> None:
        logging.getLogger("kvsweep").debug("fsspec: %s", context.get("message"))

    if loop.get_exception_handler() is None:
        loop.set_exception_handler(note)


def line_of(error: Exception) -> str:
    """Return the first line of what a library says, and what kind of error it is if it is mute."""
    text = (str(error).splitlines() or [""])[0].strip()
    if type(error).__name__.startswith(_NO_KEYS) or isinstance(error, PermissionError):
        return f"access denied: {text or type(error).__name__}"
    if isinstance(error, _BUGS) and text:
        return f"{type(error).__name__}: {text}"
    return text or type(error).__name__


def is_final(error: Exception) -> bool:
    """Whether to ask again would not mend it."""
    return isinstance(error, _FINAL) or type(error).__name__.startswith(_NO_KEYS + _WRONG)
