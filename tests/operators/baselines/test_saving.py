"""Baselines written to a folder and read back, trained, and in physical units."""

import pytest
import torch

from operformer import Grid, load
from operformer.operators.baselines import AFNO, GalerkinTransformer
from operformer.operators.codomain import CodomainNO
from operformer.problems import ControlledODE
from operformer.runs.experiment import parse
from operformer.training.loop import Training, train

MAKE = {
    "AFNO": lambda: AFNO((9,), 1, 1, hidden_channels=8, n_layers=1, n_blocks=2, threshold=0.02),
    "GalerkinTransformer": lambda: GalerkinTransformer(1, 1, 1, hidden_channels=8, n_layers=2, n_heads=2),
    "CodomainNO": lambda: CodomainNO(1, 3, 1, 1, hidden_channels=8, n_layers=1, token_channels=4),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", MAKE)
def test_a_baseline_comes_back_as_it_was(name, dtype, tmp_path):
    torch.manual_seed(0)
    operator = MAKE[name]().to(dtype)
    operator.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded).__name__ == name
    assert loaded.settings == operator.settings
    u = torch.randn(2, 1, 9, generator=torch.Generator().manual_seed(1), dtype=dtype)
    torch.testing.assert_close(loaded(u), operator(u), rtol=0, atol=0)


@pytest.mark.parametrize("name", MAKE)
def test_physical_units_in_and_out(name):
    torch.manual_seed(0)
    operator, grid = MAKE[name]().double(), Grid.uniform(9)
    u = torch.randn(1, 1, 9, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    z = operator(u, grid)
    for buffer, value in {"input_mean": 3.0, "input_scale": 2.0, "output_mean": -1.0, "output_scale": 5.0}.items():
        getattr(operator, buffer).fill_(value)
    operator.domain_lower.fill_(-1.0)
    operator.domain_extent.fill_(4.0)
    found = operator(2 * u + 3, Grid.uniform(9, [(-1.0, 3.0)]))
    torch.testing.assert_close(found, 5 * z - 1, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", MAKE)
def test_a_baseline_can_be_trained(name, tmp_path):
    torch.manual_seed(0)
    samples = ControlledODE().sample(24, 8, seed=1).to(dtype=torch.float32)
    settings = Training(epochs=6, batch_size=4, learning_rate=5e-3, device="cpu")
    trained = train(MAKE[name](), samples[:20], samples[20:], settings, tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    losses = [float(line.split('"loss": ')[1].split(",")[0]) for line in lines]
    assert losses[-1] < 0.8 * losses[0]
    assert isinstance(trained, type(MAKE[name]()))


@pytest.mark.parametrize(
    "settings",
    [
        {"name": "AFNO", "shape": [9], "hidden_channels": 8},
        {"name": "GalerkinTransformer", "hidden_channels": 8},
        {"name": "CodomainNO", "n_modes": 3, "hidden_channels": 8, "token_channels": 4},
    ],
    ids=lambda settings: settings["name"],
)
def test_experiments_name_them(settings):
    experiment = parse({"problem": {"name": "ControlledODE"}, "operator": settings, "data": {"resolution": 8}})
    assert type(experiment.make_operator()).__name__ == settings["name"]
