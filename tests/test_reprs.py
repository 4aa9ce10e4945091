"""What Python shows of the values that users hold: their class, what they are, and no heap of numbers."""

import pytest
import torch

import operformer
from operformer import Grid, Overlap, Samples, SpectralOperator, Training, calibrate, certify, evaluate, recommend
from operformer.data.importing import store
from operformer.domain.basis import BASES
from operformer.domain.samples import split

GRID = Grid.uniform((8, 8))
U = torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(0))
SAMPLES = Samples(U, U.cumsum(-1) / 8, GRID)


def operator():
    torch.manual_seed(0)
    return SpectralOperator((2, 2), 1, 1, 4, n_layers=1).double()


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: GRID, ("nodes", "8 x 8")),
        (lambda: SAMPLES, ("40 pairs", "float32", "8 x 8")),
        (lambda: Training(epochs=3), ("epochs=3",)),
        (lambda: Overlap(0.25), ("0.25", "even")),
        (lambda: BASES["cosine"], ()),
        (lambda: operformer.Isotropic(operformer.Cosine()), ("Cosine()",)),
        (lambda: operformer.Smoothing("neumann"), ("neumann",)),
        (lambda: operformer.SpectralResidual(8), ("8",)),
        (lambda: calibrate(operator(), SAMPLES), ("90 %", "20 samples", "8 x 8")),
        (lambda: evaluate(operator(), SAMPLES, "1x"), ("1x", "median", "40 samples")),
        (lambda: certify(operator(), resolution=(8, 8)), ("SpectralOperator", ": passed: 6 passed", "33 x 33")),
        (lambda: recommend(SAMPLES, 0.01, {"name": "TNO", "hidden_channels": 4, "n_layers": 1}), ("TNO(", " epoch")),
        (operator, ("n_modes=[2, 2]", "241 parameters")),
        (lambda: operformer.Increment(operator()), ("n_modes=[2, 2]", "241 parameters")),
        (lambda: split(SAMPLES, 4, 4), ("train=Samples(32 pairs",)),
    ],
)
def test_a_value_says_what_it_is(make, said):
    value = make()
    shown = repr(value)
    assert shown.startswith(f"{type(value).__name__}(")
    assert all(word in shown for word in said)
    assert not any(word in shown for word in ("tensor(", "object at", "<function"))
    assert shown.count("parameters") == 1 if isinstance(value, torch.nn.Module) else len(shown) < 500


def test_a_set_on_disk_says_what_it_is(tmp_path):
    pairs = store(SAMPLES, tmp_path / "set", "mine", {})
    assert (
        repr(pairs) == "StoredPairs(40 of mine, 1 to 1 channels, float32, Grid(nodes, 8 x 8 points in [0, 1] x [0, 1]))"
    )
