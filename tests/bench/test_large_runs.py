"""Large single runs: many requests on many instances, and queues of a hundred thousand."""

import re
from pathlib import Path

from bench_cases import generated, h8_scenario, lanes
from measuring import time_lanes
from test_process import python

HERE = Path(__file__).resolve().parent
INSTANCES, BLOCKS = 128, 132_000
SIZES = (2_000, 20_000, 200_000)
# Far above what is measured, so that only cost that grows with the run fails.
MOST_GROWTH = 3.0
MEMORY = """
import re, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from test_large_runs import cluster
peak = lambda: int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
from kvsweep.simulate import warm_up
warm_up()
before = peak()
from kvsweep.simulate.kernel_cells import run_lanes
from kvsweep.simulate.workspace import allocate_outputs
inputs = cluster(int(sys.argv[2]), sys.argv[3])
run_lanes(inputs, allocate_outputs(inputs))
print(before, peak())
"""


def cluster(requests, routing):
    """Return a run at 10 requests/s per instance, which it can just serve."""
    scenario = h8_scenario(BLOCKS, routing, requests, 10.0 * INSTANCES, INSTANCES)
    return lanes(scenario, generated(scenario, range(1)))


def queue(requests, scheduler):
    """Return a burst at one instance, of which half of the requests wait at a time."""
    scenario = h8_scenario(2_200, requests=requests, rate=1e5, instances=1)
    engine = scenario.engine.model_copy(update={"scheduler": scheduler})
    scenario = scenario.model_copy(update={"engine": engine})
    return lanes(scenario, generated(scenario, range(1)))


def grown(make, kind, sizes, repeats):
    """Return nanoseconds per request by number of requests."""
    found = []
    for requests in sizes:
        seconds, outputs = time_lanes(make(requests, kind), repeats)
        assert (outputs.tallies["status"] == 0).all()
        found.append(1e9 * seconds / requests)
    return found


def test_large_runs(tables, smoke):
    sizes, repeats = (SIZES[:1], 1) if smoke else (SIZES, 3)
    cases = [
        (f"{INSTANCES} instances, round-robin", cluster, "round-robin"),
        (f"{INSTANCES} instances, least-loaded", cluster, "least-loaded"),
        ("queue, fcfs", queue, "fcfs"),
        ("queue, sjf", queue, "sjf"),
    ]
    rows = []
    for name, make, kind in cases:
        times = grown(make, kind, sizes, repeats)
        rows.append((name, *(f"{ns:.0f}" for ns in times), f"{times[-1] / times[0]:.2f}"))
        assert smoke or times[-1] <= MOST_GROWTH * times[0], name
    tables.add(
        "Large single runs, ns per request",
        ("", *(f"{requests:,} requests" for requests in sizes), "growth"),
        rows,
        f"Clusters: {BLOCKS:,} blocks per instance, 10 requests/s each. Queues: all requests come"
        " within two seconds at one instance of 2,200 blocks.",
    )


def test_memory_of_a_large_run(tables, smoke):
    """The peak of a process of its own, over that of one that has only loaded the kernel."""
    rows = []
    for requests in SIZES[:1] if smoke else SIZES[1:]:
        done = python("-c", MEMORY, str(HERE), str(requests), "least-loaded")
        before, peak = map(int, re.findall(r"\d+", done.stdout))
        each = 1024 * (peak - before) / requests
        rows.append((f"{requests:,}", f"{peak / 1024:.0f}", f"{each:,.0f}"))
    tables.add(
        f"Memory of a single run, {INSTANCES} instances of {BLOCKS:,} blocks",
        ("requests", "peak of the process, MiB", "bytes per request"),
        rows,
        "Requests and keys included. The rest of the peak is Python with the kernel loaded.",
    )
