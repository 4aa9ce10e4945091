"""The command line: documented exit codes, errors of one line, no traceback, and training that goes on."""

import json
import os
import signal
import subprocess
import sys
import time
from inspect import signature

import pytest
import torch

from operformer.cli import GROUPS
from operformer.runs import read_run
from operformer.training import loop as training

SMALL = [
    "data.train=13", "data.validation=3", "data.test=5", "data.resolution=8",
    "operator.hidden_channels=6", "operator.n_layers=1", "operator.n_heads=2",
    "training.epochs=2", "training.batch_size=5", "training.device=cpu",
]  # fmt: skip
TRAIN = ["train", "lorenz-y", *SMALL]
COMMAND = [sys.executable, "-m", "operformer.cli"]
# In the background a shell has its commands ignore SIGINT; this Python listens again before it becomes the command.
LISTEN = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); os.execv(sys.executable, sys.argv[1:])"
HEARING = [sys.executable, "-c", LISTEN, sys.executable]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """A folder of its own for each test, and the signal handlers as they were."""
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def assert_one_line(err):
    assert err.startswith("operformer: ")
    assert err.count("\n") == 1
    assert err.endswith("\n")
    assert "Traceback" not in err


def test_train_evaluate_and_report(call, tmp_path):
    code, out, err = call(*TRAIN, "--out", "mine")
    assert (code, err) == (0, "")
    assert "epoch 2/2" in out
    assert "operformer evaluate mine" in out
    code, out, err = call("evaluate", "mine")
    assert code == 0
    assert_one_line(err)  # a warning: two epochs do not learn gradients
    assert "warning: the median relative H1 error is" in err
    run = read_run(tmp_path / "mine")
    for evaluation in run.evaluations:
        assert f"{evaluation.median:.2%}" in out
        assert f"{evaluation.worst:.2%}" in out
    code, out, err = call("report", "mine")
    assert (code, err) == (0, "")
    assert (tmp_path / "mine" / "report.html").resolve().as_uri() in out
    assert f"{run.evaluation('graded').mean:.2%}" in (tmp_path / "mine" / "report.html").read_text()
    assert call("report", "mine", "--out", "elsewhere/page.html")[0] == 0
    assert (tmp_path / "elsewhere" / "page.html").is_file()
    before = (tmp_path / "mine" / "metrics.jsonl").read_bytes()
    assert call(*TRAIN, "--out", "mine")[0] == 0  # done already
    assert (tmp_path / "mine" / "metrics.jsonl").read_bytes() == before
    code, _, err = call(*TRAIN, "training.epochs=3", "--out", "mine")
    assert code == 2
    assert_one_line(err)
    assert "training.epochs" in err


def test_a_run_goes_to_a_folder_of_its_name(call, tmp_path):
    assert call(*TRAIN, "name=mine", "training.epochs=1")[0] == 0
    assert (tmp_path / "runs" / "mine" / "operator" / "config.json").is_file()


def test_help_and_version_are_no_errors(call):
    for arguments in (["--help"], ["--version"], [], ["train", "--help"]):
        code, out, err = call(*arguments)
        assert (code, err) == (0, "")
        assert out.strip()


# Errors

TOML = {"bad.toml": "[training\n", "typo.toml": "[training]\nepoch = 3\n", "number.toml": "training = 3\n"}


@pytest.mark.parametrize(
    ("arguments", "code", "part"),
    [
        (["trian", "lorenz-y"], 2, "train"),
        (["train"], 2, "experiment"),
        (["train", "lorenz-x"], 2, "did you mean lorenz-y?"),
        (["train", "lorenz-y", "--ouut", "x"], 2, "--out"),
        (["train", "lorenz-y", "--epochs", "3"], 2, "section.setting=value, such as training.epochs=5"),
        (["train", "mine.npz"], 2, "come in by operformer import"),
        (["import", "mine.npz", "--layout", "b", "x", "--out", "y"], 2, "between quotes"),
        (["train", "lorenz-y", "training.epoch=3"], 2, "did you mean epochs?"),
        (["train", "lorenz-y", "epochs=3"], 2, "section.setting=value"),
        (["train", "lorenz-y", "traning.epochs=3"], 2, "did you mean training?"),
        (["train", "lorenz-y", "operator.n_heads=3"], 2, "n_heads must divide hidden_channels"),
        (["train", "lorenz-y", "operator.n_heads=0"], 2, "n_heads"),
        (["train", "lorenz-y", "training.learning_rate=inf"], 2, "learning_rate"),
        (["train", "lorenz-y", "data.seed=-1"], 2, "seed"),
        (["train", "bad.toml"], 2, "bad.toml is not TOML"),
        (["train", "typo.toml"], 2, "did you mean epochs?"),
        (["train", "number.toml"], 2, "training must be a table"),
        (["train", "nowhere.toml"], 3, "nowhere.toml"),
        (["evaluate"], 2, "run"),
        (["evaluate", "nowhere"], 3, "nowhere holds no run"),
        (["evaluate", "a", "b"], 2, "b"),
        (["report"], 2, "name at least one run"),
        (["report", "nowhere"], 3, "nowhere holds no run"),
        ([*TRAIN, "training.learning_rate=1e30"], 4, "not finite"),
        (["train", "lorenz-y", *SMALL, "problem.rho=1e12"], 4, "Lorenz"),
        ([*TRAIN, "training.device=cuda"], 5, "CUDA"),
        ([*TRAIN, "--out", "bad.toml"], 5, "bad.toml"),
        ([*TRAIN, "--out", "bad.toml/below"], 5, "bad.toml"),
        ([*TRAIN, "data.resolution=100000000000000"], 5, "memory"),
    ],
    ids=lambda value: " ".join(a for a in value if a not in SMALL) if isinstance(value, list) else None,
)
def test_an_error_is_one_line_and_its_code(call, tmp_path, monkeypatch, arguments, code, part):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name, content in TOML.items():
        (tmp_path / name).write_text(content)
    found, _, err = call(*arguments)
    assert_one_line(err)
    assert part in err
    assert found == code
    assert code > 2 or not (tmp_path / "runs").exists()


