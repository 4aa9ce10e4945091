"""Where in wave number an operator errs: energies of truth, prediction and error by shell, mean over samples.

The energy of a function by wave number is ||u||^2 = sum_s E_s, E_s = sum of |c_k|^2 over the wave vectors of shell s.

The functions are orthonormal by the grid's own weights, so Parseval's identity holds with the norm of the quadrature:

    Fourier, exp(2 pi i k . x / L)       periodic grids, and cells where the functions are periodic
    cosine, prod cos(pi k_j x_j / L_j)   nodes (trapezoid) and cells: the function is continued by its mirror image

The mirror image of a smooth function has no jump at the faces, but its slope has one. Its coefficients decay as k^-2.
The Fourier coefficients of a function that is not periodic decay as k^-1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi, prod, sqrt
from typing import Literal

import torch
from torch import Tensor

from operformer.domain import Grid, inner_product
from operformer.domain.quadrature import check_values

TransformName = Literal["fourier", "cosine"]


@dataclass(frozen=True)
class ErrorSpectrum:
    """Energies by shell as shares of each sample's ||z||^2, mean over samples: the truth's sum to 1.

    The error's sum to the mean square of the relative L2 errors. ``wave_numbers`` are radians per unit of length.
    """

    transform: TransformName
    wave_numbers: tuple[float, ...]
    truth: tuple[float, ...]
    prediction: tuple[float, ...]
    error: tuple[float, ...]


class SpectrumMean:
    """Takes samples into account some at a time; None is made of grids whose points are not equispaced."""

    def __init__(self, grid: Grid, is_periodic: bool) -> None:
        self._grid, self._transform = grid, choose_transform(grid, is_periodic)
        # Sums over samples for each wave vector: truth, prediction, error.
        self._sums = torch.zeros(3, *grid.shape, dtype=torch.float64, device=grid.weights.device)
        self._count = 0

    def add(self, prediction: Tensor, z: Tensor) -> None:
        """Samples (batch, channels, *shape) twice, in float64 and on the grid's device."""
        if self._transform is None:
            return
        unit = inner_product(z, z, self._grid).reciprocal()
        truth = coefficients(z, self._grid, self._transform)
        found = coefficients(prediction, self._grid, self._transform)
        for total, entries in zip(self._sums, (truth, found, found - truth), strict=True):
            total += torch.einsum("bc...,b->...", entries.abs().square(), unit)
        self._count += len(z)

    def mean(self) -> ErrorSpectrum | None:
        """The energies of what was added."""
        if self._transform is None:
            return None
        energies = sum_shells(self._sums / self._count, shells(self._grid, self._transform)).tolist()
        width = shell_width(self._grid, self._transform)
        wave_numbers = tuple(width * shell for shell in range(len(energies[0])))
        return ErrorSpectrum(self._transform, wave_numbers, *map(tuple, energies))


def choose_transform(grid: Grid, is_periodic: bool = False) -> TransformName | None:
    """The functions that suit a grid and values on it; None if the points are not equispaced."""
    if grid.kind == "periodic" or (grid.kind == "cells" and is_periodic):
        return "fourier"
    return "cosine" if grid.kind in ("nodes", "cells") else None


def coefficients(u: Tensor, grid: Grid, transform: TransformName) -> Tensor:
    """c_k, real for cosines and complex for Fourier: (..., channels, *shape) -> the same shape."""
    check_values(u, grid)
    if transform == "fourier":
        axes = tuple(range(-grid.dim, 0))
        return torch.fft.fftn(u, dim=axes) * (sqrt(grid.volume) / prod(grid.shape))
    for k, (lower, upper) in enumerate(grid.bounds, start=-grid.dim):
        u = _cosine_coefficients(u.movedim(k, -1), grid.kind == "nodes", upper - lower).movedim(-1, k)
    return u


def shells(grid: Grid, transform: TransformName) -> Tensor:
    """The shell of each wave vector (*shape): |kappa| over that of the longest wave, rounded."""
    squares = torch.zeros((), dtype=torch.float64, device=grid.points.device)
    for n, (lower, upper) in zip(grid.shape, grid.bounds, strict=True):
        k = torch.arange(n, dtype=torch.float64, device=squares.device)
        if transform == "fourier":
            k = 2 * torch.fft.fftfreq(n, 1 / n, dtype=torch.float64, device=squares.device)
        squares = squares.unsqueeze(-1) + (pi * k / (upper - lower)).square()
    return (squares.sqrt() / shell_width(grid, transform)).round().long()


def shell_width(grid: Grid, transform: TransformName) -> float:
    """|kappa| of the longest wave in radians per length, which is also the distance between shells."""
    longest = max(upper - lower for lower, upper in grid.bounds)
    return (2 * pi if transform == "fourier" else pi) / longest


def sum_shells(energy: Tensor, shell: Tensor) -> Tensor:
    """(..., *shape) -> (..., shells)."""
    flat = energy.flatten(-shell.ndim)
    total = flat.new_zeros(*flat.shape[:-1], int(shell.max()) + 1)
    return total.index_add_(-1, shell.flatten(), flat)


def _cosine_coefficients(u: Tensor, is_node: bool, length: float) -> Tensor:
    """sum_i w_i u(x_i) phi_k(x_i), phi_0 = 1 / sqrt(L), phi_k = sqrt(2 / L) cos(pi k x / L), along the last axis.

    Computed by the transform of the function and its mirror image.
    """
    n = u.shape[-1]
    intervals = n - 1 if is_node else n
    mirrored = torch.cat([u, (u[..., 1:-1] if is_node else u).flip(-1)], -1)
    spectrum = torch.fft.rfft(mirrored)[..., :n]
    k = torch.arange(n, dtype=u.dtype, device=u.device)
    if not is_node:
        spectrum = spectrum * torch.exp(-0.5j * pi * k / n)  # the first point lies half a step from the mirror
    norm = torch.full_like(k, sqrt(2 / length))
    norm[0] = 1 / sqrt(length)
    if is_node:  # this cosine is +1 and -1 in turn, so the trapezoid of its square is L, not L / 2
        norm[-1] = 1 / sqrt(length)
    return spectrum.real * (norm * (0.5 * length / intervals))
