"""Functions on patches of D, read at points that are not those of the grid they were computed on."""

# DESIGN.md: Reading between patches is exact

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import torch
from torch import Tensor

from operformer.domain.basis import Basis
from operformer.domain.box import Bounds
from operformer.domain.grid import Grid
from operformer.domain.interpolation import check_readable
from operformer.domain.patches import ON_FACE
from operformer.domain.transform import Transform

FILLED = 0.98  # of the box's volume, which weights of points in all of it sum to


def within(grid: Grid, query: Grid) -> Grid:
    """The points of a query as points of the grid's box D, whose patches they lie in; they may fill a part of it."""
    check_readable(grid, query)
    if query.bounds == grid.bounds:
        return query
    lower, upper = torch.tensor(grid.bounds, dtype=torch.float64, device=query.points.device).unbind(-1)
    if query.axes is None:
        return replace(query, points=query.points.clamp(lower, upper), bounds=grid.bounds)
    axes = tuple(axis.clamp(lower[k], upper[k]) for k, axis in enumerate(query.axes))
    return replace(query, axes=axes, bounds=grid.bounds, kind="rectilinear")


def beyond(grid: Grid, query: Grid) -> Tensor:
    """Which points of a query (*query.shape) lie outside the part of the box that scattered points stand for.

    Of a mesh these are the points outside its cells. On a ragged grid the answer is (batch, 1, *query.shape). Without
    cells, weights that do not fill the box are the volumes around nodes: points farther than that from all of them are
    outside. Otherwise those are outside that are farther than 2.5 times the spacing of the points around.
    """
    if grid.counts is not None:
        return torch.stack([beyond(grid.of_sample(k), query).unsqueeze(0) for k in range(len(grid.counts))])
    if grid.cells:
        return ~grid.cells[0].find(grid.points, query.points.reshape(-1, query.dim))[2].reshape(query.shape)
    from scipy.spatial import cKDTree  # here: it takes a fifth of torch's time to import

    is_there = grid.weights.cpu() > 0
    known = grid.points.cpu()[is_there].detach().numpy()
    tree = cKDTree(known)
    if float(grid.weights.sum()) < FILLED * grid.volume:
        spacing, multiple = grid.weights.cpu()[is_there] ** (1 / grid.dim), 1.1
    else:
        neighbours = min(2 * grid.dim + 1, len(known))
        spacing, multiple = torch.from_numpy(tree.query(known, neighbours)[0][:, -1]), 2.5
    distance, nearest = tree.query(query.points.cpu().detach().reshape(-1, query.dim).numpy())
    reach = multiple * spacing.clamp(min=float(spacing.median()))
    return (torch.from_numpy(distance) > reach[torch.from_numpy(nearest)]).reshape(query.shape)


