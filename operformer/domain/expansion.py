"""Sums over products of one-dimensional functions, read on any grid."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from operformer.domain.grid import Grid


def axis_points(grid: Grid) -> list[Tensor]:
    """Where the functions of each axis are needed: on its values for tensor products, else at every point's x_k."""
    if grid.axes is not None:
        return list(grid.axes)
    return [grid.points[:, k].contiguous() for k in range(grid.dim)]


def expand(coefficients: Tensor, functions: Sequence[Tensor], grid: Grid) -> Tensor:
    """sum_i c_{i_1 ... i_d} phi_{i_1}(x_1) ... phi_{i_d}(x_d): (batch, *sizes) -> (batch, *shape).

    ``functions`` are matrices (points, size), one for each axis, at the points of `axis_points`. On a tensor product
    one axis is summed after the other; at scattered points the axes after the first run along with it.
    """
    summed = coefficients
    for k, matrix in enumerate(functions, start=1):
        if grid.axes is None and k > 1:
            summed = torch.einsum("bpi...,pi->bp...", summed, matrix)
        else:
            summed = torch.tensordot(summed, matrix, dims=([k], [1])).movedim(-1, k)
    return summed
