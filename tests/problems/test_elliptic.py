"""Darcy's problem against a manufactured solution, a direct solver, finite elements and its symmetries."""

from itertools import pairwise
from math import log2, pi

import numpy as np
import pytest
import skfem
import torch
from scipy import sparse
from scipy.sparse.linalg import splu

from operformer.domain import Grid
from operformer.errors import DivergedError, UsageError
from operformer.problems import Darcy, elliptic
from operformer.problems.elliptic import solve_darcy

BOX = ((-1.0, 1.0), (0.5, 2.0))
both_kinds = pytest.mark.parametrize("kind", ["nodes", "cells"])


def rough(grid, batch=1, seed=0, spread=1.0):
    """Values without any relation to their neighbours, by default from exp(-2) to exp(2) or so."""
    numbers = np.random.default_rng(seed).standard_normal((batch, *grid.shape))
    return torch.from_numpy(np.exp(spread * numbers))


def smooth(points, seed=3, modes=4, spread=0.6):
    """exp of a few cosines, with its own random numbers: a lognormal coefficient that is known everywhere."""
    c = spread * np.random.default_rng(seed).standard_normal((modes, modes)) / (1 + np.arange(modes) ** 2)
    k = pi * np.arange(modes)
    x, y = points
    return np.exp(np.einsum("ij,i...,j...->...", c, np.cos(np.multiply.outer(k, x)), np.cos(np.multiply.outer(k, y))))


def documented_scheme(a, grid):
    """The matrix of -div(a grad) and its unknowns: z = 0 at outer nodes, or half a step outside of outer cells."""
    is_node = grid.kind == "nodes"
    unknown = (slice(1, -1) if is_node else slice(None),) * 2
    sizes, total = a[unknown].shape, 0
    for axis, (lower, upper) in enumerate(grid.bounds):
        along = np.moveaxis(a, axis, 0)[:, unknown[0]]
        faces = np.exp((np.log(along[1:]) + np.log(along[:-1])) / 2)
        if not is_node:
            faces = np.concatenate([2 * along[:1], faces, 2 * along[-1:]])
        n, one = sizes[axis], sparse.eye(sizes[1 - axis])
        across = sparse.diags([1.0, -1.0], [0, -1], shape=(n + 1, n)) * (len(faces) if is_node else n) / (upper - lower)
        gradient = sparse.kron(across, one) if axis == 0 else sparse.kron(one, across)
        total = total + gradient.T @ sparse.diags(np.moveaxis(faces, 0, axis).ravel()) @ gradient
    return total.tocsc(), unknown


def observed_order(errors):
    return [log2(coarse / fine) for coarse, fine in pairwise(errors)]


def manufactured(grid):
    """a, f and z on a box that is not square, f by differentiation."""
    x, y = (grid.points[..., k].clone().requires_grad_() for k in (0, 1))
    a = torch.exp(1.2 * torch.sin(2 * x + 1.5 * y) + 0.7 * x * y)
    s, t = (x + 1) / 2, (y - 0.5) / 1.5
    z = torch.sin(pi * s) * torch.sin(pi * t) * torch.exp(s - 2 * t) * (1 + s * t**2)
    z_x, z_y = torch.autograd.grad(z.sum(), (x, y), create_graph=True)
    (flux_x,) = torch.autograd.grad((a * z_x).sum(), x, retain_graph=True)
    (flux_y,) = torch.autograd.grad((a * z_y).sum(), y)
    return a.detach(), -(flux_x + flux_y).detach(), z.detach()


@both_kinds
def test_second_order_on_a_manufactured_solution(kind):
    in_maximum, in_mean = [], []
    for factor in (2, 4, 8):
        grid = Grid.uniform([n * factor + (kind == "nodes") for n in (19, 29)], bounds=BOX, kind=kind)
        a, f, z = manufactured(grid)
        assert float(a.max() / a.min()) > 10
        error = solve_darcy(a[None], f, grid)[0][0] - z
        in_maximum.append(float(error.abs().max()))
        in_mean.append(float((error.square() * grid.weights).sum().sqrt()))
    print(f"order on {kind}: {observed_order(in_mean)} in L2, {observed_order(in_maximum)} in maximum")
    for order in observed_order(in_mean) + observed_order(in_maximum):
        assert 1.9 < order < 2.1
    assert in_maximum[-1] < 1e-2


@both_kinds
@pytest.mark.parametrize("spread", [0.3, 1.0, 1.5])
def test_agrees_with_a_direct_solver_of_the_documented_scheme(kind, spread):
    grid = Grid.uniform((17, 23), bounds=BOX, kind=kind)
    a, f = rough(grid, batch=3, spread=spread), torch.from_numpy(np.random.default_rng(1).standard_normal((3, 17, 23)))
    for each, right, z in zip(a.numpy(), f.numpy(), solve_darcy(a, f, grid)[0].numpy(), strict=True):
        matrix, unknown = documented_scheme(each, grid)
        expected = np.zeros_like(z)
        expected[unknown] = splu(matrix).solve(right[unknown].ravel()).reshape(expected[unknown].shape)
        np.testing.assert_allclose(z, expected, rtol=0, atol=1e-9 * np.abs(expected).max(), equal_nan=False)


