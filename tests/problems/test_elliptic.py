"""Darcy's problem against a manufactured solution, a direct solver, finite elements and its symmetries."""

from itertools import pairwise
from math import log2, pi

import numpy as np
import pytest
import skfem
import torch
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from operformer.domain import Grid
from operformer.errors import DivergedError, UsageError
from operformer.problems import Darcy
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


def coordinates(grid):
    return grid.points[..., 0].numpy(), grid.points[..., 1].numpy()


def documented_scheme(a, grid):
    """The matrix of -div(a grad): five points, geometric means, z = 0 at outer nodes or half a step off outer cells."""
    a = np.asarray(a)
    is_node = grid.kind == "nodes"
    number = np.full(a.shape, -1)
    unknown = np.zeros(a.shape, bool)
    unknown[(slice(1, -1),) * 2 if is_node else ...] = True
    number[unknown] = np.arange(unknown.sum())
    rows, columns, values = [], [], []
    for axis in (0, 1):
        lower, upper = grid.bounds[axis]
        n = a.shape[axis]
        h = (upper - lower) / (n - 1 if is_node else n)
        left, right = (np.take(number, index, axis).ravel() for index in (range(n - 1), range(1, n)))
        faces = np.exp(0.5 * (np.log(a.ravel()[_flat(a, axis, 0)]) + np.log(a.ravel()[_flat(a, axis, 1)]))) / h**2
        for here, there in ((left, right), (right, left)):
            own = here >= 0
            rows.append(here[own]), columns.append(here[own]), values.append(faces[own])
            inner = own & (there >= 0)
            rows.append(here[inner]), columns.append(there[inner]), values.append(-faces[inner])
        if not is_node:
            for end in (0, n - 1):
                outermost = np.take(number, end, axis).ravel()
                rows.append(outermost), columns.append(outermost)
                values.append(np.take(a, end, axis).ravel() / (h / 2) / h)
    size = int(unknown.sum())
    triplets = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    return coo_array(triplets, shape=(size, size)).tocsc(), unknown


def _flat(a, axis, offset):
    """The flat indices of the first or of the second neighbour of each face across an axis."""
    n = a.shape[axis]
    return np.take(np.arange(a.size).reshape(a.shape), range(offset, n - 1 + offset), axis).ravel()


def solve_directly(a, f, grid):
    matrix, unknown = documented_scheme(a, grid)
    z = np.zeros(a.shape)
    z[unknown] = splu(matrix).solve(np.broadcast_to(f, a.shape)[unknown])
    return z


def residual(solution, a, f, grid):
    """||f - A z|| / ||f|| of each, by the matrix above."""
    found = []
    for each, z in zip(a.numpy(), solution.z.numpy(), strict=True):
        matrix, unknown = documented_scheme(each, grid)
        right = np.broadcast_to(f, each.shape)[unknown]
        found.append(np.linalg.norm(right - matrix @ z[unknown]) / np.linalg.norm(right))
    return np.array(found)


def exact_z(x, y):
    s, t = (x + 1) / 2, (y - 0.5) / 1.5
    return torch.sin(pi * s) * torch.sin(pi * t) * torch.exp(s - 2 * t) * (1 + s * t**2)


def exact_a(x, y):
    return torch.exp(1.2 * torch.sin(2 * x + 1.5 * y) + 0.7 * x * y)


def manufactured(grid):
    """a, f and z, f by differentiation."""
    x, y = (grid.points[..., k].clone().requires_grad_() for k in (0, 1))
    a, z = exact_a(x, y), exact_z(x, y)
    z_x, z_y = torch.autograd.grad(z.sum(), (x, y), create_graph=True)
    (flux_x,) = torch.autograd.grad((a * z_x).sum(), x, retain_graph=True)
    (flux_y,) = torch.autograd.grad((a * z_y).sum(), y)
    return a.detach(), -(flux_x + flux_y).detach(), z.detach()


def observed_order(errors):
    return [log2(coarse / fine) for coarse, fine in pairwise(errors)]


