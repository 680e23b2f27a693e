"""How a running scheduler is reached: by its address, its file, or what the user has of Dask's."""

from __future__ import annotations

import json
import logging
import os
import re
import ssl
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from distributed import Client as Client
from distributed import Security
from distributed.comm import parse_address, parse_host_port
from distributed.deploy import Cluster as DaskCluster
from distributed.versions import VersionMismatchWarning

from kvsweep.errors import InputError, shown
from kvsweep.limits import MAX_SETTINGS_BYTES
from kvsweep.reading import read_text
from kvsweep.workers.pool import LOOK_EVERY, TELL_AFTER
from kvsweep.workers.process_wide import silenced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Seconds to wait for the answer of an existing scheduler: unless somebody waits less for workers,
# and at least, as one that is busy does not answer at once.
CONNECT_TIMEOUT = 10.0
LEAST_TIMEOUT = 5.0
CERTIFICATES = (
    "Dask's configuration names them: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ...__CLIENT__CERT, "
    "...__CLIENT__KEY"
)

Scheduler: TypeAlias = "str | Client | DaskCluster"
"""What names a scheduler: an address, or Dask's own objects."""


@contextmanager
def connected(
    scheduler: Any, wait: float | None, notify: Callable[[str], None] | None
) -> Iterator[tuple[Client, str]]:
    """Return a client, closed with the block unless it is the user's, and what to call it.

    Parameters
    ----------
    scheduler : Scheduler or Path
        A path is that of a scheduler's file. A client or cluster stays open.
    wait : float, optional
        Seconds to wait for the file, without limit if not given, and then for the scheduler to
        answer, `LEAST_TIMEOUT` to `CONNECT_TIMEOUT`, which it is if not given.
    notify : callable (str), optional
        Called with a line when it is waited for.

    Raises
    ------
    InputError
        If it is none of these, or nothing answers there.
    """
    if isinstance(scheduler, Client):
        if scheduler.asynchronous:
            raise InputError("client: is asynchronous; kvsweep needs a Client(asynchronous=False)")
        if scheduler.status != "running":
            raise InputError(f"client: is {scheduler.status}, not connected to a scheduler")
        yield scheduler, "client"
        return
    if getattr(scheduler, "asynchronous", False):
        raise InputError(
            "--scheduler: the cluster is asynchronous; kvsweep needs one with asynchronous=False"
        )
    if isinstance(scheduler, Path):
        address = _address_in(scheduler, wait, notify)
        where = f"--scheduler-file {scheduler}: {address}"
    else:
        address = scheduler
        where = f"--scheduler {getattr(scheduler, 'scheduler_address', scheduler)}"
    # What Dask has to say of versions, and of lost connections, is said here by name. Of tornado it
    # is that a question which Ctrl-C cuts short had not begun (distributed.utils.sync).
    with (
        silenced("distributed", "distributed.client", "asyncio", "tornado.application"),
        _client(address, where, _patience(wait)) as client,
    ):
        yield client, where


def _patience(wait: float | None) -> float:
    """Return the seconds that a scheduler has to answer who waits so long for its workers."""
    return CONNECT_TIMEOUT if wait is None else min(max(wait, LEAST_TIMEOUT), CONNECT_TIMEOUT)


def _address_in(file: Path, wait: float | None, notify: Callable[[str], None] | None) -> str:
    """Return the address that a scheduler wrote into a file, once it is there."""
    if re.match(r"[a-z]{2,}:/", str(file)):
        raise InputError(f"--scheduler-file {file}: is an address, as --scheduler takes")
    began, told = time.monotonic(), False
    while not file.exists():
        waited = time.monotonic() - began
        if wait is not None and waited >= wait:
            raise InputError(f"--scheduler-file {file}: no such file for {wait:g} s")
        if waited >= TELL_AFTER and not told:
            told = True
            line = f"--scheduler-file {file}: no such file; waiting for it (Ctrl-C ends)"
            (notify or logging.getLogger("kvsweep").warning)(line)
        time.sleep(LOOK_EVERY)
    found = _json_in(file)
    address = found.get("address") if isinstance(found, dict) else None
    if not isinstance(address, str):
        raise InputError(
            f"--scheduler-file {file}: address: expected that of a scheduler, got {shown(address)}"
        )
    return address


