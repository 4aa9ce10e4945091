"""Checkpoints: whole or not there, the last two kept, damage named."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from operformer.errors import DataError, ResourceError
from operformer.evaluation.loss import relative_l2
from operformer.operators import TNO
from operformer.training.checkpoint import Progress, State, gather, load_checkpoint, write_checkpoint
from operformer.training.schedule import Cosine

FILES = ["config.json", "model.safetensors", "optimizer.safetensors", "training.json"]


class Moving:
    """An operator with its optimizer and schedule, moved along one update at a time."""

    def __init__(self, make_operator, pairs, seed=0):
        self.operator, self.samples = make_operator(seed), pairs(5)
        self.optimizer = torch.optim.AdamW(self.operator.parameters(), 0.01)
        self.schedule = Cosine(self.optimizer, 50)

    def state(self):
        return State(self.operator, self.optimizer, self.schedule)

    def update(self):
        s = self.samples
        relative_l2(self.operator(s.u, s.grid), s.z, s.grid).mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.after_update()

    def save(self, folder, epoch):
        write_checkpoint(folder, gather(self.state()), Progress(epoch, 1 / (epoch + 2), epoch))

    def numbers(self):
        """Everything that the next update depends on."""
        moments = self.optimizer.state_dict()
        return (
            [value.tolist() for value in self.operator.state_dict().values()],
            {(k, name): value.tolist() for k, entry in moments["state"].items() for name, value in entry.items()},
            [group["lr"] for group in moments["param_groups"]],
            self.schedule.state_dict(),
        )


@pytest.fixture
def fresh(make_operator, pairs):
    return lambda seed=0: Moving(make_operator, pairs, seed)


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "checkpoints"


def names(folder):
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def test_a_checkpoint_brings_everything_back(fresh, folder):
    state = fresh()
    for _ in range(3):
        state.update()
    state.save(folder, 3)
    assert names(folder / "epoch-0003") == FILES
    again = fresh(seed=1)
    assert again.numbers() != state.numbers()
    assert load_checkpoint(folder, again.state()) == Progress(3, 1 / 5, 3)
    assert again.numbers() == state.numbers()
    for one in (state, again):
        one.update()
    assert again.numbers() == state.numbers()


def test_no_checkpoint_is_no_progress(fresh, folder):
    assert load_checkpoint(folder, fresh().state()) is None
    folder.mkdir()
    assert load_checkpoint(folder, fresh().state()) is None


@pytest.mark.parametrize(("epochs", "kept"), [((1,), [1]), ((1, 2, 3, 4), [3, 4]), ((99, 100, 101), [100, 101])])
def test_the_last_two_are_kept(fresh, folder, epochs, kept):
    state = fresh()
    for epoch in epochs:
        state.update()
        state.save(folder, epoch)
    assert names(folder) == [f"epoch-{epoch:04d}" for epoch in kept]
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []
    assert load_checkpoint(folder, fresh().state()).epoch == epochs[-1]


def test_epochs_of_five_digits_come_after_those_of_four(fresh, folder):
    state = fresh()
    for epoch in (9998, 9999, 10000, 10001):
        state.update()
        state.save(folder, epoch)
        assert load_checkpoint(folder, fresh().state()).epoch == epoch
    assert {name.removeprefix("epoch-").lstrip("0") for name in names(folder)} == {"10000", "10001"}


def test_a_half_written_checkpoint_is_not_looked_at(fresh, folder):
    state = fresh()
    state.update()
    state.save(folder, 1)
    before = state.numbers()
    half = folder / ".epoch-0002.partial"
    half.mkdir()
    (half / "model.safetensors").write_bytes(b"half")
    (half / "more").write_bytes(b"from another version")
    again = fresh(seed=1)
    assert load_checkpoint(folder, again.state()).epoch == 1
    assert again.numbers() == before
    state.update()
    state.save(folder, 2)
    assert names(folder / "epoch-0002") == FILES
    assert not half.exists()


# Interruptions

OPERATIONS = ("replace", "rename", "fsync", "mkdir", "unlink", "rmdir")


def interrupt(monkeypatch, call, error):
    """Raise in the given file operation, counted from 1 over all kinds, and let the others pass."""
    count = 0

    def counted(original):
        def operation(*arguments, **options):
            nonlocal count
            count += 1
            if count == call:
                raise error
            return original(*arguments, **options)

        return operation

    for name in OPERATIONS:
        monkeypatch.setattr(os, name, counted(getattr(os, name)))
    return lambda: count


@pytest.mark.parametrize("epoch", [3, 2], ids=["a new epoch", "the same epoch again"])
@pytest.mark.parametrize(
    "error", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")], ids=["interrupted", "full disk"]
)
def test_an_interruption_at_any_file_operation_leaves_a_whole_checkpoint(fresh, folder, monkeypatch, epoch, error):
    state = fresh()
    saved = {}
    for number in (1, 2):
        state.update()
        state.save(folder, number)
        saved[number] = [state.numbers()]
    state.update()
    saved.setdefault(epoch, []).append(state.numbers())
    copy = folder.parent / "copy"
    shutil.copytree(folder, copy)
    with monkeypatch.context() as patch:
        total = interrupt(patch, 0, error)
        state.save(folder, epoch)
    assert total() > 10
    for call in range(1, total() + 1):
        shutil.rmtree(folder)
        shutil.copytree(copy, folder)
        with monkeypatch.context() as patch, suppress(KeyboardInterrupt, ResourceError):
            interrupt(patch, call, error)
            state.save(folder, epoch)
        again = fresh(seed=1)
        found = load_checkpoint(folder, again.state())
        assert found.epoch >= epoch - 1, f"operation {call} of {total()} lost the checkpoint"
        assert again.numbers() in saved[found.epoch]
        state.save(folder, epoch)
        assert names(folder) == [f"epoch-{epoch - 1:04d}", f"epoch-{epoch:04d}"]
        load_checkpoint(folder, again.state())
        assert again.numbers() == saved[epoch][-1]


# Damage


def cut(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty_moments(path):
    save_file({}, path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [*((name, damage) for name in FILES for damage in (Path.unlink, cut)), ("optimizer.safetensors", empty_moments)],
)
def test_damage_is_told_in_one_line_that_names_the_file(fresh, folder, name, damage):
    """Other damage, and right checksums on it: tests/test_hostile.py and tests/test_fuzz.py."""
    state = fresh()
    state.update()
    state.save(folder, 7)
    damage(folder / "epoch-0007" / name)
    with pytest.raises(DataError, match=name) as caught:
        load_checkpoint(folder, fresh().state())
    assert str(folder / "epoch-0007") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_full_disk_is_told_in_one_line(fresh, folder, monkeypatch):
    state = fresh()
    interrupt(monkeypatch, 1, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(ResourceError, match=r"cannot write .*the disk is full") as caught:
        state.save(folder, 1)
    assert "\n" not in str(caught.value)


def test_another_operator_is_refused(fresh, folder):
    state = fresh()
    state.update()
    state.save(folder, 1)
    other = TNO(1, 1, 1, hidden_channels=10, n_layers=1, n_heads=2)
    optimizer = torch.optim.AdamW(other.parameters())
    with pytest.raises(DataError, match="another operator"):
        load_checkpoint(folder, State(other, optimizer, Cosine(optimizer, 50)))
