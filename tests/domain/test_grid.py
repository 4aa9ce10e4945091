"""Points and weights of every kind of grid, against values worked out by hand."""

import math

import numpy as np
import pytest
import torch

from operformer import Grid
from operformer.errors import UsageError


def numbers(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_nodes_hold_both_ends_and_halve_the_weight_there():
    grid = Grid.uniform(5, bounds=[(-1, 3)])
    torch.testing.assert_close(grid.points, numbers(-1, 0, 1, 2, 3)[:, None])
    torch.testing.assert_close(grid.weights, numbers(0.5, 1, 1, 1, 0.5))


def test_cells_are_midpoints_of_equal_weight():
    grid = Grid.uniform(5, bounds=[(0, 10)], kind="cells")
    torch.testing.assert_close(grid.points, numbers(1, 3, 5, 7, 9)[:, None])
    torch.testing.assert_close(grid.weights, numbers(2, 2, 2, 2, 2))


def test_periodic_leaves_out_the_upper_end():
    grid = Grid.uniform(5, bounds=[(0, 10)], kind="periodic")
    torch.testing.assert_close(grid.points, numbers(0, 2, 4, 6, 8)[:, None])
    torch.testing.assert_close(grid.weights, numbers(2, 2, 2, 2, 2))


def test_left_ends_leave_the_rest_to_the_last_point():
    grid = Grid.uniform((5, 2), bounds=[(0, 10), (1, 2)], kind="left")
    torch.testing.assert_close(grid.axes[0], numbers(0, 2, 4, 6, 8))
    torch.testing.assert_close(grid.weights[:, 1] / 0.75, numbers(1, 2, 2, 2, 3))
    same = Grid.rectilinear(*grid.axes, bounds=grid.bounds)
    torch.testing.assert_close(grid.weights, same.weights)
    assert grid.is_uniform
    assert not same.is_uniform
    assert not grid.has_equal_weights


def test_nodes_in_two_dimensions_are_a_tensor_product():
    grid = Grid.uniform((2, 3), bounds=[(0, 2), (-1, 1)])
    expected = [[[0, -1], [0, 0], [0, 1]], [[2, -1], [2, 0], [2, 1]]]
    torch.testing.assert_close(grid.points, torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(grid.weights, numbers([0.5, 1, 0.5], [0.5, 1, 0.5]))


@pytest.mark.parametrize(("kind", "offset"), [("cells", 0.5), ("periodic", 0.0)])
def test_cells_and_periodic_in_three_dimensions(kind, offset):
    grid = Grid.uniform((2, 3, 5), bounds=[(0, 2), (-3, 0), (1, 11)], kind=kind)
    for i in range(2):
        for j in range(3):
            for k in range(5):
                x = numbers(i + offset, -3 + j + offset, 1 + 2 * (k + offset))
                torch.testing.assert_close(grid.points[i, j, k], x)
    torch.testing.assert_close(grid.weights, torch.full((2, 3, 5), 2.0, dtype=torch.float64))


def test_rectilinear_weights_are_products_of_trapezoidal_ones():
    grid = Grid.rectilinear([0, 1, 4], [2, 3], [-1, 0, 0.5, 3])
    first, second, third = (0.5, 2, 1.5), (0.5, 0.5), (0.5, 0.75, 1.5, 1.25)
    assert grid.bounds == ((0, 4), (2, 3), (-1, 3))
    for i in range(3):
        for j in range(2):
            for k in range(4):
                expected = first[i] * second[j] * third[k]
                assert float(grid.weights[i, j, k]) == pytest.approx(expected, abs=1e-14)
    torch.testing.assert_close(grid.points[2, 1, 3], numbers(4, 3, 3))


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_scattered_points_have_equal_weights_unless_given(dim):
    generator = torch.Generator().manual_seed(dim)
    points = torch.rand(7, dim, generator=generator, dtype=torch.float64)
    bounds = [(-1, 1)] * dim
    equal = Grid.scattered(points, bounds=bounds)
    torch.testing.assert_close(equal.weights, torch.full((7,), 2.0**dim / 7, dtype=torch.float64))
    torch.testing.assert_close(equal.points, points, rtol=0, atol=0)
    given = Grid.scattered(points, weights=[3, 0, 1, 4, 1, 5, 9], bounds=bounds)
    torch.testing.assert_close(given.weights, numbers(3, 0, 1, 4, 1, 5, 9), rtol=0, atol=0)


BOX = ((-1.0, 2.0), (0.5, 1.0), (3.0, 10.0))


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left", "rectilinear", "scattered"])
def test_weights_sum_to_the_volume(kind, dim):
    box, sizes = BOX[:dim], (5, 7, 3)[:dim]
    if kind == "rectilinear":
        grid = Grid.rectilinear(
            *(np.linspace(0, 1, n) ** 2 * (b - a) + a for n, (a, b) in zip(sizes, box, strict=True))
        )
    elif kind == "scattered":
        grid = Grid.scattered([[a for a, _ in box], [b for _, b in box], [(a + b) / 2 for a, b in box]], bounds=box)
    else:
        grid = Grid.uniform(sizes, bounds=box, kind=kind)
    volume = math.prod((3.0, 0.5, 7.0)[:dim])
    assert float(grid.weights.sum()) == pytest.approx(volume, rel=1e-14)
    assert grid.volume == pytest.approx(volume, rel=1e-14)
    assert grid.weights.dtype == grid.points.dtype == torch.float64
    assert grid.kind == kind
    assert grid.dim == dim
    assert grid.has_equal_weights == (len(set(grid.weights.flatten().tolist())) == 1)


def test_the_unit_cube_is_the_default_domain():
    assert Grid.uniform((2, 3, 5)).bounds == ((0, 1),) * 3
    assert Grid.scattered([[0.25, 0.5], [0.5, 0.75]]).bounds == ((0, 1),) * 2


def test_an_unsorted_axis_keeps_the_weight_of_each_point():
    order_1, order_2 = [2, 0, 3, 1, 4], [1, 2, 0]
    axis_1, axis_2 = numbers(0, 0.1, 0.4, 0.9, 1.5), numbers(-2, 0, 1)
    in_order = Grid.rectilinear(axis_1, axis_2)
    shuffled = Grid.rectilinear(axis_1[order_1], axis_2[order_2])
    torch.testing.assert_close(shuffled.weights, in_order.weights[order_1][:, order_2])
    torch.testing.assert_close(shuffled.points, in_order.points[order_1][:, order_2])
    assert shuffled.bounds == in_order.bounds


def test_to_moves_every_tensor():
    moved = Grid.rectilinear([0, 1, 4], [2, 3]).to("meta")
    tensors = [moved.points, moved.weights, *moved.axes]
    assert [t.device.type for t in tensors] == ["meta"] * 4
    assert moved.bounds == ((0, 4), (2, 3))


PAIR = [[0.25], [0.75]]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grid.scattered([[0.5, 0.5], [0.5, 1.25]]), r"inside the bounds .* point 1 is \[0.5, 1.25\]"),
        (lambda: Grid.scattered([[0.5], [math.nan]]), "inside the bounds .* point 1 is .*nan"),
        (lambda: Grid.scattered([[0.5]]), "at least two points: got 1"),
        (lambda: Grid.scattered([0.25, 0.75]), r"must be \(N, d\), d = 1, 2 or 3: got shape \(2,\)"),
        (lambda: Grid.scattered(PAIR, weights=[1, -0.5]), "must not be negative: got -0.5"),
        (lambda: Grid.scattered(PAIR, weights=[0, 0]), "must not all be zero"),
        (lambda: Grid.scattered(PAIR, weights=[1, math.nan]), "must be finite"),
        (lambda: Grid.scattered(PAIR, weights=[math.inf, 1]), "must be finite"),
        (
            lambda: Grid.scattered(PAIR, weights=[1, 1, 1]),
            r"weights must be \(2,\), one for each point: got shape \(3,\)",
        ),
        (lambda: Grid.scattered(PAIR, bounds=[(0, 1), (0, 1)]), "bounds must be one .* for each of 1 axes"),
        (lambda: Grid.uniform((3, 1)), r"at least two points along each axis: got \(3, 1\)"),
        (lambda: Grid.uniform(-3), "at least two points along each axis"),
        (lambda: Grid.uniform(()), "at least two points along each axis"),
        (lambda: Grid.uniform(5, kind="chebyshev"), "kind must be .* got 'chebyshev'"),
        (lambda: Grid.uniform(5, bounds=[(1, 1)]), "must be finite and grow from lower to upper"),
        (lambda: Grid.uniform(5, bounds=[(2, 1)]), "must be finite and grow from lower to upper"),
        (lambda: Grid.uniform(5, bounds=[(0, math.inf)]), "must be finite and grow from lower to upper"),
        (lambda: Grid.uniform(5, bounds=[(0, math.nan)]), "must be finite and grow from lower to upper"),
        (lambda: Grid.uniform(5, bounds=(0, 1)), "bounds must be one .* for each of 1 axes"),
        (lambda: Grid.uniform((5, 3), bounds=[(0, 1)]), "bounds must be one .* for each of 2 axes"),
        (lambda: Grid.uniform(5, bounds=np.array([[0, 1], [0, 1]])), "bounds must be one .* for each of 1 axes"),
        (lambda: Grid.rectilinear(), "at least one axis"),
        (lambda: Grid.rectilinear([0, 1], [2]), "axis 1 needs at least two values"),
        (
            lambda: Grid.rectilinear([[0, 1], [2, 3]]),
            r"axis 0 needs at least two values in one row: got shape \(2, 2\)",
        ),
        (lambda: Grid.rectilinear([0, 1], [0, 2, 1, 2]), "axis 1 holds a value twice"),
        (lambda: Grid.rectilinear([0, math.nan, 1]), "axis 0 holds values that are not finite"),
    ],
)
def test_what_is_no_grid_is_refused_in_one_line(make, message):
    with pytest.raises(UsageError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
