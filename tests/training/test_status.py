"""The status of a training, while it runs, after it was stopped, and when it is done."""

import io
import json
import re
import subprocess
import sys
from types import ModuleType

import pytest

from operformer.errors import DataError
from operformer.terminal import Terminal
from operformer.training import status
from operformer.training.checkpoint import Progress
from operformer.training.lock import locked
from operformer.training.recipe import Training
from operformer.training.status import Board, TrainingDisplay, Watch, describe, read_status

SETTINGS = Training(epochs=4, save_minutes=0.5, loss="l2+h1")


def test_a_training_in_progress_is_described_with_what_is_left(tmp_path, clock):
    watch = Watch(tmp_path, "mine", SETTINGS, count=40)
    clock.now += 10.0
    # One epoch and a quarter of the next: 50 of 160 samples, 10 of them in 10 s.
    watch.batch(Progress(1, 0.25, 1, batch=2, loss=5.0), batches=8, size=10)
    with locked(tmp_path):
        text = describe(tmp_path)
    assert text.startswith("mine: in progress, process ")
    for part in (
        "epoch 1/4, batch 2/8",
        "loss 5.00e-01",
        "best validation l2+h1 error 2.50e-01",
        "1 samples/s",
        "0:01:50 left",
    ):
        assert part in text
    assert describe(tmp_path).startswith("mine: stopped; the same command resumes")


def test_the_status_is_written_every_few_seconds(tmp_path, clock):
    watch = Watch(tmp_path, "mine", SETTINGS, count=40)
    for batch in range(1, 9):
        clock.now += 2.0
        watch.batch(Progress(0, None, 0, batch=batch), 8, 5)
    assert read_status(tmp_path).batch == 7  # at 2, 8 and 14 s


def test_it_is_told_when_a_save_is_due(tmp_path, clock):
    watch = Watch(tmp_path, "mine", SETTINGS, count=40)
    assert not watch.is_save_due()
    clock.now += 30.0
    assert watch.is_save_due()
    with watch.saving():
        pass
    assert not watch.is_save_due()
    clock.now += 31.0
    assert watch.is_save_due()


def test_epochs_that_are_short_beside_a_save_are_not_all_saved(tmp_path, clock):
    watch = Watch(tmp_path, "mine", SETTINGS, count=40)
    assert watch.is_save_worthwhile(Progress(1, 0.5, 1))
    with watch.saving():
        clock.now += 3.0
    clock.now += 50.0
    assert not watch.is_save_worthwhile(Progress(2, 0.5, 1))
    assert watch.is_save_worthwhile(Progress(4, 0.5, 1))  # the last one
    clock.now += 10.0
    assert watch.is_save_worthwhile(Progress(3, 0.5, 1))
    with watch.saving():
        clock.now += 0.5
    assert watch.is_save_worthwhile(Progress(3, 0.5, 1))


def test_other_processes_write_nothing(tmp_path, clock):
    watch = Watch(None, "mine", SETTINGS, count=40)
    clock.now += 60.0
    watch.batch(Progress(0, None, 0, batch=1), 8, 5)
    watch.leave(Progress(0, None, 0, batch=1), 8, "stopped")
    assert not watch.is_save_due()
    assert not list(tmp_path.iterdir())


def test_a_finished_training_says_so(tmp_path, clock):
    watch = Watch(tmp_path, "mine", SETTINGS, count=40)
    watch.epoch(Progress(4, 0.125, 3), 0.5)
    assert describe(tmp_path) == "mine: finished; epoch 4/4  loss 5.00e-01  best validation l2+h1 error 1.25e-01"


def test_a_training_that_starts_or_diverged_says_so(tmp_path, clock):
    with locked(tmp_path):
        assert "starting, process" in describe(tmp_path)
    Watch(tmp_path, "mine", SETTINGS, 40).leave(Progress(0, None, 0, batch=3), 8, "diverged")
    assert describe(tmp_path).startswith("mine: diverged; epoch 0/4, batch 3/8")


def test_a_folder_without_a_training_is_told_with_the_command(tmp_path):
    with pytest.raises(DataError, match="operformer train"):
        describe(tmp_path)


