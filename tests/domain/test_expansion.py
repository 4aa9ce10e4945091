"""Sums over products of functions against sums written out term by term."""

from itertools import product

import numpy as np
import pytest
import torch

from operformer.domain import Grid
from operformer.domain.expansion import axis_points, expand

SIZES = (3, 5, 2)
BOXES = ((-1.0, 2.0), (0.5, 3.0), (1.0, 1.5))
RAW = np.random.default_rng(7)


def functions_of(k, x):
    """Functions without any symmetry, another set for each axis."""
    return np.stack([np.exp(0.3 * (k + 1) * i * x) * np.cos(i * x + k) for i in range(SIZES[k])], -1)


def by_hand(coefficients, points):
    """sum_i c_i phi_{i_1}(x_1) ... phi_{i_d}(x_d) at each point (N, d), one term after the other."""
    d = points.shape[1]
    total = np.zeros((len(coefficients), len(points)), coefficients.dtype)
    tables = [functions_of(k, points[:, k]) for k in range(d)]
    for index in product(*(range(SIZES[k]) for k in range(d))):
        term = np.prod([tables[k][:, i] for k, i in enumerate(index)], axis=0)
        total += coefficients[(slice(None), *index)][:, None] * term
    return total


def grids(d):
    box = BOXES[:d]
    points = np.stack([RAW.uniform(*ends, 13) for ends in box], -1)
    axes = [
        RAW.permutation(a + (b - a) * np.linspace(0, 1, n) ** 1.7) for (a, b), n in zip(box, (7, 4, 3), strict=False)
    ]
    return [
        Grid.uniform((7, 4, 3)[:d], bounds=box),
        Grid.uniform((4, 7, 3)[:d], bounds=box, kind="cells"),
        Grid.uniform((3, 2, 5)[:d], bounds=box, kind="periodic"),
        Grid.rectilinear(*axes),
        Grid.scattered(points, bounds=box),
    ]


EVERY = [grid for d in (1, 2, 3) for grid in grids(d)]


@pytest.mark.parametrize("grid", EVERY, ids=repr)
@pytest.mark.parametrize("is_complex", [False, True], ids=["real", "complex"])
def test_expand_is_the_sum_over_all_products(grid, is_complex):
    d = grid.dim
    real, imaginary = np.random.default_rng(3).standard_normal((2, 11, *SIZES[:d]))
    coefficients = real + 1j * imaginary if is_complex else real
    matrices = [torch.from_numpy(functions_of(k, x.numpy())) for k, x in enumerate(axis_points(grid))]
    if is_complex:
        matrices = [matrix.to(torch.complex128) for matrix in matrices]
    found = expand(torch.from_numpy(coefficients), matrices, grid)
    assert found.shape == (11, *grid.shape)
    expected = by_hand(coefficients, grid.points.reshape(-1, d).numpy()).reshape(found.shape)
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=1e-11, equal_nan=False)
    assert np.abs(expected).max() > 1


@pytest.mark.parametrize("d", [1, 2, 3])
def test_axis_points_are_coordinates(d):
    for grid in (grid for grid in EVERY if grid.dim == d):
        axes = axis_points(grid)
        assert len(axes) == d
        for k, axis in enumerate(axes):
            shape = [1] * grid.n_axes
            shape[k if grid.axes is not None else 0] = -1
            assert torch.equal(axis.reshape(shape).expand(grid.shape), grid.points[..., k])


def test_expand_keeps_gradients():
    grid = next(grid for grid in EVERY if grid.dim == 2 and grid.kind == "scattered")
    matrices = [torch.from_numpy(functions_of(k, x.numpy())) for k, x in enumerate(axis_points(grid))]
    coefficients = torch.from_numpy(np.random.default_rng(5).standard_normal((2, *SIZES[:2]))).requires_grad_()
    assert torch.autograd.gradcheck(lambda c: expand(c, matrices, grid), coefficients)
