"""Spectra of functions whose coefficients are known, and Parseval's identity with the quadrature's norm."""

from itertools import product
from math import pi

import pytest
import torch

from operformer import Grid
from operformer.domain import l2_norm
from operformer.domain.spectra import choose_transform, coefficients, energy_spectrum, shell_width, shells
from operformer.errors import UsageError

BOUNDS = ((0.5, 1.5), (-1.0, 2.0), (0.0, 2.0))


def grids(kind):
    """Even and odd sizes in one, two and three dimensions."""
    return [Grid.uniform(shape, BOUNDS[: len(shape)], kind) for shape in ((7,), (8,), (5, 8), (6, 3), (4, 5, 3))]


@pytest.mark.parametrize(
    ("kind", "is_periodic"), [("nodes", False), ("cells", False), ("cells", True), ("periodic", True)]
)
def test_the_shells_sum_to_the_norm_of_the_quadrature(kind, is_periodic):
    for grid in grids(kind):
        u = torch.randn(2, 3, *grid.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        torch.testing.assert_close(
            energy_spectrum(u, grid, is_periodic).sum(-1), l2_norm(u, grid).square(), rtol=1e-12, atol=0
        )


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


@pytest.mark.parametrize("kind", ["nodes", "cells"])
@pytest.mark.parametrize("k", [(3,), (3, 4), (0, 2), (1, 2, 2)])
def test_one_cosine_lies_in_its_shell(kind, k):
    grid = Grid.uniform((9, 11, 7)[: len(k)], ((0.0, 2.0),) * len(k), kind)
    u = torch.full((1, *grid.shape), 3.0, dtype=torch.float64)
    for j, kj in enumerate(k):
        u = u * torch.cos(pi * kj * grid.points[..., j] / 2)
    energy = energy_spectrum(u, grid)
    # ||3 prod cos||^2: each moving axis halves the square, each has length 2.
    expected = 9 * 2 ** len(k) / 2 ** sum(kj > 0 for kj in k)
    shell = round(sum(kj**2 for kj in k) ** 0.5)
    assert energy[shell].item() == pytest.approx(expected, rel=1e-12)
    assert energy.sum().item() == pytest.approx(expected, rel=1e-12)
    assert shell_width(grid, "cosine") == pytest.approx(pi / 2)


@pytest.mark.parametrize("kind", ["cells", "periodic"])
@pytest.mark.parametrize("k", [(3,), (3, -4), (0, 2), (1, -2, 2)])
def test_one_wave_lies_in_its_shell(kind, k):
    grid = Grid.uniform((9, 10, 7)[: len(k)], ((0.0, 2 * pi),) * len(k), kind)
    angle = sum(kj * grid.points[..., j] for j, kj in enumerate(k))
    u = torch.stack([3 * torch.cos(angle), 4 * torch.sin(angle)])
    energy = energy_spectrum(u, grid, is_periodic=True)
    expected = 25 * (2 * pi) ** len(k) / 2
    shell = round(sum(kj**2 for kj in k) ** 0.5)
    assert energy[shell].item() == pytest.approx(expected, rel=1e-12)
    assert energy.sum().item() == pytest.approx(expected, rel=1e-12)
    assert shell_width(grid, "fourier") == pytest.approx(1.0)


def test_the_longest_wave_of_a_longer_box_is_its_first_shell():
    grid = Grid.uniform((6, 8), ((0.0, 1.0), (0.0, 3.0)), kind="cells")
    found = shells(grid, "cosine")
    assert found[0].tolist() == list(range(8))
    assert found[1, 0].item() == 3  # a third of the wave length
    assert found[1, 4].item() == 5
    assert found.shape == grid.shape


def test_the_functions_are_chosen_by_the_grid_and_by_what_is_periodic():
    nodes, cells, periodic = (Grid.uniform((4, 4), kind=kind) for kind in ("nodes", "cells", "periodic"))
    assert [choose_transform(grid) for grid in (nodes, cells, periodic)] == ["cosine", "cosine", "fourier"]
    assert [choose_transform(grid, True) for grid in (nodes, cells, periodic)] == ["cosine", "fourier", "fourier"]
    for grid in (Grid.rectilinear([0, 0.1, 1]), Grid.scattered([[0.1], [0.2]])):
        assert choose_transform(grid, True) is None
        with pytest.raises(UsageError, match="equispaced"):
            energy_spectrum(torch.ones(1, *grid.shape), grid)


def test_smooth_functions_decay_as_the_docstring_says():
    """x on [0, 1]: cosine coefficients fall as k^-2, Fourier's as k^-1; energies are their squares."""
    grid = Grid.uniform((4097,))
    energy = energy_spectrum(grid.points[..., 0].unsqueeze(0), grid)
    assert (energy[9] / energy[81]).log().item() / torch.tensor(9.0).log().item() == pytest.approx(4, abs=0.01)
    periodic = Grid.uniform((4096,), kind="periodic")
    energy = energy_spectrum(periodic.points[..., 0].unsqueeze(0), periodic)
    assert (energy[9] / energy[81]).log().item() / torch.tensor(9.0).log().item() == pytest.approx(2, abs=0.01)


def test_single_precision_stays_so():
    grid = Grid.uniform((5, 7))
    energy = energy_spectrum(torch.ones(1, 5, 7), grid)
    assert energy.dtype == torch.float32
    assert energy[0].item() == pytest.approx(1.0, rel=1e-6)
