"""Integral operators against sums over complex modes and over points (Section 4.1, Definition int_op and the next)."""

from itertools import product
from math import pi, prod

import numpy as np
import pytest
import torch
from draws import noise
from written_out import complex_weights

from operformer import Grid
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.operators.integral import (
    FourierIntegralOperator,
    Spectrum,
)
from operformer.operators.last import SpectralResidual


def fourier_operator(n_modes, in_channels, out_channels, basis=None, seed=0):
    torch.manual_seed(seed)
    return FourierIntegralOperator(Spectrum(basis or Fourier(), n_modes), in_channels, out_channels).double()


def matrices(mixing, spectrum):
    """R(k), (c', c), for every k with |k_j| < m_j; of a real kernel, R(-k) = conj R(k)."""
    half = product(*(range(-m + 1, m) for m in spectrum.n_modes[:-1]), range(spectrum.n_modes[-1]))
    found = {}
    for k, matrix in zip(half, complex_weights(mixing, spectrum).detach().numpy(), strict=True):
        found[k] = matrix.T
    for k in list(found):
        opposite = tuple(-kj for kj in k)
        assert opposite not in found or np.array_equal(found[opposite], found[k].conj())
        found[opposite] = found[k].conj()
    assert len(found) == prod(2 * m - 1 for m in spectrum.n_modes)
    return found


def by_modes(matrices_, u, y, w, x):
    """sum_k R(k) u_k exp(2 pi i k . x), u_k = sum_j w_j u(y_j) exp(-2 pi i k . y_j), one mode after the other."""
    out = np.zeros((len(x), next(iter(matrices_.values())).shape[0]), dtype=complex)
    for k, matrix in matrices_.items():
        coefficient = sum(w[j] * u[j] * np.exp(-2j * pi * np.dot(k, y[j])) for j in range(len(y)))
        for i in range(len(x)):
            out[i] += matrix @ coefficient * np.exp(2j * pi * np.dot(k, x[i]))
    assert np.abs(out.imag).max() < 1e-12
    return out.real


def on_patches(operator, u, grid, counts):
    """The operator on each patch, u (batch, *shape, c)."""
    patches = make_patches(grid, counts)
    transform = make_transform(patches, operator.spectrum.basis, operator.spectrum.n_modes, u)
    return patches.join(operator(patches.split(u), transform)).detach()


# Fourier's basis


@pytest.mark.parametrize(
    ("shape", "n_modes", "kind"),
    [((11,), (4,), "periodic"), ((5, 7), (2, 3), "cells"), ((4, 5, 3), (2, 2, 1), "periodic"), ((7,), (4,), "cells")],
)
def test_the_operator_is_the_sum_over_complex_modes(shape, n_modes, kind):
    operator, grid = fourier_operator(n_modes, 3, 2), Grid.uniform(shape, kind=kind)
    u, x = noise(1, *shape, 3), grid.points.reshape(-1, grid.dim).numpy()
    expected = by_modes(
        matrices(operator.mixing, operator.spectrum), u.reshape(-1, 3).numpy(), x, [1 / len(x)] * len(x), x
    )
    z = on_patches(operator, u, grid, (1,) * grid.dim).reshape(-1, 2)
    np.testing.assert_allclose(z.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)], ids=str)
