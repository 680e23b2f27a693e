"""What is told, and when it is given up, while no worker of a pool can be used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvsweep.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kvsweep.workers.pool import Pool

# Seconds of silence after which a worker is not counted on. They are heard of at least every other
# second, whatever they compute.
SILENT_AFTER = 10.0
# Seconds between two looks at who is heard of.
LISTEN_EVERY = 1.0
# Workers named in one line, of those that are not used for the same reason.
NAMED = 5


class Heard:
    """Since when nothing new is heard of workers."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Any, float]] = {}  # what was last seen of a worker, and since

    def silent(self, seen: Mapping[str, Any], now: float, after: float) -> set[str]:
        """Note what is seen of workers now; return those of which it is old news so long."""
        before, self._last = self._last, {}
        for address, last in seen.items():
            earlier = before.get(address)
            self._last[address] = earlier if earlier and earlier[0] == last else (last, now)
        return {a for a, (_, since) in self._last.items() if now - since >= after}


class Idleness:
    """What tells the user of a pool what it waits for, each thing once, and gives up in the end.

    Parameters
    ----------
    pool : Pool
        The workers.
    most : float, optional
        Seconds to wait while there is no worker; without limit if not given.
    """

    def __init__(self, pool: Pool, most: float | None) -> None:
        self._pool = pool
        self._most = most
        self._begin()

    def _begin(self) -> None:
        self._since: float | None = None
        self._told = ""
        self._heard = Heard()
        self._silent: set[str] = set()
        self._listened: float | None = None

    def look(self, now: float) -> None:
        """Note whether a worker can be used.

        Raises
        ------
        InputError
            If none could be for too long, and none of those that are there is about to.
        """
        pool = self._pool
        if pool.usable:
            self._begin()
            return
        if self._since is None:
            self._since = now
        waited = now - self._since
        if self._most is not None:
            self._listen(now)
            if waited >= self._most and not self._any_to_come():
                raise InputError(f"{pool.where}: no worker {self._why_none()}")
        awaited = pool.what_is_awaited()
        if waited >= pool.patience and awaited != self._told:
            self._told = awaited
            pool.tell(f"{pool.where}: {awaited}")

    def _listen(self, now: float) -> None:
        """Note which of the workers that have not answered yet are frozen, or cut off."""
        unasked = any(not w.asked and not w.refused for w in self._pool.workers.values())
        if unasked and (self._listened is None or now - self._listened >= LISTEN_EVERY):
            self._listened = now
            self._silent = self._heard.silent(self._pool.last_seen(), now, SILENT_AFTER)

    def _any_to_come(self) -> bool:
        """Whether a worker is to answer yet, or loads the kernel, however long that takes."""
        return any(
            not worker.refused and (worker.asked or address not in self._silent)
            for address, worker in self._pool.workers.items()
        )

    def _why_none(self) -> str:
        """Say how long there was none, and why those that are there are none."""
        reasons = {
            address: worker.refused or "not heard of (frozen, or cut off?)"
            for address, worker in self._pool.workers.items()
        }
        those = "that can be used " if reasons else ""
        return f"{those}for {self._most:g} s{': ' if reasons else ''}{named(reasons)}"


def few(addresses: list[str]) -> str:
    """Return some addresses, and how many more there are."""
    more = f" and {len(addresses) - NAMED} more" if len(addresses) > NAMED else ""
    return ", ".join(addresses[:NAMED]) + more


def named(reasons: Mapping[str, str]) -> str:
    """Return some workers with the reasons why they are not used, and how many more there are."""
    shown = [f"{address}: {reason}" for address, reason in list(reasons.items())[:NAMED]]
    more = len(reasons) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
