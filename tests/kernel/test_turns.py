"""When instances do something next: kept from one step to the next, of all that did nothing."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_a_turn_that_is_kept_is_as_it_would_be_found():
    script = TESTS / "kernel" / "kept_turns.py"
    search = os.pathsep.join([str(TESTS.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": search, "NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 3000
