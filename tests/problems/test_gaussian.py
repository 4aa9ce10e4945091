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


def points_inside(measure, count, seed=1):
    return np.stack([np.random.default_rng(seed + k).uniform(*ends, count) for k, ends in enumerate(measure.bounds)], 1)


def deviations(values, covariance):
    """(sample covariance - covariance) / its standard error, the mean being known: zero."""
    variances = np.diag(covariance)
    error = np.sqrt((np.outer(variances, variances) + covariance**2) / len(values))
    return (values.T @ values / len(values) - covariance) / error


@every
def test_covariance_is_the_sum_over_eigenfunctions(measure):
    x = points_inside(measure, 7)
    found = measure.covariance(Grid.scattered(x, bounds=measure.bounds)).numpy()
    expected = exact_covariance(measure, x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max(), equal_nan=False)


@every
def test_draws_have_the_exact_covariance(measure):
    x = points_inside(measure, 7)
    values = measure.read(measure.draw(DRAWS, seed=11), Grid.scattered(x, bounds=measure.bounds)).numpy()
    covariance = exact_covariance(measure, x)
    assert np.abs(deviations(values, covariance)).max() < 4.5
    error_of_mean = np.sqrt(np.diag(covariance) / DRAWS)
    assert np.abs(values.mean(0) / error_of_mean).max() < 4.5
    kurtosis = (values**4).mean(0) / (values**2).mean(0) ** 2
    assert np.abs(kurtosis - 3).max() < 5 * np.sqrt(24 / DRAWS)


@pytest.mark.parametrize("measure", [NEUMANN, PERIODIC], ids=lambda m: m.boundary)
def test_draws_tell_the_law_from_its_neighbours(measure):
    """The test above would notice a factor, tau for its square, another power, or k without its 2 pi."""
    x = points_inside(measure, 7)
    values = measure.read(measure.draw(DRAWS, seed=11), Grid.scattered(x, bounds=measure.bounds)).numpy()
    exact = exact_covariance(measure, x)

    def altered(**changes):
        return exact_covariance(GaussianMeasure(**{**vars(measure), **changes}), x)

    wrong = {
        "factor 2": 2 * exact,
        "factor 1/2": exact / 2,
        "5/4": 1.25 * exact,
        "tau": altered(tau=measure.tau**0.5),
        "tau^4": altered(tau=measure.tau**2),
        "alpha": altered(alpha=measure.alpha + 0.5),
        "no volume": exact * prod(upper - lower for lower, upper in measure.bounds),
        "one mode less": altered(n_modes=measure.n_modes - 1),
    }
    if measure.boundary == "neumann":
        del wrong["no volume"]  # of the unit square
    for name, covariance in wrong.items():
        assert np.abs(deviations(values, covariance)).max() > 6, name


def test_periodic_measure_is_stationary():
    x = points_inside(PERIODIC, 5)
    shifted = (x + np.array([1.7, 4.1])) % (2 * pi)
    here, there = (PERIODIC.covariance(Grid.scattered(p, bounds=TORUS)) for p in (x, shifted))
    torch.testing.assert_close(there, here, rtol=0, atol=1e-13)
    lengths = np.arange(-2, 3)
    squares = lengths[:, None] ** 2 + lengths**2
    variance = (5.0 * (squares[squares > 0] + 4.0) ** -1.5).sum() / (2 * pi) ** 2
    np.testing.assert_allclose(here.diagonal().numpy(), variance, rtol=0, atol=1e-13, equal_nan=False)


def test_neumann_measure_varies_most_at_the_corners():
    """cos^2 is one there, and one half on average."""
    corners, middle = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0]], [[0.5, 0.5], [0.45, 0.52]]
    at_corners = NEUMANN.covariance(Grid.scattered(corners)).diagonal()
    torch.testing.assert_close(at_corners, at_corners[:1].expand(3), rtol=0, atol=1e-13)
    assert float(at_corners[0]) > 2 * float(NEUMANN.covariance(Grid.scattered(middle)).diagonal().max())


@every
def test_each_draw_has_mean_zero(measure):
    """Midpoints integrate every eigenfunction without error."""
    grid = Grid.uniform((11, 13, 7)[: len(measure.bounds)], bounds=measure.bounds, kind="cells")
    values = measure.read(measure.draw(5, seed=2), grid)
    integrals = (values * grid.weights).flatten(1).sum(1)
    assert float(integrals.abs().max()) < 1e-13
    assert float(values.abs().amax(tuple(range(1, values.ndim))).min()) > 1e-2


