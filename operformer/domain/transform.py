"""Analysis and synthesis: values on patches to coefficients in a basis and back, by small dense matrices (Section 4.1).

Analysis is a weighted sum of basis values at the points of a patch. Synthesis evaluates the basis at the points. The
coefficients belong to the patch and not to the grid: every grid has the same ones, up to its quadrature error.
"""

# DESIGN.md: Modes that points do not resolve are left out

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from operformer.domain.basis import Basis
from operformer.domain.grid import Grid
from operformer.domain.patches import AxisPatches, Patches, ScatteredPatches
from operformer.domain.products import exact_matmul

FEW = 16  # columns below which a product is transposed: many rows of few columns each are slow


@dataclass(frozen=True, eq=False)
class Transform:
    """Matrices (P_k, size, points) for each axis and each patch along it; scattered points have one "axis".

    ``is_shared``: all patches of a tensor product have the same matrices, which then stand once: P_k = 1.
    """

    n_patches: tuple[int, ...]
    analysis: tuple[Tensor, ...]
    synthesis: tuple[Tensor, ...]
    gram: tuple[Tensor, ...] | None
    is_shared: bool

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, P, *points, c) -> (batch, P, sizes, c), the sizes of all axes flattened."""
        return self._apply(self.analysis, v).flatten(2, -2)

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, P, sizes, c) -> (batch, P, *points, c)."""
        return self._apply(self.synthesis, coefficients.unflatten(2, self._sizes), exact_matmul)

    def weigh(self, coefficients: Tensor) -> Tensor:
        """The coefficients a with <a, b> = <sum_i a_i phi_i, sum_j b_j phi_j>; themselves if phi is orthonormal."""
        if self.gram is None:
            return coefficients
        return self._apply(self.gram, coefficients.unflatten(2, self._sizes)).flatten(2, -2)

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(matrix.shape[-1] for matrix in self.synthesis)

    def _apply(
        self, matrices: tuple[Tensor, ...], v: Tensor, multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul
    ) -> Tensor:
        if self.is_shared:
            return along_axes([matrix[0] for matrix in matrices], v, multiply)
        return on_each_patch(matrices, v, self.n_patches, multiply)


def along_axes(
    matrices: Sequence[Tensor], v: Tensor, multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul
) -> Tensor:
    """Multiply axis by axis, the last one first: (..., *shape, c) by a matrix for each axis of the shape.

    Never more than a matrix in front of contiguous columns.
    """
    first = v.ndim - 1 - len(matrices)
    for k, matrix in reversed(list(enumerate(matrices))):
        trailing = v.shape[first + k + 1 :]
        columns = v.flatten(first + k + 1)
        # The size may be a symbol of an exported graph, which has no value to compare.
        if isinstance(columns.shape[-1], int) and columns.shape[-1] < FEW:
            columns = multiply(columns.mT, matrix.T).mT
        else:
            columns = multiply(matrix, columns)
        v = columns.unflatten(-1, trailing)
    return v


def on_each_patch(
    matrices: Sequence[Tensor],
    v: Tensor,
    n_patches: tuple[int, ...],
    multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul,
) -> Tensor:
    """The same on patches (batch, P, *points, c), with matrices (P_k, ., .) of their own."""
    d, v = len(matrices), v.unflatten(1, n_patches)
    first = v.ndim - 1 - d
    for k in reversed(range(d)):
        # axes for the patches along other axes and for the points before axis k
        others = [1] * (d - 1 - k)
        matrix = matrices[k].reshape(*[1] * k, -1, *others, *[1] * k, *matrices[k][0].shape)
        trailing = v.shape[first + k + 1 :]
        v = multiply(matrix, v.flatten(first + k + 1)).unflatten(-1, trailing)
    return v.flatten(1, d)


def make_transform(
    patches: Patches, basis: Basis, n_modes: tuple[int, ...], like: Tensor, by_least_squares: bool = False
) -> Transform:
    """Analysis and synthesis on the patches, in the dtype and on the device of ``like``.

    Modes that the points of a patch do not resolve get the coefficient zero. Analysed, they would be aliases of lower
    modes. Of scattered points coefficients may be found ``by_least_squares`` in place of quadrature.
    """
    if isinstance(patches, ScatteredPatches):
        return _scattered_transform(patches, basis, n_modes, like, by_least_squares)
    analysis, synthesis, gram = [], [], []
    for axis, m in zip(patches.axes, n_modes, strict=True):
        there, back = axis_matrices(axis, basis, m)
        analysis.append(there.to(like))
        synthesis.append(back.to(like))
        if not basis.is_orthonormal:
            gram.append(gram_matrices(back, axis.weights).to(like))
    is_shared = all(len(matrix) == 1 for matrix in analysis)
    return Transform(patches.n_patches, tuple(analysis), tuple(synthesis), tuple(gram) or None, is_shared)


