"""The numbers of an epoch reach TensorBoard, if there is one."""

import sys
from types import ModuleType

from operformer.training import status as tensorboard
from operformer.training.status import Board

RECORD = {"epoch": 3, "loss": 0.5, "validation_error": 0.25, "learning_rate": 0.125, "seconds": 1.5}


def test_every_number_is_written_under_its_epoch(tmp_path, monkeypatch):
    seen = []

    class SummaryWriter:
        def __init__(self, folder, purge_step):
            seen.append((folder, purge_step))

        def add_scalar(self, name, value, step):
            seen.append((name, value, step))

        def flush(self):
            seen.append("flushed")

        def close(self):
            seen.append("closed")

    module = ModuleType("torch.utils.tensorboard")
    module.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", module)
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: object())
    board = Board(tmp_path, first_epoch=2)
    board.epoch(RECORD)
    board.close()
    numbers = [(name, value, 3) for name, value in RECORD.items() if name != "epoch"]
    assert seen == [(str(tmp_path / "tensorboard"), 3), *numbers, "flushed", "closed"]


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    board = Board(tmp_path, 0)
    board.epoch(RECORD)
    board.close()
    assert not list(tmp_path.iterdir())
