"""Averages to attend to: cells of every kind of grid, orders of convergence in M, and the TNO that uses them."""

import numpy as np
import pytest
import torch
from draws import observed_order
from test_encoder import randomise
from written_out import literal_attention

from operformer import TNO, Grid, load, pad
from operformer.domain.quadrature import voronoi_weights
from operformer.errors import UsageError
from operformer.operators.attention import MultiHeadAttention
from operformer.operators.sources import average_over_cells, per_axis


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


def averages(values, grid, most):
    """The averages of one function (N,) and the weights of their cells, divided by the largest."""
    measure = average_over_cells(grid, most)
    found = measure.cells.average(torch.as_tensor(values, dtype=torch.float64)[None, :, None])
    return found[0, :, 0].numpy(), measure.log_weights.exp().numpy()


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("nodes", [(0.5 * 2 + 3 + 0.5 * 5) / 2, (0.5 * 5 + 11 + 0.5 * 17) / 2]),
        ("periodic", [(2 + 3 + 0.5 * 5) / 2.5, (0.5 * 5 + 11 + 17) / 2.5]),
        ("cells", [(2 + 3 + 0.5 * 5) / 2.5, (0.5 * 5 + 11 + 17) / 2.5]),
        ("left", [(0.5 * 2 + 3 + 5) / 2.5, (11 + 1.5 * 17) / 2.5]),
    ],
)
def test_two_cells_of_five_points_by_hand(kind, expected):
    """A point spreads its weight over what it stands for; the cell in the middle of an odd number is in both halves."""
    if kind == "periodic":  # the first point also stands for the end of the period
        expected = [(0.5 * 2 + 3 + 5) / 2.5, (11 + 17 + 0.5 * 2) / 2.5]
    found, weights = averages([2.0, 3, 5, 11, 17], Grid.uniform(5, kind=kind), 2)
    np.testing.assert_allclose(found, expected, rtol=1e-14)
    np.testing.assert_allclose(weights, [1, 1], rtol=1e-14)


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic", "left", "graded", "wider", "shuffled"])
@pytest.mark.parametrize("m", [2, 5, 7])
def test_averages_are_those_of_the_nearest_points_values(kind, m):
    """The mean over each cell, by 20000 midpoints, of the function that has the value of the nearest point."""
    grid = {
        "graded": Grid.rectilinear(graded(23)),
        "wider": Grid.rectilinear(graded(23), bounds=[(-0.1, 1.2)]),
        "shuffled": Grid.rectilinear(graded(23)[torch.randperm(23, generator=generator(2))]),
    }.get(kind) or Grid.uniform(23, [(1.0, 3.0)], kind)
    (lower, upper), values = grid.bounds[0], np.random.default_rng(1).normal(size=23)
    y = lower + (upper - lower) * (np.arange(m * 20000) + 0.5) / (m * 20000)
    distance = np.abs(y[:, None] - grid.points.numpy().T)
    if kind == "periodic":
        distance = np.minimum(distance, upper - lower - distance)
    expected = values[distance.argmin(1)].reshape(m, -1).mean(1)
    found, weights = averages(values, grid, m)
    np.testing.assert_allclose(found, expected, atol=2e-4)
    np.testing.assert_allclose(weights, 1, rtol=1e-12)


def test_planes_are_averaged_along_one_axis_after_the_other():
    grid, values = Grid.rectilinear(graded(7), graded(11)), torch.rand(7, 11, generator=generator(3)).double()
    rows = [averages(row, Grid.rectilinear(graded(11)), 3)[0] for row in values]
    expected = [averages(column, Grid.rectilinear(graded(7)), 3)[0] for column in np.array(rows).T]
    np.testing.assert_allclose(averages(values.flatten(), grid, 11)[0].reshape(3, 3), np.array(expected).T, rtol=1e-12)


def test_an_axis_of_few_points_keeps_them():
    grid, values = Grid.uniform((3, 40)), torch.rand(3, 40, generator=generator(4)).double()
    found, weights = averages(values.flatten(), grid, 25)
    rows = [averages(row, Grid.uniform(40), 5)[0] for row in values]
    np.testing.assert_allclose(found.reshape(3, 5), rows, rtol=1e-12)
    np.testing.assert_allclose(weights.reshape(3, 5), np.outer([0.5, 1, 0.5], np.ones(5)), rtol=1e-12)


def test_as_many_cells_along_each_axis():
    assert [per_axis(most, dim) for most, dim in ((100, 2), (120, 2), (99, 2), (64, 3), (63, 3), (7, 1))] == [
        *(10, 10, 9, 4, 3, 7)
    ]


