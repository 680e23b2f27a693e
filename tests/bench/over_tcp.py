"""What a sweep costs the process that runs it, on a scheduler and two workers over TCP.

    PYTHONPATH=tests/workers unshare -rn python tests/bench/over_tcp.py h8 SEEDS
    PYTHONPATH=tests/workers unshare -rn python tests/bench/over_tcp.py many SEEDS [plan]

`h8` has 134 variants, `many` 154,722; with `plan` nothing is run. Under `unshare -n` nothing else
is counted on the loopback interface. That process is one of its own, so that its memory is that of
the run. Processor seconds and the largest memory so far are told after each step.
"""

import json
import os
import re
import subprocess
import sys
import time
from contextlib import ExitStack
from fcntl import ioctl
from pathlib import Path
from socket import AF_INET, SOCK_DGRAM, socket
from struct import pack, unpack
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parents[2]
H8 = ROOT / "sweeps" / "h8.toml"
BLOCKS = '"cache.gpu_blocks" = [{ start = 1000, stop = 2600, step = 25 }, 3000, 5000]'
MANY = """"cache.gpu_blocks" = { start = 1000, stop = 2600, step = 5 }
"engine.max_num_seqs" = { start = 16, stop = 256, step = 1 }"""
GET_FLAGS, SET_FLAGS, UP = 0x8913, 0x8914, 1


def main(which: str, seeds: int, *, runs: bool) -> None:
    with TemporaryDirectory() as folder, ExitStack() as ends:
        text = H8.read_text().replace(BLOCKS, MANY if which == "many" else BLOCKS)
        file = Path(folder, f"{which}.toml")
        file.write_text(re.sub(r"seed = .*", f"seed = {{ count = {seeds} }}", text))
        address = ""
        if runs:
            from distributed import Client
            from remote_cluster import Remote, until

            _begin_loopback()
            remote = Remote(Path(folder), ends)
            workers = [remote.worker(), remote.worker()]
            with Client(remote.address) as client:
                until(lambda: len(client.nthreads()) == len(workers))
            address = remote.address
        before = _sent()
        command = [sys.executable, __file__, "be the driver", str(file), address]
        subprocess.run(command, check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})
        if runs:
            files = sum(path.is_file() for path in Path(folder, "out.zarr").rglob("*"))
            print(f"{(_sent() - before) / 1e6:.1f} MB on the loopback interface, {files} files")


def drive(file: Path, address: str) -> None:
    """Plan the sweep of a file, and run and analyse it if there is a scheduler."""
    import kvsweep
    from kvsweep import sweep as running
    from kvsweep.grid import plan

    _tell("imported")
    sweep = kvsweep.load_sweep(file)
    cells = plan(sweep)
    count = len(cells.tasks)
    _tell(f"{len(cells.variants):,} variants, {cells.cells:,} cells, {count:,} tasks planned")
    del cells
    if not address:
        return
    real = running.warned

    def warned(*args):
        _tell("planned again, run, packed")
        return real(*args)

    running.warned = warned
    ds = kvsweep.run(sweep, out=file.with_name("out.zarr"), scheduler=address)
    _tell("warnings found")
    print(json.dumps({str(k): int((ds["status"] == k).sum()) for k in ("ok", "pending")}))
    kvsweep.find_cliff(ds, **sweep.cliff.model_dump())
    _tell("cliff found")
    before = time.process_time()
    kvsweep.open_results(file.with_name("out.zarr"))
    print(f"opened in {time.process_time() - before:.2f} s")


def _tell(what: str) -> None:
    peak = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]
    now = time.process_time()
    print(f"{now:7.2f} s, {int(peak) / 1024:,.0f} MiB: {what}", flush=True)


def _begin_loopback() -> None:
    """Start the loopback interface, which a new network has, but not up."""
    with socket(AF_INET, SOCK_DGRAM) as any_socket:
        found = ioctl(any_socket, GET_FLAGS, pack("16sh14x", b"lo", 0))
        flags = unpack("16sh14x", found)[1]
        if not flags & UP:
            ioctl(any_socket, SET_FLAGS, pack("16sh14x", b"lo", flags | UP))


def _sent() -> int:
    text = Path("/proc/net/dev").read_text()
    return int(re.search(r"lo:(.*)", text)[1].split()[8])


if __name__ == "__main__":
    if sys.argv[1] == "be the driver":
        drive(Path(sys.argv[2]), sys.argv[3])
    else:
        main(sys.argv[1], int(sys.argv[2]), runs=sys.argv[3:] != ["plan"])
