"""For tests of the explorer: requests as a page sends them, and a page's server in a thread."""

import asyncio
import queue
import threading
from contextlib import contextmanager

from kvsweep.explorer.messages import read_message
from kvsweep.explorer.server import Server
from kvsweep.explorer.worker import Worker

MEASURES = ["preemption_rate", "ttft_p99_ms"]
LONG = 60.0  # seconds after which a test fails instead of waiting for ever


def show(generation, *scenarios, along="gpu_blocks", measures=MEASURES, threshold=0.5):
    return read_message(
        {
            "kind": "show",
            "generation": generation,
            "along": along,
            "measures": list(measures),
            "threshold": threshold,
            "scenarios": list(scenarios or ({},)),
        }
    )


def life(generation, settings, value, seed=0, along="gpu_blocks"):
    return read_message(
        {
            "kind": "life",
            "generation": generation,
            "along": along,
            "settings": settings,
            "value": value,
            "seed": seed,
        }
    )


def save(what, scenario=0, generation=0):
    return read_message(
        {"kind": "save", "generation": generation, "what": what, "scenario": scenario}
    )


class Listener:
    """A worker and what it has delivered."""

    def __init__(self, subject):
        self.answers = queue.Queue()
        self.worker = Worker(subject, self.answers.put)

    def until(self, kind, generation, *, done=True):
        """Return the answers up to the last one to a request."""
        found = []
        while True:
            found.append(self.answers.get(timeout=LONG))
            last = found[-1]
            assert kind == "refused" or last["kind"] != "refused", last["text"]
            is_whole = kind != "curves" or last.get("done") or not done
            if last["kind"] == kind and last["generation"] == generation and is_whole:
                return found

    def ask(self, message):
        self.worker.ask(message)

    def close(self):
        self.worker.close()
        assert self.worker.join(LONG)


@contextmanager
def listening(subject):
    listener = Listener(subject)
    try:
        yield listener
    finally:
        listener.close()


@contextmanager
def served(subject):
    """Serve a subject from another thread; gives the server."""
    ready = queue.Queue()

    async def run():
        server = Server(subject)
        end = asyncio.Event()
        server.prepare()
        ready.put((server, asyncio.get_running_loop(), end))
        await end.wait()
        await server.end()

    thread = threading.Thread(target=asyncio.run, args=(run(),), daemon=True)
    thread.start()
    server, loop, end = ready.get(timeout=LONG)
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(end.set)
        thread.join(LONG)
