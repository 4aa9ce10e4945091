"""Quadrature: weights, the inner product and the norms of L2(D) and H1(D) (Section 2, Appendix B.1).

A function is a tensor of values ``(..., channels, *shape)`` on the points of a grid. Attention, losses and metrics use
the same weights, so all of them converge to the same integrals.
"""

# DESIGN.md: Weights are products of one-dimensional rules
# DESIGN.md: H1 by edges
# DESIGN.md: Voronoi weights

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from operformer.checking import checked
from operformer.domain.box import GivenBounds, Numbers, as_numbers, checked_bounds, checked_points
from operformer.errors import UsageError

if TYPE_CHECKING:
    from operformer.domain.grid import Grid


def trapezoidal_weights(axis: Tensor) -> Tensor:
    """w_i = (x_{i+1} - x_{i-1}) / 2, half as much at the ends (equations riemann_expect and riemann_p).

    The points may come in any order: each keeps the weight it has among the sorted ones.
    """
    order = torch.argsort(axis)
    gaps = torch.diff(axis[order])
    weights = torch.zeros_like(axis)
    weights[order[1:]] += gaps / 2
    weights[order[:-1]] += gaps / 2
    return weights


@checked
def voronoi_weights(points: Numbers, bounds: GivenBounds | None = None) -> Tensor:
    """w_i = |{y in D: y is nearer to x_i than to any other point}|: the weights of scattered points in a box D.

    Args:
        points: (N, d), N >= 2, d = 1, 2 or 3, in any order. Points that coincide share their cell equally.
        bounds: one (lower, upper) for each axis; None is the unit cube.

    Returns:
        (N,), float64; they sum to the volume of the box.
    """
    points = as_numbers(points, "points")
    if points.ndim != 2 or points.shape[1] not in (1, 2, 3) or len(points) < 2:
        raise UsageError(f"Voronoi weights need points (N, d), N >= 2, d = 1, 2, 3: got {tuple(points.shape)}")
    box_of_points = checked_bounds(bounds, points.shape[1])
    box, array = np.array(box_of_points), checked_points(points, box_of_points).detach().cpu().numpy()
    # Points nearer to each other than 1e-8 of the box coincide.
    rounded = np.round((array - box[:, 0]) / (box[:, 1] - box[:, 0]), 8)
    _, chosen, cell_of, copies = np.unique(rounded, axis=0, return_index=True, return_inverse=True, return_counts=True)
    distinct = array[chosen]
    if len(distinct) == 1:
        return torch.full((len(points),), np.prod(box[:, 1] - box[:, 0]) / len(points), dtype=torch.float64)
    if len(box) == 1:
        middles = (distinct[1:, 0] + distinct[:-1, 0]) / 2
        cells = np.diff(np.concatenate([box[0, :1], middles, box[0, 1:]]))
    else:
        cells = _cell_volumes(distinct, box)
    shared = (cells / copies)[cell_of.reshape(-1)]
    return torch.from_numpy(shared).to(points.device)


def inner_product(u: Tensor, v: Tensor, grid: Grid) -> Tensor:
    """<u, v> = sum_i w_i u(x_i) . v(x_i), the inner product of L2(D; R^c): (..., c, *shape) twice -> (...)."""
    check_values(u, grid)
    check_values(v, grid)
    over = tuple(range(-grid.n_axes - 1, 0))
    return (u * v * grid.weights.to(u)).sum(over)


def l2_norm(u: Tensor, grid: Grid) -> Tensor:
    """||u||_{L2(D)}: (..., c, *shape) -> (...)."""
    return inner_product(u, u, grid).sqrt()


