"""Integral operators whose kernels know no direction: R(k) is a function of |k| alone.

What Darcy flow does is made of such operators and of products at each point, since

    2 grad a . grad z = Laplace(a z) - a Laplace z - z Laplace a

and a matrix for each mode would have to learn from the data that they are all the same in every direction. R is read
from few matrices R_j, linearly in s = log2(1 + |k|), so that an operator with more modes has hardly more weights:

    R(k) = sum_j max(0, 1 - |s / h - j|) R_j,    h = 3 / 4

In Fourier's basis R is real, the transform of an even kernel that depends on |x - y|; in that of cosines R(Laplace) has
Neumann's condition, the same kernel and its mirror images. Flows are another matter: a velocity has a direction.
"""

from __future__ import annotations

from math import ceil, hypot, log2, sqrt

import torch
from torch import Tensor, nn

from operformer.domain.fourier import make_modes
from operformer.operators.integral import SpectralMixing, Spectrum

SPACING = 0.75  # h: of s, so that matrices stand at |k| = 0, 0.7, 1.8, 3.8, 7, 12.5, 21.6, ...


class IsotropicMixing(SpectralMixing):
    """R(|k|) u_k for every kept wave number k: `SpectralMixing` whose matrices follow from few, ``radial`` (J, c, c').

    |k| counts waves along the longest side of a patch.
    """

    hats: Tensor

    def __init__(self, spectrum: Spectrum, in_channels: int, out_channels: int) -> None:
        nn.Module.__init__(self)
        self.n_single = make_modes(spectrum.basis, spectrum.n_modes).n_single
        hats = radial_hats(spectrum)
        self.register_buffer("hats", hats, persistent=False)
        bound = 1 / sqrt(in_channels)
        self.radial = nn.Parameter(torch.empty(hats.shape[1], in_channels, out_channels).uniform_(-bound, bound))

    @property
    def weight(self) -> Tensor:  # type: ignore[override]
        """A matrix for each function (E, c, c'), as `SpectralMixing` has them; those of imaginary parts are zero."""
        return torch.einsum("ej,jab->eab", self.hats.to(self.radial), self.radial)


def make_mixing(spectrum: Spectrum, in_channels: int, out_channels: int) -> SpectralMixing:
    """A matrix for each mode, or the same in every direction."""
    make = SpectralMixing if spectrum.sides is None else IsotropicMixing
    return make(spectrum, in_channels, out_channels)


def radial_hats(spectrum: Spectrum) -> Tensor:
    """How much of R_j each of the E functions has: (E, J); nothing where an imaginary part stands."""
    modes, sides = make_modes(spectrum.basis, spectrum.n_modes), spectrum.sides or (1.0,) * len(spectrum.n_modes)
    places = [
        log2(1 + hypot(*(kj * max(sides) / side for kj, side in zip(k, sides, strict=True)))) / SPACING
        for k in modes.wave_numbers
    ]
    place = torch.tensor(places, dtype=torch.float64, device="cpu").unsqueeze(1)
    found = (1 - (place - torch.arange(ceil(max(places)) + 1, device="cpu")).abs()).clamp(min=0)
    pairs = found[modes.n_single :]
    return torch.cat([found[: modes.n_single], torch.stack([pairs, torch.zeros_like(pairs)], 1).flatten(0, 1)])
