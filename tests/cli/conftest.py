import pytest

from kvsweep.cli import main


@pytest.fixture
def run(capsys):
    """Return a function that runs the command line and returns exit code, stdout and stderr."""

    def call(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        out, err = capsys.readouterr()
        return ended.value.code or 0, out, err

    return call