def _json_in(file: Path) -> Any:
    """Return what a scheduler wrote; it may be at it."""
    until = time.monotonic() + TELL_AFTER
    while True:
        try:
            return json.loads(read_text(file, MAX_SETTINGS_BYTES))
        except InputError as error:
            raise InputError(f"--scheduler-file {error}") from error
        except (ValueError, RecursionError) as error:
            if time.monotonic() > until:
                raise InputError(f"--scheduler-file {file}: is no JSON of a scheduler") from error
            time.sleep(LOOK_EVERY)


@contextmanager
def _client(scheduler: str | DaskCluster, where: str, seconds: float) -> Iterator[Client]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", VersionMismatchWarning)
            if isinstance(scheduler, str) and scheduler.startswith("tls://"):
                _check_certificates()
            if isinstance(scheduler, str):
                _check_address(scheduler)
            client = _within(seconds, scheduler)
    except Exception as error:  # of many types, by what of the address or the network is no good
        raise InputError(f"{where}: {_why_unreachable(scheduler, error)}") from error
    with client:
        yield client


def _check_certificates() -> None:
    """Read the certificates of Dask's configuration, before anything is waited for.

    Raises
    ------
    TypeError
        If it names none, as a connection without them would raise.
    OSError
        If they cannot be read; ssl.SSLError, if they are no good.
    """
    if Security().get_connection_args("client").get("ssl_context") is None:
        raise TypeError("no certificates")


def _check_address(scheduler: str) -> None:
    """Find out what is no address before Dask starts a thread for it, which may take seconds.

    Raises
    ------
    ValueError
        If it lacks a port, as a connection would raise.
    """
    protocol, place = parse_address(scheduler)
    if protocol in ("tcp", "tls"):
        parse_host_port(place)


def _within(seconds: float, scheduler: str | DaskCluster) -> Client:
    """Return a client of a scheduler, in twice so many seconds at most.

    Dask's own time, once as many, ends when somebody takes the connection; who then says nothing
    (another program on the port of a scheduler that is gone) it waits for without end.
    """
    found: SimpleQueue[Client | Exception] = SimpleQueue()

    def begin() -> None:
        try:
            found.put(Client(scheduler, timeout=seconds, set_as_default=False))
        except Exception as error:
            found.put(error)

    Thread(target=begin, daemon=True).start()
    try:
        client = found.get(timeout=2 * seconds)
    except Empty:
        raise TimeoutError from None
    if isinstance(client, Exception):
        raise client
    return client


def _why_unreachable(scheduler: str | DaskCluster, error: Exception) -> str:
    """Say why a scheduler could not be reached, as far as that is known."""
    if isinstance(scheduler, str) and scheduler.startswith("tls://"):
        if isinstance(error, FileNotFoundError):
            return f"a file of certificates does not exist; {CERTIFICATES}"
        if isinstance(error, TypeError):
            return f"tls:// needs certificates; {CERTIFICATES}"
        if isinstance(error, ssl.SSLError):
            return f"a certificate is no good ({error.reason or error}); {CERTIFICATES}"
        return f"no scheduler answers, or not to these certificates; {CERTIFICATES}"
    if isinstance(scheduler, str) and isinstance(error, ValueError):
        return f"no scheduler answers; {_what_is_expected(scheduler)}"
    if isinstance(error, OSError | ValueError | TimeoutError):
        return "no scheduler answers"
    return f"no scheduler can be reached so ({type(error).__name__})"


def _what_is_expected(scheduler: str) -> str:
    """Say what to give in place of a text that is no address."""
    if os.path.exists(scheduler):  # of a Path too long names are an error
        return "this is a file, as --scheduler-file takes"
    page = ", not that of its dashboard" if scheduler.startswith("http") else ""
    return f"expected its address, as tcp://10.0.0.1:8786{page}"
