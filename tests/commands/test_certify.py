"""`operformer certify`: what it prints, and its exit codes."""

import signal

import pytest
import torch

from operformer import TNO, Transformer
from operformer.cli import main
from operformer.operators.pretrained import weights_hash
from operformer.problems import ControlledODE
from operformer.runs import train_run
from operformer.runs.experiment import Data, Experiment
from operformer.training.loop import Training

SMALL = {"hidden_channels": 8, "n_layers": 1, "n_heads": 2}


@pytest.fixture
def call(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments):
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main([str(argument) for argument in ("certify", *arguments)])
        captured = capsys.readouterr()
        return caught.value.code, captured.out, captured.err

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.mark.parametrize(("kind", "code"), [(TNO, 0), (Transformer, 1)])
def test_a_saved_operator(call, tmp_path, kind, code):
    torch.manual_seed(0)
    kind(1, 1, 1, **SMALL).save_pretrained("mine")
    found, out, err = call("mine")
    assert found == code
    assert err == ""
    first = f"{kind.__name__} on Grid(nodes, 65 points in [0, 1]) and its relatives, weights "
    assert out.splitlines()[0] == first + weights_hash(tmp_path / "mine")[:16]
    assert out.splitlines()[-1].startswith("certificate passed" if code == 0 else "certificate not passed")


def test_a_run_with_its_problems_draws(call, tmp_path):
    experiment = Experiment(
        "small",
        ControlledODE(),
        {"name": "TNO"} | SMALL,
        Data(resolution=16, train=10, validation=3, test=3),
        Training(epochs=1, batch_size=5, device="cpu"),
    )
    train_run(experiment, tmp_path / "run")
    for inputs in ("smooth", "problem"):
        code, out, _ = call("run", "--inputs", inputs, "--resolution", 64, "--samples", 2)
        assert code == 0
        assert "65 points" in out


def test_wrong_usage_is_one_line(call):
    TNO(1, 1, 1, **SMALL).save_pretrained("mine")
    for arguments, code, complaint in (
        (["nothing"], 3, "there is no folder"),
        (["mine", "--inputs", "problem"], 2, "an operator without its problem"),
        (["mine", "--resolution", 8, 8], 2, "one number for each of 1 axes"),
        (["mine", "--resolution", 7], 2, "resolution must be even"),
        (["mine", "--samples", 0], 2, "samples must be at least 1"),
    ):
        found, _, err = call(*arguments)
        assert found == code
        assert complaint in err
        assert err.count("\n") == 1