def test_scattered_points_by_hand():
    """Four cells: two points, one and a point without weight, none, three."""
    points = [(0.1, 0.2), (0.2, 0.1), (0.1, 0.9), (0.3, 0.8), (0.6, 0.9), (0.75, 1.0), (1.0, 0.7)]
    grid = Grid.scattered(points, [3.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0])
    found, weights = averages([2.0, 6, 5, 99, 4, 8, 2], grid, 4)
    np.testing.assert_allclose(found, [3.0, 5.0, 0.0, 4.0], rtol=1e-14)
    np.testing.assert_allclose(weights, [1.0, 0.5, 0.0, 1.0], rtol=1e-14)


# Attention


def test_attention_to_averages_is_the_sum_over_them():
    module = MultiHeadAttention(6, 2).double()
    grid, v = Grid.uniform((7, 11)), torch.randn(3, 77, 6, generator=generator(4), dtype=torch.float64)
    sources = average_over_cells(grid, 25)
    means = sources.cells.average(v)
    assert means.shape == (3, 25, 6)
    parts = (module.query(v), module.key(means), module.value(means))
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
def test_the_order_is_two_along_an_axis(grid):
    operator = small(1, seed=2)
    full = operator(smooth(grid), grid)
    counts = (8, 12, 16, 24, 32)
    errors = [error_of(operator, grid, m, full) for m in counts]
    order = observed_order(counts, errors)
    print(f"sources, 1-d, {grid.kind}: order {order:.2f}, errors {errors}")
    assert 1.8 < order < 2.2


def test_the_order_is_one_in_the_number_of_cells_of_a_plane():
    grid, operator = Grid.uniform((61, 49)), small(2)
    full = operator(smooth(grid), grid)
    sizes = (3, 5, 7, 11)
    errors = [error_of(operator, grid, m * m, full) for m in sizes]
    order = observed_order([m * m for m in sizes], errors)
    print(f"sources, 2-d: order {order:.2f} in M, errors {errors}")
    assert 0.8 < order < 1.2


@pytest.mark.parametrize("weighted", [False, True], ids=["equal", "voronoi"])
def test_the_order_is_one_in_the_number_of_cells_of_scattered_points(weighted):
    """Second order in the size of the cells; mean square over clouds with 36 points or more in a cell."""
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
    """With their number fixed, graded and uniform grids agree better the finer they are: the cells are those of D."""
    operator, differences = small(1, sources=9), []
    for n in (33, 129, 513):
        uniform = Grid.uniform(n)
        other = Grid.rectilinear(torch.cat([uniform.points[::4, 0], graded(n)[1:-1]]).unique())
        shared = torch.isin(other.points[:, 0], uniform.points[::4, 0])
        z, elsewhere = operator(smooth(uniform), uniform), operator(smooth(other), other)
        differences.append(float((z[..., ::4] - elsewhere[..., shared]).detach().abs().max()))
    print(f"sources, graded against uniform: differences {differences}")
    assert differences[0] > 10 * differences[1]
    assert differences[0] > 100 * differences[2]  # 16 times the points: 256 times by the second order


@pytest.mark.parametrize("grid", [Grid.uniform((9, 13)), Grid.scattered(torch.rand(117, 2, generator=generator(9)))])
def test_every_point_is_seen(grid):
    """No value changes without the output changing at a point that is far from it."""
    operator, u = small(2, sources=9), smooth(grid).requires_grad_()
    seen = torch.autograd.grad(operator(u, grid).flatten(2)[..., 0].sum(), u)[0].flatten(2).abs()
    assert float(seen.min()) > 1e-3 * float(seen.median())


def test_samples_on_points_of_their_own_are_as_each_alone():
    points = [torch.rand(n, 2, generator=generator(n), dtype=torch.float64) for n in (31, 57, 43)]
    grid = Grid.ragged(points, [voronoi_weights(x) for x in points])
    operator, alone = small(2, sources=16), [grid.of_sample(k) for k in range(3)]
    z = operator(pad([smooth(one)[0] for one in alone], grid), grid)
    for k, one in enumerate(alone):
        torch.testing.assert_close(z[k, :, : len(points[k])], operator(smooth(one), one)[0], rtol=1e-11, atol=1e-11)


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
        ({"sources": 0}, "sources must be a whole number of at least 1, or None for all points: got 0"),
        ({"sources": 64.0}, "got 64.0"),
        ({"sources": True}, "got True"),
        ({"sources": 64, "initial_channels": 1}, "give either"),
    ],
)
def test_numbers_that_cannot_be_are_refused_in_one_line(settings, message):
    with pytest.raises(UsageError, match=message) as caught:
        small(2, **settings)
    assert "\n" not in str(caught.value)
