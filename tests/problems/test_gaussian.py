"""Gaussian measures against their covariances, written out as sums over eigenfunctions."""

from itertools import product
from math import pi, prod

import numpy as np
import pytest
import torch

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.problems.gaussian import GaussianMeasure

TORUS = ((0.0, 2 * pi), (0.0, 2 * pi))
DRAWS = 4001
NEUMANN = GaussianMeasure(scale=7.0, tau=3.0, alpha=2.0, n_modes=4)
PERIODIC = GaussianMeasure(scale=5.0, tau=2.0, alpha=1.5, n_modes=3, boundary="periodic", bounds=TORUS)
MEASURES = [
    NEUMANN,
    PERIODIC,
    GaussianMeasure(2.0, 1.5, 1.3, 5, "neumann", ((-1.0, 2.0),)),
    GaussianMeasure(2.0, 1.5, 1.3, 4, "periodic", ((-1.0, 2.0),)),
    GaussianMeasure(3.0, 2.0, 2.5, 3, "neumann", ((0.0, 0.5), (-1.0, 2.0), (1.0, 3.0))),
    GaussianMeasure(3.0, 2.0, 2.5, 2, "periodic", ((0.0, 0.5), (-1.0, 2.0), (1.0, 3.0))),
]
every = pytest.mark.parametrize("measure", MEASURES, ids=lambda m: f"{m.boundary}-{len(m.bounds)}d")


def power_of_laplacian(measure, wave_vector):
    return measure.scale * (np.square(wave_vector).sum() + measure.tau**2) ** -measure.alpha


def exact_covariance(measure, x):
    """sum_k lambda_k phi_k(x_i) phi_k(x_j), phi_k orthonormal in L2(D): (N, d) -> (N, N)."""
    m, bounds = measure.n_modes, measure.bounds
    lower = np.array([low for low, _ in bounds])
    lengths = np.array([high - low for low, high in bounds])
    total = np.zeros((len(x), len(x)))
    if measure.boundary == "neumann":
        for k in product(range(m), repeat=len(bounds)):
            if any(k):
                wave = pi * np.array(k) / lengths
                phi = np.cos((x - lower) * wave).prod(1) * np.sqrt(2.0 ** sum(kj > 0 for kj in k) / prod(lengths))
                total += power_of_laplacian(measure, wave) * np.outer(phi, phi)
    else:
        difference = x[:, None] - x
        for k in product(range(-m + 1, m), repeat=len(bounds)):
            if any(k):  # (cos k.x cos k.y + sin k.x sin k.y) 2 / |D|, for one of k and -k
                wave = 2 * pi * np.array(k) / lengths
                total += power_of_laplacian(measure, wave) * np.cos(difference @ wave) / prod(lengths)
    return total


def points_inside(measure, count):
    return np.stack([np.random.default_rng(1 + k).uniform(*ends, count) for k, ends in enumerate(measure.bounds)], 1)


def midpoints(measure):
    """They integrate every eigenfunction without error."""
    return Grid.uniform((11, 13, 7)[: len(measure.bounds)], bounds=measure.bounds, kind="cells")


def deviations(values, covariance):
    """(sample covariance - covariance) / its standard error, the mean being known: zero."""
    variances = np.diag(covariance)
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / len(values))
    return (values.T @ values / len(values) - covariance) / error


@every
def test_draws_have_the_exact_covariance(measure):
    """Exactly by the response to each normal number, and in the mean over draws, whose moments are those of normals."""
    x = points_inside(measure, 7)
    grid, covariance = Grid.scattered(x, bounds=measure.bounds), exact_covariance(measure, x)
    deviation = measure.eigenvalues().sqrt()
    response = measure.read(torch.diag(deviation.flatten()).unflatten(1, deviation.shape), grid).numpy()
    np.testing.assert_allclose(response.T @ response, covariance, rtol=0, atol=1e-12 * np.abs(covariance).max())
    values = measure.read(measure.draw(DRAWS, seed=11), grid).numpy()
    assert np.abs(deviations(values, covariance)).max() < 4.5
    assert np.abs(values.mean(0) / np.sqrt(np.diag(covariance) / DRAWS)).max() < 4.5
    kurtosis = (values**4).mean(0) / (values**2).mean(0) ** 2
    assert np.abs(kurtosis - 3).max() < 5 * np.sqrt(24 / DRAWS)


