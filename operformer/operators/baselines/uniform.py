"""What the baselines of Fourier type share: they know uniform grids only, and read the coordinates as channels."""

from __future__ import annotations

import torch
from torch import Tensor

from operformer.domain import Grid
from operformer.errors import UsageError
from operformer.operators.operator import Operator


class UniformOperator(Operator):
    """An operator for uniform grids alone, which takes the FFT of all points as if they were one period."""

    usual_kind = "periodic"
    takes_query = False

    def takes(self, grid: Grid) -> bool:
        """Whether the points are equispaced."""
        return grid.is_uniform

    def nearest(self, grid: Grid) -> Grid:
        """Cells, about as many along each axis as the grid has points."""
        return Grid.uniform(grid.sizes, grid.bounds, kind="cells")


def check_uniform(name: str, grid: Grid, query: Grid | None) -> None:
    """Refuse points that are not equispaced, and output elsewhere than on them."""
    if query is not None:
        remedy = "leave query= out and interpolate the output, as predict(query=) does, or use a TNO or a FANO"
        raise UsageError(f"{name} has no output but on the grid of its input: {remedy}")
    if not grid.is_uniform:
        raise UsageError(f"{name} takes uniform grids only, its FFT knows no others: got {grid}; use a TNO or a FANO")


def with_coordinates(operator: Operator, u: Tensor, grid: Grid) -> Tensor:
    """(u(x), x) as channels: (batch, c, *shape) -> (batch, c + d, *shape)."""
    x = operator.position(grid).T.unflatten(1, grid.shape)
    return torch.cat([u, x.expand(u.shape[0], *x.shape)], 1)
