"""Every k-th point of a uniform grid: a coarser one on which values are known without interpolation."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from operformer.domain.grid import Grid
from operformer.domain.quadrature import check_values
from operformer.errors import UsageError

LEAST = 4  # points along an axis; fewer say nothing of a function


def nested_grids(grid: Grid, divisors: tuple[int, ...] = (2, 3, 4)) -> dict[int, Grid]:
    """The uniform grids of the same kind and domain whose points are some of the grid's, by how many times coarser.

    Nodes and one period divide by what divides their intervals; cells by odd numbers only, since the midpoints of two
    or four cells together are no midpoints of one.
    """
    found = {}
    for k in divisors:
        sizes = [_coarser_size(grid.kind, n, k) for n in grid.shape]
        if grid.kind in ("nodes", "cells", "periodic") and min(sizes) >= LEAST:
            kind: Any = grid.kind
            found[k] = Grid.uniform(sizes, grid.bounds, kind).to(grid.points.device)
    return found


def restrict(u: Tensor, grid: Grid, coarse: Grid) -> Tensor:
    """u at the points of a nested grid: (..., *grid.shape) -> (..., *coarse.shape)."""
    check_values(u.unsqueeze(0), grid)
    for k, nested in nested_grids(grid, tuple(range(1, max(grid.shape)))).items():
        if nested.shape == coarse.shape and nested.kind == coarse.kind and nested.bounds == coarse.bounds:
            first = k // 2 if grid.kind == "cells" else 0
            kept: Any = (..., *[slice(first, None, k)] * grid.dim)
            return u[kept]
    raise UsageError(f"the points of {coarse} are not among those of {grid}")


def _coarser_size(kind: str, n: int, k: int) -> int:
    """How many of n points are left if every k-th is kept; 0 if these make no grid of the same kind and domain."""
    if kind == "nodes":
        return (n - 1) // k + 1 if (n - 1) % k == 0 else 0
    return n // k if n % k == 0 and (kind != "cells" or k % 2) else 0
