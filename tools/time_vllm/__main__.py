"""``python tools/time_vllm`` times vLLM's steps on a GPU."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run() -> None:
    """Run the command line, with this package, the recorder and kvsweep at hand."""
    # A folder that is run comes first on the path: its modules would hide others of their names.
    sys.path[:] = [str(HERE.parent), str(HERE.parents[1]), *sys.path[1:]]
    from time_vllm.cli import main

    main()


if __name__ == "__main__":
    run()
