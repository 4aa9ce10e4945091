"""Samples and their parts, values on points of their own, and moments block by block."""

import pytest
import torch

from operformer import Grid, voronoi_weights
from operformer.domain import Samples, inner_product, l2_norm, pad, unpad
from operformer.domain.interpolation import interpolate
from operformer.domain.samples import Moments, is_point
from operformer.errors import UsageError

COUNTS = (7, 3, 11, 5)
BOUNDS = [(0.0, 2.0), (-1.0, 1.0)]


def points_of_sets():
    draws = torch.Generator().manual_seed(0)
    lower, upper = torch.tensor(BOUNDS, dtype=torch.float64).unbind(-1)
    return [lower + (upper - lower) * torch.rand(n, 2, generator=draws, dtype=torch.float64) for n in COUNTS]


@pytest.fixture
def grid():
    points = points_of_sets()
    return Grid.ragged(points, [voronoi_weights(x, BOUNDS) for x in points], BOUNDS)


@pytest.fixture
def u():
    draws = torch.Generator().manual_seed(1)
    return [torch.randn(2, n, generator=draws, dtype=torch.float64) for n in COUNTS]


# Samples


def test_samples_are_cut_together():
    u, grid = torch.arange(70, dtype=torch.float64).reshape(5, 2, 7), Grid.uniform(7)
    samples = Samples(u, -u[:, :1], grid, checks={"residual": u[:, 0, 0]})
    for index in (slice(1, 4), torch.tensor([4, 0])):
        part = samples[index]
        assert torch.equal(part.u, u[index])
        assert torch.equal(part.z, -u[index, :1])
        assert torch.equal(part.checks["residual"], u[index, 0, 0])
        assert part.grid is grid
    assert [len(block) for block in samples.blocks(2)] == [2, 2, 1]


@pytest.mark.parametrize(
    ("u_shape", "z_shape", "message"),
    [
        ((5, 2, 3), (5, 1, 7), r"u must be \(count, channels, 7\): got \(5, 2, 3\)"),
        ((5, 2, 7), (5, 7), r"z must be \(count, channels, 7\): got \(5, 7\)"),
        ((5, 2, 7), (3, 1, 7), "as many samples as each other: got 5 and 3"),
    ],
)
def test_samples_must_fit_their_grid(u_shape, z_shape, message):
    with pytest.raises(UsageError, match=message):
        Samples(torch.zeros(u_shape), torch.zeros(z_shape), Grid.uniform(7))


# Points of their own


def test_every_set_keeps_its_points_and_weights(grid):
    assert (grid.shape, grid.n_axes, grid.dim, grid.counts) == ((11,), 1, 2, COUNTS)
    for k, x in enumerate(points_of_sets()):
        torch.testing.assert_close(grid.of_sample(k).points, x, rtol=0, atol=0)
        torch.testing.assert_close(grid.of_sample(k).weights, voronoi_weights(x, BOUNDS), rtol=0, atol=0)
        assert float(grid.weights[k, 0, len(x) :].sum()) == 0.0
    assert is_point(grid).sum(-1).flatten().tolist() == list(COUNTS)
    assert repr(grid) == "Grid(ragged, 4 sets of at most 11 points in [0, 2] x [-1, 1])"
    equal = Grid.ragged(points_of_sets(), bounds=BOUNDS)
    assert equal.weights[1, 0, :3].tolist() == pytest.approx([4 / 3] * 3)


@pytest.mark.parametrize("index", [slice(1, 3), torch.tensor([3, 0, 3]), torch.tensor([True, False, False, True])])
def test_chosen_samples_keep_their_own_points(grid, index):
    some, points, uniform = grid.of_samples(index), points_of_sets(), Grid.uniform(5)
    for place, k in enumerate(torch.arange(4)[index].tolist()):
        assert some.counts[place] == COUNTS[k]
        torch.testing.assert_close(some.of_sample(place).points, points[k], rtol=0, atol=0)
    assert uniform.of_samples(index) is uniform.of_sample(2) is uniform


