"""(I - eps Laplace)^-alpha against eigenfunctions, fast transforms and a solution in closed form (Remark smoothing)."""

from math import cosh, pi, sqrt

import numpy as np
import pytest
import scipy.fft
import torch
from draws import noise
from test_vitno import SMALL, randomised

from operformer import FANO, Grid, voronoi_weights
from operformer.errors import UsageError
from operformer.operators.last import Smoothing

BOX = ((-1.0, 2.0), (0.5, 1.2))  # lengths 3 and 0.7
LENGTHS = (3.0, 0.7)
EPSILON, ALPHA = 0.02, 1.3


def factor(eigenvalue, epsilon=EPSILON, alpha=ALPHA):
    return (1 + epsilon * eigenvalue) ** -alpha


def smooth(z, grid, boundary, epsilon=EPSILON, alpha=ALPHA):
    """One channel without a batch, as numpy."""
    return (
        Smoothing(boundary, epsilon, alpha)
        .make(grid.dim, 1)(torch.as_tensor(z)[None, ..., None], grid)[0, ..., 0]
        .numpy()
    )


def eigenfunction(boundary, s, length, k):
    """On [0, length], and its eigenvalue."""
    if boundary == "periodic":
        return np.cos(2 * pi * k * s / length - 0.7), (2 * pi * k / length) ** 2
    wave = np.sin if boundary == "dirichlet" else np.cos
    return wave(pi * k * s / length), (pi * k / length) ** 2


# The highest number of each that the grid tells from lower ones: below Nyquist's, half the points or all of them.
HIGHEST = {
    ("periodic", "periodic"): lambda n: (n - 1) // 2,
    ("periodic", "cells"): lambda n: (n - 1) // 2,
    ("periodic", "nodes"): lambda n: (n - 2) // 2,
    ("dirichlet", "nodes"): lambda n: n - 2,
    ("dirichlet", "cells"): lambda n: n - 1,
    ("neumann", "nodes"): lambda n: n - 2,
    ("neumann", "cells"): lambda n: n - 1,
}


@pytest.mark.parametrize(("boundary", "kind"), HIGHEST)
@pytest.mark.parametrize("n", [11, 16])
def test_eigenfunctions_are_scaled_exactly(boundary, kind, n):
    grid = Grid.uniform(n, BOX[:1], kind)
    for k in range(boundary == "dirichlet", HIGHEST[boundary, kind](n) + 1):
        phi, eigenvalue = eigenfunction(boundary, grid.points[:, 0].numpy() + 1, LENGTHS[0], k)
        np.testing.assert_allclose(smooth(phi, grid, boundary), factor(eigenvalue) * phi, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("boundary", "kind"), HIGHEST)
def test_eigenfunctions_of_a_rectangle(boundary, kind):
    grid = Grid.uniform((9, 12), BOX, kind)
    for k in ((1, 2), (3, 1)):
        parts = [eigenfunction(boundary, grid.axes[j].numpy() - BOX[j][0], LENGTHS[j], k[j]) for j in range(2)]
        phi, eigenvalue = np.outer(parts[0][0], parts[1][0]), parts[0][1] + parts[1][1]
        np.testing.assert_allclose(smooth(phi, grid, boundary), factor(eigenvalue) * phi, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("boundary", "kind"), HIGHEST)
@pytest.mark.parametrize("n", [8, 11])
def test_nothing_grows(boundary, kind, n):
    """A negative power of I - eps Laplace is a contraction of L2(D), also near the identity and for the last mode."""
    grid = Grid.uniform(n, BOX[:1], kind)
    for z in (noise(n).numpy(), (-1.0) ** np.arange(n)):
        before, after = (np.sum(grid.weights.numpy() * t**2) for t in (z, smooth(z, grid, boundary, 1e-9)))
        assert after <= before * (1 + 1e-9)


# Fast transforms


def test_periodic_smoothing_is_that_of_the_fft():
    for shape in ((7, 9), (8, 11)):
        z = noise(*shape).numpy()
        numbers = [np.fft.fftfreq(n, 1 / n) for n in shape]
        eigenvalues = sum(
            (2 * pi * k / L) ** 2 for k, L in zip(np.meshgrid(*numbers, indexing="ij"), LENGTHS, strict=True)
        )
        below_nyquist = np.logical_and.outer(*[2 * np.abs(k) < n for k, n in zip(numbers, shape, strict=True)])
        expected = np.fft.ifft2(np.fft.fft2(z) * factor(eigenvalues) * below_nyquist).real
        for kind in ("periodic", "cells"):
            found = smooth(z, Grid.uniform(shape, BOX, kind), "periodic")
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_smoothing_between_insulated_faces_is_that_of_the_cosine_transform():
    z, shape = noise(7, 10).numpy(), (7, 10)
    numbers = np.meshgrid(*map(np.arange, shape), indexing="ij")
    eigenvalues = sum((pi * k / length) ** 2 for k, length in zip(numbers, LENGTHS, strict=True))
    expected = scipy.fft.idctn(scipy.fft.dctn(z, type=2) * factor(eigenvalues), type=2)
    np.testing.assert_allclose(smooth(z, Grid.uniform(shape, BOX, "cells"), "neumann"), expected, rtol=0, atol=1e-12)


