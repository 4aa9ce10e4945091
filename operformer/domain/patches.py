"""The partition of D into congruent patches, and functions on them (Section 3, equations reshape and unshape).

A patch has points and weights of its own. Where cells or a periodic grid divide evenly, every patch has the same ones
and S_reshape is a reshape. Elsewhere patches are padded to a common size with points of weight zero. A point on a face
belongs to both patches that share it, and S'_reshape takes the mean of its values.
"""

# DESIGN.md: Ragged samples stand where patches do
# DESIGN.md: The partition belongs to the domain

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import ClassVar

import torch
from torch import Tensor

from operformer.domain.grid import Grid
from operformer.domain.samples import is_point
from operformer.errors import UsageError

ON_FACE = 1e-9  # points nearer to a face than this part of a patch lie on it


@dataclass(frozen=True, eq=False)
class AxisPatches:
    """The points of one axis, patch by patch (P, m).

    ``is_even``: no padding, no shared points, and the same ``local`` and ``weights`` in every patch; they stand once.
    """

    members: Tensor  # (P, m), indices of points on the axis
    local: Tensor  # (P or 1, m), coordinates in [0, 1]
    weights: Tensor  # (P or 1, m), 1 in sum for every patch, 0 for padding
    sizes: tuple[int, ...]  # numbers of points without padding
    places: Tensor  # (2, n), the first and the last of all P m places of each point; on a face it has two
    is_even: bool


@dataclass(frozen=True, eq=False)
class TensorPatches:
    """The patches of a tensor product: (batch, *shape, c) as functions on one patch, (batch, P, *points, c)."""

    n_patches: tuple[int, ...]
    shape: tuple[int, ...]
    axes: tuple[AxisPatches, ...]
    is_present: ClassVar[None] = None  # which patches hold points: all of them

    @property
    def volume(self) -> float:
        """|D'|, D scaled to the unit cube."""
        return 1 / prod(self.n_patches)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of the points of one patch."""
        return tuple(axis.members.shape[-1] for axis in self.axes)

    @property
    def is_even(self) -> bool:
        """Whether S_reshape is a reshape."""
        return all(axis.is_even for axis in self.axes)

    def split(self, u: Tensor) -> Tensor:
        """S_reshape: (batch, *shape, c) -> (batch, P, *points, c)."""
        if not self.is_even:
            return _gather(u, self._members, self.local_shape, len(self.shape))
        d = len(self.shape)
        for k, count in enumerate(self.n_patches):
            u = u.unflatten(1 + 2 * k, (count, -1))
        return u.permute(0, *range(1, 2 * d, 2), *range(2, 2 * d + 1, 2), -1).flatten(1, d)

    def join(self, v: Tensor) -> Tensor:
        """S'_reshape: (batch, P, *points, c) -> (batch, *shape, c)."""
        d, v = len(self.axes), v.unflatten(1, self.n_patches)
        if self.is_even:
            order = [axis for k in range(d) for axis in (1 + k, 1 + d + k)]
            return v.permute(0, *order, -1).reshape(v.shape[0], *self.shape, v.shape[-1])
        for axis in self.axes:  # its patches come first, its points after the axes that are done
            v = v.movedim(1, d).flatten(d, d + 1)
            first, last = (v.index_select(d, places.to(v.device)) for places in axis.places)
            v = torch.lerp(first, last, 0.5)
        return v

    @property
    def _members(self) -> Tensor:
        """Which point of the grid those of all axes together are, flattened (P, M)."""
        flat = torch.zeros(1, 1, dtype=torch.long, device=self.axes[0].members.device)
        for axis, size in zip(self.axes, self.shape, strict=True):
            flat = (flat[:, None, :, None] * size + axis.members[None, :, None, :]).flatten(2).flatten(0, 1)
        return flat


@dataclass(frozen=True, eq=False)
class ScatteredPatches:
    """The patches of scattered points: (batch, N, c) as (batch, P, M, c), M the most points that a patch holds."""

    n_patches: tuple[int, ...]
    shape: tuple[int, ...]
    members: Tensor  # (P, M), indices of points
    local: Tensor  # (P, M, d), coordinates in [0, 1]
    weights: Tensor  # (P, M), 1 in sum for every patch that is present
    is_real: Tensor  # (P, M), False for padding
    places: Tensor  # (N,), the place of each point among all P M
    is_present: Tensor  # (P,), whether a patch holds any weight

    @property
    def volume(self) -> float:
        """|D'|, D scaled to the unit cube."""
        return 1 / prod(self.n_patches)

    @property
    def local_shape(self) -> tuple[int, ...]:
        """The shape of the points of one patch."""
        return (self.members.shape[-1],)

    def split(self, u: Tensor) -> Tensor:
        """S_reshape: (batch, N, c) -> (batch, P, M, c)."""
        return _gather(u, self.members, self.local_shape, 1)

    def join(self, v: Tensor) -> Tensor:
        """S'_reshape: (batch, P, M, c) -> (batch, N, c)."""
        return v.flatten(1, 2).index_select(1, self.places.to(v.device))


