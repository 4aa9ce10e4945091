"""What every problem promises: one draw for one seed, at every resolution, for every count, on every grid."""

from math import pi

import pytest
import torch

from operformer.domain import Grid, Samples
from operformer.errors import UsageError
from operformer.problems import ControlledODE, Darcy, Kolmogorov, Lorenz63
from operformer.problems.problem import stream

IN_TIME = [Lorenz63(recover=("y", "z"), initial=True, horizon=0.3), ControlledODE(n_terms=7, horizon=0.3)]
IN_SPACE = [
    Darcy(n_modes=5, fine=33),
    Darcy("piecewise", n_modes=5, points="nodes", fine=33),
    Kolmogorov(viscosity=0.2, forcing=2, start=0.05, lead=0.1, scale=2e5, tau=2.0, alpha=6.0, n_modes=11, moments=3),
]
NAMES = ["lognormal", "piecewise", "Kolmogorov"]


def in_time(test):
    return pytest.mark.parametrize("problem", IN_TIME, ids=lambda problem: type(problem).__name__)(test)


def in_space(test):
    return pytest.mark.parametrize("problem", IN_SPACE, ids=NAMES)(test)


def values(samples):
    return torch.cat((samples.u, samples.z), dim=1)


@pytest.mark.parametrize("problem", [Lorenz63(recover=("y", "z")), ControlledODE()], ids=["Lorenz63", "ControlledODE"])
def test_a_seed_is_one_draw_at_every_resolution(problem):
    coarse, middle, fine = (values(problem.sample(3, resolution, seed=5)) for resolution in (50, 100, 200))
    assert fine.shape[-1] == 201
    torch.testing.assert_close(middle, fine[..., ::2], rtol=0, atol=1e-12)
    torch.testing.assert_close(coarse, fine[..., ::4], rtol=0, atol=1e-12)


@in_time
def test_draws_depend_on_seed_and_index_alone(problem):
    seven = values(problem.sample(7, 11, seed=2))
    torch.testing.assert_close(values(problem.sample(3, 11, seed=2)), seven[:3], rtol=0, atol=1e-12)
    torch.testing.assert_close(values(problem.sample(4, 11, seed=2, first=3)), seven[3:], rtol=0, atol=1e-12)
    others = torch.cat((seven, values(problem.sample(5, 11, seed=3)))).flatten(1)
    apart = torch.cdist(others, others) + torch.eye(len(others)) * 1e3
    assert float(apart.min()) > 1e-2


@in_space
def test_draws_in_space_depend_on_seed_and_index_alone(problem):
    """Blocks of four begin at the first draw asked for; Darcy's solver stops at a residual, so digits may differ."""
    eleven = values(problem.sample(11, 13, seed=2))
    torch.testing.assert_close(values(problem.sample(3, 13, seed=2)), eleven[:3], rtol=0, atol=1e-9)
    torch.testing.assert_close(values(problem.sample(6, 13, seed=2, first=5)), eleven[5:], rtol=0, atol=1e-9)
    assert torch.equal(values(problem.sample(11, 13, seed=2)), eleven)
    others = torch.cat((eleven, values(problem.sample(5, 13, seed=3)))).flatten(1)
    apart = torch.cdist(others, others) + torch.eye(len(others)) * 1e3
    assert float(apart.min()) > 1e-2


