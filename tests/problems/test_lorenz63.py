"""Lorenz '63 against DOP853, an exact invariant and the law of its starts; Taylor's method against exact solutions."""

import math
from itertools import pairwise
from math import log2

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.stats import kstest

from operformer.domain import Grid
from operformer.errors import DivergedError, UsageError
from operformer.problems import Lorenz63
from operformer.problems.lorenz63 import taylor

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


def test_agrees_with_dop853(regular):
    unsorted = BOTH.sample(23, Grid.rectilinear(np.random.default_rng(5).uniform(0, 2, 101)), seed=1)
    for samples in (regular, unsorted):
        expected = reference(states(regular)[..., 0], samples.grid.points[:, 0].numpy())
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


@pytest.mark.parametrize("recover", [(), ("x",), ("y", "y"), "y"])
def test_recover_names_what_is_not_observed(recover):
    with pytest.raises(UsageError, match="recover must be"):
        Lorenz63(recover=recover)


def test_constants_too_stiff_for_the_step_are_reported():
    with pytest.raises(
        DivergedError, match=r"sigma=100000, rho=28, beta=2.66667: steps of .* too long .*; try smaller constants"
    ):
        Lorenz63(sigma=1e5, horizon=0.05).sample(3, 5)


# Taylor's method


def logistic(terms):
    """y' = y (1 - y), term by term."""
    return terms[-1] - sum(one * other for one, other in zip(terms, reversed(terms), strict=True))


def logistic_solution(start, times):
    return 1 / (1 + (1 / start - 1) * torch.exp(-times[:, None, None]))


@pytest.fixture
def start():
    return torch.linspace(0.1, 1.7, 15, dtype=torch.float64).reshape(3, 5)


def test_one_step_and_its_middle_by_hand():
    """y' = 1024 y and h = 1/1024: one step is e, half of one its square root."""
    times = torch.tensor([1.0, 0.5, 0.0], dtype=torch.float64) / 1024
    values = taylor(lambda terms: terms[-1] * 1024, torch.ones(1, dtype=torch.float64), times, 2.0**-10, order=18)
    expected = torch.tensor([[math.e], [math.sqrt(math.e)], [1.0]], dtype=torch.float64)
    torch.testing.assert_close(values, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize("order", [3, 5])
@pytest.mark.parametrize("offset", [0.0, 0.3], ids=["at the steps", "between the steps"])
def test_order(start, offset, order, monkeypatch):
    monkeypatch.setattr("operformer.problems.lorenz63.LARGEST_LAST_TERM", 1.0)
    errors = []
    for step in (1 / 16, 1 / 32, 1 / 64):
        times = step * (torch.arange(round(2 / step), dtype=torch.float64) + offset)
        errors.append(
            float((taylor(logistic, start, times, step, order) - logistic_solution(start, times)).abs().max())
        )
    for coarse, fine in pairwise(errors):
        assert log2(coarse / fine) == pytest.approx(order, abs=0.2)


def test_a_series_that_has_not_converged_is_refused(start):
    with pytest.raises(DivergedError, match="steps of 1 are too long"):
        taylor(logistic, start, torch.ones(1, dtype=torch.float64), 1.0, order=5)


def test_a_time_reads_the_same_whatever_the_others_are(start):
    """Times in any order, repeated, at zero, and on both sides of the end of a step."""
    given = start.clone()
    times = torch.rand(17, dtype=torch.float64, generator=torch.Generator().manual_seed(3)) * 2
    times = torch.cat((times, times[4:7], torch.tensor([0.0, 0.25 - 1e-13, 0.25, 0.25 + 1e-13]).double()))
    together = taylor(logistic, start, times, 0.25, order=40)
    for n, time in enumerate(times):
        assert torch.equal(taylor(logistic, start, time[None], 0.25, order=40)[0], together[n])
    torch.testing.assert_close(together, logistic_solution(start, times), rtol=0, atol=1e-8)
    torch.testing.assert_close(together[-3:], together[-2].expand(3, 3, 5), rtol=0, atol=1e-12)
    assert torch.equal(together[-4], given)
    assert torch.equal(start, given)
