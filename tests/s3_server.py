"""An S3 server on loopback (moto's), and a way to it that breaks: processes of their own."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import closing, suppress
from http.client import HTTPConnection
from itertools import count
from pathlib import Path
from threading import Thread

KEYS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "hush",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
DENIED = b"""<?xml version="1.0"?><Error><Code>InvalidAccessKeyId</Code>
<Message>The AWS Access Key Id you provided does not exist</Message></Error>"""


class Server:
    """A server with a bucket ``kept``, behind a way that `way` starts and `cut` kills.

    The server keeps objects in memory: with its process they are lost (`lose`).
    """

    def __init__(self, folder: Path) -> None:
        self.mode = folder / "mode"
        self.mode.write_text("well")
        self._port, self._inner = free_port(), free_port()
        self.endpoint = f"http://127.0.0.1:{self._port}"
        self.direct = f"http://127.0.0.1:{self._inner}"  # where nothing is to break
        self.environment = {**KEYS, "AWS_ENDPOINT_URL": self.endpoint}
        self._server = self._way = None
        self.begin()
        self.way()
        self.request("PUT", "/kept")

    def begin(self) -> None:
        """Start the server, with nothing in it."""
        command = ["-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._inner)]
        self._server = started(command, self._inner)

    def way(self) -> None:
        """Start the way to the server."""
        arguments = [__file__, str(self._port), str(self._inner), str(self.mode)]
        self._way = started(arguments, self._port)

    def cut(self) -> None:
        """Kill the way: connections are refused, as when the server is down."""
        kill(self._way)

    def lose(self) -> None:
        """Kill the server and start it again: all buckets are gone."""
        kill(self._server)
        self.begin()

    def end(self) -> None:
        kill(self._way)
        kill(self._server)

    def names(self, out: str) -> list[str]:
        """Return the names of the objects of a store."""
        prefix = out.removeprefix("s3://kept/") + "/"
        listed = self.request("GET", f"/kept?list-type=2&prefix={prefix}").decode()
        return [key.removeprefix(prefix) for key in re.findall("<Key>(.*?)</Key>", listed)]

    def objects(self, out: str) -> dict[str, bytes]:
        """Return the objects of a store with their content."""
        path = out.removeprefix("s3:/")
        return {name: self.request("GET", f"{path}/{name}") for name in self.names(out)}

    def request(self, method: str, path: str) -> bytes:
        """Ask the server, which looks at no signature, and return its answer."""
        there = HTTPConnection("127.0.0.1", self._inner)
        with closing(there):
            # It looks at no signature, but that there is one.
            there.request(method, path, headers={"Authorization": "AWS key:none"})
            answer = there.getresponse()
            assert answer.status == 200, answer.read()
            return answer.read()


def started(arguments: list[str], port: int) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        [sys.executable, *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    last = time.monotonic() + 60
    while True:
        with suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return process
        assert process.poll() is None
        assert time.monotonic() < last
        time.sleep(0.05)


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def serve(port: int, inner: int, mode: Path) -> None:
    """Be the way: hand on all bytes, or answer with what `mode` says instead of the server."""
    listening = socket.create_server(("127.0.0.1", port), backlog=100)
    for number in count():
        there, _ = listening.accept()
        Thread(target=answer, args=(there, inner, mode.read_text(), number), daemon=True).start()


def answer(there: socket.socket, inner: int, mode: str, number: int) -> None:
    with there, suppress(OSError):
        if mode == "denied":
            there.recv(100_000)
            there.sendall(
                b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(DENIED) + DENIED
            )
            return
        if mode == "ill" and number % 15 == 0:
            there.recv(100_000)
            there.sendall(
                b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n"
                b"Connection: close\r\n\r\n"
            )
            return
        if mode == "ill":
            time.sleep(0.02)
        with socket.create_connection(("127.0.0.1", inner)) as server:
            Thread(target=pump, args=(server, there), daemon=True).start()
            pump(there, server)


def pump(source: socket.socket, target: socket.socket) -> None:
    """Hand on what comes, until either end is closed."""
    with suppress(OSError):
        while data := source.recv(100_000):
            target.sendall(data)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
