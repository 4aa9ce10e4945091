"""Darcy flow: the laws of its coefficients, and one function of each draw on every grid."""

from dataclasses import replace
from itertools import pairwise, product
from math import log2, pi

import numpy as np
import pytest
import torch

from operformer.domain import Grid
from operformer.domain.grading import graded_grid
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


def deviations(values, expected):
    variances = np.diag(expected)
    error = np.sqrt((np.outer(variances, variances) + expected**2) / len(values))
    return np.abs((values.T @ values / len(values) - expected) / error)


@pytest.fixture(scope="module")
def many():
    """u on the 4 x 4 cells of the paper's lognormal law, with fewer modes."""
    samples = Darcy(n_modes=19).sample(1501, 4, seed=3)
    return samples.u.log().flatten(1).numpy(), samples.grid.points.reshape(-1, 2).numpy()


def test_logarithm_of_the_coefficient_has_the_law_of_the_paper(many):
    """N(0, 12^2 (-Laplace + 6^2)^-2)."""
    g, x = many
    exact = covariance(x, 144.0, 6.0, 2.0, 19)
    assert deviations(g, exact).max() < 4.8  # the largest of 136
    assert np.abs(g.mean(0) / np.sqrt(np.diag(exact) / len(g))).max() < 4.5
    others = [(144, 6, 2, 0.5), (144, 6, 2, 2), (144, 36, 2, 1), (12, 6, 2, 1), (144, 6**0.5, 2, 1), (144, 6, 1, 1)]
    for scale, tau, alpha, factor in others:
        assert deviations(g, factor * covariance(x, scale, tau, alpha, 19)).max() > 8


def test_the_default_law_is_cut_off_late():
    """512 modes hold all but a hundredth of the variance that there would be with any number of them."""
    problem = Darcy()
    assert (problem.scale, problem.tau, problem.alpha, problem.n_modes) == (144.0, 6.0, 2.0, 512)
    k = np.arange(4000)
    squares = pi**2 * (k[:, None] ** 2 + k**2)
    values = 144 * (squares + 36.0) ** -2
    values[0, 0] = 0
    assert float(problem.measure.eigenvalues().sum()) == pytest.approx(values[:512, :512].sum(), rel=1e-12)
    assert values[:512, :512].sum() > 0.99 * values.sum()


def test_law_that_others_quote():
    problem = Darcy.of_li_et_al()
    assert problem.coefficient == "piecewise"
    assert problem.grid(421).kind == "nodes"
    assert problem.grid(421).shape == (421, 421)
    x = np.array([[0.1, 0.2], [0.5, 0.9], [0.0, 1.0]])
    found = replace(problem, n_modes=13).measure.covariance(Grid.scattered(x)).numpy()
    np.testing.assert_allclose(found, covariance(x, 1.0, 3.0, 2.0, 13), rtol=0, atol=1e-15, equal_nan=False)


def test_lognormal_is_positive_and_piecewise_is_twelve_or_three():
    field = Darcy(n_modes=31).sample(5, 23, seed=2).u.log()
    piecewise = Darcy("piecewise", n_modes=31).sample(5, 23, seed=2).u
    assert torch.equal(piecewise, torch.where(field >= 0, 12.0, 3.0).double())
    assert 0.2 < float((piecewise == 12).double().mean()) < 0.8
    assert float((field.mean((1, 2, 3))).abs().max()) < 1e-3  # midpoints integrate all but the highest modes


@both_laws
@pytest.mark.parametrize("points", ["nodes", "cells"])
def test_pressure_is_positive_and_zero_at_the_boundary(coefficient, points):
    samples = Darcy(coefficient, n_modes=31, points=points).sample(5, 29, seed=1)
    assert samples.u.shape == samples.z.shape == (5, 1, 29, 29)
    assert bool((samples.u > 0).all())
    assert float(samples.checks["residual"].max()) <= 1e-10
    assert len(samples.checks["residual"]) == 5
    z = samples.z[:, 0]
    if points == "nodes":
        for face in (z[:, 0], z[:, -1], z[:, :, 0], z[:, :, -1]):
            assert bool((face == 0).all())
        z = z[:, 1:-1, 1:-1]
    assert bool((z > 0).all())