@dataclass(frozen=True, eq=False)
class Translates:
    """The points of a query and their translates in all other patches: where patches are compared point by point.

    They are ``local`` (M_k,) along each axis of a tensor product; of scattered points (N, d), as one "axis".
    """

    n_patches: tuple[int, ...]
    bounds: Bounds
    local: tuple[Tensor, ...]  # coordinates in [0, 1], the same in every patch
    places: tuple[Tensor, ...]  # (2, n_k) in P_k M_k: of each point, the first and the last; on a face it has two

    @property
    def is_scattered(self) -> bool:
        """Whether the points have no axes."""
        return self.local[0].ndim == 2

    def synthesise(self, coefficients: Tensor, basis: Basis, n_modes: tuple[int, ...]) -> Tensor:
        """Functions on all patches at the points: (batch, P, sizes, c) -> (batch, P, *points, c)."""
        return self._synthesis(self._coordinates(), basis, n_modes, coefficients).synthesise(coefficients)

    def part(self, chosen: Tensor) -> Translates:
        """Some of the points along the first axis; their values are to be put together before they are joined."""
        return replace(self, local=(self.local[0][chosen], *self.local[1:]))

    def chunks(self, most: int) -> list[Tensor]:
        """Parts of the first axis that hold no more than so many latent points each, all patches counted."""
        every = torch.arange(len(self.local[0]), device=self.local[0].device)
        return list(every.split(self._per_chunk(most)))

    def _per_chunk(self, most: int) -> int:
        return max(1, most // (prod(len(y) for y in self.local[1:]) * prod(self.n_patches)))

    def _coordinates(self) -> list[Tensor]:
        """Along each axis of D, of the points of one patch."""
        return list(self.local[0].unbind(-1)) if self.is_scattered else list(self.local)

    def _synthesis(self, places: list[Tensor], basis: Basis, n_modes: tuple[int, ...], like: Tensor) -> Transform:
        """Synthesis alone, the same for all patches, at places in [0, 1] along each axis."""
        matrices = [basis.synthesis(y, m) for y, m in zip(places, n_modes, strict=True)]
        if self.is_scattered:
            functions = matrices[0]
            for matrix in matrices[1:]:
                functions = (functions.unsqueeze(-1) * matrix.unsqueeze(-2)).flatten(-2)
            matrices = [functions]
        return Transform(self.n_patches, (), tuple(m.to(like).unsqueeze(0) for m in matrices), None, is_shared=True)

    @property
    def points(self) -> Tensor:
        """Coordinates in D: (P, *points, d)."""
        local = (
            self.local[0] if self.local[0].ndim == 2 else torch.stack(torch.meshgrid(*self.local, indexing="ij"), -1)
        )
        device = local.device
        counts = [torch.arange(count, device=device, dtype=local.dtype) for count in self.n_patches]
        corners = torch.stack(torch.meshgrid(*counts, indexing="ij"), -1).flatten(0, -2)
        lower, upper = torch.tensor(self.bounds, dtype=local.dtype, device=device).unbind(-1)
        corners = corners.reshape(-1, *[1] * (local.ndim - 1), len(self.bounds))
        return lower + (corners + local) * (upper - lower) / local.new_tensor(self.n_patches)

    def join(self, z: Tensor) -> Tensor:
        """(batch, P, *points, c) -> (batch, *shape, c); at points on a face the mean of both patches."""
        if self.is_scattered:
            return z.flatten(1, 2).index_select(1, self.places[0][0].to(z.device))
        d, z = len(self.local), z.unflatten(1, self.n_patches)
        for places in self.places:  # its patches come first, its points after the axes that are done
            z = z.movedim(1, d).flatten(d, d + 1)
            first, last = (z.index_select(d, place.to(z.device)) for place in places)
            z = torch.lerp(first, last, 0.5)
        return z


def translates(query: Grid, n_patches: Sequence[int]) -> Translates:
    """The translates of a query whose bounds are D's."""
    counts = tuple(n_patches)
    if query.axes is None:
        lower, upper = torch.tensor(query.bounds, dtype=torch.float64, device=query.points.device).unbind(-1)
        per_axis = torch.tensor(counts, dtype=torch.float64, device=lower.device)
        position = (query.points - lower) / (upper - lower) * per_axis
        patch = torch.minimum(position.floor(), per_axis - 1).clamp(min=0)
        number = torch.zeros(len(position), dtype=torch.long, device=lower.device)
        for k, count in enumerate(counts):
            number = number * count + patch[:, k].long()
        place = number * len(number) + torch.arange(len(number), device=lower.device)
        return Translates(counts, query.bounds, ((position - patch).clamp(0, 1),), (place.expand(2, -1),))
    made = [_axis_translates(query, k, count) for k, count in enumerate(counts)]
    local, places = zip(*made, strict=True)
    return Translates(counts, query.bounds, local, places)


def _axis_translates(query: Grid, k: int, count: int) -> tuple[Tensor, Tensor]:
    """The distinct local coordinates along an axis, and the two places of each of its points."""
    axis = (query.axes or ())[k]
    lower, upper = query.bounds[k]
    position = count * (axis - lower) / (upper - lower)
    face = position.round()
    is_shared = ((position - face).abs() < ON_FACE) & (face > 0) & (face < count)
    if query.kind == "periodic" and len(axis) % count == 0:  # such patches are half open, as in `axis_patches`
        last = torch.where(is_shared, face, position.floor().clamp(0, count - 1))
        first = last
    else:
        last = torch.where(is_shared, face, position.floor().clamp(0, count - 1))
        first = last - is_shared.to(last.dtype)
    local, places = distinct(torch.stack([position - first, position - last]).clamp(0, 1))
    return local, torch.stack([first, last]).long() * len(local) + places


def distinct(values: Tensor) -> tuple[Tensor, Tensor]:
    """Values that differ by more than rounding, in order, and which of them each one is."""
    ordered, order = values.flatten().sort()
    is_new = torch.cat([torch.ones_like(ordered[:1], dtype=torch.bool), ordered.diff() > ON_FACE])
    which = torch.empty_like(order)
    which[order] = is_new.long().cumsum(0) - 1
    return ordered[is_new], which.unflatten(0, values.shape)
