"""Operators that learn what changes: u + G(u), with the statistics of z - u."""

import pytest
import torch

from operformer import FANO, TNO, Grid, Increment, ViTNO
from operformer.domain import Samples
from operformer.errors import UsageError
from operformer.evaluation.prediction import predict
from operformer.sharing.neuralop import carry_normalizers
from operformer.training.normalisation import fit_normalisation

SIZE = {"hidden_channels": 8, "n_layers": 1, "n_heads": 2}
KINDS = {
    "TNO": lambda: TNO(2, 2, 2, **SIZE),
    "ViTNO": lambda: ViTNO((2, 2), 2, 2, 2, **SIZE),
    "FANO": lambda: FANO((2, 2), 2, 2, 2, **SIZE),
}
GRID = Grid.uniform((8, 6), kind="cells")


@pytest.mark.parametrize("kind", KINDS)
def test_the_input_is_added_in_physical_units(kind):
    torch.manual_seed(0)
    plain = KINDS[kind]().double()
    plain.input_mean.fill_(3.0)
    plain.input_scale.fill_(0.5)
    plain.output_scale.fill_(7.0)
    plain.output_mean.fill_(2.0)
    adding = Increment(plain)
    u = torch.randn(3, 2, *GRID.shape, dtype=torch.float64)
    torch.testing.assert_close(adding(u, GRID), u + plain(u, GRID), rtol=1e-12, atol=1e-12)


def test_normalised_is_what_changes():
    u = torch.randn(5, 2, *GRID.shape, dtype=torch.float64)
    change = 0.01 * torch.randn_like(u) + 0.3
    samples = Samples(u, u + change, GRID)
    adding, alone = Increment(KINDS["FANO"]()).double(), KINDS["FANO"]().double()
    fit_normalisation(adding, samples)
    fit_normalisation(alone, Samples(u, change, GRID))
    for name in ("input_mean", "input_scale", "output_mean", "output_scale"):
        torch.testing.assert_close(getattr(adding, name), getattr(alone, name), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_predictions_at_another_resolution_add_what_is_interpolated(kind):
    operator = Increment(KINDS[kind]())
    for parameter in operator.parameters():
        parameter.data.zero_()
    u = torch.full((1, 2, 8, 8), 3.0)
    found = predict(operator, u, grid=Grid.uniform((8, 8), kind="cells"), resolution=16)
    torch.testing.assert_close(torch.as_tensor(found.z).float(), torch.full((1, 2, 16, 16), 3.0))


def test_it_is_kept_in_files(tmp_path):
    from operformer import load

    operator = Increment(KINDS["ViTNO"]())
    operator.save_pretrained(tmp_path / "model")
    again = load(tmp_path / "model")
    u = torch.randn(1, 2, *GRID.shape)
    torch.testing.assert_close(again(u, GRID), operator.eval()(u, GRID))
    assert again.adds_input


def test_what_makes_no_sense_is_refused():
    with pytest.raises(UsageError, match="the same number of channels in and out: got 2 in and 1 out"):
        Increment(FANO((2, 2), 2, 2, 1, **SIZE))
    with pytest.raises(UsageError, match="operator must be an Operator: got 'FANO'"):
        Increment("FANO")
    with pytest.raises(UsageError, match="in the processor's units"):
        carry_normalizers(Increment(KINDS["TNO"]()), object())
