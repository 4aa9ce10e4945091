"""One process in a folder at a time; a lock ends with its process, however that ends."""

import os
import subprocess
import sys

import pytest

from operformer.errors import DataError, ResourceError, UsageError
from operformer.training.lock import holder, locked

HOLD = "import sys; from pathlib import Path; from operformer.training.lock import locked\n" + (
    "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
)


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=-1, stdout=-1, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_another_process_is_kept_out_with_a_line_that_names_the_holder(tmp_path, other):
    with pytest.raises(ResourceError, match=f"is being trained by process {other.pid} on ") as caught, locked(tmp_path):
        pass
    assert str(tmp_path) in str(caught.value)
    assert holder(tmp_path).startswith(f"process {other.pid} on ")


def test_a_lock_ends_with_a_process_that_is_killed(tmp_path, other):
    other.kill()
    other.wait()
    assert holder(tmp_path) is None
    with locked(tmp_path):
        pass


def test_a_lock_inside_a_lock_is_the_same_lock(tmp_path):
    descriptors = len(os.listdir("/dev/fd"))
    with locked(tmp_path), locked(tmp_path / "x" / ".."):
        assert holder(tmp_path).startswith(f"process {os.getpid()} on ")
    assert holder(tmp_path) is None
    assert len(os.listdir("/dev/fd")) == descriptors


WITHOUT = """
import os, sys
sys.modules["fcntl"] = None
os.supports_dir_fd = set()
for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_DIRECTORY"):
    delattr(os, name)
from operformer.cli import main
main(sys.argv[1:])
"""


def test_a_system_without_fcntl_and_handles_of_folders_trains_evaluates_and_resumes(tmp_path):
    """As Windows, but for its own locks."""
    small = ["data.train=13", "data.validation=3", "data.test=5", "data.resolution=8", "operator.hidden_channels=6"]
    small += ["operator.n_layers=1", "operator.n_heads=2", "training.batch_size=5", "training.device=cpu"]
    for arguments in (
        ["train", "lorenz-y", *small, "training.epochs=1", "--out", "run"],
        ["train", "lorenz-y", *small, "training.epochs=1", "--out", "run"],
        ["status", "run"],
        ["evaluate", "run"],
    ):
        done = subprocess.run(
            [sys.executable, "-W", "ignore:only soft file lock", "-c", WITHOUT, *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
        )
        lines = done.stderr.splitlines()  # but for the caution about so short a training, and the line that gave it
        said = [line for line in lines if "OperformerWarning" not in line and not line.startswith("  ")]
        assert (done.returncode, said) == (0, [])
    left = sorted(path.name for path in (tmp_path / "run").glob(".*"))
    assert left == [".lock"]


def test_a_folder_that_cannot_be_written_is_a_resource_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ResourceError, match="cannot write"), locked(tmp_path / "file" / "below"):
        pass
    assert holder(tmp_path / "nowhere") is None


def refused(folder, error, made=""):
    """A training that is refused, after it made a folder inside its own or a file."""
    with locked(folder):
        (folder / made).mkdir(exist_ok=True)
        (folder / "experiment.json").write_text("{}")
        raise error


def test_a_training_that_is_refused_leaves_no_folder_that_it_made(tmp_path):
    with pytest.raises(UsageError):
        refused(tmp_path / "runs" / "mine", UsageError("no symmetries"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("kept", ["checkpoints", "operator"])
def test_what_was_trained_stays_whatever_is_refused_later(tmp_path, kept):
    with pytest.raises(ResourceError):
        refused(tmp_path / "mine", ResourceError("the disk is full"), kept)
    assert (tmp_path / "mine" / kept).is_dir()


def test_a_folder_that_was_there_stays(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(DataError):
        refused(tmp_path, DataError("not finite"))
    assert (tmp_path / "notes.txt").read_text() == "mine"
