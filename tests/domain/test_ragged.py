import pytest
import torch

from operformer import Grid, voronoi_weights
from operformer.domain import inner_product, l2_norm, pad, unpad
from operformer.domain.interpolation import interpolate
from operformer.domain.moments import Moments
from operformer.domain.ragged import is_point
from operformer.errors import UsageError

COUNTS = (7, 3, 11, 5)
BOUNDS = [(0.0, 2.0), (-1.0, 1.0)]


def sets(counts=COUNTS, dim=2, seed=0):
    draws = torch.Generator().manual_seed(seed)
    lower, upper = torch.tensor(BOUNDS, dtype=torch.float64)[:dim].unbind(-1)
    return [lower + (upper - lower) * torch.rand(n, dim, generator=draws, dtype=torch.float64) for n in counts]


def ragged():
    points = sets()
    return Grid.ragged(points, [voronoi_weights(x, BOUNDS) for x in points], BOUNDS), points


def values(channels=2):
    draws = torch.Generator().manual_seed(1)
    return [torch.randn(channels, n, generator=draws, dtype=torch.float64) for n in COUNTS]


def test_every_set_keeps_its_points_and_weights():
    grid, points = ragged()
    assert (grid.shape, grid.n_axes, grid.dim, grid.counts) == ((11,), 1, 2, COUNTS)
    for k, x in enumerate(points):
        one = grid.of_sample(k)
        torch.testing.assert_close(one.points, x, rtol=0, atol=0)
        torch.testing.assert_close(one.weights, voronoi_weights(x, BOUNDS), rtol=0, atol=0)
        assert float(grid.weights[k, 0, len(x) :].sum()) == 0.0
    assert is_point(grid).sum(-1).flatten().tolist() == list(COUNTS)
    assert repr(grid) == "Grid(ragged, 4 sets of at most 11 points in [0, 2] x [-1, 1])"


def test_without_weights_all_points_of_a_set_count_the_same():
    grid = Grid.ragged(sets(), bounds=BOUNDS)
    torch.testing.assert_close(grid.weights.sum(-1).flatten(), torch.full((4,), 4.0, dtype=torch.float64))
    assert grid.weights[1, 0, :3].tolist() == pytest.approx([4 / 3] * 3)


def test_padding_and_back():
    grid, _ = ragged()
    u = values()
    padded = pad(u, grid)
    assert padded.shape == (4, 2, 11)
    assert float(padded.where(is_point(grid), 0.0).sub(padded).abs().sum()) == 0.0
    for back, one in zip(unpad(padded, grid), u, strict=True):
        torch.testing.assert_close(back, one, rtol=0, atol=0)


def test_chosen_samples_keep_their_own_points():
    grid, points = ragged()
    for index, chosen in (
        (slice(1, 3), [1, 2]),
        (torch.tensor([3, 0, 3]), [3, 0, 3]),
        (torch.tensor([True, False, False, True]), [0, 3]),
    ):
        some = grid.of_samples(index)
        assert some.counts == tuple(COUNTS[k] for k in chosen)
        for place, k in enumerate(chosen):
            torch.testing.assert_close(some.of_sample(place).points, points[k], rtol=0, atol=0)
    uniform = Grid.uniform(5)
    assert uniform.of_samples(slice(1, 3)) is uniform
    assert uniform.of_sample(2) is uniform


def test_integrals_do_not_see_what_was_added():
    grid, _ = ragged()
    u, v = values(), values()
    v = [one.flip(-1) for one in v]
    junk = torch.where(is_point(grid), 0.0, 1e6)  # also where values are wrong there
    found = inner_product(pad(u, grid) + junk, pad(v, grid) + junk, grid)
    for k in range(4):
        weights = grid.of_sample(k).weights
        assert float(found[k]) == pytest.approx(float((u[k] * v[k] * weights).sum()), rel=1e-13)
    torch.testing.assert_close(l2_norm(pad(u, grid), grid)[2], l2_norm(u[2], grid.of_sample(2)))


def test_moments_are_those_of_the_samples_one_by_one():
    grid, _ = ragged()
    u = values()
    together, apart = Moments(2), Moments(2)
    together.add(pad(u, grid)[:3], grid.of_samples(slice(0, 3)))
    together.add(pad(u, grid)[3:], grid.of_samples(slice(3, 4)))
    for k, one in enumerate(u):
        apart.add(one.unsqueeze(0), grid.of_sample(k))
    torch.testing.assert_close(together.mean, apart.mean)
    torch.testing.assert_close(together.std, apart.std)


def test_every_sample_is_interpolated_from_its_own_points():
    grid, _ = ragged()
    query = Grid.uniform((3, 5), BOUNDS)
    u = values()
    found = interpolate(pad(u, grid), grid, query)
    for k, one in enumerate(u):
        torch.testing.assert_close(found[k], interpolate(one, grid.of_sample(k), query))
    with pytest.raises(UsageError, match="the same for all samples"):
        interpolate(torch.zeros(1, 3, 5), query, grid)


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: Grid.ragged([]), "at least one set of points"),
        (lambda: Grid.ragged([torch.rand(5, 1), torch.rand(5, 2)]), r"all of one dimension: got \[1, 2\]"),
        (lambda: Grid.ragged([torch.rand(5, 2)], []), "one row for each of 1 sets of points: got 0"),
        (lambda: Grid.ragged([torch.rand(5, 2), torch.rand(1, 2)]), "at least two points"),
        (lambda: pad(values()[:3], ragged()[0]), "one tensor for each of 4 sets of points: got 3"),
        (lambda: pad(values()[::-1], ragged()[0]), r"values of sample 0 must be \(2, 7\): got \(2, 5\)"),
        (lambda: pad([torch.zeros(1, 5)], Grid.uniform(5)), r"Grid\.ragged"),
        (lambda: unpad(torch.zeros(4, 2, 12), ragged()[0]), r"must be \(4, channels, 11\): got \(4, 2, 12\)"),
    ],
)
def test_what_does_not_fit_is_refused(make, complaint):
    with pytest.raises(UsageError, match=complaint):
        make()
