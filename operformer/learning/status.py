"""How a training stands, for who asks from outside: status.json, written every few seconds."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Literal

from operformer.errors import DataError
from operformer.files import read_json, write_json
from operformer.learning.lock import holder

INTERVAL = 5.0  # seconds
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


class StatusFile:
    """Writes the status now and then; ``is_first`` is False in processes that leave it to another one."""

    def __init__(self, folder: Path, is_first: bool) -> None:
        self._path = folder / NAME
        self._is_first = is_first
        self._written = -INTERVAL

    def is_due(self) -> bool:
        """Whether the last one is old enough."""
        return self._is_first and time.monotonic() - self._written >= INTERVAL

    def write(self, status: Status) -> None:
        """Put the status in place of the last one."""
        if self._is_first:
            self._written = time.monotonic()
            write_json(self._path, asdict(status))


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
        parts.append(f"best error {status.best_error:.2e}")
    if trained_by:
        parts.append(f"{status.samples_per_second:.0f} samples/s")
        parts.append(f"{timedelta(seconds=round(status.seconds_left))} left")
    return f"{status.title}: {_state(status, trained_by)}; {'  '.join(parts)}"


def read_status(folder: Path) -> Status:
    """The last status that a training wrote."""
    path = folder / NAME
    values = read_json(path)
    try:
        status = Status(**values)
        for field in fields(Status):
            value = getattr(status, field.name)
            is_text = field.name in ("title", "state")
            is_missing = value is None and field.name in ("loss", "best_error")
            if not (is_missing or isinstance(value, str if is_text else int | float)):
                raise TypeError(f"{field.name} is {value!r}")
        timedelta(seconds=round(status.seconds_left))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"{path} is damaged ({error}); remove it, the training writes another") from None
    return status


def _state(status: Status, trained_by: str | None) -> str:
    if status.state == "finished":
        return "finished"
    if trained_by:
        return f"in progress, {trained_by}"
    if status.state == "diverged":
        return "diverged"
    return "stopped; the same command goes on from there"
