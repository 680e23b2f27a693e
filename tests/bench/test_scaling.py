"""How cost grows: with requests, blocks, cells, threads."""

import threading
import time
from functools import partial

from bench_cases import generated, h8_scenario, lanes
from measuring import least_time, run_again, time_lanes
from sweep_file import toml

from kvsweep import load_sweep, run
from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.simulate import simulate_batch
from kvsweep.simulate.workspace import allocate_outputs

REQUESTS = (200, 2_000, 20_000, 200_000)


def test_requests(tables, smoke):
    """Steady load on one instance, so that the running list has a size of its own."""
    sizes = REQUESTS[:2] if smoke else REQUESTS
    loads = {
        "20 requests/s, 10,000 blocks": (20.0, 10_000),
        "saturated, 2,200 blocks": (60.0, 2_200),
    }
    rows = {count: [f"{count:,}"] for count in sizes}
    for rate, blocks in loads.values():
        for count in sizes:
            scenario = h8_scenario(blocks, requests=count, rate=rate, instances=1)
            seeds = max(1, (400 if smoke else 40_000) // count)
            inputs = lanes(scenario, generated(scenario, range(seeds)))
            seconds, outputs = time_lanes(inputs, 1 if smoke else 5)
            rate_of = outputs.tallies["preemptions"].sum() / outputs.ttft.size
            rows[count] += [f"{1e9 * seconds / count:.0f}", f"{rate_of:.2f}"]
    columns = ["requests"]
    for load in loads:
        columns += [f"{load}: ns per request", "preemptions per request"]
    tables.add("Cost by the length of the request list", columns, rows.values())


def test_blocks(tables, smoke):
    """Nothing is cleared or built per block, so a pool may be as large as it likes."""
    seeds, repeats = (2, 1) if smoke else (60, 8)
    lists = generated(h8_scenario(1000), range(seeds))
    rows = []
    for blocks in (5_000, 20_000, 100_000, 1_000_000):
        seconds, _ = time_lanes(lanes(h8_scenario(blocks), lists), repeats)
        rows.append((f"{blocks:,}", f"{1e6 * seconds:.1f}"))
    tables.add("Cost by the size of the pool, H8", ("blocks", "us"), rows)


def test_cells(tables, smoke):
    """Cost per cell of a whole batch, requests and reductions included, by its number of cells."""
    rows = []
    for cells in (100, 1_000) if smoke else (100, 1_000, 10_000):
        variants = [h8_scenario(1000 + 400 * i) for i in range(10)]

        def batch(variants=variants, seeds=cells // 10):
            return simulate_batch(
                variants,
                range(seeds),
                entropy=DEFAULT_ENTROPY,
                policies=[None] * len(variants),
                base_dir=None,
                prune=False,
            )

        seconds = least_time(batch, 1 if smoke else 4) / cells
        rows.append((f"{cells:,}", f"{1e6 * seconds:.1f}"))
    tables.add(
        "Cost of a cell by the number of cells, requests and reductions included",
        ("cells", "us per cell"),
        rows,
        "Ten block counts from 1,000 to 4,600.",
    )


def least_in_turns(actions, repeats):
    """Return the least wall clock of each action; all run in turns, once before it counts."""
    times = dict.fromkeys(actions, float("inf"))
    for turn in range(1 + repeats):
        for name, action in actions.items():
            begun = time.perf_counter()
            action()
            if turn > 0:
                times[name] = min(times[name], time.perf_counter() - begun)
    return times


def kernels(seeds):
    """Return the same simulations by one thread and by two, by number of threads."""
    scenario = h8_scenario(2100)
    lists = generated(scenario, range(seeds))
    halves = [lanes(scenario, lists[: seeds // 2]), lanes(scenario, lists[seeds // 2 :])]
    pairs = [(half, allocate_outputs(half)) for half in halves]

    def alone():
        for pair in pairs:
            run_again(*pair)

    def together():
        threads = [threading.Thread(target=run_again, args=pair) for pair in pairs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    return {1: alone, 2: together}


def sweeps(folder, points, seeds):
    """Return runs of a sweep into a store with one thread and with two, by their number."""
    path = folder / "bench.toml"
    path.write_text(toml(points, seeds))
    sweep = load_sweep(path)
    options = {"out": folder / "bench.zarr", "overwrite": True, "prune": False}
    return {n: partial(run, sweep, workers=n, **options) for n in (1, 2)}


def test_threads(tables, smoke, tmp_path):
    """Wall clock of the same work by one thread and by two, in turns."""
    seeds, points, repeats = (4, 2, 1) if smoke else (400, 67, 3)
    cases = {
        "kernel, 2,100 blocks": (kernels(seeds), seeds),
        "whole sweep, store included": (sweeps(tmp_path, points, seeds), 2 * points * seeds),
    }
    rows = []
    for name, (actions, cells) in cases.items():
        times = least_in_turns(actions, repeats)
        each = [f"{1e6 * seconds / cells:.1f}" for seconds in times.values()]
        rows.append((name, f"{cells:,}", *each, f"{times[1] / times[2]:.2f}"))
    tables.add(
        "Threads, H8 (wall clock)",
        ("", "simulations", "one thread, us each", "two threads, us each", "speed-up"),
        rows,
        "Means something only where two cores are idle. Imports not included.",
    )
