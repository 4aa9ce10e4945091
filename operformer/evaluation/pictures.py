"""Functions cut down to what a picture holds: fewer points of each axis, the middle of a box, a raster of points."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from operformer.domain import Grid, Samples
from operformer.domain.interpolation import interpolate
from operformer.domain.reading import beyond


def on_one_grid(samples: Samples) -> Samples:
    """The samples with u read at the points of z, piecewise linear, as pictures show both."""
    if samples.query is None:
        return samples
    return Samples(interpolate(samples.u, samples.grid, samples.query), samples.z, samples.query)


def cut(functions: Sequence[Tensor], grid: Grid, most: int) -> tuple[list[Tensor], list[Tensor]]:
    """The axes of the picture, one or two, and the functions on them: (..., *shape) -> (..., n) or (..., n, m).

    Axes rise and keep every few points, at most ``most``. Of a box the slice in the middle of its last axis is kept;
    scattered points of a plane or a box are read on cells, piecewise linear.
    """
    if grid.axes is None and grid.dim > 1:
        return _raster(functions, grid, most)
    axes = [grid.points[:, 0]] if grid.axes is None else list(grid.axes)
    orders = [axis.argsort() for axis in axes]
    kept = [order[:: -(-len(order) // most)] for order in orders[:2]]
    if grid.dim == 3:
        middle = int(orders[2][len(orders[2]) // 2])
        functions = [values[..., middle] for values in functions]
    for k, chosen in enumerate(kept):
        functions = [values.index_select(k - len(kept), chosen.to(values.device)) for values in functions]
    return [axis[chosen] for axis, chosen in zip(axes, kept, strict=False)], list(functions)


def masked(functions: Sequence[Tensor], axes: Sequence[Tensor], grid: Grid) -> list[Tensor]:
    """Pictures (count, c, n, m) of functions on a mesh, NaN where they lie outside of it; others as they are."""
    if not grid.cells or len(axes) != 2:
        return list(functions)
    points = torch.cartesian_prod(*axes)
    if grid.dim == 3:
        points = torch.cat([points, points.new_full((len(points), 1), sum(grid.bounds[2]) / 2)], -1)
    outside = beyond(grid, Grid.scattered(points, bounds=grid.bounds)).unflatten(-1, (len(axes[0]), len(axes[1])))
    return [values.masked_fill(outside, torch.nan) for values in functions]


def _raster(functions: Sequence[Tensor], grid: Grid, most: int) -> tuple[list[Tensor], list[Tensor]]:
    """The functions on most x most cells of the first two axes, in the middle of the third."""
    cells = Grid.uniform((most, most), bounds=grid.bounds[:2], kind="cells")
    points = cells.points.reshape(-1, 2)
    if grid.dim == 3:
        points = torch.cat([points, points.new_full((len(points), 1), sum(grid.bounds[2]) / 2)], -1)
    sizes = [values.shape[-2] for values in functions]
    # All at once: the triangulation is what costs.
    read = interpolate(
        torch.cat([values.double() for values in functions], -2), grid, Grid.scattered(points, bounds=grid.bounds)
    )
    return list(cells.axes or ()), list(read.unflatten(-1, cells.shape).split(sizes, -3))
