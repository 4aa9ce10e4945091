"""How a training stands: status.json for other processes, a bar or lines for a person, TensorBoard."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from operformer.errors import DataError
from operformer.evaluation.loss import LOSSES
from operformer.files import LARGEST_TEXT, read_bytes, read_json, write_bytes, write_json
from operformer.terminal import Terminal
from operformer.text import plain
from operformer.training.checkpoint import Progress
from operformer.training.lock import holder
from operformer.training.recipe import Training
from operformer.values import LARGEST_NUMBER, parse_json

INTERVAL = 5.0  # seconds
SHORT, SHARE = 1.0, 1 / 20  # seconds of a save that nobody minds; of the time, what longer ones may take
NAME = "status.json"
StateName = Literal["training", "stopped", "diverged", "finished"]


@dataclass(frozen=True)
class Status:
    """Where a training is and how fast it goes."""

    title: str
    state: StateName
    epoch: int  # epochs done
    epochs: int
    batch: int  # batches done of the next epoch
    batches: int
    loss: float | None  # mean of the epoch so far, or of the last one
    best_error: float | None
    samples_per_second: float
    seconds_left: float
    norm: str = ""  # of the error, by the loss's name; earlier versions did not write it


class Watch:
    """The clock of a training: when to save, how fast it goes, its status; ``folder=None`` leaves that to another."""

    def __init__(self, folder: Path | None, title: str, settings: Training, count: int) -> None:
        self._folder, self._title, self._settings, self._count = folder, title, settings, count
        self._started = self._saved = time.monotonic()
        self._cost = 0.0  # seconds of the last save
        self._written = -INTERVAL
        self._seen = 0
        self._loss: float | None = None

    def is_save_due(self) -> bool:
        """Whether the last checkpoint is old enough."""
        return self._folder is not None and time.monotonic() - self._saved >= 60 * self._settings.save_minutes

    def is_save_worthwhile(self, progress: Progress) -> bool:
        """Whether an epoch that is done is saved: the last one is, others if saving takes a small part of the time."""
        since = time.monotonic() - self._saved
        return progress.epoch == self._settings.epochs or self._cost <= max(SHORT, SHARE * since)

    @contextmanager
    def saving(self) -> Iterator[None]:
        """A checkpoint is written inside."""
        started = time.monotonic()
        yield
        self._saved = time.monotonic()
        self._cost = self._saved - started

    def batch(self, progress: Progress, batches: int, size: int) -> None:
        """One more batch of so many pairs is done."""
        self._seen += size
        if time.monotonic() - self._written >= INTERVAL:
            self.leave(progress, batches, "training")

    def epoch(self, progress: Progress, loss: float) -> None:
        """One more epoch is done."""
        self._loss = loss
        if progress.epoch == self._settings.epochs:
            self.leave(progress, 0, "finished")

    def leave(self, progress: Progress, batches: int, state: StateName) -> None:
        """Put the status in place of the last one."""
        if self._folder is None:
            return
        self._written = time.monotonic()
        rate = self._seen / max(self._written - self._started, 1e-9)
        share = progress.batch / batches if batches else 0.0
        left = self._count * (self._settings.epochs - progress.epoch - share)
        status = Status(
            title=self._title,
            state=state,
            epoch=progress.epoch,
            epochs=self._settings.epochs,
            batch=progress.batch,
            batches=batches,
            loss=progress.loss / (self._count * share) if share else self._loss,
            best_error=progress.best_error,
            samples_per_second=round(rate, 3),
            seconds_left=round(left / rate, 1) if rate else 0.0,
            norm=self._settings.loss,
        )
        write_json(self._folder / NAME, asdict(status), is_lasting=False)


def describe(folder: Path) -> str:
    """The status of the training in a folder, in one line."""
    trained_by = holder(folder)
    if not (folder / NAME).is_file():
        if trained_by:
            return f"{folder}: starting, {trained_by}"
        raise DataError(f"{folder} holds no training; start one with: operformer train EXPERIMENT --out {folder}")
    status = read_status(folder)
    parts = [f"epoch {status.epoch}/{status.epochs}"]
    if status.state != "finished":
        parts[0] += f", batch {status.batch}/{status.batches}"
    if status.loss is not None:
        parts.append(f"loss {status.loss:.2e}")
    if status.best_error is not None:
        parts.append(f"best {_error_name(status.norm)} {status.best_error:.2e}")
    if trained_by:
        parts.append(f"{status.samples_per_second:.0f} samples/s")
        parts.append(f"{timedelta(seconds=round(status.seconds_left))} left")
    return f"{status.title}: {_state(status, trained_by)}; {'  '.join(parts)}"


def read_status(folder: Path) -> Status:
    """The last status that a training wrote."""
    path = folder / NAME
    values = read_json(path, LARGEST_NUMBER)
    try:
        status = Status(**values)
        for field in fields(Status):
            value = getattr(status, field.name)
            is_text = field.name in ("title", "state", "norm")
            is_missing = value is None and field.name in ("loss", "best_error")
            if not (is_missing or isinstance(value, str if is_text else int | float)):
                raise TypeError(f"{field.name} is {value!r}")
        if status.norm not in ("", *LOSSES):
            raise ValueError("norm is no loss")
        timedelta(seconds=round(status.seconds_left))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it, the training writes another") from None
    return status


def _error_name(norm: str) -> str:
    """What the error of an epoch is: a relative one on the validation samples, in the norm of the loss."""
    return f"validation {norm} error" if norm else "validation error"


def _state(status: Status, trained_by: str | None) -> str:
    if status.state == "finished":
        return "finished"
    if trained_by:
        return f"in progress, {trained_by}"
    if status.state == "diverged":
        return "diverged"
    return "stopped; the same command resumes"


def append_metrics(path: Path, record: dict[str, Any]) -> None:
    """Add the line of an epoch; one that is done again after a stop replaces its line and those after it."""
    kept = [line for line in read_metrics(path) if line["epoch"] < record["epoch"]] if path.exists() else []
    write_bytes(path, "".join(json.dumps(line) + "\n" for line in [*kept, record]).encode())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of all epochs."""
    try:
        lines = [parse_json(line, LARGEST_NUMBER) for line in read_bytes(path, LARGEST_TEXT).splitlines()]
        for line in lines:
            if not isinstance(line, dict) or not all(isinstance(value, int | float) for value in line.values()):
                raise TypeError("a value is no number")
            if not all(name in line for name in ("epoch", "loss", "validation_error")):
                raise KeyError("a value is missing")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}: {error}); restore or remove it") from None
    return lines


