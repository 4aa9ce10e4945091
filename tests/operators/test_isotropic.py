"""Kernels that know no direction: against the formula, the kernel as an integral, and the moves that they allow."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from draws import noise
from test_fano import of_patches
from test_integral import by_modes, matrices
from test_vitno import SMALL, forget_coordinates, randomised

import operformer
from operformer import FANO, Grid
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier, Legendre
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.errors import UsageError
from operformer.operators.integral import FourierIntegralOperator, Isotropic, IsotropicMixing, Spectrum
from operformer.operators.patched_attention import Coefficients, FourierAttention, SpectralMap


def mixing_of(basis, n_modes, sides=None):
    torch.manual_seed(0)
    return IsotropicMixing(Spectrum(basis, n_modes), sides or (1.0,) * len(n_modes), 2, 3).double()


def between(radial, length):
    """The matrix at |k|, by hand: matrices stand at |k| = 2^(3 j / 4) - 1 and are joined linearly in log2(1 + |k|)."""
    place = math.log2(1 + length) / 0.75
    left = math.floor(place)
    right = min(left + 1, len(radial) - 1)
    return (1 - (place - left)) * radial[left] + (place - left) * radial[right]


@pytest.mark.parametrize(
    ("n_modes", "sides"),
    [((7,), (0.5,)), ((4, 5), (1.0, 1.0)), ((4, 5), (0.5, 0.25)), ((2, 3, 5), (1.0, 1 / 2, 1 / 3))],
)
def test_a_matrix_depends_on_the_length_of_the_wave_number_alone(n_modes, sides):
    mixing = mixing_of(Cosine(), n_modes, sides)
    radial = mixing.radial.detach().numpy()
    expected = [
        between(radial, math.sqrt(sum((kj / side) ** 2 for kj, side in zip(k, sides, strict=True))) * max(sides))
        for k in product(*map(range, n_modes))
    ]
    np.testing.assert_allclose(mixing.matrices().detach().numpy(), expected, rtol=1e-12, atol=1e-12)


def test_patches_have_the_wave_numbers_of_the_whole_domain():
    """On 2 x 3 patches: (i, j) waves of a patch are (2 i, 3 j) of D; the longer side counts."""
    mixing = FANO((2, 3), 4, 1, 1, **SMALL, basis="isotropic-cosine").double().layers[0].attention.mixing
    radial = mixing.radial.detach().numpy()
    expected = [between(radial, math.hypot(2 * i, 3 * j) / 2) for i in range(4) for j in range(4)]
    np.testing.assert_allclose(mixing.matrices().detach().numpy(), expected, rtol=1e-6, atol=1e-6)
    other = FANO((2, 1), 4, 1, 1, **SMALL, basis="isotropic-cosine").layers[0].attention.mixing.matrices()
    torch.testing.assert_close(other[4], other[2])  # (1, 0) and (0, 2)


def test_the_start_is_as_large_as_a_linear_maps():
    radial = IsotropicMixing(Spectrum(Cosine(), (64, 64)), (1.0, 1.0), 16, 16).radial
    assert 0.24 < radial.abs().max() <= 0.25


def test_in_fouriers_basis_it_is_real_and_the_same_in_every_direction():
    mixing = mixing_of(Fourier(), (4, 4))
    found = matrices(mixing, Spectrum(Fourier(), (4, 4)))
    assert len(found) == 49
    for k, matrix in found.items():
        np.testing.assert_allclose(matrix.T, between(mixing.radial.detach().numpy(), math.hypot(*k)), atol=1e-12)


def test_more_modes_are_hardly_more_weights():
    counts = [len(mixing_of(Cosine(), (m, m)).radial) for m in (1, 8, 16, 32, 64)]
    assert counts == [1, 6, 7, 9, 10]
    assert all((mixing_of(Cosine(), (m, m)).hats.sum(0) > 0).all() for m in (2, 8, 64))  # each is of use


def rotated(t):
    return torch.rot90(t, 1, (-3, -2))


def flipped(t):
    return t.flip(-2)


def exchanged(t):
    return t.transpose(-3, -2)


def shifted(t):
    return t.roll(3, -2)


def layer_output(layer, v, kind):
    """A layer of one patch, (batch, *shape, c) -> the same."""
    patches = make_patches(Grid.uniform(v.shape[1:-1], kind=kind), (1, 1))
    transform = make_transform(patches, layer.spectrum.basis, layer.spectrum.n_modes, v)
    return patches.join(layer(patches.split(v), Coefficients(transform, 1.0, None))).detach()


@pytest.mark.parametrize(
    ("basis", "kind", "moves"),
    [
        (Cosine(), "cells", (rotated, flipped, exchanged)), (Cosine(), "nodes", (rotated, flipped, exchanged)),
        (Fourier(), "periodic", (exchanged, shifted)),
    ],
)  # fmt: skip
def test_a_layer_commutes_with_the_moves_of_its_domain(basis, kind, moves):
    torch.manual_seed(1)
    v = noise(2, 12, 12, 4)
    for sides, is_meant in (((1.0, 1.0), True), (None, False)):
        layer = SpectralMap(4, Spectrum(basis, (5, 5), sides)).double()
        for move in moves:
            difference = (layer_output(layer, move(v), kind) - move(layer_output(layer, v, kind))).abs().max()
            assert (difference < 1e-12) == (is_meant or move in (flipped, shifted)), move  # those, every layer has


def test_the_kernel_is_even_and_read_from_the_lengths_of_wave_numbers():
    """On a torus: sum over modes by hand, against a kernel that is read from R at |k| by another sum over all k."""
    torch.manual_seed(2)
    operator = FourierIntegralOperator(Spectrum(Fourier(), (3, 3)), 1, 1).double()
    operator.mixing = mixing = IsotropicMixing(operator.spectrum, (1.0, 1.0), 1, 1).double()
    grid = Grid.uniform((9, 9), kind="periodic")
    u, x = noise(1, 9, 9, 1), grid.points.reshape(-1, 2).numpy()
    radial = mixing.radial.detach().numpy()
    kernel = sum(
        between(radial, math.hypot(i, j))[0, 0]
        * np.cos(2 * np.pi * (x[:, None] - x[None]) @ np.array([i, j], dtype=float))
        for i in range(-2, 3)
        for j in range(-2, 3)
    )
    np.testing.assert_allclose(kernel, kernel.T, atol=1e-12)
    expected = kernel @ u[0].reshape(-1).numpy() / 81
    by_hand = by_modes(matrices(mixing, operator.spectrum), u[0].reshape(-1, 1).numpy(), x, np.full(81, 1 / 81), x)
    np.testing.assert_allclose(by_hand[:, 0], expected, atol=1e-12)
    patches = make_patches(grid, (1, 1))
    found = patches.join(operator(patches.split(u), make_transform(patches, Fourier(), (3, 3), u)))
    np.testing.assert_allclose(found.detach().numpy().ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("basis", ["cosine", "fourier"])
def test_an_isotropic_fano_is_that_with_a_matrix_for_each_mode(counts, basis):
    few = randomised(of_patches(counts, 3, 1, 2, **SMALL, basis=f"isotropic-{basis}"), 1)
    many = of_patches(counts, 3, 1, 2, **SMALL, basis=basis).double()
    state = {key: value for key, value in few.state_dict().items() if "radial" not in key}
    for number, layer in enumerate(few.layers):
        state[f"layers.{number}.attention.mixing.weight"] = layer.attention.mixing.matrices()
    many.load_state_dict(state)
    u, grid = noise(2, 1, 12, 12), Grid.uniform((12, 12), kind="cells")
    torch.testing.assert_close(few(u, grid), many(u, grid), rtol=1e-12, atol=1e-12)
    assert sum(p.numel() for p in few.parameters()) < sum(p.numel() for p in many.parameters())


@pytest.mark.parametrize("counts", [(1, 1), (2, 2)])
def test_without_coordinates_it_has_the_symmetries_of_the_square(counts):
    operator = forget_coordinates(randomised(of_patches(counts, 4, 1, 1, **SMALL, basis="isotropic-cosine"), 3))
    grid, u = Grid.uniform((12, 12), kind="cells"), noise(2, 1, 12, 12)
    with torch.no_grad():
        z = operator(u, grid)
        for move in (lambda t: torch.rot90(t, 1, (-2, -1)), lambda t: t.flip(-1), lambda t: t.transpose(-2, -1)):
            torch.testing.assert_close(operator(move(u), grid), move(z), rtol=1e-11, atol=1e-11)


def test_gradients_reach_the_few_matrices_and_files_hold_them_alone(tmp_path):
    torch.manual_seed(5)
    operator = FANO((2, 2), 3, 1, 1, **SMALL, basis="isotropic-cosine")
    grid = Grid.uniform((8, 8), kind="cells")
    operator(torch.rand(2, 1, 8, 8), grid).square().sum().backward()
    for layer in operator.layers:
        assert layer.attention.mixing.radial.grad.abs().flatten(1).sum(1).min() > 0
    assert not any("hats" in key or "mixing.weight" in key for key in operator.state_dict())
    operator.save_pretrained(tmp_path / "saved")
    u = torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(operformer.load(tmp_path / "saved")(u, grid), operator(u, grid))


@pytest.mark.parametrize("basis", [Legendre(), ExtendedFourier()])
def test_functions_without_a_wave_number_and_extended_ones_are_refused(basis):
    with pytest.raises(UsageError, match=r"a basis of waves, Cosine\(\) or Fourier\(\)"):
        Isotropic(basis)


@pytest.mark.parametrize("counts", [(1, 1), (2, 3)])
def test_extended_ones_would_be_cosines(counts):
    """Why they are refused: R real and the same in every direction makes no sines of the extension's cosines."""
    torch.manual_seed(4)
    sides = tuple(1 / count for count in counts)
    cosines, extended = (
        FourierAttention(4, 2, Spectrum(basis, (3, 3), sides)).double() for basis in (Cosine(), ExtendedFourier())
    )
    extended.load_state_dict(cosines.state_dict())
    v, grid = noise(2, 12, 12, 4), Grid.uniform((12, 12), kind="cells")
    patches, found = make_patches(grid, counts), []
    for layer, basis in ((cosines, Cosine()), (extended, ExtendedFourier())):
        transform = make_transform(patches, basis, (3, 3), v)
        found.append(layer(patches.split(v), Coefficients(transform, 1 / math.prod(counts), None)))
    torch.testing.assert_close(*found, rtol=1e-12, atol=1e-12)
