"""The metrics of a training: one JSON line for each epoch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from operformer.errors import DataError
from operformer.files import LARGEST_TEXT, read_bytes, write_bytes


def append_metrics(path: Path, record: dict[str, Any]) -> None:
    """Add the line of an epoch; one that is done again after a stop replaces its line and those after it."""
    kept = [line for line in read_metrics(path) if line["epoch"] < record["epoch"]] if path.exists() else []
    write_bytes(path, "".join(json.dumps(line) + "\n" for line in [*kept, record]).encode())


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of all epochs."""
    try:
        lines = [json.loads(line) for line in read_bytes(path, LARGEST_TEXT).decode().splitlines()]
        for line in lines:
            if not all(isinstance(line[key], int | float) for key in ("epoch", "loss", "validation_error")):
                raise TypeError("a value is no number")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({type(error).__name__}: {error}); restore or remove it") from None
    return lines
