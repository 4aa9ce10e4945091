"""The vorticity equation against exact flows, another discretisation and another library's trajectory."""

from itertools import pairwise
from math import exp, log2, pi
from pathlib import Path

import numpy as np
import pytest
import torch

from operformer.domain import Grid
from operformer.errors import DivergedError, UsageError
from operformer.problems.vorticity import TORUS, VorticityEquation

REFERENCE = Path(__file__).parent / "reference" / "kolmogorov_exponax.npz"
# Waves (k_x, k_y, amplitude, phase): one of each pair k, -k.
GENERIC = [(1, 0, 1.0, 0.3), (2, 1, 1.5, 1.1), (-1, 2, 2.0, 2.0), (0, 3, 1.2, 0.7), (3, 2, 0.8, 4.0), (-3, 1, 0.6, 5.0)]
SHELL_25 = [(5, 0, 2.0, 0.3), (0, 5, 1.0, 1.1), (3, 4, 3.0, 2.0), (-3, 4, 1.7, 0.4), (4, 3, 2.2, 5.0)]
SHELL_65 = [(8, 1, 2.0, 0.2), (-1, 8, 3.0, 1.0), (7, 4, 1.0, 2.2), (-4, 7, 2.0, 3.1), (-8, 1, 1.5, 0.9)]
SHEAR = [(2, 1, 2.0, 0.3), (4, 2, 3.0, 1.7), (6, 3, 1.0, 4.4)]
TRANSVERSE = [(0, 1, 2.0, 0.3), (0, 2, 3.0, 1.7), (0, 7, 1.0, 4.4)]


def sum_of_waves(waves, x, y):
    return sum(a * np.cos(kx * x + ky * y + phase) for kx, ky, a, phase in waves)


def points_of(grid):
    return grid.points[..., 0].numpy(), grid.points[..., 1].numpy()


def start(equation, *flows):
    return equation.spectrum(torch.from_numpy(np.stack([sum_of_waves(w, *points_of(equation.grid)) for w in flows])))


def values(equation, state, n=31):
    return equation.read(state, Grid.uniform((n, n + 6), bounds=TORUS, kind="cells")).numpy()


def expected_values(waves, n=31):
    return sum_of_waves(waves, *points_of(Grid.uniform((n, n + 6), bounds=TORUS, kind="cells")))


class Flow:
    """The equation in numpy: u . grad omega in advective form, on 4 m points a side, all wave numbers in full."""

    def __init__(self, m, viscosity, forcing):
        self.n, self.viscosity = 4 * m, viscosity
        k = np.fft.fftfreq(self.n, 1 / self.n)
        self.kx, self.ky = k[:, None], k[None, :]
        self.kept = np.maximum(np.abs(self.kx), np.abs(self.ky)) < m
        self.squares = self.kx**2 + self.ky**2
        self.inverse = np.divide(1, self.squares, out=np.zeros_like(self.squares), where=self.squares > 0)
        y = 2 * pi * np.arange(self.n) / self.n
        self.force = np.fft.fft2(np.broadcast_to(-forcing * np.cos(forcing * y), (self.n, self.n))) / self.n**2

    def full(self, state):
        """One state of the library (points, m) as coefficients of all wave numbers."""
        c, m = np.zeros((self.n, self.n), complex), state.shape[1]
        for kx in range(-m + 1, m):
            for ky in range(m):
                c[kx, ky] = state[kx, ky]
                c[-kx, -ky] = np.conj(state[kx, ky])
        return c

    def at_points(self, c):
        found = np.fft.ifft2(c) * self.n**2
        assert np.abs(found.imag).max() <= 1e-12 * max(1, np.abs(found.real).max())
        return found.real

    def slope(self, c):
        psi = self.inverse * c
        u, v = self.at_points(1j * self.ky * psi), self.at_points(-1j * self.kx * psi)
        transport = u * self.at_points(1j * self.kx * c) + v * self.at_points(1j * self.ky * c)
        return self.kept * (self.force - np.fft.fft2(transport) / self.n**2)

    def step(self, c, dt):
        """The classical Runge-Kutta method for w = exp(nu k^2 t) c: w' = exp(nu k^2 t) slope(exp(-nu k^2 t) w)."""

        def decayed(t):
            return np.exp(-self.viscosity * self.squares * t)

        def rate(t, w):
            return self.slope(decayed(t) * w) / decayed(t)

        k1 = rate(0, c)
        k2 = rate(dt / 2, c + dt / 2 * k1)
        k3 = rate(dt / 2, c + dt / 2 * k2)
        k4 = rate(dt, c + dt * k3)
        return decayed(dt) * (c + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4))


