"""The bases against integrals, values by hand and difference quotients (Section 4.1)."""

import math

import numpy as np
import pytest
import torch

from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre, Sine

ORTHONORMAL = [Fourier(), Cosine(), Sine(), Legendre()]
TRIGONOMETRIC = [Fourier(), Cosine(), Sine(), ExtendedFourier()]
ALL = [*ORTHONORMAL, ExtendedFourier()]
ROOT = math.sqrt


def name(basis):
    return type(basis).__name__


def gauss_legendre(lower=0.0, upper=1.0, n=40):
    """Points and weights that integrate polynomials up to degree 2 n - 1 exactly."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    half = (upper - lower) / 2
    return torch.from_numpy(lower + half * (nodes + 1)), torch.from_numpy(half * weights)


def gram(basis, x, w, n_modes):
    values = basis.synthesis(x, n_modes)
    return torch.einsum("x,xi,xj->ij", w, values, values)


def identity_but_for_the_zero_sine(basis, n_modes):
    expected = torch.eye(basis.size(n_modes), dtype=torch.float64)
    if isinstance(basis, Fourier):
        expected[1, 1] = 0
    return expected


# The functions


@pytest.mark.parametrize("basis", ORTHONORMAL, ids=name)
@pytest.mark.parametrize("n_modes", [1, 2, 7])
def test_the_functions_are_orthonormal(basis, n_modes):
    x, w = gauss_legendre()
    expected = identity_but_for_the_zero_sine(basis, n_modes)
    torch.testing.assert_close(gram(basis, x, w, n_modes), expected, rtol=1e-12, atol=1e-12)


def test_the_extension_is_orthonormal_on_the_doubled_interval_only():
    x, w = gauss_legendre(0.0, 2.0)
    expected = torch.eye(10, dtype=torch.float64)
    expected[1, 1] = 0
    torch.testing.assert_close(gram(ExtendedFourier(), x, w, 5), expected, rtol=1e-12, atol=1e-12)
    # int_0^1 cos(pi x) sin(2 pi x) dx = (1 / 2) int_0^1 sin(3 pi x) + sin(pi x) dx = 4 / (3 pi)
    assert float(gram(ExtendedFourier(), *gauss_legendre(), 5)[2, 5]) == pytest.approx(4 / (3 * math.pi), abs=1e-12)


@pytest.mark.parametrize(
    ("basis", "x", "values"),
    [
        (Fourier(), 1 / 8, [1, 0, 1, 1, 0, ROOT(2)]),
        (Fourier(), 5 / 6, [1, 0, ROOT(2) / 2, -ROOT(6) / 2, -ROOT(2) / 2, -ROOT(6) / 2]),
        (ExtendedFourier(), 1 / 3, [ROOT(0.5), 0, 0.5, ROOT(3) / 2, -0.5, ROOT(3) / 2]),
        (Cosine(), 1 / 3, [1, ROOT(2) / 2, -ROOT(2) / 2, -ROOT(2)]),
        (Sine(), 1 / 6, [ROOT(2) / 2, ROOT(6) / 2, ROOT(2), ROOT(6) / 2]),
        (Legendre(), 3 / 4, [1, ROOT(3) / 2, -ROOT(5) / 8, -7 * ROOT(7) / 16]),
        (Legendre(), 0.0, [1, -ROOT(3), ROOT(5), -ROOT(7), 3]),
    ],
    ids=lambda value: name(value) if not isinstance(value, float | list) else None,
)
def test_values_by_hand(basis, x, values):
    n_modes = len(values) // 2 if basis.has_pairs else len(values)
    at_point = basis.synthesis(torch.tensor([[x, 0.3]], dtype=torch.float64), n_modes)[0, 0]
    np.testing.assert_allclose(at_point.numpy(), values, rtol=0, atol=1e-13)


@pytest.mark.parametrize("basis", TRIGONOMETRIC, ids=name)
def test_the_eigenvalues_are_those_of_second_differences(basis):
    """-(phi(x + h) - 2 phi(x) + phi(x - h)) / h^2 = (2 sin(sqrt(lambda) h / 2) / h)^2 phi(x) holds for every h."""
    x, h = torch.tensor([0.13, 0.37, 0.71], dtype=torch.float64), 0.01
    before, here, after = (basis.synthesis(x + shift, 5) for shift in (-h, 0.0, h))
    symbol = (2 * torch.sin(basis.eigenvalues(5).sqrt() * h / 2) / h).square()
    torch.testing.assert_close((2 * here - before - after) / h**2, symbol * here, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("basis", [*TRIGONOMETRIC, Legendre()], ids=name)
def test_eigenvalues_are_made_where_they_are_needed(basis):
    assert basis.eigenvalues(5, "meta").is_meta


def test_the_polynomials_are_eigenfunctions_of_the_operator_of_legendre():
    """-(x (1 - x) phi')' = k (k + 1) phi, the derivatives by autograd."""
    x = torch.tensor([0.11, 0.43, 0.97], dtype=torch.float64, requires_grad=True)
    for k, eigenvalue in enumerate(Legendre().eigenvalues(6).tolist()):
        phi = Legendre().synthesis(x, 6)[:, k]
        slope = torch.autograd.grad(phi.sum() + 0 * x.sum(), x, create_graph=True)[0]
        flux = torch.autograd.grad((x * (1 - x) * slope).sum(), x)[0]
        torch.testing.assert_close(-flux, eigenvalue * phi, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("basis", ALL, ids=name)
def test_the_dtype_follows_the_points(basis):
    x = torch.tensor([0.2, 0.6, 0.9])
    assert basis.synthesis(x, 3).dtype == basis.analysis(x, 3).dtype == torch.float32
    torch.testing.assert_close(basis.analysis(x, 3).double(), basis.analysis(x.double(), 3), rtol=1e-5, atol=1e-5)


# The extension


def mirrored(x):
    """A function on [0, 1], not periodic, and its mirror image on [1, 2]."""
    inside = torch.where(x <= 1, x, 2 - x)
    return torch.exp(inside) * torch.sin(3 * inside) + inside


def test_the_extension_sees_the_fourier_series_of_the_mirrored_function():
    x, w = gauss_legendre()
    y, v = (torch.cat(pair) for pair in zip(gauss_legendre(0.0, 1.0), gauss_legendre(1.0, 2.0), strict=True))
    basis, n_modes = ExtendedFourier(), 6
    coefficients = (w * mirrored(x)) @ basis.analysis(x, n_modes)
    torch.testing.assert_close(coefficients, (v * mirrored(y)) @ basis.synthesis(y, n_modes), rtol=1e-12, atol=1e-12)
    at = torch.tensor([0.0, 0.21, 0.5, 0.83, 1.0], dtype=torch.float64)
    series = torch.zeros(5, dtype=torch.complex128)
    for k in range(-n_modes + 1, n_modes):
        wave = torch.exp(-1j * math.pi * k * y)
        series += (v * mirrored(y) * wave).sum() / 2 * torch.exp(1j * math.pi * k * at)
    torch.testing.assert_close(basis.synthesis(at, n_modes) @ coefficients, series.real, rtol=1e-12, atol=1e-12)


# What a grid tells apart


@pytest.mark.parametrize(
    ("basis", "offset"), [(Fourier(), 0.0), (Fourier(), 0.5), (Cosine(), 0.5), (Sine(), 0.5)], ids=str
)
@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 11])
def test_resolved_modes_are_orthonormal_on_the_points_and_one_more_is_not(basis, offset, n):
    x = (torch.arange(n, dtype=torch.float64) + offset) / n
    w = torch.full((n,), 1 / n, dtype=torch.float64)
    m = basis.n_resolved(n)
    expected = identity_but_for_the_zero_sine(basis, m)
    torch.testing.assert_close(gram(basis, x, w, m), expected, rtol=1e-12, atol=1e-12)
    more = identity_but_for_the_zero_sine(basis, m + 1)
    assert float((gram(basis, x, w, m + 1) - more).abs().max()) > 0.5


@pytest.mark.parametrize("n", [2, 3, 4, 5, 8, 11])
def test_the_extension_resolves_what_the_mirrored_points_resolve(n):
    """The 2 n points of the continued function, k < n: no two cosines of fewer modes are the same there."""
    x = (torch.arange(2 * n, dtype=torch.float64) + 0.5) / n
    w = torch.full((2 * n,), 1 / n, dtype=torch.float64)
    m = ExtendedFourier().n_resolved(n)
    expected = torch.eye(2 * m, dtype=torch.float64)
    expected[1, 1] = 0
    torch.testing.assert_close(gram(ExtendedFourier(), x, w, m), expected, rtol=1e-12, atol=1e-12)
    assert float(gram(ExtendedFourier(), x, w, m + 1)[-2, -2]) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 16, 33, 64, 257])
def test_resolved_polynomials_are_told_apart_by_equispaced_points(n):
    """The norm on the points and the one in L2 agree up to a factor of two, so no mode passes for lower ones."""
    x = (torch.arange(n, dtype=torch.float64) + 0.5) / n
    w = torch.full((n,), 1 / n, dtype=torch.float64)
    m = Legendre().n_resolved(n)
    squares = torch.linalg.eigvalsh(gram(Legendre(), x, w, m))
    print(f"{n} cells, {m} polynomials: squared norms from {float(squares[0]):.2g} to {float(squares[-1]):.2g}")
    assert m > n**0.4  # and not too few
    assert 1 / 4 < squares[0] <= squares[-1] < 4