GOOD = {
    "title": "a", "state": "training", "epoch": 1, "epochs": 2, "batch": 0, "batches": 3, "loss": None,
    "best_error": None, "samples_per_second": 1.0, "seconds_left": 2.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    ["{", "7", "[]", "null", json.dumps(GOOD | {"more": 1}), json.dumps(GOOD | {"title": 3}),
     json.dumps(GOOD | {"norm": "h7"}),
     json.dumps(GOOD | {"loss": "low"}), json.dumps(GOOD | {"seconds_left": 1e300}),
     json.dumps(GOOD | {"seconds_left": float("nan")})],
)  # fmt: skip
def test_damage_is_told_in_one_line(tmp_path, content):
    (tmp_path / "status.json").write_text(content)
    with pytest.raises(DataError, match=r"status\.json") as caught:
        describe(tmp_path)
    assert "\n" not in str(caught.value)


def test_the_command_prints_the_line(tmp_path):
    (tmp_path / "status.json").write_text(json.dumps(GOOD))
    command = [sys.executable, "-m", "operformer.cli", "status"]
    done = subprocess.run([*command, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout == "a: stopped; the same command resumes; epoch 1/2, batch 0/3\n"
    failed = subprocess.run([*command, str(tmp_path / "no")], capture_output=True, text=True, check=False)
    assert (failed.returncode, failed.stderr.count("\n")) == (3, 1)


# What a person sees, in a terminal and in a file


def shown(terminal, clock, title="lorenz-y", first_epoch=0, width=160):
    """Two epochs of three batches, 7 samples each, one second a batch."""
    stream = io.StringIO()
    console = Terminal(file=stream, force_terminal=terminal, width=width, color_system=None)
    with TrainingDisplay(title, first_epoch + 2, 3, first_epoch, console, "h1") as display:
        for epoch, (loss, error) in enumerate(((0.5, 0.25), (0.125, 0.0625)), start=first_epoch + 1):
            for _ in range(3):
                clock.now += 1.0
                display.batch(7)
            display.epoch(epoch, loss, error)
    return stream.getvalue()


def test_a_file_gets_one_line_for_each_epoch(clock):
    text = shown(False, clock, width=20)  # however narrow
    assert "\x1b" not in text
    assert text.splitlines() == [
        "lorenz-y  epoch 1/2  loss 5.00e-01  validation h1 error 2.50e-01  7 samples/s",
        "lorenz-y  epoch 2/2  loss 1.25e-01  validation h1 error 6.25e-02  7 samples/s",
    ]


def test_a_terminal_gets_a_bar_with_the_last_figures(clock):
    text = shown(True, clock)
    assert "\x1b" in text
    last = re.split(r"[\r\n]+", text.replace("\x1b[2K", ""))
    (final,) = [line for line in last if "lorenz-y" in line][-1:]
    for part in ("epoch 2/2", "loss 1.25e-01", "validation h1 error 6.25e-02", "7 samples/s"):
        assert part in final


def test_a_terminal_gets_its_cursor_back(clock):
    text = shown(True, clock)
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    stream = io.StringIO()
    with pytest.raises(KeyboardInterrupt), TrainingDisplay("t", 2, 3, 0, Terminal(file=stream, force_terminal=True)):
        raise KeyboardInterrupt
    assert stream.getvalue().rindex("\x1b[?25h") > stream.getvalue().rindex("\x1b[?25l")


@pytest.mark.parametrize("terminal", [True, False])
def test_a_training_that_goes_on_counts_from_where_it_stopped(clock, terminal):
    text = shown(terminal, clock, first_epoch=11)
    assert "epoch 13/13" in text
    assert not re.search(r"epoch \d/13", text)
    assert "7 samples/s" in text  # of this run, not of the epochs before it
    assert not terminal or "━" * 24 in text  # the bar is full in the end


# TensorBoard


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
    monkeypatch.setattr(status, "find_spec", lambda name: object())
    board = Board(tmp_path, first_epoch=2)
    board.epoch(RECORD)
    board.close()
    numbers = [(name, value, 3) for name, value in RECORD.items() if name != "epoch"]
    assert seen == [(str(tmp_path / "tensorboard"), 3), *numbers, "flushed", "closed"]


def test_without_tensorboard_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(status, "find_spec", lambda name: None)
    board = Board(tmp_path, 0)
    board.epoch(RECORD)
    board.close()
    assert not list(tmp_path.iterdir())
