"""Weights, inner products and norms against exact integrals and observed orders of convergence."""

import math

import numpy as np
import pytest
import torch

from operformer import Grid, voronoi_weights
from operformer.domain import h1_norm, inner_product, l2_norm, trapezoidal_weights
from operformer.errors import UsageError

LEVELS = (17, 31, 61, 127)


def assert_second_order(sizes, errors, what):
    assert min(errors) > 0
    order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    print(f"{what}: order {order:.3f}")
    assert 1.9 < order < 2.1, what


def stretched(n):
    """An axis of [0, 1] that crowds towards 0, the image of equispaced points under a smooth map."""
    s = torch.linspace(0, 1, n, dtype=torch.float64)
    return s + 0.4 * s * (s - 1)


def random_points(n, bounds, seed):
    box = torch.tensor(bounds, dtype=torch.float64)
    unit = torch.rand(n, len(box), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return box[:, 0] + unit * (box[:, 1] - box[:, 0])


def interval(kind, n):
    """A grid of [0, 1] with n intervals."""
    if kind == "stretched":
        return Grid.rectilinear(stretched(n + 1))
    return Grid.uniform(n + 1 if kind == "nodes" else n, kind=kind)


# Weights


def test_trapezoidal_weights_by_hand_and_in_any_order():
    axis = torch.tensor([4.0, 0.0, 1.0], dtype=torch.float64)
    torch.testing.assert_close(trapezoidal_weights(axis), torch.tensor([1.5, 0.5, 2.0], dtype=torch.float64))


@pytest.mark.parametrize(
    ("sizes", "bounds"),
    [((11,), ((0.0, 3.0),)), ((5, 7), ((-1.0, 1.0), (0.0, 5.0))), ((3, 5, 4), ((0.0, 1.0), (0.0, 2.0), (1.0, 4.0)))],
)
def test_voronoi_weights_of_a_node_grid_are_the_trapezoidal_ones(sizes, bounds):
    grid = Grid.uniform(sizes, bounds=bounds)
    weights = voronoi_weights(grid.points.flatten(0, -2), bounds)
    torch.testing.assert_close(weights, grid.weights.flatten(), rtol=0, atol=1e-8)


def test_voronoi_weights_by_hand():
    points = torch.tensor([[0.75], [0.0], [0.25]])
    torch.testing.assert_close(voronoi_weights(points), torch.tensor([0.5, 0.125, 0.375], dtype=torch.float64))


@pytest.mark.parametrize(
    ("n", "bounds", "raster"),
    [(13, ((0.0, 2.0),), 4001), (17, ((0.0, 1.0), (-2.0, 3.0)), 401), (11, ((0.0, 1.0), (0.0, 2.0), (-1.0, 0.5)), 53)],
)
def test_voronoi_weights_measure_what_lies_nearest(n, bounds, raster):
    points = random_points(n, bounds, seed=n)
    weights = voronoi_weights(points, bounds)
    fine = Grid.uniform((raster,) * len(bounds), bounds=bounds, kind="cells")
    nearest = torch.cdist(fine.points.flatten(0, -2), points).argmin(-1)
    counted = torch.bincount(nearest, minlength=n).double() * (fine.volume / raster ** len(bounds))
    # The raster misjudges what a boundary cuts: at most a cell on a line, a layer with errors of both signs elsewhere.
    share = 1 if len(bounds) == 1 else 0.1
    torch.testing.assert_close(weights, counted, rtol=0, atol=share * fine.volume / raster)
    assert float(weights.sum()) == pytest.approx(fine.volume, rel=1e-10)


@pytest.mark.parametrize("dim", [1, 2, 3])
def test_points_that_coincide_share_their_cell(dim):
    bounds = ((0.0, 1.0), (0.0, 3.0), (0.0, 2.0))[:dim]
    points = random_points(7, bounds, seed=dim)
    alone = voronoi_weights(points, bounds)
    shared = voronoi_weights(torch.cat([points, points[2:3], points[2:3]]), bounds)
    expected = torch.cat([alone, alone[2:3], alone[2:3]])
    expected[[2, 7, 8]] /= 3
    torch.testing.assert_close(shared, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("gap", [1e-10, 2e-16])
@pytest.mark.parametrize("x", [0.0, 0.5])
def test_points_that_nearly_coincide_do_not_take_from_the_others(x, gap):
    points = torch.tensor([[x, 0.5], [x + gap, 0.5], [0.9, 0.9]], dtype=torch.float64)
    merged = voronoi_weights(points[1:])
    weights = voronoi_weights(points)
    assert float(weights[2]) == pytest.approx(float(merged[1]), abs=1e-8)
    assert float(weights[:2].sum()) == pytest.approx(float(merged[0]), abs=1e-8)


@pytest.mark.parametrize(
    ("points", "bounds", "message"),
    [
        ([[0.5, 0.5], [0.7, 0.5]], [(0, 1)], "bounds"),
        ([[0.5, 0.0], [0.7, 0.0]], [(0, 1), (0, 0)], "bounds"),
        ([[0.5, 0.5], [1.5, 0.5]], None, "inside the bounds"),
        ([[0.5], [math.nan]], None, "inside the bounds"),
        ([[0.5]], None, "N >= 2"),
        ([[0.5] * 4, [0.6] * 4], None, "d = 1, 2, 3"),
    ],
)
def test_voronoi_weights_refuse_in_one_line(points, bounds, message):
    with pytest.raises(UsageError, match=message) as caught:
        voronoi_weights(torch.tensor(points), bounds)
    assert "\n" not in str(caught.value)


# Norms


def test_inner_product_by_hand():
    grid = Grid.rectilinear([0, 1, 4])  # weights 0.5, 2, 1.5
    u = torch.tensor([[[1.0, 2, 3], [0, 1, 0]], [[1, 0, 0], [0, 0, 2]]], dtype=torch.float64)
    v = torch.tensor([[[4.0, 1, 2], [5, 3, 1]], [[2, 7, 7], [7, 7, 3]]], dtype=torch.float64)
    expected = [0.5 * 4 + 2 * 2 + 1.5 * 6 + 2 * 3, 0.5 * 2 + 1.5 * 6]
    torch.testing.assert_close(inner_product(u, v, grid), torch.tensor(expected, dtype=torch.float64))
    torch.testing.assert_close(l2_norm(u, grid)[1], torch.tensor(math.sqrt(0.5 + 1.5 * 4), dtype=torch.float64))


@pytest.mark.parametrize("kind", ["nodes", "cells", "left", "stretched"])
def test_norms_converge_with_order_two(kind):
    # On [0, 1]: <e^x, x> = 1;  ||(e^x, x)||^2 = (e^2 - 1)/2 + 1/3;  its gradient (e^x, 1) has (e^2 - 1)/2 + 1.
    exact = {
        "integral": math.e - 1,
        "<u,v>": 1.0,
        "L2": math.sqrt((math.e**2 - 1) / 2 + 1 / 3),
        "H1": math.sqrt(math.e**2 - 1 + 4 / 3),
    }
    errors = {name: [] for name in exact}
    for n in LEVELS:
        grid = interval(kind, n)
        x = grid.points[:, 0]
        u = torch.stack([x.exp(), x])
        integral, product = (grid.weights * x.exp()).sum(), inner_product(u[:1], u[1:], grid)
        for name, found in zip(exact, (integral, product, l2_norm(u, grid), h1_norm(u, grid)), strict=True):
            errors[name].append(abs(float(found) - exact[name]))
    for name, differences in errors.items():
        assert_second_order(LEVELS, differences, f"{name}, {kind}")


def test_periodic_norms_are_exact_in_l2_and_of_order_two_in_h1():
    errors = []
    for n in LEVELS:
        grid = Grid.uniform(n, bounds=[(1.0, 3.0)], kind="periodic")
        u = torch.sin(math.pi * grid.points[:, 0]).unsqueeze(0)
        assert float(l2_norm(u, grid)) == pytest.approx(1, rel=1e-13)
        errors.append(abs(float(h1_norm(u, grid)) - math.sqrt(1 + math.pi**2)))
    assert_second_order(LEVELS, errors, "H1, periodic")


@pytest.mark.parametrize("kind", ["nodes", "cells", "left"])
def test_norms_of_a_function_of_two_variables(kind):
    # u = e^x sin y on [0, 1] x [0, 2]: u^2 = e^2x sin^2 y and u^2 + |grad u|^2 = e^2x (1 + sin^2 y).
    along_x, sine = (math.e**2 - 1) / 2, 1 - math.sin(4) / 4
    l2_errors, h1_errors, sizes = [], [], (13, 25, 49, 97)
    for n in sizes:
        shape = (n, 2 * n) if kind != "nodes" else (n + 1, 2 * n + 1)
        grid = Grid.uniform(shape, bounds=[(0, 1), (0, 2)], kind=kind)
        x, y = grid.points.unbind(-1)
        u = (x.exp() * y.sin()).unsqueeze(0)
        l2_errors.append(abs(float(l2_norm(u, grid)) - math.sqrt(along_x * sine)))
        h1_errors.append(abs(float(h1_norm(u, grid)) - math.sqrt(along_x * (2 + sine))))
    assert_second_order(sizes, l2_errors, f"L2, {kind}, 2-d")
    assert_second_order(sizes, h1_errors, f"H1, {kind}, 2-d")


@pytest.mark.parametrize(
    ("kind", "shape"), [("nodes", (5, 9)), ("cells", (4, 8)), ("periodic", (4, 8)), ("left", (4, 8))]
)
def test_h1_sees_a_checkerboard(kind, shape):
    grid = Grid.uniform(shape, bounds=[(0, 1), (0, 2)], kind=kind)
    i, j = torch.meshgrid(torch.arange(shape[0]), torch.arange(shape[1]), indexing="ij")
    u = (-1.0) ** (i + j).double().unsqueeze(0)
    # Slopes of +-2 / h everywhere along both axes, h = 1/4: ||u||^2 = |D| = 2 and ||grad u||^2 = 2 |D| (2 / h)^2.
    assert float(h1_norm(u, grid)) == pytest.approx(math.sqrt(2 + 4 * 64), rel=1e-13)


def test_h1_on_an_unsorted_axis_is_that_of_the_sorted_one():
    order_1, order_2 = [3, 0, 4, 2, 1], [2, 0, 1]
    axis_1, axis_2 = stretched(5), torch.tensor([0.0, 0.3, 1.0], dtype=torch.float64)
    u = torch.randn(2, 5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    in_order = h1_norm(u, Grid.rectilinear(axis_1, axis_2))
    shuffled = h1_norm(u[:, order_1][:, :, order_2], Grid.rectilinear(axis_1[order_1], axis_2[order_2]))
    torch.testing.assert_close(shuffled, in_order, rtol=1e-13, atol=0)


@pytest.mark.parametrize("norm", [l2_norm, h1_norm, lambda u, grid: inner_product(torch.ones(2, 5, 3), u, grid)])
@pytest.mark.parametrize("shape", [(2, 3, 5), (5, 3), (2, 5)])
def test_values_that_have_no_norm_are_refused(norm, shape):
    with pytest.raises(UsageError, match=r"values must be \(..., channels, 5, 3\)"):
        norm(torch.ones(shape), Grid.uniform((5, 3)))
    with pytest.raises(UsageError, match="the H1 norm needs neighbouring points"):
        h1_norm(torch.ones(1, 3), Grid.scattered([[0.1], [0.2], [0.7]]))
