"""Piecewise linear interpolation: exact for linear functions, second order for smooth ones."""

import itertools
import math

import numpy as np
import pytest
import torch

from operformer import Grid
from operformer.domain.interpolation import interpolate
from operformer.errors import UsageError

BOX = ((-1.0, 2.0), (0.0, 1.0), (3.0, 4.5))
AXES = ((-1.0, 2.0, 0.3, -0.4, 1.9), (0.7, 0.0, 1.0), (3.0, 4.5, 3.1, 4.0))  # not sorted


def random_grid(n, dim, seed):
    """Points in the box, its corners among them, so that they span it."""
    box = torch.tensor(BOX[:dim], dtype=torch.float64)
    unit = torch.rand(n, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    corners = torch.tensor(list(itertools.product(*BOX[:dim])), dtype=torch.float64)
    inside = box[:, 0] + unit * (box[:, 1] - box[:, 0])
    return Grid.scattered(torch.cat([inside, corners]), bounds=BOX[:dim])


def multilinear(points):
    """prod_k (c_k + x_k): linear along each axis, with every mixed term."""
    value = torch.ones(points.shape[:-1], dtype=torch.float64)
    for k, c in zip(range(points.shape[-1]), (2.0, -3.0, 0.5), strict=False):
        value = value * (c + points[..., k])
    return value


def linear(points):
    return 1 + (points * torch.tensor([2.0, -3.0, 0.5], dtype=torch.float64)[: points.shape[-1]]).sum(-1)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", ["nodes", "cells", "rectilinear"])
def test_tensor_products_are_exact_for_multilinear_functions(kind, dim):
    if kind == "rectilinear":
        grid = Grid.rectilinear(*AXES[:dim])
    else:
        grid = Grid.uniform((5, 3, 4)[:dim], bounds=BOX[:dim], kind=kind)
    query = random_grid(23, dim, seed=0)
    u = torch.stack([multilinear(grid.points), -2 * multilinear(grid.points)])
    expected = torch.stack([multilinear(query.points), -2 * multilinear(query.points)])
    torch.testing.assert_close(interpolate(u, grid, query), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_scattered_points_are_exact_for_linear_functions(dim):
    grid = random_grid(19, dim, seed=1)
    query = Grid.uniform((5, 3, 4)[:dim], bounds=[(a + 0.01, b - 0.01) for a, b in BOX[:dim]])
    torch.testing.assert_close(
        interpolate(linear(grid.points)[None], grid, query), linear(query.points)[None], rtol=1e-11, atol=1e-11
    )


def test_a_value_by_hand_on_scattered_points_of_a_line():
    grid = Grid.scattered([[0.5], [0.1], [0.9]])
    u = torch.tensor([10.0, 2.0, 30.0])
    query = Grid.scattered([[0.2], [0.8], [0.0], [1.0]])
    # Between points linear; beyond the outermost ones the nearest value holds.
    torch.testing.assert_close(interpolate(u, grid, query), torch.tensor([4.0, 25.0, 2.0, 30.0]))


def test_beyond_the_hull_of_scattered_points_the_nearest_value_holds():
    grid = Grid.scattered([[0.3, 0.3], [0.7, 0.3], [0.5, 0.8]])
    query = Grid.scattered([[0.0, 0.0], [0.9, 0.1], [0.5, 1.0]])
    torch.testing.assert_close(interpolate(torch.tensor([2.0, 3.0, 5.0]), grid, query), torch.tensor([2.0, 3.0, 5.0]))


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "scattered"])
def test_smooth_functions_converge_with_order_two(kind):
    generator = torch.Generator().manual_seed(3)
    query = Grid.scattered(torch.rand(997, 2, generator=generator, dtype=torch.float64))

    def u(points):
        x, y = points.unbind(-1)
        return torch.sin(2 * math.pi * x) * torch.cos(4 * math.pi * y)

    sizes, errors = (16, 32, 64, 128), []
    for n in sizes:
        if kind == "scattered":
            nodes = Grid.uniform((n + 1, n + 1)).points
            jitter = torch.rand(n + 1, n + 1, 2, generator=generator, dtype=torch.float64) - 0.5
            jitter[[0, -1]] = jitter[:, [0, -1]] = 0
            grid = Grid.scattered((nodes + 0.5 * jitter / n).flatten(0, 1))
        else:
            grid = Grid.uniform((n + 1, n + 1) if kind == "nodes" else (n, n), kind=kind)
        difference = interpolate(u(grid.points), grid, query) - u(query.points)
        errors.append(float(difference.square().mean().sqrt()))
    order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    print(f"interpolation, {kind}: order {order:.3f}")
    assert 1.9 < order < 2.1


def test_periodic_functions_wrap_around():
    grid = Grid.uniform(4, kind="periodic")
    u = torch.tensor([1.0, 2.0, 3.0, 5.0])
    query = Grid.scattered([[0.875], [1.0], [0.0], [0.9375]])
    torch.testing.assert_close(interpolate(u, grid, query), torch.tensor([3.0, 1.0, 1.0, 2.0]))


@pytest.mark.parametrize(
    "grid",
    [
        Grid.uniform((5, 7)),
        Grid.uniform((5, 7), kind="cells"),
        Grid.uniform((5, 7), kind="periodic"),
        Grid.rectilinear(*AXES[:2]),
        random_grid(13, 2, seed=2),
        random_grid(13, 1, seed=2),
        random_grid(13, 3, seed=2),
    ],
    ids=["nodes", "cells", "periodic", "rectilinear", "scattered", "scattered-1d", "scattered-3d"],
)
def test_a_function_read_on_its_own_points_is_itself(grid):
    u = torch.randn(3, 2, *grid.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(interpolate(u, grid, grid), u, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Grid.scattered([[0.5, 0.5], [0.5, 1.5]], bounds=[(0, 1), (0, 2)]), "reaches outside the domain"),
        (Grid.uniform((3, 3), bounds=[(-1, 1), (0, 1)]), "reaches outside the domain"),
        (Grid.uniform(3), "must have the same dimension: got 2 and 1"),
    ],
)
def test_a_query_elsewhere_is_refused_in_one_line(query, message):
    grid = Grid.uniform((5, 7))
    with pytest.raises(UsageError, match=message) as caught:
        interpolate(torch.ones(5, 7), grid, query)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(2, 35), (7, 5), (35,), (2, 11, 13)])
def test_values_of_another_shape_are_refused_in_one_line(shape):
    with pytest.raises(UsageError, match="5, 7") as caught:
        interpolate(torch.ones(shape), Grid.uniform((5, 7)), Grid.uniform((3, 3)))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dim", [1, 2])
def test_scattered_points_may_coincide(dim):
    points = [[0.1, 0.1], [0.1, 0.1], [0.5, 0.9], [0.9, 0.1]]
    grid = Grid.scattered([p[:dim] for p in points])
    query = Grid.scattered([[0.3, 0.2][:dim], [0.7, 0.3][:dim]])
    torch.testing.assert_close(interpolate(linear(grid.points), grid, query), linear(query.points))


def test_points_on_a_line_in_the_plane_are_refused_in_one_line():
    grid = Grid.scattered([[0.1, 0.1], [0.5, 0.5], [0.7, 0.7], [0.9, 0.9]])
    with pytest.raises(UsageError, match="span no volume") as caught:
        interpolate(torch.ones(4), grid, Grid.uniform((3, 3)))
    assert "\n" not in str(caught.value)
