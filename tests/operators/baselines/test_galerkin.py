"""The Galerkin transformer's encoder against loops over points, heads and channels."""

from math import sqrt

import numpy as np
import pytest
import torch
from scipy.special import erf

from operformer import Grid
from operformer.errors import UsageError
from operformer.operators.baselines import GalerkinTransformer
from operformer.operators.baselines.galerkin import FourierTypeAttention


def randomise(module, seed=0):
    """Weights away from their start, where much is zero or one."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


def linear(layer, v):
    return layer.weight.detach().numpy() @ v + layer.bias.detach().numpy()


def layer_norm(norm, v):
    mean = sum(v) / len(v)
    variance = sum((entry - mean) ** 2 for entry in v) / len(v)
    return norm.weight.detach().numpy() * (v - mean) / sqrt(variance + norm.eps) + norm.bias.detach().numpy()


def attention_by_loops(module, v, x):
    """(n, c), (n, d) -> (n, c): scores of all pairs of points first, then the average with weights 1/n."""
    n, size, out = len(v), v.shape[1] // module.n_heads, []
    for i in range(n):
        heads = []
        for h in range(module.n_heads):
            own = slice(h * size, (h + 1) * size)
            q = np.concatenate([x[i], layer_norm(module.norm_query[h], linear(module.query, v[i])[own])])
            total = 0.0
            for j in range(n):
                k = np.concatenate([x[j], layer_norm(module.norm_key[h], linear(module.key, v[j])[own])])
                total = total + (q @ k) * np.concatenate([x[j], linear(module.value, v[j])[own]]) / n
            heads.append(total)
        out.append(linear(module.merge, np.concatenate(heads)))
    return np.array(out)


def operator_by_loops(operator, u, x):
    """(c, n), (n, d) -> (c', n)."""
    v = np.array([linear(operator.lift.linear, np.concatenate([u[:, i], x[i]])) for i in range(len(x))])
    for layer in operator.layers:
        v = v + attention_by_loops(layer.attention, v, x)
        inner = np.array([linear(layer.feed_forward[0], row) for row in v])
        gelu = inner * (1 + erf(inner / sqrt(2))) / 2
        v = v + np.array([linear(layer.feed_forward[2], row) for row in gelu])
    return np.array([linear(operator.head.linear, row) for row in v]).T


@pytest.mark.parametrize(("n_heads", "dim"), [(1, 2), (3, 1), (2, 3)])
def test_attention_is_the_loop(n_heads, dim):
    module = randomise(FourierTypeAttention(6, n_heads, dim).double())
    generator = torch.Generator().manual_seed(1)
    v, x = (torch.randn(*shape, generator=generator, dtype=torch.float64) for shape in ((2, 7, 6), (7, dim)))
    expected = np.stack([attention_by_loops(module, one.numpy(), x.numpy()) for one in v])
    np.testing.assert_allclose(module(v, x).detach().numpy(), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "grid",
    [Grid.uniform((3, 5)), Grid.rectilinear([0.0, 0.1, 1.0], [0.0, 0.7]), Grid.scattered(torch.rand(11, 2))],
    ids=repr,
)
def test_the_operator_is_the_loop_on_every_grid(grid):
    operator = randomise(GalerkinTransformer(2, 2, 3, hidden_channels=6, n_layers=2, n_heads=2).double())
    u = torch.randn(1, 2, *grid.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    expected = operator_by_loops(operator, u[0].flatten(1).numpy(), grid.points.reshape(-1, 2).numpy())
    found = operator(u, grid)[0].flatten(1).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11)


def test_it_starts_near_the_identity_and_every_weight_has_a_gradient():
    torch.manual_seed(0)
    operator = GalerkinTransformer(1, 1, 1, hidden_channels=8, n_layers=2, n_heads=2).double()
    operator(torch.randn(2, 1, 9, dtype=torch.float64)).square().sum().backward()
    assert all(bool((p.grad != 0).any()) for p in operator.parameters())


def test_what_it_refuses():
    with pytest.raises(UsageError, match="n_heads must divide"):
        GalerkinTransformer(1, 1, 1, hidden_channels=4, n_heads=3)
