"""What every problem promises: a seed and an index are one sample, at every resolution and count, on every grid."""

from math import pi

import pytest
import torch

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.problems import LAWS, ControlledODE, Darcy, Kolmogorov, Lorenz63, describe, problem_of
from operformer.problems.problem import Draws, stream

CPU = torch.device("cpu")
IN_TIME = [Lorenz63(recover=("y", "z"), initial=True, horizon=0.3), ControlledODE(n_terms=7, horizon=0.3)]
FLOW = Kolmogorov(viscosity=0.2, forcing=2, start=0.05, lead=0.1, scale=2e5, tau=2.0, alpha=6.0, n_modes=11, moments=3)
IN_SPACE = [Darcy(n_modes=5, fine=33), Darcy("piecewise", n_modes=5, points="nodes", fine=33), FLOW]
NAMES = ["Lorenz63", "ControlledODE", "lognormal", "piecewise", "Kolmogorov"]
in_time = pytest.mark.parametrize("problem", IN_TIME, ids=NAMES[:2])
in_space = pytest.mark.parametrize("problem", IN_SPACE, ids=NAMES[2:])
everywhere = pytest.mark.parametrize("problem", IN_TIME + IN_SPACE, ids=NAMES)


def values(samples):
    return torch.cat((samples.u, samples.z), dim=1)


@pytest.mark.parametrize("problem", [Lorenz63(recover=("y", "z")), ControlledODE()], ids=NAMES[:2])
def test_a_seed_is_one_sample_at_every_resolution(problem):
    coarse, middle, fine = (values(problem.sample(3, resolution, seed=5)) for resolution in (50, 100, 200))
    assert fine.shape[-1] == 201
    torch.testing.assert_close(middle, fine[..., ::2], rtol=0, atol=1e-12)
    torch.testing.assert_close(coarse, fine[..., ::4], rtol=0, atol=1e-12)


@everywhere
def test_samples_depend_on_seed_and_index_alone(problem):
    """Blocks in space begin at the first asked for; Darcy's solver stops at a residual, so digits may differ."""
    eleven, atol = values(problem.sample(11, 13, seed=2)), 1e-12 if problem in IN_TIME else 1e-9
    torch.testing.assert_close(values(problem.sample(3, 13, seed=2)), eleven[:3], rtol=0, atol=atol)
    torch.testing.assert_close(values(problem.sample(6, 13, seed=2, first=5)), eleven[5:], rtol=0, atol=atol)
    assert torch.equal(values(problem.sample(11, 13, seed=2)), eleven)
    others = torch.cat((eleven, values(problem.sample(5, 13, seed=3)))).flatten(1)
    assert float((torch.cdist(others, others) + torch.eye(len(others)) * 1e3).min()) > 1e-2


def assert_read_on(problem, samples, grid):
    assert torch.equal(samples.grid.points, grid.points)
    assert torch.equal(samples.grid.weights, grid.weights)
    assert samples.u.dtype == samples.z.dtype == torch.float64
    assert samples.u.shape == (2, problem.in_channels, *grid.shape)
    assert samples.z.shape == (2, problem.out_channels, *grid.shape)
    assert all(len(check) == 2 for check in samples.checks.values())


@in_space
@pytest.mark.parametrize("kind", ["rectilinear", "scattered", "nodes", "cells", "periodic"])
def test_any_grid_inside_the_box_is_read_on(problem, kind):
    """Values at a point do not depend on the other points of the grid, up to the solver's error in Darcy flow."""
    side = problem.bounds[0][1]
    unit = {
        "rectilinear": Grid.rectilinear([0.29, 0.01, 1.0, 0.17, 0.0], [0.5, 0.2, 0.9]),
        "scattered": Grid.scattered([[0.29, 0.5], [0.01, 0.2], [1.0, 1.0], [0.17, 0.0], [0.0, 0.7]]),
    }
    if kind in unit:
        listed = Grid.scattered(unit[kind].points.reshape(-1, 2) * side, bounds=problem.bounds)
        axes = unit[kind].axes
        grid = Grid.rectilinear(*(axis * side for axis in axes), bounds=problem.bounds) if axes else listed
    else:
        part = [(0.1 * side, 0.2 * side), (0.5 * side, 0.9 * side)] if kind == "nodes" else problem.bounds
        grid = Grid.uniform({"nodes": (11, 7), "cells": (23, 29), "periodic": (2, 3)}[kind], part, kind)
        listed = Grid.scattered(grid.points.reshape(-1, 2), bounds=problem.bounds)
    samples, expected = (problem.sample(2, points, seed=4) for points in (grid, listed))
    assert_read_on(problem, samples, grid)
    torch.testing.assert_close(samples.u.flatten(2), expected.u, rtol=0, atol=1e-10)
    solved_elsewhere = isinstance(problem, Darcy) and kind == "cells"
    tolerance = 0.15 * float(expected.z.abs().max()) if solved_elsewhere else 1e-10
    torch.testing.assert_close(samples.z.flatten(2), expected.z, rtol=0, atol=tolerance)


