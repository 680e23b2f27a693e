"""The workers of a scheduler, as they come and go: which of them may simulate, and how much."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from kvsweep import _cache, _plain
from kvsweep.errors import InputError
from kvsweep.workers.demand import Demand
from kvsweep.workers.handshake import QUESTION, own_answer, why_not
from kvsweep.workers.idleness import PAUSED, Idleness, few, named
from kvsweep.workers.remote_tasks import prepare

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from distributed import Client, Future

    from kvsweep.workers.job import Needs

# Seconds between two looks at who is there, and after which who waits is told for what.
LOOK_EVERY = 0.5
WAIT_EVERY = 0.02
TELL_AFTER = 2.0


@dataclass
class Worker:
    """A worker of the scheduler: asked first, then with its kernel loaded, then used, or refused.

    Attributes
    ----------
    threads : int
        Tasks it simulates at the same time.
    answer : Future or None
        Of the question, and then of loading the kernel; None when it is used or refused.
    asked : bool
        Whether the question is answered.
    refused : str
        Why it is not used; empty if it may be.
    """

    threads: int
    answer: Future | None
    asked: bool = False
    refused: str = ""


class Pool:
    """The workers of a client that give the numbers that this process would give.

    Parameters
    ----------
    client : Client
        A client of a scheduler.
    where : str
        What to call it in messages: ``--scheduler tcp://10.0.0.1:8786``.
    needs : Needs, optional
        What the workers need; without it, they are not asked for that.
    notify : callable (str), optional
        Called with a line for the user: who is not used, what is waited for. Else it is logged.
    wait : float, optional
        Seconds to wait while no worker can be used or is about to; without limit if not given.

    Attributes
    ----------
    workers : dict of str to Worker
        All of the scheduler's, by address.
    silent : dict of str to str
        Of these, the ones that are not heard of or paused, and which (`silence.Silence`).
    """

    patience = TELL_AFTER

    def __init__(
        self,
        client: Client,
        where: str,
        *,
        needs: Needs | None = None,
        notify: Callable[[str], None] | None = None,
        wait: float | None = None,
    ) -> None:
        self.client = client
        self.where = where
        self.tell = notify or logging.getLogger("kvsweep").warning
        self._needs = needs
        self._wanted = own_answer()
        self.workers: dict[str, Worker] = {}
        self.silent: dict[str, str] = {}
        self._looked = 0.0
        self.demand = Demand(client)
        self._idleness = Idleness(self, wait)

    @property
    def usable(self) -> dict[str, int]:
        """Threads of each worker that may simulate, by address; of silent ones if all are so."""
        found = {
            address: worker.threads
            for address, worker in self.workers.items()
            if worker.answer is None and not worker.refused
        }
        return {a: n for a, n in found.items() if a not in self.silent} or found

    @property
    def restriction(self) -> list[str] | None:
        """The workers that a task may run on, as `Client.submit` takes them."""
        return list(self.usable)

    def look(self, every: float = LOOK_EVERY) -> None:
        """Note which workers came, went or answered, if the last look is a while ago (seconds).

        Raises
        ------
        InputError
            If the scheduler is gone, or no worker could be used for too long.
        """
        now = time.monotonic()
        if now - self._looked < every:
            return
        self._looked = now
        self.meet(self.present())
        self._hear()
        self._idleness.look(now)

    def present(self) -> dict[str, int]:
        """Ask the scheduler for its workers, with their threads.

        Raises
        ------
        InputError
            If it is gone.
        """
        try:
            return dict(self.client.nthreads())
        except Exception as error:  # of many types, by what of the connection was lost first
            raise self.gone() from error

    def gone(self) -> InputError:
        """Return the error of a scheduler that does not answer any more."""
        return InputError(
            f"{self.where}: the scheduler is gone, or its connection lost; what was simulated is "
            "stored, and the same command goes on"
        )

    def wait(self) -> None:
        """Wait until there is a worker that may simulate.

        Raises
        ------
        InputError
            If those that are there may not, the scheduler is gone, or none came in time.
        """
        while not self.usable:
            self.look(every=0)
            self.demand.show(not self.workers, "kvsweep-first")
            refused = {a: w.refused for a, w in self.workers.items() if w.refused}
            if refused and len(refused) == len(self.workers):
                raise InputError(f"{self.where}: no worker can be used: {named(refused)}")
            time.sleep(WAIT_EVERY)

    def refuse(self, address: str, reason: str) -> None:
        """Use a worker no more."""
        if address in self.workers:
            self.workers[address].refused = reason
            self.tell(f"worker {address} is not used: {reason}")

    @property
    def paused(self) -> set[str]:
        """Of the silent workers those that Dask has paused, which end what they have begun."""
        return {address for address, why in self.silent.items() if why == PAUSED}

    def leave(self, silent: Mapping[str, str]) -> str:
        """Do what can be done about workers that have fallen silent, and say what that is."""
        if self.usable.keys() - silent.keys():
            return "others simulate what was to be done there"
        if set(silent.values()) == {PAUSED}:
            return "what is to be done there is waited for until Dask lets them go on"
        return (
            "what is to be done there is waited for until they are back, or Dask gives them up "
            "(distributed.scheduler.worker-ttl)"
        )

    def meet(self, present: dict[str, int]) -> None:
        """Forget workers that left, ask those that came."""
        for address in self.workers.keys() - present.keys():
            del self.workers[address]
        for address in present.keys() - self.workers.keys():
            answer = self._submit(address, "question", eval, QUESTION)
            self.workers[address] = Worker(present[address], answer)

    def _hear(self) -> None:
        """Take the answers that came."""
        refused: dict[str, list[str]] = defaultdict(list)
        for address, worker in self.workers.items():
            if worker.answer is None or not worker.answer.done():
                continue
            worker.refused = self._judge(worker.answer, asked=worker.asked)
            worker.answer = None
            if worker.refused:
                refused[worker.refused].append(address)
            elif self._needs and not worker.asked:
                worker.answer = self._submit(address, "kernel", prepare, *self._needs)
            worker.asked = True
        for reason, addresses in refused.items():
            are = "worker {} is" if len(addresses) == 1 else "workers {} are"
            self.tell(f"{are.format(few(addresses))} not used: {reason}")

    def _judge(self, answer: Future, *, asked: bool) -> str:
        """Say why the worker that gave this answer is not used; empty if it is."""
        if answer.status == "error":
            error = answer.exception()
            return f"{type(error).__name__}: {error}"
        if answer.status != "finished":
            return ""  # it left meanwhile
        found = answer.result()
        return str(found) if asked else why_not(found, self._wanted)

    def _submit(self, address: str, what: str, function: Callable[..., Any], *args: Any) -> Future:
        """Let one worker do something before all else."""
        key = f"kvsweep-{what}-{uuid4().hex}"
        return self.submit(function, *args, key=key, workers=[address], priority=100)

    def submit(self, function: Callable[..., Any], *args: Any, **options: Any) -> Future:
        """Send what workers are to do; a client that was closed meanwhile ends the run."""
        try:
            return self.client.submit(function, *args, pure=False, **options)
        except Exception as error:  # of Dask's own kind, which older releases do not have
            if self.client.status == "running":
                raise
            raise self.gone() from error

    def what_is_awaited(self) -> str:
        """Say what is waited for while no worker can be used."""
        used = [worker for worker in self.workers.values() if not worker.refused]
        if not used:
            return "no worker; waiting for one to come (Ctrl-C ends)"
        if any(worker.asked for worker in used):
            # How a worker compiles is its own affair: by numba's public means it takes longer.
            return (
                "workers load or compile the kernel (once for all that share a cache folder: "
                f"about {_cache.SECONDS} s, or {_plain.SECONDS} s by numba's public means)"
            )
        return "waiting for workers to answer"