def test_padding_and_back(grid, u):
    padded = pad(u, grid)
    assert padded.shape == (4, 2, 11)
    assert float(padded.where(is_point(grid), 0.0).sub(padded).abs().sum()) == 0.0
    for back, one in zip(unpad(padded, grid), u, strict=True):
        torch.testing.assert_close(back, one, rtol=0, atol=0)


def test_integrals_do_not_see_padding(grid, u):
    v = [one.flip(-1) for one in u]
    junk = torch.where(is_point(grid), 0.0, 1e6)
    found = inner_product(pad(u, grid) + junk, pad(v, grid) + junk, grid)
    for k in range(4):
        expected = float((u[k] * v[k] * grid.of_sample(k).weights).sum())
        assert float(found[k]) == pytest.approx(expected, rel=1e-13)
    torch.testing.assert_close(l2_norm(pad(u, grid), grid)[2], l2_norm(u[2], grid.of_sample(2)))


def test_every_sample_is_interpolated_from_its_own_points(grid, u):
    query = Grid.uniform((3, 5), BOUNDS)
    for k, found in enumerate(interpolate(pad(u, grid), grid, query)):
        torch.testing.assert_close(found, interpolate(u[k], grid.of_sample(k), query))
    with pytest.raises(UsageError, match="the same for all samples"):
        interpolate(torch.zeros(1, 3, 5), query, grid)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda grid, u: Grid.ragged([]), "at least one set of points"),
        (lambda grid, u: Grid.ragged([torch.rand(5, 1), torch.rand(5, 2)]), r"all of one dimension: got \[1, 2\]"),
        (lambda grid, u: Grid.ragged([torch.rand(5, 2)], []), "one row for each of 1 sets of points: got 0"),
        (lambda grid, u: Grid.ragged([torch.rand(5, 2), torch.rand(1, 2)]), "at least two points"),
        (lambda grid, u: pad(u[:3], grid), "one tensor for each of 4 sets of points: got 3"),
        (lambda grid, u: pad(u[::-1], grid), r"values of sample 0 must be \(2, 7\): got \(2, 5\)"),
        (lambda grid, u: pad([torch.zeros(1, 5)], Grid.uniform(5)), r"Grid\.ragged"),
        (lambda grid, u: unpad(torch.zeros(4, 2, 12), grid), r"must be \(4, channels, 11\): got \(4, 2, 12\)"),
    ],
)
def test_what_does_not_fit_is_refused(grid, u, make, complaint):
    with pytest.raises(UsageError, match=complaint):
        make(grid, u)


# Moments


def test_blocks_have_the_moments_of_the_whole():
    grid = Grid.rectilinear([0.0, 0.1, 0.7, 1.0], [0.0, 2.0, 3.0])
    values = 1e3 + torch.randn(11, 2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights, moments = grid.weights / grid.weights.sum(), Moments(2)
    assert moments.mean.isnan().all()
    assert moments.std.isnan().all()
    for block in values.split([1, 5, 0, 3, 2]):
        moments.add(block, grid)
    mean = (values * weights).sum((2, 3)).mean(0)
    std = ((values - mean[:, None, None]).square() * weights).sum((2, 3)).mean(0).sqrt()
    torch.testing.assert_close(moments.mean, mean, rtol=1e-14, atol=0)
    torch.testing.assert_close(moments.std, std, rtol=1e-12, atol=0)
    squares = (values.square() * weights).sum((2, 3)).mean(0)
    torch.testing.assert_close(moments.root_mean_square, squares.sqrt(), rtol=1e-14, atol=0)


def test_moments_on_a_ragged_grid_are_those_of_the_samples_one_by_one(grid, u):
    together, apart = Moments(2), Moments(2)
    together.add(pad(u, grid)[:3], grid.of_samples(slice(0, 3)))
    together.add(pad(u, grid)[3:], grid.of_samples(slice(3, 4)))
    for k, one in enumerate(u):
        apart.add(one.unsqueeze(0), grid.of_sample(k))
    torch.testing.assert_close(together.mean, apart.mean)
    torch.testing.assert_close(together.std, apart.std)