def test_the_operator_is_an_integral_with_a_translation_invariant_kernel(counts):
    """kappa(x - y) = sum_k R(k) exp(2 pi i k . (x - y)) by quadrature, on each patch with its own coordinates."""
    operator, shape = fourier_operator((2, 3), 2, 3), (8, 15)
    waves = matrices(operator.mixing, operator.spectrum)

    def kernel(x, y):
        difference = x.unsqueeze(1) - y
        total = sum(
            torch.from_numpy(r) * torch.exp(2j * pi * (difference @ torch.tensor(k).double()))[..., None, None]
            for k, r in waves.items()
        )
        assert float(total.imag.abs().max()) < 1e-12
        return total.real

    u, size = noise(2, *shape, 2), [n // p for n, p in zip(shape, counts, strict=True)]
    z, local = (
        on_patches(operator, u, Grid.uniform(shape, kind="periodic"), counts),
        Grid.uniform(size, kind="periodic"),
    )
    points, weights = local.points.flatten(0, 1), local.weights.flatten()

    def weighted_sum(v):
        """sum_j w_j kappa(x_i, y_j) v(y_j)."""
        found = torch.einsum("ijrs,j,bjs->bir", kernel(points, points), weights, v.flatten(1, 2))
        return found.unflatten(1, local.shape)

    for i, j in product(*map(range, counts)):
        window = (slice(None), slice(i * size[0], (i + 1) * size[0]), slice(j * size[1], (j + 1) * size[1]))
        torch.testing.assert_close(z[window], weighted_sum(u[window]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_modes", [(4,), (3, 3), (2, 4), (2, 2, 2)], ids=str)
def test_parameters_are_real_and_as_many_as_the_kernel_has_numbers(n_modes):
    operator = fourier_operator(n_modes, 3, 5)
    assert sum(p.numel() for p in operator.parameters()) == prod(2 * m - 1 for m in n_modes) * 3 * 5
    assert not any(p.is_complex() for p in operator.parameters())
    real = fourier_operator(n_modes, 3, 5, Cosine())
    assert sum(p.numel() for p in real.parameters()) == prod(n_modes) * 3 * 5
    # and each of them counts: the map from parameters to the output has no kernel
    narrow = fourier_operator(n_modes, 1, 1)
    u, grid = noise(1, *[8] * len(n_modes), 1), Grid.uniform((8,) * len(n_modes), kind="periodic")
    patches = make_patches(grid, (1,) * len(n_modes))
    transform = make_transform(patches, Fourier(), n_modes, u)
    columns = []
    for parameter in narrow.parameters():
        for index in range(parameter.numel()):
            with torch.no_grad():
                [p.zero_() for p in narrow.parameters()]
                parameter.view(-1)[index] = 1
                columns.append(narrow(patches.split(u), transform).flatten())
    assert np.linalg.matrix_rank(torch.stack(columns).numpy(), tol=1e-9) == len(columns)


def band_limited(x, counts):
    """On each patch a trigonometric polynomial of degree 2, periodic there, another on each patch."""
    scaled = x * torch.tensor(counts, dtype=torch.float64)
    # Points on the upper face of D, and rounding at faces, do not occur on the grids used here.
    number = scaled.floor()
    phase = 2 * pi * (scaled - number)
    value = torch.cos(phase[..., 0] * 2 - phase[..., -1] + number[..., 0]) + (1 + number[..., -1]) * torch.sin(
        phase[..., -1]
    )
    return torch.stack([value, value**0 + torch.sin(phase[..., 0] + 1)], -1)


@pytest.mark.parametrize("counts", [(1, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("kind", ["cells", "periodic"])
def test_the_result_for_band_limited_functions_does_not_depend_on_the_resolution(kind, counts):
    """Grids of five and fifteen points on each patch: centres coincide with every third one's."""
    operator, results = fourier_operator((3, 2), 2, 3, seed=1), []
    for factor in (1, 3):
        grid = Grid.uniform([5 * factor * p for p in counts], kind=kind)
        start = (factor - 1) // 2 if kind == "cells" else 0
        z = on_patches(operator, band_limited(grid.points, counts)[None], grid, counts)
        results.append(z[:, start::factor, start::factor])
    assert float(results[0].abs().max()) > 0.1
    torch.testing.assert_close(results[0], results[1], rtol=1e-10, atol=1e-10)


# Other bases


@pytest.mark.parametrize("basis", [Cosine(), Legendre()], ids=str)
def test_in_a_real_basis_the_operator_is_diagonal(basis):
    """sum_k R_k <u, phi_k> phi_k: phi_k goes to a multiple of itself, <phi_l, .> sees no other."""
    operator = fourier_operator((2, 3), 2, 2, basis)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    x, w = torch.from_numpy((nodes + 1) / 2), weights / 2
    points = torch.stack(torch.meshgrid(x, x, indexing="ij"), -1).reshape(-1, 2)
    grid = Grid.scattered(points, np.outer(w, w).reshape(-1))  # exact integrals
    phi = [basis.synthesis(points[:, k], m) for k, m in enumerate((2, 3))]
    u = noise(1, 256, 2)
    z, total = on_patches(operator, u, grid, (1, 1))[0], torch.zeros(256, 2, dtype=torch.float64)
    found = []
    for i, j in product(range(2), range(3)):
        mode = phi[0][:, i] * phi[1][:, j]
        columns = [
            on_patches(operator, (mode[:, None] * unit)[None], grid, (1, 1))[0] for unit in torch.eye(2).double()
        ]
        found.append(torch.stack([(mode * grid.weights) @ column for column in columns]))  # (c, c')
        torch.testing.assert_close(torch.stack(columns), found[-1][:, None] * mode[:, None], rtol=1e-10, atol=1e-10)
        total += mode[:, None] * (((mode * grid.weights) @ u[0]) @ found[-1])
    torch.testing.assert_close(z, total, rtol=1e-10, atol=1e-10)
    assert torch.unique(torch.stack(found)).numel() == 24  # a matrix for each function


def test_with_the_extension_the_operator_acts_on_the_mirrored_function():
    """Mirror, the sum over modes on [0, 2], cut: exactly so on cells, whose mirror image is a grid of cells."""
    operator = fourier_operator((4,), 2, 3, ExtendedFourier())
    u, n = noise(1, 7, 2), 7
    both = torch.cat([u[0], u[0].flip(0)]).numpy()
    x = ((np.arange(2 * n) + 0.5) / (2 * n))[:, None]  # [0, 2] scaled to the unit interval
    expected = by_modes(matrices(operator.mixing, operator.spectrum), both, x, [1 / (2 * n)] * (2 * n), x[:n])
    z = on_patches(operator, u, Grid.uniform(n, kind="cells"), (1,))[0]
    np.testing.assert_allclose(z.numpy(), expected, rtol=0, atol=1e-12)


# First weights


def waves(count, n_modes, grid, seed):
    """Functions of the kept modes alone, (1, *shape, count), of mean square one."""
    x, amplitudes = grid.points, noise(2, 2 * n_modes - 1, 2 * n_modes - 1, count, seed=seed)
    k = torch.arange(1 - n_modes, n_modes, dtype=torch.float64)
    phases = 2 * pi * (k[:, None, None, None] * x[..., 0] + k[None, :, None, None] * x[..., 1])
    u = torch.einsum("klxy,klc->xyc", phases.cos(), amplitudes[0]) + torch.einsum(
        "klxy,klc->xyc", phases.sin(), amplitudes[1]
    )
    return (u / u.square().mean().sqrt()).unsqueeze(0)


@pytest.mark.parametrize("basis", [Fourier(), Cosine()])
@pytest.mark.parametrize("n_modes", [2, 5])
def test_first_outputs_are_as_large_whatever_grid_and_modes(n_modes, basis):
    """A third of the input's mean square, as of nn.Linear; of white noise the share of the kept modes of it."""
    operator = fourier_operator((n_modes, n_modes), 96, 96, basis)
    kept = operator.modes.count
    for n in (12, 24):
        grid = Grid.uniform((n, n), kind="cells")
        white = on_patches(operator, noise(1, n, n, 96, seed=1), grid, (1, 1)).square().mean()
        assert float(white) == pytest.approx(kept / n**2 / 3, rel=0.2)  # 384 numbers at least
        if isinstance(basis, Fourier):
            smooth = on_patches(operator, waves(96, n_modes, grid, 2), grid, (1, 1)).square().mean()
            assert float(smooth) == pytest.approx(1 / 3, rel=0.1)


@pytest.mark.parametrize("basis", [Fourier(), Cosine(), Legendre()])
def test_a_pointwise_start_is_one_matrix_at_each_point_of_the_kept_modes(basis):
    operator, grid = fourier_operator((3, 3), 5, 4096, basis), Grid.uniform((24, 24), kind="cells")
    operator.mixing.start_pointwise(64)
    patches = make_patches(grid, (1, 1))
    transform = make_transform(patches, basis, (3, 3), grid.weights)
    u = noise(1, 24, 24, 5)
    kept = patches.join(transform.synthesise(transform.analyse(patches.split(u))))
    z, matrix = on_patches(operator, u, grid, (1, 1)), operator.mixing.weight[0]
    torch.testing.assert_close(z, (kept @ matrix).detach(), rtol=1e-10, atol=1e-10)
    share = float(z.square().mean() / kept.square().mean())
    assert share == pytest.approx(5 / 64 / 3, rel=0.1)  # in_channels / (3 width)


# The last layer of the experiments


def test_the_spectral_residual_adds_an_integral_operator_on_all_of_d():
    torch.manual_seed(2)
    layer, z = SpectralResidual(3).make(2, 3).double(), noise(2, 7, 8, 3)
    grid = Grid.uniform((7, 8), kind="cells")
    assert torch.equal(layer(z, grid), z)  # as it starts
    torch.nn.init.normal_(layer.operator.mixing.weight)
    waves = matrices(layer.operator.mixing, layer.operator.spectrum)
    for grid in (Grid.uniform((7, 8), [(0, 2), (-1, 5)], "periodic"), Grid.uniform((7, 8), kind="cells")):
        offset = 0.5 if grid.kind == "cells" else 0.0
        x = np.array([[(i + offset) / 7, (j + offset) / 8] for i in range(7) for j in range(8)])
        expected = z[1].reshape(-1, 3).numpy() + by_modes(waves, z[1].reshape(-1, 3).numpy(), x, [1 / 56] * 56, x)
        np.testing.assert_allclose(layer(z, grid)[1].detach().reshape(-1, 3).numpy(), expected, rtol=0, atol=1e-12)
