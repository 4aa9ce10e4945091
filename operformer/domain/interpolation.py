"""A function known on one grid, read at the points of another: piecewise linear, second order."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from operformer.domain.grid import Grid
from operformer.domain.quadrature import check_values
from operformer.domain.ragged import unpad
from operformer.errors import UsageError


def interpolate(u: Tensor, grid: Grid, query: Grid) -> Tensor:
    """u(x') = sum_j lambda_j(x') u(x_j), lambda the hat functions of the grid: (..., *shape) -> (..., *query.shape).

    Multilinear on tensor products (periodic ones wrap around), barycentric on a triangulation of scattered points.
    Beyond the outermost points the nearest cell goes on linearly, or for scattered points the nearest value holds.
    On a ragged grid every sample is read from its own points.
    """
    check_values(u.unsqueeze(0), grid)  # a channel axis is not needed here
    if query.counts is not None:
        raise UsageError(f"the points to read at must be the same for all samples: got {query}")
    if grid.counts is not None:
        return torch.stack([interpolate(one, grid.of_sample(k), query) for k, one in enumerate(unpad(u, grid))])
    if not torch.compiler.is_compiling():
        _check_same_domain(grid, query)
    neighbours, shares = _scattered_stencil(grid, query) if grid.axes is None else _product_stencil(grid, query)
    flat = u.flatten(-grid.n_axes)
    gathered = flat[..., neighbours.to(u.device)]
    return (gathered * shares.to(u)).sum(-1).unflatten(-1, query.shape)


def _product_stencil(grid: Grid, query: Grid) -> tuple[Tensor, Tensor]:
    """For each query point the 2^d corners of its cell (M, 2^d), as flat indices, and their shares."""
    points = query.points.reshape(-1, query.dim).to(grid.points.device)
    ends = [_axis_stencil(grid, k, points[:, k].contiguous()) for k in range(grid.dim)]
    neighbours, shares = [], []
    for corner in product((0, 1), repeat=grid.dim):
        index = torch.zeros(len(points), dtype=torch.long, device=points.device)
        share = torch.ones(len(points), dtype=torch.float64, device=points.device)
        for k, end in enumerate(corner):
            indices, fraction = ends[k]
            index = index * grid.shape[k] + indices[end]
            share = share * (fraction if end else 1 - fraction)
        neighbours.append(index)
        shares.append(share)
    return torch.stack(neighbours, -1), torch.stack(shares, -1)


def _axis_stencil(grid: Grid, k: int, x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The two neighbours of each x along axis k, and how far x lies from the first towards the second."""
    nodes, order = torch.sort(grid.points[:, 0] if grid.axes is None else grid.axes[k])
    if grid.kind == "scattered":
        first_of_each = torch.cat([torch.ones_like(nodes[:1], dtype=torch.bool), nodes.diff() > 0])
        nodes, order = nodes[first_of_each], order[first_of_each]
    if grid.kind == "periodic":
        lower, upper = grid.bounds[k]
        nodes = torch.cat([nodes, nodes[:1] + (upper - lower)])
        order = torch.cat([order, order[:1]])
    left = (torch.searchsorted(nodes, x, right=True) - 1).clamp(0, len(nodes) - 2)
    fraction = (x - nodes[left]) / (nodes[left + 1] - nodes[left])
    return (order[left], order[left + 1]), fraction


def _scattered_stencil(grid: Grid, query: Grid) -> tuple[Tensor, Tensor]:
    """For each query point the d + 1 corners of its simplex (M, d + 1) and its barycentric coordinates."""
    from scipy.spatial import Delaunay, QhullError, cKDTree  # here: it takes a fifth of torch's time to import

    known, wanted = grid.points.cpu(), query.points.reshape(-1, query.dim).cpu()
    if grid.dim == 1 and len(torch.unique(known)) > 1:
        inside = wanted.clamp(known.min(), known.max())
        (left, right), fraction = _axis_stencil(grid.to("cpu"), 0, inside[:, 0].contiguous())
        return torch.stack([left, right], -1), torch.stack([1 - fraction, fraction], -1)
    try:
        triangulation = Delaunay(known.numpy())
    except (QhullError, ValueError):
        raise UsageError("the points span no volume, so nothing can be interpolated between them; add points") from None
    simplex = torch.from_numpy(triangulation.find_simplex(wanted.numpy())).long()
    affine = torch.from_numpy(triangulation.transform)[simplex]
    partial = torch.einsum("mij,mj->mi", affine[:, : grid.dim], wanted - affine[:, grid.dim])
    shares = torch.cat([partial, 1 - partial.sum(-1, keepdim=True)], -1)
    neighbours = torch.from_numpy(triangulation.simplices).long()[simplex]
    nearest = torch.from_numpy(cKDTree(known.numpy()).query(wanted.numpy())[1]).long()
    # Outside the hull, or in a simplex without volume, the nearest value holds.
    lost = (simplex < 0) | ~torch.isfinite(shares).all(-1)
    shares = torch.where(lost.unsqueeze(-1), torch.eye(grid.dim + 1, dtype=torch.float64)[0], shares)
    return torch.where(lost.unsqueeze(-1), nearest.unsqueeze(-1), neighbours), shares


def _check_same_domain(grid: Grid, query: Grid) -> None:
    if grid.dim != query.dim:
        raise UsageError(f"both grids must have the same dimension: got {grid.dim} and {query.dim}")
    for k, (lower, upper) in enumerate(grid.bounds):
        slack = 1e-12 * (upper - lower)  # n dt may be rounded past the end
        if float(query.points[..., k].min()) < lower - slack or float(query.points[..., k].max()) > upper + slack:
            raise UsageError(f"the query {query} reaches outside the domain of {grid}; give points inside it")
