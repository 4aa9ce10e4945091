"""What is said on a terminal: one kind of console, on which text from outside does nothing but appear."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from typing import Any, NoReturn

from rich.console import Console
from rich.text import Text

from operformer.text import plain

CLOSED_PIPE = 128 + 13  # the exit code of a command whose reader has gone, as a shell counts SIGPIPE


class Terminal(Console):
    """A console without markup; texts are printed as `plain` makes them, each on one line."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts harmlessly, and what rich draws as it is."""
        super().print(*(plain(each) if isinstance(each, str) else each for each in objects), **options)

    def on_broken_pipe(self) -> NoReturn:
        """Leave silently: nobody reads any more."""
        self.quiet = True
        leave_closed_pipe()


def cell(text: str) -> Text:
    """A cell of a table, or the title of a bar."""
    return Text(plain(text))


def open_standard_streams() -> None:
    """Make standard streams usable that are closed, or that cannot write every character.

    A closed one is opened on the null device. Otherwise the next file that is opened would be taken for it.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number that is free: this one
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115
        elif mode == "w" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def leave_closed_pipe() -> NoReturn:
    """End the command as SIGPIPE would: what Python still has to write goes nowhere."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            os.dup2(null, stream.fileno())
    raise SystemExit(CLOSED_PIPE)
