"""Moments block by block against all at once."""

import torch

from operformer import Grid
from operformer.domain.moments import Moments

GRID = Grid.rectilinear([0.0, 0.1, 0.7, 1.0], [0.0, 2.0, 3.0])


def test_blocks_have_the_moments_of_the_whole():
    values = 1e3 + torch.randn(11, 2, 4, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = GRID.weights / GRID.weights.sum()
    mean = (values * weights).sum((2, 3)).mean(0)
    std = ((values - mean[:, None, None]).square() * weights).sum((2, 3)).mean(0).sqrt()
    moments = Moments(2)
    for block in values.split([1, 5, 0, 3, 2]):
        moments.add(block, GRID)
    torch.testing.assert_close(moments.mean, mean, rtol=1e-14, atol=0)
    torch.testing.assert_close(moments.std, std, rtol=1e-12, atol=0)
    squares = (values.square() * weights).sum((2, 3)).mean(0)
    torch.testing.assert_close(moments.root_mean_square, squares.sqrt(), rtol=1e-14, atol=0)


def test_nothing_has_no_moments():
    moments = Moments(2)
    assert moments.mean.isnan().all()
    assert moments.std.isnan().all()