class Board:
    """Writes to folder/tensorboard; epochs that are done again after a stop replace those that were there."""

    def __init__(self, folder: Path, first_epoch: int) -> None:
        self._writer: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=first_epoch + 1)

    def epoch(self, record: dict[str, Any]) -> None:
        """The numbers of an epoch, as they stand in metrics.jsonl."""
        if self._writer is not None:
            for name, value in record.items():
                if name != "epoch":
                    self._writer.add_scalar(name, value, record["epoch"])
            self._writer.flush()

    def close(self) -> None:
        """Let go of the file."""
        if self._writer is not None:
            self._writer.close()


class TrainingDisplay:
    """Epoch, loss, error, samples per second and time left, on the console.

    ``samples`` are those of an epoch; ``norm`` is the error's, by the loss's name.
    """

    def __init__(
        self,
        title: str,
        epochs: int,
        samples: int,
        first_epoch: int = 0,
        console: Terminal | None = None,
        norm: str = "",
    ) -> None:
        self._error_name = _error_name(norm)
        self._console = console or Terminal()
        self._title, self._epochs = plain(title), epochs
        self._seen, self._started = 0, time.monotonic()
        self._bar = Bar(
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
        """One more batch, of ``count`` samples, is done."""
        self._seen += count
        self._bar.update(self._task, advance=count, figures=f"{self._figures}  {self._rate():.0f} samples/s")

    def epoch(self, done: int, loss: float, error: float) -> None:
        """One more epoch is done, with this training loss and this validation error."""
        self._figures = f"loss {loss:.2e}  {self._error_name} {error:.2e}"
        self._bar.update(self._task, epoch=done, figures=f"{self._figures}  {self._rate():.0f} samples/s")
        if not self._console.is_terminal:
            line = f"{self._title}  epoch {done}/{self._epochs}  {self._figures}  {self._rate():.0f} samples/s"
            self._console.print(line, soft_wrap=True)

    def _rate(self) -> float:
        return self._seen / max(time.monotonic() - self._started, 1e-9)
