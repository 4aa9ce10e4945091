"""What a person sees of a training: a bar in a terminal, a line for each epoch elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from operformer.terminal import Terminal
from operformer.text import plain


class TrainingDisplay:
    """Epoch, loss, error, samples per second and time left, on the console; ``samples`` are those of an epoch."""

    def __init__(
        self, title: str, epochs: int, samples: int, first_epoch: int = 0, console: Terminal | None = None
    ) -> None:
        self._console = console or Terminal()
        self._title, self._epochs = plain(title), epochs
        self._seen, self._started = 0, time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("epoch {task.fields[epoch]}/" + str(epochs)),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(
            self._title, total=epochs * samples, completed=first_epoch * samples, epoch=first_epoch, figures=""
        )
        self._figures = ""

    def __enter__(self) -> TrainingDisplay:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def batch(self, count: int) -> None:
        """One more batch of so many samples is done."""
        self._seen += count
        self._bar.update(self._task, advance=count, figures=f"{self._figures}  {self._rate():.0f} samples/s")

    def epoch(self, done: int, loss: float, error: float) -> None:
        """One more epoch is done, with this training loss and this validation error."""
        self._figures = f"loss {loss:.2e}  error {error:.2e}"
        self._bar.update(self._task, epoch=done, figures=f"{self._figures}  {self._rate():.0f} samples/s")
        if not self._console.is_terminal:
            line = f"{self._title}  epoch {done}/{self._epochs}  {self._figures}  {self._rate():.0f} samples/s"
            self._console.print(line, soft_wrap=True)

    def _rate(self) -> float:
        return self._seen / max(time.monotonic() - self._started, 1e-9)
