"""Kernels that know no direction: against the formula, the kernel as an integral, and the moves that they allow."""

import math

import numpy as np
import pytest
import torch
from test_integral import by_modes, matrices
from test_vitno import SMALL, forget_coordinates, noise, randomised

import operformer
from operformer import FANO, Grid
from operformer.domain.basis import Cosine, Fourier
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.errors import UsageError
from operformer.operators.integral import FourierIntegralOperator, SpectralMixing, Spectrum
from operformer.operators.isotropic import IsotropicMixing
from operformer.operators.patched_attention import Coefficients, FourierValue


def mixing_of(basis, n_modes, sides=None):
    torch.manual_seed(0)
    return IsotropicMixing(Spectrum(basis, n_modes, sides or (1.0,) * len(n_modes)), 2, 3).double()


def between(radial, length):
    """The matrix at |k|, by hand: matrices stand at |k| = 2^(3 j / 4) - 1 and are joined linearly in log2(1 + |k|)."""
    place = math.log2(1 + length) / 0.75
    left = math.floor(place)
    right = min(left + 1, len(radial) - 1)
    return (1 - (place - left)) * radial[left] + (place - left) * radial[right]


@pytest.mark.parametrize("sides", [(1.0, 1.0), (0.5, 0.25)])
def test_a_matrix_depends_on_the_length_of_the_wave_number_alone(sides):
    mixing = mixing_of(Cosine(), (4, 5), sides)
    radial, longest = mixing.radial.detach().numpy(), max(sides)
    expected = [
        between(radial, math.sqrt((i * longest / sides[0]) ** 2 + (j * longest / sides[1]) ** 2))
        for i in range(4)
        for j in range(5)
    ]
    np.testing.assert_allclose(mixing.weight.detach().numpy(), expected, rtol=1e-12, atol=1e-12)


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
        layer = FourierValue(4, Spectrum(basis, (5, 5), sides)).double()
        for move in moves:
            difference = (layer_output(layer, move(v), kind) - move(layer_output(layer, v, kind))).abs().max()
            assert (difference < 1e-12) == (is_meant or move in (flipped, shifted)), move  # those, every layer has


def test_the_kernel_is_an_integral_of_a_function_of_the_distance():
    """On a torus: sum over modes by hand, against a kernel that is read from R at |k| by another sum over all k."""
    torch.manual_seed(2)
    operator = FourierIntegralOperator(Spectrum(Fourier(), (3, 3)), 1, 1).double()
    operator.mixing = mixing = IsotropicMixing(Spectrum(Fourier(), (3, 3), (1.0, 1.0)), 1, 1).double()
    grid = Grid.uniform((9, 9), kind="periodic")
    u, x = noise(1, 9, 9, 1), grid.points.reshape(-1, 2).numpy()
    radial = mixing.radial.detach().numpy()
    kernel = sum(
        between(radial, math.hypot(i, j))[0, 0]
        * np.cos(2 * np.pi * (x[:, None] - x[None]) @ np.array([i, j], dtype=float))
        for i in range(-2, 3)
        for j in range(-2, 3)
    )
    expected = kernel @ u[0].reshape(-1).numpy() / 81
    by_hand = by_modes(matrices(mixing, operator.spectrum), u[0].reshape(-1, 1).numpy(), x, np.full(81, 1 / 81), x)
    np.testing.assert_allclose(by_hand[:, 0], expected, atol=1e-12)
    patches = make_patches(grid, (1, 1))
    found = patches.join(operator(patches.split(u), make_transform(patches, Fourier(), (3, 3), u)))
    np.testing.assert_allclose(found.detach().numpy().ravel(), expected, atol=1e-12)


@pytest.mark.parametrize("counts", [(1, 1), (2, 2), (2, 3)])
@pytest.mark.parametrize("basis", ["cosine", "fourier"])
def test_an_isotropic_fano_is_that_with_a_matrix_for_each_mode(counts, basis):
    options = SMALL | {"basis": basis}
    few = randomised(FANO(counts, 3, 1, 2, **options, isotropic=True), 1)
    many = FANO(counts, 3, 1, 2, **options).double()
    state = {key: value for key, value in few.state_dict().items() if "radial" not in key}
    for number, layer in enumerate(few.layers):
        state[f"layers.{number}.attention.mixing.weight"] = layer.attention.mixing.weight
    many.load_state_dict(state)
    u, grid = noise(2, 1, 12, 12), Grid.uniform((12, 12), kind="cells")
    torch.testing.assert_close(few(u, grid), many(u, grid), rtol=1e-12, atol=1e-12)
    assert sum(p.numel() for p in few.parameters()) < sum(p.numel() for p in many.parameters())


@pytest.mark.parametrize("counts", [(1, 1), (2, 2)])
def test_without_coordinates_it_has_the_symmetries_of_the_square(counts):
    operator = forget_coordinates(randomised(FANO(counts, 4, 1, 1, **SMALL, basis="cosine", isotropic=True), 3))
    grid, u = Grid.uniform((12, 12), kind="cells"), noise(2, 1, 12, 12)
    with torch.no_grad():
        z = operator(u, grid)
        for move in (lambda t: torch.rot90(t, 1, (-2, -1)), lambda t: t.flip(-1), lambda t: t.transpose(-2, -1)):
            torch.testing.assert_close(operator(move(u), grid), move(z), rtol=1e-11, atol=1e-11)


def test_gradients_reach_the_few_matrices_and_files_hold_them_alone(tmp_path):
    operator = FANO((2, 2), 3, 1, 1, **SMALL, basis="cosine", isotropic=True)
    grid = Grid.uniform((8, 8), kind="cells")
    operator(torch.rand(2, 1, 8, 8), grid).square().sum().backward()
    for layer in operator.layers:
        assert layer.attention.mixing.radial.grad.abs().flatten(1).sum(1).min() > 0
    assert not any("hats" in key or "mixing.weight" in key for key in operator.state_dict())
    operator.save_pretrained(tmp_path / "saved")
    u = torch.rand(2, 1, 8, 8)
    torch.testing.assert_close(operformer.load(tmp_path / "saved")(u, grid), operator(u, grid))


@pytest.mark.parametrize("options", [{"basis": "legendre"}, {"periodic_extension": True}])
def test_functions_without_a_wave_number_are_refused(options):
    with pytest.raises(UsageError, match='isotropic goes with basis="fourier" and "cosine"'):
        FANO((1, 1), 3, 1, 1, **SMALL, **options, isotropic=True)


def test_a_matrix_for_each_mode_is_what_one_gets_without_asking():
    assert type(FANO((1, 1), 3, 1, 1, **SMALL).layers[0].attention.mixing) is SpectralMixing
