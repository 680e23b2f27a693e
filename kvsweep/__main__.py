"""``python -m kvsweep`` is the command ``kvsweep``."""

from kvsweep.cli import main

if __name__ == "__main__":
    main()
