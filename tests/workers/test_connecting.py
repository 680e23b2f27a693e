"""How a scheduler is reached: by its file, with certificates; what is said where none is."""

import asyncio
import os
import shutil
import socket
import subprocess
import threading
from contextlib import ExitStack, suppress

import dask
import pytest
from distributed import Client, LocalCluster
from distributed.security import Security
from remote_cluster import Remote
from sweeping import BASE, GRID, make_sweep, tree

import kvsweep
from kvsweep import grid
from kvsweep.errors import InputError
from kvsweep.simulate import warm_up
from kvsweep.workers.connecting import connected

TLS = "DASK_DISTRIBUTED__COMM__TLS__"


@pytest.fixture
def sweep(tmp_path):
    return make_sweep(tmp_path, BASE + GRID)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    warm_up()
    kvsweep.run(make_sweep(folder, BASE + GRID), out=folder / "whole.zarr", workers=1)
    return folder / "whole.zarr"


@pytest.fixture
def whole(made, tmp_path):
    shutil.copytree(made, tmp_path / "whole.zarr")
    return tree(made)


@pytest.fixture
def certificates(tmp_path):
    """Settings of Dask: a certificate of its own authority, and the key to it."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kvsweep"]
    subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    settings = {
        f"{TLS}CA_FILE": str(certificate),
        "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "1",
    }
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        settings |= {f"{TLS}{role}__CERT": str(certificate), f"{TLS}{role}__KEY": str(key)}
    return settings


def configured(settings):
    """Return Dask's configuration with environment variables, as a new process has it."""
    return dask.config.set(dask.config.merge(dask.config.config, dask.config.collect_env(settings)))


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
def test_the_file_of_a_scheduler_is_waited_for(sweep, tmp_path, whole):
    """In a queue a scheduler may begin later than the sweep; its file is not there before."""
    told = []
    with ExitStack() as ends:

        def tell(line):
            told.append(line)
            if "no such file" in line:
                threading.Thread(target=lambda: Remote(tmp_path, ends).worker()).start()

        kvsweep.run(
            sweep, out=tmp_path / "b.zarr", scheduler_file=tmp_path / "scheduler.json", notify=tell
        )
    assert told[0].endswith("scheduler.json: no such file; waiting for it (Ctrl-C ends)")
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"^scheduler_file .*scheduler\.json: no such file for 0 s"),
        ("", r"scheduler\.json: is no JSON of a scheduler"),
        ("{", r"scheduler\.json: is no JSON of a scheduler"),
        ("\0\1", r"^scheduler_file .*scheduler\.json:1: not a text file"),
        ("[]", r"address: expected that of a scheduler, got null"),
        ('{"address": 8786}', r"address: expected that of a scheduler, got 8786"),
        ('{"address": "tcp://127.0.0.1:1"}', r"json: tcp://127\.0\.0\.1:1: no scheduler answers"),
    ],
)
def test_a_file_of_no_scheduler_is_refused(sweep, tmp_path, monkeypatch, content, message):
    monkeypatch.setattr("kvsweep.workers.connecting.CONNECT_TIMEOUT", 0.2)
    monkeypatch.setattr("kvsweep.workers.connecting.TELL_AFTER", 0.1)
    file = tmp_path / "scheduler.json"
    if content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=message):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler_file=file, wait=0)
    assert not (tmp_path / "b.zarr").exists()


def test_a_store_with_all_cells_needs_no_scheduler(sweep, tmp_path, whole):
    nobody = {"scheduler": "tcp://127.0.0.1:1", "wait": 0}
    kvsweep.run(sweep, out=tmp_path / "whole.zarr", **nobody)
    kvsweep.run(sweep, out=tmp_path / "whole.zarr", shard="1/1", **nobody)
    assert tree(tmp_path / "whole.zarr") == whole


def test_a_store_of_another_sweep_is_refused_before_a_scheduler_is_asked(sweep, tmp_path, whole):
    other = make_sweep(tmp_path, BASE.replace("instances = 2", "instances = 3") + GRID)
    file = tmp_path / "scheduler.json"
    with pytest.raises(InputError, match="made from another sweep"):
        kvsweep.run(other, out=tmp_path / "whole.zarr", scheduler_file=file, wait=0)
    assert tree(tmp_path / "whole.zarr") == whole


def test_a_store_that_is_replaced_or_damaged_needs_a_scheduler(sweep, tmp_path, whole, monkeypatch):
    monkeypatch.setattr("kvsweep.workers.connecting.TELL_AFTER", 0.1)
    nobody = {"scheduler_file": tmp_path / "scheduler.json", "wait": 0}
    with pytest.raises(InputError, match="no such file for 0 s"):
        kvsweep.run(sweep, out=tmp_path / "whole.zarr", overwrite=True, **nobody)
    assert tree(tmp_path / "whole.zarr") == whole
    chunks = (tmp_path / "whole.zarr" / "preemption_rate" / "c").rglob("*")
    next(file for file in chunks if file.is_file()).unlink()
    with pytest.raises(InputError, match="no such file for 0 s"):
        kvsweep.run(sweep, out=tmp_path / "whole.zarr", **nobody)


