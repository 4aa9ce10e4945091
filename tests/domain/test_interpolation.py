"""From one grid to another: exact for linear functions, second order for smooth ones, nested and graded grids."""

import itertools
import math

import numpy as np
import pytest
import torch

from operformer import Grid
from operformer.domain.interpolation import grade, graded_grid, interpolate, nested_grids, restrict
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


def make_grid(kind, dim):
    if kind == "scattered":
        return random_grid(19, dim, seed=1)
    return Grid.rectilinear(*AXES[:dim]) if kind == "rectilinear" else Grid.uniform((5, 3, 4)[:dim], BOX[:dim], kind)


def multilinear(points):
    """prod_k (c_k + x_k): linear along each axis, with every mixed term."""
    return (points + torch.tensor([2.0, -3.0, 0.5], dtype=torch.float64)[: points.shape[-1]]).prod(-1)


def linear(points):
    return 1 + (points * torch.tensor([2.0, -3.0, 0.5], dtype=torch.float64)[: points.shape[-1]]).sum(-1)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", ["nodes", "cells", "rectilinear", "scattered"])
def test_functions_that_are_linear_between_points_are_read_exactly(kind, dim):
    grid, query, f = make_grid(kind, dim), random_grid(23, dim, seed=0), multilinear
    if kind == "scattered":
        query, f = Grid.uniform((5, 3, 4)[:dim], bounds=[(a + 0.01, b - 0.01) for a, b in BOX[:dim]]), linear
    u, expected = (torch.stack([f(points), -2 * f(points)]) for points in (grid.points, query.points))
    torch.testing.assert_close(interpolate(u, grid, query), expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left", "rectilinear", "scattered"])
def test_a_function_read_on_its_own_points_is_itself(kind, dim):
    grid = make_grid(kind, dim)
    u = torch.randn(3, 2, *grid.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(interpolate(u, grid, grid), u, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("grid", "u", "query", "expected"),
    [
        # Between points linear; beyond the outermost ones, or the hull, the nearest value holds.
        (Grid.scattered([[0.5], [0.1], [0.9]]), [10, 2, 30], [[0.2], [0.8], [0.0], [1.0]], [4, 25, 2, 30]),
        (
            Grid.scattered([[0.3, 0.3], [0.7, 0.3], [0.5, 0.8]]),
            [2, 3, 5],
            [[0.0, 0.0], [0.9, 0.1], [0.5, 1.0]],
            [2, 3, 5],
        ),
        (Grid.uniform(4, kind="periodic"), [1, 2, 3, 5], [[0.875], [1.0], [0.0], [0.9375]], [3, 1, 1, 2]),
    ],
    ids=["line", "hull", "periodic"],
)
def test_values_by_hand(grid, u, query, expected):
    found = interpolate(torch.tensor(u, dtype=torch.float32), grid, Grid.scattered(query))
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize("dim", [1, 2])
def test_scattered_points_may_coincide(dim):
    grid = Grid.scattered([p[:dim] for p in [[0.1, 0.1], [0.1, 0.1], [0.5, 0.9], [0.9, 0.1]]])
    query = Grid.scattered([[0.3, 0.2][:dim], [0.7, 0.3][:dim]])
    torch.testing.assert_close(interpolate(linear(grid.points), grid, query), linear(query.points))


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left", "scattered"])
def test_smooth_functions_converge_with_order_two(kind):
    generator = torch.Generator().manual_seed(3)
    query = Grid.scattered(torch.rand(997, 2, generator=generator, dtype=torch.float64))

    def u(points):
        return torch.sin(2 * math.pi * points[..., 0]) * torch.cos(4 * math.pi * points[..., 1])

    sizes, errors, uniform = (16, 32, 64, 128), [], kind if kind != "scattered" else "nodes"
    for n in sizes:
        grid = Grid.uniform((n, n) if kind in ("cells", "periodic", "left") else (n + 1, n + 1), kind=uniform)
        if kind == "scattered":
            jitter = torch.rand(n + 1, n + 1, 2, generator=generator, dtype=torch.float64) - 0.5
            jitter[[0, -1]] = jitter[:, [0, -1]] = 0
            grid = Grid.scattered((grid.points + 0.5 * jitter / n).flatten(0, 1))
        difference = interpolate(u(grid.points), grid, query) - u(query.points)
        errors.append(float(difference.square().mean().sqrt()))
    order = -np.polyfit(np.log(sizes), np.log(errors), 1)[0]
    print(f"interpolation, {kind}: order {order:.3f}")
    assert 1.9 < order < (2.2 if kind == "left" else 2.1)  # it extrapolates on 1 / n of D: an error that falls faster


LINE = Grid.scattered([[0.1, 0.1], [0.5, 0.5], [0.7, 0.7], [0.9, 0.9]])
ELSEWHERE = Grid.scattered([[0.5, 0.5], [0.5, 1.5]], bounds=[(0, 1), (0, 2)])


@pytest.mark.parametrize(
    ("grid", "shape", "query", "message"),
    [
        (Grid.uniform((5, 7)), (5, 7), ELSEWHERE, "reaches outside the domain"),
        (Grid.uniform((5, 7)), (5, 7), Grid.uniform((3, 3), bounds=[(-1, 1), (0, 1)]), "reaches outside the domain"),
        (Grid.uniform((5, 7)), (5, 7), Grid.uniform(3), "must have the same dimension: got 2 and 1"),
        (Grid.uniform((5, 7)), (2, 35), Grid.uniform((3, 3)), "5, 7"),
        (Grid.uniform((5, 7)), (7, 5), Grid.uniform((3, 3)), "5, 7"),
        (Grid.uniform((5, 7)), (35,), Grid.uniform((3, 3)), "5, 7"),
        (LINE, (4,), Grid.uniform((3, 3)), "span no volume"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(grid, shape, query, message):
    with pytest.raises(UsageError, match=message) as caught:
        interpolate(torch.ones(shape), grid, query)
    assert "\n" not in str(caught.value)


# Nested grids


@pytest.mark.parametrize(
    ("shape", "kind", "divisors"),
    [
        (13, "nodes", [2, 3, 4]),  # 12 intervals
        (12, "nodes", []),  # 11
        ((9, 13), "nodes", [2]),  # 8 and 12; three points are too few
        (12, "periodic", [2, 3]),
        (16, "left", [2, 4]),
        ((8, 18), "periodic", [2]),
        (36, "cells", [3]),
        (16, "cells", []),
    ],
)
def test_which_grids_are_nested(shape, kind, divisors):
    assert list(nested_grids(Grid.uniform(shape, kind=kind))) == divisors


@pytest.mark.parametrize("kind", ["nodes", "periodic", "left", "cells"])
def test_restriction_is_the_function_on_the_coarser_grid(kind):
    fine = Grid.uniform((25, 13) if kind == "nodes" else (24, 12), [(-1.0, 2.0), (0.0, 0.7)], kind)
    found = nested_grids(fine)
    assert found.keys() >= {3}
    for coarse in found.values():
        values, expected = (torch.sin(3 * g.points[..., 0]) * torch.exp(g.points[..., 1]) for g in (fine, coarse))
        torch.testing.assert_close(restrict(values[None], fine, coarse)[0], expected, rtol=0, atol=1e-14)


def test_what_is_not_nested_is_refused():
    assert not nested_grids(Grid.scattered(torch.rand(13, 1)))
    assert not nested_grids(Grid.rectilinear(torch.linspace(0, 1, 13)))
    for other in (Grid.uniform(6), Grid.uniform(7, kind="periodic"), Grid.uniform(7, [(0, 2)])):
        with pytest.raises(UsageError, match="are not among those of"):
            restrict(torch.zeros(1, 13), Grid.uniform(13), other)


# Graded grids


def test_spacings_grow_from_half_to_one_and_a_half_times_the_mean():
    grid = graded_grid(Grid.uniform((5, 3), bounds=[(0, 1), (2, 6)], kind="cells"))
    assert grid.axes[0].tolist() == pytest.approx([0, 0.15625, 0.375, 0.65625, 1])
    assert grid.axes[1].tolist() == pytest.approx([2, 3.5, 6])  # s - s (1 - s) / 2 = 3/8 at s = 1/2
    assert (grid.kind, grid.shape, grid.bounds) == ("rectilinear", (5, 3), ((0.0, 1.0), (2.0, 6.0)))
    s = torch.tensor([0.0, 1e-6, 1 - 1e-6, 1.0], dtype=torch.float64)
    assert (grade(s, 0.3).diff() / s.diff())[[0, 2]].tolist() == pytest.approx([0.7, 1.3], abs=1e-5)
    with pytest.raises(UsageError, match="has axes"):
        graded_grid(Grid.scattered([[0.1], [0.2]]))
