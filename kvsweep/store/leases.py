"""One run at a time writes a store in a bucket: leases beside it, which their runs renew.

A bucket has no locks, and nothing tells it that a process has died. So a run puts an object beside
the store, if there is none (a conditional write, ``If-None-Match``), and writes a new number into
it every few seconds. Whoever finds one watches it: if the number changes, its run lives; if it does
not for `DEAD_AFTER`, the lease is taken over. No two clocks are compared.

Should a run that was thought dead go on, it finds its lease taken and ends. What it writes before
is what the other one writes too: equal sweeps give equal objects.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from threading import Event, Thread

from kvsweep.addresses import Address
from kvsweep.errors import InputError
from kvsweep.store.bucket import Bucket
from kvsweep.store.connection import RemoteError
from kvsweep.store.folders import hidden
from kvsweep.store.lock import BusyError, UnlockableError, has_ended, here

# Seconds between two renewals, and without any after which the process of a lease counts as dead;
# between two looks at somebody else's, and after which the user is told what is waited for.
RENEW_EVERY = 3.0
DEAD_AFTER = 30.0
WATCH_EVERY = 0.5
TELL_AFTER = 5.0
STORE = "store"
_SHARED = "shared-"

_held: dict[Address, Lease] = {}


def check(address: Address) -> None:
    """See that the lease of a store that this process fills was not taken over.

    Raises
    ------
    RemoteError
        If it was.
    """
    lease = _held.get(address)
    if lease is not None and lease.lost:
        raise RemoteError(
            f"{address}: {lease.lost}",
            f"{lease.lost}, which took this run for dead: it had not been heard of for "
            f"{DEAD_AFTER:g} s",
        )


@contextmanager
def held(
    address: Address, ending: str = "lock", *, shared: bool = False, patience: float = 0.0
) -> Iterator[None]:
    """Keep other runs from writing the store at `address` for the length of the block.

    Parameters
    ----------
    address : Address
        The store.
    ending, shared, patience
        As for `lock.locked`.

    Raises
    ------
    BusyError
        If another run writes it, which is named.
    UnlockableError
        If nothing may be written beside it.
    RemoteError
        If nothing can be, for another reason.
    """
    name = STORE if ending == "lock" else ending.removesuffix(".lock")
    name = f"{_SHARED}{token_hex(4)}" if shared else name
    lease = Lease(address, name)
    last = time.monotonic() + patience
    while not _taken(lease):
        if time.monotonic() >= last:
            raise BusyError(
                f"{address}: {_words(lease.other)} is writing it; wait for its end, or name "
                "another store"
            )
        time.sleep(WATCH_EVERY)
    before = _held.get(address)
    _held[address] = lease
    try:
        with lease.renewed():
            yield
    finally:
        _held.pop(address)
        if before is not None:
            _held[address] = before


def _taken(lease: Lease) -> bool:
    try:
        return lease.take()
    except RemoteError as error:
        if isinstance(error.__cause__, PermissionError):
            raise UnlockableError(str(error)) from error
        raise


class Lease:
    """An object that says who writes a store.

    Parameters
    ----------
    address : Address
        The store.
    name : str
        Of the lease: of the whole store, of one share, or with others that have theirs.

    Attributes
    ----------
    lost : str
        Who took it over; empty if nobody did.
    other : bytes
        What the lease says that is in the way.
    """

    def __init__(self, address: Address, name: str) -> None:
        self._address = address
        self._name = name
        self._leases = Bucket(hidden(address, "leases"), owner=address)
        self._mine = f"{os.getpid()} {here()} {token_hex(8)}"
        self._number = 0
        self.lost = ""
        self.other = b""

    def take(self) -> bool:
        """Take it, unless somebody who lives has it, or one that excludes it."""
        while not self._leases.create(self._name, self._text()):
            if self._lives([self._name]):
                return False
        if self._leases.create(self._name, self._text(1)):
            logging.getLogger("kvsweep").warning(
                "%s: has no conditional writes: see to it that no other run writes it meanwhile",
                self._address,
            )
        if self._lives(self._excluding()):
            self._leases.delete(self._name)
            return False
        return True

    @contextmanager
    def renewed(self) -> Iterator[None]:
        """Renew it for the length of the block, in a thread, and give it back."""
        ended = Event()
        thread = Thread(target=self._renew, args=(ended,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            ended.set()
            thread.join(RENEW_EVERY)
            own = Bucket(self._leases.path, patience=0.0, owner=self._address)
            with suppress(InputError, OSError):
                if self._is_mine(own.get(self._name)):
                    own.delete(self._name)

    def _renew(self, ended: Event) -> None:
        own = Bucket(self._leases.path, patience=0.0, owner=self._address)
        while not ended.wait(RENEW_EVERY):
            with suppress(InputError, OSError):  # what cannot be reached now, perhaps later
                there = own.get(self._name)
                if there is not None and not self._is_mine(there):
                    self.lost = f"{_words(there)} writes it now"
                    return
                self._number += 1
                own.put(self._name, self._text())

    def _excluding(self) -> list[str]:
        """Return the names of the leases of others with which this one cannot be."""
        names = self._leases.names("")
        if self._name == STORE:
            return [name for name in names if name.startswith(_SHARED)]
        if self._name.startswith(_SHARED):
            return [name for name in names if name == STORE]
        return []

    def _lives(self, names: list[str]) -> bool:
        """Whether one of these leases has a run that lives; those that have none are removed."""
        began = looked = time.monotonic()
        told = False
        seen: dict[str, bytes] = {}
        while True:
            for name in names:
                there = self._leases.get(name)
                if there is None or _is_dead(there):
                    self._leases.delete(name)
                    seen.pop(name, None)
                    continue
                if seen.setdefault(name, there) != there or self._is_of_this_process(there):
                    self.other = there
                    return True
            names = list(seen)
            now = time.monotonic()
            if now - looked > WATCH_EVERY + RENEW_EVERY:
                began = now  # nobody could be heard of while the bucket did not answer
            looked, waited = now, now - began
            if not names or waited >= DEAD_AFTER:
                self._leases.delete_all([n for n in names if self._leases.get(n) == seen[n]])
                return False
            if waited >= TELL_AFTER and not told:
                told = True
                logging.getLogger("kvsweep").warning(
                    "%s: %s was writing it; waiting up to %.0f s for a sign of life",
                    self._address,
                    _words(seen[names[0]]),
                    DEAD_AFTER - waited,
                )
            time.sleep(WATCH_EVERY)

    def _is_of_this_process(self, there: bytes) -> bool:
        lease = _held.get(self._address)
        return lease is not None and lease._is_mine(there)

    def _is_mine(self, there: bytes | None) -> bool:
        return there is not None and there.decode(errors="replace").startswith(self._mine)

    def _text(self, more: int = 0) -> bytes:
        return f"{self._mine} {self._number + more}".encode()


def _is_dead(there: bytes) -> bool:
    number, _, rest = there.decode(errors="replace").partition(" ")
    return has_ended(number, rest.partition(" ")[0])


def _words(there: bytes) -> str:
    number, _, rest = there.decode(errors="replace").partition(" ")
    host = rest.partition("/")[0]
    return f"process {number} on {host}" if host else "another process"
