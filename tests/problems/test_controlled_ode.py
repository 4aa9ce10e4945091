"""The controlled ODE against DOP853, and the law of its control."""

from math import pi, sin

import numpy as np
import pytest
import torch
from numpy.polynomial import Chebyshev
from scipy.integrate import solve_ivp
from scipy.stats import kstest

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.problems import ControlledODE


@pytest.mark.parametrize("problem", [ControlledODE(), ControlledODE(n_terms=7, z0=2.9, decay=1.0)])
def test_agrees_with_dop853(problem):
    """z' = sin(z) u'(t); u' comes from u read at Chebyshev points, enough of them for frequencies up to 5."""
    unsorted = torch.rand(31, dtype=torch.float64, generator=torch.Generator().manual_seed(2)) * 2
    both = problem.sample(5, 37, seed=1), problem.sample(5, Grid.rectilinear(unsorted), seed=1)
    for n in range(5):

        def control(times, n=n):
            return problem.sample(1, Grid.rectilinear(times), seed=1, first=n).u[0, 0].numpy()

        slope = Chebyshev.interpolate(control, 127, domain=[0, 2]).deriv()
        tolerances = {"method": "DOP853", "rtol": 1e-12, "atol": 1e-12, "dense_output": True}
        found = solve_ivp(lambda t, z, slope=slope: np.sin(z) * slope(t), (0, 2), [problem.z0], **tolerances)
        for samples in both:
            expected = found.sol(samples.grid.points[:, 0].numpy())[0]
            np.testing.assert_allclose(samples.z[n, 0].numpy(), expected, rtol=0, atol=1e-9, equal_nan=False)


def test_starts_at_z0_and_stays_between_the_zeros_of_the_sine():
    samples = ControlledODE(z0=0.4).sample(101, 53)
    assert torch.equal(samples.u[..., 0], torch.zeros(101, 1, dtype=torch.float64))
    torch.testing.assert_close(samples.z[..., 0], torch.full((101, 1), 0.4, dtype=torch.float64), rtol=0, atol=1e-15)
    assert 0 < float(samples.z.min()) < 0.1
    assert 3.0 < float(samples.z.max()) < pi


def test_a_single_term_has_a_normal_amplitude_and_a_uniform_frequency():
    """u(1) / u(1/2) = 2 cos(pi eta / 2)."""
    u = ControlledODE(n_terms=1).sample(1009, Grid.rectilinear([0.5, 1.0]), seed=3).u[:, 0].numpy()
    eta = 2 / pi * np.arccos(u[:, 1] / u[:, 0] / 2)
    xi = u[:, 0] / np.sin(pi * eta / 2)
    assert kstest(eta, "uniform").pvalue > 1e-3
    assert kstest(xi, "norm").pvalue > 1e-3
    assert abs(np.corrcoef(xi, eta)[0, 1]) < 0.1


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_variance_of_the_control(decay):
    """E u(t)^2 = sum_j j^(-2 decay) (1/2 - sin(2 pi J t) / (4 pi J t)), J = 10."""
    times = [0.03, 0.07, 1.0]
    u = ControlledODE(decay=decay).sample(4001, Grid.rectilinear(times), seed=5).u[:, 0].numpy()
    weight = sum(j ** (-2 * decay) for j in range(1, 11))
    expected = [weight * (0.5 - sin(20 * pi * t) / (40 * pi * t)) for t in times]
    # Five standard deviations: the mean of 4001 squares, with a kurtosis of at most 5, is known to 3.2 %.
    np.testing.assert_allclose((u**2).mean(0), expected, rtol=0.16)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n_terms": 0}, "n_terms must be at least 1: got 0; the paper has 10"),
        ({"z0": 0.0}, r"z0 must lie between 0 and pi, where sin\(z0\) > 0: got 0.0; try 1.0"),
        ({"z0": float("nan")}, "z0 must be finite: got nan"),
    ],
)
def test_refuses(fields, message):
    with pytest.raises(UsageError, match=message):
        ControlledODE(**fields)
