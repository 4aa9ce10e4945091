"""What tests of the command line share."""

import pytest


@pytest.fixture
def call(capsys):
    """Run a command in this process: its exit code, standard output and standard error."""
    from operformer.cli import main  # not everywhere that library tests run is the command line's framework

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return caught.value.code, captured.out, captured.err

    return run
