"""A whole sweep in one thread, taken apart: requests, simulation, reductions, store."""

import time
from collections import Counter

import pytest
from sweep_file import toml

from kvsweep import grid, load_sweep
from kvsweep.config import DEFAULT_ENTROPY
from kvsweep.simulate import kernel_cells, simulate_batch, source_hash
from kvsweep.simulate.request_lists import RequestLists
from kvsweep.store import prepare


def clocked(seconds, name, function):
    """Return `function` with its processor time added to ``seconds[name]``."""

    def call(*args, **kwargs):
        begun = time.thread_time()
        try:
            return function(*args, **kwargs)
        finally:
            seconds[name] += time.thread_time() - begun

    return call


@pytest.fixture
def seconds(monkeypatch):
    """Processor time by part, counted while the test runs."""
    found = Counter()
    parts = [(kernel_cells, "run_lanes", "simulation")]
    parts += [(RequestLists, name, "requests") for name in ("load", "prepared")]
    for owner, name, part in parts:
        monkeypatch.setattr(owner, name, clocked(found, part, getattr(owner, name)))
    return found


def run_once(sweep, plan, path, seconds):
    """Run a sweep as a worker and its writer do, in this thread."""
    store = prepare(path, sweep, plan, source_hash())
    for task in store.pending():
        chosen = plan.variant_indices(task)
        batch = clocked(seconds, "batch", simulate_batch)(
            [plan.variants[i] for i in chosen],
            plan.seeds_of(task),
            entropy=DEFAULT_ENTROPY,
            policies=[plan.policies[i] for i in chosen],
            base_dir=sweep.base_dir,
            prune=False,
        )
        clocked(seconds, "store", store.write)(task, batch)
    others = seconds["simulation"] + seconds["requests"]
    seconds["reductions and the rest"] = seconds.pop("batch") - others


def test_parts_of_a_sweep(tables, smoke, tmp_path, seconds):
    points, seeds, repeats = (2, 2, 1) if smoke else (67, 150, 3)  # as sweeps/h8.toml
    path = tmp_path / "bench.toml"
    path.write_text(toml(points, seeds))
    sweep = load_sweep(path)
    plan = grid.plan(sweep)
    runs = []
    for number in range(repeats):
        seconds.clear()
        run_once(sweep, plan, tmp_path / f"{number}.zarr", seconds)
        runs.append(dict(seconds))
    best = {part: min(run[part] for run in runs) for part in sorted(runs[0])}
    whole = sum(best.values())
    rows = [
        (part, f"{1e6 * spent / plan.cells:.1f}", f"{100 * spent / whole:.0f} %")
        for part, spent in (best | {"all": whole}).items()
    ]
    tables.add(
        "Parts of a sweep, H8, one thread",
        ("part", "us per cell", "share"),
        rows,
        f"{plan.cells:,} cells: {2 * points} variants, {seeds} seeds, {len(plan.tasks)} tasks.",
    )