@both_kinds
def test_second_order_on_a_manufactured_solution(kind):
    """Not square, not symmetric, a box of its own, a coefficient that varies by more than ten."""
    in_maximum, in_mean = [], []
    for factor in (2, 4, 8):
        intervals = (19 * factor, 29 * factor)
        grid = Grid.uniform([n + (kind == "nodes") for n in intervals], bounds=BOX, kind=kind)
        a, f, z = manufactured(grid)
        assert float(a.max() / a.min()) > 10
        error = solve_darcy(a[None], f, grid).z[0] - z
        in_maximum.append(float(error.abs().max()))
        in_mean.append(float((error.square() * grid.weights).sum().sqrt()))
    print(
        f"order of Darcy's solver on {kind}: {observed_order(in_mean)} in L2, {observed_order(in_maximum)} in maximum"
    )
    for order in observed_order(in_mean) + observed_order(in_maximum):
        assert 1.9 < order < 2.1
    assert in_maximum[-1] < 1e-2


@both_kinds
@pytest.mark.parametrize("spread", [0.3, 1.0, 1.5])
def test_agrees_with_a_direct_solver_of_the_documented_scheme(kind, spread):
    grid = Grid.uniform((17, 23), bounds=BOX, kind=kind)
    a = rough(grid, batch=3, spread=spread)
    f = torch.from_numpy(np.random.default_rng(1).standard_normal((3, 17, 23)))
    solution = solve_darcy(a, f, grid)
    for each, right, z in zip(a.numpy(), f.numpy(), solution.z.numpy(), strict=True):
        expected = solve_directly(each, right, grid)
        np.testing.assert_allclose(z, expected, rtol=0, atol=1e-9 * np.abs(expected).max(), equal_nan=False)


def test_one_unknown_in_each_direction_by_hand():
    """4 x 4 nodes: four unknowns, which by symmetry are equal: (2 / h^2) z = 1, h = 1 / 3."""
    grid = Grid.uniform((4, 4))
    z = solve_darcy(torch.full((1, 4, 4), 5.0, dtype=torch.float64), torch.ones(4, 4), grid).z[0]
    expected = torch.zeros(4, 4, dtype=torch.float64)
    expected[1:3, 1:3] = 1 / (2 * 9 * 5)
    torch.testing.assert_close(z, expected, rtol=0, atol=1e-13)


