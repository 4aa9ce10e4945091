"""Fewer points to attend to: cubic weights, orders of convergence in M, and the TNO that uses them."""

import numpy as np
import pytest
import torch
from draws import observed_order
from test_encoder import randomise
from written_out import literal_attention

from operformer import TNO, Grid, load
from operformer.domain.quadrature import trapezoidal_weights, voronoi_weights
from operformer.errors import UsageError
from operformer.operators.attention import MultiHeadAttention
from operformer.operators.sources import choose_sources, shares, thin_axis


def graded(n):
    s = torch.linspace(0, 1, n, dtype=torch.float64)
    return s + 0.4 * s * (s - 1)


def generator(seed):
    return torch.Generator().manual_seed(seed)


def smooth(grid):
    """A function with two channels on [0, 1]^d, as (1, 2, *shape)."""
    x = grid.points
    return torch.stack([torch.sin(3 * x[..., 0] + x[..., -1]), torch.exp(-2 * x[..., 0]) * x[..., -1] ** 2])[None]


def small(dim, sources=None, seed=1, **more):
    operator = TNO(dim, 2, 1, hidden_channels=10, n_layers=2, n_heads=2, sources=sources, **more)
    return randomise(operator.double(), seed=seed)


# The rule


@pytest.mark.parametrize("axis", ["uniform", "graded", "random", "shuffled"])
@pytest.mark.parametrize(("n", "m"), [(23, 5), (23, 11), (23, 19), (97, 13)])
def test_the_integral_of_a_cubic_stays_what_it_was(axis, n, m):
    x = {
        "uniform": torch.linspace(0, 1, n, dtype=torch.float64),
        "graded": graded(n),
        "random": (torch.rand(n, generator=generator(n), dtype=torch.float64) + 1).cumsum(0) / n,
        "shuffled": graded(n)[torch.randperm(n, generator=generator(2))],
    }[axis]
    w = trapezoidal_weights(x)
    index, weights = thin_axis(x, w, m)
    assert len(set(index.tolist())) == m
    assert float(weights.min()) > 0
    for degree in range(4):
        assert float(weights @ x[index] ** degree) == pytest.approx(float(w @ x**degree), rel=1e-13)
    fourth = float(weights @ x[index] ** 4 / (w @ x**4)) - 1
    assert 1e-12 < abs(fourth) < 0.1  # it is no rule of higher degree


def test_the_weights_of_every_other_node_by_hand():
    """9 nodes with steps of 1, 5 kept: the trapezoid of cubics through 4 of them, at the odd nodes in between.

    The cubic through values at 0, 2, 4, 6 is (5, 15, -5, 1) / 16 at 1 and (-1, 9, 9, -1) / 16 at 3.
    """
    index, weights = thin_axis(torch.arange(9.0).double(), torch.tensor([0.5, *[1.0] * 7, 0.5]).double(), 5)
    assert index.tolist() == [0, 2, 4, 6, 8]
    first, second = np.array([5, 15, -5, 1, 0]) / 16, np.array([-1, 9, 9, -1, 0]) / 16
    expected = np.array([0.5, 1, 1, 1, 0.5]) + first + second + second[::-1] + first[::-1]
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-14, equal_nan=False)


def test_all_points_are_kept_with_their_weights_where_they_are_few():
    x, w = graded(7), trapezoidal_weights(graded(7))
    index, weights = thin_axis(x, w, 7)
    assert index.tolist() == list(range(7))
    assert torch.equal(weights, w)


def test_lines_take_the_place_of_cubics_where_a_weight_would_be_negative():
    """All weight at 1, between 0 and 2: the cubic would give -5/16 of it to 4."""
    w = torch.zeros(9, dtype=torch.float64)
    w[1], w[::2] = 16.0, 1.0
    index, weights = thin_axis(torch.arange(9.0).double(), w, 5)
    assert index.tolist() == [0, 2, 4, 6, 8]
    assert weights.tolist() == [9.0, 9.0, 1.0, 1.0, 1.0]
    w[1] = 3.0  # -15/16 + 1 is positive
    assert thin_axis(torch.arange(9.0).double(), w, 5)[1].tolist() == [1.9375, 3.8125, 0.0625, 1.1875, 1.0]


@pytest.mark.parametrize("n", [11, 29, 64, 101])
def test_uniform_axes_have_positive_cubic_weights_for_every_number(n):
    for kind in ("nodes", "cells", "periodic"):
        grid = Grid.uniform(n, kind=kind)
        x, w = grid.points[:, 0], grid.weights
        for m in range(4, n):
            index, weights = thin_axis(x, w, m)
            assert float(weights.min()) > 0
            assert float(weights @ x[index] ** 3) == pytest.approx(float(w @ x**3), rel=1e-12)


