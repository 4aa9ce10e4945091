"""SIGTERM and Ctrl-C while training: asked once, the loop saves and leaves; asked twice or kept waiting, it leaves."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

from operformer.errors import TerminatedError

PATIENCE = 20.0  # seconds for the batch in hand; with the save, leaving takes less than 30


class StopSignals:
    """Counts what the process was asked; handlers are put back on leaving. Outside the main thread it hears nothing."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._ask)
            self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._leave)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._before:
            signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise stop_error(number)
        self.received = number
        signal.setitimer(signal.ITIMER_REAL, PATIENCE)

    def _leave(self, number: int, frame: FrameType | None) -> None:
        raise stop_error(self.received or signal.SIGTERM)


def stop_error(number: int) -> BaseException:
    """What a signal ends the command with."""
    return KeyboardInterrupt() if number == signal.SIGINT else TerminatedError()
