"""What the page's server answers, once name, origin and token are right."""

from __future__ import annotations

import hmac
import json
from typing import TYPE_CHECKING, Any

from tornado.ioloop import IOLoop
from tornado.web import HTTPError, RequestHandler
from tornado.websocket import WebSocketClosedError, WebSocketHandler

from kvsweep.errors import InputError
from kvsweep.explorer import pages
from kvsweep.explorer.hello import hello
from kvsweep.explorer.messages import parse_message
from kvsweep.explorer.subject import MAX_PAGES
from kvsweep.explorer.worker import Worker

if TYPE_CHECKING:
    from kvsweep.explorer.server import Server

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


class Guarded(RequestHandler):
    """Refuses requests to another name, and without the token."""

    def initialize(self, server: Server, hosts: set[str], **options: str) -> None:
        """Take what the server gives each handler."""
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

    def log_exception(self, *error: Any) -> None:
        """Be silent about what is refused: the line would have the token that was given."""
        if not isinstance(error[1], HTTPError):
            super().log_exception(*error)

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Answer in a line, without a traceback."""
        self.set_header("Content-Type", "text/plain; charset=utf-8")
        refused = "kvsweep explore: refused; open the whole address that the command printed"
        self.finish(f"{refused if status_code == 403 else f'kvsweep explore: {status_code}'}\n")


class Nothing(Guarded):
    """All other addresses."""

    needs_token = False

    def prepare(self) -> None:
        """There is nothing."""
        raise HTTPError(404)


class PageFile(Guarded):
    """A file of the page."""

    @property
    def needs_token(self) -> bool:
        """Only the page itself needs it."""
        return self._options["file"] == "index.html"

    def get(self) -> None:
        """Send the file."""
        name = self._options["file"]
        self.set_header("Content-Type", f"{self._options['kind']}; charset=utf-8")
        made = {"style.css": pages.style, "explore.js": pages.script}
        self.finish(made[name]() if name in made else pages.text(name))


class Socket(Guarded, WebSocketHandler):
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