@in_time
@pytest.mark.parametrize(
    "grid",
    [
        Grid.rectilinear([0.29, 0.01, 0.3, 0.17, 0.0, 0.02, 0.11]),
        Grid.scattered([[0.29], [0.01], [0.3], [0.17], [0.0], [0.02], [0.11]], bounds=[(0.0, 0.3)]),
        Grid.uniform((11,), bounds=[(0.1, 0.2)]),
        Grid.uniform((5,), bounds=[(0.0, 0.3)], kind="cells"),
        Grid.uniform((3,), bounds=[(0.0, 0.3)], kind="periodic"),
    ],
    ids=repr,
)
def test_any_grid_inside_the_interval_reads_the_same_functions(problem, grid):
    samples = problem.sample(2, grid, seed=4)
    assert_read_on(problem, samples, grid)
    among_hundredths = (100 * grid.points[:, 0]).round().long()
    expected = values(problem.sample(2, 30, seed=4))[..., among_hundredths]
    torch.testing.assert_close(values(samples), expected, rtol=0, atol=1e-12)


def test_readings_are_the_same_samples_on_each_grid():
    problem = ControlledODE()
    grids = [problem.grid(7), problem.irregular_grid(8)]
    for found, grid in zip(problem.readings(3, grids, seed=4, first=2), grids, strict=True):
        assert torch.equal(values(found), values(problem.sample(3, grid, seed=4, first=2)))


PLANE = Grid.uniform((5, 5), bounds=[(0.0, 1.0), (-0.1, 1.0)])
LARGE = Grid.uniform((5, 5), bounds=[(0.0, 2.1 * pi), (0.0, 1.0)])


@pytest.mark.parametrize(
    ("problems", "arguments", "message"),
    [
        (IN_TIME + IN_SPACE, {"count": 0}, "count must be a whole number of at least 1: got 0"),
        (IN_TIME + IN_SPACE, {"seed": -1}, "seed must be from 0 to .*: got -1"),
        (IN_TIME + IN_SPACE, {"first": -2}, "first must be a whole number of at least 0: got -2"),
        (IN_SPACE, {"resolution": 3}, "resolution must be at least 4: got 3; the paper has .*416"),
        (IN_SPACE, {"resolution": Grid.uniform((5,))}, "dimension 2: got 1"),
        (IN_SPACE, {"resolution": PLANE}, r"lie in .*: got \[-0.1, 1\]"),
        (IN_SPACE, {"resolution": LARGE}, r"lie in .*: got \[0, 6.5"),
        (IN_TIME, {"resolution": 0}, "at least one time step: got 0; the paper has 200"),
        (IN_TIME, {"resolution": Grid.uniform((3, 5))}, "dimension 1: got 2"),
        (IN_TIME, {"resolution": Grid.uniform((3,))}, r"lie in \[0, 0.3\]: got \[0, 1\]; cut it or change the problem"),
    ],
)
def test_sample_refuses(problems, arguments, message):
    for problem in problems:
        with pytest.raises(UsageError, match=message) as error:
            problem.sample(**{"count": 2, "resolution": 5} | arguments)
        assert "\n" not in str(error.value)


# Grids and plain values


def test_grids_in_time_by_hand():
    grid = Lorenz63(horizon=1.5).grid(3)
    assert grid.points[:, 0].tolist() == [0.0, 0.5, 1.0, 1.5]
    assert grid.weights.tolist() == [0.25, 0.5, 0.5, 0.25]
    irregular = Lorenz63().irregular_grid(8)
    assert irregular.points[:, 0].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
    assert irregular.weights.tolist() == [0.125, 0.25, 0.25, 0.25, 0.375, 0.5, 0.25]
    problem = ControlledODE(horizon=1.7)
    regular, irregular = problem.grid(212).points[:, 0].tolist(), problem.irregular_grid(212).points[:, 0].tolist()
    assert irregular == regular[:107] + regular[108::2]  # the same numbers, without rounding
    assert problem.graded_grid(2).points[:, 0].tolist() == pytest.approx([0, 1.7 / 4, 1.7])
    with pytest.raises(UsageError, match="divisible by 4: got 6; try 200"):
        problem.irregular_grid(6)


@pytest.mark.parametrize(
    ("problem", "resolution", "irregular"),
    [
        (ControlledODE(), 8, ["irregular", "graded"]),
        (ControlledODE(), 10, []),
        (Darcy(), 8, ["graded"]),
        (FLOW, 8, ["graded"]),
    ],
    ids=str,
)
def test_grids_of_an_evaluation(problem, resolution, irregular):
    grids = problem.evaluation_grids(resolution)
    assert list(grids) == ["0.5x", "0.75x", "1x", "1.5x", "2x", *irregular]
    assert grids["1x"].shape == problem.grid(resolution).shape
    assert all(grids[label].kind == "rectilinear" for label in irregular)