def test_poisson_by_its_series():
    """z(1/2, 1/2) of -Laplace z = 1, from the series of the pressure in a square duct; the error is O(h^2)."""
    odd = range(1, 200, 2)
    series = sum((-1) ** (k // 2) * (1 - 1 / np.cosh(k * pi / 2)) * 4 / (pi * k) ** 3 for k in odd)
    errors = []
    for n in (21, 41, 81):
        z = solve_darcy(torch.ones(1, n, n, dtype=torch.float64), torch.ones(n, n), Grid.uniform((n, n))).z
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
        x, y = coordinates(grid)
        a = torch.from_numpy(smooth((x, y)))
        assert float(a.max() / a.min()) > 10
        expected = (basis.probes(np.stack([x.ravel(), y.ravel()])) @ nodal).reshape(n, n)
        z = solve_darcy(a[None], torch.ones(n, n), grid).z[0].numpy()
        errors.append(np.sqrt(np.square(z - expected).mean() / np.square(expected).mean()))
    print(f"distance from finite elements on {kind}: {[f'{e:.1e}' for e in errors]}, orders {observed_order(errors)}")
    for order in observed_order(errors):
        assert 1.85 < order < 2.15
    assert errors[-1] < 5e-3


@both_kinds
def test_pressure_is_positive_where_there_is_a_source(kind):
    grid = Grid.uniform((17, 23), kind=kind)
    one_source = torch.zeros(17, 23, dtype=torch.float64)
    one_source[3, 5] = 1.0
    everywhere = torch.ones(17, 23, dtype=torch.float64)
    for f in (one_source, everywhere):
        z = solve_darcy(rough(grid, batch=5, seed=2), f, grid).z
        if kind == "nodes":
            faces = (z[:, 0], z[:, -1], z[:, :, 0], z[:, :, -1])
            assert all(bool((face == 0).all()) for face in faces)
            z = z[:, 1:-1, 1:-1]
        assert bool((z > 0).all())
    assert bool((z < 0.5 / float(rough(grid, batch=5, seed=2).min())).all())  # compare with constant a, z <= 1/8 / a


@both_kinds
def test_symmetries_of_the_square(kind):
    grid = Grid.uniform((13, 13), kind=kind)
    a = rough(grid, spread=1.2)
    f = rough(grid, seed=8)[0]
    z = solve_darcy(a, f, grid).z
    for turns in range(4):
        for flips in ((), (-1,)):

            def move(values, turns=turns, flips=flips):
                return values.rot90(turns, (-2, -1)).flip(flips)

            moved = solve_darcy(move(a), move(f), grid).z
            torch.testing.assert_close(moved, move(z), rtol=0, atol=1e-9 * float(z.abs().max()))


@both_kinds
def test_axes_may_be_exchanged(kind):
    grid = Grid.uniform((11, 19), bounds=BOX, kind=kind)
    other = Grid.uniform((19, 11), bounds=BOX[::-1], kind=kind)
    a, f = rough(grid, batch=2), rough(grid, seed=5)[0]
    expected = solve_darcy(a, f, grid).z
    found = solve_darcy(a.mT, f.T, other).z.mT
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9 * float(expected.abs().max()))


@both_kinds
def test_linear_in_the_source_and_inverse_in_the_coefficient(kind):
    grid = Grid.uniform((11, 19), kind=kind)
    a = rough(grid, batch=3)
    f, g = rough(grid, seed=5)[0], torch.sin(rough(grid, seed=6)[0])
    z_f, z_g = (solve_darcy(a, right, grid).z for right in (f, g))
    size = float(z_f.abs().max())
    combined = solve_darcy(a, 3 * f - 5 * g, grid).z
    torch.testing.assert_close(combined, 3 * z_f - 5 * z_g, rtol=0, atol=1e-8 * size)
    for factor in (1e-9, 0.3, 7.0, 1e12):
        scaled = solve_darcy(factor * a, f, grid).z
        torch.testing.assert_close(factor * scaled, z_f, rtol=0, atol=1e-9 * size)


@both_kinds
@pytest.mark.parametrize("factor", [1e-60, 1e-40, 1e-9, 1e9, 1e40, 1e60])
def test_a_source_of_any_size(kind, factor):
    grid = Grid.uniform((11, 19), kind=kind)
    a, f = rough(grid, batch=2), rough(grid, seed=5)[0]
    expected = solve_darcy(a, f, grid).z
    found = solve_darcy(a, factor * f, grid).z / factor
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9 * float(expected.abs().max()))


@both_kinds
def test_no_source_no_pressure(kind):
    grid = Grid.uniform((11, 19), kind=kind)
    a, f = rough(grid, batch=3), rough(grid, seed=5)
    sources = torch.cat([f, torch.zeros_like(f), f])
    solution = solve_darcy(a, sources, grid)
    assert bool((solution.z[1] == 0).all())
    assert float(solution.residuals.max()) <= 1e-10
    alone = solve_darcy(a[2:], f, grid).z[0]
    torch.testing.assert_close(solution.z[2], alone, rtol=0, atol=1e-9 * float(alone.abs().max()))


@both_kinds
def test_a_source_for_each_or_for_all(kind):
    grid = Grid.uniform((11, 19), kind=kind)
    a, f = rough(grid, batch=3), rough(grid, batch=3, seed=5)
    each = solve_darcy(a, f, grid).z
    size = float(each.abs().max())
    for i in range(3):
        torch.testing.assert_close(solve_darcy(a, f[i], grid).z[i], each[i], rtol=0, atol=1e-9 * size)
    assert float((each[0] - solve_darcy(a, f[1], grid).z[0]).abs().max()) > 1e-2 * size


