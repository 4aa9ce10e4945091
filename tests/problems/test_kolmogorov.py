"""Kolmogorov flow: pairs against an integration of their own, the law of the start, one flow on every grid."""

from dataclasses import replace
from math import pi

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from operformer.domain import Grid
from operformer.domain.interpolation import graded_grid
from operformer.errors import DivergedError, UsageError
from operformer.problems import Kolmogorov
from operformer.problems.vorticity import TORUS, VorticityEquation

# A flow that eleven modes resolve: viscous, from a smooth and strong start.
CHEAP = Kolmogorov(viscosity=0.2, forcing=2, start=0.3, lead=0.2, scale=2e5, tau=2.0, alpha=6.0, n_modes=11, step=0.005)


def slope(omega, m, viscosity, n):
    """d omega / dt at N x N points, in advective form: N > 3 m, wave numbers below m kept."""
    size = len(omega)
    k = np.fft.fftfreq(size, 1 / size)
    kx, ky = k[:, None], k[None, :]
    squares = kx**2 + ky**2
    c = np.fft.fft2(omega) * (np.maximum(np.abs(kx), np.abs(ky)) < m)
    psi = np.divide(c, squares, out=np.zeros_like(c), where=squares > 0)

    def at_points(spectrum):
        return np.fft.ifft2(spectrum).real

    transport = at_points(1j * ky * psi) * at_points(1j * kx * c) - at_points(1j * kx * psi) * at_points(1j * ky * c)
    kept = np.fft.fft2(-transport) * (np.maximum(np.abs(kx), np.abs(ky)) < m)
    y = 2 * pi * np.arange(size) / size
    return at_points(kept - viscosity * squares * c) - n * np.cos(n * y)


def integrate(omega, duration, problem):
    shape = omega.shape

    def rate(_, w):
        return slope(w.reshape(shape), problem.n_modes, problem.viscosity, problem.forcing).ravel()

    end = solve_ivp(rate, (0, duration), omega.ravel(), method="DOP853", rtol=1e-11, atol=1e-11)
    return end.y[:, -1].reshape(shape)


def torus(n):
    return Grid.uniform((n, n), bounds=TORUS, kind="periodic")


@pytest.mark.parametrize("lead", [0.2, 0.2003, 0.0007])
def test_samples_are_related_by_the_flow(lead):
    """Steps are at most `step`, and the lead is met exactly, whether the step divides it or not."""
    problem = replace(CHEAP, lead=lead)
    samples = problem.sample(2, torus(40), seed=1)
    for u, z in zip(samples.u[:, 0].numpy(), samples.z[:, 0].numpy(), strict=True):
        np.testing.assert_allclose(z, integrate(u, lead, problem), rtol=0, atol=1e-8, equal_nan=False)
        assert np.abs(z - u).max() > 0.5 * lead


def test_inputs_have_flown_for_the_time_of_the_start():
    from_rest = replace(CHEAP, start=0.0).sample(2, torus(40), seed=1)
    later = CHEAP.sample(2, torus(40), seed=1)
    for begin, u in zip(from_rest.u[:, 0].numpy(), later.u[:, 0].numpy(), strict=True):
        np.testing.assert_allclose(u, integrate(begin, 0.3, CHEAP), rtol=0, atol=1e-8, equal_nan=False)
    assert float(later.z.mean((2, 3)).abs().max()) < 1e-13


def test_moments_are_single_leads():
    rollout = replace(CHEAP, moments=3).sample(2, torus(13), seed=2)
    assert rollout.z.shape == (2, 3, 13, 13)
    assert replace(CHEAP, moments=3).output_names == ("vorticity_1", "vorticity_2", "vorticity_3")
    for j in range(3):
        one = replace(CHEAP, start=0.3 + 0.2 * j).sample(2, torus(13), seed=2)
        before = rollout.u[:, 0] if j == 0 else rollout.z[:, j - 1]
        torch.testing.assert_close(one.u[:, 0], before, rtol=0, atol=1e-10)
        torch.testing.assert_close(one.z[:, 0], rollout.z[:, j], rtol=0, atol=1e-10)
    longer = replace(CHEAP, lead=0.6).sample(2, torus(13), seed=2)
    torch.testing.assert_close(longer.z[:, 0], rollout.z[:, 2], rtol=0, atol=1e-10)