@every
def test_mean_and_norm_of_a_draw(measure):
    """Its mean is zero, and Parseval's identity holds: the eigenfunctions are orthonormal in L2(D)."""
    grid, coefficients = midpoints(measure), measure.draw(5, seed=2)
    values = measure.read(coefficients, grid)
    assert float((values * grid.weights).flatten(1).sum(1).abs().max()) < 1e-13
    norms = (values.square() * grid.weights).flatten(1).sum(1)
    torch.testing.assert_close(norms, coefficients.square().flatten(1).sum(1), rtol=0, atol=1e-11)
    assert float(norms.min()) > 1e-4


@every
def test_a_draw_is_one_function_on_every_grid(measure):
    d = len(measure.bounds)
    coefficients = measure.draw(3, seed=4)
    fine = Grid.uniform((9, 13, 5)[:d], bounds=measure.bounds)
    values = measure.read(coefficients, fine)
    assert values.shape == (3, *fine.shape)
    for grid, expected in (
        (Grid.uniform((5, 7, 3)[:d], bounds=measure.bounds), values[(slice(None), *(slice(None, None, 2),) * d)]),
        (Grid.scattered(fine.points.reshape(-1, d).flip(0), bounds=measure.bounds), values.flatten(1).flip(1)),
        (Grid.rectilinear(*(axis.flip(0) for axis in fine.axes)), values.flip(tuple(range(1, d + 1)))),
    ):
        torch.testing.assert_close(measure.read(coefficients, grid), expected, rtol=0, atol=1e-12)


def test_neumann_draws_are_flat_at_the_faces_and_periodic_ones_wrap():
    step = 1e-4
    inwards = Grid.rectilinear([0.0, step, 1 - step, 1.0], [0.1, 0.37, 0.9])
    values = NEUMANN.read(NEUMANN.draw(3), inwards)
    for near, face in ((1, 0), (2, 3)):
        assert float((values[:, near] - values[:, face]).abs().max()) < 1e3 * step**2
    around = PERIODIC.read(PERIODIC.draw(3), Grid.uniform((7, 5), bounds=TORUS))
    torch.testing.assert_close(around[:, 0], around[:, -1], rtol=0, atol=1e-13)
    torch.testing.assert_close(around[:, :, 0], around[:, :, -1], rtol=0, atol=1e-13)


@every
def test_draws_depend_on_seed_and_index_alone(measure):
    seven = measure.draw(7, seed=3)
    assert seven.dtype == torch.float64
    assert torch.equal(measure.draw(3, seed=3), seven[:3])
    assert torch.equal(measure.draw(4, seed=3, first=3), seven[3:])
    all_of_them = torch.cat([seven, measure.draw(5, seed=4)]).flatten(1)
    apart = torch.cdist(all_of_them, all_of_them) + torch.eye(12, dtype=torch.float64) * 1e3
    assert float(apart.min()) > 1e-2


def test_draws_of_different_indices_are_independent():
    coefficients = NEUMANN.draw(DRAWS, seed=1)[:, 1, 2]
    standard = coefficients / coefficients.std()
    for lag in (1, 2, 3):
        assert abs(float((standard[lag:] * standard[:-lag]).mean())) < 4 / DRAWS**0.5


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        *[
            ({name: value}, f"{name} must be .*finite: got {value}")
            for name in ("scale", "tau", "alpha")
            for value in (0.0, -1.0, float("nan"), float("inf"))
        ],
        ({"n_modes": 1}, "n_modes must be at least 2, since the mean is zero: got 1"),
        ({"boundary": "dirichlet"}, "boundary must be .*: got 'dirichlet'"),
        ({"bounds": ((1.0, 0.0), (0.0, 1.0))}, "bounds must be finite and grow from lower to upper"),
        ({"bounds": ()}, "bounds must be"),
    ],
)
def test_what_is_no_measure_is_refused(changes, message):
    with pytest.raises(UsageError, match=message) as error:
        GaussianMeasure(**{"scale": 1.0, "tau": 1.0, "alpha": 2.0, "n_modes": 3} | changes)
    assert "\n" not in str(error.value)


def test_draw_and_read_refuse():
    with pytest.raises(UsageError, match="count must be a whole number of at least 1: got 0"):
        NEUMANN.draw(0)
    for d in (1, 3):
        with pytest.raises(UsageError, match=f"lives on 2 axes: got a grid of dimension {d}"):
            NEUMANN.read(NEUMANN.draw(1), Grid.uniform((5,) * d))
