"""AFNO's mixing of modes in complex numbers, as it is written: what ours is compared with, in tests and benchmarks."""

from __future__ import annotations

from copy import deepcopy

import torch
from torch import Tensor
from torch.nn.functional import softshrink

from operformer.operators.baselines.afno import AFNO, SpectralMLP


def as_literal_afno(operator: AFNO) -> AFNO:
    """A copy of the operator, with weights of the same names, that mixes modes literally."""
    literal = deepcopy(operator)
    for layer in literal.layers:
        layer.mixing.__class__ = LiteralSpectralMLP
    return literal


class LiteralSpectralMLP(SpectralMLP):
    """torch's own FFTs and complex products, in two dimensions; what irfft ignores at both ends is left to it."""

    def forward(self, v: Tensor) -> Tensor:
        """(batch, *shape, channels) -> the same."""
        spectrum = torch.fft.rfft2(v, dim=(1, 2), norm="ortho").unflatten(-1, self.bias_1.shape[1:])
        w1, b1, w2, b2 = (torch.complex(*t) for t in (self.weight_1, self.bias_1, self.weight_2, self.bias_2))
        inner = torch.einsum("...ki,kio->...ko", spectrum, w1) + b1
        inner = torch.complex(inner.real.relu(), inner.imag.relu())
        outer = torch.einsum("...ki,kio->...ko", inner, w2) + b2
        parts = (softshrink(part, self.threshold) for part in (outer.real, outer.imag))
        rows = torch.fft.ifft(torch.complex(*parts).flatten(-2), dim=1, norm="ortho")
        return v + torch.fft.irfft(rows, n=v.shape[2], dim=2, norm="ortho")
