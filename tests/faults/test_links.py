"""Folders of somebody else, with links to files outside: no command writes through one."""

import os
import shutil
import signal

import numpy as np
import pytest

from operformer.cli import main

SMALL = [
    "data.train=13", "data.validation=3", "data.test=5", "data.resolution=8",
    "operator.hidden_channels=6", "operator.n_layers=1", "operator.n_heads=2",
    "training.epochs=1", "training.batch_size=5", "training.device=cpu",
]  # fmt: skip
COMMANDS = {
    "train": ["train", "lorenz-y", *SMALL, "--out", "here"],
    "evaluate": ["evaluate", "here"],
    "calibrate": ["calibrate", "here", "--alpha", "0.5"],
    "report": ["report", "here"],
    "card": ["card", "here"],
    "generate": ["generate", "darcy-lognormal", "n_modes=4", "--samples", "5", "--resolution", "6", "--out", "here",
                 "--per-shard", "2"],
    "import": ["import", "pairs.npz", "--grid", "nodes", "--out", "here"],
    "predict": ["predict", "run", "pairs.npz", "--out", "here/out.npz"],
    "predict --force": ["predict", "run", "pairs.npz", "--out", "here/out.npz", "--force"],
}  # fmt: skip
RUN = [
    ".lock", "experiment.json", "outputs.json", "training.json", "made.json", "seconds.json", "status.json",
    "metrics.jsonl", "operator", "operator/model.safetensors", "operator/config.json", "tensorboard", "checkpoints",
    "checkpoints/epoch-0001", "checkpoints/.epoch-0001.partial", "checkpoints/epoch-0001/model.safetensors",
]  # fmt: skip
WRITTEN = {
    "train": RUN,
    "evaluate": ["evaluation.json", "gallery.npz", "rollout.json", "seconds.json", "operator"],
    "calibrate": ["calibration.json"],
    "report": ["report.html"],
    "card": ["README.md"],
    "generate": ["unfinished.json", "manifest.json", "shard-00000.hdf5", ".shard-00001.hdf5.record"],
    "import": ["manifest.json", "shard-00000.hdf5"],
    "predict": ["out.npz"],
    "predict --force": ["out.npz"],
}
TARGETS = ("a file", "a folder", "nothing")
CASES = [(command, name, target) for command, names in WRITTEN.items() for name in names for target in TARGETS]
REFUSED = ("train", "evaluate", "calibrate", "generate", "import")
SLICE = CASES[:: len(CASES) // 9]


def code_of(*arguments):
    before = signal.getsignal(signal.SIGTERM)
    try:
        main(list(arguments))
    except SystemExit as error:
        return error.code
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A run of one epoch, and a file of pairs; not to be changed."""
    folder = tmp_path_factory.mktemp("prepared")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert code_of("train", "lorenz-y", *SMALL, "--out", "run") == 0
        assert code_of("evaluate", "run") == 0
    u = np.random.default_rng(0).normal(size=(5, 1, 9)).astype(np.float32)
    np.savez(folder / "pairs.npz", u=u, z=u)
    return folder


def state(folder):
    """Every name below a folder, with the bytes of files and the targets of links."""
    found = {}
    for path in sorted(folder.rglob("*")):
        found[str(path)] = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def plant(here, outside, name, target):
    """Put a link in place of what is there."""
    path = here / name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    path.symlink_to({"a file": outside / "file", "a folder": outside / "folder", "nothing": outside / "new"}[target])


def attempt(prepared, tmp_path, monkeypatch, capsys, case):
    """Carry out a command in a folder with a planted link; what lies outside is as before."""
    command, name, target = case
    work = tmp_path / "work"
    shutil.copytree(prepared, work)
    here, outside = work / "here", tmp_path / "outside"
    if command in ("train", "evaluate", "calibrate", "report", "card"):
        shutil.copytree(work / "run", here)
    else:
        here.mkdir()
    if command == "train":  # there is something left to do
        shutil.rmtree(here / "checkpoints")
    (outside / "folder").mkdir(parents=True)
    (outside / "file").write_bytes(b"somebody's")
    (outside / "folder" / ".epoch-0007.partial").mkdir()
    (outside / "folder" / "config.json").write_bytes(b"{}")
    plant(here, outside, name, target)
    before, after_of = state(outside), state(prepared)
    monkeypatch.chdir(work)
    capsys.readouterr()
    code = code_of(*COMMANDS[command])
    told = capsys.readouterr().err
    assert state(outside) == before, (case, told)
    assert state(prepared) == after_of
    assert code in ((3,) if command in REFUSED else (0, 2, 3, 5)), (case, code, told)
    assert code == 0 or len(told.strip().splitlines()) == 1, (case, told)
    shutil.rmtree(work)
    shutil.rmtree(outside)


@pytest.mark.faults
def test_no_command_writes_through_a_link(prepared, tmp_path, monkeypatch, capsys, count):
    for case in CASES:
        attempt(prepared, tmp_path, monkeypatch, capsys, case)
    count("links planted in runs, sets and outputs, none followed", len(CASES))
    assert len(CASES) >= 40


@pytest.mark.parametrize("case", SLICE, ids=" ".join)
def test_a_link_is_not_written_through(prepared, tmp_path, monkeypatch, capsys, case):
    attempt(prepared, tmp_path, monkeypatch, capsys, case)


def test_a_lock_that_is_a_file_elsewhere_too_is_refused(prepared, tmp_path, monkeypatch, capsys):
    """A hard link is no link to look at: it has two names."""
    shutil.copytree(prepared / "run", tmp_path / "here")
    (tmp_path / "file").write_bytes(b"somebody's")
    (tmp_path / "here" / ".lock").unlink()
    os.link(tmp_path / "file", tmp_path / "here" / ".lock")
    monkeypatch.chdir(tmp_path)
    assert code_of(*COMMANDS["train"]) == 3
    assert "is no plain file, or is one elsewhere" in capsys.readouterr().err
    assert (tmp_path / "file").read_bytes() == b"somebody's"
