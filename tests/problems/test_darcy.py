"""Darcy flow: the laws of its coefficients, and one function of each sample on every grid."""

from dataclasses import replace
from itertools import pairwise, product
from math import log2, pi

import numpy as np
import pytest
import torch

from operformer.domain import Grid
from operformer.domain.interpolation import graded_grid
from operformer.errors import UsageError
from operformer.problems import Darcy

SMOOTH = Darcy(n_modes=4, points="nodes", fine=65)
both_laws = pytest.mark.parametrize("coefficient", ["lognormal", "piecewise"])


def covariance(x, scale, tau, alpha, m):
    """sum_k scale (pi^2 |k|^2 + tau^2)^-alpha phi_k(x_i) phi_k(x_j), cosines on the unit square, k not zero."""
    total = np.zeros((len(x), len(x)))
    for i, j in product(range(m), repeat=2):
        if i or j:
            phi = np.cos(pi * i * x[:, 0]) * np.cos(pi * j * x[:, 1]) * 2 ** (((i > 0) + (j > 0)) / 2)
            total += scale * (pi**2 * (i**2 + j**2) + tau**2) ** -alpha * np.outer(phi, phi)
    return total


def test_logarithm_of_the_coefficient_has_the_law_of_the_paper():
    """N(0, 12^2 (-Laplace + 6^2)^-2) on 4 x 4 cells, and none of its neighbours."""
    samples = Darcy(n_modes=19).sample(1501, 4, seed=3)
    g, x = samples.u.log().flatten(1).numpy(), samples.grid.points.reshape(-1, 2).numpy()

    def worst_deviation(expected):
        variances = np.diag(expected)
        error = np.sqrt((np.outer(variances, variances) + expected**2) / len(g))
        return np.abs((g.T @ g / len(g) - expected) / error).max()

    exact = covariance(x, 144.0, 6.0, 2.0, 19)
    assert worst_deviation(exact) < 4.8  # the largest of 136
    assert np.abs(g.mean(0) / np.sqrt(np.diag(exact) / len(g))).max() < 4.5
    for scale, tau, alpha in [(72, 6, 2), (288, 6, 2), (144, 36, 2), (12, 6, 2), (144, 6**0.5, 2), (144, 6, 1)]:
        assert worst_deviation(covariance(x, scale, tau, alpha, 19)) > 8


def test_the_default_law_is_cut_off_late():
    """512 modes hold all but a hundredth of the variance that there would be with any number of them."""
    k = np.arange(4000)
    values = 144 * (pi**2 * (k[:, None] ** 2 + k**2) + 36.0) ** -2
    values[0, 0] = 0
    assert float(Darcy().measure.eigenvalues().sum()) == pytest.approx(values[:512, :512].sum(), rel=1e-12)
    assert values[:512, :512].sum() > 0.99 * values.sum()


def test_law_that_others_quote():
    problem = Darcy.of_li_et_al()
    assert problem.coefficient == "piecewise"
    assert (problem.grid(421).kind, problem.grid(421).shape) == ("nodes", (421, 421))
    squares = pi**2 * (np.arange(13)[:, None] ** 2 + np.arange(13) ** 2)
    found = replace(problem, n_modes=13).measure.eigenvalues().numpy()
    np.testing.assert_allclose(found.ravel()[1:], (squares + 9.0).ravel()[1:] ** -2.0, rtol=1e-13, equal_nan=False)


def test_piecewise_is_twelve_or_three_by_the_sign_of_the_same_field():
    field = Darcy(n_modes=31).sample(5, 23, seed=2).u.log()
    piecewise = Darcy("piecewise", n_modes=31).sample(5, 23, seed=2).u
    assert torch.equal(piecewise, torch.where(field >= 0, 12.0, 3.0).double())
    assert 0.2 < float((piecewise == 12).double().mean()) < 0.8
    assert float((field.mean((1, 2, 3))).abs().max()) < 1e-3  # midpoints integrate all but the highest modes


@both_laws
@pytest.mark.parametrize("points", ["nodes", "cells"])
def test_what_the_source_gives_leaves_through_the_boundary(coefficient, points):
    """The source is 1 on a square of area 1; through a face of a cell flows a (z - 0) / (h / 2) h."""
    samples = Darcy(coefficient, n_modes=31, points=points).sample(5, 29, seed=1)
    assert samples.u.shape == samples.z.shape == (5, 1, 29, 29)
    assert samples.checks["residual"].shape == (5,)
    assert float(samples.checks["residual"].max()) <= 1e-10
    assert bool((samples.z[..., 1:-1, 1:-1] > 0).all())
    flow = 2 * (samples.u * samples.z)[:, 0]
    out = flow[:, 0].sum(1) + flow[:, -1].sum(1) + flow[:, :, 0].sum(1) + flow[:, :, -1].sum(1)
    expected = 0.0 if points == "nodes" else 1.0  # nodes on the boundary have z = 0
    torch.testing.assert_close(out, torch.full((5,), expected, dtype=torch.float64), rtol=0, atol=1e-9)