def test_points_are_shared_out_evenly():
    assert shares(100, (64, 64)) == (10, 10)
    assert shares(120, (64, 64)) == (10, 10)
    assert shares(100, (64, 5)) == (20, 5)
    assert shares(4096, (1000, 1000, 1000)) == (16, 16, 16)
    assert shares(4096, (3, 1000, 7)) == (3, 195, 7)
    assert shares(1000, (7, 11, 13)) == (7, 11, 12)
    assert shares(1001, (7, 11, 13)) == (7, 11, 13)


def test_scattered_points_by_hand():
    """Four boxes: two points, one and a point without weight, none, three of which the middle one is taken."""
    points = [(0.1, 0.2), (0.2, 0.1), (0.1, 0.9), (0.3, 0.8), (0.6, 0.9), (0.75, 0.8), (0.9, 0.7)]
    weights = [3.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.5]
    sources = choose_sources(Grid.scattered(points, weights), 4)
    assert sources.index[[0, 1, 3]].tolist() == [0, 2, 5]
    np.testing.assert_allclose(sources.log_weights.exp(), np.array([4.0, 2.0, 0.0, 4.5]) / 4.5, rtol=1e-14)


# Attention


def test_attention_to_some_points_is_the_sum_over_them():
    module = MultiHeadAttention(6, 2).double()
    grid, v = Grid.uniform((7, 11)), torch.randn(3, 77, 6, generator=generator(4), dtype=torch.float64)
    sources = choose_sources(grid, 25)
    assert len(sources.index) == 25
    chosen = v[:, sources.index]
    parts = (module.query(v), module.key(chosen), module.value(chosen))
    query, key, value = (t.unflatten(-1, (2, 3)).transpose(1, 2) for t in parts)
    expected = literal_attention(query, key, value, sources.log_weights.exp(), 3**-0.5)
    found = module(v, sources)
    torch.testing.assert_close(found, module.merge(expected.transpose(1, 2).flatten(2)), rtol=1e-12, atol=1e-12)


def error_of(operator, grid, most, full):
    operator.sources = most
    return float((operator(smooth(grid), grid) - full).detach().abs().max())


@pytest.mark.parametrize(
    "grid",
    [
        Grid.uniform(1153),
        Grid.uniform(1153, kind="cells"),
        Grid.uniform(1153, kind="periodic"),
        Grid.rectilinear(graded(1153)),
        Grid.rectilinear(graded(1153).flip(0)),
    ],
    ids=["nodes", "cells", "periodic", "graded", "reversed"],
)
def test_the_order_is_four_along_an_axis(grid):
    operator = small(1, seed=2)
    full = operator(smooth(grid), grid)
    counts = (17, 25, 33, 49, 65)
    errors = [error_of(operator, grid, m, full) for m in counts]
    order = observed_order([m - 1 for m in counts], errors)
    print(f"sources, 1-d, {grid.kind}: order {order:.2f}, errors {errors}")
    assert 3.7 < order < 4.4


def test_the_order_is_two_in_the_number_of_points_of_a_plane():
    grid, operator = Grid.uniform((61, 49)), small(2)
    full = operator(smooth(grid), grid)
    sizes = (9, 13, 17, 25)
    errors = [error_of(operator, grid, m * m, full) for m in sizes]
    order = observed_order([(m - 1) ** 2 for m in sizes], errors)
    print(f"sources, 2-d: order {order:.2f} in M, errors {errors}")
    assert 1.7 < order < 2.4


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "voronoi"])
def test_the_order_is_one_in_the_number_of_scattered_points(weighted):
    """Second order in the size of the boxes; mean square over clouds with 36 points or more in a box."""
    sizes, operator = (4, 5, 6, 8), small(2)
    clouds = [torch.rand(2304, 2, generator=generator(seed), dtype=torch.float64) for seed in range(6)]
    grids = [Grid.scattered(x, voronoi_weights(x) if weighted else None) for x in clouds]
    full = [operator(smooth(grid), grid) for grid in grids]
    errors = []
    for m in sizes:
        each = [error_of(operator, grid, m * m, z) for grid, z in zip(grids, full, strict=True)]
        errors.append(float(np.sqrt(np.mean(np.square(each)))))
    order = observed_order([m * m for m in sizes], errors)
    print(f"sources, scattered: order {order:.2f} in M, errors {errors}")
    assert 0.6 < order < 1.6


# The TNO


@pytest.mark.parametrize("sources", [77, 78, 10**6])
def test_as_many_sources_as_points_are_all_of_them(sources):
    grid = Grid.uniform((7, 11))
    full, few = small(2), small(2, sources)
    assert torch.equal(few(smooth(grid), grid), full(smooth(grid), grid))
    few.sources = 76
    assert float((few(smooth(grid), grid) - full(smooth(grid), grid)).detach().abs().max()) > 1e-9


