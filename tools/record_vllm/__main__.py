"""``python tools/record_vllm`` is the recorder's command line."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def run() -> None:
    """Run the command line, with this package and kvsweep's light modules at hand."""
    # A folder that is run comes first on the path: its modules would hide others of their names.
    sys.path[:] = [str(HERE.parent), str(HERE.parents[1]), *sys.path[1:]]
    try:
        from record_vllm.cli import main
    except ModuleNotFoundError as error:
        told = f"record_vllm: {error}; an environment of vLLM has it once setup has ended"
        sys.stderr.write(f"{told}: run that again, or pip install {error.name}\n")
        sys.exit(2)
    main()


if __name__ == "__main__":
    run()