@dataclass(frozen=True, eq=False)
class RaggedDomain(ScatteredPatches):
    """All of D as one patch, with points of its own for each sample: (batch, N, c) as (1, batch, N, c).

    Samples stand where patches do, since each of them has matrices of its own.
    """

    @property
    def volume(self) -> float:
        """|D'| = |D|, D scaled to the unit cube."""
        return 1.0

    def split(self, u: Tensor) -> Tensor:
        """(batch, N, c) -> (1, batch, N, c)."""
        return u.unsqueeze(0)

    def join(self, v: Tensor) -> Tensor:
        """(1, batch, N, c) -> (batch, N, c)."""
        return v.squeeze(0)


Patches = TensorPatches | ScatteredPatches


def make_patches(grid: Grid, n_patches: Sequence[int], may_be_empty: bool = False) -> Patches:
    """The partition of a grid's domain into ``n_patches`` along each axis.

    Patches without points are refused unless they ``may_be_empty``, as where functions are read and not integrated.
    """
    counts = tuple(n_patches)
    if len(counts) != grid.dim:
        raise UsageError(f"n_patches must have one number for each axis: got {counts} for dimension {grid.dim}")
    if grid.counts is not None:
        return _ragged_domain(grid, counts)
    if grid.axes is None:
        return _scattered_patches(grid, counts)
    axes = tuple(axis_patches(grid, k, count, may_be_empty) for k, count in enumerate(counts))
    return TensorPatches(counts, grid.shape, axes)


def axis_patches(grid: Grid, k: int, count: int, may_be_empty: bool = False) -> AxisPatches:
    """The points along one axis, patch by patch."""
    axis = grid.axes[k] if grid.axes is not None else grid.points[:, k]
    n, device = axis.shape[0], axis.device  # len would fix the size in an exported graph
    if count > n and not may_be_empty:
        raise UsageError(f"axis {k} has {n} points for {count} patches; use at most {n} patches or a finer grid")
    if grid.kind in ("cells", "periodic") and n % count == 0:
        m = n // count
        offset = 0.5 if grid.kind == "cells" else 0.0
        local = (torch.arange(m, dtype=torch.float64, device=device) + offset) / m
        weights = torch.full((1, m), 1 / m, dtype=torch.float64, device=device)
        members = torch.arange(n, device=device).unflatten(0, (count, m))
        places = members.flatten().expand(2, -1)
        return AxisPatches(members, local[None], weights, (m,) * count, places, is_even=True)
    lower, upper = grid.bounds[k]
    position = count * (axis - lower) / (upper - lower)
    if grid.is_uniform:
        return _padded(position, [_ends(grid.kind, n, p, count) for p in range(count)], k, may_be_empty)
    position, index = torch.sort(position)
    made = _padded(position, _searched_ends(position, count), k, may_be_empty)
    return replace(made, members=index[made.members], places=made.places[:, torch.argsort(index)])


def _searched_ends(position: Tensor, count: int) -> list[tuple[int, int]]:
    """The first of the sorted points in each closed patch, and the first one beyond it."""
    patch = torch.arange(count, dtype=torch.float64, device=position.device)
    first = torch.searchsorted(position, patch - ON_FACE).tolist()
    return list(zip(first, torch.searchsorted(position, patch + 1 + ON_FACE, right=True).tolist(), strict=True))


