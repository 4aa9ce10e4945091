"""What killed commands leave, what full disks do to them, and how commands end whose streams are closed."""

import os
import resource
import shutil
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest
from children import fork, wait

from operformer.cli import main
from operformer.errors import DataError, UsageError
from operformer.files import PARTIAL, read_json, write_bytes

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
SMALL = [
    "data.train=13", "data.validation=3", "data.test=5", "data.resolution=8", "operator.hidden_channels=6",
    "operator.n_layers=1", "operator.n_heads=2", "training.epochs=1", "training.batch_size=5", "training.device=cpu",
]  # fmt: skip
COMMANDS = {
    "evaluate": ["evaluate", "run"],
    "calibrate": ["calibrate", "run", "--alpha", "0.5"],
    "report": ["report", "run"],
    "card": ["card", "run"],
    "predict": ["predict", "run", "pairs.npz", "--out", "run/out.npz", "--force"],
    "import": ["import", "pairs.npz", "--layout", "b c x", "--grid", "nodes", "--out", "set"],
}  # fmt: skip
OFFSETS = (0, 100, 400)  # bytes that still fit onto the disk
TIMES = {"seconds.json", "report.html"}  # what is another at each run: how long it took


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """A run of one epoch, evaluated, and a file of pairs; not to be changed."""
    folder = tmp_path_factory.mktemp("prepared")
    u = np.random.default_rng(0).normal(size=(5, 1, 9)).astype(np.float32)
    np.savez(folder / "pairs.npz", u=u, z=u)
    for command in (["train", "lorenz-y", *SMALL, "--out", "run"], COMMANDS["evaluate"]):
        assert wait(fork(lambda command=command: carry_out(folder, command))) == 0
    return folder


def carry_out(folder, command):
    os.chdir(folder)
    try:
        main(command)
    except SystemExit as error:
        os._exit(error.code or 0)


def killed_at(operation, folder, command):
    """SIGKILL before the so-manyth call that changes files."""
    count = 0

    def counted(original):
        def call(*arguments, **options):
            nonlocal count
            count += 1
            if count == operation:
                os.kill(os.getpid(), signal.SIGKILL)
            return original(*arguments, **options)

        return call

    for name in ("fsync", "replace", "link", "unlink", "rename", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
    carry_out(folder, command)


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in TIMES
    }


def partials(folder):
    return [path for path in folder.rglob("*") if path.name.endswith(PARTIAL)]


def kills(prepared, folder, name, step=1):
    """How often a command was killed; after each, the same one leaves what an undisturbed one leaves, and no more."""
    whole = shutil.copytree(prepared, folder / "whole")
    assert wait(fork(lambda: carry_out(whole, COMMANDS[name]))) == 0
    operation = 1
    while True:
        work = shutil.copytree(prepared, folder / "work")
        code = wait(fork(lambda at=operation, work=work: killed_at(at, work, COMMANDS[name])))
        if code == -signal.SIGKILL:
            assert wait(fork(lambda work=work: carry_out(work, COMMANDS[name]))) == 0
        assert not partials(work), (name, operation)
        if name != "import":
            assert content(work) == content(whole), (name, operation)
        shutil.rmtree(work)
        if code == 0:
            return operation // step
        assert code == -signal.SIGKILL
        operation += step


@pytest.mark.faults
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_is_killed_leaves_nothing_behind(prepared, tmp_path, name, count):
    found = kills(prepared, tmp_path, name)
    count("commands killed at every file operation, the next one sweeps and completes", found - 1)
    assert found > 2


def test_a_report_that_is_killed_leaves_nothing_behind(prepared, tmp_path):
    assert kills(prepared, tmp_path, "card") > 2


def attempt_full(prepared, folder, name, room):
    work = shutil.copytree(prepared, folder / "work")
    before = content(work)

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
        carry_out(work, COMMANDS[name])

    assert wait(fork(limited)) == 5, name
    after = content(work)
    assert not partials(work)
    for path, bytes_ in before.items():
        assert after[path] == bytes_ or path in ("run/gallery.npz", "run/evaluation.json"), (name, room, path)
    shutil.rmtree(work)


@pytest.mark.faults
def test_commands_on_full_disks(prepared, tmp_path, count):
    for name in COMMANDS:
        for room in OFFSETS:
            attempt_full(prepared, tmp_path, name, room)
    count("full disks, nothing that was there is lost", len(COMMANDS) * len(OFFSETS))


def test_a_command_on_a_full_disk(prepared, tmp_path):
    attempt_full(prepared, tmp_path, "card", 100)


CODE = "import sys; from operformer.cli import main; main(sys.argv[1:])"


def shell(prepared, redirection, *arguments, **environment):
    """A command in a shell: exit code of the command, standard output and error."""
    line = f'"{sys.executable}" -c "{CODE}" {" ".join(arguments)} {redirection}'
    environment = os.environ | {"COLUMNS": "80"} | environment
    line += "; exit ${PIPESTATUS[0]}"
    done = subprocess.run(["bash", "-c", line], cwd=prepared, capture_output=True, env=environment, check=False)
    return done.returncode, done.stdout, done.stderr


STREAMS = {
    "standard output is closed": (">&-", {}, 0, b"", b""),
    "every stream is closed": ("<&- >&- 2>&-", {}, 0, b"", b""),
    "nobody reads": ("| true", {}, 141, b"", b""),
    "the disk is full": ("> /dev/full", {}, 5, b"", None),
    "only ASCII": ("", {"PYTHONIOENCODING": "ascii"}, 0, None, b""),
}


@pytest.mark.parametrize("kind", STREAMS)
def test_a_command_ends_as_it_should_whatever_its_streams(prepared, kind, count):
    redirection, environment, code, out, err = STREAMS[kind]
    arguments = ["models"] if kind != "standard output is closed" else ["status", "run"]
    found = shell(prepared, redirection, *arguments, **environment)
    assert found[0] == code, found
    assert out is None or found[1] == out
    assert err is None or found[2] == err
    assert found[2].count(b"\n") <= 1
    if kind == "only ASCII":
        assert found[1].isascii()
        assert b"Models" in found[1]
    count("commands with closed, full or narrow streams", 1)


def test_of_two_predictions_to_one_file_one_is_refused(tmp_path):
    """Both have looked before either has written."""
    write_bytes(tmp_path / "out.npz", b"first", is_new=True)
    with pytest.raises(UsageError, match="is there already, and was not replaced"):
        write_bytes(tmp_path / "out.npz", b"second", is_new=True)
    assert [path.name for path in tmp_path.iterdir()] == ["out.npz"]
    assert (tmp_path / "out.npz").read_bytes() == b"first"


def test_what_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    import h5py

    import operformer

    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["u"] = np.ones((2, 3))

    def refused(*_, **__):
        raise PermissionError(13, "Unable to synchronously open file")

    monkeypatch.setattr(h5py, "File", refused)
    with pytest.raises(DataError, match=r"cannot read .*: permission denied"):
        operformer.read(tmp_path / "a.h5")
    (tmp_path / "a.json").symlink_to("a.json")
    with pytest.raises(DataError, match="cannot read"):
        read_json(tmp_path / "a.json")


def test_warnings_of_others_are_not_told(call, monkeypatch):
    """An error of a command is one line, also if numpy had something to say before."""
    from operformer.commands import console

    monkeypatch.setattr(sys, "warnoptions", [])
    monkeypatch.setattr(console.console, "print", lambda *_, **__: np.float32(1e38) * np.float32(1e38))
    with np.errstate(all="warn"), warnings.catch_warnings():
        warnings.simplefilter("always")
        _, _, err = call("doctor")
    assert err == ""
