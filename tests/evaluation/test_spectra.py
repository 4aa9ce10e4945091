"""Spectra of functions whose coefficients are known, Parseval's identity by the quadrature, spectra of errors."""

from itertools import product
from math import pi

import pytest
import torch

from operformer import Grid
from operformer.domain import l2_norm
from operformer.evaluation.loss import relative_l2
from operformer.evaluation.spectra import SpectrumMean, choose_transform, coefficients, shell_width, shells, sum_shells

BOUNDS = ((0.5, 1.5), (-1.0, 2.0), (0.0, 2.0))


def energy_spectrum(u, grid, is_periodic=False):
    """E_s of the components together: (..., channels, *shape) -> (..., shells)."""
    transform = choose_transform(grid, is_periodic)
    energy = coefficients(u, grid, transform).abs().square().sum(-grid.dim - 1)
    return sum_shells(energy, shells(grid, transform))


@pytest.mark.parametrize("shape", [(7,), (8,), (5, 8), (6, 3), (4, 5, 3)])
@pytest.mark.parametrize(
    ("kind", "is_periodic"), [("nodes", False), ("cells", False), ("cells", True), ("periodic", True)]
)
def test_the_shells_sum_to_the_norm_of_the_quadrature(kind, is_periodic, shape):
    grid = Grid.uniform(shape, BOUNDS[: len(shape)], kind)
    u = torch.randn(2, 3, *shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    found = energy_spectrum(u, grid, is_periodic).sum(-1)
    torch.testing.assert_close(found, l2_norm(u, grid).square(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("kind", ["nodes", "cells"])
def test_cosine_coefficients_are_finite_sums(kind):
    """sum_i w_i u(x_i) phi_k(x_i), summed as it stands; phi of the last mode on nodes has no factor sqrt(2)."""
    grid = Grid.uniform((5, 4), BOUNDS[:2], kind)
    u = torch.randn(1, *grid.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    found = coefficients(u, grid, "cosine")
    for k in product(range(5), range(4)):
        phi = torch.ones(grid.shape, dtype=torch.float64)
        for j, ((lower, upper), n) in enumerate(zip(grid.bounds, grid.shape, strict=True)):
            simple = k[j] == 0 or (kind == "nodes" and k[j] == n - 1)
            wave = torch.cos(pi * k[j] * (grid.points[..., j] - lower) / (upper - lower))
            phi = phi * wave * ((1 if simple else 2) / (upper - lower)) ** 0.5
        assert found[0][k].item() == pytest.approx((grid.weights * u[0] * phi).sum().item(), abs=1e-13)


@pytest.mark.parametrize(
    ("kind", "is_periodic"), [("nodes", False), ("cells", False), ("cells", True), ("periodic", True)]
)
@pytest.mark.parametrize("k", [(3,), (3, 4), (0, 2), (1, 2, 2)])
def test_one_wave_lies_in_its_shell(kind, is_periodic, k):
    length, moving = 2 * pi if is_periodic else 2.0, sum(kj > 0 for kj in k)
    grid = Grid.uniform((9, 11, 7)[: len(k)], ((0.0, length),) * len(k), kind)
    angles = [(1 if is_periodic else pi / 2) * kj * grid.points[..., j] for j, kj in enumerate(k)]
    if is_periodic:  # 3 cos and 4 sin of one wave
        u, expected = torch.stack([3 * torch.cos(sum(angles)), 4 * torch.sin(sum(angles))]), 25 / 2 * length ** len(k)
    else:  # each moving axis halves the square
        u, expected = 3 * torch.cos(torch.stack(angles)).prod(0, keepdim=True), 9 * length ** len(k) / 2**moving
    energy = energy_spectrum(u, grid, is_periodic)
    assert energy[round(sum(kj**2 for kj in k) ** 0.5)].item() == pytest.approx(expected, rel=1e-12)
    assert energy.sum().item() == pytest.approx(expected, rel=1e-12)
    assert shell_width(grid, choose_transform(grid, is_periodic)) == pytest.approx(1.0 if is_periodic else pi / 2)


def test_the_longest_wave_of_a_longer_box_is_its_first_shell():
    grid = Grid.uniform((6, 8), ((0.0, 1.0), (0.0, 3.0)), kind="cells")
    found = shells(grid, "cosine")
    assert found[0].tolist() == list(range(8))
    assert found[1, 0].item() == 3  # a third of the wave length
    assert found[1, 4].item() == 5


def test_the_functions_are_chosen_by_the_grid_and_by_what_is_periodic():
    nodes, cells, periodic = (Grid.uniform((4, 4), kind=kind) for kind in ("nodes", "cells", "periodic"))
    assert [choose_transform(grid) for grid in (nodes, cells, periodic)] == ["cosine", "cosine", "fourier"]
    assert [choose_transform(grid, True) for grid in (nodes, cells, periodic)] == ["cosine", "fourier", "fourier"]
    for grid in (Grid.rectilinear([0, 0.1, 1]), Grid.scattered([[0.1], [0.2]])):
        assert choose_transform(grid, True) is None


# Errors


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
