"""The command line: what each group of commands is for stands in `GROUPS`.

Exit codes: 0 done, 1 a certificate that is not passed, 2 usage or configuration, 3 bad data or checkpoint, 4 numbers
diverged, 5 resource, 130/141/143 signals (141: whoever read the output has gone).
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from cyclopts import App, CycloptsError, Group, UnknownOptionError, UnusedCliTokensError

from operformer import __version__
from operformer.commands.console import console
from operformer.commands.data import generate, import_, inspect
from operformer.commands.doctor import doctor
from operformer.commands.predict import predict
from operformer.commands.runs import demo, evaluate, report, status, train
from operformer.commands.sharing import card, export, models
from operformer.commands.trust import calibrate, certify
from operformer.errors import OperformerError, OperformerWarning, TerminatedError
from operformer.memory import set_limit
from operformer.terminal import leave_closed_pipe, open_standard_streams
from operformer.text import plain

STOPPED = "stopped; what was finished is kept, and the same command resumes"
OUT_OF_MEMORY = "out of memory; use a smaller batch, resolution or operator, or fewer workers"
# What one wants to do, and the commands for it.
GROUPS: dict[str, tuple[Callable[..., Any], ...]] = {
    "Begin": (demo, doctor),
    "Bring data": (import_, generate, inspect),
    "Train an operator": (train, status),
    "See what it learned": (evaluate, report),
    "Know when to trust it": (certify, calibrate),
    "Use it and hand it on": (predict, export, card, models),
}

app = App(
    name="operformer",
    help="Transformers that act on functions: train a neural operator and see what it learned.",
    version=__version__,
    result_action="return_value",
    suppress_keyboard_interrupt=False,
    help_epilogue="With --debug an error comes with its traceback; --memory 8G refuses what would need more.",
)
app.register_install_completion_command()  # operformer --install-completion: the shell completes commands and options
for title, commands in GROUPS.items():
    group = Group.create_ordered(title)
    for command in commands:
        app.command(command, name=command.__name__.rstrip("_"), group=group)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command of operformer."""
    run(app, arguments)


def run(app: App, arguments: Sequence[str] | None = None) -> NoReturn:
    """Run a command; an error is one line on standard error and the documented exit code, a warning one line."""
    open_standard_streams()
    with warnings.catch_warnings():
        warnings.simplefilter("default", OperformerWarning)
        _run(app, arguments)


def _run(app: App, arguments: Sequence[str] | None) -> NoReturn:
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    given = [argument for argument in given if argument != "--debug"]
    signal.signal(signal.SIGTERM, _terminate)
    if not (debug or sys.warnoptions):
        warnings.showwarning = _tell_own
    try:
        set_limit(_taken(given, "--memory"))
        code = app(given, exit_on_error=False, print_error=False) or 0
        sys.stdout.flush()
    except BrokenPipeError:
        leave_closed_pipe()
    except BaseException as error:
        if debug:
            traceback.print_exc()
        explained = _explain(error)
        if explained is None:
            raise
        code = _complain(*explained)
    sys.exit(code)


def _taken(given: list[str], option: str) -> str | None:
    """The value of an option that every command has, taken out of the arguments."""
    for place, argument in enumerate(given):
        name, equals, value = argument.partition("=")
        if name == option:
            found = value if equals else "".join(given[place + 1 : place + 2])
            del given[place : place + (1 if equals else 2)]
            return found
    return None


def _tell_own(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, file: Any = None, line: Any = None
) -> None:
    """Warnings of this library in one line; those of others are about their inside, and not for who gives commands."""
    if issubclass(category, OperformerWarning):
        _complain(f"warning: {message}", 0)
    elif Path(filename).is_relative_to(Path(__file__).parent):
        _complain(" ".join(str(message).split()), 0)


def _explain(error: BaseException) -> tuple[str, int] | None:
    """One line and the exit code; None for what is a defect of the library."""
    if isinstance(error, KeyboardInterrupt):
        return STOPPED, 130
    if isinstance(error, TerminatedError):
        return STOPPED, 143
    if isinstance(error, CycloptsError):
        return f"{' '.join(str(error).split())}{_remedy(error)}", 2
    if isinstance(error, OperformerError):
        return str(error), error.exit_code  # nothing to say where another process of the training says it
    # torch.OutOfMemoryError on a GPU; on the CPU torch says so in words.
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError" or "allocate memory" in str(error):
        return OUT_OF_MEMORY, 5
    if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("operformer"):
        return f"the package {error.name} is not installed; see: operformer doctor", 5
    if isinstance(error, OSError):
        return f"{error.filename or 'input or output'}: {(error.strerror or str(error)).lower()}", 5
    return None


def _remedy(error: CycloptsError) -> str:
    """What to do about words that a command does not know; where to read what it takes."""
    command = " ".join(error.command_chain or ())
    if "Did you mean" in str(error):
        return ""
    if isinstance(error, UnknownOptionError) and command == "train":
        return " Settings have no dashes: section.setting=value, such as training.epochs=5"
    if isinstance(error, UnusedCliTokensError) and command:
        return f' Put what holds spaces between quotes, as in --layout "b x y"; see: operformer {command} --help'
    return f" See: operformer {command} --help" if command else ""


def _complain(message: str, code: int) -> int:
    if message:
        print(f"operformer: {plain(message)}", file=sys.stderr)
    return code


def _terminate(number: int, frame: object) -> NoReturn:
    console.show_cursor()
    _complain(STOPPED, 143)
    os._exit(143)


if __name__ == "__main__":
    main()
