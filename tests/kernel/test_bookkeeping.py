"""The kernel never looks at a decoding request twice: what it sums up instead stays right."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent


def test_sums_over_the_decoding_requests_stay_right():
    """Uncompiled, so that they can be compared with the requests when each step begins."""
    search = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": search, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, str(HERE / "bookkeeping.py")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 1000
