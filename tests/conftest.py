"""Which tests run, and how many examples hypothesis tries.

Tests marked ``long`` take a minute each, need clusters of processes, or repeat at length what
others test: they run with ``KVSWEEP_TEST_LONG=1``, as in ``.ci/run``.

Where several workers test, seven entries of the kernel run all lanes, so that less is compiled; a
long test compares the others with those.

Profiles of hypothesis: ``dev`` (few examples), ``ci`` (the same ones each run), ``thorough``.
Choose one by the environment variable ``HYPOTHESIS_PROFILE``; ``ci`` if there is none.
"""

import os

from hypothesis import HealthCheck, settings

# A trace is a large example: drawing one is slow next to what it tests.
SLOW_DRAWS = (HealthCheck.too_slow, HealthCheck.data_too_large)

if "PYTEST_XDIST_WORKER" in os.environ and not os.environ.get("KVSWEEP_TEST_LONG"):
    os.environ.setdefault("KVSWEEP_FEW_ENTRIES", "1")

# Tests from which a run is one of (nearly) all of them, which need each entry of the kernel.
WHOLE = 5000

settings.register_profile("dev", max_examples=10, deadline=None, suppress_health_check=SLOW_DRAWS)
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, suppress_health_check=SLOW_DRAWS
)
settings.register_profile(
    "thorough", max_examples=3000, deadline=None, suppress_health_check=SLOW_DRAWS
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def _limit(item):
    """Return how many seconds a test may take, if it says so."""
    marker = item.get_closest_marker("timeout")
    return marker.args[0] if marker and marker.args else 0


def pytest_collection_modifyitems(config, items):
    if os.environ.get("KVSWEEP_TEST_LONG"):
        # The longest first: last, it runs on one worker while the others have nothing left.
        most = max(map(_limit, items), default=0)
        items.sort(key=lambda item: _limit(item) < most)
        return
    left_out = [item for item in items if item.get_closest_marker("long")]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def pytest_collection_finish(session):
    """Compile the kernel's entries side by side, where all tests run on several workers.

    Otherwise a worker waits for another that compiles what its own next test needs as well.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or len(session.items) < WHOLE:
        return
    from kvsweep.simulate import entries, warm_up

    own = entries.ENTRIES[int(worker["workerid"].removeprefix("gw")) :: worker["workercount"]]
    warm_up(names=[entry.name for entry in own])
