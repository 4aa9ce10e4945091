"""FFTs as real pairs against torch's own, sums written out for a spectrum that is not symmetric, and gradients."""

import pytest
import torch

from operformer.operators.baselines.full_spectrum import half_fft, half_fft_back, symmetric_fft_back

SHAPES = [(7,), (6,), (3, 4), (4, 5), (2, 3, 5)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_forth_it_is_the_fft_and_leads_back(shape):
    v = torch.randn(2, 3, *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pairs = half_fft(v)
    expected = torch.view_as_real(torch.fft.rfftn(v, dim=tuple(range(2, v.ndim))))
    torch.testing.assert_close(pairs, expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(half_fft_back(pairs, shape[-1]) / v[0, 0].numel(), v, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_back_it_is_the_real_part_of_the_sum(shape):
    """Of any half spectrum; the whole one has every mode but those at both ends once more, conjugate, at -k."""
    n = shape[-1]
    pairs = torch.randn(1, 2, *shape[:-1], n // 2 + 1, 2, dtype=torch.float64)
    times = torch.tensor([1.0 if 2 * k % n == 0 else 2.0 for k in range(n // 2 + 1)], dtype=torch.float64)
    whole = torch.zeros(1, 2, *shape, dtype=torch.complex128)
    whole[..., : n // 2 + 1] = times * torch.view_as_complex(pairs)
    expected = torch.fft.ifftn(whole, dim=tuple(range(2, whole.ndim)), norm="forward").real
    torch.testing.assert_close(half_fft_back(pairs, n), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(5,), (4,), (3, 4), (2, 5)], ids=str)
def test_gradients(shape):
    v = torch.randn(1, 2, *shape, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(half_fft, v)
    pairs = torch.randn(1, 2, *shape[:-1], shape[-1] // 2 + 1, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda z: half_fft_back(z, shape[-1]), pairs)


def test_what_a_compiler_is_told_of_them():
    torch.library.opcheck(half_fft, (torch.randn(2, 3, 4, 5, requires_grad=True),))
    symmetric = half_fft(torch.randn(2, 3, 4, 5)).requires_grad_()
    torch.library.opcheck(symmetric_fft_back, (symmetric, 5))
