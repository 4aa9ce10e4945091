"""The metrics of a training for TensorBoard, if it is installed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any


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
