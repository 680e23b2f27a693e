"""Workers that do nothing: frozen, cut off from the scheduler, or paused by Dask."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from kvsweep.workers.idleness import PAUSED, SILENT_AFTER, Heard, few

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from distributed import Client, Future

    from kvsweep.workers.pool import Pool

# Seconds without a finished task after which workers that are silent are looked for, and between
# two looks.
STALLED_AFTER = 5.0
LOOK_EVERY = 1.0
# Seconds between two calls after which nobody counts as silent yet: this process stood still itself
# (Ctrl-Z, say), or was at something else, and has heard of nobody.
PAUSE = 5.0


class Silence:
    """What names the workers of a pool that are silent, each once, and keeps new tasks from them.

    Parameters
    ----------
    pool : Pool
        The workers.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._heard = Heard(pool)
        self._told: set[str] = set()  # of workers that were paused
        self._paused: dict[str, float] = {}  # since when workers are, without a break
        self._looked = -math.inf
        self._called = time.monotonic()
        self.heard()

    def heard(self) -> None:
        """Note that a task has finished."""
        self._last = time.monotonic()

    def look(self) -> bool:
        """Look for silent workers, if no task has finished for a while or some were silent before.

        Returns
        -------
        bool
            Whether it looked, and there are some.
        """
        now, known = time.monotonic(), self._pool.silent
        if now - self._called > PAUSE:
            self._heard = Heard(self._pool)
            self.heard()
        self._called = now
        stalled = now - self._last >= STALLED_AFTER
        if not (stalled or known) or now - self._looked < LOOK_EVERY:
            return False
        self._looked = now
        away = self._lasting(self._heard.away(now, SILENT_AFTER), now)
        self._pool.silent = away
        usable = self._pool.usable
        # A pause that others make up for is told once; one for which all stands still, each time.
        still = usable and not usable.keys() - away.keys()
        told = dict.fromkeys(() if still else self._told, PAUSED) | known
        new = {a: why for a, why in away.items() if told.get(a) != why}
        for why in dict.fromkeys(new.values()):
            these = sorted(address for address in new if new[address] == why)
            are = "worker {} is" if len(these) == 1 else "workers {} are"
            self._pool.tell(f"{are.format(few(these))} {why}; {self._pool.leave(away)}")
            self._told.update(these if why == PAUSED else ())
        return bool(away)

    def _lasting(self, away: dict[str, str], now: float) -> dict[str, str]:
        """Leave out workers that Dask has paused for a moment, as it does again and again."""
        before = self._paused
        self._paused = {a: before.get(a, now) for a, why in away.items() if why == PAUSED}
        short = {a for a, since in self._paused.items() if now - since < SILENT_AFTER}
        return {a: why for a, why in away.items() if a not in short}


def keys_of(client: Client, workers: Iterable[str]) -> set[str]:
    """Return the keys of what workers do, and of what they have."""
    names = list(workers)
    found = (*client.processing(names).values(), *client.has_what(names).values())
    return {key for keys in found for key in keys}


def waiting_for(client: Client, keys: set[str], jobs: Mapping[Future, Future]) -> list[Future]:
    """Return tasks, by their job, that wait for one of `keys`, but are none themselves.

    The job is computed there; or it is on its way from there to another worker, which asks no
    other, even if others have it too.
    """
    open_ = {t: job for t, job in jobs.items() if job.key in keys and t.key not in keys}
    if not open_:
        return []
    holders = client.who_has(list(set(open_.values())))
    runs_on = {key: name for name, found in client.processing().items() for key in found}
    return [
        task
        for task, job in open_.items()
        if not task.done() and runs_on.get(task.key) not in holders.get(job.key, ())
    ]
