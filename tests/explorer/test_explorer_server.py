"""The page's server: loopback, a token, an origin, and nothing that is not a request."""

import asyncio
import json
import re
import socket
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from exploring import LONG, served
from sweeping import BASE, CLIFF, GRID, make_sweep
from tornado.httpclient import HTTPRequest
from tornado.websocket import websocket_connect

import kvsweep
from kvsweep.explorer import pages
from kvsweep.explorer.of_sweep import OfSweep
from kvsweep.explorer.server import Server
from kvsweep.explorer.subject import MAX_PAGES


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    subject = OfSweep(make_sweep(tmp_path_factory.mktemp("served"), BASE + GRID + CLIFF))
    with served(subject) as running:
        yield running


def fetched(url, **headers):
    """Return (status, headers, body) of a request, as it is written."""
    found = urlsplit(url)
    connection = HTTPConnection("127.0.0.1", found.port, timeout=LONG)
    try:
        connection.request("GET", url.partition(found.netloc)[2], headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()
    finally:
        connection.close()


def handshake(server, token=None, **headers):
    """Ask for a socket; return the status of the answer, and the connection."""
    connection = HTTPConnection("127.0.0.1", server.port, timeout=LONG)
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    path = f"/socket?token={server.token if token is None else token}"
    connection.request("GET", path, headers=upgrade | headers)
    return connection.getresponse().status, connection


def connected(server, messages, **headers):
    """Open a socket, send messages, and return an answer to each but the first, the hello's."""

    async def talk():
        url = f"ws://127.0.0.1:{server.port}/socket?token={server.token}"
        page = await websocket_connect(HTTPRequest(url, headers=headers))
        found = [json.loads(await asyncio.wait_for(page.read_message(), LONG))]
        for message in messages:
            await page.write_message(message, binary=isinstance(message, bytes))
            answer = await asyncio.wait_for(page.read_message(), LONG)
            found.append(json.loads(answer) if answer else None)
        page.close()
        while found[-1] is not None and await asyncio.wait_for(page.read_message(), LONG):
            pass  # until it is closed, whose answer is None
        return found

    return asyncio.run(talk())


def test_it_listens_on_loopback_only(server):
    found = [s.getsockname()[0] for s in server._http._sockets.values()]
    assert found == ["127.0.0.1"]
    assert server.url.startswith(f"http://127.0.0.1:{server.port}/?token=")
    assert len(server.token) >= 32


@pytest.mark.parametrize("token", ["", "?token=", "?token=wrong", "?token=%C3%A9", "?other=1"])
def test_without_the_token_there_is_no_page(server, token):
    code, _, body = fetched(f"http://127.0.0.1:{server.port}/{token}")
    assert code == 403
    assert server.token not in body
    assert "Traceback" not in body


def test_with_the_token_there_is_one_that_loads_nothing_from_elsewhere(server):
    code, headers, body = fetched(server.url)
    assert code == 200
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Referrer-Policy"] == "no-referrer"
    assert "Server" not in headers
    assert 'src="/explore.js"' in body
    for name, kind in (("explore.js", "text/javascript"), ("style.css", "text/css")):
        code, headers, body = fetched(f"http://127.0.0.1:{server.port}/{name}")
        assert (code, headers["Content-Type"]) == (200, f"{kind}; charset=utf-8")
        assert "http" not in body.replace("http://www.w3.org/2000/svg", "")


def test_another_name_for_this_machine_leads_nowhere(server):
    assert fetched(server.url, Host=f"evil.example:{server.port}")[0] == 403
    assert fetched(server.url, Host=f"localhost:{server.port}")[0] == 200


@pytest.mark.parametrize("path", ["/none", "/../server.py", "/page/view.js", "/socket/x"])
def test_there_is_nothing_else(server, path):
    assert fetched(f"http://127.0.0.1:{server.port}{path}")[0] in (403, 404)


@pytest.mark.parametrize(
    ("token", "origin"),
    [
        ("wrong", "http://127.0.0.1:{port}"),
        (None, "http://evil.example"),
        (None, "http://127.0.0.1:{other}"),
        (None, "https://127.0.0.1:{port}"),
        (None, "null"),
        (None, None),
    ],
)
def test_sockets_from_elsewhere_are_refused(server, token, origin):
    headers = (
        {} if origin is None else {"Origin": origin.format(port=server.port, other=server.port + 1)}
    )
    status, connection = handshake(server, token, **headers)
    connection.close()
    assert status == 403


def test_what_is_no_request_is_told_and_the_page_goes_on(server):
    messages = [
        "import os",
        b"bytes",
        "{}",
        '{"kind": "eval", "generation": 1}',
        '{"kind": "save", "generation": 1, "what": "/etc/passwd"}',
        '{"kind": "save", "generation": NaN, "what": "svg"}',
        '{"kind": "show", "generation": 1, "along": "x", "measures": [], "scenarios": []}',
        '{"kind": "life", "generation": 1, "along": "x", "settings": {}, "value": "1", "seed": 0}',
        '{"kind": "life", "generation": 1, "along": "x", "settings": {}, "value": 1, "seed": -1}',
        "[" * 10_000,
    ]
    hello, *answers = connected(server, messages, Origin=f"http://127.0.0.1:{server.port}")
    assert hello["kind"] == "hello"
    assert [answer["kind"] for answer in answers] == ["refused"] * len(messages)
    assert all(answer["text"].startswith("page") for answer in answers)
    assert "eval" in answers[3]["text"]


def test_a_message_that_is_too_long_ends_the_page(server):
    found = connected(server, ["x" * 100_000], Origin=f"http://127.0.0.1:{server.port}")
    assert found[-1] is None


def test_more_pages_than_anybody_has_open_are_refused(server):
    origin = {"Origin": f"http://127.0.0.1:{server.port}"}
    found = [handshake(server, **origin) for _ in range(MAX_PAGES + 1)]
    for _, connection in found:
        connection.close()
    statuses = {status for status, _ in found}
    assert statuses == {101, 503}


def test_a_port_that_is_in_use_is_told(server, tmp_path):
    subject = server.subject
    with pytest.raises(kvsweep.InputError, match=f"--port {server.port}: is in use"):
        Server(subject, server.port)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        with pytest.raises(kvsweep.InputError, match="is in use"):
            Server(subject, other.getsockname()[1])


def test_the_script_joins_its_modules_without_a_name_twice():
    text = pages.script()
    assert "import {" not in text
    names = re.findall(
        r"^(?:export )?(?:async )?(?:function|class|const|let) (\w+)", text, re.MULTILINE
    )
    assert sorted(names) == sorted(set(names))
    assert text.count("export default") == 1


def test_a_connection_that_a_browser_keeps_ends_with_the_server(tmp_path):
    subject = OfSweep(make_sweep(tmp_path, BASE + GRID + CLIFF))
    with served(subject) as running:
        connection = HTTPConnection("127.0.0.1", running.port, timeout=LONG)
        connection.request("GET", "/style.css")
        answer = connection.getresponse()
        assert (answer.status, len(answer.read()) > 0) == (200, True)
        kept = connection.sock
        assert kept is not None
    assert kept.recv(1) == b""
    connection.close()