def h1_norm(u: Tensor, grid: Grid) -> Tensor:
    """(||u||^2 + ||grad u||^2)^(1/2), in L2(D): (..., c, *shape) -> (...).

    The gradient is the difference along each edge of the grid, integrated by the midpoint rule over the edges. This is
    of second order, and unlike central differences it sees a checkerboard. On a mesh it is that of the function that is
    linear on each cell. Scattered points without cells have no neighbours and are refused.
    """
    squares = inner_product(u, u, grid)
    if grid.cells and grid.counts is None:
        return (squares + grid.cells[0].energy(u).sum(-1)).sqrt()
    if grid.cells:
        energies = [cells.energy(one).sum(-1) for cells, one in zip(grid.cells, u, strict=True)]
        return (squares + torch.stack(energies)).sqrt()
    if grid.axes is None:
        raise UsageError(
            "the H1 norm needs neighbouring points: got scattered points, which have none; use the L2 norm, or a "
            "uniform or rectilinear grid or a mesh"
        )
    total = u.new_zeros(())
    for k in range(grid.dim):
        position = k - grid.dim
        values, steps, lengths = edges(u, grid, k)
        integrand = (values / _along(steps.to(u), position)).square() * _along(lengths.to(u), position)
        for other, weights in enumerate(grid.axis_weights):
            if other != k:
                integrand = integrand * _along(weights.to(u), other - grid.dim)
        total = total + integrand.sum(tuple(range(-grid.dim - 1, 0)))
    return (squares + total).sqrt()


def edges(u: Tensor, grid: Grid, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Differences of u along axis k, the step across each edge, and the length that each edge stands for."""
    if grid.axes is None:
        raise UsageError("scattered points have no edges")
    axis, position = grid.axes[k], k - grid.dim
    if grid.kind == "periodic":
        step = (grid.bounds[k][1] - grid.bounds[k][0]) / len(axis)
        steps = torch.full_like(axis, step)
        return torch.roll(u, -1, position) - u, steps, steps
    if grid.kind == "rectilinear":
        order = torch.argsort(axis)
        axis, u = axis[order], u.index_select(position, order.to(u.device))
    steps = torch.diff(axis)
    lengths = steps.clone()
    # The outermost edges also stand for what lies between the outermost points and the boundary (half a cell).
    lengths[0] += axis[0] - grid.bounds[k][0]
    lengths[-1] += grid.bounds[k][1] - axis[-1]
    return torch.diff(u, dim=position), steps, lengths


def _along(vector: Tensor, position: int) -> Tensor:
    """The vector as a tensor that broadcasts along the axis ``position`` (negative)."""
    return vector.reshape(-1, *[1] * (-position - 1))


def check_values(u: Tensor, grid: Grid) -> None:
    """Refuse values that do not belong to the points of the grid."""
    if u.layout != torch.strided:
        raise UsageError(f"values must be a dense tensor: got {u.layout}")
    if u.ndim < grid.n_axes + 1 or tuple(u.shape[-grid.n_axes :]) != grid.shape:
        raise UsageError(
            f"values must be (..., channels, {', '.join(map(str, grid.shape))}) on this grid: got {tuple(u.shape)}"
        )


def _cell_volumes(points: np.ndarray, box: np.ndarray) -> np.ndarray:
    """Cells clipped to the box: mirror images of the points across its faces make the faces cell boundaries."""
    from scipy.spatial import ConvexHull, QhullError, Voronoi  # here: it takes a fifth of torch's time to import

    lower, extent = box[:, 0], box[:, 1] - box[:, 0]
    size = extent / extent.max()
    # Points on a face move inside by 1e-9, so that they do not coincide with their own image. All axes are scaled by
    # the same factor, which does not change what is nearest.
    inside = np.clip((points - lower) / extent, 1e-9, 1 - 1e-9) * extent / extent.max()
    images = [inside]
    for k in range(len(box)):
        for face in (0.0, size[k]):
            image = inside.copy()
            image[:, k] = 2 * face - image[:, k]
            images.append(image)
    try:
        diagram = Voronoi(np.concatenate(images))
        corners = [diagram.vertices[diagram.regions[r]] for r in diagram.point_region[: len(points)]]
        volumes = np.array([ConvexHull(c, qhull_options="QJ Pp").volume for c in corners])
    except QhullError as error:
        raise UsageError(f"Voronoi weights: the points are too close to degenerate ({str(error).split()[0]})") from None
    # Qhull joggles degenerate cells by about 1e-10; the cells fill the box exactly.
    return volumes * (np.prod(extent) / volumes.sum())
