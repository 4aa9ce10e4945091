"""Matrices in half precision of the functions of a basis: how much they hold."""

import pytest
import torch

from operformer.domain import Grid
from operformer.domain.basis import Cosine, ExtendedFourier, Fourier
from operformer.domain.patches import make_patches
from operformer.domain.transform import make_transform
from operformer.operators.fused_modes import ALIGNED, in_two_parts, lifted, tables, wide_product
from operformer.operators.integral import FourierIntegralOperator, make_spectrum


def relative(found, expected):
    return float((found.detach().double() - expected.detach()).norm() / expected.detach().norm())


def test_two_parts_hold_twenty_two_bits():
    torch.manual_seed(0)
    matrix = torch.randn(40, 24)
    high, low = in_two_parts(matrix).chunk(2, 1)
    assert high.dtype == low.dtype == torch.float16
    assert relative(high, matrix.double()) > 1e-4
    assert relative(high.double() + low.double(), matrix.double()) < 2e-7


def test_a_wide_product_rounds_neither_the_matrix_nor_the_sum():
    torch.manual_seed(0)
    matrix, functions = torch.randn(40, 24), torch.randn(3, 24, 5).half()
    found = wide_product(in_two_parts(matrix), functions)
    assert found.dtype == torch.float32
    assert relative(found, matrix.double() @ functions.double()) < 1e-6


@pytest.mark.parametrize("basis", [Fourier(), ExtendedFourier(), Cosine()], ids=lambda basis: basis.name)
def test_the_lift_is_the_integral_operator(basis):
    torch.manual_seed(0)
    spectrum = make_spectrum(basis, 3, (2, 3))
    operator = FourierIntegralOperator(spectrum, 3, 8)
    grid = Grid.uniform((12, 18), kind="cells")
    patches = make_patches(grid, (2, 3))
    u = patches.split(torch.randn(2, 12, 18, 3))
    transform = make_transform(patches, spectrum.basis, spectrum.n_modes, u)
    entries = operator.coefficients(u, transform)
    assert tables(operator.modes, transform)[1].shape[1] % ALIGNED == 0
    found = lifted(entries, operator.mixing, operator.modes, transform, 6)
    expected = operator.double()(u.double(), make_transform(patches, spectrum.basis, spectrum.n_modes, u.double()))
    assert found.shape == expected.shape
    # Coefficients have 11 bits; those of an extension cancel.
    assert relative(found, expected) < (2e-3 if isinstance(basis, ExtendedFourier) else 5e-4)