def test_laws_of_tests_and_of_rollouts():
    assert [Darcy(fine=fine).for_tests(16).fine for fine in (20, 50, 513)] == [33, 50, 65]
    assert Darcy(read_from=421).for_tests(16) == Darcy(read_from=421)
    assert Lorenz63().for_tests(16) == Lorenz63()
    assert Lorenz63().followed(3) is FLOW.followed(3) is None
    (law, finer), times = Kolmogorov(n_modes=20, step=0.05).followed(3)
    assert (law.moments, law.n_modes, law.step) == (3, 20, 0.05)
    assert (finer.moments, finer.n_modes, finer.step) == (3, 54, 0.01)
    assert times == pytest.approx([0.1, 0.2, 0.3])


def test_a_time_rounded_past_the_end_is_accepted():
    grid = Grid.rectilinear([0.0, 3 * 0.1])
    assert grid.bounds[0][1] > 0.3
    problem = ControlledODE(horizon=0.3)
    torch.testing.assert_close(problem.sample(2, grid).z, problem.sample(2, 1).z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("horizon", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [Lorenz63, ControlledODE])
def test_horizon_must_be_positive_and_finite(kind, horizon):
    with pytest.raises(UsageError, match=f"horizon must be .*finite: got {horizon}"):
        kind(horizon=horizon)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_plain_values_describe_a_problem(law):
    assert problem_of(describe(law)) == law


def test_streams_are_repeatable_and_apart():
    numbers = {(seed, index): stream(seed, index).random() for seed in range(11) for index in range(13)}
    assert len(set(numbers.values())) == 11 * 13
    assert stream(3, 5).random() == numbers[3, 5]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@everywhere
def test_cuda_draws_the_same_functions(problem):
    here, there = problem.sample(3, 16, seed=4), problem.sample(3, 16, seed=4, device="cuda").to("cpu")
    torch.testing.assert_close(values(there), values(here), rtol=0, atol=1e-9 * float(values(here).abs().max()))


# Draws that are remembered


@pytest.fixture
def calls(monkeypatch):
    """(problem, count, shape) of everything that was solved."""
    found = []
    for kind in (ControlledODE, Lorenz63):

        def solve(problem, draws, grid, of_kind=kind._solve):
            found.append((type(problem).__name__, len(draws), grid.shape))
            return of_kind(problem, draws, grid)

        monkeypatch.setattr(kind, "_solve", solve)
    return found


def test_remembered_samples_are_those_of_the_problem_and_only_missing_grids_are_solved(calls):
    problem, draws = ControlledODE(), Draws(kept=5)
    grids = [problem.grid(n) for n in (6, 8, 10)]
    list(draws.readings(problem, 4, grids[:2], 0, CPU, 5))
    calls.clear()
    found = list(draws.readings(problem, 4, grids, 0, CPU, 5))
    assert calls == [("ControlledODE", 4, (11,))]
    for samples, grid in zip(found, grids, strict=True):
        assert torch.equal(values(samples), values(problem.sample(4, grid, 0, CPU, 5)))
    single = draws.sample(problem, 4, 10, 0, CPU, 5)
    assert torch.equal(values(single), values(found[-1]).float())


def test_everything_that_makes_a_difference_is_told_apart(calls):
    draws, problem = Draws(kept=20), ControlledODE()
    different = [
        (problem, 3, 8, 0, CPU, 0),
        (problem, 4, 8, 0, CPU, 0),
        (problem, 3, 9, 0, CPU, 0),
        (problem, 3, 8, 1, CPU, 0),
        (problem, 3, 8, 0, CPU, 1),
        (ControlledODE(decay=1.0), 3, 8, 0, CPU, 0),
        (Lorenz63(), 3, 8, 0, CPU, 0),
    ]
    for call in different:
        draws.sample(*call)
    assert len(calls) == len(different)
    double, irregular = draws.readings(problem, 3, [problem.grid(8), problem.graded_grid(8)], 0, CPU)
    assert double.u.dtype == torch.float64  # a set in float32 is another one
    assert torch.equal(irregular.grid.points, problem.graded_grid(8).points)


@pytest.mark.parametrize(("kept", "solved"), [(0, 4), (1, 4), (2, 2)])
def test_the_oldest_set_is_forgotten_first(calls, kept, solved):
    draws = Draws(kept)
    for n in (8, 10, 8, 10):
        draws.sample(ControlledODE(), 2, n, 0, CPU)
    assert len(calls) == solved


def test_a_set_that_is_pushed_out_while_others_are_read_is_still_given(calls):
    problem, draws = ControlledODE(), Draws(kept=1)
    grids = [problem.grid(n) for n in (6, 8)]
    list(draws.readings(problem, 2, grids[1:], 0, CPU))
    found = list(draws.readings(problem, 2, grids, 0, CPU))
    assert [samples.grid.shape for samples in found] == [(7,), (9,)]
    assert len(calls) == 2
