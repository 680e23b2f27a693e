"""``python tools/record_vllm`` is the recorder's command line."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run() -> None:
    """Run the command line, with this package and kvsweep's light modules at hand."""
    # A folder that is run comes first on the path: its modules would hide others of their names.
    sys.path[:] = [str(HERE.parent), str(HERE.parents[1]), *sys.path[1:]]
    from record_vllm.cli import main

    main()


if __name__ == "__main__":
    run()
