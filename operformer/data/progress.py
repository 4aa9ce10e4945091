"""What a person sees while a set is made: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

SECONDS_BETWEEN_LINES = 10.0


class GenerationDisplay:
    """Pairs done, pairs per second and time left. Call it with the number of pairs that were added."""

    def __init__(self, title: str, total: int, console: Console | None = None) -> None:
        self._console = console or Console()
        self._title, self._total = title, total
        self._done, self._found = 0, 0
        self._started = self._said = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(title, total=total, rate="")

    def __enter__(self) -> GenerationDisplay:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def found(self, count: int) -> None:
        """So many pairs were there already; they, and the time to find them, do not count for the rate."""
        self._found += count
        self._started = time.monotonic()
        self._bar.update(self._task, completed=self._found)

    def __call__(self, count: int) -> None:
        """So many more are made."""
        self._done += count
        rate = f"{self._done / max(time.monotonic() - self._started, 1e-9):.3g} pairs/s"
        self._bar.update(self._task, completed=self._found + self._done, rate=rate)
        is_last = self._found + self._done == self._total
        if not self._console.is_terminal and (is_last or time.monotonic() - self._said > SECONDS_BETWEEN_LINES):
            self._said = time.monotonic()
            line = f"{self._title}  {self._found + self._done}/{self._total}  {rate}  {self._left()} left"
            self._console.print(line, soft_wrap=True, highlight=False, markup=False)

    def _left(self) -> str:
        seconds = (time.monotonic() - self._started) / max(self._done, 1) * (self._total - self._found - self._done)
        minutes, seconds = divmod(round(seconds), 60)
        return f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