def test_spectrum_by_hand():
    equation = VorticityEquation(n_modes=5, viscosity=0.1, forcing=0)
    x, y = points_of(equation.grid)
    beyond = np.cos(5 * x) + np.sin(6 * y) + np.cos(7 * x + y) + np.cos(4 * x - 5 * y)
    kept = 7 + 2 * np.cos(3 * x - 2 * y) + 6 * np.sin(4 * y) + 5 * np.cos(x)
    state = equation.spectrum(torch.from_numpy(kept + beyond)[None])
    expected = np.zeros((1, 16, 5), complex)
    expected[0, -3, 2] = 1.0  # cos(3 x - 2 y) = cos(-3 x + 2 y)
    expected[0, 0, 4] = -3j
    expected[0, 1, 0] = expected[0, -1, 0] = 2.5
    np.testing.assert_allclose(state.numpy(), expected, rtol=0, atol=1e-14, equal_nan=False)
    assert state.dtype == torch.complex128


@pytest.mark.parametrize(
    "grid",
    [
        Grid.uniform((5, 7), bounds=TORUS),
        Grid.uniform((43, 3), bounds=TORUS, kind="cells"),
        Grid.uniform((11, 6), bounds=TORUS, kind="periodic"),
        Grid.rectilinear([6.2, 0.0, 1.1], [0.3, 5.5, 2.0, 0.1], bounds=TORUS),
        Grid.scattered(np.random.default_rng(0).uniform(0, 2 * pi, (17, 2)), bounds=TORUS),
    ],
    ids=repr,
)
def test_reading_is_exact_on_any_grid(grid):
    equation = VorticityEquation(n_modes=9, viscosity=0.1)
    found = equation.read(start(equation, GENERIC, SHELL_65, SHELL_25), grid).numpy()
    expected = np.stack([sum_of_waves(waves, *points_of(grid)) for waves in (GENERIC, SHELL_65, SHELL_25)])
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, equal_nan=False)


@pytest.mark.parametrize("m", [10, 11])
@pytest.mark.parametrize(
    ("forcing", "waves"),
    [
        (0, SHELL_25),
        (0, SHELL_65),
        (0, SHEAR),
        (0, TRANSVERSE),
        (4, TRANSVERSE),
        (3, []),
        (5, SHELL_25),
        (1, TRANSVERSE),
    ],
)
def test_flows_without_transport(forcing, waves, m):
    """If all |k|^2 are K, then psi = omega / K and u . grad omega = psi_y omega_x - psi_x omega_y = 0; in a shear flow
    both depend on one k . x alone. So each wave decays by exp(-nu |k|^2 t), and the force, if it is of the same length
    or direction, adds -(1 - exp(-nu n^2 t)) cos(n y) / (nu n)."""
    nu, t = 0.02, 1.5
    equation = VorticityEquation(m, viscosity=nu, forcing=forcing)
    found = values(equation, equation.advance(start(equation, [*waves, (0, 0, 1.0, 0.0)]), t, 200))[0]
    exact = [(kx, ky, a * exp(-nu * (kx**2 + ky**2) * t), phase) for kx, ky, a, phase in waves]
    if forcing:
        exact.append((0, forcing, -(1 - exp(-nu * forcing**2 * t)) / (nu * forcing), 0.0))
    np.testing.assert_allclose(found, expected_values(exact), rtol=0, atol=1e-10, equal_nan=False)