@in_space
@pytest.mark.parametrize(
    "unit",
    [
        Grid.rectilinear([0.29, 0.01, 1.0, 0.17, 0.0], [0.5, 0.2, 0.9]),
        Grid.scattered([[0.29, 0.5], [0.01, 0.2], [1.0, 1.0], [0.17, 0.0], [0.0, 0.7]]),
        Grid.uniform((11, 7), bounds=[(0.1, 0.2), (0.5, 0.9)]),
        Grid.uniform((23, 29), kind="cells"),
        Grid.uniform((2, 3), kind="periodic"),
    ],
    ids=repr,
)
def test_any_grid_inside_the_box_is_read_on(problem, unit):
    """Values at a point do not depend on the other points of the grid, up to the solver's error in Darcy flow."""
    box = problem.bounds
    places = unit.points.reshape(-1, 2) * (box[0][1] - box[0][0])
    listed = Grid.scattered(places, bounds=box)
    if unit.axes is None:
        grid = listed
    elif unit.kind == "rectilinear":
        grid = Grid.rectilinear(*(axis * box[0][1] for axis in unit.axes), bounds=box)
    else:
        bounds = [(lower * box[0][1], upper * box[0][1]) for lower, upper in unit.bounds]
        grid = Grid.uniform(unit.shape, bounds=bounds, kind=unit.kind)
    samples = problem.sample(2, grid, seed=4)
    assert torch.equal(samples.grid.points, grid.points)
    assert torch.equal(samples.grid.weights, grid.weights)
    assert samples.u.dtype == samples.z.dtype == torch.float64
    assert samples.u.shape == (2, problem.in_channels, *grid.shape)
    assert samples.z.shape == (2, problem.out_channels, *grid.shape)
    assert all(len(check) == 2 for check in samples.checks.values())
    expected = problem.sample(2, listed, seed=4)
    torch.testing.assert_close(samples.u.flatten(2), expected.u, rtol=0, atol=1e-10)
    solved_elsewhere = isinstance(problem, Darcy) and grid.kind == "cells"
    tolerance = 0.15 * float(expected.z.abs().max()) if solved_elsewhere else 1e-10
    torch.testing.assert_close(samples.z.flatten(2), expected.z, rtol=0, atol=tolerance)


@in_space
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count must be at least 1: got 0"),
        ({"seed": -1}, "seed must be from 0 to .*: got -1"),
        ({"first": -2}, "first must not be negative: got -2"),
        ({"resolution": 3}, "resolution must be at least 4: got 3; the paper has .*416"),
        ({"resolution": Grid.uniform((5,))}, "dimension 2: got 1"),
        ({"resolution": Grid.uniform((5, 5, 5))}, "dimension 2: got 3"),
        ({"resolution": Grid.uniform((5, 5), bounds=[(0.0, 1.0), (-0.1, 1.0)])}, r"lie in .*: got \[-0.1, 1\]"),
        ({"resolution": Grid.uniform((5, 5), bounds=[(0.0, 2.1 * pi), (0.0, 1.0)])}, r"lie in .*: got \[0, 6.5"),
    ],
)
def test_sample_in_space_refuses(problem, arguments, message):
    with pytest.raises(UsageError, match=message) as error:
        problem.sample(**{"count": 2, "resolution": 5} | arguments)
    assert "\n" not in str(error.value)


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
def test_any_grid_inside_the_interval_reads_the_same_draw(problem, grid):
    samples = problem.sample(2, grid, seed=4)
    assert torch.equal(samples.grid.points, grid.points)
    assert torch.equal(samples.grid.weights, grid.weights)
    assert samples.u.dtype == samples.z.dtype == torch.float64
    assert samples.u.shape == (2, problem.in_channels, *grid.shape)
    assert samples.z.shape == (2, problem.out_channels, *grid.shape)
    among_hundredths = (100 * grid.points[:, 0]).round().long()
    expected = values(problem.sample(2, 30, seed=4))[..., among_hundredths]
    torch.testing.assert_close(values(samples), expected, rtol=0, atol=1e-12)


def test_readings_are_the_same_draws_on_each_grid():
    problem = ControlledODE()
    grids = [problem.grid(7), problem.irregular_grid(8)]
    for found, grid in zip(problem.readings(3, grids, seed=4, first=2), grids, strict=True):
        assert torch.equal(values(found), values(problem.sample(3, grid, seed=4, first=2)))


def test_grid_has_one_interval_for_each_step():
    grid = Lorenz63(horizon=1.5).grid(3)
    assert grid.points[:, 0].tolist() == [0.0, 0.5, 1.0, 1.5]
    assert grid.weights.tolist() == [0.25, 0.5, 0.5, 0.25]
    assert grid.bounds == ((0.0, 1.5),)


def test_irregular_grid_by_hand():
    grid = Lorenz63().irregular_grid(8)
    assert grid.points[:, 0].tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0]
    assert grid.weights.tolist() == [0.125, 0.25, 0.25, 0.25, 0.375, 0.5, 0.25]


