"""How many processors a process may use: of its affinity, and of the control groups around it."""

import os

import pytest

from kvsweep import processors


@pytest.fixture
def groups(tmp_path, monkeypatch):
    """A machine of eight processors, by default without any group that has a limit."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)), raising=False)
    monkeypatch.setattr(processors, "_GROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(processors, "_OF_PROCESS", tmp_path / "of-process")
    (tmp_path / "of-process").write_text("3:cpu:/\n0::/job/step\n")
    (tmp_path / "cgroup/job/step").mkdir(parents=True)
    return tmp_path / "cgroup"


def test_without_limits_it_is_those_of_the_affinity(groups, monkeypatch):
    assert processors.usable_processors() == 8
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {2, 5, 7}, raising=False)
    assert processors.usable_processors() == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert processors.usable_processors() == 1


@pytest.mark.parametrize("folder", ["job/step", "job", ""])
def test_a_limit_of_any_group_around_it_counts_and_a_part_of_a_processor_is_one(groups, folder):
    limit = groups / folder / "cpu.max"
    limit.write_text("250000 100000\n")
    assert processors.usable_processors() == 3
    limit.write_text("1000 100000\n")
    assert processors.usable_processors() == 1
    for unlimited in ("max 100000\n", "9900000 100000\n", "", "100000\n", "100000 0\n"):
        limit.write_text(unlimited)
        assert processors.usable_processors() == 8


def test_the_least_limit_counts(groups):
    (groups / "cpu.max").write_text("300000 100000\n")
    (groups / "job/cpu.max").write_text("500000 100000\n")
    (groups / "job/step/cpu.max").write_text("max 100000\n")
    assert processors.usable_processors() == 3


def test_the_first_version_of_control_groups_has_two_files(groups):
    (groups / "cpu,cpuacct").mkdir()
    (groups / "cpu,cpuacct/cpu.cfs_quota_us").write_text("400000\n")
    assert processors.usable_processors() == 8
    (groups / "cpu,cpuacct/cpu.cfs_period_us").write_text("100000\n")
    assert processors.usable_processors() == 4
    (groups / "cpu,cpuacct/cpu.cfs_quota_us").write_text("-1\n")
    assert processors.usable_processors() == 8


def test_where_there_are_no_control_groups_nothing_limits(groups, tmp_path):
    (groups / "cpu.max").write_text("100000 100000\n")
    (tmp_path / "of-process").unlink()
    assert processors.usable_processors() == 8


def test_who_gives_no_workers_has_as_many_as_processors_are_usable(monkeypatch):
    from types import SimpleNamespace

    from kvsweep.workers import choosing

    monkeypatch.setattr(choosing, "usable_processors", lambda: 3)
    job = SimpleNamespace(cells=SimpleNamespace(seconds=0.0, tasks=range(50)))
    with choosing.found_workers(job, None, False, None, None, None) as workers:
        assert workers._count == 3
