"""Operators whose outputs are numbers: the integral of their density over D, on any grid."""

import torch

from operformer import TNO, Functional, Grid, Increment, SpectralOperator, load, pad, voronoi_weights
from operformer.domain.interpolation import graded_grid

FLUX = Functional(SpectralOperator((3,), 1, 2, 8, n_layers=1, basis="cosine").double())
GRID = graded_grid(Grid.uniform(23, [(0, 3)]))


def test_it_is_the_mean_of_the_density():
    u = torch.rand(4, 1, 23, dtype=torch.float64)
    found, density = FLUX(u, GRID), FLUX.operator(u, GRID)
    for k in range(23):
        torch.testing.assert_close(found[..., k], torch.trapezoid(density, GRID.axes[0]) / 3)
    corners = Grid.uniform(2, [(0, 3)])
    torch.testing.assert_close(FLUX(u, GRID, corners), found[..., :2])


def test_numbers_do_not_depend_on_the_resolution():
    """The quadrature is of second order: halving the spacing divides the difference by four."""

    def number(n):
        grid = Grid.uniform(n)
        return FLUX(torch.exp(grid.points[:, 0]).reshape(1, 1, -1), grid)[0, :, 0].detach()

    first, second, limit = number(17), number(33), number(1025)
    ratio = (first - limit).norm() / (second - limit).norm()
    assert 3 < ratio < 5


def test_points_of_their_own(tmp_path):
    """A padded batch gives what each sample gives alone; the wrapper is saved by its name."""
    points = [torch.rand(n, 2, generator=torch.Generator().manual_seed(n)).double() for n in (7, 11)]
    weights = [voronoi_weights(x) for x in points]
    operator = Functional(TNO(2, 1, 1, 8, n_layers=1, n_heads=2).double())
    u, grid = [x[:, :1].T.contiguous() for x in points], Grid.ragged(points, weights)
    found = operator(pad(u, grid), grid)
    for k, (x, w) in enumerate(zip(points, weights, strict=True)):
        alone = operator(u[k][None], Grid.scattered(x, w))
        torch.testing.assert_close(found[k, 0, : len(x)], alone[0, 0])
    operator.float().save_pretrained(tmp_path)
    assert isinstance(load(tmp_path), Functional)
    assert not Functional(Increment(TNO(1, 1, 1, 8, n_layers=1, n_heads=2))).is_zero_at_boundary
