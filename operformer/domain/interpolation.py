"""From one grid to another: functions read elsewhere, nested uniform grids, graded grids."""

from __future__ import annotations

from itertools import product
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from operformer.domain.grid import Grid
from operformer.domain.quadrature import check_values
from operformer.domain.samples import unpad
from operformer.errors import UsageError

MOST_KEPT = 2**22  # numbers of a stencil that is kept
_STENCILS: WeakKeyDictionary[Grid, WeakKeyDictionary[Grid, tuple[Tensor, Tensor]]] = WeakKeyDictionary()
LEAST = 4  # points along an axis of a nested grid; fewer do not represent a function


def interpolate(u: Tensor, grid: Grid, query: Grid) -> Tensor:
    """u(x') = sum_j lambda_j(x') u(x_j), lambda the hat functions of the grid: piecewise linear, second order.

    Tensor products are interpolated multilinearly, scattered points on a triangulation, meshes on their cells. Periodic
    grids wrap around. Beyond the outermost points of a tensor product the nearest cell is extrapolated linearly; beyond
    scattered points the nearest value holds. On a ragged grid every sample is read from its own points.

    Args:
        u: values (..., *grid.shape).
        grid: where u is known.
        query: where u is wanted; inside the box of ``grid`` and the same points for all samples.

    Returns:
        (..., *query.shape).
    """
    check_values(u.unsqueeze(0), grid)  # a channel axis is not needed here
    if grid.counts is not None:
        return torch.stack([interpolate(one, grid.of_sample(k), query) for k, one in enumerate(unpad(u, grid))])
    neighbours, shares = _stencil(grid, query)
    gathered = u.flatten(-grid.n_axes)[..., neighbours.to(u.device)]
    return (gathered * shares.to(u)).sum(-1).unflatten(-1, query.shape)


def _stencil(grid: Grid, query: Grid) -> tuple[Tensor, Tensor]:
    """Flat indices and shares of the points around each query point, kept for as long as both grids live.

    Trainings read every batch from the same grid at the same points.
    """
    make = _scattered_stencil if grid.axes is None else _product_stencil
    # What a compiler traces must not outlive the trace, nor must a graph of gradients.
    if torch.compiler.is_compiling() or grid.points.requires_grad or query.points.requires_grad:
        check_readable(grid, query)
        return make(grid, query)
    kept = _STENCILS.setdefault(grid, WeakKeyDictionary())
    if query in kept:
        return kept[query]
    check_readable(grid, query)  # once: it waits for a GPU
    with torch.inference_mode(False), torch.no_grad():  # a tensor of inference mode could not be used in a training
        made = make(grid, query)
    if made[0].numel() <= MOST_KEPT:
        kept[query] = made
    return made


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
    if torch.compiler.is_compiling() and grid.is_uniform:
        return _uniform_stencil(grid, k, x)
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


def _uniform_stencil(grid: Grid, k: int, x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """The same of equispaced points without a search, which graphs for other programs do not know."""
    (lower, upper), n = grid.bounds[k], grid.shape[k]
    spacing = (upper - lower) / (n - 1 if grid.kind == "nodes" else n)
    place = (x - lower) / spacing - (0.5 if grid.kind == "cells" else 0.0)
    left = place.floor().clamp(0, n - 1 if grid.kind == "periodic" else n - 2)
    first = left.long()
    last = (first + 1) % n if grid.kind == "periodic" else first + 1
    return (first, last), place - left


def _scattered_stencil(grid: Grid, query: Grid) -> tuple[Tensor, Tensor]:
    """For each query point the d + 1 corners of its simplex (M, d + 1) and its barycentric coordinates."""
    from scipy.spatial import Delaunay, QhullError, cKDTree  # here: it takes a fifth of torch's time to import

    known, wanted = grid.points.cpu(), query.points.reshape(-1, query.dim).cpu()
    if grid.cells:
        return grid.cells[0].find(known, wanted)[:2]
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


def check_readable(grid: Grid, query: Grid) -> None:
    """Refuse points that functions on a grid cannot be read at."""
    if query.counts is not None:
        raise UsageError(f"the points to read at must be the same for all samples: got {query}")
    if torch.compiler.is_compiling():  # what follows looks at values
        return
    if grid.dim != query.dim:
        raise UsageError(f"both grids must have the same dimension: got {grid.dim} and {query.dim}")
    points = query.points.detach()
    for k, (lower, upper) in enumerate(grid.bounds):
        slack = 1e-12 * (upper - lower)  # n dt may be rounded past the end
        if float(points[..., k].min()) < lower - slack or float(points[..., k].max()) > upper + slack:
            raise UsageError(f"the query {query} reaches outside the domain of {grid}; give points inside it")


def nested_grids(grid: Grid, divisors: tuple[int, ...] = (2, 3, 4)) -> dict[int, Grid]:
    """The uniform grids of the same kind and domain that hold every k-th point of a grid, by k.

    Nodes, periodic grids and left ends are divided by the divisors of their number of intervals. Cells are divided by
    odd numbers only: the midpoint of two or four cells is not the midpoint of one.
    """
    found = {}
    for k in divisors:
        intervals = [n - 1 if grid.kind == "nodes" else n for n in grid.shape]
        sizes = [n // k + (grid.kind == "nodes") for n in intervals]
        is_nested = grid.kind in ("nodes", "periodic", "left") or (grid.kind == "cells" and k % 2 == 1)
        if is_nested and not any(n % k for n in intervals) and min(sizes) >= LEAST:
            kind: Any = grid.kind
            found[k] = Grid.uniform(sizes, grid.bounds, kind).to(grid.points.device)
    return found


def restrict(u: Tensor, grid: Grid, coarse: Grid) -> Tensor:
    """u at the points of a nested grid, without interpolation: (..., *grid.shape) -> (..., *coarse.shape)."""
    check_values(u.unsqueeze(0), grid)
    for k, nested in nested_grids(grid, tuple(range(1, max(grid.shape)))).items():
        if (nested.shape, nested.kind, nested.bounds) == (coarse.shape, coarse.kind, coarse.bounds):
            kept: Any = (..., *[slice(k // 2 if grid.kind == "cells" else 0, None, k)] * grid.dim)
            return u[kept]
    raise UsageError(f"the points of {coarse} are not among those of {grid}")


def grade(s: Tensor, grading: float) -> Tensor:
    """x = s - a s (1 - s): [0, 1] onto itself with slopes from 1 - a to 1 + a, a the grading."""
    return s - grading * s * (1 - s)


def graded_grid(grid: Grid, grading: float = 0.5) -> Grid:
    """A rectilinear grid of the same shape whose points crowd smoothly at the lower ends.

    Args:
        grid: a uniform or rectilinear grid; its bounds become the outermost points.
        grading: a in [0, 1); spacings grow from 1 - a to 1 + a times the mean. Good values: 0.5 to 0.8.
    """
    if grid.axes is None:
        raise UsageError(f"a graded grid has axes: got {grid}; give a uniform or rectilinear grid")
    axes = [
        lower + (upper - lower) * grade(torch.linspace(0, 1, n, dtype=torch.float64), grading)
        for n, (lower, upper) in zip(grid.shape, grid.bounds, strict=True)
    ]
    return Grid.rectilinear(*axes, bounds=grid.bounds).to(grid.points.device)