def test_forced_without_viscosity():
    """From rest, omega = -n t cos(n y)."""
    equation = VorticityEquation(7, viscosity=0.0, forcing=3)
    end = equation.advance(torch.zeros(1, 20, 7, dtype=torch.complex128), 2.0, 7)
    np.testing.assert_allclose(values(equation, end)[0], expected_values([(0, 3, -6.0, 0.0)]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("m", [7, 8])
@pytest.mark.parametrize(("viscosity", "forcing"), [(0.03, 4), (0.0, 0), (0.2, 1)])
def test_steps_agree_with_the_advective_form(m, viscosity, forcing):
    """A full spectrum, so that most products fall on wave numbers that are not kept."""
    equation, flow = VorticityEquation(m, viscosity, forcing), Flow(m, viscosity, forcing)
    numbers = np.random.default_rng(m).standard_normal((1, *equation.grid.shape))
    state = equation.spectrum(torch.from_numpy(3 * numbers))
    expected = flow.full(state[0].numpy())
    for _ in range(3):
        expected = flow.step(expected, 0.05)
    found = flow.full(equation.advance(state, 0.15, 3)[0].numpy())
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, equal_nan=False)
    assert np.abs(found - flow.full(state[0].numpy())).max() > 1e-2


def test_fourth_order_in_time():
    equation = VorticityEquation(13, viscosity=0.05, forcing=4)
    state = start(equation, GENERIC)
    ends = [values(equation, equation.advance(state, 1.0, steps)) for steps in (40, 80, 160, 320)]
    differences = [np.abs(fine - coarse).max() for coarse, fine in pairwise(ends)]
    orders = [log2(coarse / fine) for coarse, fine in pairwise(differences)]
    print(f"order in time: {orders}, differences {differences}")
    for order in orders:
        assert 3.9 < order < 4.1
    assert 1e-13 < differences[-1] < 1e-5


def test_agrees_with_the_trajectory_of_another_library():
    with np.load(REFERENCE) as file:
        times, omega, viscosity = file["times"], file["omega"], float(file["viscosity"])
    assert viscosity == 1 / 40
    equation = VorticityEquation(48, viscosity, forcing=4)
    grid = Grid.uniform((32, 32), bounds=TORUS, kind="periodic")

    def given(x, y):
        waves = np.cos(x) + 2 * np.sin(2 * y) * np.cos(x - 1) + 0.5 * np.sin(3 * x + y) + np.cos(2 * x - 3 * y + 0.4)
        return torch.from_numpy(waves)[None]

    np.testing.assert_allclose(given(*points_of(grid))[0], omega[0], rtol=0, atol=1e-12, equal_nan=False)
    state = equation.spectrum(given(*points_of(equation.grid)))
    for (before, now), expected in zip(pairwise(times), omega[1:], strict=True):
        state = equation.advance(state, now - before, round((now - before) * 128))
        found = equation.read(state, grid)[0].numpy()
        print(f"distance from exponax at {now}: {np.abs(found - expected).max():.1e}")
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6, equal_nan=False)
    assert np.abs(omega[-1] - omega[0]).max() > 1


def test_each_of_a_batch_flows_by_itself_and_two_legs_are_one_way():
    equation = VorticityEquation(9, viscosity=0.05, forcing=4)
    state = start(equation, [*GENERIC, (0, 0, 3.0, 0.0)], SHELL_25, SHEAR)
    before = state.clone()
    together = equation.advance(state, 0.3, 6)
    assert torch.equal(state, before)
    assert bool((together[:, 0, 0] == 0).all())  # the mean
    for i in range(3):
        torch.testing.assert_close(equation.advance(state[i : i + 1], 0.3, 6)[0], together[i], rtol=0, atol=1e-13)
    halfway = equation.advance(state, 0.1, 2)
    torch.testing.assert_close(equation.advance(halfway, 0.2, 4), together, rtol=0, atol=1e-12)


def test_tail_is_the_share_of_the_outermost_wave_numbers():
    """|k| >= 7 for m = 8; the corners of the square of wave numbers lie outermost of all."""
    equation = VorticityEquation(n_modes=8, viscosity=0.1)
    state = torch.zeros(7, 24, 8, dtype=torch.complex128)
    state[:, 1, 0] = state[:, -1, 0] = 4.0
    for i, (kx, ky) in enumerate([(0, 7), (-7, 2), (6, 3), (5, 5), (6, 4), (7, 7)]):
        state[i, kx, ky] = 1j * (i + 1)
    expected = torch.tensor([1 / 4, 2 / 4, 0, 4 / 4, 5 / 5, 6 / 6, 0], dtype=torch.float64)
    torch.testing.assert_close(equation.tail(state), expected, rtol=0, atol=1e-15)
    assert float(equation.tail(torch.zeros_like(state)).max()) == 0


def test_steps_that_are_too_long_or_none_are_reported():
    equation = VorticityEquation(11, viscosity=1e-3, forcing=4)
    with pytest.raises(DivergedError, match="not finite after 40 steps of 5 with 11 modes; take shorter steps"):
        equation.advance(start(equation, GENERIC), 200.0, 40)
    with pytest.raises(UsageError, match="steps must be at least 1: got 0"):
        equation.advance(start(equation, GENERIC), 1.0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((4, 0.1, 4), "forcing must be a wave number below n_modes: got 4 and 4"),
        ((7, 0.1, -4), "forcing must be a wave number below n_modes: got -4 and 7"),
        ((1, 0.1, 0), "n_modes must be at least 2: got 1"),
        ((7, -0.1, 0), "viscosity must not be negative"),
        ((7, float("nan"), 0), "viscosity must not be negative"),
        ((7, float("inf"), 0), "viscosity must not be negative"),
    ],
)
def test_an_equation_that_would_be_another_one_is_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        VorticityEquation(*arguments)
