"""How many tasks a second one process can drive: workers of 1,600 threads that simulate nothing.

    PYTHONPATH=tests/bench:tests/workers python tests/bench/many_workers.py [TASKS] [THREADS]

Scheduler and workers are processes of their own, over TCP. Each task leaves a part of recorded
numbers in the store, as a simulation does; this process sends, hears, and packs. What counts is its
processor time a task, as the workers share the machine here and would not on a cluster.
"""

import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from remote_cluster import Remote

from kvsweep import grid
from kvsweep.config import load_sweep
from kvsweep.grid import plan
from kvsweep.policies import Status
from kvsweep.simulate import source_hash
from kvsweep.store import prepare
from kvsweep.workers.cluster import existing
from kvsweep.workers.job import Job

PROCESSES = 4
TEXT = """
title = "many tasks"
question = "how many tasks a second?"
workload.requests = 1000
cluster.instances = 2
latency.beta = [1000, 10, 5]
[grid]
"cache.gpu_blocks" = { start = 1000, stop = 1660, step = 10 }
seed = { count = COUNT }
"""


@dataclass(frozen=True)
class Recorded(Job):
    """A job that has all numbers at once."""

    def simulate(self, task):
        shape = len(self.cells.variant_indices(task)), len(self.cells.seeds_of(task))
        found = {
            array.name: np.ones(shape + array.chunks[len(self.cells.shape) :], array.dtype)
            for array in self.deliver.arrays
        }
        return found | {"status": np.full(shape, Status.OK, np.int8)}


def main(tasks: int, threads: int) -> None:
    with TemporaryDirectory() as folder, ExitStack() as ends:
        file = Path(folder, "many.toml")
        file.write_text(TEXT.replace("COUNT", str(tasks)))
        sweep = load_sweep(file)
        grid.CHUNK_SECONDS, grid.TASKS_WANTED = (1e-9, 1e-9), tasks  # one seed a task
        grid.LONGEST_SECONDS = 0.25
        cells = plan(sweep)
        remote = Remote(Path(folder), ends, {"OMP_NUM_THREADS": "1"})
        # Workers unpickle the job by the name of this module.
        for _ in range(PROCESSES):
            remote.worker("--nthreads", str(threads // PROCESSES), path=":".join(sys.path))
        store = prepare(Path(folder, "many.zarr"), sweep, cells, source_hash())
        todo = store.pending()
        with existing(remote.address) as found:
            while sum(found._pool.usable.values()) < threads:
                found._pool.look()
                time.sleep(0.05)
            job = Recorded("many", cells, 1, Path(folder), False, True, store.writer())
            began, worked = time.perf_counter(), time.process_time()
            with found.holding(job) as running:
                running.begin(todo)
                for task, outcome in running:
                    if isinstance(outcome, Exception):
                        raise outcome
                    store.accept(task, outcome)
            heard = time.process_time() - worked
            store.finish()
            took, worked = time.perf_counter() - began, time.process_time() - worked
    each = worked / len(todo)
    print(
        f"{len(todo):,} tasks on {threads:,} threads in {took:.1f} s, {worked:.2f} s of this one, "
        f"{heard:.2f} s before it completed the store: {1000 * each:.2f} ms a task, at most "
        f"{1 / each:,.0f} tasks/s"
    )


if __name__ == "__main__":
    from many_workers import main as run  # by this name workers find what they unpickle

    given = [int(text) for text in sys.argv[1:]]
    run(*(given + [2000, 1600][len(given) :]))
