"""Complex Fourier modes from real coefficients: wave numbers, isometry, FFTs (Section 4.1)."""

from itertools import product
from math import pi, prod, sqrt

import numpy as np
import pytest
import torch
from draws import noise

from operformer import Grid
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre
from operformer.domain.fourier import make_modes, signed_sums
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform

SIZES = [(1,), (5,), (2, 2), (3, 2), (1, 4), (2, 2, 2), (3, 1, 2)]


def gather(modes, coefficients):
    """(rows, products, c) -> (E, rows, c)."""
    tables = (modes.terms, modes.signs, modes.adjoint_terms, modes.adjoint_signs)
    return signed_sums(coefficients.transpose(0, 1), *tables)


def scatter(modes, entries):
    """(E, rows, c) -> (rows, products, c)."""
    tables = (modes.adjoint_terms, modes.adjoint_signs, modes.terms, modes.signs)
    return signed_sums(entries, *tables).transpose(0, 1)


def functions(modes):
    """(k, is_sine) of each entry: the mean, then a cosine and a sine for each pair of k and -k."""
    waves = [(k, is_sine) for k in modes.wave_numbers[1:] for is_sine in (False, True)]
    return [(modes.wave_numbers[0], False), *waves]


@pytest.mark.parametrize("basis", [Fourier(), ExtendedFourier()], ids=str)
@pytest.mark.parametrize("n_modes", SIZES, ids=str)
def test_wave_numbers_are_one_of_each_opposite_pair(basis, n_modes):
    modes, zero = make_modes(basis, n_modes), (0,) * len(n_modes)
    kept = set(modes.wave_numbers)
    opposite = {tuple(-kj for kj in k) for k in kept}
    assert modes.wave_numbers[0] == zero
    assert len(kept) == len(modes.wave_numbers)
    assert kept | opposite == set(product(*(range(-m + 1, m) for m in n_modes)))
    assert kept & opposite == {zero}
    assert modes.count == prod(2 * m - 1 for m in n_modes) == len(functions(modes))


@pytest.mark.parametrize("n_modes", SIZES, ids=str)
def test_the_sums_are_an_isometry_and_the_adjoint_sums_lead_back(n_modes):
    modes = make_modes(Fourier(), n_modes)
    shaped = noise(3, prod(2 * m for m in n_modes), 2).unflatten(1, tuple(2 * m for m in n_modes))
    for k in range(len(n_modes)):
        shaped.select(1 + k, 1).zero_()  # real functions have no coefficient for sin 0
    given = shaped.flatten(1, -2)
    entries = gather(modes, given)
    torch.testing.assert_close(entries.square().sum(0), given.square().sum(1), rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(scatter(modes, entries), given, rtol=1e-13, atol=1e-13)
    there = noise(*entries.shape, seed=1)
    torch.testing.assert_close((entries * there).sum(), (given * scatter(modes, there)).sum(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("shape", "n_modes"), [((7,), (4,)), ((5, 8), (3, 2)), ((5, 6, 7), (2, 3, 3))], ids=str)
def test_entries_are_the_coefficients_of_the_fft(shape, n_modes):
    """u_k = int u exp(-2 pi i k . x) dx = (c_k - i s_k) / sqrt(2), and the mean for k = 0."""
    grid, u = Grid.uniform(shape, kind="periodic"), noise(2, *shape, 3)
    patches, modes = make_patches(grid, (1,) * len(shape)), make_modes(Fourier(), n_modes)
    coefficients = make_transform(patches, Fourier(), n_modes, u).analyse(patches.split(u))
    spectrum = np.fft.fftn(u.numpy(), axes=range(1, 1 + len(shape))) / prod(shape)
    for (k, is_sine), entry in zip(functions(modes), gather(modes, coefficients.flatten(0, 1)).numpy(), strict=True):
        at_k = spectrum[(slice(None), *k)] * (sqrt(2) if any(k) else 1.0)
        np.testing.assert_allclose(entry, -at_k.imag if is_sine else at_k.real, rtol=0, atol=1e-13)


@pytest.mark.parametrize("n_modes", [(4,), (2, 3), (2, 2, 3)], ids=str)
def test_entries_are_coefficients_of_waves(n_modes):
    """A one is the coefficient of sqrt(2) cos(2 pi k . x) or sqrt(2) sin(2 pi k . x), at any points."""
    dim, modes = len(n_modes), make_modes(Fourier(), n_modes)
    points = torch.rand(11, dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    patches = make_patches(Grid.scattered(points), (1,) * dim)
    transform = make_transform(patches, Fourier(), n_modes, points)
    ones = torch.eye(modes.count, dtype=torch.float64).unsqueeze(-1)
    values = patches.join(transform.synthesise(scatter(modes, ones).unsqueeze(1)))[..., 0]
    for found, (k, is_sine) in zip(values, functions(modes), strict=True):
        phase = 2 * pi * points @ torch.tensor(k, dtype=torch.float64)
        wave = (torch.sin(phase) if is_sine else torch.cos(phase)) * (sqrt(2) if any(k) else 1.0)
        torch.testing.assert_close(found, wave, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("basis", [Cosine(), Legendre()], ids=str)
def test_functions_of_a_real_basis_are_entries_of_their_own(basis):
    modes, given = make_modes(basis, (3, 2)), noise(5, 6, 2)
    assert modes.wave_numbers == ((0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1))
    assert torch.equal(gather(modes, given), given.transpose(0, 1))
    assert torch.equal(scatter(modes, gather(modes, given)), given)


def test_gradients_and_dtypes_pass():
    modes, given = make_modes(Fourier(), (2, 2)), noise(1, 16, 1).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: scatter(modes, gather(modes, t) ** 2), (given,))
    single = gather(modes, given.detach().float())
    assert single.dtype == torch.float32
    torch.testing.assert_close(single.double(), gather(modes, given.detach()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("basis", [Fourier(), Cosine()])
def test_cached_tables_do_not_live_on_the_default_device_of_the_moment(basis):
    make_modes.cache_clear()
    with torch.device("meta"):
        modes = make_modes(basis, (3, 2))
    assert {modes.terms.device.type, modes.signs.device.type, modes.adjoint_terms.device.type} == {"cpu"}