def test_smoothing_between_faces_at_zero_is_that_of_the_sine_transform():
    z = noise(9, 12).numpy()
    numbers = np.meshgrid(np.arange(1, 8), np.arange(1, 11), indexing="ij")
    eigenvalues = sum((pi * k / length) ** 2 for k, length in zip(numbers, LENGTHS, strict=True))
    expected = np.zeros((9, 12))
    expected[1:-1, 1:-1] = scipy.fft.idstn(scipy.fft.dstn(z[1:-1, 1:-1], type=1) * factor(eigenvalues), type=1)
    np.testing.assert_allclose(smooth(z, Grid.uniform((9, 12), BOX), "dirichlet"), expected, rtol=0, atol=1e-12)


# What it is for


def test_channels_and_samples_are_smoothed_one_by_one():
    grid, z = Grid.uniform((7, 5), BOX, "periodic"), noise(3, 7, 5, 2)
    layer = Smoothing("periodic", EPSILON, ALPHA).make(2, 2)
    for b, c in ((0, 1), (2, 0)):
        np.testing.assert_allclose(
            layer(z, grid)[b, ..., c], smooth(z[b, ..., c], grid, "periodic"), rtol=0, atol=1e-12
        )


def test_a_jump_becomes_the_boundary_layer_of_the_helmholtz_equation():
    """z - eps z'' = +-1 on the halves of a circle: z = 1 - cosh((x - L / 4) / sqrt(eps)) / cosh(L / (4 sqrt(eps)))."""
    steps, errors, length, width = (90, 270, 810), [], 3.0, sqrt(EPSILON)
    for n in steps:
        x = (np.arange(n) + 0.5) / n * length
        jump = np.where(x < length / 2, 1.0, -1.0)
        exact = jump * (1 - np.cosh((x % (length / 2) - length / 4) / width) / cosh(length / (4 * width)))
        found = smooth(jump, Grid.uniform(n, BOX[:1], "cells"), "periodic", alpha=1.0)
        errors.append(np.abs(found - exact).max())
    order = -np.polyfit(np.log(steps), np.log(errors), 1)[0]
    print(f"smoothed jump: order {order:.3f}, errors {errors}")
    assert 1.8 < order < 2.2


def test_smoothing_reduces_the_jumps_between_patches():
    """At cells a quarter of sqrt(eps) wide a step is spread over eight of them; the paper's eps and circle."""
    rough = randomised(FANO((3,), 3, 1, 2, **SMALL), 1)
    smoothed = FANO((3,), 3, 1, 2, **SMALL, last="periodic").double()
    smoothed.load_state_dict(rough.state_dict())
    grid, jumps = Grid.uniform(768, [(0, 2 * pi)], kind="cells"), []
    for operator in (rough, smoothed):
        step = operator(torch.sin(grid.points + 0.4)[None, None, :, 0], grid).detach().diff(dim=-1)
        # beyond the mean of the steps before and after
        jumps.append((step - (step.roll(1, -1) + step.roll(-1, -1)) / 2)[..., [255, 511]].abs())
    print(f"jumps across faces: {jumps[0].flatten().tolist()}, smoothed {jumps[1].flatten().tolist()}")
    assert bool((jumps[1] < jumps[0] / 5).all())


def test_scattered_points_approach_the_same_function():
    """Random points do not tell apart as many modes as they are: a rough likeness, which improves."""
    errors = []
    for n in (16, 32, 64):
        points = torch.rand(n * n, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
        z = torch.cos(2 * pi * points).prod(-1).numpy()
        grid = Grid.scattered(points, voronoi_weights(points))
        errors.append(float(np.abs(smooth(z, grid, "neumann") - factor(8 * pi**2) * z).mean() / np.abs(z).mean()))
    print(f"smoothing on scattered points: relative errors {errors}")
    assert errors[2] < 0.02
    assert errors[2] < errors[1] / 2 < errors[0] / 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("robin",), "boundary must be 'periodic' or 'dirichlet' or 'neumann': got 'robin'"),
        (("periodic", 0.0), "epsilon and alpha must be positive"),
        (("periodic", 1e-3, -1.0), "epsilon and alpha must be positive"),
        (("periodic", float("nan")), "epsilon must be finite"),
    ],
)
def test_wrong_settings_are_refused_in_one_line(arguments, message):
    with pytest.raises(UsageError, match=message) as caught:
        Smoothing(*arguments)
    assert "\n" not in str(caught.value)
