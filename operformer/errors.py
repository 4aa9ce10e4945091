"""The ways in which things go wrong, each with the exit code of the command line.

Every message is one line: what was expected, what came, what to do.
"""

# DESIGN.md: Four errors, four exit codes

from operformer.text import plain


class OperformerError(Exception):
    """An error the user can do something about."""

    exit_code: int = 1

    def __init__(self, message: str) -> None:
        super().__init__(plain(" ".join(message.split())))  # it may hold names from files


class OperformerWarning(UserWarning):
    """Something that works and is likely not what was wanted; one line, like an error's message.

    The command line prints it on standard error. ``warnings.simplefilter("error", OperformerWarning)`` makes it stop.
    """


class UsageError(OperformerError, ValueError):
    """A wrong argument, option, shape, dtype, device or grid."""

    exit_code = 2


class DataError(OperformerError, ValueError):
    """A file, data set or checkpoint that is missing, damaged or not what it claims to be."""

    exit_code = 3


class DivergedError(OperformerError, ArithmeticError):
    """Numbers that stopped being numbers."""

    exit_code = 4


class ResourceError(OperformerError, RuntimeError):
    """No disk, memory or device."""

    exit_code = 5


class ElsewhereError(OperformerError):
    """An error that another process of the same training tells; this one leaves with its exit code, silently."""

    def __init__(self, exit_code: int) -> None:
        super().__init__("")
        self.exit_code = exit_code


class TerminatedError(BaseException):
    """SIGTERM: like KeyboardInterrupt no error, so nothing that handles errors may catch it."""
