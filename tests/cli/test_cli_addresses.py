"""Commands that take a store, on one at an address: they say what they say of the same folder.

In memory, and in a bucket of a real S3 server, a process of its own.
"""

import re
from pathlib import Path

import fsspec
import pytest
from longer import long_but
from s3_server import Server
from sweeping import BASE, CLIFF, GRID, make_sweep, stand_in, tree, write_sweep

import kvsweep
from kvsweep.explorer import server
from kvsweep.store import connection

METRIC = ("--metric", "ttft_p99_ms")
SERVED = pytest.param("s3://kept/here", marks=[pytest.mark.slow, pytest.mark.long])


@pytest.fixture(scope="module", params=["memory://kept", SERVED])
def remote(request, tmp_path_factory):
    """The address that stores of the module are at."""
    if request.param.startswith("memory"):
        fsspec.filesystem("memory").rm("/", recursive=True)
        yield request.param
        fsspec.filesystem("memory").rm("/", recursive=True)
        return
    fs = pytest.importorskip("s3fs").S3FileSystem
    pytest.importorskip("moto")
    served = Server(tmp_path_factory.mktemp("server"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (served.environment | {"AWS_ENDPOINT_URL": served.direct}).items():
            patch.setenv(name, value)
        for forget in (fs.clear_instance_cache, connection.filesystem.cache_clear):
            forget()
        yield request.param
    for forget in (fs.clear_instance_cache, connection.filesystem.cache_clear):
        forget()
    served.end()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make four stores in a folder: two whole ones, and one in two shares."""
    folder = tmp_path_factory.mktemp("stores")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        stand_in(patch)
        other = make_sweep(folder, (BASE + GRID + CLIFF).replace("requests = 20", "requests = 30"))
        small = make_sweep(folder, BASE + GRID + CLIFF)
        kvsweep.run(small, out="results/a.zarr", workers=1)
        kvsweep.run(other, out="results/b.zarr", workers=1)
        for k in (1, 2):
            kvsweep.run(small, out=f"results/{k}.zarr", workers=1, shard=f"{k}/2")
    return folder


@pytest.fixture(scope="module")
def copied(folder, remote):
    """Copy the stores to the address; a run there writes the same objects (`RUNS`)."""
    fs, path = fsspec.core.url_to_fs(remote)
    for store in ("a.zarr", "b.zarr", "1.zarr", "2.zarr"):  # tests make more
        files = tree(folder / "results" / store)
        fs.pipe({f"{path}/{store}/{name}": data for name, data in files.items()})


@pytest.fixture
def stores(folder, copied, monkeypatch):
    monkeypatch.chdir(folder)
    stand_in(monkeypatch)


@pytest.fixture(scope="module")
def known():
    """What was said of the folder, by arguments: the same for each address."""
    return {}


@pytest.mark.parametrize(
    "arguments",
    [
        ("show", "@/a.zarr"),
        pytest.param(("show", "@/1.zarr"), marks=pytest.mark.long),
        ("show", "@/none.zarr"),
        pytest.param(("show", "@/a.zarr", "--json"), marks=pytest.mark.long),
        ("cliff", "@/a.zarr"),
        pytest.param(
            ("cliff", "@/a.zarr", "--at", "policy=round-robin", "--json"), marks=pytest.mark.long
        ),
        ("pareto", "@/a.zarr", "--at", "gpu_blocks=130"),
        ("effects", "@/a.zarr", *METRIC, "--factors", "policy"),
        ("compare", "@/a.zarr", "@/b.zarr", *METRIC),
        ("verify", "@/a.zarr", "--sample", "1"),
        ("verify", "@/none.zarr"),
        ("merge", "@/1.zarr", "-o", "@/m.zarr"),
        ("merge", "@/1.zarr", "@/b.zarr", "-o", "@/m.zarr"),
        pytest.param(
            (
                "plot",
                "@/a.zarr",
                "curve",
                *METRIC,
                "--along",
                "gpu_blocks",
                "-o",
                "curve.svg",
                "--overwrite",
            ),
            marks=pytest.mark.long,
        ),
        ("plot", "@/a.zarr", "heatmap", *METRIC, "-o", "heatmap.png", "--overwrite"),
        ("report", "@/a.zarr", "-o", "a.html", "--overwrite"),
        pytest.param(
            ("report", "@/a.zarr", "@/b.zarr", "--compare", "-o", "ab.html", "--overwrite"),
            marks=pytest.mark.long,
        ),
        ("report", "@/none.zarr", "-o", "none.html"),
    ],
    ids=" ".join,
)
def test_commands_say_the_same_of_a_store_at_an_address(run, stores, remote, known, arguments):
    def said(root):
        code, out, err = run(*(text.replace("@", root) for text in arguments))
        return code, out.replace(root, "@"), err.replace(root, "@")

    if arguments not in known:
        known[arguments] = said("results")
    assert said(remote) == known[arguments]


SHARES = [("--shard", "2/2"), ("--shard", "1/2"), ()]
RUNS = {
    "shares": SHARES,
    "no shares": [("--shard", "5/4"), ("--shard", "1/2", "--overwrite"), *SHARES[1:]],
    "more seeds": [("--seeds", "3"), ("--seeds", "5"), ("--seeds", "5", "--extend"), ("--extend",)],
    "fewer seeds": [(), ("--seeds", "4", "--extend"), ("--seeds", "4", "--overwrite")],
    "again": [("--dry-run",), ("--json",), ("--dry-run",), ("--overwrite", "--requests"), ()],
    "others": [("--set", "workload.requests=9"), ("--extend",), ("--overwrite", "--no-prune")],
}


@pytest.mark.parametrize("case", long_but(RUNS, "shares", "fewer seeds"))
def test_a_sweep_is_run_at_an_address_as_in_a_folder(run, stores, remote, known, tmp_path, case):
    """In shares, with more seeds, again, over another: and the same objects are left."""
    write_sweep(tmp_path, BASE + GRID)

    def said(root, options):
        out = f"{root}/{case.replace(' ', '')}.zarr"
        code, told, err = run("grid", str(tmp_path / "small.toml"), "--out", out, *options)
        told = re.sub(r"(?m)^time .*\n( {13}.*\n)*", "", told)  # of a dry run
        told, err = (text.replace(root, "@") for text in (told, err))
        return code, told, [line for line in err.splitlines() if not line[0].isdigit()]

    if case not in known:
        known[case] = [said("results", options) for options in RUNS[case]]
    for options, expected in zip(RUNS[case], known[case], strict=True):
        assert said(remote, options) == expected, options
    name = f"{case.replace(' ', '')}.zarr"
    assert objects(f"{remote}/{name}") == tree(Path("results", name)) != {}


def objects(url):
    """Return every object of a store with its content."""
    fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
    return {name[len(path) + 1 :]: fs.cat_file(name) for name in fs.find(path)}


def test_what_nobody_named_is_written_into_the_current_folder(run, stores, remote):
    assert run("report", f"{remote}/a.zarr")[:2] == (0, "a-report.html\n")
    assert f"{remote}/a.zarr" in Path("a-report.html").read_text()
    assert run("plot", f"{remote}/a.zarr", "cliff")[:2] == (0, "a-cliff.png\n")
    assert Path("a-cliff.png").exists()
    merged = run("merge", f"{remote}/1.zarr", f"{remote}/2.zarr", "-o", f"{remote}/m.zarr")
    assert merged[0] == 0
    assert "m-cliff.png" in merged[1]


def test_a_store_at_an_address_is_explored(run, stores, remote, monkeypatch):
    found = []
    monkeypatch.setattr(server, "serve", lambda subject, port, ready: found.append(subject))
    assert run("explore", f"{remote}/a.zarr", "--no-browser")[0] == 0
    assert (found[0].kind, found[0].name) == ("store", f"{remote}/a.zarr")
    code, _, err = run("explore", f"{remote}/none.zarr", "--no-browser")
    assert (code, err.count("\n")) == (2, 1)
    assert f"{remote}/none.zarr: no such store" in err
