"""Speed measurements: run by ``pytest tests/bench``, left out of the default run.

``KVSWEEP_BENCH=smoke``, or ``--benchmark-disable``, runs everything once and as small as can be, to
see that it works; ``KVSWEEP_BENCH=write`` also writes the tables to BENCHMARKS.md.
"""

import os
from pathlib import Path

import pytest
from tables import Tables

HERE = Path(__file__).resolve().parent
MODE = os.environ.get("KVSWEEP_BENCH", "")


def pytest_ignore_collect(collection_path, config):
    """Collect these files only if they are asked for."""
    asked = (Path(argument.split("::")[0]).resolve() for argument in config.args)
    return None if MODE or any(path.is_relative_to(HERE) for path in asked) else True


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.resolve().is_relative_to(HERE):
            item.add_marker(pytest.mark.bench)


def pytest_configure(config):
    config.bench_tables = Tables()


@pytest.fixture(scope="session")
def smoke(request):
    """Whether only to see that it works."""
    return MODE == "smoke" or request.config.getoption("benchmark_disable", False)


@pytest.fixture(scope="session")
def tables(request):
    """What is measured, to be printed at the end."""
    return request.config.bench_tables


def pytest_terminal_summary(terminalreporter, config):
    if config.bench_tables.tables:
        terminalreporter.write_line(config.bench_tables.text())


def pytest_sessionfinish(session, exitstatus):
    if MODE == "write" and exitstatus == 0:
        (HERE.parents[1] / "BENCHMARKS.md").write_text(session.config.bench_tables.document())
