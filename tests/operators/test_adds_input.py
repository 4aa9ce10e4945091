"""Operators that learn what changes: u + G(u), with the statistics of z - u."""

import pytest
import torch

from operformer import FANO, TNO, Grid, ViTNO
from operformer.domain import Samples
from operformer.errors import UsageError
from operformer.evaluation.prediction import predict
from operformer.sharing.neuralop import carry_normalizers
from operformer.training.normalisation import fit_normalisation

SIZE = {"hidden_channels": 8, "n_layers": 1, "n_heads": 2}
KINDS = {
    "TNO": lambda **more: TNO(2, 2, 2, **SIZE, **more),
    "ViTNO": lambda **more: ViTNO((2, 2), 2, 2, 2, **SIZE, **more),
    "FANO": lambda **more: FANO((2, 2), 2, 2, 2, **SIZE, **more),
}
GRID = Grid.uniform((8, 6), kind="cells")


@pytest.mark.parametrize("kind", KINDS)
def test_the_input_is_added_in_physical_units(kind):
    torch.manual_seed(0)
    adding, plain = KINDS[kind](adds_input=True).double(), KINDS[kind]().double()
    plain.load_state_dict(adding.state_dict())
    for operator in (adding, plain):
        operator.input_mean.fill_(3.0)
        operator.input_scale.fill_(0.5)
        operator.output_scale.fill_(7.0)
        operator.output_mean.fill_(2.0)
    u = torch.randn(3, 2, *GRID.shape, dtype=torch.float64)
    torch.testing.assert_close(adding(u, GRID), u + plain(u, GRID), rtol=1e-12, atol=1e-12)


def test_normalised_is_what_changes():
    u = torch.randn(5, 2, *GRID.shape, dtype=torch.float64)
    change = 0.01 * torch.randn_like(u) + 0.3
    samples = Samples(u, u + change, GRID)
    adding, alone = KINDS["FANO"](adds_input=True).double(), KINDS["FANO"]().double()
    fit_normalisation(adding, samples)
    fit_normalisation(alone, Samples(u, change, GRID))
    for name in ("input_mean", "input_scale", "output_mean", "output_scale"):
        torch.testing.assert_close(getattr(adding, name), getattr(alone, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_at_another_resolution_add_what_is_interpolated(kind):
    operator = KINDS[kind](adds_input=True)
    for parameter in operator.parameters():
        parameter.data.zero_()
    u = torch.full((1, 2, 8, 8), 3.0)
    found = predict(operator, u, grid=Grid.uniform((8, 8), kind="cells"), resolution=16)
    torch.testing.assert_close(torch.as_tensor(found.z).float(), torch.full((1, 2, 16, 16), 3.0))


def test_it_is_kept_in_files(tmp_path):
    from operformer import load

    operator = KINDS["ViTNO"](adds_input=True)
    operator.save_pretrained(tmp_path / "model")
    again = load(tmp_path / "model")
    u = torch.randn(1, 2, *GRID.shape)
    torch.testing.assert_close(again(u, GRID), operator.eval()(u, GRID))
    assert again.adds_input


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="as many channels out as in: got 1 and 2"):
        FANO((2, 2), 2, 2, 1, **SIZE, adds_input=True)
    with pytest.raises(UsageError, match="adds_input must be true or false"):
        KINDS["FANO"](adds_input="false")
    with pytest.raises(UsageError, match="in the processor's units"):
        carry_normalizers(KINDS["TNO"](adds_input=True), object())
    with pytest.raises(UsageError, match="leave query= out"):
        KINDS["TNO"](adds_input=True)(torch.randn(1, 2, *GRID.shape), GRID, Grid.uniform((3, 3)))