def test_the_same_sample_at_every_resolution():
    """u is the same function; z converges with second order."""
    samples = [SMOOTH.sample(2, n, seed=6) for n in (33, 65, 129, 257)]
    for coarse, fine in pairwise(samples):
        torch.testing.assert_close(coarse.u, fine.u[..., ::2, ::2], rtol=0, atol=1e-12)
    steps = [float((fine.z[..., ::2, ::2] - coarse.z).abs().max()) for coarse, fine in pairwise(samples)]
    orders = [log2(a / b) for a, b in pairwise(steps)]
    print(f"order of z between resolutions: {orders}")
    for order in orders:
        assert 1.85 < order < 2.15


RAW = np.random.default_rng(4)
ELSEWHERE = {
    "rectilinear": Grid.rectilinear(*(np.r_[0.0, np.sort(RAW.uniform(0, 1, n)), 1.0] for n in (31, 37))),
    "scattered": Grid.scattered(RAW.uniform(0, 1, (997, 2))),
    "periodic": Grid.uniform((31, 37), kind="periodic"),
    "part": Grid.uniform((31, 37), bounds=[(0.2, 0.9), (0.0, 0.5)]),
    "small": Grid.uniform((3, 101)),
}


@pytest.mark.parametrize("grid", ELSEWHERE.values(), ids=ELSEWHERE.keys())
def test_other_grids_read_the_same_functions(grid):
    """Against the solution of many more nodes: an error of second order in those of `fine`, a without error."""
    places = grid.points.reshape(-1, 2).numpy()
    coefficients, g = SMOOTH.measure.draw(2, seed=6).numpy(), np.zeros((2, len(places)))
    for i, j in product(range(4), repeat=2):
        phi = np.cos(pi * i * places[:, 0]) * np.cos(pi * j * places[:, 1]) * 2 ** (((i > 0) + (j > 0)) / 2)
        g += np.outer(coefficients[:, i, j], phi)
    coarse, middle, best = (replace(SMOOTH, fine=fine).sample(2, grid, seed=6) for fine in (33, 65, 257))
    np.testing.assert_allclose(best.u.flatten(1).numpy(), np.exp(g), rtol=0, atol=1e-11, equal_nan=False)
    errors = [float((read.z - best.z).square().mean().sqrt()) for read in (coarse, middle)]
    assert 3.4 < errors[0] / errors[1] < 5.0  # (1 / 32^2 - 1 / 256^2) / (1 / 64^2 - 1 / 256^2) = 4.2
    assert errors[1] < 1e-3 * float(best.z.max())


def test_reading_elsewhere_agrees_with_the_uniform_grid():
    """At nodes of `fine` themselves nothing is interpolated; a grid rounded past the end is accepted."""
    uniform = SMOOTH.sample(2, 65, seed=6)
    some = Grid.rectilinear(np.arange(0, 65, 4) / 64, np.r_[np.arange(0, 64, 8) / 64, 1.0 + 2**-52])
    read = SMOOTH.sample(2, some, seed=6)
    torch.testing.assert_close(read.z, uniform.z[..., ::4, ::8], rtol=0, atol=1e-12)
    torch.testing.assert_close(read.u, uniform.u[..., ::4, ::8], rtol=0, atol=1e-12)


def test_a_solution_is_thinned_out_and_serves_every_grid(monkeypatch):
    law = replace(Darcy.of_li_et_al(), n_modes=16)
    thinned = replace(law, read_from=61)
    monkeypatch.setattr(Darcy, "block", {"cpu": 2})
    whole = law.sample(3, 61, seed=5, first=2)
    grids = [law.grid(21), law.grid(31), graded_grid(law.grid(13))]
    expected = [thinned.sample(3, grid, seed=5, first=2) for grid in grids]
    for samples, stride in zip(expected, (3, 2), strict=False):
        torch.testing.assert_close(samples.u, whole.u[..., ::stride, ::stride], atol=0, rtol=0)
        torch.testing.assert_close(samples.z, whole.z[..., ::stride, ::stride], atol=1e-12, rtol=1e-12)
    solved_there = law.sample(3, 21, seed=5, first=2).z
    assert (solved_there - expected[0].z).norm() > 1e-3 * solved_there.norm()
    solved, solve = [], Darcy._solve
    monkeypatch.setattr(Darcy, "_solve", lambda law, draws, grid: solved.append(len(draws)) or solve(law, draws, grid))
    for one, other in zip(thinned.readings(3, grids, 5, first=2, dtype=torch.float32), expected, strict=True):
        assert torch.equal(one.u, other.u.float())
        assert torch.equal(one.z, other.z.float())
        assert torch.equal(one.checks["residual"].double(), other.checks["residual"])
    assert solved == [2, 1]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coefficient": "uniform"}, "coefficient must be 'lognormal' or 'piecewise': got 'uniform'"),
        ({"points": "periodic"}, "points must be 'cells' or 'nodes': got 'periodic'"),
        ({"fine": 3}, "fine must be at least 4 nodes: got 3; 513 is good"),
        ({"read_from": 3}, "read_from must be at least 4 nodes"),
        ({"scale": 0.0}, "scale must be positive and finite: got 0"),
        ({"n_modes": 1}, "n_modes must be at least 2"),
    ],
)
def test_fields_are_refused(changes, message):
    with pytest.raises(UsageError, match=message) as error:
        Darcy(**changes)
    assert "\n" not in str(error.value)
