"""How well scattered points resolve the modes of a basis: the error of their quadrature, and how many points would do.

By quadrature the coefficients of sum_j c_j phi_j are G c, G_ij = sum_n w_n phi_i(x_n) phi_j(x_n), and exact ones are c.
Least squares divide by G, which is safe while its condition number is small.
"""

# DESIGN.md: Scattered points are compared with the modes

from __future__ import annotations

from math import ceil, inf

import torch
from torch import Tensor

from operformer.domain.basis import Basis, Cosine, ExtendedFourier
from operformer.domain.grid import Grid
from operformer.domain.patches import ScatteredPatches
from operformer.domain.transform import scattered_functions

PROBES = 16  # random functions that stand for all


def quadrature_error(patches: ScatteredPatches, basis: Basis, n_modes: tuple[int, ...]) -> float:
    """The root mean square of |G c - c| / |c| over random c, in the patch where it is largest."""
    functions, is_function = _functions(patches, basis, n_modes)
    generator = torch.Generator().manual_seed(0)
    c = torch.randn(functions.shape[-1], PROBES, generator=generator, dtype=torch.float64).to(functions.device)
    c = c * is_function.unsqueeze(-1)
    found = functions.mT @ ((functions @ c) * patches.weights.unsqueeze(-1))
    difference = ((found - c).square().sum((1, 2)) / c.square().sum()).sqrt()
    return float(difference[patches.is_present].max())


def condition_number(patches: ScatteredPatches, basis: Basis, n_modes: tuple[int, ...]) -> float:
    """The largest over the smallest eigenvalue of G, in the patch where it is largest."""
    functions, is_function = _functions(patches, basis, n_modes)
    functions = functions[patches.is_present][..., is_function]
    values = torch.linalg.eigvalsh(functions.mT @ (functions * patches.weights[patches.is_present].unsqueeze(-1)))
    if float(values[:, 0].min()) <= 1e-12:
        return inf
    return float((values[:, -1] / values[:, 0]).max())


def points_needed(grid: Grid, error: float, aim: float) -> int:
    """How many points, spread as those of the grid are, have the quadrature error ``aim``: two digits.

    The error of independent points falls with N^(-1/2). Where each stands for its own cell it falls with
    N^(-1/2 - 1/d): each cell's own is of first order in its width, and they add up like independent ones.
    """
    rate = 0.5 if grid.has_equal_weights else 0.5 + 1 / grid.dim
    needed = grid.shape[0] * max(1.0, error / aim) ** (1 / rate)
    digit = 10 ** max(0, len(str(int(needed))) - 2)
    return int(ceil(needed / digit) * digit)


def _functions(patches: ScatteredPatches, basis: Basis, n_modes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """Orthonormal functions at the points of each patch (P, M, sizes), and which are not the sine of 0."""
    # The extension is even, so only its cosines are analysed: those of `Cosine`.
    basis = Cosine() if isinstance(basis, ExtendedFourier) else basis
    is_function = torch.ones(1, dtype=torch.bool, device=patches.local.device)
    for m in n_modes:
        single = torch.arange(basis.size(m), device=patches.local.device) != (1 if basis.has_pairs else -1)
        is_function = (is_function.unsqueeze(-1) & single).flatten()
    return scattered_functions(patches, basis, n_modes), is_function