@both_kinds
def test_a_sample_does_not_depend_on_its_company(kind):
    """Hard and easy ones together: those that are done first stand still."""
    grid = Grid.uniform((29, 31), kind=kind)
    easy, hard = torch.full((1, 29, 31), 2.0, dtype=torch.float64), rough(grid, spread=1.3)
    a = torch.cat([easy, hard, rough(grid, seed=4), easy])
    together = solve_darcy(a, torch.ones(29, 31), grid)
    assert int(together.iterations[0]) < int(together.iterations[2]) < int(together.iterations[1])
    for i in range(4):
        alone = solve_darcy(a[i : i + 1], torch.ones(29, 31), grid)
        torch.testing.assert_close(together.z[i], alone.z[0], rtol=0, atol=1e-10 * float(alone.z.abs().max()))
        assert int(together.iterations[i]) == int(alone.iterations[0])


@both_kinds
@pytest.mark.parametrize("coefficient", ["lognormal", "piecewise"])
@pytest.mark.parametrize(("resolution", "count"), [(64, 4), (416, 1)])
def test_the_laws_of_the_paper_are_solved_in_few_iterations(coefficient, kind, resolution, count):
    problem = Darcy(coefficient, points=kind)
    grid = problem.grid(resolution)
    a = problem.measure.read(problem.measure.draw(count, seed=7), grid)
    a = a.exp() if coefficient == "lognormal" else torch.where(a >= 0, 12.0, 3.0).double()
    solution = solve_darcy(a, torch.ones(grid.shape), grid)
    assert int(solution.iterations.max()) < 60
    found = residual(solution, a, 1.0, grid)
    print(f"{coefficient} on {resolution} {kind}: {solution.iterations.tolist()} iterations, residuals {found}")
    assert found.max() <= 1e-10
    np.testing.assert_allclose(solution.residuals.numpy(), found, rtol=0, atol=2e-11, equal_nan=False)


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


@pytest.mark.parametrize(
    ("a", "f", "grid", "message"),
    [
        (torch.ones(2, 7, 11), torch.ones(7, 11), Grid.uniform((7, 11)), "must be float64 .*: got torch.float32"),
        (torch.ones(7, 11).double(), torch.ones(7, 11), Grid.uniform((7, 11)), r"\(batch, 7, 11\): got .* \(7, 11\)"),
        (torch.ones(2, 11, 7).double(), torch.ones(7, 11), Grid.uniform((7, 11)), r"got .* \(2, 11, 7\)"),
        (torch.ones(2, 3, 11).double(), torch.ones(3, 11), Grid.uniform((3, 11)), "at least 4 by 4"),
        (torch.ones(2, 7).double(), torch.ones(7), Grid.uniform(7), "uniform nodes or cells"),
        (
            torch.ones(2, 7, 11).double(),
            torch.ones(7, 11),
            Grid.uniform((7, 11), kind="periodic"),
            "uniform nodes or cells",
        ),
        (
            torch.ones(2, 4, 4).double(),
            torch.ones(4, 4),
            Grid.rectilinear([0.0, 0.1, 0.5, 1.0], [0.0, 0.1, 0.5, 1.0]),
            "uniform nodes or cells",
        ),
        (torch.ones(2, 7, 11).double(), torch.ones(11, 7), Grid.uniform((7, 11)), r"source .*: got .*\(11, 7\)"),
        (torch.ones(2, 7, 11).double(), torch.ones(3, 7, 11), Grid.uniform((7, 11)), r"source .*: got .*\(3, 7, 11\)"),
        (torch.ones(2, 7, 11).double(), torch.full((7, 11), torch.nan), Grid.uniform((7, 11)), "source .*finite"),
        (torch.ones(2, 7, 11).double(), torch.full((7, 11), torch.inf), Grid.uniform((7, 11)), "source .*finite"),
    ],
)
def test_refusals(a, f, grid, message):
    with pytest.raises(UsageError, match=message) as error:
        solve_darcy(a, f, grid)
    assert "\n" not in str(error.value)
