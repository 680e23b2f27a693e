"""Timing on CUDA, on a stand-in for PyTorch that notes what is asked of it, and on the host."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from kvsweep.gpu.torch_clock import CudaClock, HostClock


class FakeTorch:
    """CUDA whose clock moves by 2 ms with each run or replay."""

    class OutOfMemoryError(RuntimeError):
        pass

    def __init__(self, refuses=None):
        self.said, self.now, self.refuses = [], 0.0, refuses
        fake = self

        class Event:
            def __init__(self, enable_timing):
                assert enable_timing

            def record(self):
                self.at = fake.now

            def synchronize(self):
                fake.said.append("wait")

            def elapsed_time(self, end):
                return end.at - self.at

        class Graph:
            def replay(self):
                fake.said.append("replay")
                fake.now += 2.0

        @contextmanager
        def graph(made):
            fake.said.append("capture")
            if fake.refuses:
                raise fake.refuses
            yield
            fake.said.append("captured")

        @contextmanager
        def stream(side):
            fake.said.append("side")
            yield
            fake.said.append("main")

        def clock_rate():
            raise ModuleNotFoundError("pynvml does not seem to be installed")

        self.cuda = SimpleNamespace(
            Stream=lambda: SimpleNamespace(wait_stream=lambda other: None),
            current_stream=lambda: SimpleNamespace(wait_stream=lambda other: None),
            stream=stream,
            synchronize=lambda: None,
            CUDAGraph=Graph,
            graph=graph,
            Event=Event,
            clock_rate=clock_rate,
        )

    def run(self):
        self.said.append("run")
        self.now += 2.0


def test_a_run_is_warmed_up_beside_the_main_stream_and_then_captured():
    torch = FakeTorch()
    run, graphed = CudaClock(torch).ready(torch.run)
    assert graphed
    assert torch.said == ["side", "run", "run", "main", "capture", "run", "captured", "replay"]
    torch.said.clear()
    assert CudaClock(torch).seconds(run, 3) == pytest.approx(0.006)
    assert torch.said == ["replay"] * 3 + ["wait"]


def test_what_cannot_be_captured_is_run_as_it_is():
    torch = FakeTorch(RuntimeError("operation not permitted when stream is capturing"))
    run, graphed = CudaClock(torch).ready(torch.run)
    assert not graphed
    run()
    assert torch.said[-1] == "run"


def test_memory_that_runs_out_while_capturing_is_no_reason_to_go_on():
    torch = FakeTorch(FakeTorch.OutOfMemoryError())
    with pytest.raises(FakeTorch.OutOfMemoryError):
        CudaClock(torch).ready(torch.run)


def test_a_clock_that_is_not_told_is_nan():
    assert CudaClock(FakeTorch()).mhz() != CudaClock(FakeTorch()).mhz()


def test_a_single_thread_is_timed_by_its_processor(monkeypatch):
    now = iter([1.0, 1.5])
    monkeypatch.setattr("time.thread_time", lambda: next(now))
    ran = []
    clock = HostClock(threads=1)
    run, graphed = clock.ready(lambda: ran.append(1))
    assert (clock.name, graphed, ran) == ("processor time", False, [1])
    assert clock.seconds(run, 4) == 0.5
    assert len(ran) == 5
    assert HostClock(threads=2).name == "wall clock"
