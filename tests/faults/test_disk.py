"""Saves that are interrupted at every file operation, and disks that fill up at every offset."""

import hashlib
import resource
import shutil
import signal
from dataclasses import replace

import pytest
import torch
from children import MAKE, SETTINGS, carry_out, fork, kill_self_at, wait

from operformer.training.checkpoint import State, load_checkpoint
from operformer.training.optimizer import WeightAverage, make_optimizer
from operformer.training.schedule import Cosine

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")]

OFFSETS = 50


@pytest.fixture
def halfway(tmp_path):
    """A training after two of its four epochs; checkpoints inside an epoch are too far apart to come."""
    settings = replace(SETTINGS, epochs=2, schedule="plateau", save_minutes=60.0)
    assert wait(fork(lambda: carry_out("TNO", tmp_path / "run", settings))) == 0
    return tmp_path / "run", replace(settings, epochs=3)


def loaded(folder):
    operator = MAKE["TNO"]()
    optimizer = make_optimizer("adamw", operator, 1e-2, 0.0)
    schedule = Cosine(optimizer, 20)
    schedule.load_state_dict = lambda state: None
    state = State(operator, optimizer, schedule, WeightAverage(operator, SETTINGS.ema))
    progress = load_checkpoint(folder / "checkpoints", state)
    assert all(torch.isfinite(p).all() for p in operator.parameters())
    return progress


def digest(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}


def test_every_file_operation_of_a_save_may_be_the_last(halfway, tmp_path, count):
    run, settings = halfway
    operation, epochs = 0, []
    while True:
        operation += 1
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)

        def killed(at=operation, folder=copy):
            kill_self_at(at)
            carry_out("TNO", folder, settings)

        code = wait(fork(killed))
        progress = loaded(copy)
        assert (progress.epoch, progress.batch) in ((2, 0), (3, 0))
        epochs.append(progress.epoch)
        shutil.rmtree(copy)
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert epochs == sorted(epochs)  # first the old one, then the new one
    count("saves killed at every file operation, a checkpoint loads after each", operation - 1)
    assert operation > 20


def test_a_disk_that_fills_up_at_any_offset_leaves_the_old_checkpoint(halfway, tmp_path, count):
    run, settings = halfway
    before = digest(run / "checkpoints" / "epoch-0002")
    largest = max(path.stat().st_size for path in (run / "checkpoints").rglob("*"))
    intact = 0
    for k in range(OFFSETS):
        copy = tmp_path / "copy"
        shutil.copytree(run, copy)

        def limited(limit=largest * k // OFFSETS, folder=copy):
            # The kernel writes up to the limit and then refuses, as it does on a full disk.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            carry_out("TNO", folder, settings)

        code = wait(fork(limited))
        assert digest(copy / "checkpoints" / "epoch-0002") == before
        assert loaded(copy).epoch == 2
        assert code == 5
        intact += 1
        shutil.rmtree(copy)
    count("full disks, nothing that was there is lost", intact)