@both_laws
def test_what_the_source_gives_leaves_through_the_boundary(coefficient):
    """The source is 1 on a square of area 1; through a face of a cell flows a (z - 0) / (h / 2) h."""
    samples = Darcy(coefficient, n_modes=31).sample(5, 29, seed=1)
    flow = 2 * (samples.u * samples.z)[:, 0]
    out = flow[:, 0].sum(1) + flow[:, -1].sum(1) + flow[:, :, 0].sum(1) + flow[:, :, -1].sum(1)
    torch.testing.assert_close(out, torch.ones(5, dtype=torch.float64), rtol=0, atol=1e-9)


def test_constant_factor_of_the_coefficient():
    """A vanishing variance leaves a = 1, and z(1/2, 1/2) = 0.0736713... of Poisson's problem."""
    z = Darcy(scale=1e-12, n_modes=3, points="nodes").sample(1, 129).z
    assert float(z[0, 0, 64, 64]) == pytest.approx(0.0736713, abs=5e-6)
    threefold = Darcy("piecewise", scale=1e-12, n_modes=3, points="nodes").sample(7, 33)
    a = threefold.u
    assert set(a.unique().tolist()) == {3.0, 12.0}
    reference = float(Darcy(scale=1e-12, n_modes=3, points="nodes").sample(1, 33).z.max())
    assert bool((threefold.z.amax((1, 2, 3)) < reference / 3).all())
    assert bool((threefold.z.amax((1, 2, 3)) > reference / 12).all())


def test_the_same_draw_at_every_resolution():
    """u is the same function; z converges with second order."""
    sizes = (33, 65, 129, 257)
    samples = [SMOOTH.sample(2, n, seed=6) for n in sizes]
    for coarse, fine in pairwise(samples):
        torch.testing.assert_close(coarse.u, fine.u[..., ::2, ::2], rtol=0, atol=1e-12)
    steps = [float((fine.z[..., ::2, ::2] - coarse.z).abs().max()) for coarse, fine in pairwise(samples)]
    orders = [log2(a / b) for a, b in pairwise(steps)]
    print(f"order of z between resolutions: {orders}")
    for order in orders:
        assert 1.85 < order < 2.15


def test_cells_and_nodes_solve_one_problem():
    """The cells of n have their midpoints at the odd ones of 2 n + 1 nodes."""
    apart = []
    for n in (32, 64):
        nodes, cells = SMOOTH.sample(2, 2 * n + 1, seed=6), replace(SMOOTH, points="cells").sample(2, n, seed=6)
        torch.testing.assert_close(cells.u, nodes.u[..., 1::2, 1::2], rtol=0, atol=1e-12)
        apart.append(float((cells.z - nodes.z[..., 1::2, 1::2]).square().mean().sqrt()))
    assert 1.8 < log2(apart[0] / apart[1]) < 2.2
    assert apart[1] < 2e-3 * float(nodes.z.max())


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
    coefficients = SMOOTH.measure.draw(2, seed=6).numpy()
    g = np.zeros((2, len(places)))
    for i, j in product(range(4), repeat=2):
        phi = np.cos(pi * i * places[:, 0]) * np.cos(pi * j * places[:, 1]) * 2 ** (((i > 0) + (j > 0)) / 2)
        g += np.outer(coefficients[:, i, j], phi)
    best = replace(SMOOTH, fine=257).sample(2, grid, seed=6)
    np.testing.assert_allclose(best.u.flatten(1).numpy(), np.exp(g), rtol=0, atol=1e-11, equal_nan=False)
    errors = []
    for fine in (33, 65):
        z = replace(SMOOTH, fine=fine).sample(2, grid, seed=6).z
        errors.append(float((z - best.z).square().mean().sqrt()))
    print(f"error of the reading: {errors}")
    assert 3.4 < errors[0] / errors[1] < 5.0  # (1 / 32^2 - 1 / 256^2) / (1 / 64^2 - 1 / 256^2) = 4.2
    assert errors[1] < 1e-3 * float(best.z.max())


def test_reading_elsewhere_agrees_with_the_uniform_grid():
    """At nodes of `fine` themselves nothing is interpolated."""
    uniform = SMOOTH.sample(2, 65, seed=6)
    some = Grid.rectilinear(np.arange(0, 65, 4) / 64, np.arange(0, 65, 8) / 64)
    read = SMOOTH.sample(2, some, seed=6)
    torch.testing.assert_close(read.z, uniform.z[..., ::4, ::8], rtol=0, atol=1e-12)
    torch.testing.assert_close(read.u, uniform.u[..., ::4, ::8], rtol=0, atol=1e-12)
    for face in (read.z[..., 0, :], read.z[..., -1, :], read.z[..., 0], read.z[..., -1]):
        assert bool((face == 0).all())