def test_fewer_sources_mean_one_function_on_every_grid():
    """With their number fixed, graded and uniform grids agree better the finer they are: where sources lie is D's."""
    operator, differences = small(1, sources=9), []
    for n in (33, 129, 513):
        uniform = Grid.uniform(n)
        other = Grid.rectilinear(torch.cat([uniform.points[::4, 0], graded(n)[1:-1]]).unique())
        shared = torch.isin(other.points[:, 0], uniform.points[::4, 0])
        z, elsewhere = operator(smooth(uniform), uniform), operator(smooth(other), other)
        differences.append(float((z[..., ::4] - elsewhere[..., shared]).detach().abs().max()))
    print(f"sources, graded against uniform: differences {differences}")
    assert differences[0] > 3 * differences[1] > 9 * differences[2]


def test_queries_attend_to_the_same_sources():
    operator, grid = small(2, sources=36), Grid.uniform((13, 17))
    z = operator(smooth(grid), grid)
    torch.testing.assert_close(operator(smooth(grid), grid, query=grid), z, rtol=1e-12, atol=1e-12)
    part = Grid.rectilinear(grid.axes[0][::3], grid.axes[1][::4])
    found = operator(smooth(grid), grid, query=part)
    torch.testing.assert_close(found, z[..., ::3, ::4], rtol=1e-12, atol=1e-12)


def test_points_without_weight_are_not_attended_to():
    x = torch.rand(101, 2, generator=generator(5), dtype=torch.float64)
    w = torch.rand(101, generator=generator(6), dtype=torch.float64)
    w[::3] = 0
    operator, u = small(2, sources=25), smooth(Grid.scattered(x))
    other = u.clone()
    other[..., ::3] = 1e3
    grid, present = Grid.scattered(x, w), w > 0
    torch.testing.assert_close(operator(other, grid)[..., present], operator(u, grid)[..., present], rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["tensor", "scattered"])
def test_the_order_of_the_points_does_not_matter(kind):
    operator, order = small(2, sources=20), torch.randperm(47, generator=generator(7))
    if kind == "scattered":
        points = torch.rand(47, 2, generator=generator(8), dtype=torch.float64)
        grid, other = Grid.scattered(points), Grid.scattered(points[order])
    else:
        axis = graded(47)
        grid, other = Grid.rectilinear(graded(5), axis), Grid.rectilinear(graded(5), axis[order])
    z, permuted = operator(smooth(grid), grid), operator(smooth(other), other)
    torch.testing.assert_close(permuted, z[..., order], rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("grid", [Grid.uniform(11), Grid.scattered(graded(11)[:, None])], ids=["nodes", "scattered"])
def test_gradients_are_those_of_finite_differences(grid):
    operator = small(1, sources=5)
    u = smooth(grid).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: operator(t, grid), (u,))
    operator(u, grid).sum().backward()
    assert all(float(p.grad.abs().max()) > 0 for p in operator.parameters() if p.grad is not None and p.ndim == 2)


@pytest.mark.parametrize("kind", ["rectilinear", "scattered"])
def test_one_compiled_operator_serves_every_resolution(kind):
    operator = small(2, sources=25)
    compiled = torch.compile(operator, fullgraph=True, backend="eager")  # tracing alone: what the library can break
    for n in (7, 11, 13):
        points = torch.rand(n * n, 2, generator=generator(n), dtype=torch.float64)
        grid = Grid.rectilinear(graded(n), graded(n + 2)) if kind == "rectilinear" else Grid.scattered(points)
        torch.testing.assert_close(compiled(smooth(grid), grid), operator(smooth(grid), grid), rtol=1e-12, atol=1e-12)


def test_the_number_is_saved_and_can_be_changed(tmp_path):
    operator, grid = small(1), Grid.uniform(23)
    operator.sources = 7
    operator.save_pretrained(tmp_path)
    loaded = load(tmp_path)
    assert loaded.sources == 7
    assert torch.equal(loaded(smooth(grid), grid), operator(smooth(grid), grid))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sources": 15}, "sources must be a whole number of at least 16, or None for all points: got 15"),
        ({"sources": 64.0}, "got 64.0"),
        ({"sources": True}, "got True"),
        ({"sources": 64, "initial_channels": 1}, "give either"),
    ],
)
def test_numbers_that_cannot_be_are_refused_in_one_line(settings, message):
    with pytest.raises(UsageError, match=message) as caught:
        small(2, **settings)
    assert "\n" not in str(caught.value)
