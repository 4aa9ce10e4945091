"""Integral operators (Definitions int_op and FourierIntegralOperator_final)."""

# DESIGN.md: Kernels are real
# DESIGN.md: Isotropic kernels depend on the length of the wave vector alone
# DESIGN.md: First weights have the output variance of a linear layer

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, hypot, log2, prod, sqrt

import torch
from torch import Tensor, nn

from operformer.domain.basis import BASES, Basis, Cosine, Fourier
from operformer.domain.blending import AnyTransform
from operformer.domain.fourier import Modes, make_modes, signed_sums
from operformer.errors import UsageError

MOST_MODES = 2**17
SPACING = 0.75  # h: of s, so that matrices stand at |k| = 0, 0.7, 1.8, 3.8, 7, 12.5, 21.6, ...


@dataclass(frozen=True)
class Isotropic:
    """Integral kernels that know no direction: R(k) depends on |k| alone, in a basis of waves (`IsotropicMixing`).

    They have few weights and learn elliptic problems from few samples. They are not meant for flows.

    Args:
        basis: `Cosine` for most problems on a box, `Fourier` for periodic ones.
    """

    basis: Basis = Cosine()  # noqa: RUF009  # a frozen value

    def __post_init__(self) -> None:
        if not isinstance(self.basis, Cosine | Fourier):
            found = getattr(self.basis, "name", repr(self.basis))
            raise UsageError(f"Isotropic needs a basis of waves, Cosine() or Fourier(): got {found}")

    @property
    def plain(self) -> str:
        """The name, as JSON holds it."""
        return f"isotropic-{self.basis.name}"


AnyBasis = Basis | Isotropic
_NAMED: dict[str, AnyBasis] = {
    **BASES,
    **{basis.plain: basis for basis in (Isotropic(Cosine()), Isotropic(Fourier()))},
}


def read_basis(given: AnyBasis | str) -> AnyBasis:
    """The basis that a constructor was given, as a value or by its name."""
    if isinstance(given, Basis | Isotropic):
        return given
    if not isinstance(given, str) or given not in _NAMED:
        raise UsageError(f"basis must be one of {', '.join(_NAMED)}, or such a value: got {given!r}")
    return _NAMED[given]


@dataclass(frozen=True)
class Spectrum:
    """The modes that an integral operator keeps: m_j along axis j, |k_j| < m_j.

    ``sides`` are the lengths of a patch's sides where R(k) is to depend on |k| alone; see `IsotropicMixing`.
    """

    basis: Basis
    n_modes: tuple[int, ...]
    sides: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        count = prod(2 * m for m in self.n_modes)
        if count > MOST_MODES:
            raise UsageError(f"n_modes must keep at most {MOST_MODES} modes in all: got {count}; take fewer")


class ModeTables(nn.Module):
    """The functions of `make_modes`, their tables on the operator's device and in none of its files."""

    terms: Tensor
    signs: Tensor
    adjoint_terms: Tensor
    adjoint_signs: Tensor

    def __init__(self, spectrum: Spectrum) -> None:
        super().__init__()
        modes = make_modes(spectrum.basis, spectrum.n_modes)
        self.count, self.n_single = modes.count, modes.n_single
        for name in ("terms", "signs", "adjoint_terms", "adjoint_signs"):
            self.register_buffer(name, getattr(modes, name), persistent=False)

    def gather(self, coefficients: Tensor) -> Tensor:
        """(rows, products, c) -> (E, rows, c)."""
        tables = (self.terms, self.signs, self.adjoint_terms, self.adjoint_signs)
        return signed_sums(coefficients.transpose(0, 1), *tables)

    def scatter(self, entries: Tensor) -> Tensor:
        """(E, rows, c) -> (rows, products, c)."""
        tables = (self.adjoint_terms, self.adjoint_signs, self.terms, self.signs)
        return signed_sums(entries, *tables).transpose(0, 1)


class Mixing(nn.Module, ABC):
    """R(k) u_k for every kept wave number k: the Fourier transform of a real kernel, R(-k) = conj R(k).

    Matrices are real, one for each function: R(0), then real and imaginary part for each pair of k and -k, which makes
    (2 m - 1)^d in all. In a real basis there is one matrix for each function, too.
    """

    n_single: int  # functions by themselves, before the pairs

    @abstractmethod
    def matrices(self) -> Tensor:
        """One for each of the E functions: (E, in_channels, out_channels)."""

    def forward(self, entries: Tensor) -> Tensor:
        """(E, rows, in_channels) -> (E, rows, out_channels)."""
        matrices = self.matrices()
        single = torch.bmm(entries[: self.n_single], matrices[: self.n_single])
        if self.n_single == len(entries):
            return single
        return torch.cat([single, mixed_pairs(entries[self.n_single :], matrices[self.n_single :])])


