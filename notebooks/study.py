"""What the notebooks of the studies share: their stores, intervals over seeds, their figures."""

import tempfile
from pathlib import Path

import numpy as np
from IPython.display import Image

import kvsweep
from kvsweep import plot
from kvsweep.analysis import statistics

ROOT = Path.cwd() if (Path.cwd() / "sweeps").is_dir() else Path.cwd().parent
SCRATCH = tempfile.TemporaryDirectory()


class Study:
    """The sweeps ``sweeps/<name>*.toml``, made by ``kvsweep grid`` beforehand.

    Where a store is missing, three seeds are simulated, so that a notebook runs on a fresh clone,
    with wide intervals; the figures then go to a temporary folder, not over those of the note. So
    they do where a store is there that has fewer cells, or not all of them yet.
    """

    def __init__(self, name):
        self.name = name
        sweeps = ROOT.glob(f"sweeps/{name}*.toml")
        self.complete = all(self._is_whole(path) for path in sweeps)
        self.figures = ROOT / "docs" / "findings" if self.complete else Path(SCRATCH.name)

    def _store(self, name):
        return ROOT / "results" / f"{name}.zarr"

    def _is_whole(self, path):
        """Return whether a sweep's store has a result of every cell that its file asks for."""
        store = self._store(path.stem)
        if not store.exists():
            return False
        ds, axes = kvsweep.open_results(store), kvsweep.load_sweep(path).axes
        sizes = {axis.name: len(axis.values) for axis in axes}
        return bool(ds.attrs["complete"]) and sizes.items() <= dict(ds.sizes).items()

    def results(self, name):
        """Open the store of a sweep, or simulate three seeds of it."""
        if self._store(name).exists():
            return kvsweep.open_results(self._store(name))
        sweep = kvsweep.load_sweep(ROOT / "sweeps" / f"{name}.toml", seeds=3)
        return kvsweep.run(sweep, out=Path(SCRATCH.name) / f"{name}.zarr")

    def save(self, figure, name):
        """Write a figure of the study and return what a notebook shows of it: the file."""
        path = self.figures / f"{self.name}-{name}.png"
        plot.save(figure, path)
        return Image(data=path.read_bytes(), width=round(96 * figure.get_figwidth()))


def bootstrap(*columns, of=lambda mean: mean):
    """Return a function of means over seeds with its 95 % interval; seeds stay paired."""
    values = np.stack([np.asarray(c, float) for c in columns], axis=-1)  # (seeds, columns)
    counts = statistics.resample_counts(len(values), 2000)
    samples = of(*statistics.student_means(values, counts).T)
    interval = statistics.percentile_interval(np.asarray(samples), 0.95)
    return of(*statistics.seed_mean(values)), interval.low, interval.high


def change(new, old):
    """Return the relative change of the mean over seeds, per cent, with its interval."""
    return bootstrap(new, old, of=lambda a, b: 100 * (a / b - 1))


def told(found, unit=" %", digits=2):
    """Write an effect and its interval."""
    mean, low, high = found
    return f"{mean:+.{digits}f}{unit} [{low:+.{digits}f}, {high:+.{digits}f}]"