def test_irregular_grid_holds_times_of_the_regular_one():
    problem = ControlledODE(horizon=1.7)
    regular = problem.grid(212).points[:, 0].tolist()
    irregular = problem.irregular_grid(212).points[:, 0].tolist()
    assert irregular == regular[:107] + regular[108::2]
    assert irregular[-1] == 1.7


@in_time
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count must be at least 1: got 0"),
        ({"seed": -1}, "seed must be from 0 to .*: got -1"),
        ({"first": -2}, "first must not be negative: got -2"),
        ({"resolution": 0}, "at least one time step: got 0; the paper has 200"),
        ({"resolution": Grid.uniform((3, 5))}, "dimension 1: got 2"),
        ({"resolution": Grid.uniform((3,))}, r"lie in \[0, 0.3\]: got \[0, 1\]; cut it or change the problem"),
        ({"resolution": Grid.rectilinear([-0.1, 0.2])}, r"lie in \[0, 0.3\]: got \[-0.1, 0.2\]"),
    ],
)
def test_sample_refuses(problem, arguments, message):
    with pytest.raises(UsageError, match=message) as error:
        problem.sample(**{"count": 2, "resolution": 3} | arguments)
    assert "\n" not in str(error.value)


def test_a_time_rounded_past_the_end_is_accepted():
    grid = Grid.rectilinear([0.0, 3 * 0.1])
    assert grid.bounds[0][1] > 0.3
    problem = ControlledODE(horizon=0.3)
    torch.testing.assert_close(problem.sample(2, grid).z, problem.sample(2, 1).z, rtol=0, atol=1e-12)


@pytest.mark.parametrize("resolution", [6, 0, -4])
def test_irregular_grid_refuses(resolution):
    with pytest.raises(UsageError, match=f"divisible by 4: got {resolution}; try 200"):
        Lorenz63().irregular_grid(resolution)


@pytest.mark.parametrize("horizon", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("kind", [Lorenz63, ControlledODE])
def test_horizon_must_be_positive_and_finite(kind, horizon):
    with pytest.raises(UsageError, match=f"horizon must be positive and finite: got {horizon}; the paper has 2"):
        kind(horizon=horizon)


def test_samples_are_cut_together():
    grid = Grid.uniform((7,))
    u = torch.arange(5 * 2 * 7, dtype=torch.float64).reshape(5, 2, 7)
    samples = Samples(u, -u[:, :1], grid)
    part = samples[1:4]
    assert len(samples) == 5
    assert len(part) == 3
    assert torch.equal(part.u, u[1:4])
    assert torch.equal(part.z, -u[1:4, :1])
    assert torch.equal(samples[torch.tensor([4, 0])].u, u[[4, 0]])
    assert part.grid is grid


@pytest.mark.parametrize(
    ("u_shape", "z_shape", "message"),
    [
        ((5, 2, 3), (5, 1, 7), r"u must be \(count, channels, 7\): got \(5, 2, 3\)"),
        ((5, 2, 7), (5, 7), r"z must be \(count, channels, 7\): got \(5, 7\)"),
        ((5, 2, 7), (3, 1, 7), "as many samples as each other: got 5 and 3"),
    ],
)
def test_samples_must_fit_their_grid(u_shape, z_shape, message):
    with pytest.raises(UsageError, match=message):
        Samples(torch.zeros(u_shape), torch.zeros(z_shape), Grid.uniform((7,)))


def test_streams_are_repeatable_and_apart():
    numbers = {(seed, index): stream(seed, index).random() for seed in range(11) for index in range(13)}
    assert len(set(numbers.values())) == 11 * 13
    assert stream(3, 5).random() == numbers[3, 5]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@in_space
def test_cuda_draws_the_same_functions(problem):
    here, there = problem.sample(3, 16, seed=4), problem.sample(3, 16, seed=4, device="cuda").to("cpu")
    torch.testing.assert_close(values(there), values(here), rtol=0, atol=1e-9 * float(values(here).abs().max()))
