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
# Seconds between two looks at who is heard of, and that one may take to say what it does.
LISTEN_EVERY = 1.0
ASK_FOR = 5.0
PAUSED = "paused by Dask, as its memory is near its limit (--memory-limit of `dask worker`)"
BUSY = "busy with other tasks"
# Workers named in one line, of those that are not used for the same reason.
NAMED = 5


class Heard:
    """What the scheduler hears of workers: since when nothing new, and who is paused.

    Parameters
    ----------
    pool : Pool
        The workers.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._last: dict[str, tuple[Any, float]] = {}  # what was last seen of a worker, and since
        self.full: set[str] = set()  # all threads at something, while more waits for them

    def away(self, now: float, after: float) -> dict[str, str]:
        """Return the workers that are paused, or of which nothing is heard so long, and which.

        Raises
        ------
        InputError
            If the scheduler is gone.
        """
        before, self._last, self.full = self._last, {}, set()
        away = {}
        for address, about in self._about().items():
            last, earlier = about.get("last_seen"), before.get(address)
            self._last[address] = earlier if earlier and earlier[0] == last else (last, now)
            if now - self._last[address][1] >= after:
                away[address] = f"not heard of for {after:.0f} s (frozen, or cut off?)"
            elif about.get("status") == "paused":
                away[address] = PAUSED
            elif _is_full(about):
                self.full.add(address)
        return away

    def _about(self) -> dict[str, dict[str, Any]]:
        client = self._pool.client
        try:
            try:
                found: dict[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
            except TypeError:  # of a Dask that tells of all workers anyway
                found = client.scheduler_info()["workers"]
        except Exception as error:
            raise self._pool.gone() from error
        return found


def _is_full(about: dict[str, Any]) -> bool:
    """Whether all threads of a worker do something, and something else waits for one of them."""
    tasks = about.get("metrics", {}).get("task_counts", {})
    return bool(tasks.get("ready")) and tasks.get("executing", 0) >= about.get("nthreads", 1)


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
        self._heard = Heard(self._pool)
        self._away: dict[str, str] = {}
        self._listened: float | None = None

    def look(self, now: float) -> None:
        """Note whether a worker can be used.

        Raises
        ------
        InputError
            If none could be for too long, and none of those that are there is about to.
        """
        pool = self._pool
        if pool.usable.keys() - pool.paused:
            self._begin()
            return
        if self._since is None:
            self._since = now
        waited = now - self._since
        self._listen(now)
        if self._most is not None and waited >= self._most and not self._any_to_come():
            self._listened = None  # what they did a second ago does not decide
            self._listen(now)
            if not self._any_to_come():
                raise InputError(f"{pool.where}: no worker {self._why_none(self._most)}")
        awaited = pool.what_is_awaited()
        for why in (BUSY, PAUSED):
            these = [address for address, found in self._away.items() if found == why]
            if these and not self._any_to_come():
                awaited = f"waiting for {few(these)}: {why}"
        # Of those that were used and are paused now, `silence.Silence` tells.
        if waited >= pool.patience and awaited != self._told and not pool.usable:
            self._told = awaited
            pool.tell(f"{pool.where}: {awaited}")

    def _listen(self, now: float) -> None:
        """Note which of the workers that may be used are paused, frozen, cut off, or busy."""
        some = any(not worker.refused for worker in self._pool.workers.values())
        if some and (self._listened is None or now - self._listened >= LISTEN_EVERY):
            self._listened = now
            self._away = self._heard.away(now, SILENT_AFTER)
            self._away |= dict.fromkeys(self._kept_waiting(self._heard.full), BUSY)

    def _kept_waiting(self, full: set[str]) -> set[str]:
        """Return the workers that are to answer, all of whose threads are at something else."""
        workers = self._pool.workers
        asked = {a: workers[a].answer for a in full if a in workers}
        keys = {answer.key: address for address, answer in asked.items() if answer is not None}
        if not keys:
            return set()
        client = self._pool.client
        try:
            stacks = client.sync(
                client.scheduler.call_stack, keys=list(keys), callback_timeout=ASK_FOR
            )
        except Exception:  # of many types; what they do is not known then
            return set()
        begun = {key for found in stacks.values() for key in found}
        return {address for key, address in keys.items() if key not in begun}

    def _any_to_come(self) -> bool:
        """Whether a worker is to answer yet, or loads the kernel, however long that takes."""
        return any(
            not worker.refused
            and self._away.get(address) not in (PAUSED, BUSY)
            and (worker.asked or address not in self._away)
            for address, worker in self._pool.workers.items()
        )

    def _why_none(self, seconds: float) -> str:
        """Say how long there was none, and why those that are there are none."""
        reasons = {
            address: worker.refused or self._away[address]
            for address, worker in self._pool.workers.items()
        }
        those = "that can be used " if reasons else ""
        return f"{those}for {seconds:g} s{': ' if reasons else ''}{named(reasons)}"


def few(addresses: list[str]) -> str:
    """Return some addresses, and how many more there are."""
    more = f" and {len(addresses) - NAMED} more" if len(addresses) > NAMED else ""
    return ", ".join(addresses[:NAMED]) + more


def named(reasons: Mapping[str, str]) -> str:
    """Return some workers with the reasons why they are not used, and how many more there are."""
    shown = [f"{address}: {reason}" for address, reason in list(reasons.items())[:NAMED]]
    more = len(reasons) - len(shown)
    return "; ".join(shown) + (f"; and {more} more" if more else "")