@pytest.mark.parametrize("kind", ["mkfifo", "mkdir"])
def test_a_file_that_is_none_is_refused_at_once(sweep, tmp_path, kind):
    """To read a pipe would wait for who writes into it."""
    file = tmp_path / "scheduler.json"
    getattr(os, kind)(file)
    with pytest.raises(
        InputError, match=r"^scheduler_file .*scheduler\.json: cannot read: (i|I)s a"
    ):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler_file=file)


@pytest.mark.parametrize("says", [b"", b"SSH-2.0-OpenSSH_9.6\r\n", b"HTTP/1.1 400 Bad\r\n\r\n"])
def test_another_program_at_the_address_is_no_scheduler(sweep, tmp_path, monkeypatch, says):
    """As in an old file, on a port that is somebody else's now; who may say nothing at all."""
    monkeypatch.setattr("kvsweep.workers.connecting.CONNECT_TIMEOUT", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]

        def answer():
            with suppress(OSError):  # closed at the end
                while True:
                    there, _ = other.accept()
                    there.sendall(says)
                    held.append(there)

        held = []
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(InputError, match=rf"tcp://127\.0\.0\.1:{port}: no scheduler "):
            kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=f"tcp://127.0.0.1:{port}")
        for there in held:
            there.close()
    assert not (tmp_path / "b.zarr").exists()


def test_an_asynchronous_client_is_refused(sweep, tmp_path):
    async def run():
        async with (
            LocalCluster(
                n_workers=0, processes=False, dashboard_address=None, asynchronous=True
            ) as cluster,
            Client(cluster, asynchronous=True) as client,
        ):
            kvsweep.run(sweep, out=tmp_path / "b.zarr", client=client)

    with pytest.raises(InputError, match=r"^client: is asynchronous; kvsweep needs a Client\(asy"):
        asyncio.run(run())


def test_a_client_that_is_closed_is_refused(sweep, tmp_path):
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        client.close()
        with pytest.raises(InputError, match=r"^client: is closed, not connected to a scheduler"):
            kvsweep.run(sweep, out=tmp_path / "b.zarr", client=client)


