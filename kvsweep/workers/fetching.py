"""What tasks gave, fetched so that what a frozen worker has does not hold up the rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queue import SimpleQueue

    from distributed import Client, Future

# Seconds that results may take from the workers that have them; then the tasks are sent again.
FETCH_TIMEOUT = 75.0
# Questions for results at once; what is there by the next one is asked for together.
AT_ONCE = 5


class Fetching:
    """What fetches results; meanwhile whoever waits for others goes on.

    `Client.gather` asks as often, but not without one of those that it began to ask for: what
    workers have that are well would come after what a frozen one has.

    Parameters
    ----------
    client : Client
        Of the scheduler.
    done : SimpleQueue
        Where futures go that are done, with what they gave; with None if that is nothing, or
        could not be fetched.
    """

    def __init__(self, client: Client, done: SimpleQueue[tuple[Future, Any]]) -> None:
        self._client = client
        self._done = done
        self._waiting: list[Future] = []
        self._asked: dict[asyncio.Future[None], list[Future]] = {}

    def bring(self, future: Future) -> None:
        """Fetch what a task gave, if it did: to be called when it is done."""
        if future.status == "finished":
            self._client.loop.add_callback(self._add, future)
        else:
            self._done.put((future, None))

    def leave(self, future: Future) -> None:
        """Fetch it no more; what was asked for with it is asked for again."""
        self._client.loop.add_callback(self._remove, future)

    def _add(self, future: Future) -> None:
        self._waiting.append(future)
        self._begin()

    def _remove(self, future: Future) -> None:
        if future in self._waiting:
            self._waiting.remove(future)
        for question in [q for q, futures in self._asked.items() if future in futures]:
            question.cancel()
            self._waiting.extend(f for f in self._asked.pop(question) if f is not future)
        self._begin()

    def _begin(self) -> None:
        about_to = not all(self._asked.values())  # begin, and takes what else comes until then
        if self._waiting and len(self._asked) < AT_ONCE and not about_to:
            asked: list[Future] = []
            self._asked[asyncio.ensure_future(self._ask(asked))] = asked

    async def _ask(self, futures: list[Future]) -> None:
        futures.extend(self._waiting)
        self._waiting.clear()
        keys = [future.key for future in futures]
        data: dict[str, Any] = {}
        try:
            found = self._client.scheduler.gather(keys=keys)
            answer = await asyncio.wait_for(found, FETCH_TIMEOUT)
            data = answer.get("data", {})
            keys = answer.get("keys", keys)  # of all, those that are lost
        except (Exception, asyncio.CancelledError):  # of many types, by what was lost first
            pass
        this = asyncio.current_task()
        if this is None or self._asked.pop(this, None) is None:
            return  # its futures wait for another question
        for future in futures:
            if future.key in data or future.key in keys:
                self._done.put((future, data.get(future.key)))
            else:
                self._waiting.append(future)
        self._begin()
