"""Runs on demand: each case under each column once, several at a time if there are workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import get_context

from kvsweep.published.columns import Column
from kvsweep.published.runs import Case, Run, simulate

Progress = Callable[[int, int], None]
"""Called with the number of runs done and to do."""


class Bench:
    """The runs made so far.

    Parameters
    ----------
    workers : int
        Processes that run the replica; 1: this one. The kernel runs in this one.
    progress : callable or None
        Told about every run.
    """

    def __init__(self, workers: int = 1, progress: Progress | None = None) -> None:
        self._workers = workers
        self._progress = progress
        self._runs: dict[tuple[Case, Column], Run] = {}

    def load(self, cases: Iterable[Case], columns: Sequence[Column]) -> None:
        """Make every run of `cases` under `columns` that has not been made."""
        wanted = [pair for pair in product(cases, columns) if pair not in self._runs]
        local = [pair for pair in wanted if self._workers == 1 or pair[1].rules == "vllm"]
        remote = [pair for pair in wanted if pair not in set(local)]
        done = 0
        if remote:
            done = self._spread(remote, len(wanted))
        for pair in local:
            self._runs[pair] = simulate(*pair)
            done += 1
            self._report(done, len(wanted))

    def run(self, case: Case, column: Column) -> Run:
        """Return the run of a case under a column, making it if need be."""
        if (case, column) not in self._runs:
            self._runs[case, column] = simulate(case, column)
        return self._runs[case, column]

    def _spread(self, pairs: Sequence[tuple[Case, Column]], total: int) -> int:
        """Make runs in worker processes; return how many."""
        # A forked process would inherit the locks of the threads of compiled code.
        with ProcessPoolExecutor(self._workers, mp_context=get_context("spawn")) as pool:
            futures = {pool.submit(simulate, *pair): pair for pair in pairs}
            for done, future in enumerate(as_completed(futures), 1):
                self._runs[futures[future]] = future.result()
                self._report(done, total)
        return len(pairs)

    def _report(self, done: int, total: int) -> None:
        if self._progress:
            self._progress(done, total)
