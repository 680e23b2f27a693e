"""Commands that take a store, on one at an address: they say what they say of the same folder."""

from pathlib import Path

import fsspec
import pytest
from sweeping import BASE, CLIFF, GRID, make_sweep, stand_in

import kvsweep
from kvsweep.explorer import server

REMOTE = "memory://kept"
METRIC = ("--metric", "ttft_p99_ms")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make four stores in a folder and in a bucket: two whole ones, and one in two shares."""
    folder = tmp_path_factory.mktemp("stores")
    fsspec.filesystem("memory").rm("/", recursive=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stand_in(patch)
        small = make_sweep(folder, BASE + GRID + CLIFF)
        other = make_sweep(folder, (BASE + GRID + CLIFF).replace("requests = 20", "requests = 30"))
        for root in ("results", REMOTE):
            kvsweep.run(small, out=f"{root}/a.zarr", workers=1)
            kvsweep.run(other, out=f"{root}/b.zarr", workers=1)
            for k in (1, 2):
                kvsweep.run(small, out=f"{root}/{k}.zarr", workers=1, shard=f"{k}/2")
    yield folder
    fsspec.filesystem("memory").rm("/", recursive=True)


@pytest.fixture
def stores(folder, monkeypatch):
    monkeypatch.chdir(folder)
    stand_in(monkeypatch)


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "@/a.zarr"),
        ("show", "@/1.zarr"),
        ("show", "@/none.zarr"),
        ("cliff", "@/a.zarr"),
        ("pareto", "@/a.zarr", "--at", "gpu_blocks=130"),
        ("effects", "@/a.zarr", *METRIC, "--factors", "policy"),
        ("compare", "@/a.zarr", "@/b.zarr", *METRIC),
        ("verify", "@/a.zarr", "--sample", "1"),
        ("merge", "@/1.zarr", "-o", "@/m.zarr"),
        ("plot", "@/a.zarr", "curve", *METRIC, "--along", "gpu_blocks", "-o", "curve.svg"),
        ("report", "@/a.zarr", "-o", "a.html", "--overwrite"),
        ("report", "@/none.zarr", "-o", "none.html"),
    ],
    ids=" ".join,
)
def test_commands_say_the_same_of_a_store_at_an_address(run, stores, arguments):
    def said(root):
        code, out, err = run(*(text.replace("@", root) for text in arguments))
        return code, out.replace(root, "@"), err.replace(root, "@")

    assert said(REMOTE) == said("results")


def test_what_nobody_named_is_written_into_the_current_folder(run, stores):
    assert run("report", f"{REMOTE}/a.zarr")[:2] == (0, "a-report.html\n")
    assert f"{REMOTE}/a.zarr" in Path("a-report.html").read_text()
    assert run("plot", f"{REMOTE}/a.zarr", "cliff")[:2] == (0, "a-cliff.png\n")
    assert Path("a-cliff.png").exists()
    merged = run("merge", f"{REMOTE}/1.zarr", f"{REMOTE}/2.zarr", "-o", f"{REMOTE}/m.zarr")
    assert merged[0] == 0
    assert "m-cliff.png" in merged[1]


def test_a_store_at_an_address_is_explored(run, stores, monkeypatch):
    found = []
    monkeypatch.setattr(server, "serve", lambda subject, port, ready: found.append(subject))
    assert run("explore", f"{REMOTE}/a.zarr", "--no-browser")[0] == 0
    assert (found[0].kind, found[0].name) == ("store", f"{REMOTE}/a.zarr")
    code, _, err = run("explore", f"{REMOTE}/none.zarr", "--no-browser")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{REMOTE}/none.zarr: no such store" in err
