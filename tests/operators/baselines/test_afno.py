"""AFNO against discrete Fourier sums written out, and its being bound to one resolution."""

from itertools import product

import numpy as np
import pytest
import torch
from written_out import LiteralSpectralMLP, as_literal_afno

from operformer import Grid
from operformer.errors import UsageError
from operformer.operators.baselines import AFNO, afno
from operformer.operators.baselines.afno import SpectralMLP


def mixing_by_loops(module, v):
    """(*shape, c) -> the same: every sum of F(v) = v + Re sum_k c_k S(...) e^{2 pi i k . x} as it stands."""
    shape, n_points = v.shape[:-1], np.prod(v.shape[:-1])
    points = list(product(*map(range, shape)))
    (w1, b1), (w2, b2) = (
        [torch.view_as_complex(t.detach().movedim(0, -1).contiguous()).numpy() for t in pair]
        for pair in ((module.weight_1, module.bias_1), (module.weight_2, module.bias_2))
    )
    out = v.astype(complex)
    for k in product(*map(range, (*shape[:-1], shape[-1] // 2 + 1))):
        phases = {j: np.exp(2j * np.pi * sum(a * b / n for a, b, n in zip(k, j, shape, strict=True))) for j in points}
        coefficient = sum(v[j] * phases[j].conj() for j in points) / np.sqrt(n_points)
        new = []
        for block, entries in enumerate(coefficient.reshape(len(w1), -1)):
            inner = entries @ w1[block] + b1[block]
            inner = np.maximum(inner.real, 0) + 1j * np.maximum(inner.imag, 0)
            outer = inner @ w2[block] + b2[block]
            new += [shrink(e.real, module.threshold) + 1j * shrink(e.imag, module.threshold) for e in outer]
        times = 1 if 2 * k[-1] % shape[-1] == 0 else 2
        for j in points:
            out[j] += times * (np.array(new) * phases[j]).real / np.sqrt(n_points)
    return out.real


def shrink(value, threshold):
    if abs(value) <= threshold:
        return 0.0
    return value - threshold if value > 0 else value + threshold


@pytest.mark.parametrize("shape", [(7,), (6,), (3, 4), (4, 5), (2, 3, 5)], ids=str)
def test_mixing_is_the_sum_over_wave_numbers(shape):
    torch.manual_seed(0)
    module = SpectralMLP(6, n_blocks=2, threshold=0.05).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(30)
    v = torch.randn(2, *shape, 6, dtype=torch.float64)
    expected = np.stack([mixing_by_loops(module, one.numpy()) for one in v])
    np.testing.assert_allclose(module(v).detach().numpy(), expected, rtol=1e-11, atol=1e-12)


def test_real_pairs_have_the_gradients_of_complex_tensors():
    torch.manual_seed(3)
    module = SpectralMLP(6, n_blocks=3, threshold=0.01).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(10)
    v = torch.randn(2, 5, 8, 6, dtype=torch.float64, requires_grad=True)
    asked = (v, *module.parameters())
    found = torch.autograd.grad(module(v).square().sum(), asked)
    expected = torch.autograd.grad(LiteralSpectralMLP.forward(module, v).square().sum(), asked)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


def test_the_literal_form_is_the_same_operator():
    torch.manual_seed(6)
    operator = AFNO((6, 7), 1, 2, hidden_channels=8, n_layers=2, n_blocks=2).double()
    literal = as_literal_afno(operator)
    assert literal.state_dict().keys() == operator.state_dict().keys()
    u, grid = torch.randn(2, 1, 6, 7, dtype=torch.float64), Grid.uniform((6, 7), kind="cells")
    torch.testing.assert_close(literal(u, grid), operator(u, grid), rtol=1e-11, atol=1e-12)


def test_a_full_matrix_is_the_same_as_its_blocks(monkeypatch):
    """Which is what a GPU gets."""
    torch.manual_seed(5)
    module = SpectralMLP(6, n_blocks=3, threshold=0.01).double()
    v = torch.randn(2, 5, 8, 6, dtype=torch.float64)
    asked = tuple(module.parameters())
    expected = module(v)
    gradients = torch.autograd.grad(expected.square().sum(), asked)
    monkeypatch.setattr(afno, "takes_full_matrices", lambda w: True)
    found = module(v)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.autograd.grad(found.square().sum(), asked), gradients, rtol=1e-12, atol=1e-12)


def test_the_operator_is_lift_embedding_layers_and_head():
    torch.manual_seed(1)
    operator = AFNO((4, 6), 2, 3, hidden_channels=4, n_layers=1, n_blocks=2).double()
    grid = Grid.uniform((4, 6))
    u = torch.randn(1, 2, 4, 6, dtype=torch.float64)
    v = torch.cat([u.movedim(1, -1), grid.points.unsqueeze(0)], -1) @ operator.lift.weight.T + operator.lift.bias
    v = v + operator.embedding
    (layer,) = operator.layers
    normalised = torch.nn.functional.layer_norm(v, (4,), layer.norm_1.weight, layer.norm_1.bias)
    w = v + torch.from_numpy(mixing_by_loops(layer.mixing, normalised[0].detach().numpy()))
    expected = (w + layer.feed_forward(layer.norm_2(w))) @ operator.head.weight.T
    torch.testing.assert_close(operator(u, grid), expected.movedim(-1, 1), rtol=1e-11, atol=1e-12)


def test_it_is_bound_to_one_resolution_and_to_uniform_grids():
    operator = AFNO((4, 6), 1, 1, hidden_channels=4, n_layers=1, n_blocks=2)
    for kind in ("nodes", "cells", "periodic"):
        operator(torch.zeros(1, 1, 4, 6), Grid.uniform((4, 6), kind=kind))
    with pytest.raises(UsageError, match="bound to 4 x 6 points by its positional embedding") as caught:
        operator(torch.zeros(1, 1, 8, 12), Grid.uniform((8, 12)))
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="uniform grids only"):
        operator(torch.zeros(1, 1, 4, 6), Grid.rectilinear(range(4), range(6)))
    with pytest.raises(UsageError, match="uniform grids only"):
        operator(torch.zeros(1, 1, 24), Grid.scattered(torch.rand(24, 2)))


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"shape": 64}, "shape must be a list"),
        ({"shape": (64, 1)}, "shape must be the number of points"),
        ({"n_blocks": 3}, "n_blocks must divide hidden_channels"),
        ({"threshold": -1.0}, "threshold must not be negative"),
        ({"threshold": float("nan")}, "threshold must be finite"),
    ],
)
def test_wrong_settings(change, complaint):
    with pytest.raises(UsageError, match=complaint):
        AFNO(**({"shape": (4, 4), "in_channels": 1, "out_channels": 1, "hidden_channels": 8} | change))
