"""Lorenz '63 against DOP853, an exact invariant and the law of its starts."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.stats import kstest

from operformer.domain import Grid
from operformer.errors import DivergedError, UsageError
from operformer.problems import Lorenz63

BOTH = Lorenz63(recover=("y", "z"))


def states(samples):
    return torch.cat((samples.u[:, :1], samples.z), dim=1).numpy()


def reference(starts, times, sigma=10.0, rho=28.0, beta=8 / 3):
    def field(_, state):
        x, y, z = state
        return [sigma * (y - x), x * (rho - z) - y, x * y - beta * z]

    order = np.argsort(times)
    solved = np.empty((len(starts), 3, len(times)))
    for path, start in zip(solved, starts, strict=True):
        solution = solve_ivp(field, (0, 2), start, method="DOP853", rtol=1e-13, atol=1e-13, t_eval=times[order])
        path[:, order] = solution.y
    return solved


@pytest.fixture(scope="module")
def regular():
    return BOTH.sample(23, 197, seed=1)


def test_agrees_with_dop853_on_a_uniform_grid(regular):
    expected = reference(states(regular)[..., 0], regular.grid.points[:, 0].numpy())
    np.testing.assert_allclose(states(regular), expected, rtol=0, atol=1e-8, equal_nan=False)


def test_agrees_with_dop853_at_unsorted_times(regular):
    times = np.random.default_rng(5).uniform(0, 2, 101)
    samples = BOTH.sample(23, Grid.rectilinear(times), seed=1)
    expected = reference(states(regular)[..., 0], times)
    np.testing.assert_allclose(states(samples), expected, rtol=0, atol=1e-8, equal_nan=False)


def test_agrees_with_dop853_for_other_constants():
    constants = {"sigma": 7.0, "rho": 31.0, "beta": 3.0}
    samples = Lorenz63(recover=("y", "z"), horizon=0.5, **constants).sample(5, 41)
    expected = reference(states(samples)[..., 0], samples.grid.points[:, 0].numpy(), **constants)
    np.testing.assert_allclose(states(samples), expected, rtol=0, atol=1e-8, equal_nan=False)


def test_an_exact_invariant():
    """If beta = 2 sigma, then d/dt (x^2 - 2 sigma z) = -2 sigma (x^2 - 2 sigma z)."""
    sigma = 7.0
    samples = Lorenz63(recover=("z",), horizon=0.5, sigma=sigma, rho=31.0, beta=2 * sigma).sample(5, 41)
    quantity = samples.u[:, 0] ** 2 - 2 * sigma * samples.z[:, 0]
    expected = quantity[:, :1] * torch.exp(-2 * sigma * samples.grid.points[:, 0])
    torch.testing.assert_close(quantity, expected, rtol=0, atol=1e-9)


def test_starts_are_uniform_in_their_box():
    starts = states(BOTH.sample(1009, Grid.rectilinear([0.0, 1e-4]), seed=3))[..., 0]
    for values, (lower, upper) in zip(starts.T, [(-15, 15), (-15, 15), (0, 40)], strict=True):
        fractions = (values - lower) / (upper - lower)
        assert kstest(fractions, "uniform").pvalue > 1e-3
        assert 0 <= fractions.min() < 0.01
        assert 0.99 < fractions.max() <= 1
    assert np.abs(np.corrcoef(starts.T) - np.eye(3)).max() < 0.1


def test_channels_are_the_components_asked_for():
    y_and_z = Lorenz63(recover=("y", "z"), horizon=0.1).sample(3, 5)
    z_and_y = Lorenz63(recover=("z", "y"), horizon=0.1).sample(3, 5)
    y_alone = Lorenz63(horizon=0.1).sample(3, 5)
    assert torch.equal(z_and_y.z, y_and_z.z.flip(1))
    assert torch.equal(y_alone.z, y_and_z.z[:, :1])
    assert torch.equal(y_alone.u, y_and_z.u)
    assert bool((y_and_z.z[:, 1, 0] >= 0).all())
    assert not torch.equal(y_and_z.z[:, 0], y_and_z.z[:, 1])


def test_initial_values_are_constant_channels_with_or_without_time_zero():
    problem = Lorenz63(recover=("y", "z"), initial=True, horizon=0.1)
    whole = problem.sample(3, 7)
    late = problem.sample(3, Grid.rectilinear([0.05, 0.1]))
    assert problem.in_channels == whole.u.shape[1] == 3
    for samples in (whole, late):
        assert torch.equal(samples.u[:, 1:], whole.z[..., :1].expand_as(samples.u[:, 1:]))


def test_the_trajectory_does_not_depend_on_the_horizon():
    short = Lorenz63(horizon=0.1).sample(3, 5, seed=2)
    long = Lorenz63(horizon=0.3).sample(3, 15, seed=2)
    torch.testing.assert_close(short.z, long.z[..., :6], rtol=0, atol=1e-12)


@pytest.mark.parametrize("recover", [(), ("x",), ("y", "y"), "y", ["y"]])
def test_recover_names_what_is_not_observed(recover):
    with pytest.raises(UsageError, match=r'tuple of "y", "z" or both: got .*; try \("y",\)$'):
        Lorenz63(recover=recover)


def test_constants_too_stiff_for_the_step_are_reported():
    with pytest.raises(
        DivergedError, match=r"sigma=100000, rho=28, beta=2.66667: steps of .* too long .*; try smaller constants"
    ):
        Lorenz63(sigma=1e5, horizon=0.05).sample(3, 5)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_cuda_draws_the_same_trajectories(regular):
    there = BOTH.sample(23, 197, seed=1, device="cuda")
    assert there.u.device.type == there.z.device.type == there.grid.points.device.type == "cuda"
    torch.testing.assert_close(there.z.cpu(), regular.z, rtol=0, atol=1e-8)