def test_one_solution_serves_every_grid(monkeypatch):
    problem = replace(CHEAP, moments=2)
    grids = [problem.grid(9), graded_grid(problem.grid(7)), Grid.scattered([[0.1, 6.0], [3.0, 2.0]], bounds=TORUS)]
    expected = [problem.sample(3, grid, seed=5, first=2) for grid in grids]
    solved, solve = [], Kolmogorov._solve
    monkeypatch.setattr(Kolmogorov, "_solve", lambda self, draws, grid: solved.append(1) or solve(self, draws, grid))
    found = list(problem.readings(3, grids, seed=5, first=2))
    assert len(solved) == 1
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one.u, other.u, rtol=0, atol=1e-10 * float(other.u.abs().max()))
        torch.testing.assert_close(one.z, other.z, rtol=0, atol=1e-10 * float(other.z.abs().max()))
        assert torch.equal(one.checks["tail"], other.checks["tail"])
        assert one.grid.shape == other.grid.shape
    with pytest.raises(UsageError, match="must lie in"):
        list(CHEAP.readings(1, [Grid.uniform((4, 4), bounds=[(0, 7), (0, 1)])]))


def test_start_has_the_law_of_the_paper():
    """omega(0) ~ N(0, 7^3 (-Laplace + 49)^-5): E omega(x)^2 = sum_k lambda_k / (2 pi)^2 over k in Z^2 but zero."""
    problem = Kolmogorov(start=0.0, lead=1e-4, step=1e-4, n_modes=41, viscosity=1e-3)
    k = np.arange(-40, 41)
    squares = (k[:, None] ** 2 + k**2).astype(float)
    values = 343 * (squares + 49) ** -5
    values[40, 40] = 0
    norms = (problem.sample(200, torus(83), seed=5).u.square().mean((1, 2, 3)) * (2 * pi) ** 2).numpy()
    error = np.sqrt(2 * (values**2).sum() / 200)
    print(f"E ||omega(0)||^2: {norms.mean():.4e}, exactly {values.sum():.4e}, standard error {error:.1e}")
    assert abs(norms.mean() - values.sum()) < 4 * error
    assert error < 0.02 * values.sum()


@pytest.mark.parametrize(
    "changes", [{"n_modes": 5}, {"viscosity": 1e-3, "start": 2.0}, {"tau": 7.0, "start": 0.0}], ids=str
)
def test_a_flow_that_is_not_resolved_is_reported(changes):
    message = r"not resolved by \d+ modes: .* more than 0.001; set n_modes higher"
    with pytest.raises(DivergedError, match=message) as error:
        replace(CHEAP, **changes).sample(2, 8, seed=1)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_the_default_settings_resolve_the_flow():
    """More modes and half the step change a pair by less than 1e-4 of itself."""
    problem = Kolmogorov()
    begin = problem.equation.spectrum(problem.measure.read(problem.measure.draw(1, seed=0), problem.equation.grid))
    better = VorticityEquation(81, 1 / 70, 4)
    state = better.spectrum(problem.equation.read(begin, better.grid))
    samples = problem.sample(1, 32, seed=0)
    for found, duration in ((samples.u, 11.0), (samples.z, 0.1)):
        state = better.advance(state, duration, round(duration / 0.005))
        expected = better.read(state, problem.grid(32))
        apart = float((found[:, 0] - expected).square().mean().sqrt() / expected.square().mean().sqrt())
        print(f"the default settings are off by {apart:.1e}")
        assert apart < 1e-4


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *[
            ({name: value}, f"{name} must be .*finite: got {value}")
            for name in ("viscosity", "lead", "step", "scale")
            for value in (0.0, -1.0, float("nan"), float("inf"))
        ],
        ({"start": -1.0}, "start must not be negative: got -1.0; the paper has 11"),
        ({"start": float("nan")}, "start must be finite"),
        ({"start": float("inf")}, "start must be finite"),
        ({"moments": 0}, "moments must be at least 1: got 0"),
        ({"forcing": -1}, "forcing must be a wave number below n_modes: got -1 and 54"),
        ({"forcing": 7, "n_modes": 7}, "forcing must be a wave number below n_modes: got 7 and 7"),
        ({"forcing": 0, "n_modes": 1}, "n_modes must be at least 2"),
    ],
)
def test_fields_are_refused(changes, message):
    with pytest.raises(UsageError, match=message) as error:
        Kolmogorov(**changes)
    assert "\n" not in str(error.value)
