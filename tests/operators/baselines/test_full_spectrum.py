"""FFTs as real pairs against torch's own, sums written out for a spectrum that is not symmetric, and gradients."""

import pytest
import torch
from draws import noise

from operformer.operators.baselines.afno import half_fft, half_fft_back, half_fft_forth, symmetric_fft_back

SHAPES = [(7,), (6,), (1,), (2,), (3, 4), (4, 5), (5, 1), (4, 2), (2, 3, 5), (3, 2, 4)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forth_it_is_the_fft_and_leads_back(shape):
    v = noise(2, 3, *shape)
    pairs = half_fft(v)
    expected = torch.view_as_real(torch.fft.rfftn(v, dim=tuple(range(2, v.ndim))))
    torch.testing.assert_close(pairs, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(half_fft_back(pairs, shape[-1]) / v[0, 0].numel(), v, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_back_it_is_the_real_part_of_the_sum(shape):
    """Of any half spectrum; the whole one has every mode but those at both ends once more, conjugate, at -k."""
    n = shape[-1]
    pairs = noise(1, 2, *shape[:-1], n // 2 + 1, 2)
    times = torch.tensor([1.0 if 2 * k % n == 0 else 2.0 for k in range(n // 2 + 1)], dtype=torch.float64)
    whole = torch.zeros(1, 2, *shape, dtype=torch.complex128)
    whole[..., : n // 2 + 1] = times * torch.view_as_complex(pairs)
    expected = torch.fft.ifftn(whole, dim=tuple(range(2, whole.ndim)), norm="forward").real
    torch.testing.assert_close(half_fft_back(pairs, n), expected, rtol=1e-12, atol=1e-12)


def test_axes_in_another_order():
    pairs = noise(2, 4, 3, 3, 2).movedim(-2, 1)  # channels stood behind the modes
    torch.testing.assert_close(half_fft_back(pairs, 5), half_fft_back(pairs.contiguous(), 5), rtol=0, atol=0)
    v = noise(2, 4, 5, 3).movedim(-1, 1)
    torch.testing.assert_close(half_fft(v), half_fft(v.contiguous()), rtol=0, atol=0)


@pytest.mark.parametrize("shape", [(5,), (4,), (3, 4), (2, 5), (2, 3, 4)], ids=str)
def test_gradients_for_compilers(shape):
    """Of first and second order, as torch's own of the plain transforms."""
    v = noise(1, 2, *shape).requires_grad_()
    assert torch.autograd.gradcheck(half_fft_forth, v)
    assert torch.autograd.gradgradcheck(half_fft_forth, v)
    symmetric = half_fft(v).detach().requires_grad_()

    def back(pairs):  # changed, a spectrum is no longer symmetric: its gradient is that of the symmetric part
        return half_fft_back(pairs, shape[-1])

    (found,) = torch.autograd.grad(symmetric_fft_back(symmetric, shape[-1]).pow(3).sum(), symmetric)
    (expected,) = torch.autograd.grad(back(symmetric).pow(3).sum(), symmetric)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert torch.autograd.gradcheck(back, symmetric)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own use of it
def test_directional_derivatives():
    v, direction = noise(1, 2, 4, 6), noise(1, 2, 4, 6, seed=1)
    _, found = torch.func.jvp(lambda v: half_fft_back(half_fft(v).square(), 6), (v,), (direction,))
    expected = half_fft_back(2 * half_fft(v) * half_fft(direction), 6)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_what_a_compiler_is_told_of_them():
    torch.library.opcheck(half_fft_forth, (torch.randn(2, 3, 4, 5, requires_grad=True),))
    symmetric = half_fft(torch.randn(2, 3, 4, 5)).requires_grad_()
    torch.library.opcheck(symmetric_fft_back, (symmetric, 5))
