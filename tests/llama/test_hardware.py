import os

from kvsweep.llama import hardware


def test_the_processor_has_a_name_and_cores():
    assert hardware.cpu_name()
    assert 1 <= hardware.physical_cores() <= os.cpu_count()


def test_threads_of_one_core_count_once(tmp_path, monkeypatch):
    for cpu, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    monkeypatch.setattr(hardware, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2, 3}, raising=False)
    assert hardware.physical_cores() == 2
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 2}, raising=False)
    assert hardware.physical_cores() == 1


def test_where_the_system_tells_nothing_threads_count(tmp_path, monkeypatch):
    monkeypatch.setattr(hardware, "_TOPOLOGY", tmp_path)
    monkeypatch.setattr(hardware, "_CPUINFO", tmp_path / "none")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2}, raising=False)
    assert hardware.physical_cores() == 3
    assert hardware.cpu_name()
