"""Functions on the reference patch [0, 1]: the bases in which integral operators are diagonal (Section 4.1).

A basis in d dimensions is the tensor product of one of these with itself. Analysis takes the integrals of a function
with ``analysis`` functions, synthesis sums ``synthesis`` functions; except for the extension the two are the same,
orthonormal in L2([0, 1]).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import pi, sqrt
from typing import ClassVar

import torch
from torch import Tensor


class Basis(ABC):
    """m modes on [0, 1]. ``has_pairs`` bases hold a cosine and a sine for each wave number, in this order."""

    name: ClassVar[str]  # in files and on the command line
    has_pairs: ClassVar[bool] = False
    is_orthonormal: ClassVar[bool] = True
    # The function 1 is this multiple of the first function, where that is a constant.
    one: ClassVar[float] = 1.0

    @property
    def plain(self) -> str:
        """The name, as JSON holds it."""
        return self.name

    def size(self, n_modes: int) -> int:
        """How many functions m modes are."""
        return 2 * n_modes if self.has_pairs else n_modes

    @abstractmethod
    def synthesis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions at the points: (...) -> (..., size)."""

    def analysis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions to integrate with: (...) -> (..., size)."""
        return self.synthesis(x, n_modes)

    @abstractmethod
    def n_resolved(self, n_points: int) -> int:
        """How many modes a number of points tells apart; the others would pass for lower ones."""

    @abstractmethod
    def eigenvalues(self, n_modes: int, device: torch.device | str = "cpu") -> Tensor:
        """-phi'' = lambda phi, one for each function (size,)."""


@dataclass(frozen=True)
class Fourier(Basis):
    """1, sqrt(2) cos(2 pi k x), sqrt(2) sin(2 pi k x), |k| < m (Definition FourierIntegralOperator_final).

    The sine of k = 0 is zero and kept for the sake of the shape.
    """

    name = "fourier"
    has_pairs = True

    def synthesis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions at the points: (...) -> (..., 2 m)."""
        return _cosines_and_sines(2 * pi * x, n_modes) * _first(1.0, sqrt(2), 2 * n_modes, x)

    def n_resolved(self, n_points: int) -> int:
        """|k| < n / 2: the Nyquist wave number itself is not told from its negative."""
        return (n_points + 1) // 2

    def eigenvalues(self, n_modes: int, device: torch.device | str = "cpu") -> Tensor:
        """(2 pi k)^2, twice each."""
        return (2 * pi * torch.arange(n_modes, dtype=torch.float64, device=device)).square().repeat_interleave(2)


@dataclass(frozen=True)
class ExtendedFourier(Basis):
    """Fourier modes on [0, 2] of the function continued by its mirror image, read on [0, 1] (Section 6.2.3).

    The continuation is even, so only cosines of pi k x see it; what an integral operator makes of it has sines too.
    """

    name = "extended-fourier"
    has_pairs = True
    is_orthonormal = False
    one = sqrt(2)

    def synthesis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions at the points: (...) -> (..., 2 m)."""
        return _cosines_and_sines(pi * x, n_modes) * _first(sqrt(0.5), 1.0, 2 * n_modes, x)

    def analysis(self, x: Tensor, n_modes: int) -> Tensor:
        """The integral over [0, 2] is twice the one over [0, 1] for cosines, and zero for sines."""
        is_cosine = torch.arange(2 * n_modes, device=x.device) % 2 == 0
        return 2 * self.synthesis(x, n_modes) * is_cosine

    def n_resolved(self, n_points: int) -> int:
        """|k| < n, Nyquist's number for the 2 n points of the continued function."""
        return n_points

    def eigenvalues(self, n_modes: int, device: torch.device | str = "cpu") -> Tensor:
        """(pi k)^2, twice each."""
        return (pi * torch.arange(n_modes, dtype=torch.float64, device=device)).square().repeat_interleave(2)


@dataclass(frozen=True)
class Cosine(Basis):
    """1, sqrt(2) cos(pi k x): eigenfunctions of the Laplacian with Neumann conditions; no wrap at the faces."""

    name = "cosine"

    def synthesis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions at the points: (...) -> (..., m)."""
        k = torch.arange(n_modes, dtype=x.dtype, device=x.device)
        return torch.cos(pi * x.unsqueeze(-1) * k) * _first(1.0, sqrt(2), n_modes, x, count=1)

    def n_resolved(self, n_points: int) -> int:
        """k < n."""
        return n_points

    def eigenvalues(self, n_modes: int, device: torch.device | str = "cpu") -> Tensor:
        """(pi k)^2."""
        return (pi * torch.arange(n_modes, dtype=torch.float64, device=device)).square()


@dataclass(frozen=True)
class Sine(Basis):
    """sqrt(2) sin(pi (k + 1) x): eigenfunctions of the Laplacian with Dirichlet conditions."""

    name = "sine"

    def synthesis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions at the points: (...) -> (..., m)."""
        k = torch.arange(1, n_modes + 1, dtype=x.dtype, device=x.device)
        return sqrt(2) * torch.sin(pi * x.unsqueeze(-1) * k)

    def n_resolved(self, n_points: int) -> int:
        """k + 1 < n."""
        return n_points - 1

    def eigenvalues(self, n_modes: int, device: torch.device | str = "cpu") -> Tensor:
        """(pi (k + 1))^2."""
        return (pi * torch.arange(1, n_modes + 1, dtype=torch.float64, device=device)).square()


@dataclass(frozen=True)
class Legendre(Basis):
    """sqrt(2 k + 1) P_k(2 x - 1): polynomials, for functions without any symmetry at the faces."""

    name = "legendre"

    def synthesis(self, x: Tensor, n_modes: int) -> Tensor:
        """The functions at the points: (...) -> (..., m), by (k + 1) P_{k+1} = (2 k + 1) y P_k - k P_{k-1}."""
        y = 2 * x - 1
        values = [torch.ones_like(y), y]
        for k in range(1, n_modes - 1):
            values.append(((2 * k + 1) * y * values[k] - k * values[k - 1]) / (k + 1))
        degrees = torch.arange(n_modes, dtype=x.dtype, device=x.device)
        return torch.stack(values[:n_modes], -1) * torch.sqrt(2 * degrees + 1)

    def n_resolved(self, n_points: int) -> int:
        """k < 2 sqrt(n): equispaced points see no more of a polynomial, whose zeros crowd at the ends."""
        return min(n_points, int(2 * sqrt(n_points)))

    def eigenvalues(self, n_modes: int, device: torch.device | str = "cpu") -> Tensor:
        """Polynomials are no eigenfunctions of the Laplacian; k (k + 1) is that of Legendre's own operator."""
        k = torch.arange(n_modes, dtype=torch.float64, device=device)
        return k * (k + 1)


BASES: dict[str, Basis] = {basis.name: basis for basis in (Fourier(), ExtendedFourier(), Cosine(), Legendre())}


def _cosines_and_sines(angle: Tensor, n_modes: int) -> Tensor:
    """cos(k angle), sin(k angle) for k < m, interleaved: (...) -> (..., 2 m)."""
    angles = angle.unsqueeze(-1) * torch.arange(n_modes, dtype=angle.dtype, device=angle.device)
    return torch.stack([torch.cos(angles), torch.sin(angles)], -1).flatten(-2)


def _first(first: float, others: float, size: int, like: Tensor, count: int = 2) -> Tensor:
    factors = like.new_full((size,), others)
    factors[:count] = first
    return factors
