"""Results are fetched one by one, on an event loop without a scheduler."""

import asyncio
from queue import SimpleQueue

import pytest

from kvsweep.workers.fetching import AT_ONCE, Fetching


class Client:
    """One whose scheduler waits for what is named after a frozen worker."""

    def __init__(self):
        self.loop = self.scheduler = self

    def add_callback(self, function, *args):
        begun = function(*args)
        if begun is not None:
            asyncio.get_running_loop().create_task(begun)

    async def gather(self, keys):
        if any(key.startswith("frozen") for key in keys):
            await asyncio.Event().wait()
        lost = [key for key in keys if key.startswith("lost")]
        if lost:
            return {"status": "error", "keys": lost}
        return {"status": "OK", "data": {key: f"of {key}" for key in keys}}


class Future:
    """What was sent."""

    def __init__(self, key, status):
        self.key, self.status = key, status


@pytest.fixture
def fetched():
    """Fetch what futures gave, some after the others, and leave some; return what came."""

    def fetch(*asked, left=()):
        done = SimpleQueue()

        async def begin():
            fetching = Fetching(Client(), done)
            for some in asked:
                for future in some:
                    fetching.bring(future)
                for _ in range(5):
                    await asyncio.sleep(0)
            for future in left:
                fetching.leave(future)
            for _ in range(50):
                await asyncio.sleep(0)
            return {future.key: results for future, results in iter(done_by_now, None)}

        def done_by_now():
            return None if done.empty() else done.get()

        return asyncio.run(begin())

    return fetch


def futures(*keys, status="finished"):
    return [Future(key, status) for key in keys]


def test_what_a_worker_gave_does_not_wait_for_one_that_is_frozen(fetched):
    assert fetched(futures("frozen"), futures("well")) == {"well": "of well"}


@pytest.mark.parametrize("count", [1, 3 * AT_ONCE])
def test_who_is_left_has_no_turn(fetched, count):
    """Else nothing comes once a frozen worker is in as many questions as there are at once."""
    frozen = futures(*(f"frozen {i}" for i in range(count)))
    well = futures(*(f"well {i}" for i in range(count)))
    found = fetched(*([a, b] for a, b in zip(frozen, well, strict=True)), left=frozen)
    assert found == {future.key: f"of {future.key}" for future in well}


def test_what_is_lost_is_nothing_and_the_rest_is_asked_for_again(fetched):
    assert fetched(futures("lost", "well")) == {"lost": None, "well": "of well"}
    assert fetched(futures("failed", status="error")) == {"failed": None}


def test_what_is_done_at_the_same_time_is_asked_for_together(fetched, monkeypatch):
    questions = []
    gather = Client.gather

    async def counted(self, keys):
        questions.append(keys)
        return await gather(self, keys)

    monkeypatch.setattr(Client, "gather", counted)
    fetched(futures("a", "b", "c"))
    assert questions == [["a", "b", "c"]]