def test_a_solution_is_thinned_out_as_others_do():
    law = replace(Darcy.of_li_et_al(), n_modes=16)
    whole = law.sample(2, 61)
    thinned = replace(law, read_from=61)
    every_third = thinned.sample(2, 21)
    torch.testing.assert_close(every_third.u, whole.u[..., ::3, ::3], atol=0, rtol=0)
    torch.testing.assert_close(every_third.z, whole.z[..., ::3, ::3], atol=1e-12, rtol=1e-12)
    assert (law.sample(2, 21).z - every_third.z).norm() > 1e-3 * every_third.z.norm()  # solved on 21 nodes: another z
    every_second = thinned.sample(2, 31)
    torch.testing.assert_close(every_second.z, whole.z[..., ::2, ::2], atol=1e-12, rtol=1e-12)
    with pytest.raises(UsageError, match="read_from must be at least 4 nodes"):
        replace(law, read_from=3)


def test_a_solution_that_is_thinned_out_serves_every_grid(monkeypatch):
    law = replace(Darcy.of_li_et_al(), n_modes=16, read_from=61)
    monkeypatch.setattr(Darcy, "block", {"cpu": 2})
    grids = [law.grid(21), law.grid(31), graded_grid(law.grid(13))]
    expected = [law.sample(3, grid, seed=5, first=2, dtype=torch.float32) for grid in grids]
    solved, solve = [], Darcy._solve
    monkeypatch.setattr(
        Darcy, "_solve", lambda self, draws, grid: solved.append(len(draws)) or solve(self, draws, grid)
    )
    found = list(law.readings(3, grids, seed=5, first=2, dtype=torch.float32))
    assert solved == [2, 1]
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.u, other.u)
        torch.testing.assert_close(one.z, other.z, rtol=1e-6, atol=1e-8)
        assert one.z.dtype == torch.float32
        assert one.grid.shape == other.grid.shape
        assert torch.equal(one.checks["residual"], other.checks["residual"])


def test_a_grid_rounded_past_the_end_is_accepted():
    past = Grid.rectilinear([0.0, 0.3, 1.0 + 2**-52], [0.0, 0.7, 1.0])
    exactly = Grid.rectilinear([0.0, 0.3, 1.0], [0.0, 0.7, 1.0])
    torch.testing.assert_close(SMOOTH.sample(1, past).z, SMOOTH.sample(1, exactly).z, rtol=0, atol=1e-12)


@both_laws
def test_uniform_grids_need_not_be_square(coefficient):
    problem = Darcy(coefficient, n_modes=4, fine=129)
    uniform = Grid.uniform((40, 56), kind="cells")
    listed = Grid.rectilinear(*uniform.axes, bounds=((0, 1), (0, 1)))
    on_it, by_reading = (problem.sample(2, grid, seed=1) for grid in (uniform, listed))
    torch.testing.assert_close(on_it.u, by_reading.u, rtol=0, atol=1e-11)
    apart = float((on_it.z - by_reading.z).abs().max() / on_it.z.max())
    assert apart < (0.01 if coefficient == "lognormal" else 0.1)  # the interface of the other is a pixel wide


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"coefficient": "uniform"}, "coefficient must be 'lognormal' or 'piecewise': got 'uniform'"),
        ({"points": "periodic"}, "points must be 'cells' or 'nodes': got 'periodic'"),
        ({"fine": 3}, "fine must be at least 4 nodes: got 3; 513 is good"),
        ({"scale": 0.0}, "scale must be positive and finite: got 0"),
        ({"tau": -1.0}, "tau must be positive and finite: got -1"),
        ({"alpha": float("nan")}, "alpha must be positive and finite: got nan"),
        ({"n_modes": 1}, "n_modes must be at least 2"),
    ],
)
def test_fields_are_refused(changes, message):
    with pytest.raises(UsageError, match=message) as error:
        Darcy(**changes)
    assert "\n" not in str(error.value)


def test_resolution_is_refused():
    with pytest.raises(UsageError, match="resolution must be at least 4: got 3; the paper has 64 and 416"):
        Darcy().grid(3)