@every
def test_norm_of_a_draw_is_that_of_its_coefficients(measure):
    """The eigenfunctions are orthonormal in L2(D), so Parseval's identity holds."""
    grid = Grid.uniform((11, 13, 7)[: len(measure.bounds)], bounds=measure.bounds, kind="cells")
    coefficients = measure.draw(5, seed=2)
    norms = (measure.read(coefficients, grid).square() * grid.weights).flatten(1).sum(1)
    torch.testing.assert_close(norms, coefficients.square().flatten(1).sum(1), rtol=0, atol=1e-11)


@every
def test_expected_norm_is_the_trace(measure):
    """E ||u||^2 = sum_k lambda_k, each k in Z^d once on a torus, each k in N^d once with Neumann conditions."""
    m, lengths = measure.n_modes, np.array([upper - lower for lower, upper in measure.bounds])
    period, ks = (1, range(m)) if measure.boundary == "neumann" else (2, range(-m + 1, m))
    trace = sum(
        power_of_laplacian(measure, period * pi * np.array(k) / lengths)
        for k in product(ks, repeat=len(lengths))
        if any(k)
    )
    assert float(measure.eigenvalues().sum()) == pytest.approx(trace, rel=1e-12)


@every
def test_a_draw_is_one_function_on_every_grid(measure):
    d = len(measure.bounds)
    coefficients = measure.draw(3, seed=4)
    fine = Grid.uniform((9, 13, 5)[:d], bounds=measure.bounds)
    coarse = Grid.uniform((5, 7, 3)[:d], bounds=measure.bounds)
    values = measure.read(coefficients, fine)
    assert values.shape == (3, *fine.shape)
    every_other = values[(slice(None), *(slice(None, None, 2),) * d)]
    torch.testing.assert_close(measure.read(coefficients, coarse), every_other, rtol=0, atol=1e-12)
    flat = Grid.scattered(fine.points.reshape(-1, d).flip(0), bounds=measure.bounds)
    torch.testing.assert_close(measure.read(coefficients, flat), values.flatten(1).flip(1), rtol=0, atol=1e-12)
    backwards = Grid.rectilinear(*(axis.flip(0) for axis in fine.axes))
    turned = values.flip(tuple(range(1, d + 1)))
    torch.testing.assert_close(measure.read(coefficients, backwards), turned, rtol=0, atol=1e-12)


def test_neumann_draw_is_its_sum_of_cosines():
    coefficients = NEUMANN.draw(2, seed=9)
    x = points_inside(NEUMANN, 5)
    expected = np.zeros((2, 5))
    for i, j in product(range(4), repeat=2):
        norm = (2 if i else 1) ** 0.5 * (2 if j else 1) ** 0.5
        expected += norm * np.outer(coefficients[:, i, j], np.cos(pi * i * x[:, 0]) * np.cos(pi * j * x[:, 1]))
    found = NEUMANN.read(coefficients, Grid.scattered(x)).numpy()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12, equal_nan=False)
    assert bool((coefficients[:, 0, 0] == 0).all())


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
            ({name: value}, f"{name} must be positive and finite: got {value}")
            for name in ("scale", "tau", "alpha")
            for value in (0.0, -1.0, float("nan"), float("inf"))
        ],
        ({"n_modes": 1}, "n_modes must be at least 2, since the mean is zero: got 1"),
        ({"boundary": "dirichlet"}, "boundary must be .*: got 'dirichlet'"),
        ({"bounds": ((1.0, 0.0), (0.0, 1.0))}, "bounds must be finite and grow from lower to upper"),
        ({"bounds": ((0.0, float("inf")), (0.0, 1.0))}, "bounds must be finite and grow from lower to upper"),
        ({"bounds": ()}, "bounds must be"),
    ],
)
def test_what_is_no_measure_is_refused(changes, message):
    with pytest.raises(UsageError, match=message) as error:
        GaussianMeasure(**{"scale": 1.0, "tau": 1.0, "alpha": 2.0, "n_modes": 3} | changes)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"count": 0}, "count must be at least 1: got 0"),
        ({"count": 1, "seed": -1}, "seed must be from 0"),
        ({"count": 1, "first": -1}, "first must not be negative: got -1"),
    ],
)
def test_draw_refuses(arguments, message):
    with pytest.raises(UsageError, match=message):
        NEUMANN.draw(**arguments)


@pytest.mark.parametrize("d", [1, 3])
def test_read_refuses_another_dimension(d):
    with pytest.raises(UsageError, match=f"lives on 2 axes: got a grid of dimension {d}"):
        NEUMANN.read(NEUMANN.draw(1), Grid.uniform((5,) * d))
