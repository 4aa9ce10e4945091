"""`operformer certify`: what it prints, and its exit codes."""

import signal

import numpy as np
import pytest
import torch

from operformer import TNO, Grid, SpectralOperator, Transformer, voronoi_weights
from operformer.cli import main
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.probes import smooth_probes
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


def test_the_grid_that_it_is_used_on(call, tmp_path):
    torch.manual_seed(0)
    operator = SpectralOperator((6, 6), 1, 1, 6, n_layers=1, basis="cosine")
    operator.save_pretrained("mine")
    points = torch.rand(60, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    np.savetxt("sensors.csv", points.numpy(), delimiter=",")
    code, out, err = call("mine", "--grid", 40, 44)
    assert (code, err) == (0, "")
    assert "on Grid(nodes, 40 x 44 points in [0, 1] x [0, 1]) it is off by 0." in out.splitlines()[-1]
    code, out, err = call("mine", "--grid", "sensors.csv")
    assert code == 1
    assert "warning: 60 scattered points do not resolve 6 x 6 modes" in err
    # By hand: the same functions, there and on a fine grid that is read there.
    operator, grid = operator.double(), Grid.scattered(points, voronoi_weights(points))
    fine, probes = Grid.uniform((97, 97)), smooth_probes(operator)
    with torch.no_grad():
        there = operator(probes(fine), fine, grid)
        error = float(relative_l2(operator(probes(grid), grid), there, grid).max())
    named = float(out.splitlines()[-1].split("it is off by ")[1].split(" %")[0])
    assert named == pytest.approx(100 * error, rel=0.05)


def test_wrong_usage_is_one_line(call):
    TNO(1, 1, 1, **SMALL).save_pretrained("mine")
    for arguments, code, complaint in (
        (["nothing"], 3, "there is no folder"),
        (["mine", "--inputs", "problem"], 2, "an operator without its problem"),
        (["mine", "--resolution", 8, 8], 2, "one number for each of 1 axes"),
        (["mine", "--resolution", 7], 2, "resolution must be even"),
        (["mine", "--samples", 0], 2, "samples must be from 1"),
    ):
        found, _, err = call(*arguments)
        assert found == code
        assert complaint in err
        assert err.count("\n") == 1
