"""What makes an adaptive cluster start workers: tasks that it sees, and nobody does."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from distributed import Client, Future

# Tasks to come that a scheduler is shown at most, of how ever many.
MOST = 100
# What a worker would need for them; none has it.
NOWHERE = {"kvsweep-nowhere": 1}


class Demand:
    """Tasks that stand for those that are not sent yet.

    Few of a sweep's tasks are sent at a time, to workers by name. Dask's `Adaptive` counts what is
    on the scheduler: it would start no worker for a sweep that waits for one, and few for others.

    Parameters
    ----------
    client : Client
        Of the scheduler.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._shown: list[Future] = []

    def show(self, tasks: int, name: str = "kvsweep") -> None:
        """Let the scheduler see that so many tasks are to come, `MOST` at most.

        Those whose names begin alike are taken to last as long as each other.
        """
        tasks = min(tasks, MOST)
        with suppress(Exception):  # the scheduler may be gone; whoever needs it finds out
            while len(self._shown) > tasks:
                self._shown.pop().release()
            if len(self._shown) < tasks:
                keys = [f"{name}-{uuid4().hex}" for _ in range(tasks - len(self._shown))]
                self._shown += self._client.map(id, keys, key=keys, resources=NOWHERE, pure=False)