def make_synthesis(patches: Patches, basis: Basis, n_modes: tuple[int, ...], like: Tensor) -> Transform:
    """Synthesis alone: functions are read at the points of the patches, which need not resolve their modes."""
    if isinstance(patches, ScatteredPatches):
        functions = scattered_functions(patches, basis, n_modes).to(like)
        return Transform((len(functions),), (), (functions,), None, is_shared=False)
    matrices = tuple(basis.synthesis(axis.local, m).to(like) for axis, m in zip(patches.axes, n_modes, strict=True))
    return Transform(patches.n_patches, (), matrices, None, all(len(matrix) == 1 for matrix in matrices))


def axis_matrices(axis: AxisPatches, basis: Basis, n_modes: int) -> tuple[Tensor, Tensor]:
    """(P or 1, size, m) and (P or 1, m, size)."""
    values = basis.analysis(axis.local, n_modes) * axis.weights.unsqueeze(-1)
    per_mode = 2 if basis.has_pairs else 1
    mode = torch.arange(values.shape[-1], device=values.device) // per_mode
    if axis.is_even:
        resolved = mode < basis.n_resolved(axis.local.shape[-1])
    else:
        # The n points may reach from end to end: they have n - 1 intervals.
        resolved = torch.stack([mode < basis.n_resolved(max(1, n - 1)) for n in axis.sizes]).unsqueeze(1)
    return (values * resolved).transpose(-1, -2), basis.synthesis(axis.local, n_modes)


def _scattered_transform(
    patches: ScatteredPatches, basis: Basis, n_modes: tuple[int, ...], like: Tensor, by_least_squares: bool
) -> Transform:
    d = len(n_modes)
    limits = [basis.n_resolved(max(1, round(int(n) ** (1 / d)))) for n in patches.is_real.sum(-1)]
    limit = torch.tensor(limits, device=patches.local.device)[:, None, None]
    analysis: Tensor = patches.weights.unsqueeze(-1)
    for k, m in enumerate(n_modes):
        x = patches.local[..., k]
        resolved = torch.arange(basis.size(m), device=x.device) // (2 if basis.has_pairs else 1) < limit
        analysis = (analysis.unsqueeze(-1) * (basis.analysis(x, m) * resolved).unsqueeze(-2)).flatten(-2)
    synthesis = scattered_functions(patches, basis, n_modes)
    gram = None if basis.is_orthonormal else (gram_matrices(synthesis, patches.weights).to(like),)
    there = analysis.transpose(-1, -2)
    if by_least_squares:
        there = _solved(there, synthesis)
    return Transform((len(synthesis),), (there.to(like),), (synthesis.to(like),), gram, is_shared=False)


def scattered_functions(patches: ScatteredPatches, basis: Basis, n_modes: tuple[int, ...]) -> Tensor:
    """The functions of a basis at the points of each patch: (P, M, sizes)."""
    functions = torch.ones_like(patches.weights).unsqueeze(-1)
    for k, m in enumerate(n_modes):
        functions = (functions.unsqueeze(-1) * basis.synthesis(patches.local[..., k], m).unsqueeze(-2)).flatten(-2)
    return functions


def _solved(analysis: Tensor, synthesis: Tensor) -> Tensor:
    """(A S)^-1 A on the functions that are analysed: the coefficients of the nearest function, by the weights."""
    is_used = (analysis != 0).any(-1)
    product = torch.where(is_used[:, :, None] & is_used[:, None, :], analysis @ synthesis, 0.0)
    return torch.linalg.solve(product + torch.diag_embed((~is_used).to(product.dtype)), analysis)


def gram_matrices(functions: Tensor, weights: Tensor) -> Tensor:
    """<phi_i, phi_j> on each patch, by its quadrature: (P, points, size), (P, points) -> (P, size, size)."""
    return functions.transpose(-1, -2) @ (functions * weights.unsqueeze(-1))


def axis_points(grid: Grid) -> list[Tensor]:
    """Where the functions of each axis are needed: on the axis for tensor products, else at every point's x_k."""
    return list(grid.axes or (grid.points[:, k].contiguous() for k in range(grid.dim)))


def expand(coefficients: Tensor, functions: Sequence[Tensor], grid: Grid) -> Tensor:
    """sum_i c_{i_1 ... i_d} phi_{i_1}(x_1) ... phi_{i_d}(x_d): (batch, *sizes) -> (batch, *shape).

    ``functions`` are matrices (points, size), one for each axis, at the points of `axis_points`.
    """
    summed = coefficients
    for k, matrix in enumerate(functions, start=1):
        if grid.axes is None and k > 1:  # at scattered points, those of the first axis
            summed = torch.einsum("bpi...,pi->bp...", summed, matrix)
        else:
            summed = torch.tensordot(summed, matrix, dims=([k], [1])).movedim(-1, k)
    return summed
