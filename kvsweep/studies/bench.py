"""Runs on demand: each case under each column once, several at a time if there are workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from itertools import product
from multiprocessing import get_context

from kvsweep.errors import InputError
from kvsweep.studies.columns import Column
from kvsweep.studies.runs import Case, Run, simulate
from kvsweep.workers.starting import without_interrupts

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
        self._done = self._planned = 0

    def load(self, cases: Iterable[Case], columns: Sequence[Column]) -> None:
        """Make every run of `cases` under `columns` that has not been made."""
        wanted = [pair for pair in product(cases, columns) if pair not in self._runs]
        wanted = list(dict.fromkeys(wanted))
        self._planned += len(wanted)
        if self._workers > 1:
            self._spread([pair for pair in wanted if pair[1].rules == "blis"])
        for pair in wanted:
            if pair not in self._runs:
                self._keep(pair, simulate(*pair))

    def run(self, case: Case, column: Column) -> Run:
        """Return the run of a case under a column, making it if need be."""
        if (case, column) not in self._runs:
            self.load([case], [column])
        return self._runs[case, column]

    def _spread(self, pairs: Sequence[tuple[Case, Column]]) -> None:
        """Make runs in worker processes.

        Raises
        ------
        InputError
            If one of them dies.
        """
        # A forked process would inherit the locks of the threads of compiled code.
        pool = ProcessPoolExecutor(self._workers, mp_context=get_context("spawn"))
        try:
            with without_interrupts():
                futures = {pool.submit(simulate, *pair): pair for pair in pairs}
            for future in as_completed(futures):
                self._keep(futures[future], future.result())
        except BrokenProcessPool:
            pool.shutdown(wait=False, cancel_futures=True)
            raise InputError(
                "--workers: a process ended before its run did, as the system kills some where "
                f"there is too little memory; fewer than {self._workers} need less"
            ) from None
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
        pool.shutdown()

    def _keep(self, pair: tuple[Case, Column], run: Run) -> None:
        """Keep a run that has been made, and report it."""
        self._runs[pair] = run
        self._done += 1
        if self._progress:
            self._progress(self._done, self._planned)
