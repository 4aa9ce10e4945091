"""Analysis and synthesis of half a spectrum against Fourier sums written out and against torch's FFT."""

from itertools import product

import numpy as np
import pytest
import torch

from operformer.operators.baselines.fno import make_half_spectrum

CASES = [  # points, modes, and the wave numbers that are left: by hand
    ((11,), (4,), [range(3)]),
    ((4,), (8,), [range(3)]),
    ((5,), (8,), [range(3)]),
    ((8, 10), (6, 4), [range(-3, 3), range(3)]),
    ((7, 5), (4, 4), [range(-2, 2), range(3)]),
    ((5, 6), (12, 12), [range(-2, 3), range(4)]),
    ((4, 3), (7, 5), [range(-2, 2), range(2)]),
    ((9, 4), (5, 3), [range(-2, 3), range(2)]),
    ((1, 2), (4, 4), [range(1), range(2)]),
    ((3, 4, 5), (4, 2, 2), [range(-1, 2), range(-1, 1), range(2)]),
]


def waves(shape, k):
    """e^{2 pi i k . x} at all points."""
    phases = [kj * np.arange(n) / n for kj, n in zip(k, shape, strict=True)]
    return np.exp(2j * np.pi * sum(np.meshgrid(*phases, indexing="ij")))


@pytest.mark.parametrize(("shape", "n_modes", "kept"), CASES, ids=str)
def test_sums_written_out(shape, n_modes, kept):
    generator = torch.Generator().manual_seed(0)
    v = torch.randn(2, 3, *shape, generator=generator, dtype=torch.float64)
    spectrum = make_half_spectrum(shape, n_modes, v)
    modes = list(product(*kept))
    found = torch.view_as_complex(spectrum.analyse(v.movedim(1, -1)).permute(0, 3, 2, 1).contiguous()).numpy()
    expected = np.stack([(v.numpy() * waves(shape, k).conj()).reshape(2, 3, -1).mean(-1) for k in modes], -1)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    z = torch.randn(2, 2, len(modes), 3, generator=generator, dtype=torch.float64)
    coefficients = torch.view_as_complex(z.permute(0, 3, 2, 1).contiguous()).numpy()
    total = np.zeros((2, 3, *shape))
    for number, k in enumerate(modes):
        times = 1 if 2 * k[-1] % shape[-1] == 0 else 2
        entries = coefficients[..., number].reshape(2, 3, *[1] * len(shape))
        total += times * (entries * waves(shape, k)).real
    np.testing.assert_allclose(spectrum.synthesise(z).movedim(-1, 1).numpy(), total, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("shape", [(7,), (8,), (5, 6), (6, 7), (3, 4, 5)], ids=str)
def test_with_all_modes_it_is_the_fft_and_leads_back(shape):
    v = torch.randn(1, *shape, 2, generator=torch.Generator().manual_seed(1))
    spectrum = make_half_spectrum(shape, shape, v)
    axes = tuple(range(1, v.ndim - 1))
    expected = torch.fft.rfftn(v, dim=axes, norm="forward")
    if len(axes) > 1:
        expected = torch.fft.fftshift(expected, dim=axes[:-1])
    coefficients = spectrum.analyse(v)
    pairs = torch.view_as_real(expected.flatten(1, -2)).permute(0, 3, 1, 2)
    torch.testing.assert_close(coefficients, pairs, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(spectrum.synthesise(coefficients), v, rtol=1e-5, atol=1e-6)
    assert coefficients.dtype == torch.float32
