"""The page on loopback: a few files and one websocket, for whoever has the token.

What comes in is checked before it is looked at: the name by which the machine was called (`Host`,
so that no other site's name leads here), where a websocket was opened from (`Origin`), the token.
"""

from __future__ import annotations

import asyncio
import errno
import hmac
import json
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import Application, HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from kvsweep.errors import InputError
from kvsweep.explorer import pages
from kvsweep.explorer.hello import first_request, hello
from kvsweep.explorer.messages import MAX_MESSAGE, parse_message
from kvsweep.explorer.worker import Worker

if TYPE_CHECKING:
    from kvsweep.explorer.subject import Subject

ADDRESS = "127.0.0.1"
"""The only address that is listened on."""

HEADERS = {
    # Nothing from elsewhere, nothing inline, in no frame; the token goes to no other site.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

MAX_PAGES = 8
"""Pages that are open at once."""


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
                    ("/", _Page, options | {"file": "index.html", "kind": "text/html"}),
                    ("/style.css", _Page, options | {"file": "style.css", "kind": "text/css"}),
                    ("/explore.js", _Page, options | {"file": "", "kind": "text/javascript"}),
                    ("/socket", _Socket, options),
                ],
                default_handler_class=_Nothing,
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


def _why(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "is in use; another, or none for any that is free, will do"
    return f"cannot be listened on: {error.strerror or error}"


class _Guarded(RequestHandler):
    """Refuses requests to another name, and without the token."""

    def initialize(self, server: Server, hosts: set[str], **options: str) -> None:
        self._server = server
        self._hosts = hosts
        self._options = options

    def set_default_headers(self) -> None:
        """Say what the browser may do with the page: very little."""
        self.clear_header("Server")
        for name, value in HEADERS.items():
            self.set_header(name, value)

    def prepare(self) -> None:
        """Check name and token before anything else."""
        if self.request.host not in self._hosts:
            raise HTTPError(403, "another host")
        if self.needs_token:
            given = self.get_query_argument("token", "")
            if not hmac.compare_digest(given.encode(), self._server.token.encode()):
                raise HTTPError(403, "no token, or a wrong one")

    @property
    def needs_token(self) -> bool:
        """Whether the token is needed: style and script are the same for all, and published."""
        return True

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer in a line, without a traceback."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        refused = "kvsweep explore: refused; open the whole address that the command printed"
        self.finish(f"{refused if status_code == 403 else f'kvsweep explore: {status_code}'}\n")


class _Nothing(_Guarded):
    """All other addresses."""

    needs_token = False

    def prepare(self) -> None:
        """There is nothing."""
        raise HTTPError(404)


class _Page(_Guarded):
    """A file of the page."""

    @property
    def needs_token(self) -> bool:
        """Only the page itself needs it."""
        return self._options["file"] == "index.html"

    def get(self) -> None:
        """Send the file."""
        name = self._options["file"]
        self.set_header("Content-Type", f"{self._options['kind']}; charset=utf-8")
        self.finish(pages.text(name) if name else pages.script())


class _Socket(_Guarded, WebSocketHandler):
    """A page that is open: its worker lives as long."""

    _worker: Worker | None = None

    def check_origin(self, origin: str) -> bool:
        """Allow the page itself only. Not all versions of tornado ask this of every request."""
        return origin == f"http://{self.request.host}"

    def prepare(self) -> None:
        """Refuse whoever comes from elsewhere, or does not say where from; browsers always do."""
        super().prepare()
        if not self.check_origin(self.request.headers.get("Origin", "")):
            raise HTTPError(403, "another origin")
        if len(self._server.workers) >= MAX_PAGES:
            raise HTTPError(503, f"{MAX_PAGES} pages are open")

    def open(self, *args: str, **kwargs: str) -> None:
        """Say what there is, and begin to work."""
        loop = IOLoop.current()
        self._worker = Worker(
            self._server.subject,
            lambda answer: loop.add_callback(self._send, answer),
        )
        self._server.workers.add(self._worker)
        self._send(hello(self._server.subject))

    def on_message(self, message: str | bytes) -> None:
        """Take a request; one that is none is refused and told."""
        assert self._worker is not None  # `open` comes first
        try:
            if isinstance(message, bytes):
                raise InputError("page: expected text")
            self._worker.ask(parse_message(message))
        except InputError as error:
            self._send({"kind": "refused", "generation": -1, "text": str(error)})

    def on_close(self) -> None:
        """End the work."""
        if self._worker is not None:
            self._worker.close()
            self._server.workers.discard(self._worker)

    def _send(self, answer: dict[str, Any]) -> None:
        try:
            self.write_message(json.dumps(answer, allow_nan=False))
        except WebSocketClosedError:
            self.on_close()


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
            server.close()

    asyncio.run(run())