def _ends(kind: str, n: int, patch: int, count: int) -> tuple[int, int]:
    """`_searched_ends` of one of the patches of n uniform points, in exact integers.

    It reads no value of the grid: compilers know every size, and nothing waits for a GPU.
    """
    # Point i is at (2 i + shift) count / length, in patches.
    shift, length = (1 if kind == "cells" else 0), 2 * (n - 1 if kind == "nodes" else n)
    first = -((shift * count - patch * length) // (2 * count))
    last = ((patch + 1) * length - shift * count) // (2 * count)
    return first, min(last + 1, n)


def _padded(position: Tensor, ends: list[tuple[int, int]], k: int, may_be_empty: bool = False) -> AxisPatches:
    """Patches of the sorted positions in [0, count], from one end to the other, padded to the size of the largest."""
    count, widths = len(ends), [beyond - first for first, beyond in ends]
    if min(widths) < 1 and not may_be_empty:
        raise UsageError(
            f"patch {widths.index(min(widths))} of {count} along axis {k} holds no point; use fewer patches or a finer "
            "grid"
        )
    slots = torch.arange(max(widths), device=position.device)
    # Made row by row: a tensor made of a list would be copied from the CPU at every call.
    chosen = torch.stack([first + slots.clamp(max=max(0, beyond - first - 1)) for first, beyond in ends])
    chosen = chosen.clamp(max=len(position) - 1) if may_be_empty else chosen
    real = torch.stack([slots < width for width in widths])
    is_last = torch.stack([slots == width - 1 for width in widths])
    patch = torch.arange(count, dtype=torch.float64, device=position.device)
    local = (position[chosen] - patch[:, None]).clamp(0, 1)
    # Each point stands for the part of the patch that is nearest to it: the trapezoid where both ends are points.
    middles = (local[:, 1:] + local[:, :-1]) / 2
    left = torch.cat([torch.zeros_like(local[:, :1]), middles], 1)
    right = torch.where(is_last, 1.0, torch.cat([middles, torch.ones_like(local[:, :1])], 1))
    weights = torch.where(real, right - left, 0.0)
    places = _places(ends, max(widths), position.device)
    return AxisPatches(chosen, local, weights, tuple(widths), places, is_even=False)


def _places(ends: list[tuple[int, int]], width: int, device: torch.device) -> Tensor:
    """The first and the last place (2, n) of each sorted point among patches of ``width`` places; none has a third."""
    first, last = [], []
    for p, (start, beyond) in enumerate(ends):
        begin = max(start, ends[p - 1][1]) if p else start
        end = min(beyond, ends[p + 1][0]) if p + 1 < len(ends) else beyond
        offset = p * width - start
        first.append(torch.arange(offset + begin, offset + beyond, device=device))
        last.append(torch.arange(offset + start, offset + end, device=device))
    return torch.stack([torch.cat(first), torch.cat(last)])


def _scattered_patches(grid: Grid, counts: tuple[int, ...]) -> ScatteredPatches:
    """Each point lies in one patch. Its weight is the grid's, scaled so that the weights of a patch sum to 1."""
    box = torch.tensor(grid.bounds, dtype=torch.float64, device=grid.points.device)
    per_axis = torch.tensor(counts, dtype=torch.float64, device=box.device)
    position = (grid.points - box[:, 0]) / (box[:, 1] - box[:, 0]) * per_axis
    cell = torch.minimum(position.floor(), per_axis - 1)
    number = torch.zeros(len(position), dtype=torch.long, device=box.device)
    for k, count in enumerate(counts):
        number = number * count + cell[:, k].long()
    sizes = torch.bincount(number, minlength=prod(counts))
    order = torch.argsort(number, stable=True)
    start = torch.cumsum(sizes, 0) - sizes
    slots = torch.arange(int(sizes.max()), device=box.device)
    places = (start[:, None] + torch.minimum(slots, (sizes[:, None] - 1).clamp(min=0))).clamp(max=len(order) - 1)
    members = order[places]
    real = slots < sizes[:, None]
    weights = torch.where(real, grid.weights[members], 0.0)
    total = weights.sum(1, keepdim=True)
    weights = torch.where(total > 0, weights / torch.where(total > 0, total, 1.0), 0.0)
    local = (position - cell)[members].clamp(0, 1)
    rank = torch.argsort(order) - start[number]
    own = number * len(slots) + rank
    return ScatteredPatches(counts, grid.shape, members, local, weights, real, own, is_present=total[:, 0] > 0)


def _ragged_domain(grid: Grid, counts: tuple[int, ...]) -> RaggedDomain:
    """The points of each sample in D; their weights are scaled so that those of a sample sum to 1."""
    if prod(counts) > 1:
        raise UsageError(f"samples on points of their own are not cut into patches: got {counts} patches and {grid}")
    lower, upper = torch.tensor(grid.bounds, dtype=torch.float64, device=grid.points.device).unbind(-1)
    weights, n = grid.weights.squeeze(1), grid.shape[0]
    batch = len(weights)
    every = torch.arange(batch * n, device=lower.device)
    return RaggedDomain(
        (batch,),
        grid.shape,
        members=every.unflatten(0, (batch, n)),
        local=((grid.points - lower) / (upper - lower)).clamp(0, 1),
        weights=weights / weights.sum(-1, keepdim=True),
        is_real=is_point(grid).squeeze(1),
        places=every,
        is_present=torch.ones(batch, dtype=torch.bool, device=lower.device),
    )


def _gather(u: Tensor, members: Tensor, local_shape: tuple[int, ...], n_axes: int) -> Tensor:
    return u.flatten(1, n_axes)[:, members.to(u.device)].unflatten(2, local_shape)
