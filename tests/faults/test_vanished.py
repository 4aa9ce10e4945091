"""Folders that are moved, deleted or replaced while a training or a set is written there."""

import os
import shutil
import time
from dataclasses import replace

import pytest
from children import SETTINGS, carry_out, fork, wait

from operformer.data.generation import Draw, generate
from operformer.problems.darcy import Darcy
from operformer.training.checkpoint import last_epoch

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
ENDLESS = replace(SETTINGS, epochs=10**6, save_minutes=60.0)
AFTER = (0, 1, 2, 5)  # epochs
EACH = 2


def deleted(folder):
    while folder.exists():  # as `rm -rf`, which fails if a file came meanwhile
        shutil.rmtree(folder, ignore_errors=True)


def moved(folder):
    folder.rename(folder.with_name("elsewhere"))


def replaced(folder):
    moved(folder)
    folder.mkdir()


def copied_in_its_place(folder):
    shutil.copytree(folder, folder.with_name("copy"), ignore=shutil.ignore_patterns(".*.partial"))
    moved(folder)
    folder.with_name("copy").rename(folder)


def emptied(folder):
    """As `rm -rf run/*`, which leaves hidden files."""
    for path in folder.glob("[!.]*"):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


VANISHED = (deleted, moved, replaced, copied_in_its_place, emptied)


def state(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*")} if folder.exists() else None


def attempt(folder, vanish, after):
    """A training whose folder vanishes after some epochs leaves with 5 and says what is left, and writes no more."""
    errors = folder.with_name("errors")
    process = fork(lambda: carry_out("TNO", folder, ENDLESS), errors=str(errors))
    deadline = time.monotonic() + 300
    while not (folder / "training.json").exists() or last_epoch(folder / "checkpoints") < after:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    for _ in range(20):
        try:
            vanish(folder)
            break
        except (shutil.Error, FileNotFoundError):  # a file went while it was copied
            shutil.rmtree(folder.with_name("copy"), ignore_errors=True)
    code = wait(process, 300.0)
    there = state(folder)
    told = errors.read_text()
    assert code == 5, told
    assert len(told.splitlines()) == 1, told
    assert f"operformer: {folder}" in told, told
    elsewhere = folder.with_name("elsewhere")
    if vanish is deleted:
        assert there is None
    elif vanish is not emptied and after > 0:
        last = max((elsewhere / "checkpoints").glob("epoch-*"))
        assert f"moved to {elsewhere}" in told, told
        assert f"its last checkpoint is {last}" in told, told
    if vanish is replaced:
        assert there == {}
    for path in (folder, elsewhere):
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.faults
def test_trainings_whose_folders_vanish(tmp_path, count):
    for vanish in VANISHED:
        for after in AFTER:
            for _ in range(EACH):
                attempt(tmp_path / "run", vanish, after)
    count("folders of trainings moved, deleted or replaced, each told with 5", len(VANISHED) * len(AFTER) * EACH)


@pytest.mark.parametrize("vanish", VANISHED)
def test_a_training_whose_folder_vanishes(tmp_path, vanish):
    attempt(tmp_path / "run", vanish, 1)


@pytest.mark.parametrize("vanish", [deleted, moved, replaced])
@pytest.mark.parametrize("workers", [1])
def test_a_set_whose_folder_vanishes(tmp_path, vanish, workers, count):
    folder, errors = tmp_path / "set", tmp_path / "errors"
    draw = Draw(4000, 12, per_shard=1)
    process = fork(lambda: generate(Darcy(n_modes=4), draw, folder), errors=str(errors))
    while not folder.exists() or len(os.listdir(folder)) < 9:
        time.sleep(0.002)
    vanish(folder)
    assert wait(process, 300.0) == 5
    assert str(folder) in errors.read_text()
    assert not folder.exists() or not os.listdir(folder)
    count("folders of sets moved, deleted or replaced, each told with 5", 1)
