"""Analysis and synthesis: values on patches to coefficients in a basis and back, by small dense matrices.

Analysis is a weighted sum of basis values at the points of a patch, synthesis evaluates the basis at them. So the
coefficients belong to the patch, not to the grid, and every grid speaks of the same ones up to its quadrature error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import prod

import torch
from torch import Tensor

from operformer.domain.basis import Basis
from operformer.domain.patches import AxisPatches, Patches, ScatteredPatches
from operformer.domain.products import exact_matmul

FEW = 16  # columns of a product


@dataclass(frozen=True, eq=False)
class TensorTransform:
    """One matrix for each axis and, unless all patches are alike, for each patch along it: (P_k or 1, size, points)."""

    n_patches: tuple[int, ...]
    analysis: tuple[Tensor, ...]
    synthesis: tuple[Tensor, ...]
    gram: tuple[Tensor, ...] | None

    @property
    def is_shared(self) -> bool:
        """Whether all patches have the same matrices."""
        return all(len(matrix) == 1 for matrix in self.analysis)

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, P, *points, c) -> (batch, P, sizes, c), the sizes of all axes flattened."""
        return self._apply(self.analysis, v).flatten(2, -2)

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, P, sizes, c) -> (batch, P, *points, c)."""
        return self._apply(self.synthesis, self._unflatten(coefficients, self.synthesis), exact_matmul)

    def weigh(self, coefficients: Tensor) -> Tensor:
        """The coefficients a with <a, b> = <sum_i a_i phi_i, sum_j b_j phi_j>; themselves if phi is orthonormal."""
        if self.gram is None:
            return coefficients
        return self._apply(self.gram, self._unflatten(coefficients, self.gram)).flatten(2, -2)

    def _unflatten(self, coefficients: Tensor, matrices: tuple[Tensor, ...]) -> Tensor:
        return coefficients.unflatten(2, tuple(matrix.shape[-1] for matrix in matrices))

    def _apply(
        self, matrices: tuple[Tensor, ...], v: Tensor, multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul
    ) -> Tensor:
        """Multiply axis by axis, the last one first: never more than a matrix in front of contiguous columns."""
        d = len(matrices)
        is_shared = all(len(matrix) == 1 for matrix in matrices)
        if not is_shared:
            v = v.unflatten(1, self.n_patches)
        first = v.ndim - 1 - d
        for k in reversed(range(d)):
            matrix = matrices[k][0] if is_shared else self._among_patches(matrices[k], k)
            trailing = v.shape[first + k + 1 :]
            columns = v.flatten(first + k + 1)
            if is_shared and isinstance(columns.shape[-1], int) and columns.shape[-1] < FEW:  # no symbol of a graph
                columns = multiply(columns.mT, matrix.T).mT  # one product, not one of few columns for each of many rows
            else:
                columns = multiply(matrix, columns)
            v = columns.unflatten(-1, trailing)
        return v if is_shared else v.flatten(1, d)

    def _among_patches(self, matrix: Tensor, k: int) -> Tensor:
        """(P_k or 1, rows, columns), with axes for the other patches and for the points before axis k."""
        d = len(self.n_patches)
        return matrix.reshape(*[1] * k, len(matrix), *[1] * (d - 1 - k), *[1] * k, *matrix.shape[1:])


@dataclass(frozen=True, eq=False)
class ScatteredTransform:
    """One matrix for each patch: (P, sizes, M)."""

    analysis: Tensor
    synthesis: Tensor
    gram: Tensor | None

    def analyse(self, v: Tensor) -> Tensor:
        """(batch, P, M, c) -> (batch, P, sizes, c)."""
        return torch.matmul(self.analysis, v)

    def synthesise(self, coefficients: Tensor) -> Tensor:
        """(batch, P, sizes, c) -> (batch, P, M, c)."""
        return exact_matmul(self.synthesis, coefficients)

    def weigh(self, coefficients: Tensor) -> Tensor:
        """The coefficients a with <a, b> = <sum_i a_i phi_i, sum_j b_j phi_j>; themselves if phi is orthonormal."""
        return coefficients if self.gram is None else torch.matmul(self.gram, coefficients)


Transform = TensorTransform | ScatteredTransform


def make_transform(patches: Patches, basis: Basis, n_modes: tuple[int, ...], like: Tensor) -> Transform:
    """Analysis and synthesis on the patches, in the dtype and on the device of ``like``.

    Modes that the points of a patch do not resolve are left out of the analysis: their coefficients are zero instead of
    those of the lower modes that they would pass for.
    """
    if isinstance(patches, ScatteredPatches):
        return _scattered_transform(patches, basis, n_modes, like)
    analysis, synthesis, gram = [], [], []
    for axis, m in zip(patches.axes, n_modes, strict=True):
        there, back = _axis_matrices(axis, basis, m)
        analysis.append(there.to(like))
        synthesis.append(back.to(like))
        if not basis.is_orthonormal:
            gram.append(_gram(back, axis.weights).to(like))
    return TensorTransform(patches.n_patches, tuple(analysis), tuple(synthesis), tuple(gram) or None)


def _axis_matrices(axis: AxisPatches, basis: Basis, n_modes: int) -> tuple[Tensor, Tensor]:
    """(P or 1, size, m) and (P or 1, m, size)."""
    values = basis.analysis(axis.local, n_modes) * axis.weights.unsqueeze(-1)
    per_mode = 2 if basis.has_pairs else 1
    mode = torch.arange(values.shape[-1], device=values.device) // per_mode
    if axis.is_even:
        resolved = mode < basis.n_resolved(axis.local.shape[-1])
    else:
        # Between n points that may reach from end to end there are n - 1 intervals.
        resolved = torch.stack([mode < basis.n_resolved(max(1, n - 1)) for n in axis.sizes]).unsqueeze(1)
    return (values * resolved).transpose(-1, -2), basis.synthesis(axis.local, n_modes)


def _scattered_transform(
    patches: ScatteredPatches, basis: Basis, n_modes: tuple[int, ...], like: Tensor
) -> ScatteredTransform:
    d = len(n_modes)
    per_mode = 2 if basis.has_pairs else 1
    limits = [basis.n_resolved(max(1, round(int(n) ** (1 / d)))) for n in patches.is_real.sum(-1)]
    limit = torch.tensor(limits, device=patches.local.device)[:, None, None]
    analysis: Tensor = patches.weights.unsqueeze(-1)
    synthesis: Tensor = torch.ones_like(analysis)
    for k, m in enumerate(n_modes):
        x = patches.local[..., k]
        resolved = torch.arange(basis.size(m), device=x.device) // per_mode < limit
        analysis = (analysis.unsqueeze(-1) * (basis.analysis(x, m) * resolved).unsqueeze(-2)).flatten(-2)
        synthesis = (synthesis.unsqueeze(-1) * basis.synthesis(x, m).unsqueeze(-2)).flatten(-2)
    gram = None
    if not basis.is_orthonormal:
        gram = _gram(synthesis, patches.weights).to(like)
    return ScatteredTransform(analysis.transpose(-1, -2).to(like), synthesis.to(like), gram)


def _gram(functions: Tensor, weights: Tensor) -> Tensor:
    """<phi_i, phi_j> on each patch, by its quadrature: (P, points, size), (P, points) -> (P, size, size)."""
    return functions.transpose(-1, -2) @ (functions * weights.unsqueeze(-1))


def n_functions(basis: Basis, n_modes: tuple[int, ...]) -> int:
    """The number of different functions of a basis: (2 m - 1)^d for pairs, whose zero sines do not count."""
    return prod(2 * m - 1 if basis.has_pairs else m for m in n_modes)


def all_modes(n_modes: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The wave numbers k, 0 <= k_j < m_j, in the order of flattened coefficients."""
    return list(product(*(range(m) for m in n_modes)))
