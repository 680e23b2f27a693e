"""How a run on a device is made ready and timed: CUDA's graphs and events, and their CPU twin."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

Run = Callable[[], Any]

_CPUINFO = Path("/proc/cpuinfo")


class Clock(Protocol):
    """Makes runs ready and times them.

    Attributes
    ----------
    name : str
        What times, for the store.
    least_s : float
        Seconds that a timing takes at least, by as many calls as that needs.
    """

    name: str
    least_s: float

    def ready(self, run: Run) -> tuple[Run, bool]:
        """Warm `run` up; return what is to be called for it, and whether that is a CUDA graph."""

    def seconds(self, run: Run, calls: int) -> float:
        """Return the seconds that so many calls take, one after the other."""

    def mhz(self) -> float:
        """Return the clock of the device; NaN if it does not tell."""


class HostClock:
    """Times a processor.

    Parameters
    ----------
    threads : int
        Threads that compute. The time of a single one is its processor's, without that of other
        programs.
    """

    least_s = 0.01

    def __init__(self, threads: int) -> None:
        self._now = time.thread_time if threads == 1 else time.perf_counter
        self.name = "processor time" if threads == 1 else "wall clock"

    def ready(self, run: Run) -> tuple[Run, bool]:
        """Call `run` once; there are no graphs."""
        run()
        return run, False

    def seconds(self, run: Run, calls: int) -> float:
        """Return the seconds of so many calls."""
        start = self._now()
        for _ in range(calls):
            run()
        return self._now() - start

    def mhz(self) -> float:
        """Return the fastest processor's clock, as Linux tells it."""
        try:
            found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", _CPUINFO.read_text(), re.MULTILINE)
        except OSError:
            found = []
        return max(map(float, found), default=float("nan"))


class CudaClock:
    """Times a GPU by events on its stream, runs replayed from graphs.

    A graph leaves out the time in which the host starts kernels, as vLLM's graphs do for decoding,
    and as a host that runs ahead of the GPU does for long prefills.

    Parameters
    ----------
    torch : module
        PyTorch.
    """

    name = "CUDA events"
    least_s = 0.005

    def __init__(self, torch: Any) -> None:
        self._torch = torch

    def ready(self, run: Run) -> tuple[Run, bool]:
        """Warm up beside the main stream, as capturing demands, and capture."""
        cuda = self._torch.cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            run()
            run()
        cuda.current_stream().wait_stream(side)
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        try:
            with cuda.graph(graph):
                run()
        except self._torch.OutOfMemoryError:
            raise
        except RuntimeError:  # a kernel that cannot be captured
            cuda.synchronize()
            return run, False
        graph.replay()
        return graph.replay, True

    def seconds(self, run: Run, calls: int) -> float:
        """Return the seconds between an event before and one after so many calls."""
        begin, end = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._torch.cuda.synchronize()
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1e3

    def mhz(self) -> float:
        """Return the clock of the multiprocessors, if nvidia-ml-py is there to tell."""
        try:
            return float(self._torch.cuda.clock_rate())
        except Exception:  # of the driver's library anything can come, and it is a note
            return float("nan")
