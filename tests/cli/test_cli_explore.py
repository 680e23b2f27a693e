"""`kvsweep explore`: what it opens, refuses, and how it ends."""

import json
import os
import signal
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace

import pytest
from sweeping import BASE, CLIFF, GRID, start_python, write_sweep

import kvsweep
from kvsweep.explorer import server

COMMAND = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
sys.argv = ["kvsweep", "explore", "small.toml", "--no-browser", "--json"]
import kvsweep.__main__
kvsweep.__main__.main()
"""


SERVED = SimpleNamespace(url="http://127.0.0.1:1/?token=secret", port=1)


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_sweep(tmp_path, BASE + GRID + CLIFF)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_serves_until_it_is_interrupted_and_then_ends_at_once(number):
    with start_python(COMMAND) as process:
        told = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
        with urllib.request.urlopen(told["url"]) as page:
            assert b"explore.js" in page.read()
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted" in err
    assert "Traceback" not in err
    assert told["explored"] == "small.toml"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("none.toml",), "kvsweep: none.toml: cannot read: No such file or directory"),
        (("bad.toml",), "kvsweep: bad.toml:"),
        (("flat.toml",), "kvsweep: flat.toml: grid: no numeric axis of two values or more"),
        (("small.toml", "--set", "workload.rte=1"), "--set workload.rte: unknown key; did you me"),
        (("small.toml", "--set", "workload.rate=-1"), "--set workload.rate: must be more than 0"),
        (("small.toml", "--port", "99999"), "99999 is not in the range 0<=x<=65535"),
        ((".",), "kvsweep: .: "),
        ((".", "--set", "a=1"), "kvsweep: --set: . is a store, whose cells are as they are"),
        (("small.toml", "--prot", "1"), "--port"),
    ],
)
def test_what_cannot_be_explored_is_told_in_one_line(run, tmp_path, arguments, message):
    (tmp_path / "bad.toml").write_text("[grid")
    write_sweep(tmp_path, BASE + '[grid]\npolicy = ["round-robin"]\n', "flat.toml")
    code, out, err = run("explore", *arguments, "--no-browser")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_a_pipe_is_not_waited_for(run, tmp_path):
    os.mkfifo(tmp_path / "fifo.toml")
    code, _, err = run("explore", "fifo.toml", "--no-browser")
    assert code == 2
    assert "is a pipe, no regular file" in err


def test_without_tornado_the_line_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "kvsweep.explorer.server", None)
    monkeypatch.setitem(sys.modules, "tornado", None)
    monkeypatch.delitem(sys.modules, "kvsweep.explorer.server")
    for name in [name for name in sys.modules if name.startswith("tornado.")]:
        monkeypatch.setitem(sys.modules, name, None)
    code, _, err = run("explore", "small.toml", "--no-browser")
    assert code == 2
    assert "explore: tornado is not installed: pip install 'kvsweep[explore]'" in err


@pytest.fixture
def serves_at_once(monkeypatch):
    monkeypatch.setattr(server, "serve", lambda subject, port, ready: ready(SERVED))


def test_the_address_is_shown_to_no_list_of_processes(run, monkeypatch, serves_at_once):
    """The browser is given a file that only this user can read, and which is gone at the end."""
    found = {}

    def opened(address):
        path = Path(urllib.request.url2pathname(address.removeprefix("file://")))
        found[address] = (path.read_text(), path.parent.stat().st_mode & 0o777)
        return True

    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr("webbrowser.open", opened)
    code, out, _ = run("explore", "small.toml")
    ((address, (content, mode)),) = found.items()
    assert (code, out, mode) == (0, SERVED.url + "\n", 0o700)
    assert "secret" not in address
    assert SERVED.url in content


def test_without_a_screen_no_browser_takes_the_terminal(run, monkeypatch, serves_at_once):
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr("webbrowser.open", pytest.fail)
    _, _, err = run("explore", "small.toml")
    assert "There is no screen to open a browser on" in err


def test_a_store_is_explored_without_simulating(run, monkeypatch, tmp_path):
    kvsweep.run(kvsweep.load_sweep("small.toml"), out="small.zarr")
    found = []
    monkeypatch.setattr(server, "serve", lambda subject, port, ready: found.append(subject))
    assert run("explore", "small.zarr", "--no-browser")[0] == 0
    assert (found[0].kind, found[0].name) == ("store", "small.zarr")