COMMANDS = {
    "demo": [], "train": ["lorenz-y"], "status": ["x"], "evaluate": ["x"], "certify": ["x"], "report": ["x"],
    "calibrate": ["x"], "doctor": [], "inspect": ["x"], "card": ["x"], "models": [],
    "predict": ["x", "y", "--out", "z.npz"], "export": ["x", "x.pt2"],
    "generate": ["darcy-li", "--samples", "1", "--resolution", "8", "--out", "x"], "import": ["x", "--out", "x"],
}  # fmt: skip
KNOWN = {
    command.__name__.rstrip("_"): [
        name.replace("_", "-")
        for name, parameter in signature(command).parameters.items()
        if parameter.kind == parameter.KEYWORD_ONLY
    ]
    for commands in GROUPS.values()
    for command in commands
}
OPTIONS = [(command, option) for command, options in KNOWN.items() for option in options]


def test_the_shell_completes_commands_and_the_names_of_recipes(call, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert call("--install-completion")[0] == 0
    (written,) = (tmp_path / ".local/share/bash-completion/completions").iterdir()
    assert all(f'"{word}"' in written.read_text() for word in ("isotropic", "vitno"))


def test_every_command_is_spelled():
    assert COMMANDS.keys() == {command.__name__.rstrip("_") for commands in GROUPS.values() for command in commands}


@pytest.mark.parametrize("command", COMMANDS)
def test_misspellings_of_a_command_are_refused(call, monkeypatch, misspellings, command):
    monkeypatch.setattr("operformer.runs.train_run", _refuse)
    for wrong in misspellings(command) - COMMANDS.keys():
        code, _, err = call(wrong, *COMMANDS[command])
        assert (code, err.count("\n")) == (2, 1), wrong


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_misspellings_of_an_option_are_refused(call, monkeypatch, misspellings, command, option):
    monkeypatch.setattr("operformer.runs.train_run", _refuse)
    for wrong in misspellings(option) - set(KNOWN[command]):
        code, _, err = call(command, *COMMANDS[command], f"--{wrong}", "smoke")
        assert (code, err.count("\n")) == (2, 1), wrong


def _refuse(*_):
    raise AssertionError("a misspelt command was carried out")


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.\nSee more")]
)
def test_memory_that_runs_out_is_a_resource_error(call, monkeypatch, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(training.TrainingDisplay, "batch", fail)
    code, _, err = call(*TRAIN)
    assert_one_line(err)
    assert code == 5
    assert "memory" in err


def test_debug_gives_the_traceback_and_the_same_code(tmp_path):
    done = subprocess.run([*COMMAND, "evaluate", "nowhere", "--debug"], capture_output=True, text=True, check=False)
    assert "Traceback (most recent call last)" in done.stderr
    assert "nowhere holds no run" in done.stderr
    assert done.returncode == 3


# Signals


def _interrupt_after(epoch):
    def shown(self, done, loss, error):
        if done >= epoch:
            raise KeyboardInterrupt

    return shown


def metrics(folder):
    path = folder / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGKILL", -signal.SIGKILL)])
def test_a_training_that_is_stopped_goes_on_as_if_nothing_had_been(call, tmp_path, monkeypatch, number, code):
    arguments = [*TRAIN, "training.epochs=100000", "--out"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen([*HEARING, *COMMAND[1:], *arguments, "mine"], **pipes)
    try:
        deadline = time.monotonic() + 60
        while len(metrics(tmp_path / "mine")) < 3 and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(getattr(signal, number))
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == code
    stopped = len(metrics(tmp_path / "mine"))
    assert stopped >= 3
    monkeypatch.setattr(training.TrainingDisplay, "epoch", _interrupt_after(stopped + 3))
    for folder in ("mine", "undisturbed"):
        assert call(*arguments, folder)[0] == 130
    assert metrics(tmp_path / "mine") == metrics(tmp_path / "undisturbed")
    assert len(metrics(tmp_path / "mine")) == stopped + 3
    assert not [name for name in os.listdir(tmp_path / "mine" / "checkpoints") if name.startswith(".")]
    if number != "SIGKILL":
        assert_one_line(err)
        assert "the same command resumes" in err


def test_evaluate_says_which_grids_it_leaves_out(call):
    patched = ["problem.name=Darcy", "problem.n_modes=8", "operator.name=ViTNO", "operator.n_patches=[4, 4]"]
    assert call(*TRAIN, *patched, "operator.n_modes=2", "training.epochs=1", "--out", "run")[0] == 0
    code, out, _ = call("evaluate", "run")
    assert code == 0
    assert "left out, since the operator does not take these grids: 0.75x" in out  # 4 patches do not divide 6 cells