def test_an_interrupt_just_as_the_scheduler_is_asked_leaves_no_traceback(monkeypatch, caplog):
    """Dask cancels a question then that it has not begun, which fails in its own thread."""
    loop_waits = threading.Event()

    class Interrupted(threading.Event):
        def wait(self, timeout=None):
            raise KeyboardInterrupt

    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=None) as cluster,
        connected(cluster.scheduler_address, None, None) as (client, _),
    ):
        client.loop.add_callback(loop_waits.wait)
        with monkeypatch.context() as patch:
            patch.setattr(threading, "Event", Interrupted)
            with pytest.raises(KeyboardInterrupt):
                client.nthreads()
        loop_waits.set()
        assert client.nthreads() == {}
    assert not [record for record in caplog.records if record.exc_info]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scheduler": "a:1", "scheduler_file": "b"}, "scheduler_file: cannot be used with sch"),
        (
            {"scheduler_file": "b", "processes": True},
            "scheduler_file: cannot be used with workers or processes=True",
        ),
        ({"scheduler_file": "b", "client": 1}, "client: cannot be used with scheduler_file"),
    ],
)
def test_one_scheduler_is_named_in_one_way(sweep, tmp_path, options, message):
    with pytest.raises(InputError, match=message):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", **options)


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("tcp://127.0.0.1:1", "no scheduler answers"),
        ("http://127.0.0.1:1", "no scheduler answers"),
        ("http://127.0.0.1:1", r"expected its address, as tcp://\S+, not that of its dashboard$"),
        ("127.0.0.1", r"no scheduler answers; expected its address, as tcp://\S+$"),
        (__file__, "no scheduler answers; this is a file, as scheduler_file takes$"),
        ("a" * 999, "no scheduler answers; expected its address, as tcp://"),
        ("", "no scheduler answers"),
    ],
)
def test_an_address_without_a_scheduler_is_refused_in_a_line(
    sweep, tmp_path, monkeypatch, address, message
):
    # What is no address is known at once, and on a slow machine not so soon.
    seconds = 0.2 if address.startswith("tcp") else 60.0
    monkeypatch.setattr("kvsweep.workers.connecting.CONNECT_TIMEOUT", seconds)
    with pytest.raises(InputError, match=message) as refused:
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=address)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("wait", "seconds"), [(None, 10.0), (0.0, 5.0), (1.0, 5.0), (7.0, 7.0), (3600.0, 10.0)]
)
def test_a_scheduler_has_ten_seconds_to_answer_unless_less_is_waited(monkeypatch, wait, seconds):
    given = []

    def within(seconds, scheduler):
        given.append(seconds)
        raise TimeoutError

    monkeypatch.setattr("kvsweep.workers.connecting._within", within)
    with pytest.raises(InputError), connected("tcp://127.0.0.1:1", wait, None):
        pass
    assert given == [seconds]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "tls:// needs certificates; Dask's configuration names them: DASK_DISTR"),
        ({f"{TLS}CA_FILE": "gone.pem"}, "a file of certificates does not exist"),
    ],
)
def test_certificates_are_asked_for_before_anything_is_waited_for(
    sweep, tmp_path, monkeypatch, settings, message
):
    monkeypatch.setattr("kvsweep.workers.connecting._within", None)  # which would connect
    if settings:
        settings = {**settings, f"{TLS}CLIENT__CERT": "gone.pem", f"{TLS}CLIENT__KEY": "gone.pem"}
    with configured(settings), pytest.raises(InputError, match=message):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler="tls://127.0.0.1:1")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_certificates_of_dasks_configuration_are_used(
    sweep, tmp_path, whole, certificates, monkeypatch
):
    """And without them, or with others than the scheduler's, nobody gets in."""
    monkeypatch.setattr("kvsweep.workers.connecting.CONNECT_TIMEOUT", 2.0)
    with ExitStack() as ends:
        remote = Remote(tmp_path, ends, certificates, ("--host", "127.0.0.1", "--protocol", "tls"))
        assert remote.address.startswith("tls://")
        remote.worker()
        with configured(certificates):
            kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=remote.address)
        assert tree(tmp_path / "b.zarr") == whole
        with pytest.raises(InputError, match="tls:// needs certificates"):
            kvsweep.run(sweep, out=tmp_path / "c.zarr", scheduler=remote.address)
        plain = remote.address.replace("tls", "tcp")
        with pytest.raises(InputError, match="no scheduler answers"):
            kvsweep.run(sweep, out=tmp_path / "c.zarr", scheduler=plain)
        gone = {**certificates, f"{TLS}CA_FILE": str(tmp_path / "gone.pem")}
        with (
            configured(gone),
            pytest.raises(InputError, match="a file of certificates does not exist"),
        ):
            kvsweep.run(sweep, out=tmp_path / "c.zarr", scheduler=remote.address)
        assert not (tmp_path / "c.zarr").exists()


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_client_with_security_of_its_own_is_used(sweep, tmp_path, whole, certificates):
    with ExitStack() as ends:
        remote = Remote(tmp_path, ends, certificates, ("--host", "127.0.0.1", "--protocol", "tls"))
        remote.worker()
        security = Security(
            tls_ca_file=certificates[f"{TLS}CA_FILE"],
            tls_client_cert=certificates[f"{TLS}CLIENT__CERT"],
            tls_client_key=certificates[f"{TLS}CLIENT__KEY"],
            require_encryption=True,
        )
        with Client(remote.address, security=security) as client:
            kvsweep.run(sweep, out=tmp_path / "b.zarr", client=client)
    assert tree(tmp_path / "b.zarr") == whole


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(300)
def test_local_processes_are_encrypted_where_dask_requires_it(sweep, tmp_path, whole, certificates):
    with configured(certificates):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", processes=True, workers=1)
    assert tree(tmp_path / "b.zarr") == whole


def test_an_address_in_place_of_a_file_is_refused_at_once(sweep, tmp_path):
    """It was waited for as a file, without end."""
    with pytest.raises(InputError, match=r"^scheduler_file tcp:/\S+: is an address, as sche"):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler_file="tcp://127.0.0.1:1")


def test_an_asynchronous_cluster_is_refused(sweep, tmp_path):
    """Its loop is that of this thread, so that it could not answer."""

    async def run():
        async with LocalCluster(
            n_workers=0, processes=False, dashboard_address=None, asynchronous=True
        ) as cluster:
            kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=cluster)

    with pytest.raises(InputError, match=r"^scheduler: the cluster is asynchronous; kvsweep needs"):
        asyncio.run(run())


@pytest.mark.parametrize("address", ["127.0.0.1", "tcp://[::1]", __file__, "a" * 999, ""])
def test_what_is_no_address_is_found_without_a_connection(sweep, tmp_path, monkeypatch, address):
    """A machine that stood still for ten seconds told of an AssertionError of Dask's instead."""
    monkeypatch.delattr("kvsweep.workers.connecting._within")
    with pytest.raises(InputError, match="no scheduler answers; "):
        kvsweep.run(sweep, out=tmp_path / "b.zarr", scheduler=address)


def test_a_client_that_is_closed_meanwhile_ends_the_run_with_one_line(sweep, tmp_path, monkeypatch):
    """Between two looks at who is there Dask's own error of what cannot be sent came through."""
    monkeypatch.setattr(grid, "CHUNK_SECONDS", (1e-5, 1e-5))  # more tasks than are sent at once
    out = tmp_path / "b.zarr"
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def close(done, total):
            if done:
                client.close()

        with pytest.raises(InputError, match=r"^client: the scheduler is gone, or its connection"):
            kvsweep.run(sweep, out=out, client=client, progress=close)
    kvsweep.run(sweep, out=out)
    kvsweep.run(sweep, out=tmp_path / "whole.zarr")
    assert tree(out) == tree(tmp_path / "whole.zarr")
