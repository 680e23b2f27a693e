"""The page on loopback: a few files and one websocket, for whoever has the token.

What comes in is checked before it is looked at: the name by which the machine was called (`Host`,
so that no other site's name leads here), where a websocket was opened from (`Origin`), the token.
"""

from __future__ import annotations

import asyncio
import errno
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.web import Application

from kvsweep.errors import InputError
from kvsweep.explorer.handlers import Nothing, PageFile, Socket
from kvsweep.explorer.hello import first_request
from kvsweep.explorer.messages import MAX_MESSAGE
from kvsweep.explorer.worker import Worker

if TYPE_CHECKING:
    from kvsweep.explorer.subject import Subject

SCRIPT = "text/javascript"

ADDRESS = "127.0.0.1"
"""The only address that is listened on."""


class Server:
    """Serves one subject, until `close`; made in a running event loop.

    Parameters
    ----------
    subject : Subject
        What is explored.
    port : int
        0: any that is free.

    Raises
    ------
    InputError
        If the port is in use or not allowed.
    """

    def __init__(self, subject: Subject, port: int = 0) -> None:
        self.subject = subject
        self.token = secrets.token_urlsafe(24)
        self.workers: set[Worker] = set()
        try:
            listening = socket.create_server((ADDRESS, port))
        except OSError as error:
            raise InputError(f"--port {port}: {_why(error)}") from None
        listening.setblocking(False)
        self.port: int = listening.getsockname()[1]
        names = {f"{name}:{self.port}" for name in (ADDRESS, "localhost")}
        options = {"server": self, "hosts": names}
        self._http = HTTPServer(
            Application(
                [
                    ("/", PageFile, options | {"file": "index.html", "kind": "text/html"}),
                    ("/style.css", PageFile, options | {"file": "style.css", "kind": "text/css"}),
                    ("/explore.js", PageFile, options | {"file": "explore.js", "kind": SCRIPT}),
                    ("/socket", Socket, options),
                ],
                default_handler_class=Nothing,
                default_handler_args=options,
                websocket_max_message_size=MAX_MESSAGE,
                log_function=lambda handler: None,
            ),
            max_header_size=2**14,
            max_body_size=0,
        )
        self._http.add_socket(listening)

    @property
    def url(self) -> str:
        """The page's address, with the token."""
        return f"http://{ADDRESS}:{self.port}/?token={self.token}"

    def prepare(self) -> None:
        """Begin with the first answer, so that it is there when the page asks for it."""
        worker = Worker(self.subject, lambda answer: self._prepared(worker, answer))
        self.workers.add(worker)
        worker.ask(first_request(self.subject))

    def _prepared(self, worker: Worker, answer: dict[str, Any]) -> None:
        if answer["kind"] != "working":
            worker.close()
            self.workers.discard(worker)

    def close(self) -> None:
        """Stop serving and end all work."""
        self._http.stop()
        for worker in list(self.workers):
            worker.close()
        self.workers.clear()

    async def end(self) -> None:
        """Close, and whatever is still connected too: browsers keep connections for later."""
        self.close()
        await self._http.close_all_connections()


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "is in use; another, or none for any that is free, will do"
    return f"cannot be listened on: {error.strerror or error}"


def serve(subject: Subject, port: int, ready: Callable[[Server], None]) -> None:
    """Serve until interrupted.

    Parameters
    ----------
    subject, port
        As of `Server`.
    ready : callable (Server)
        Called once it listens.
    """

    async def run() -> None:
        server = Server(subject, port)
        try:
            server.prepare()
            ready(server)
            await asyncio.Event().wait()
        finally:
            await server.end()

    asyncio.run(run())
