"""Attention converges to the continuum operator: order 2 by trapezoid, 1/2 by Monte Carlo (Section 2, Theorems 1-2)."""

import numpy as np
import pytest
import torch
from draws import observed_order

from operformer import Grid, attention

generator = torch.Generator().manual_seed(0)
Q, K = (torch.randn(3, 2, generator=generator, dtype=torch.float64) for _ in range(2))
V = torch.randn(5, 2, generator=generator, dtype=torch.float64)


def u(x):
    """A smooth function on [0, 1]^d with two channels."""
    return torch.stack([torch.sin(3 * x).sum(-1), torch.exp(-x).prod(-1)], -1)


def v(x):
    """Another one, for cross-attention."""
    return torch.stack([torch.cos(2 * x[..., 0]) + x[..., -1] ** 2, x.sum(-1) / (1 + x[..., 0])], -1)


def gauss_legendre(dim, n=40):
    """Points and weights on [0, 1]^d that integrate polynomials up to degree 2 n - 1 exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    axes = np.meshgrid(*[(nodes + 1) / 2] * dim, indexing="ij")
    products = np.prod(np.meshgrid(*[weights / 2] * dim, indexing="ij"), axis=0)
    return torch.from_numpy(np.stack(axes, -1).reshape(-1, dim)), torch.from_numpy(products.reshape(-1))


def continuum(x, source):
    """E_{y ~ q(y; u, v, x)}[V v(y)] at the points x (Definitions 3, 4, 7 and 8), both integrals by Gauss-Legendre."""
    y, w = gauss_legendre(x.shape[-1])
    density = torch.exp((u(x) @ Q.T) @ (source(y) @ K.T).T) * w
    return density @ (source(y) @ V.T) / density.sum(-1, keepdim=True)


def on_points(x, y, source, weights):
    return attention(u(x) @ Q.T, source(y) @ K.T, source(y) @ V.T, weights)


def test_the_reference_is_converged():
    x = torch.rand(7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    y, w = gauss_legendre(2, 30)
    torch.testing.assert_close(on_points(x, y, v, w), continuum(x, v), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("source", [u, v], ids=["self", "cross"])
@pytest.mark.parametrize("spacing", ["uniform", "graded"])
def test_trapezoidal_weights_converge_with_order_two(source, spacing):
    intervals, errors = (16, 32, 64, 128), []
    for n in intervals:
        s = torch.linspace(0, 1, n + 1, dtype=torch.float64)
        grid = Grid.rectilinear(s if spacing == "uniform" else s + 0.4 * s * (s - 1))
        out = on_points(grid.points, grid.points, source, grid.weights)
        errors.append(float((out - continuum(grid.points, source)).abs().max()))
    order = observed_order(intervals, errors)
    print(f"1-d, {spacing}, {source.__name__}: order {order:.3f}, errors {errors}")
    assert 1.9 < order < 2.1


@pytest.mark.parametrize("source", [u, v], ids=["self", "cross"])
def test_trapezoidal_weights_converge_with_order_two_in_the_plane(source):
    intervals, errors = (12, 18, 30, 48), []
    for n in intervals:
        grid = Grid.uniform((n + 1, 2 * n + 1))
        y = grid.points.flatten(0, 1)
        x = Grid.uniform((7, 13)).points.flatten(0, 1)  # on every level
        out = on_points(x, y, source, grid.weights.flatten())
        errors.append(float((out - continuum(x, source)).abs().max()))
    order = observed_order(intervals, errors)
    print(f"2-d, {source.__name__}: order {order:.3f}, errors {errors}")
    assert 1.9 < order < 2.1


@pytest.mark.parametrize("source", [u, v], ids=["self", "cross"])
@pytest.mark.parametrize("dim", [1, 2])
def test_equal_weights_on_irregular_points_are_not_a_quadrature(source, dim):
    """Points that crowd and equal weights: another measure, whatever the resolution."""
    errors = []
    for n in (33, 129):
        s = torch.linspace(0, 1, n, dtype=torch.float64) ** 2
        grid = Grid.rectilinear(*[s[:: 1 if dim == 1 else 4]] * dim)
        x = grid.points.flatten(0, -2)
        errors.append(float((on_points(x, x, source, None) - continuum(x, source)).abs().max()))
    assert errors[1] > 0.8 * errors[0] > 0.01


@pytest.mark.parametrize("source", [u, v], ids=["self", "cross"])
@pytest.mark.parametrize("dim", [1, 2])
def test_monte_carlo_converges_with_order_one_half(source, dim):
    x = torch.cat([Grid.uniform((5,) * dim).points.flatten(0, -2), torch.full((1, dim), 0.3, dtype=torch.float64)])
    exact = continuum(x, source)
    sampler = torch.Generator().manual_seed(2)
    counts, errors, repetitions = (64, 256, 1024, 4096), [], 400
    for n in counts:
        y = torch.rand(repetitions, n, dim, generator=sampler, dtype=torch.float64)
        out = on_points(x.expand(repetitions, -1, -1), y, source, None)
        # E ||.||_C, as in Theorems 1 and 2: the largest error over x, averaged over draws of the points.
        errors.append(float((out - exact).norm(dim=-1).amax(-1).mean()))
    order = observed_order(counts, errors)
    print(f"Monte Carlo, {dim}-d, {source.__name__}: order {order:.3f}, errors {errors}")
    assert 0.4 < order < 0.6