def test_one_unknown_in_each_direction_by_hand():
    """4 x 4 nodes: four unknowns, which by symmetry are equal: (2 / h^2) z = 1, h = 1 / 3."""
    a, expected = torch.full((1, 4, 4), 5.0, dtype=torch.float64), torch.zeros(1, 4, 4, dtype=torch.float64)
    expected[:, 1:3, 1:3] = 1 / (2 * 9 * 5)
    torch.testing.assert_close(solve_darcy(a, torch.ones(4, 4), Grid.uniform((4, 4)))[0], expected, rtol=0, atol=1e-13)


def test_poisson_by_its_series():
    """z(1/2, 1/2) of -Laplace z = 1, from the series of the pressure in a square duct; the error is O(h^2)."""
    series = sum((-1) ** (k // 2) * (1 - 1 / np.cosh(k * pi / 2)) * 4 / (pi * k) ** 3 for k in range(1, 200, 2))
    errors = []
    for n in (21, 41, 81):
        z, _ = solve_darcy(torch.ones(1, n, n, dtype=torch.float64), torch.ones(n, n), Grid.uniform((n, n)))
        errors.append(abs(float(z[0, n // 2, n // 2]) - series))
    for order in observed_order(errors):
        assert 1.9 < order < 2.1


@pytest.fixture(scope="module")
def elements():
    """Quadratic elements on squares, the coefficient known at every quadrature point.

    All points at which it is compared are nodes of these elements, where it is off by 1e-6.
    """
    edges = np.linspace(0, 1, 65)
    basis = skfem.Basis(skfem.MeshQuad.init_tensor(edges, edges), skfem.ElementQuad2(), intorder=5)
    stiffness = skfem.BilinearForm(lambda u, v, w: smooth(w.x) * (u.grad[0] * v.grad[0] + u.grad[1] * v.grad[1]))
    load = skfem.LinearForm(lambda v, _: v)
    system = skfem.condense(stiffness.assemble(basis), load.assemble(basis), D=basis.get_dofs())
    return basis, skfem.solve(*system)


@both_kinds
def test_converges_to_finite_elements(kind, elements):
    basis, nodal = elements
    errors = []
    for intervals in (16, 32, 64):
        n = intervals + (kind == "nodes")
        grid = Grid.uniform((n, n), kind=kind)
        x, y = np.moveaxis(grid.points.numpy(), -1, 0)
        a = torch.from_numpy(smooth((x, y)))
        assert float(a.max() / a.min()) > 10
        expected = (basis.probes(np.stack([x.ravel(), y.ravel()])) @ nodal).reshape(n, n)
        z = solve_darcy(a[None], torch.ones(n, n), grid)[0][0].numpy()
        errors.append(np.sqrt(np.square(z - expected).mean() / np.square(expected).mean()))
    print(f"distance from finite elements on {kind}: {[f'{e:.1e}' for e in errors]}, orders {observed_order(errors)}")
    for order in observed_order(errors):
        assert 1.85 < order < 2.15
    assert errors[-1] < 5e-3


@both_kinds
def test_linear_in_the_source_and_inverse_in_the_coefficient(kind):
    grid = Grid.uniform((11, 19), kind=kind)
    a, f, g = rough(grid, batch=3), rough(grid, seed=5)[0], torch.sin(rough(grid, seed=6)[0])
    z_f, z_g = (solve_darcy(a, right, grid)[0] for right in (f, g))
    size = float(z_f.abs().max())
    torch.testing.assert_close(solve_darcy(a, 3 * f - 5 * g, grid)[0], 3 * z_f - 5 * z_g, rtol=0, atol=1e-8 * size)
    for factor in (1e-9, 0.3, 7.0, 1e12):
        scaled, _ = solve_darcy(factor * a, f, grid)
        torch.testing.assert_close(factor * scaled, z_f, rtol=0, atol=1e-9 * size)
    for factor in (1e-60, 1e-40, 1e40, 1e60):  # beyond float32, in which the preconditioner works
        scaled, _ = solve_darcy(a, factor * f, grid)
        torch.testing.assert_close(scaled / factor, z_f, rtol=0, atol=1e-9 * size)


@both_kinds
def test_a_source_for_each_or_for_all_or_none(kind):
    grid = Grid.uniform((11, 19), kind=kind)
    a, f = rough(grid, batch=3), rough(grid, batch=3, seed=5)
    each, _ = solve_darcy(a, f, grid)
    size = float(each.abs().max())
    for i in range(3):
        torch.testing.assert_close(solve_darcy(a, f[i], grid)[0][i], each[i], rtol=0, atol=1e-9 * size)
    assert float((each[0] - solve_darcy(a, f[1], grid)[0][0]).abs().max()) > 1e-2 * size
    f[1] = 0
    z, residuals = solve_darcy(a, f, grid)
    assert bool((z[1] == 0).all())
    assert float(residuals.max()) <= 1e-10
    torch.testing.assert_close(z[[0, 2]], each[[0, 2]], rtol=0, atol=1e-9 * size)


@both_kinds
def test_a_solution_does_not_depend_on_its_batch(kind):
    """Hard and easy ones together: those that are done first do not change any more."""
    grid = Grid.uniform((29, 31), kind=kind)
    easy, hard = torch.full((1, 29, 31), 2.0, dtype=torch.float64), rough(grid, spread=1.3)
    a = torch.cat([easy, hard, rough(grid, seed=4), easy])
    together, _ = solve_darcy(a, torch.ones(29, 31), grid)
    for i in range(4):
        alone, _ = solve_darcy(a[i : i + 1], torch.ones(29, 31), grid)
        torch.testing.assert_close(together[i], alone[0], rtol=0, atol=1e-10 * float(alone.abs().max()))


@both_kinds
@pytest.mark.parametrize("coefficient", ["lognormal", "piecewise"])
@pytest.mark.parametrize(("resolution", "count"), [(64, 4), (416, 1)])
def test_the_laws_of_the_paper_are_solved_in_few_iterations(monkeypatch, coefficient, kind, resolution, count):
    monkeypatch.setattr(elliptic, "_ITERATIONS", 60)
    problem = Darcy(coefficient, points=kind)
    grid = problem.grid(resolution)
    a = problem.measure.read(problem.measure.draw(count, seed=7), grid)
    a = a.exp() if coefficient == "lognormal" else torch.where(a >= 0, 12.0, 3.0).double()
    solution, residuals = solve_darcy(a, torch.ones(grid.shape), grid)
    for each, z, residual in zip(a.numpy(), solution.numpy(), residuals, strict=True):
        matrix, unknown = documented_scheme(each, grid)
        found = np.linalg.norm(1 - matrix @ z[unknown].ravel()) / matrix.shape[0] ** 0.5
        assert found <= 1e-10
        assert float(residual) == pytest.approx(found, rel=0, abs=2e-11)


@both_kinds
def test_extreme_contrast_is_reported(kind):
    grid = Grid.uniform((31, 37), kind=kind)
    a = torch.cat([rough(grid), rough(grid, spread=12.0)])
    with pytest.raises(DivergedError, match=r"coefficient 1 is solved to a residual of .* only, not to 1e-10") as error:
        solve_darcy(a, torch.ones(31, 37), grid)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("place", [(0, 0, 0), (1, 3, 4)])
def test_coefficients_that_are_not_elliptic_are_refused(value, place):
    a = torch.ones(2, 7, 11, dtype=torch.float64)
    a[place] = value
    with pytest.raises(UsageError, match="must be positive and finite everywhere"):
        solve_darcy(a, torch.ones(7, 11), Grid.uniform((7, 11), kind="cells"))


NODES, ONES = Grid.uniform((7, 11)), torch.ones(2, 7, 11, dtype=torch.float64)
UNEVEN = Grid.rectilinear([0.0, 0.1, 0.5, 1.0], [0.0, 0.1, 0.5, 1.0])


@pytest.mark.parametrize(
    ("a", "f", "grid", "message"),
    [
        (ONES.float(), ONES[0], NODES, "must be float64 .*: got torch.float32"),
        (ONES[0], ONES[0], NODES, r"\(batch, 7, 11\): got .* \(7, 11\)"),
        (ONES.mT, ONES[0], NODES, r"got .* \(2, 11, 7\)"),
        (ONES[:, :3], ONES[0, :3], Grid.uniform((3, 11)), "at least 4 by 4"),
        (ONES[0], ONES[0, 0], Grid.uniform(7), "uniform nodes or cells"),
        (ONES, ONES[0], Grid.uniform((7, 11), kind="periodic"), "uniform nodes or cells"),
        (ONES[:, :4, :4], ONES[0, :4, :4], UNEVEN, "uniform nodes or cells"),
        (ONES, ONES[0].T, NODES, r"source .*: got .*\(11, 7\)"),
        (ONES, torch.ones(3, 7, 11), NODES, r"source .*: got .*\(3, 7, 11\)"),
        (ONES, torch.nan * ONES[0], NODES, "source .*finite"),
    ],
)
def test_refusals(a, f, grid, message):
    with pytest.raises(UsageError, match=message) as error:
        solve_darcy(a, f, grid)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["cells", "nodes"])
def test_both_sine_transforms_solve_poissons_problem(kind):
    """The fast one of the CPU and the dense one of a GPU, against the differences they diagonalise."""
    grid = Grid.uniform((7, 11), kind=kind)
    a = torch.ones(1, *grid.shape, dtype=torch.float64)
    z = torch.rand(1, 5, 9, dtype=torch.float64) if kind == "nodes" else torch.rand_like(a)
    inside = elliptic._Preconditioner(grid, torch.ones_like(z))
    r = elliptic._Stencil(a, grid)(z)
    torch.testing.assert_close(inside(r), z, rtol=1e-5, atol=1e-5)
    inside.sines = tuple(elliptic._sines(n, kind == "nodes").float() for n in grid.shape)
    torch.testing.assert_close(inside(r), z, rtol=1e-5, atol=1e-5)
