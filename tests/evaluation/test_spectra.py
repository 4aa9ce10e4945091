"""Error spectra of predictions whose errors are single waves."""

from math import pi

import pytest
import torch

from operformer import Grid
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.spectra import SpectrumMean


def test_single_waves_by_hand():
    """z = a cos 2x, prediction = a (1 + e) cos 2x + a e cos 5 y: shares 1, (1 + e)^2 + e^2 and 2 e^2, whatever a."""
    grid = Grid.uniform((12, 13), bounds=[(0, 2 * pi), (0, 2 * pi)], kind="cells")
    x, y = grid.points.unbind(-1)
    spectrum = SpectrumMean(grid, is_periodic=True)
    for a, e in ((1.0, 0.1), (50.0, 0.3)):
        z = (a * torch.cos(2 * x)).reshape(1, 1, 12, 13)
        spectrum.add(z * (1 + e) + a * e * torch.cos(5 * y), z)
    found = spectrum.mean()
    assert (found.transform, found.wave_numbers[:3]) == ("fourier", pytest.approx((0, 1, 2)))
    assert found.truth[2] == pytest.approx(1, rel=1e-12)
    assert (found.prediction[2], found.prediction[5]) == pytest.approx(((1.21 + 1.69) / 2, 0.05), rel=1e-12)
    assert (found.error[2], found.error[5]) == pytest.approx((0.05, 0.05), rel=1e-12)
    for row, total in ((found.truth, 1), (found.prediction, 1.5), (found.error, 0.1)):
        assert sum(row) == pytest.approx(total, rel=1e-12)


@pytest.mark.parametrize("kind", ["nodes", "cells", "periodic"])
@pytest.mark.parametrize("shape", [(11,), (5, 7), (3, 5, 4)])
def test_the_error_sums_to_the_mean_square_of_the_relative_errors(kind, shape):
    grid = Grid.uniform(shape, kind=kind)
    z, found = torch.randn(2, 6, 2, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    spectrum = SpectrumMean(grid, is_periodic=False)
    for part in (slice(0, 1), slice(1, 6)):
        spectrum.add(found[part], z[part])
    expected = relative_l2(found, z, grid).square().mean().item()
    assert sum(spectrum.mean().error) == pytest.approx(expected, rel=1e-12)


def test_points_that_are_not_equispaced_have_none():
    grid = Grid.rectilinear([0.0, 0.3, 1.0])
    spectrum = SpectrumMean(grid, is_periodic=False)
    spectrum.add(torch.ones(1, 1, 3, dtype=torch.float64), torch.ones(1, 1, 3, dtype=torch.float64))
    assert spectrum.mean() is None
