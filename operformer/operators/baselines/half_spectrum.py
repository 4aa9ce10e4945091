"""Fourier sums over the few modes that a spectral convolution keeps, by products with real matrices along each axis.

An FFT of all points to use 12 x 7 of its modes is mostly wasted, and complex tensors are what compilers do not fuse.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain.products import exact_matmul


@dataclass(frozen=True, eq=False)
class HalfSpectrum:
    """v^_k = 1/N sum_j v(x_j) e^{-2 pi i k . x_j} and Re sum_k c_k v^_k e^{2 pi i k . x_j}, x_j equispaced in a period.

    Along the last axis k is 0, 1, ..., with c_k = 1 at 0 and at half the number of points, 2 between: k stands for -k,
    too. Complex numbers are an axis (real, imaginary) of length 2. It stands before the modes and behind the points, so
    that a complex product along an axis is one with a real matrix, a rotation for each mode and point. Channels come
    last and are carried along.
    """

    wave_numbers: tuple[tuple[int, int], ...]  # the first one, and one more than the last
    analysis: tuple[Tensor, ...]  # (2 modes, 2 points), that of the last axis (2 modes, points)
    synthesis: tuple[Tensor, ...]  # (2 points, 2 modes), that of the last axis (points, 2 modes)

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, *points, c) -> (batch, 2, modes, c), the modes of all axes flattened; the last axis first."""
        *others, last = self.analysis
        w = torch.matmul(last, v).flatten(-2)
        for matrix in reversed(others):
            w = torch.matmul(matrix, w.unflatten(-1, (2, -1)).flatten(-3, -2)).flatten(-2)
        return w.unflatten(-1, (2, -1, v.shape[-1]))

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, 2, modes, c) -> (batch, *points, c); what TF32 would round there is noise to the H1 norm."""
        *others, last = self.synthesis
        w = coefficients.flatten(1)
        for matrix in others:
            points, modes = matrix.shape
            w = exact_matmul(matrix, w.unflatten(-1, (modes, -1)))
            w = w.unflatten(-2, (points // 2, 2)).flatten(-2)
        return exact_matmul(last, w.unflatten(-1, (-1, coefficients.shape[-1])))


def make_half_spectrum(shape: Sequence[int], n_modes: Sequence[int], like: Tensor) -> HalfSpectrum:
    """The modes that so many points have, at most ``n_modes``, in the dtype and on the device of ``like``.

    m modes of an axis are -(m // 2), ..., m - m // 2 - 1, and of the last one 0, ..., m // 2.
    """
    *others, last = zip(shape, (min(n, m) for n, m in zip(shape, n_modes, strict=True)), strict=True)
    wave_numbers, analysis, synthesis = [], [], []
    for n, m in others:
        wave_numbers.append((-(m // 2), m - m // 2))
        cosine, sine = _waves(n, *wave_numbers[-1], like)
        rotation = torch.stack([torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)])
        rotation = rotation.flatten(-2).flatten(0, 1)
        analysis.append((rotation / n).to(like.dtype))
        synthesis.append(rotation.T.to(like.dtype))
    n, m = last
    wave_numbers.append((0, m // 2 + 1))
    cosine, sine = _waves(n, *wave_numbers[-1], like)
    waves = torch.stack([cosine, -sine])
    is_end = torch.arange(m // 2 + 1, device=like.device) * 2 % n == 0
    analysis.append((waves.flatten(0, 1) / n).to(like.dtype))
    synthesis.append((waves * torch.where(is_end, 1.0, 2.0).unsqueeze(-1)).flatten(0, 1).T.to(like.dtype))
    return HalfSpectrum(tuple(wave_numbers), tuple(analysis), tuple(synthesis))


def _waves(n_points: int, first: int, stop: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin of 2 pi k j / n, in float64, the angle reduced in whole numbers: (modes, points) each."""
    k = torch.arange(first, stop, device=like.device)
    j = torch.arange(n_points, device=like.device)
    angles = 2 * torch.pi / n_points * (k.unsqueeze(-1) * j % n_points).double()
    return torch.cos(angles), torch.sin(angles)