class SpectralMixing(Mixing):
    """With a matrix of its own for each function, ``weight``."""

    def __init__(self, spectrum: Spectrum, in_channels: int, out_channels: int) -> None:
        super().__init__()
        modes = make_modes(spectrum.basis, spectrum.n_modes)
        self.n_single = modes.n_single
        self.weight = nn.Parameter(torch.empty(modes.count, in_channels, out_channels))
        # By Parseval the output's mean square is that of the kept modes times in_channels Var R: 1/3 of it, as of
        # nn.Linear, whatever the grid and the number of modes. Real and imaginary part share the variance.
        bound = 1 / sqrt(in_channels)
        nn.init.uniform_(self.weight[: self.n_single], -bound, bound)
        nn.init.uniform_(self.weight[self.n_single :], -bound / sqrt(2), bound / sqrt(2))

    @torch.no_grad()
    def start_pointwise(self, width: int) -> None:
        """Let R(k) = W for every k, W uniform in +-1/sqrt(width): at first a matrix at each point of the kept modes.

        Independent R(k) have a kernel as large at every distance, whose variance grows with the number of modes, and
        whoever reads the output meets all of u mixed up. This kernel stands around zero.
        """
        same = torch.empty_like(self.weight[0]).uniform_(-1 / sqrt(width), 1 / sqrt(width))
        self.weight.zero_()  # imaginary parts stay so
        self.weight[: self.n_single] = same
        self.weight[self.n_single :: 2] = same

    def matrices(self) -> Tensor:
        """The weight itself."""
        return self.weight


def mixed_pairs(entries: Tensor, weight: Tensor) -> Tensor:
    """R(k) u_k from cosine and sine of each k, one after the other: (2 K, rows, in) and (2 K, in, out)."""
    # (a + i b)(c - i s) = (a c + b s) - i (a s - b c), as one product of [c, s] and [s, -c] with [a, b].
    pairs = entries.unflatten(0, (-1, 2))
    cosine, sine = pairs.unbind(1)
    turned = torch.stack([sine, -cosine], 1)
    both = torch.cat([pairs, turned], -1).flatten(1, 2)
    weights = weight.unflatten(0, (-1, 2)).flatten(1, 2)
    return torch.bmm(both, weights).unflatten(1, (2, -1)).flatten(0, 1)


class IsotropicMixing(Mixing):
    """R(|k|) u_k for every kept wave number k, from few matrices, ``radial`` (J, c, c'): kernels without a direction.

    Inside D Darcy flow is made of such operators and of products at each point, since

        2 div(a grad z) = Laplace(a z) + a Laplace z - z Laplace a

    and a matrix for each mode would have to learn from the data that they are all the same in every direction. R is
    read from few matrices R_j, linearly in s = log2(1 + |k|), so an operator with more modes has few more weights:

        R(k) = sum_j max(0, 1 - |s / h - j|) R_j,    h = 3 / 4

    In Fourier's basis R is real, and its kernel even. With cosines R is a function of the Laplacian with Neumann's
    condition. The boundary is left to the coordinates and to smoothing.

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


class FourierIntegralOperator(nn.Module):
    """(W u)(x) = F^-1(R . F u)(x) on each patch (Definition FourierIntegralOperator_final).

    Coefficients, integrals over the patch, stand in place of FFT bins, so the operator does not depend on the grid. In
    another basis than Fourier's R is diagonal in that one.
    """

    def __init__(self, spectrum: Spectrum, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.spectrum = spectrum
        self.modes = ModeTables(spectrum)
        self.mixing = SpectralMixing(spectrum, in_channels, out_channels)

    def forward(self, v: Tensor, transform: AnyTransform) -> Tensor:
        """(batch, P, *points, in_channels) -> (batch, P, *points, out_channels); from D to D where patches overlap."""
        return transform.synthesise(self.image(v, transform))

    def image(self, v: Tensor, transform: AnyTransform) -> Tensor:
        """The coefficients of W v, by which it is known at all points: (batch, P, sizes, out_channels)."""
        mixed = self.mixing(self.coefficients(v, transform))
        return self.modes.scatter(mixed).unflatten(0, (v.shape[0], -1))

    def coefficients(self, v: Tensor, transform: AnyTransform) -> Tensor:
        """Those of v: (E, batch P, in_channels)."""
        return self.modes.gather(transform.analyse(v).flatten(0, 1))


def make_spectrum(basis: AnyBasis, n_modes: int | Sequence[int], n_patches: Sequence[int]) -> Spectrum:
    """The spectrum of an operator on congruent patches, after its settings were compared with each other."""
    dim = len(n_patches)
    modes = tuple(n_modes) if isinstance(n_modes, Sequence) else (n_modes,) * dim
    if len(modes) != dim:
        raise UsageError(f"n_modes must be one number or one for each of {dim} axes: got {n_modes}")
    if any(not isinstance(m, int) or isinstance(m, bool) or m < 1 for m in modes):
        raise UsageError(f"n_modes must be at least 1, the mean of a patch, and whole: got {n_modes}")
    if isinstance(basis, Isotropic):
        return Spectrum(basis.basis, modes, tuple(1 / count for count in n_patches))
    return Spectrum(basis, modes)
