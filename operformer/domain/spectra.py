"""Energy by wave number: ||u||^2 = sum_s E_s, E_s = sum of |c_k|^2 over the wave vectors of shell s.

Coefficients are those in functions that are orthonormal by the grid's own weights, so Parseval's identity holds with
the norm of the quadrature, to rounding:

    Fourier, exp(2 pi i k . x / L)       periodic grids, and cells where the functions are periodic
    cosine, prod cos(pi k_j x_j / L_j)   nodes (trapezoid) and cells: the function goes on as its mirror image

The mirror image of a smooth function has no jump at the faces, but its slope has one: coefficients fall as k^-2. In
Fourier's functions, those of a function that is not periodic fall as k^-1.
"""

from __future__ import annotations

from math import pi, prod, sqrt
from typing import Literal

import torch
from torch import Tensor

from operformer.domain.grid import Grid
from operformer.domain.quadrature import check_values
from operformer.errors import UsageError

TransformName = Literal["fourier", "cosine"]


def choose_transform(grid: Grid, is_periodic: bool = False) -> TransformName | None:
    """The functions that suit a grid; None where points are not equispaced. ``is_periodic`` is said of the values."""
    if grid.kind == "periodic" or (grid.kind == "cells" and is_periodic):
        return "fourier"
    return "cosine" if grid.kind in ("nodes", "cells") else None


def energy_spectrum(u: Tensor, grid: Grid, is_periodic: bool = False) -> Tensor:
    """E_s of the components together, s = 0, 1, ...: (..., channels, *shape) -> (..., shells), summing to ||u||^2."""
    transform = choose_transform(grid, is_periodic)
    if transform is None:
        raise UsageError(f"a spectrum needs equispaced points: got {grid}; use uniform nodes, cells or a periodic grid")
    energy = coefficients(u, grid, transform).abs().square().sum(-grid.dim - 1)
    return sum_shells(energy, shells(grid, transform))


def coefficients(u: Tensor, grid: Grid, transform: TransformName) -> Tensor:
    """c_k, real for cosines and complex for Fourier: (..., channels, *shape) -> the same shape."""
    check_values(u, grid)
    if transform == "fourier":
        axes = tuple(range(-grid.dim, 0))
        return torch.fft.fftn(u, dim=axes) * (sqrt(grid.volume) / prod(grid.shape))
    for k, (lower, upper) in enumerate(grid.bounds):
        u = _cosine_coefficients(u.movedim(k - grid.dim, -1), grid.kind == "nodes", upper - lower).movedim(
            -1, k - grid.dim
        )
    return u


def shells(grid: Grid, transform: TransformName) -> Tensor:
    """The shell of each wave vector (*shape): |kappa| over that of the longest wave, rounded."""
    squares = torch.zeros((), dtype=torch.float64, device=grid.points.device)
    for n, (lower, upper) in zip(grid.shape, grid.bounds, strict=True):
        if transform == "fourier":
            k = torch.fft.fftfreq(n, 1 / n, dtype=torch.float64, device=squares.device)
            kappa = 2 * pi * k / (upper - lower)
        else:
            kappa = pi * torch.arange(n, dtype=torch.float64, device=squares.device) / (upper - lower)
        squares = squares.unsqueeze(-1) + kappa.square()
    return (squares.sqrt() / shell_width(grid, transform)).round().long()


def shell_width(grid: Grid, transform: TransformName) -> float:
    """|kappa| of the longest wave, which is also the distance of one shell from the next, in radians per length."""
    longest = max(upper - lower for lower, upper in grid.bounds)
    return (2 * pi if transform == "fourier" else pi) / longest


def sum_shells(energy: Tensor, shell: Tensor) -> Tensor:
    """(..., *shape) -> (..., shells)."""
    flat = energy.flatten(-shell.ndim)
    total = flat.new_zeros(*flat.shape[:-1], int(shell.max()) + 1)
    return total.index_add_(-1, shell.flatten(), flat)


def _cosine_coefficients(u: Tensor, is_node: bool, length: float) -> Tensor:
    """sum_i w_i u(x_i) phi_k(x_i), phi_0 = 1 / sqrt(L), phi_k = sqrt(2 / L) cos(pi k x / L), along the last axis.

    By the transform of the function and its mirror image. The last cosine on nodes is +1 and -1 in turn: its square
    integrates to L, not to L / 2, by the trapezoid.
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
    if is_node:
        norm[-1] = 1 / sqrt(length)
    return spectrum.real * (norm * (0.5 * length / intervals))
