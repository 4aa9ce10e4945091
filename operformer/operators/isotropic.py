"""Integral operators whose kernels know no direction: R(k) is a function of |k| alone.

Inside D Darcy flow is made of such operators and of products at each point, since

    2 div(a grad z) = Laplace(a z) + a Laplace z - z Laplace a

and a matrix for each mode would have to learn from the data that they are all the same in every direction. R is read
from few matrices R_j, linearly in s = log2(1 + |k|), so that an operator with more modes has few more weights:

    R(k) = sum_j max(0, 1 - |s / h - j|) R_j,    h = 3 / 4

In Fourier's basis R is real, and its kernel even; if every k were kept, it would be a function of |x - y| and its
periodic images. With cosines R is a function of the Laplacian with Neumann's condition: the kernel of twice the period
and its mirror images. The boundary is left to the coordinates and to smoothing.
"""

from __future__ import annotations

from math import ceil, hypot, log2, sqrt

import torch
from torch import Tensor, nn

from operformer.domain.fourier import Modes, make_modes
from operformer.operators.integral import Mixing, SpectralMixing, Spectrum

SPACING = 0.75  # h: of s, so that matrices stand at |k| = 0, 0.7, 1.8, 3.8, 7, 12.5, 21.6, ...


class IsotropicMixing(Mixing):
    """R(|k|) u_k for every kept wave number k, from few matrices, ``radial`` (J, c, c').

    |k| counts waves, of cosines half waves, along the longest of a patch's ``sides``. Muon knows the parameter by name.
    """

    hats: Tensor

    def __init__(self, spectrum: Spectrum, sides: tuple[float, ...], in_channels: int, out_channels: int) -> None:
        super().__init__()
        modes = make_modes(spectrum.basis, spectrum.n_modes)
        self.n_single = modes.n_single
        hats = radial_hats(modes, sides)
        self.register_buffer("hats", hats, persistent=False)
        bound = 1 / sqrt(in_channels)  # as large as in nn.Linear
        self.radial = nn.Parameter(torch.empty(hats.shape[1], in_channels, out_channels).uniform_(-bound, bound))

    def matrices(self) -> Tensor:
        """One for each function (E, c, c'); those of imaginary parts are zero."""
        return torch.einsum("ej,jab->eab", self.hats.to(self.radial), self.radial)


def make_mixing(spectrum: Spectrum, in_channels: int, out_channels: int) -> Mixing:
    """One with a matrix for each mode, or with kernels that know no direction."""
    if spectrum.sides is None:
        return SpectralMixing(spectrum, in_channels, out_channels)
    return IsotropicMixing(spectrum, spectrum.sides, in_channels, out_channels)


def radial_hats(modes: Modes, sides: tuple[float, ...]) -> Tensor:
    """How much of R_j each of the E functions has: (E, J); nothing where an imaginary part stands."""
    longest = max(sides)
    places = [
        log2(1 + hypot(*(kj * longest / side for kj, side in zip(k, sides, strict=True)))) / SPACING
        for k in modes.wave_numbers
    ]
    place = torch.tensor(places, dtype=torch.float64).unsqueeze(1)
    found = (1 - (place - torch.arange(ceil(max(places)) + 1)).abs()).clamp(min=0)
    pairs = found[modes.n_single :]
    return torch.cat([found[: modes.n_single], torch.stack([pairs, torch.zeros_like(pairs)], 1).flatten(0, 1)])
